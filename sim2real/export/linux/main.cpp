/* Flies a bundle without Python: see usage below. Status: 0 it came down as asked, 1 a fault ended the flight, 2 nothing moved
   (arguments, a vehicle that does not fit or answer), 3 the network answers otherwise than in training. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "log.hpp"
#include "pilot.hpp"

namespace flight {
namespace {

constexpr const char *usage =
    "usage: %s URL [--seconds S] [--command NAME=V,V,...] [--safety FILE] [--controls FILE] [--log FILE.mcap]\n"
    "       %s --describe | --help\n"
    "URL is mavlink://:14540, udp://:9000, or of a link of yours. The report goes to the standard output as JSON, changes of state\n"
    "to the standard error. SIGINT ends the policy and comes down; a second one, and SIGTERM, come down at once.\n";

constexpr double late_share = 0.5;     /* of the period, past its deadline, at which a step counts as missed */
constexpr double watch_period = 0.01;  /* s */
constexpr int loop_priority = 50, watchdog_priority = 60; /* the watchdog's is above: a policy that spins must not keep it out */

Operator by;

void on_signal(int number)
{
    by.stop = by.stop != 0 || by.finish != 0 || number == SIGTERM;
    by.finish = 1;
}

/* Counts of a time in steps of its resolution; nothing allocates. */
class Histogram {
public:
    explicit Histogram(double resolution) : resolution_(resolution), counts_(1 << 16) {}

    void add(double seconds)
    {
        const double place = seconds > 0.0 ? seconds / resolution_ : 0.0;
        counts_[static_cast<std::size_t>(std::min(place, static_cast<double>(counts_.size() - 1)))]++;
        greatest_ = std::max(greatest_, seconds);
        total_++;
    }

    /* "[median, 99th percentile, greatest]" in s times `unit`. */
    std::string spread(double unit) const
    {
        char text[96];
        std::snprintf(text, sizeof text, "[%.4f, %.4f, %.4f]", unit * share(0.5), unit * share(0.99), unit * greatest_);
        return text;
    }

private:
    double share(double of) const
    {
        long below = 0;
        for (std::size_t i = 0; i < counts_.size(); i++) {
            below += counts_[i];
            if (total_ > 0 && static_cast<double>(below) >= of * static_cast<double>(total_)) {
                return std::min(resolution_ * static_cast<double>(i + 1), greatest_);
            }
        }
        return 0.0;
    }

    double resolution_, greatest_ = 0.0;
    std::vector<long> counts_;
    long total_ = 0;
};

struct Options {
    std::string url, safety, controls, log;
    double seconds = 30.0;
    std::map<std::string, std::vector<float>> commands;
};

double parse_number(const std::string &text, const char *what)
{
    char *end = nullptr;
    const double out = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !std::isfinite(out)) {
        throw Refused(std::string(what) + ", got " + text + ".");
    }
    return out;
}

void parse_command(const std::string &word, Options &out)
{
    constexpr const char *form = "--command must be NAME=number,number,...";
    const std::size_t equals = word.rfind('=');
    if (equals == std::string::npos) {
        throw Refused(std::string(form) + ", got " + word + ".");
    }
    std::vector<float> values;
    for (std::size_t at = equals + 1; at <= word.size();) {
        const std::size_t end = std::min(word.find(',', at), word.size());
        values.push_back(static_cast<float>(parse_number(word.substr(at, end - at), form)));
        at = end + 1;
    }
    out.commands[word.substr(0, equals)] = values;
}

Options parse(const std::vector<std::string> &words)
{
    Options out;
    for (std::size_t i = 0; i < words.size(); i++) {
        const std::string &word = words[i];
        const bool takes = word == "--seconds" || word == "--command" || word == "--safety" || word == "--controls" || word == "--log";
        if (takes && i + 1 == words.size()) {
            throw Refused(word + " wants a value.");
        }
        if (!takes && (word[0] == '-' || !out.url.empty())) {
            throw Refused("there is no option " + word + ": see --help.");
        }
        const std::string value = takes ? words[++i] : "";
        if (word == "--seconds") {
            out.seconds = parse_number(value, "--seconds must be a number");
        } else if (word == "--command") {
            parse_command(value, out);
        } else if (word == "--safety") {
            out.safety = value;
        } else if (word == "--controls") {
            out.controls = value;
        } else if (word == "--log") {
            out.log = value;
        } else {
            out.url = word;
        }
    }
    if (out.url.empty() || !(out.seconds > 0.0)) {
        throw Refused("give the vehicle's URL, and --seconds above 0: see --help.");
    }
    return out;
}

bool prioritise(pthread_t thread, int priority)
{
    sched_param param{};
    param.sched_priority = priority;
    return pthread_setschedparam(thread, SCHED_FIFO, &param) == 0;
}

/* Judges from a thread of its own whether the policy's step returns. */
class Watchdog {
public:
    Watchdog(Pilot &pilot, Link &link, bool prompt) : pilot_(pilot), link_(link), thread_([this] { run(); })
    {
        if (prompt) {
            prioritise(thread_.native_handle(), watchdog_priority);
        }
    }

    ~Watchdog()
    {
        over_ = true;
        thread_.join();
    }

private:
    void run()
    {
        MonotonicClock clock;
        for (double due = clock.now(); !over_; due += watch_period) {
            const bool stepped = link_.clock() != nullptr;
            double now = clock.now();
            if (stepped) {
                link_.wait_for_look(now);
            } else {
                clock.wait_until(due);
                now = clock.now();
                due = std::max(due, now - watch_period);
            }
            if (now >= 0.0 && pilot_.look(now)) {
                std::fprintf(stderr, "the policy's step never returned: the vehicle's own fail-safe has it.\n");
                _exit(1);
            }
            if (stepped && now >= 0.0) {
                link_.looked(static_cast<int>(pilot_.phase()), pilot_.fault());
            }
        }
    }

    Pilot &pilot_;
    Link &link_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

/* Steps the pilot by absolute deadlines, and keeps what the machine made of them. */
class Loop {
public:
    Loop(Pilot &pilot, Link &link, Clock &clock, Log *log) : pilot_(pilot), link_(link), clock_(clock), log_(log) {}

    void run()
    {
        const double period = pilot_.period();
        double due = clock_.now();
        int late_steps = 0;
        for (;;) {
            const double begun = clock_.now(), began = monotonic();
            const double late = begun - due;
            late_steps = late > late_share * period ? late_steps + 1 : 0;
            missed_ += late > late_share * period;
            steps_++;
            late_.add(late);
            const Step step = pilot_.step(late_steps);
            seen(step);
            cycle_.add(monotonic() - began - step.network);
            link_.stepped(static_cast<int>(step.phase), step.fault);
            if (pilot_.done()) {
                return;
            }
            /* deadlines that have passed are left out, not made up for */
            due += period * std::max(1.0, std::floor((clock_.now() - due) / period));
            if (!clock_.wait_until(due)) {
                std::fprintf(stderr, "the simulator has ended.\n");
                return;
            }
        }
    }

    void report(const Options &options, const Robot &robot, long left_out) const
    {
        const int fault = pilot_.fault();
        char distance[96] = "null, \"largest_distance_m\": null";
        if (distances_ > 0) {
            std::snprintf(distance, sizeof distance, "%.6f, \"largest_distance_m\": %.6f", distance_ / static_cast<double>(distances_), largest_);
        }
        const std::string name = fault == SAFETY_OK ? "null" : std::string("\"") + fault_names[fault] + "\"";
        std::printf("{\"vehicles\": [{\"link\": %s, \"family\": \"%s\", \"policy_s\": %.3f, \"distance_m\": %s, \"fault\": %s}], "
                    "\"timing\": {\"steps\": %ld, \"missed\": %ld, \"jitter_ms\": %s, \"age_ms\": %s, \"cycle_us\": %s}, "
                    "\"log_left_out\": %ld}\n",
                    quoted(options.url.c_str()).c_str(), family_names[static_cast<int>(robot.family)],
                    static_cast<double>(flown_) * pilot_.period(), distance, name.c_str(), steps_, missed_, late_.spread(1e3).c_str(),
                    age_.spread(1e3).c_str(), cycle_.spread(1e6).c_str(), left_out);
    }

private:
    void seen(const Step &step)
    {
        if (step.measured) {
            age_.add(step.now - step.reading->received);
        }
        if (step.phase == Phase::policy) {
            flown_++;
            if (step.distance >= 0.0) {
                distance_ += step.distance;
                largest_ = std::max(largest_, step.distance);
                distances_++;
            }
        }
        if (log_ != nullptr) {
            log_->write(step);
        }
    }

    Pilot &pilot_;
    Link &link_;
    Clock &clock_;
    Log *log_;
    Histogram late_{1e-6}, age_{2e-6}, cycle_{1e-7};
    long steps_ = 0, missed_ = 0, flown_ = 0, distances_ = 0;
    double distance_ = 0.0, largest_ = 0.0;
};

void describe()
{
    const Robot &r = robot();
    std::printf("%s, agent group %s, written by Rookery %s: action %s, %d numbers every %g s; loops every %g s, %d outputs\n", r.task, r.group,
                r.version, r.kind, r.commands, r.control_dt, r.loop_dt, r.actuators);
    for (int i = 0; i < r.quantity_count; i++) {
        const Quantity &q = r.quantities[i];
        const bool command = std::strcmp(q.name, "target") == 0 || std::strncmp(q.name, "commanded ", 10) == 0;
        std::printf("%s: %d (%s), %s\n", q.name, q.size, q.unit, command ? "command" : q.needed ? "measured" : "measured, not needed");
    }
    for (int i = 0; i < r.range_count; i++) {
        const CommandRange &range = r.ranges[i];
        std::printf("%s was in training", r.quantities[range.quantity].name);
        for (int k = 0; k < r.quantities[range.quantity].size; k++) {
            std::printf("%s %g to %g", k == 0 ? "" : ",", static_cast<double>(range.low[k]), static_cast<double>(range.high[k]));
        }
        std::printf("%s%s\n", range.origin < 0 ? "" : " from ", range.origin < 0 ? "" : r.quantities[range.origin].name);
    }
}

int fly(const Options &options)
{
    Settings settings = settings_of(robot());
    if (!options.safety.empty()) {
        read_settings(settings, robot(), options.safety);
    }
    if (!options.controls.empty()) {
        settings.ranges = read_ranges(options.controls);
    }
    const std::unique_ptr<Link> link = make_link(options.url, robot());
    MonotonicClock machine;
    Clock &clock = link->clock() == nullptr ? machine : *link->clock();
    Pilot pilot(robot(), controller(), *link, settings, clock, by, options.seconds);
    std::unique_ptr<Log> log;
    if (!options.log.empty()) {
        log = std::make_unique<Log>(options.log, robot());
    }
    pilot.check(options.commands);
    if (by.finish != 0) {
        throw Refused("stopped before anything moved.");
    }
    if (log) {
        log->begin(pilot.measured());
    }
    Loop loop(pilot, *link, clock, log.get());
    const bool stepped = link->clock() != nullptr;
    const bool prompt = !stepped && prioritise(pthread_self(), loop_priority);
    {
        const Watchdog watchdog(pilot, *link, prompt);
        /* what there is now: MCL_FUTURE would let later allocations fail at a limit of locked memory, in flight */
        const bool locked = mlockall(MCL_CURRENT) == 0;
        if (!stepped && !(locked && prompt)) {
            std::fprintf(stderr, "no real-time priority or locked memory, so other programs of this machine may delay the loop: run it as "
                                 "root, or allow rtprio and memlock in /etc/security/limits.conf.\n");
        }
        pilot.start();
        loop.run();
    }
    const long left_out = log ? log->end() : 0;
    if (left_out != 0) {
        std::fprintf(stderr, left_out < 0 ? "the flight log could not be written to its end.\n" : "the disk was too slow for the whole flight log.\n");
    }
    loop.report(options, robot(), left_out);
    return pilot.fault() == SAFETY_OK && !pilot.entry_failed() ? 0 : 1;
}

} // namespace
} // namespace flight

int main(int count, char **words)
{
    using namespace flight;
    if (count == 2 && std::strcmp(words[1], "--help") == 0) {
        std::printf(usage, words[0], words[0]);
        return 0;
    }
    if (count == 2 && std::strcmp(words[1], "--describe") == 0) {
        describe();
        return 0;
    }
    if (!(controller().golden_error() <= controller().golden_most())) {
        std::fprintf(stderr, "the network answers otherwise than in training: compile it without -ffast-math.\n");
        return 3;
    }
    struct sigaction action{};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    try {
        return fly(parse(std::vector<std::string>(words + 1, words + count)));
    } catch (const Refused &refused) {
        std::fprintf(stderr, "%s\n", refused.what());
        return 2;
    }
}
