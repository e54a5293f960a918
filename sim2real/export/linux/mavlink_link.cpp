/* mavlink://HOST:PORT: PX4 autopilots, and all that speak its off-board mode.

   Listens like a companion computer (PX4 sends to UDP 14540), asks for attitude and position at 100 Hz, and streams set-points:
   SET_ATTITUDE_TARGET for body rates or attitude with thrust, SET_POSITION_TARGET_LOCAL_NED for position and velocity. Off-board
   mode and its time-outs: PX4 user guide, "Offboard Mode". Options: `hover`, share of thrust at which it hovers (PX4's
   MPC_THR_HOVER; without it thrust is a share of the contract's highest); `system`, the vehicle's id; `loss`, s without
   set-points after which it lands by itself (COM_OF_LOSS_T). */
#include <algorithm>
#include <cmath>
#include <cstring>

#include "frames.hpp"
#include "link.hpp"
#include "packets.hpp"
#include "udp.hpp"

namespace flight {
namespace {

using mavlink::Message;

constexpr int companion_port = 14540;
constexpr unsigned char our_system = 245, our_component = 191; /* an onboard computer */
constexpr unsigned char autopilot = 1; /* MAV_COMP_ID_AUTOPILOT1 */
constexpr unsigned char autopilot_px4 = 12, autopilot_none = 8, type_companion = 18, active = 4;
constexpr unsigned char armed_flag = 128;
constexpr unsigned char on_ground = 1;
constexpr unsigned char float_parameter = 9;
constexpr unsigned char frame_local_ned = 1;
constexpr int offboard = 6; /* PX4's main mode */
constexpr std::uint16_t do_set_mode = 176, arm_disarm = 400, land = 21, set_message_interval = 511;
constexpr float by_force = 21196.0f; /* of arm_disarm, in flight */
constexpr std::uint16_t position_mask = 8 | 16 | 32 | 64 | 128 | 256 | 2048;
constexpr std::uint16_t velocity_mask = 1 | 2 | 4 | 64 | 128 | 256 | 1024;
constexpr unsigned char rates_mask = 128, attitude_mask = 1 | 2;
constexpr double telemetry_rate = 100.0;
constexpr double again = 0.1;   /* s, between requests that are not yet answered */
constexpr double patience = 10; /* s, for the first answers */

enum class Kind { ctbr, attitude, velocity, position, other };
constexpr const char *kind_names[] = {"ctbr", "attitude", "velocity", "position"};

class MavlinkLink final : public Link {
public:
    MavlinkLink(const Address &address, const Robot &robot)
        : address_(address), robot_(robot), hover_(address.number("hover", 0.0)), loss_(address.number("loss", 0.06)),
          system_(static_cast<int>(address.number("system", 0.0)))
    {
        address.allow({"hover", "system", "loss"});
        if (system_ < 0 || system_ > 255 || !(loss_ > 0.0) || hover_ < 0.0 || hover_ > 1.0) {
            throw Refused(address.url + ": system is from 0 to 255, loss above 0 s, hover a share from 0 to 1.");
        }
        for (int i = 0; i < 4; i++) {
            kind_ = std::strcmp(robot.kind, kind_names[i]) == 0 ? static_cast<Kind>(i) : kind_;
        }
        const char *names[] = {"position", "velocity", "rotation", "angular velocity"};
        for (int i = 0; i < 4; i++) {
            const Quantity *q = robot.find(names[i]);
            places_[i] = q == nullptr ? -1 : q->at;
        }
    }

    Identity open() override
    {
        udp_.listen(address_.host, address_.port == 0 ? companion_port : address_.port, address_.url);
        wait_for(beat_, "no vehicle sends heartbeats there");
        if (beat_.message.payload[5] != autopilot_px4) {
            throw Refused(address_.url + ": the autopilot says that it is of type " + std::to_string(beat_.message.payload[5]) +
                          " and not PX4 (12), whose off-board mode this link speaks.");
        }
        wait_for(place_, "the vehicle tells no local position: it needs GPS, vision or motion capture");
        wait_for(attitude_, "the vehicle tells no attitude");
        Identity out;
        out.name = "PX4 system " + std::to_string(system_);
        out.kinds.assign(kind_names, kind_names + 4);
        out.quantities = {"position", "velocity", "rotation", "angular velocity"};
        out.rate = 250.0;
        return out;
    }

    bool read(Reading &reading) override
    {
        receive();
        if (place_.received < 0.0 || attitude_.received < 0.0) {
            return false;
        }
        if (composed_ != attitude_.received) {
            composed_ = attitude_.received;
            compose(reading);
        }
        reading.armed = beat_.received < 0.0 ? Known::unknown : (beat_.message.payload[6] & armed_flag) != 0 ? Known::yes : Known::no;
        reading.landed = landed_.received < 0.0 ? Known::unknown : landed_.message.payload[1] == on_ground ? Known::yes : Known::no;
        reading.engaged = beat_.received >= 0.0 && (beat_.message.get<std::uint32_t>(0) >> 16 & 0xFF) == offboard;
        const int share = status_.received < 0.0 ? -1 : status_.message.get<std::int8_t>(30);
        reading.battery = share < 0 ? -1.0f : static_cast<float>(share) / 100.0f;
        return true;
    }

    void arm() override { command(arm_disarm, 1.0f); }

    void disarm() override
    {
        if (due(asked_disarm_)) {
            command(arm_disarm, 0.0f);
        }
    }

    void engage() override
    {
        if (due(asked_offboard_)) {
            command(do_set_mode, 1.0f, offboard);
        }
    }

    void react(Reaction reaction) override
    {
        if (!due(reaction == Reaction::stop ? asked_stop_ : asked_land_)) {
            return;
        }
        if (reaction == Reaction::stop) {
            command(arm_disarm, 0.0f, by_force);
        } else {
            command(land, 0.0f, 0.0f, 0.0f, NAN);
        }
    }

    void write(const float *c) override
    {
        switch (kind_) {
        case Kind::ctbr:
            attitude_target(rates_mask, {1.0, 0.0, 0.0, 0.0}, to_frd({c[0], c[1], c[2]}), share(c[3]));
            break;
        case Kind::attitude:
            attitude_target(attitude_mask, turn_ned(from_euler(c[0], c[1], yaw_)), {0.0, 0.0, -c[2]}, share(c[3]));
            break;
        case Kind::velocity:
            position_target(velocity_mask, {0.0, 0.0, 0.0}, to_ned({c[0], c[1], c[2]}), 0.0, -c[3]);
            break;
        case Kind::position:
            position_target(position_mask, to_ned({c[0], c[1], c[2]}), {0.0, 0.0, 0.0}, yaw_to_ned(c[3]), 0.0);
            break;
        case Kind::other:
            break;
        }
    }

    void go_to(const double *p, double yaw) override
    {
        position_target(position_mask, to_ned({p[0], p[1], p[2]}), {0.0, 0.0, 0.0}, yaw_to_ned(yaw), 0.0);
    }

private:
    /* The newest message of a kind; received below 0 for none. */
    struct Latest {
        double received = -1.0;
        Message message;
    };

    void wait_for(const Latest &what, const char *otherwise)
    {
        const double begun = monotonic();
        double asked = -again * 10;
        while (what.received < 0.0) {
            const double now = monotonic();
            if (now - begun > patience) {
                throw Refused(address_.url + ": " + otherwise + " (10 s waited).");
            }
            if (beat_.received >= 0.0 && now - asked > 5 * again) { /* requests may be lost */
                asked = now;
                request();
            }
            udp_.wait(again);
            receive();
        }
    }

    void request()
    {
        command(set_message_interval, mavlink::ATTITUDE_QUATERNION, static_cast<float>(1e6 / telemetry_rate));
        command(set_message_interval, mavlink::LOCAL_POSITION_NED, static_cast<float>(1e6 / telemetry_rate));
        Message m = begin(mavlink::PARAM_SET);
        m.put(0, static_cast<float>(loss_));
        m.put<std::uint8_t>(4, static_cast<std::uint8_t>(system_));
        m.put<std::uint8_t>(5, 1);
        std::memcpy(m.payload + 6, "COM_OF_LOSS_T", 13);
        m.put<std::uint8_t>(22, float_parameter);
        send(m);
    }

    void receive()
    {
        unsigned char data[2048];
        sockaddr_in from{};
        double received = 0.0;
        for (long size; (size = udp_.receive(data, sizeof data, from, received)) >= 0;) {
            std::size_t at = 0;
            Message m;
            while (mavlink::next_message(data, static_cast<std::size_t>(size), at, m)) {
                take(m, from, received);
            }
        }
        beat();
    }

    void take(const Message &m, const sockaddr_in &from, double received)
    {
        if (m.component != autopilot) { /* gimbals, cameras and computers of a vehicle speak under its system id, too */
            return;
        }
        if (system_ == 0 && m.id == mavlink::HEARTBEAT) {
            system_ = m.system;
        }
        if (system_ == 0 || m.system != system_) {
            return;
        }
        peer_ = from;
        heard = received;
        Latest *to = m.id == mavlink::HEARTBEAT             ? &beat_
                     : m.id == mavlink::ATTITUDE_QUATERNION ? &attitude_
                     : m.id == mavlink::LOCAL_POSITION_NED  ? &place_
                     : m.id == mavlink::SYS_STATUS          ? &status_
                     : m.id == mavlink::EXTENDED_SYS_STATE  ? &landed_
                                                            : nullptr;
        if (to != nullptr) {
            to->received = received;
            to->message = m;
        }
    }

    /* A reading from the newest attitude and position: by the older of both, so that either is noticed when it stops. */
    void compose(Reading &reading)
    {
        const Message &a = attitude_.message, &p = place_.message;
        reading.received = std::min(attitude_.received, place_.received);
        reading.measured = 1e-3 * std::min(a.get<std::uint32_t>(0), p.get<std::uint32_t>(0));
        const Rotation q = turn_ned({a.get<float>(4), a.get<float>(8), a.get<float>(12), a.get<float>(16)});
        yaw_ = euler(q).z;
        put(reading, 0, to_ned({p.get<float>(4), p.get<float>(8), p.get<float>(12)}));
        put(reading, 1, to_ned({p.get<float>(16), p.get<float>(20), p.get<float>(24)}));
        put(reading, 3, to_frd({a.get<float>(20), a.get<float>(24), a.get<float>(28)}));
        if (places_[2] >= 0) {
            float *to = &reading.values[static_cast<std::size_t>(places_[2])];
            to[0] = static_cast<float>(q.w);
            to[1] = static_cast<float>(q.x);
            to[2] = static_cast<float>(q.y);
            to[3] = static_cast<float>(q.z);
        }
    }

    void put(Reading &reading, int which, Vector v)
    {
        if (places_[which] >= 0) {
            float *to = &reading.values[static_cast<std::size_t>(places_[which])];
            to[0] = static_cast<float>(v.x);
            to[1] = static_cast<float>(v.y);
            to[2] = static_cast<float>(v.z);
        }
    }

    /* A heartbeat a second, as every component sends it. */
    void beat()
    {
        const double now = monotonic();
        if (beat_.received < 0.0 || now - beaten_ < 1.0) {
            return;
        }
        beaten_ = now;
        Message m = begin(mavlink::HEARTBEAT);
        m.put<std::uint8_t>(4, type_companion);
        m.put<std::uint8_t>(5, autopilot_none);
        m.put<std::uint8_t>(7, active);
        m.put<std::uint8_t>(8, 3);
        send(m);
    }

    bool due(double &asked)
    {
        const double now = monotonic();
        if (now - asked < again) {
            return false;
        }
        asked = now;
        return true;
    }

    static Message begin(mavlink::Id id)
    {
        Message m;
        m.id = id;
        m.system = our_system;
        m.component = our_component;
        return m;
    }

    void send(const Message &m)
    {
        unsigned char packet[mavlink::longest_packet];
        if (beat_.received >= 0.0) {
            udp_.send(packet, mavlink::pack(m, sequence_++, packet), peer_);
        }
    }

    void command(std::uint16_t number, float a, float b = 0.0f, float c = 0.0f, float d = 0.0f)
    {
        Message m = begin(mavlink::COMMAND_LONG);
        m.put(0, a);
        m.put(4, b);
        m.put(8, c);
        m.put(12, d);
        m.put(28, number);
        m.put<std::uint8_t>(30, static_cast<std::uint8_t>(system_));
        m.put<std::uint8_t>(31, 1);
        send(m);
    }

    static std::uint32_t stamp() { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(1e3 * monotonic())); }

    double share(double newton) const
    {
        const double out = hover_ > 0.0 ? hover_ * newton / robot_.weight : newton / robot_.most_thrust;
        return std::min(std::max(out, 0.0), 1.0);
    }

    void attitude_target(std::uint8_t mask, Rotation q, Vector rates, double thrust)
    {
        Message m = begin(mavlink::SET_ATTITUDE_TARGET);
        m.put(0, stamp());
        const double values[] = {q.w, q.x, q.y, q.z, rates.x, rates.y, rates.z, thrust};
        for (std::size_t i = 0; i < 8; i++) {
            m.put(4 + 4 * i, static_cast<float>(values[i]));
        }
        m.put<std::uint8_t>(36, static_cast<std::uint8_t>(system_));
        m.put<std::uint8_t>(37, 1);
        m.put<std::uint8_t>(38, mask);
        send(m);
    }

    void position_target(std::uint16_t mask, Vector place, Vector velocity, double yaw, double yaw_rate)
    {
        Message m = begin(mavlink::SET_POSITION_TARGET_LOCAL_NED);
        m.put(0, stamp());
        const double values[] = {place.x, place.y, place.z, velocity.x, velocity.y, velocity.z, 0.0, 0.0, 0.0, yaw, yaw_rate};
        for (std::size_t i = 0; i < 11; i++) {
            m.put(4 + 4 * i, static_cast<float>(values[i]));
        }
        m.put(48, mask);
        m.put<std::uint8_t>(50, static_cast<std::uint8_t>(system_));
        m.put<std::uint8_t>(51, 1);
        m.put<std::uint8_t>(52, frame_local_ned);
        send(m);
    }

    Address address_;
    const Robot &robot_;
    double hover_, loss_;
    int system_;
    Kind kind_ = Kind::other;
    int places_[4] = {-1, -1, -1, -1}; /* of position, velocity, rotation, angular velocity among all values */
    Udp udp_;
    sockaddr_in peer_{};
    std::uint8_t sequence_ = 0;
    Latest beat_, attitude_, place_, status_, landed_;
    double composed_ = -1.0, beaten_ = -1.0, yaw_ = 0.0;
    double asked_disarm_ = -1.0, asked_offboard_ = -1.0, asked_stop_ = -1.0, asked_land_ = -1.0;
};

const Protocol named("mavlink", [](const Address &address, const Robot &robot) -> std::unique_ptr<Link> {
    return std::make_unique<MavlinkLink>(address, robot);
});

} // namespace
} // namespace flight
