/* The interface between the loop and a robot. A link of your own is a class and a line that gives its protocol a name: see
   example_link.cpp, and build it by `make LINKS=my_link.cpp`. */
#ifndef FLIGHT_LINK_HPP
#define FLIGHT_LINK_HPP

#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "clock.hpp"
#include "robot.hpp"

namespace flight {

/* The reason why nothing moves, in one sentence. Thrown before motors turn, never later. */
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Known : signed char { unknown = -1, no = 0, yes = 1 };

/* The newest measurements of a vehicle. */
struct Reading {
    double received = 0.0; /* s, the loop's clock when they arrived */
    double measured = 0.0; /* s, the vehicle's own clock when they were taken */
    float battery = -1.0f; /* share that is left; below 0 where it is not told */
    Known armed = Known::unknown;  /* motors may turn */
    Known landed = Known::unknown; /* it stands on the ground */
    bool engaged = false;          /* it follows this link's set-points */
    double ground = -1.0;          /* s, the loop's clock when the newest map of the ground arrived; below 0: it sees none */
    std::vector<float> values;     /* of all quantities, see Robot; a link writes those that it measures */
};

/* A vehicle's report about itself, before it is armed. */
struct Identity {
    Family family = Family::multirotor;
    std::string name;
    std::vector<std::string> kinds;      /* action kinds that it takes */
    std::vector<std::string> quantities; /* that it measures */
    double rate = 0.0;                   /* Hz, the highest at which it takes commands */
    std::vector<std::string> joints;     /* in its order */
    bool entry = true; /* it takes set-points of position (multirotors) or of joints, by which it comes to a policy's beginning */
};

/* The parts of protocol://host:port/path?option=value. */
struct Address {
    std::string url, protocol, host, path;
    int port = 0; /* 0 where it is left out */
    std::map<std::string, std::string> options;

    double number(const char *option, double otherwise) const;

    /* Refuse options that the protocol does not have. */
    void allow(std::initializer_list<const char *> names) const;
};

/* A connection to one vehicle. Calls never overlap, and none but `open` may wait: a deadline is at stake. */
class Link {
public:
    virtual ~Link() = default;

    /* Find the vehicle and ask who it is; Refused where nobody answers. */
    virtual Identity open() = 0;

    /* Take all that has arrived into `reading`, which is that of the call before; false before the first measurement. */
    virtual bool read(Reading &reading) = 0;

    /* Ask that motors may turn (Reading::armed says when), that they stop, that this link's set-points be followed. */
    virtual void arm() = 0;
    virtual void disarm() = 0;
    virtual void engage() = 0;

    /* Send a policy's command, in the units and frames of the contract's action; */
    virtual void write(const float *command) = 0;

    /* or, where `takes_actuators`, motor commands or targets of servos, every loop_dt. */
    virtual bool takes_actuators() const { return false; }
    virtual void write_actuators(const float *) {}

    /* Bring the vehicle to a safe state; called in every step until it is there, once from another thread if need be. */
    virtual void react(Reaction reaction) = 0;

    /* Set-points of entry and exit: m and rad, world axes; */
    virtual void go_to(const double *, double) {}

    /* angles, stiffness and damping in the contract's order of joints. */
    virtual void hold_joints(const float *, const float *, const float *) {}

    /* The state (see phase_names) and the fault after every step, for robots that show it. */
    virtual void stepped(int, int) {}

    /* For simulators that step the loop: its clock, null for the machine's; the moment of the watchdog's next look, below 0
       where there is none yet; and the end of that look. The two latter are called by the watchdog's thread. */
    virtual Clock *clock() { return nullptr; }
    virtual void wait_for_look(double &now) { now = -1.0; }
    virtual void looked(int, int) {}

    double heard = -std::numeric_limits<double>::infinity(); /* s, the loop's clock when anything last arrived */
};

/* A protocol's name in addresses, and the function that makes its link. Write one line of it in a link's file. */
using MakeLink = std::unique_ptr<Link> (*)(const Address &address, const Robot &robot);

struct Protocol {
    Protocol(const char *name, MakeLink make);
};

/* The link of an address, not yet open; Refused where there is no such protocol. */
std::unique_ptr<Link> make_link(const std::string &url, const Robot &robot);

Address parse_address(const std::string &url);

} // namespace flight

#endif
