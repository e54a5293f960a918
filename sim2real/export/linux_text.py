"""C++ of `--target linux`; what stands between @ is filled in by linux_target.py."""

from __future__ import annotations

ROBOT_TEXT = """/* What the program asks of a robot. Fill these in for yours, in your file: `make ROBOT=my_robot.cpp`. */
#ifndef @U@_ROBOT_HPP
#define @U@_ROBOT_HPP

#include "@HPP@"

namespace @P@ {

/* A measurement, SI, members as the C header documents them. */
struct Measured {
    Policy::State state;
@SENSED@    double age; /* s, since it was measured */
};

/* @WHAT@, in the order of the contract. */
using Output = @OUTPUT@;

namespace robot {

/* Connect; false where that fails, after a word on stderr. `where` is the program's argument. */
bool open(const char *where);

/* The newest measurement; false while there is none. With `wait` it waits for the next one, 10 s at most. */
bool read(Measured &now, bool wait);

/* Send an output. */
void write(const Output &output);

/* Bring the robot to its safe state: motors off, joints damped, land. Called at the end, and on every fault. */
void stop(const char *why);

} // namespace robot
} // namespace @P@

#endif /* @U@_ROBOT_HPP */
"""

UDP_TEXT = """/* The functions of @ROBOT@ over UDP, for a demo and for simulators: a datagram of floats in this byte order.

   To the program: a count that grows by 1 (uint32), then Measured's members but `age`, one after the other.
   From it:        the count that it answers (uint32), then the output; a datagram of 4 bytes, 0xFFFFFFFF, says stop. */
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

#include "@ROBOT@"

namespace @P@ {
namespace robot {
namespace {

constexpr std::size_t numbers = (@BYTES@) / sizeof(float);

int handle = -1;
sockaddr_in peer{};
bool heard = false;
std::uint32_t count = 0;
Measured newest{};
std::chrono::steady_clock::time_point when;

/* Take what has arrived; datagrams that came late, twice or in another size are left out. */
void receive()
{
    float values[numbers];
    unsigned char data[4 + sizeof values + 1];
    sockaddr_in from{};
    socklen_t size = sizeof from;
    ssize_t length;

    auto *source = reinterpret_cast<sockaddr *>(&from);

    while ((length = recvfrom(handle, data, sizeof data, MSG_DONTWAIT, source, &size)) >= 0) {
        std::uint32_t number;

        size = sizeof from;
        if (length != static_cast<ssize_t>(4 + sizeof values)) {
            continue;
        }
        std::memcpy(&number, data, 4);
        if (heard && static_cast<std::int32_t>(number - count) <= 0) {
            continue;
        }
        std::memcpy(values, data + 4, sizeof values);
        std::memcpy(static_cast<void *>(&newest), values, sizeof values);
        when = std::chrono::steady_clock::now();
        peer = from;
        count = number;
        heard = true;
    }
}

} // namespace

bool open(const char *where)
{
    sockaddr_in address{};
    char *end = nullptr;
    const long port = std::strtol(where, &end, 10);

    if (end == where || *end != '\\0' || port < 1 || port > 65535) {
        std::fprintf(stderr, "%s is no UDP port: give a number from 1 to 65535.\\n", where);
        return false;
    }
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK); /* this machine alone */
    handle = socket(AF_INET, SOCK_DGRAM, 0);
    if (handle < 0 || bind(handle, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
        std::fprintf(stderr, "cannot listen on UDP port %ld (%s): give another one.\\n", port, std::strerror(errno));
        return false;
    }
    return true;
}

bool read(Measured &now, bool wait)
{
    const std::uint32_t before = count;

    receive();
    if (wait && count == before) {
        pollfd waiting{handle, POLLIN, 0};

        poll(&waiting, 1, 10000);
        receive();
    }
    now = newest;
    now.age = std::chrono::duration<double>(std::chrono::steady_clock::now() - when).count();
    return heard && (!wait || count != before);
}

void write(const Output &output)
{
    unsigned char data[4 + sizeof output];

    std::memcpy(data, &count, 4);
    std::memcpy(data + 4, output.data(), sizeof output);
    sendto(handle, data, sizeof data, 0, reinterpret_cast<const sockaddr *>(&peer), sizeof peer);
}

void stop(const char *)
{
    const std::uint32_t end = 0xFFFFFFFFu;

    for (int i = 0; heard && i < 3; i++) {
        sendto(handle, &end, sizeof end, 0, reinterpret_cast<const sockaddr *>(&peer), sizeof peer);
    }
}

} // namespace robot
} // namespace @P@
"""

LOOP_TEXT = """/* Runs the policy at a fixed rate: measured state in, @WHAT@ out, through the functions of @ROBOT@.

       loop WHERE [--lockstep] [--seconds S] [--stale S]

   WHERE goes to robot::open. --lockstep: a step for each measurement that arrives, for simulators; else by the clock, with
   absolute deadlines. --stale: s, the oldest measurement that is acted on (.1). It ends in the safe state: status 0 after S
   seconds or a signal, 3 where the network answers otherwise than in training, 4 for a fault, 2 for wrong arguments. */
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <sys/mman.h>

#include "@GOLDEN@"
#include "@ROBOT@"

namespace {

constexpr int most_missed = 10; /* deadlines in a row */
constexpr double first_measurement = 10.0; /* s, how long it waits for one */

volatile std::sig_atomic_t asked_to_stop = 0;

void on_signal(int) { asked_to_stop = 1; }

double seconds_now()
{
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void sleep_until(double when)
{
    timespec t{};
    t.tv_sec = static_cast<time_t>(std::floor(when));
    t.tv_nsec = static_cast<long>(1e9 * (when - std::floor(when)));
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr) == EINTR && asked_to_stop == 0) {
    }
}

struct Options {
    const char *where = nullptr;
    bool lockstep = false;
    double seconds = 0.0; /* 0: until a signal */
    double stale = 0.1;
};

bool parse(int count, char **words, Options &out)
{
    for (int i = 1; i < count; i++) {
        if (std::strcmp(words[i], "--lockstep") == 0) {
            out.lockstep = true;
        } else if ((std::strcmp(words[i], "--seconds") == 0 || std::strcmp(words[i], "--stale") == 0) && i + 1 < count) {
            char *end = nullptr;
            const double value = std::strtod(words[i + 1], &end);

            if (end == words[i + 1] || *end != '\\0' || !(value > 0.0) || !std::isfinite(value)) {
                return false;
            }
            (words[i][3] == 'e' ? out.seconds : out.stale) = value;
            i++;
        } else if (words[i][0] != '-' && out.where == nullptr) {
            out.where = words[i];
        } else {
            return false;
        }
    }
    return out.where != nullptr;
}

class Run {
public:
    explicit Run(const Options &options) : options_(options) {}

    /* Until the end: the reason, nullptr where all went well. */
    const char *operator()()
    {
        using namespace @P@;
        Policy policy;
@LOOPS@        Policy::Command command{};
        Output output{};
        Measured now{};
        const char *fault = wait_for_first(now);

        if (fault != nullptr) {
            return fault;
        }
        const double start = seconds_now();
        bool begun = false;
        int missed = 0;

        for (long step = 0; asked_to_stop == 0; step++) {
            const double deadline = start + static_cast<double>(step) * dt;

            if (!options_.lockstep) {
                sleep_until(deadline);
                const double late = seconds_now() - deadline;
                worst_late_ = late > worst_late_ ? late : worst_late_;
                missed = late > dt ? missed + 1 : 0;
                all_missed_ += late > dt;
                if (missed > most_missed) {
                    return "deadlines are missed";
                }
            }
            if (options_.seconds > 0.0 && static_cast<double>(step) * dt >= options_.seconds) {
                break;
            }
            if (step > 0 || !options_.lockstep) {
                const bool heard = robot::read(now, options_.lockstep);
                if (asked_to_stop != 0) {
                    break;
                }
                if (!heard || now.age > options_.stale) {
                    return "the measurements are stale";
                }
            }
            oldest_ = now.age > oldest_ ? now.age : oldest_;
            if (!begun) {
@BEGIN@                begun = true;
            }
            if (step % steps == 0) {
                if (!policy.step(now.state, command)) {
                    return "a measurement is not a number";
                }
@TAKE@            }
            @ACT@
            for (const float value : output) {
                if (!std::isfinite(value)) {
                    return "an output is not a number";
                }
            }
            robot::write(output);
            steps_done_ = step + 1;
        }
        return nullptr;
    }

    void report() const
    {
        std::printf(
            "{\\"steps\\": %ld, \\"missed_deadlines\\": %ld, \\"worst_late_s\\": %.6f, \\"oldest_measurement_s\\": %.6f}\\n",
            steps_done_, all_missed_, worst_late_, oldest_);
    }

private:
    static constexpr double dt = static_cast<double>(@DT@);
    static constexpr long steps = @STEPS@;

    const char *wait_for_first(@P@::Measured &now) const
    {
        const double begun = seconds_now();

        while (!@P@::robot::read(now, true) || now.age > options_.stale) {
            if (asked_to_stop != 0) {
                return "it was stopped before the first measurement";
            }
            if (seconds_now() - begun > first_measurement) {
                return "no measurement came";
            }
        }
        return nullptr;
    }

    Options options_;
    long steps_done_ = 0;
    long all_missed_ = 0;
    double worst_late_ = 0.0;
    double oldest_ = 0.0;
};

} // namespace

int main(int count, char **words)
{
    Options options;

    if (!parse(count, words, options)) {
        std::fprintf(stderr, "usage: %s WHERE [--lockstep] [--seconds S] [--stale S]\\n", words[0]);
        return 2;
    }
    if (!(@P@_golden_error() <= @U@_GOLDEN_MOST)) {
        std::fprintf(stderr, "the network answers otherwise than in training: compile it without -ffast-math.\\n");
        return 3;
    }
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    sched_param priority{};
    priority.sched_priority = 50;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0 || sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        std::fprintf(stderr, "without real-time priority (%s): deadlines may be missed under load.\\n", std::strerror(errno));
    }
    if (!@P@::robot::open(options.where)) {
        return 4;
    }
    Run run(options);
    const char *fault = run();

    @P@::robot::stop(fault == nullptr ? "the end" : fault);
    run.report();
    if (fault != nullptr) {
        std::fprintf(stderr, "stopped: %s.\\n", fault);
        return 4;
    }
    return 0;
}
"""
