/* The pilot of one vehicle: a state, and what happens in it at every step of the loop.

       idle -> checked -> armed -> entry -> policy -> exit -> idle
                                      \        |       /
                                       +-- emergency --+

   The safety filter is asked first, in every state in which motors may turn; what it finds leads to emergency, which is left
   only for idle, when the vehicle is down. The watchdog, in another thread, judges whether the policy's own step returns: by the
   stamp that the step sets, never by packets. */
#ifndef FLIGHT_PILOT_HPP
#define FLIGHT_PILOT_HPP

#include <atomic>
#include <csignal>
#include <map>
#include <mutex>
#include <string>

#include "entry.hpp"
#include "link.hpp"
#include "settings.hpp"

namespace flight {

enum class Phase : int { idle, checked, armed, entry, policy, exit, emergency };
extern const char *const phase_names[];

/* What the operator asks; signals set it. */
struct Operator {
    volatile std::sig_atomic_t stop = 0;   /* come down now */
    volatile std::sig_atomic_t finish = 0; /* end the policy, and leave by the exit */
};

/* A step, for the log and the statistics. */
struct Step {
    double now = 0.0;
    Phase phase = Phase::idle;
    bool measured = false;           /* `reading` holds a measurement */
    const Reading *reading = nullptr;
    const float *command = nullptr;  /* the policy's; null in other states */
    int fault = SAFETY_OK;
    double distance = -1.0;          /* m, to the target; below 0 where there is none */
    double network = 0.0;            /* s, that calls of the link took */
};

/* A link whose calls are timed, so that a step's cost without them is known. Of the calls in a step alone. */
class TimedLink final : public Link {
public:
    explicit TimedLink(Link &link) : link_(link) {}

    Identity open() override { return link_.open(); }
    bool read(Reading &reading) override { return timed([&] { return link_.read(reading); }); }
    void arm() override { timed([&] { link_.arm(); }); }
    void disarm() override { timed([&] { link_.disarm(); }); }
    void engage() override { timed([&] { link_.engage(); }); }
    void write(const float *command) override { timed([&] { link_.write(command); }); }
    void write_actuators(const float *a) override { timed([&] { link_.write_actuators(a); }); }
    void react(Reaction reaction) override { timed([&] { link_.react(reaction); }); }
    void go_to(const double *p, double yaw) override { timed([&] { link_.go_to(p, yaw); }); }
    void hold_joints(const float *q, const float *kp, const float *kd) override { timed([&] { link_.hold_joints(q, kp, kd); }); }

    double seconds = 0.0; /* of all calls since it was set to 0 */

private:
    template <typename Call> auto timed(Call call) -> decltype(call())
    {
        struct Timer {
            double &sum;
            double begun;
            ~Timer() { sum += monotonic() - begun; }
        } const timer{seconds, monotonic()};
        return call();
    }

    Link &link_;
};

class Pilot {
public:
    Pilot(const Robot &robot, Controller &controller, Link &link, const Settings &settings, const Clock &clock, const Operator &by, double seconds);

    /* Open the link and hold the contract against the vehicle; Refused for a line that does not fit.
       `given`: values of quantities that no vehicle measures, by name or its beginning. */
    void check(const std::map<std::string, std::vector<float>> &given);

    /* Ask the vehicle to arm; the steps that follow take it through the entry to the policy. */
    void start();

    /* A step of the loop; `late` of them in a row began late. */
    Step step(int late);

    /* The watchdog's look; true where the policy's step hangs. */
    bool look(double now);

    bool done() const { return phase() == Phase::idle; }
    Phase phase() const { return static_cast<Phase>(phase_.load()); }
    int fault() const { return fault_.load(); }
    /* whether the entry took too long, so that the policy has not acted */
    bool entry_failed() const { return entry_failed_; }
    double period() const;

    /* True for each quantity that the vehicle measures. */
    const std::vector<bool> &measured() const { return measured_; }

private:
    struct Filter; /* places of the quantities that the filter judges */

    Identity identify(const std::map<std::string, std::vector<float>> &given);
    void check_quantities(const Identity &identity, const std::vector<bool> &commanded);
    std::vector<bool> take_commands(const std::map<std::string, std::vector<float>> &given, const Identity &identity);
    const Quantity &quantity_for(const std::string &name, const std::map<std::string, std::vector<float>> &given) const;
    void take_ranges(const std::vector<bool> &commands);
    void take_range(const Span &span, int quantity);
    void check_ranges(const std::vector<bool> &commands);
    void check_range(const CommandRange &range) const;
    const float *held_values();
    void refuse(const std::string &line, const std::string &wants, const std::string &has) const;

    int judge(double now, int late);
    void armed(double now);
    void enter(double now);
    void begin_policy(double now);
    const float *fly(double now);
    void leave(double now);
    bool halts(double now);
    void begin_exit(double now);
    void react(double now);
    void emergency(int fault, double now);
    void to(Phase next, double now, const std::string &why = "");
    void say(Phase phase, const std::string &why) const;
    const float *place(int at) const { return at < 0 ? nullptr : &reading_.values[static_cast<std::size_t>(at)]; }

    const Robot &robot_;
    Controller &controller_;
    const Link &robot_link_;
    TimedLink link_;
    Settings settings_;
    const Clock &clock_;
    const Operator &operator_;
    double seconds_;
    safety_limits limits_;
    safety_memory memory_{};
    Reading reading_;
    std::unique_ptr<Entry> entry_;
    std::vector<bool> measured_;
    std::vector<float> command_, actuators_;
    std::vector<CommandRange> ranges_; /* in force: the contract's, or the operator's in settings_ */
    std::vector<float> held_;    /* all values, commands within their ranges */
    std::vector<bool> told_;     /* of each range, that a command was held within it */
    std::timed_mutex link_mutex_; /* held by whoever calls the link */
    std::atomic<int> phase_{static_cast<int>(Phase::idle)}, fault_{SAFETY_OK};
    bool entry_failed_ = false;
    std::atomic<double> policy_stamp_{-1.0}; /* s, when the policy's step last returned; below 0 while none is due */
    const Quantity *velocity_ = nullptr; /* a command that says how to walk */
    int target_ = -1, position_ = -1, moves_ = -1, rotation_ = -1, angular_velocity_ = -1, angles_ = -1, torques_ = -1, speeds_ = -1, external_ = -1;
    bool target_given_ = false, begun_ = false, sitting_ = false, commanded_ = false;
    long armed_steps_ = 0, policy_steps_ = 0;
    double since_ = 0.0, hung_at_ = -1.0, halted_ = -1.0;
};

} // namespace flight

#endif
