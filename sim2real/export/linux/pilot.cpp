#include "pilot.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace flight {

const char *const phase_names[] = {"idle", "checked", "armed", "entry", "policy", "exit", "emergency"};

namespace {

constexpr double most_arming = 5.0;  /* s, for a vehicle to arm and to follow set-points */
constexpr double most_entry = 15.0;  /* s, for a take-off or to stand up */
constexpr double lost = 10.0;        /* s without measurements in an emergency after which nobody can tell what became of it */
constexpr double halt = 1.0;         /* s, for a robot that can walk to stand before it leaves: held in mid-stride, its joints tip it over */
constexpr double most_exit = 15.0;   /* s, to come down before the reaction to a fault does it */
constexpr double fresh = 1.0;        /* s, age of what a vehicle says about itself */
constexpr long ask_again = 50;       /* steps */

/* Never waits for a buffer, and takes a line of any length. */
void say_line(const std::string &line)
{
    char text[256];
    const int size = std::snprintf(text, sizeof text, "%s\n", line.c_str());
    (void)!write(STDERR_FILENO, text, static_cast<std::size_t>(size < 255 ? size : 255));
}

} // namespace

Pilot::Pilot(const Robot &robot, Controller &controller, Link &link, const Settings &settings, const Clock &clock, const Operator &by, double seconds)
    : robot_(robot), controller_(controller), robot_link_(link), link_(link), settings_(settings), clock_(clock), operator_(by), seconds_(seconds),
      limits_(filter_limits(robot, settings.limits)), measured_(static_cast<std::size_t>(robot.quantity_count)),
      command_(static_cast<std::size_t>(robot.commands)), actuators_(static_cast<std::size_t>(robot.actuators)),
      ranges_(robot.ranges, robot.ranges + robot.range_count), held_(static_cast<std::size_t>(robot.values)), told_(ranges_.size())
{
    reading_.values.resize(static_cast<std::size_t>(robot.values));
}

double Pilot::period() const { return robot_link_.takes_actuators() ? robot_.loop_dt : robot_.control_dt; }

void Pilot::start()
{
    safety_reset(&memory_);
    to(Phase::armed, clock_.now());
    link_.arm();
}

Step Pilot::step(int late)
{
    Step out;
    out.now = clock_.now();
    const std::lock_guard<std::timed_mutex> hold(link_mutex_);
    link_.seconds = 0.0;
    out.measured = link_.read(reading_);
    out.reading = &reading_;
    if (!out.measured) {
        if (out.now - since_ > most_arming && phase() != Phase::idle) {
            emergency(SAFETY_SILENT, out.now);
            to(Phase::idle, out.now, "no measurement came");
        }
    } else {
        if (phase() != Phase::emergency && phase() != Phase::idle) {
            const int fault = judge(out.now, late);
            if (fault != SAFETY_OK) {
                emergency(fault, out.now);
            }
        }
        switch (phase()) {
        case Phase::emergency: react(out.now); break;
        case Phase::armed: armed(out.now); break;
        case Phase::entry: enter(out.now); break;
        case Phase::policy: out.command = fly(out.now); break;
        case Phase::exit: leave(out.now); break;
        default: break;
        }
    }
    out.phase = phase();
    out.fault = fault();
    out.network = link_.seconds;
    if (target_ >= 0 && position_ >= 0 && target_given_) {
        const float *a = place(target_), *b = place(position_);
        out.distance = std::sqrt(std::pow(a[0] - b[0], 2) + std::pow(a[1] - b[1], 2) + std::pow(a[2] - b[2], 2));
    }
    return out;
}

int Pilot::judge(double now, int late)
{
    const bool flying = phase() == Phase::policy;
    const bool follows = flying || phase() == Phase::entry;
    safety_sample s{};
    s.now = now;
    s.heard = robot_link_.heard;
    s.received = reading_.received;
    s.measured = reading_.measured;
    s.policy = flying ? policy_stamp_.load() : -1.0;
    s.ground = reading_.ground < 0.0 ? 0.0 : now - reading_.ground;
    s.battery = static_cast<double>(reading_.battery);
    s.misses = late;
    s.operator_stop = operator_.stop != 0;
    s.disarmed = follows && reading_.armed == Known::no;
    s.count = robot_.values;
    s.values = reading_.values.data();
    s.position = place(position_);
    s.velocity = place(moves_);
    s.target = flying ? place(target_) : nullptr;
    s.rotation = place(rotation_);
    s.angular_velocity = place(angular_velocity_);
    s.joint_position = place(angles_);
    s.joint_torque = place(torques_);
    s.joint_velocity = place(speeds_);
    s.external_torque = place(external_);
    return safety_check(&limits_, &memory_, &s, nullptr);
}

void Pilot::armed(double now)
{
    if (reading_.armed == Known::no) {
        if (now - since_ > most_arming) {
            emergency(SAFETY_SILENT, now);
        } else if (++armed_steps_ % ask_again == 0) {
            link_.arm();
        }
        return;
    }
    if (entry_ == nullptr) {
        begin_policy(now);
        return;
    }
    entry_->begin(reading_, now);
    begun_ = true;
    to(Phase::entry, now);
    enter(now);
}

void Pilot::enter(double now)
{
    entry_->enter(link_, now);
    if (!reading_.engaged) {
        link_.engage();
    }
    if (entry_->entered(reading_, now) && reading_.engaged) {
        const double *goal = entry_->target();
        for (int i = 0; goal != nullptr && target_ >= 0 && !target_given_ && i < 3; i++) {
            reading_.values[static_cast<std::size_t>(target_ + i)] = static_cast<float>(goal[i]);
        }
        begin_policy(now);
    } else if (operator_.finish != 0 || now - since_ > most_entry) {
        entry_failed_ = operator_.finish == 0;
        begin_exit(now);
        to(Phase::exit, now, operator_.finish != 0 ? "" : "the entry took more than 15 s");
    }
}

void Pilot::begin_policy(double now)
{
    target_given_ = target_given_ || target_ >= 0;
    controller_.begin();
    policy_steps_ = 0;
    halted_ = -1.0;
    std::fill(told_.begin(), told_.end(), false);
    to(Phase::policy, now);
    policy_stamp_ = now;
}

const float *Pilot::fly(double now)
{
    if ((now - since_ >= seconds_ || operator_.finish != 0) && !halts(now)) {
        begin_exit(now);
        to(Phase::exit, now);
        leave(now);
        return nullptr;
    }
    const bool actuators = robot_link_.takes_actuators();
    const int each = actuators ? robot_.loop_steps : 1;
    if (policy_steps_++ % each == 0) {
        const float *values = held_values();
        link_mutex_.unlock(); /* the watchdog must come through while the policy's step runs */
        const bool finite = controller_.step(values, command_.data());
        link_mutex_.lock();
        if (phase() != Phase::policy) { /* it has taken over meanwhile */
            return nullptr;
        }
        policy_stamp_ = clock_.now();
        if (!finite || safety_command(&limits_, &memory_, command_.data()) != SAFETY_OK) {
            emergency(SAFETY_COMMAND, now);
            react(now);
            return nullptr;
        }
        if (actuators && policy_steps_ == 1) {
            controller_.begin_loops(reading_.values.data());
        }
        if (actuators) {
            controller_.take(reading_.values.data(), command_.data());
        }
    }
    commanded_ = true;
    if (!actuators) {
        link_.write(command_.data());
        return command_.data();
    }
    controller_.actuate(reading_.values.data(), command_.data(), actuators_.data());
    for (const float value : actuators_) {
        if (!std::isfinite(value)) {
            emergency(SAFETY_COMMAND, now);
            react(now);
            return nullptr;
        }
    }
    link_.write_actuators(actuators_.data());
    return command_.data();
}

/* All values, with commands held within what the policy was trained with, wherever they come from. */
const float *Pilot::held_values()
{
    std::copy(reading_.values.begin(), reading_.values.end(), held_.begin());
    for (std::size_t i = 0; i < ranges_.size(); i++) {
        const CommandRange &range = ranges_[i];
        const Quantity &q = robot_.quantities[range.quantity];
        const bool stands = &q == velocity_ && halted_ >= 0.0; /* it is about to leave, whatever the range is */
        if (stands || (range.origin >= 0 && !measured_[static_cast<std::size_t>(range.origin)])) {
            continue;
        }
        const float *about = range.origin < 0 ? nullptr : place(robot_.quantities[range.origin].at);
        const int changed = safety_hold(&held_[static_cast<std::size_t>(q.at)], range.low, range.high, about, q.size);
        if (changed > 0 && !told_[i]) {
            told_[i] = true;
            say_line(std::string(q.name) + " is held within what the policy was trained with");
        }
    }
    return held_.data();
}

/* True while a robot that can walk comes to a stand before it leaves. */
bool Pilot::halts(double now)
{
    if (velocity_ == nullptr) {
        return false;
    }
    const auto first = reading_.values.begin() + velocity_->at;
    std::fill(first, first + velocity_->size, 0.0f);
    halted_ = halted_ < 0.0 ? now : halted_;
    return now - halted_ < halt;
}

void Pilot::begin_exit(double now)
{
    if (entry_ != nullptr) {
        entry_->begin_exit(reading_, now, commanded_ ? command_.data() : nullptr);
    }
    commanded_ = false;
}

void Pilot::leave(double now)
{
    if (entry_ == nullptr) {
        link_.react(first_reaction(robot_));
        if (reading_.landed != Known::no) {
            link_.disarm();
            to(Phase::idle, now);
        }
    } else if (entry_->leave(link_, reading_, now)) {
        link_.disarm();
        to(Phase::idle, now);
    } else if (now - since_ > most_exit) {
        emergency(SAFETY_OPERATOR, now);
    }
}

void Pilot::emergency(int fault, double now)
{
    if (phase() == Phase::emergency) {
        return;
    }
    fault_ = fault;
    to(Phase::emergency, now, std::string(fault_texts[fault]) + ": " + reaction_names[static_cast<int>(settings_.reactions[fault])]);
}

void Pilot::react(double now)
{
    const Reaction reaction = settings_.reactions[fault()];
    if (reaction == Reaction::sit && begun_) {
        if (!sitting_) {
            begin_exit(now);
            sitting_ = true;
        }
        if (entry_->leave(link_, reading_, now)) {
            link_.react(Reaction::damp);
        }
    } else { /* it would hold for ever: the operator's stop ends it */
        link_.react(reaction == Reaction::hold && operator_.stop != 0 ? Reaction::damp : reaction);
    }
    const bool told = now - reading_.received < fresh;
    if (told && reading_.armed == Known::no) {
        to(Phase::idle, now);
    } else if (told && reading_.landed == Known::yes) {
        link_.disarm();
        if (reading_.armed == Known::unknown) {
            to(Phase::idle, now);
        }
    } else if (now - reading_.received > lost) {
        to(Phase::idle, now, "lost: no measurement for 10 s, and its own fail-safe has it");
    }
}

bool Pilot::look(double now)
{
    const double stamp = policy_stamp_.load();
    int flying = static_cast<int>(Phase::policy);
    const bool late = limits_.policy_s > 0.0 && stamp >= 0.0 && stamp < now - limits_.policy_s;
    if (hung_at_ < 0.0 && !(late && phase() == Phase::policy)) {
        return false;
    }
    if (!link_mutex_.try_lock_for(std::chrono::milliseconds(5))) {
        return stamp >= 0.0 && now - stamp > lost; /* a call of the link hangs: there is nothing to send by */
    }
    const std::lock_guard<std::timed_mutex> hold(link_mutex_, std::adopt_lock);
    const Reaction reaction = settings_.reactions[SAFETY_HUNG];
    if (phase_.compare_exchange_strong(flying, static_cast<int>(Phase::emergency))) {
        fault_ = SAFETY_HUNG;
        policy_stamp_ = -1.0;
        hung_at_ = now;
        say(Phase::emergency, std::string(fault_texts[SAFETY_HUNG]) + ": " + reaction_names[static_cast<int>(reaction)]);
    }
    if (phase() != Phase::emergency || fault() != SAFETY_HUNG) {
        hung_at_ = -1.0; /* it came down */
        return false;
    }
    link_.react(reaction == Reaction::sit ? Reaction::damp : reaction);
    return now - hung_at_ > lost;
}

void Pilot::to(Phase next, double now, const std::string &why)
{
    if (next == phase()) {
        return;
    }
    phase_ = static_cast<int>(next);
    since_ = now;
    armed_steps_ = 0;
    if (next != Phase::policy) {
        policy_stamp_ = -1.0;
    }
    say(next, why);
}

void Pilot::say(Phase phase, const std::string &why) const
{
    say_line(phase_names[static_cast<int>(phase)] + (why.empty() ? "" : " (" + why + ")"));
}

} // namespace flight
