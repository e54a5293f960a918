/* udp://HOST:PORT: simulators and programs of your own, by datagrams of little-endian numbers.

   To the program, 32 bytes and the values:
       u32 0x31524B52 ("RKR1"); u32 count, which grows by 1;
       f64 now, s, the loop's clock, with lockstep=1 alone; f64 measured, s, the vehicle's clock;
       f32 battery, share that is left, below 0: not told;
       u8 what: 0 nothing arrived, 1 only a sign of life, 2 a measurement; i8 armed, i8 landed: 1, 0, -1 not told;
       u8 engaged; then f32 each of the quantities that `loop --describe` calls measured, one after the other, where `what` is 2.
   From it, 12 bytes and the numbers, to whoever was heard last:
       u32 0x31434B52 ("RKC1"); u32 count that it answers; u8 what: 1 arm, 2 disarm, 3 engage, 4 command, 5 actuators, 6 go to
       (x, y, z, yaw), 7 joints (angles, stiffness, damping), 8 react, 9 step done, 10 look done; u8 detail: the reaction of 8,
       the state of 9 and 10; u16 fault, 0 for none; f32 each number.

   Options: actuators=1: motor commands, or targets of servos, every loop_dt, and no entry: the vehicle is where the policy can
   begin. give=commands: targets and other commands come from the simulator. lockstep=1: time passes by datagrams, a step for
   each, which 9 ends; the watchdog looks by datagrams of 16 bytes to PORT + 1 (u32 0x314C4B52, u32 count, f64 now), 10 ends it. */
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "link.hpp"
#include "udp.hpp"

namespace flight {
namespace {

constexpr std::uint32_t to_us = 0x31524B52, from_us = 0x31434B52, look_at = 0x314C4B52;
constexpr std::size_t head = 32, answer_head = 12;
constexpr double gone = 60.0; /* s without a datagram in lock-step after which the simulator has ended */

enum What : std::uint8_t { ARM = 1, DISARM, ENGAGE, COMMAND, ACTUATORS, GO_TO, JOINTS, REACT, STEP_DONE, LOOK_DONE };

template <typename T> T number(const unsigned char *at)
{
    T out;
    std::memcpy(&out, at, sizeof out);
    return out;
}

class SimulatorLink final : public Link, private Clock {
public:
    SimulatorLink(const Address &address, const Robot &robot)
        : address_(address), robot_(robot), lockstep_(address.number("lockstep", 0.0) != 0.0),
          actuators_(address.number("actuators", 0.0) != 0.0)
    {
        address.allow({"lockstep", "actuators", "give"});
        const auto give = address.options.find("give");
        if (give != address.options.end() && give->second != "commands") {
            throw Refused(address.url + ": give is commands, or left out.");
        }
        if (address.port == 0 || address.port == 65535) {
            throw Refused(address.url + " has no port: give a number from 1 to 65534, such as udp://:9000.");
        }
        if (actuators_ && robot.loop_steps == 0) {
            throw Refused(address.url + ": this bundle has no loops below the policy; leave actuators=1 out.");
        }
        for (int i = 0; i < robot.quantity_count; i++) {
            if (give != address.options.end() || !is_command(robot.quantities[i].name)) {
                given_.push_back(&robot.quantities[i]);
                size_ += static_cast<std::size_t>(robot.quantities[i].size);
            }
        }
        buffer_.resize(head + 4 * size_ + 1);
        const std::size_t joints = 3 * static_cast<std::size_t>(robot.joint_count);
        answer_.resize(answer_head + 4 * std::max({joints, static_cast<std::size_t>(robot.commands), static_cast<std::size_t>(robot.actuators), std::size_t{4}}));
    }

    Identity open() override
    {
        const std::string host = address_.host.empty() ? "127.0.0.1" : address_.host;
        udp_.listen(host, address_.port, address_.url);
        if (lockstep_) {
            looks_.listen(host, address_.port + 1, address_.url);
        }
        for (const double begun = monotonic(); count_ == 0 && monotonic() - begun < 10.0;) {
            udp_.wait(0.05);
            receive();
        }
        if (count_ == 0) {
            throw Refused(address_.url + ": nothing came from a simulator (10 s waited).");
        }
        Identity out;
        out.family = robot_.family;
        out.name = "simulator";
        out.kinds = {robot_.kind};
        for (const Quantity *q : given_) {
            out.quantities.push_back(q->name);
        }
        out.rate = 1e9;
        for (int i = 0; i < robot_.joint_count; i++) {
            out.joints.push_back(robot_.joints[i].name);
        }
        out.entry = !actuators_ && (robot_.family == Family::multirotor || robot_.holds_joints);
        return out;
    }

    bool read(Reading &reading) override
    {
        if (!lockstep_) {
            receive();
        }
        if (received_ < 0.0) {
            return false;
        }
        if (fresh_) {
            const unsigned char *from = newest_.data() + head;
            for (const Quantity *q : given_) {
                std::memcpy(&reading.values[static_cast<std::size_t>(q->at)], from, 4 * static_cast<std::size_t>(q->size));
                from += 4 * q->size;
            }
            reading.measured = number<double>(&newest_[16]);
            reading.battery = number<float>(&newest_[24]);
            reading.armed = known(newest_[29]);
            reading.landed = known(newest_[30]);
            reading.engaged = newest_[31] != 0;
            reading.received = received_;
            fresh_ = false;
        }
        return true;
    }

    void arm() override { send(ARM); }
    void disarm() override { send(DISARM); }
    void engage() override { send(ENGAGE); }
    void write(const float *command) override { send(COMMAND, command, static_cast<std::size_t>(robot_.commands)); }
    bool takes_actuators() const override { return actuators_; }
    void write_actuators(const float *a) override { send(ACTUATORS, a, static_cast<std::size_t>(robot_.actuators)); }
    void react(Reaction reaction) override { send(REACT, nullptr, 0, static_cast<int>(reaction)); }

    void go_to(const double *p, double yaw) override
    {
        const float values[] = {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), static_cast<float>(yaw)};
        send(GO_TO, values, 4);
    }

    void hold_joints(const float *q, const float *kp, const float *kd) override
    {
        const std::size_t n = static_cast<std::size_t>(robot_.joint_count);
        std::memcpy(&answer_[answer_head], q, 4 * n);
        std::memcpy(&answer_[answer_head + 4 * n], kp, 4 * n);
        std::memcpy(&answer_[answer_head + 8 * n], kd, 4 * n);
        send(JOINTS, nullptr, 3 * n);
    }

    Clock *clock() override { return lockstep_ ? static_cast<Clock *>(this) : nullptr; }

    void wait_for_look(double &now) override
    {
        unsigned char data[32];
        double received = 0.0;
        if (!looks_.wait(0.2) || looks_.receive(data, sizeof data, looker_, received) != 16 || number<std::uint32_t>(data) != look_at) {
            now = -1.0;
            return;
        }
        look_ = number<std::uint32_t>(data + 4);
        now = number<double>(data + 8);
    }

    void looked(int phase, int fault) override
    {
        unsigned char data[answer_head];
        fill(data, look_, LOOK_DONE, phase, fault);
        looks_.send(data, sizeof data, looker_);
    }

    void stepped(int phase, int fault) override
    {
        if (lockstep_) {
            send(STEP_DONE, nullptr, 0, phase, fault);
        }
    }

private:
    static Known known(unsigned char byte) { return byte == 1 ? Known::yes : byte == 0 ? Known::no : Known::unknown; }

    static bool is_command(const char *name) { return std::strcmp(name, "target") == 0 || std::strncmp(name, "commanded ", 10) == 0; }

    double now() const override { return now_; }

    /* The next datagram is the next moment. */
    bool wait_until(double) override
    {
        const std::uint32_t before = count_;
        for (const double begun = monotonic(); count_ == before;) {
            udp_.wait(0.2);
            receive();
            if (monotonic() - begun > gone) {
                return false;
            }
        }
        return true;
    }

    void receive()
    {
        sockaddr_in from{};
        double received = 0.0;
        for (long length; (length = udp_.receive(buffer_.data(), buffer_.size(), from, received)) >= 0;) {
            take(static_cast<std::size_t>(length), from, received);
            if (lockstep_) {
                return; /* one at a time */
            }
        }
    }

    void take(std::size_t length, const sockaddr_in &from, double received)
    {
        if (length < head || number<std::uint32_t>(buffer_.data()) != to_us || buffer_[28] > 2 ||
            length != head + (buffer_[28] == 2 ? 4 * size_ : 0)) {
            return;
        }
        const std::uint32_t count = number<std::uint32_t>(&buffer_[4]);
        const double now = number<double>(&buffer_[8]);
        if ((count_ != 0 && static_cast<std::int32_t>(count - count_) <= 0) || (lockstep_ && !(now >= now_))) {
            return; /* late, twice, or time that goes back */
        }
        count_ = count;
        peer_ = from;
        if (lockstep_) {
            now_ = received = now;
        }
        heard = buffer_[28] > 0 ? received : heard;
        if (buffer_[28] == 2) {
            received_ = received;
            newest_ = buffer_;
            fresh_ = true;
        }
    }

    static void fill(unsigned char *to, std::uint32_t count, std::uint8_t what, int detail, int fault)
    {
        std::memcpy(to, &from_us, 4);
        std::memcpy(to + 4, &count, 4);
        to[8] = what;
        to[9] = static_cast<unsigned char>(detail);
        to[10] = static_cast<unsigned char>(fault);
        to[11] = 0;
    }

    void send(std::uint8_t what, const float *numbers = nullptr, std::size_t size = 0, int detail = 0, int fault = 0)
    {
        if (count_ == 0) {
            return;
        }
        fill(answer_.data(), count_, what, detail, fault);
        if (numbers != nullptr) {
            std::memcpy(&answer_[answer_head], numbers, 4 * size);
        }
        udp_.send(answer_.data(), answer_head + 4 * size, peer_);
    }

    Address address_;
    const Robot &robot_;
    bool lockstep_, actuators_;
    std::vector<const Quantity *> given_;
    std::size_t size_ = 0;
    std::vector<unsigned char> buffer_, newest_, answer_;
    Udp udp_, looks_;
    sockaddr_in peer_{}, looker_{};
    std::uint32_t count_ = 0, look_ = 0;
    double now_ = 0.0, received_ = -1.0;
    bool fresh_ = false;
};

const Protocol named("udp", [](const Address &address, const Robot &robot) -> std::unique_ptr<Link> {
    return std::make_unique<SimulatorLink>(address, robot);
});

} // namespace
} // namespace flight
