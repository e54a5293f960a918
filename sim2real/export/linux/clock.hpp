/* Clocks of the loop: the machine's, and those of simulators. */
#ifndef FLIGHT_CLOCK_HPP
#define FLIGHT_CLOCK_HPP

#include <cerrno>
#include <cmath>
#include <ctime>

namespace flight {

/* Seconds since some moment, never going back. */
class Clock {
public:
    virtual ~Clock() = default;
    virtual double now() const = 0;

    /* Return at `moment`, or at once where it has passed; false where time has ended. */
    virtual bool wait_until(double moment) = 0;
};

inline double monotonic()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

class MonotonicClock final : public Clock {
public:
    double now() const override { return monotonic(); }

    bool wait_until(double moment) override
    {
        timespec t{};
        t.tv_sec = static_cast<time_t>(std::floor(moment));
        t.tv_nsec = static_cast<long>(1e9 * (moment - std::floor(moment)));
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR) {
        }
        return true;
    }
};

} // namespace flight

#endif
