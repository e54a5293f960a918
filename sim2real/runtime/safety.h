/*
 * The safety filter of Rookery's runtime: conditions under which a policy must not go on, and limits of what it commands.
 *
 * C99, no allocation, no static data. The Python loop calls this file through ctypes, the C++ loop includes it: both decide by
 * the same code. Times are seconds of one monotonic clock, lengths meters, angles radians; quaternions are w, x, y, z and take
 * body axes to world axes; world: x east, y north, z up.
 */
#ifndef ROOKERY_SAFETY_H
#define ROOKERY_SAFETY_H

#define SAFETY_JOINTS 64
#define SAFETY_COMMANDS 64

#ifdef __cplusplus
extern "C" {
#endif

/* What is wrong, the worst first: `safety_check` reports the first that holds. */
enum safety_fault {
    SAFETY_OK = 0,
    SAFETY_OPERATOR,     /* the operator asked for a stop */
    SAFETY_NOT_FINITE,   /* a measured value is NaN or infinite */
    SAFETY_SILENT,       /* nothing has arrived from the vehicle, not even a heartbeat */
    SAFETY_STALE,        /* the newest measurement is too old */
    SAFETY_FROZEN,       /* measurements arrive and never change, or place and velocity do not in flight */
    SAFETY_CLOCK,        /* the vehicle's clock went back, or ran away from ours */
    SAFETY_GROUND,       /* the map of the ground is too old */
    SAFETY_HUNG,         /* the policy's step has not returned in time */
    SAFETY_TILT,         /* the body leans too far, or its attitude is no rotation */
    SAFETY_FENCE,        /* too far from the target */
    SAFETY_HEIGHT,       /* too low or too high */
    SAFETY_SPIN,         /* the body turns too fast */
    SAFETY_JUMP,         /* place or attitude moved farther between two measurements than their rates lead to */
    SAFETY_JOINT,        /* a joint is outside its limits */
    SAFETY_TORQUE,       /* a joint pushes harder than its limit */
    SAFETY_SPEED,        /* a joint moves faster than its limit */
    SAFETY_COLLISION,    /* a joint meets more torque from outside than it may */
    SAFETY_DISARMED,     /* the vehicle no longer follows set-points */
    SAFETY_DEADLINE,     /* too many control steps in a row began late */
    SAFETY_BATTERY,      /* the battery is low */
    SAFETY_COMMAND,      /* the policy's command is NaN or infinite */
    SAFETY_FAULTS
};

/* Limits; a value of 0 (times, counts) or an infinity (quantities) switches a condition off. */
typedef struct {
    double stale_s;       /* since a measurement arrived */
    double silent_s;      /* since anything arrived */
    double frozen_s;      /* that measurements arrive and do not differ */
    double clock_s;       /* how far the vehicle's clock may run from ours since the beginning */
    double policy_s;      /* since the policy's last step */
    double ground_s;      /* age of a map of the ground */
    double tilt;          /* rad, between body z and world z */
    double fence;         /* m, from the target */
    double lowest;        /* m, of the body */
    double highest;       /* m */
    double spin;          /* rad/s, size of the angular velocity */
    double jump;          /* m, of the position from where the mean velocity of two measurements leads */
    double jump_angle;    /* rad, of the attitude from where the mean angular velocity of two measurements leads */
    double battery;       /* share that is left */
    int misses;           /* late control steps in a row */
    int joints;
    int commands;
    float joint_low[SAFETY_JOINTS];
    float joint_high[SAFETY_JOINTS];
    float torque[SAFETY_JOINTS];
    float speed[SAFETY_JOINTS];
    float external[SAFETY_JOINTS]; /* torque from outside */
    float command_low[SAFETY_COMMANDS];
    float command_high[SAFETY_COMMANDS];
    float command_step[SAFETY_COMMANDS]; /* largest change in a control step */
} safety_limits;

/* What the vehicle and the loop say now. Pointers may be null where the robot has no such thing. */
typedef struct {
    double now;
    double heard;         /* when anything last arrived */
    double received;      /* when the newest measurement arrived */
    double measured;      /* the vehicle's own clock at that measurement */
    double policy;        /* when the policy's step last returned; negative before its first */
    double ground;        /* age of the newest map of the ground and of the place in it; 0 where the policy sees none */
    double battery;       /* share that is left; negative: not known */
    int misses;           /* late control steps in a row */
    int operator_stop;
    int disarmed;         /* it should follow set-points, and says that it does not */
    int count;            /* of `values` */
    const float *values;  /* all that is measured, side by side */
    const float *position;
    const float *velocity;         /* world axes */
    const float *target;
    const float *rotation;
    const float *angular_velocity; /* body axes */
    const float *joint_position;
    const float *joint_torque;
    const float *joint_velocity;
    const float *external_torque;
} safety_sample;

/* What the filter remembers. */
typedef struct {
    double measured;      /* of the sample before */
    double changed;       /* when a measurement last differed */
    double offset;        /* our clock - the vehicle's, at the first sample */
    double kept;          /* the vehicle's clock at the measurement below */
    double placed;        /* when place or velocity last differed */
    unsigned long long digest;
    unsigned long long place; /* digest of place and velocity */
    int begun;
    int moves;            /* whether position and velocity are known */
    int turns;            /* whether rotation and angular velocity are */
    int commanded;        /* whether `last` holds a command */
    float position[3];
    float velocity[3];
    float rotation[4];
    float angular_velocity[3];
    float last[SAFETY_COMMANDS];
} safety_memory;

void safety_reset(safety_memory *memory);

/* The first fault that holds, SAFETY_OK for none; `where` (may be null) gets the index of the value or joint concerned. */
int safety_check(const safety_limits *limits, safety_memory *memory, const safety_sample *sample, int *where);

/* Hold a command within its limits and its largest change; SAFETY_COMMAND and no change where it is not finite. */
int safety_command(const safety_limits *limits, safety_memory *memory, float *command);

/* Hold `count` values that are asked for within what the policy was trained with; `about` (may be null) is what low and high are
   relative to. How many have changed; a NaN stays as it is. */
int safety_hold(float *asked, const float *low, const float *high, const float *about, int count);

#ifdef __cplusplus
}
#endif

#endif
