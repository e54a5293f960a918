#include "entry.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frames.hpp"

namespace flight {
namespace {

constexpr double climb = 0.5;        /* m/s, at which position set-points move */
constexpr double slow = 0.2;         /* m/s */
constexpr double settled = 0.5;      /* s, that it must hold */
constexpr double stand = 2.0;        /* s, from the pose in which a robot is found to its home pose */
constexpr double stand_still = 0.6;  /* s, from a policy's last targets to its home pose */
constexpr double stiffen = 0.5;      /* s, in which the servos' stiffness rises or falls */
constexpr double near_home = 0.4;    /* rad, of every joint: soft servos give way under the weight */

class TakeOff final : public Entry {
public:
    explicit TakeOff(const Robot &robot)
        : position_(robot.find("position")->at), velocity_(robot.find("velocity")->at), rotation_(robot.find("rotation")->at),
          target_(robot.find("target") != nullptr)
    {
    }

    void begin(const Reading &reading, double now) override
    {
        const float *q = at(reading, rotation_);
        yaw_ = euler({q[0], q[1], q[2], q[3]}).z;
        for (int i = 0; i < 3; i++) {
            goal_[i] = from_[i] = at(reading, position_)[i];
        }
        goal_[2] += take_off;
        began_ = now;
        since_ = -1.0;
    }

    void enter(Link &link, double now) override
    {
        const double place[] = {from_[0], from_[1], from_[2] + std::min(take_off, climb * (now - began_))};
        link.go_to(place, yaw_);
    }

    bool entered(const Reading &reading, double now) override
    {
        double away = 0.0, speed = 0.0;
        for (int i = 0; i < 3; i++) {
            away += std::pow(at(reading, position_)[i] - goal_[i], 2);
            speed += std::pow(at(reading, velocity_)[i], 2);
        }
        if (!(std::sqrt(away) <= near && std::sqrt(speed) <= slow)) {
            since_ = -1.0;
            return false;
        }
        since_ = since_ < 0.0 ? now : since_;
        return now - since_ >= settled;
    }

    void begin_exit(const Reading &reading, double now, const float *) override
    {
        for (int i = 0; i < 3; i++) {
            goal_[i] = at(reading, position_)[i];
        }
        began_ = now;
    }

    bool leave(Link &link, const Reading &reading, double now) override
    {
        if (reading.landed == Known::yes) {
            return true;
        }
        /* past the ground, until the vehicle itself says that it stands */
        const double place[] = {goal_[0], goal_[1], goal_[2] - climb * (now - began_)};
        link.go_to(place, yaw_);
        return false;
    }

    const double *target() const override { return target_ ? goal_ : nullptr; }

private:
    static const float *at(const Reading &reading, int place) { return &reading.values[static_cast<std::size_t>(place)]; }

    int position_, velocity_, rotation_;
    bool target_;
    double from_[3] = {}, goal_[3] = {};
    double yaw_ = 0.0, began_ = 0.0, since_ = -1.0;
};

class StandUp final : public Entry {
public:
    explicit StandUp(const Robot &robot)
        : robot_(robot), angles_(static_cast<std::size_t>(robot.find("joint angles")->at)),
          count_(static_cast<std::size_t>(robot.joint_count)), home_(count_), found_(count_), sent_(count_), from_(count_), kp_(count_),
          kd_(count_)
    {
        for (std::size_t i = 0; i < count_; i++) {
            home_[i] = found_[i] = sent_[i] = robot.joints[i].home;
            kd_[i] = robot.joints[i].kd;
        }
    }

    void begin(const Reading &reading, double now) override
    {
        std::copy_n(&reading.values[angles_], count_, found_.begin());
        sent_ = found_;
        start(now, {Move{stiffen, &found_, 0.0, 1.0}, Move{stand, &home_, 1.0, 1.0}, Move{0.0, &home_, 1.0, 1.0}});
    }

    void enter(Link &link, double now) override { move(link, now); }

    bool entered(const Reading &reading, double now) override
    {
        if (now - began_ < stiffen + stand + settled) {
            return false;
        }
        for (std::size_t i = 0; i < count_; i++) {
            if (!(std::fabs(reading.values[angles_ + i] - home_[i]) < near_home)) {
                return false;
            }
        }
        return true;
    }

    void begin_exit(const Reading &, double now, const float *command) override
    {
        /* from its targets: from the measured angles, soft servos would let go of the weight at once */
        for (std::size_t i = 0; command != nullptr && i < count_; i++) {
            const Joint &joint = robot_.joints[i];
            sent_[i] = std::min(std::max(command[joint.component], joint.lower), joint.upper);
        }
        start(now, {Move{stand_still, &home_, 1.0, 1.0}, Move{stand, &found_, 1.0, 1.0}, Move{stiffen, &found_, 1.0, 0.0}});
    }

    bool leave(Link &link, const Reading &, double now) override { return move(link, now); }

private:
    /* A smooth move, while the share of the servos' stiffness goes from one value to another. */
    struct Move {
        double seconds;
        const std::vector<float> *end;
        double gain, gain_end;
    };

    using Moves = std::array<Move, 3>;

    void start(double now, const Moves &moves)
    {
        moves_ = moves;
        from_ = sent_;
        began_ = now;
    }

    /* A step of the moves; true when they are over. */
    bool move(Link &link, double now)
    {
        const std::vector<float> *start = &from_;
        double time = now - began_, gain = 0.0;
        bool over = true;
        for (const Move &one : moves_) {
            const double share = one.seconds > 0.0 ? std::min(1.0, time / one.seconds) : 1.0;
            const double smooth = share * share * (3.0 - 2.0 * share);
            for (std::size_t i = 0; i < count_; i++) {
                sent_[i] = (*start)[i] + static_cast<float>(smooth) * ((*one.end)[i] - (*start)[i]);
            }
            gain = one.gain + smooth * (one.gain_end - one.gain);
            if (share < 1.0) {
                over = false;
                break;
            }
            start = one.end;
            time -= one.seconds;
        }
        for (std::size_t i = 0; i < count_; i++) {
            kp_[i] = static_cast<float>(gain) * robot_.joints[i].kp;
        }
        link.hold_joints(sent_.data(), kp_.data(), kd_.data());
        return over;
    }

    const Robot &robot_;
    std::size_t angles_, count_;
    std::vector<float> home_, found_, sent_, from_, kp_, kd_;
    Moves moves_{};
    double began_ = 0.0;
};

} // namespace

std::unique_ptr<Entry> make_entry(const Robot &robot, const Identity &identity)
{
    if (!identity.entry) {
        return nullptr;
    }
    if (robot.family == Family::multirotor) {
        return std::make_unique<TakeOff>(robot);
    }
    if (!robot.holds_joints) {
        throw Refused("the contract moves joints otherwise than by angles that are held, so there is no way to stand up: its link must bring it "
                      "to the policy's beginning (Identity::entry).");
    }
    return std::make_unique<StandUp>(robot);
}

} // namespace flight
