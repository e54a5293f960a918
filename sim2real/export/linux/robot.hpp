/* The robot as the bundle's contract describes it, and its policy as the loop steps it. bundle.cpp, which Rookery generates,
   has both; all other files of this folder are the same for every bundle. */
#ifndef FLIGHT_ROBOT_HPP
#define FLIGHT_ROBOT_HPP

#include "safety.h"

namespace flight {

/* A measured quantity or a command, a part of the array of all values. */
struct Quantity {
    const char *name; /* as the contract has it, SI, in its frames and its order of joints */
    const char *unit;
    int size;
    int at;      /* first index */
    bool needed; /* by the policy, its loops or the entry */
};

/* Values of a told quantity that the policy was trained with. */
struct CommandRange {
    int quantity; /* index in the robot's table, as is `origin` */
    const float *low, *high;
    int origin; /* a measured place that low and high are relative to; -1: the value itself is meant */
};

enum class Family { multirotor, joints, arm };
extern const char *const family_names[3];

/* A driven joint, in the contract's order; rad (m), N m/rad, N m s/rad. */
struct Joint {
    const char *name;
    float home, lower, upper, kp, kd;
    int component; /* of the command */
};

/* What a fault leads to, in the order of reaction_names. */
enum class Reaction { land, stop, damp, hold, sit };
constexpr int reactions = 5;
extern const char *const reaction_names[reactions];

/* Limits of the safety filter, by the names of a safety file's [limits]; docs/fly.md has what each means. */
struct Limits {
    double stale_ms, silent_ms, frozen_ms, clock_ms, policy_ms, ground_ms;
    double misses; /* a whole number */
    double tilt_deg, fence_m, lowest_m, highest_m, spin_deg_s, jump_m, jump_deg, battery, collision, command_change;
};

struct Robot {
    const char *task;
    const char *group;
    const char *version;  /* of the Rookery that wrote it */
    const char *contract; /* JSON */
    const char *schema;   /* JSON schema of a message of the flight log */
    Family family;
    const char *kind; /* of the action */
    double control_dt; /* s */
    double loop_dt;    /* s, of the loops below the policy; 0 where there are none */
    int loop_steps;    /* in a control step */
    int actuators;     /* outputs of the loops */
    const Quantity *quantities;
    int quantity_count;
    int values; /* of all quantities */
    const CommandRange *ranges;
    int range_count;
    const Joint *joints;
    int joint_count;
    bool holds_joints; /* commands are angles of joints that a servo can hold */
    double weight;      /* N, of a multirotor */
    double most_thrust; /* N, collective */
    Limits limits;
    int commands;
    const float *command_low;
    const float *command_high;
    const float *joint_low; /* measured angles, limits of the contract and a margin */
    const float *joint_high;
    const float *joint_torque;
    const float *joint_speed;
    const float *drive_torque; /* limits of the contract */

    /* The quantity of a name; null where there is none. */
    const Quantity *find(const char *name) const;
};

/* The policy and the loops below it; nothing allocates. `values` are those of all quantities. */
class Controller {
public:
    virtual ~Controller() = default;

    /* Begin an episode. */
    virtual void begin() = 0;

    /* A control step: the command in physical units. False where the policy's action is not finite. */
    virtual bool step(const float *values, float *command) = 0;

    /* The loops below, for links that take actuators: after the first reading of an episode, */
    virtual void begin_loops(const float *values) = 0;

    /* once a control step, */
    virtual void take(const float *values, const float *command) = 0;

    /* and every loop_dt. */
    virtual void actuate(const float *values, const float *command, float *actuators) = 0;

    /* Largest difference of the network's answers here from those in training, and the largest that is rounding. */
    virtual float golden_error() const = 0;
    virtual float golden_most() const = 0;
};

const Robot &robot();
Controller &controller();

} // namespace flight

#endif
