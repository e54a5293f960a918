/* How a vehicle comes to where a policy can begin, and safely down again. A multirotor takes off to a height over where it
   stands and comes down by position set-points of its own controller. A jointed robot stiffens and moves to its home pose, and
   goes back to the pose in which it was found, where it is let go. */
#ifndef FLIGHT_ENTRY_HPP
#define FLIGHT_ENTRY_HPP

#include <memory>

#include "link.hpp"

namespace flight {

constexpr double take_off = 1.0; /* m, height over the start, where a multirotor's policy begins */
constexpr double near = 0.1;     /* m, from a set-point that counts as there */

class Entry {
public:
    virtual ~Entry() = default;

    /* Motors may turn. */
    virtual void begin(const Reading &reading, double now) = 0;

    /* A step on the way in. */
    virtual void enter(Link &link, double now) = 0;

    /* True when the policy can begin. */
    virtual bool entered(const Reading &reading, double now) = 0;

    /* The policy has ended; `command` is its last one, null where it gave none since the entry. */
    virtual void begin_exit(const Reading &reading, double now, const float *command) = 0;

    /* A step on the way down; true when motors may stop. */
    virtual bool leave(Link &link, const Reading &reading, double now) = 0;

    /* Where a policy's target is, m, where nobody says otherwise; null for none. */
    virtual const double *target() const { return nullptr; }
};

/* Of a robot that comes there by this link's set-points; null where the vehicle sees to that itself. */
std::unique_ptr<Entry> make_entry(const Robot &robot, const Identity &identity);

} // namespace flight

#endif
