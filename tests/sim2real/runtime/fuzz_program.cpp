/* Damaged packets, settings and addresses against the program of --target linux, built with sanitizers:

       fuzz COUNT SEED FOLDER

   Every packet reaches the parser, and the MAVLink link over loopback. Where the safety filter passes what came of them, all
   values are finite, and so is every number of the set-points that follow. Status 1 and a sentence where not. */
#include <arpa/inet.h>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "link.hpp"
#include "packets.hpp"
#include "settings.hpp"

using namespace flight;
using mavlink::Message;

namespace {

std::mt19937 rng;

unsigned below(unsigned n) { return static_cast<unsigned>(rng() % n); }

[[noreturn]] void fail(const char *why)
{
    std::fprintf(stderr, "%s\n", why);
    std::exit(1);
}

float wild()
{
    const float some[] = {0.0f, 1.0f, -0.5f, 1e9f, -1e38f, 1e-40f, INFINITY, NAN};
    return below(3) == 0 ? some[below(8)] : static_cast<float>(below(2000)) / 1000.0f - 1.0f;
}

/* A packet of a kind that vehicles send, mostly sane. */
std::size_t good(unsigned char *to, bool sane)
{
    constexpr mavlink::Id ids[] = {mavlink::HEARTBEAT, mavlink::SYS_STATUS, mavlink::ATTITUDE_QUATERNION, mavlink::LOCAL_POSITION_NED, mavlink::EXTENDED_SYS_STATE};
    static std::uint32_t milliseconds = 0;
    Message m;
    m.id = ids[below(5)];
    m.system = 1;
    m.component = 1;
    if (m.id == mavlink::ATTITUDE_QUATERNION || m.id == mavlink::LOCAL_POSITION_NED) {
        m.put(0, ++milliseconds);
        for (std::size_t at = 4; at + 4 <= (m.id == mavlink::ATTITUDE_QUATERNION ? 32u : 28u); at += 4) {
            m.put(at, sane ? static_cast<float>(below(100)) / 1000.0f + (at == 4 ? 0.9f : 0.0f) : wild());
        }
    } else if (m.id == mavlink::HEARTBEAT) {
        m.put<std::uint32_t>(0, 6u << 16);
        m.put<std::uint8_t>(5, sane ? 12 : static_cast<std::uint8_t>(rng()));
        m.put<std::uint8_t>(6, 128);
    } else {
        for (std::size_t at = 0; at < 31; at++) {
            m.payload[at] = static_cast<unsigned char>(rng());
        }
    }
    return mavlink::pack(m, static_cast<std::uint8_t>(rng()), to);
}

/* One to eight changes anywhere; `room` bytes at most. */
std::size_t damaged(unsigned char *data, std::size_t size, std::size_t room)
{
    for (unsigned i = below(8) + 1; i > 0; i--) {
        const std::size_t at = below(static_cast<unsigned>(size));
        switch (below(5)) {
        case 0: data[at] = static_cast<unsigned char>(rng()); break;
        case 1: data[at] ^= static_cast<unsigned char>(1u << below(8)); break;
        case 2: size = at + 1; break;
        case 3: size = std::min(room, size + below(64)); break;
        default: data[at] = below(2) != 0 ? 0xFD : 0xFE;
        }
    }
    return size;
}

std::size_t packet(unsigned char *to, std::size_t room)
{
    if (below(8) == 0) {
        const std::size_t size = below(300) + 1;
        for (std::size_t i = 0; i < size; i++) {
            to[i] = static_cast<unsigned char>(rng());
        }
        return size;
    }
    const unsigned kind = below(4);
    std::size_t size = good(to, kind != 0);
    if (kind == 1) {
        size += good(to + size, true);
    }
    return kind == 2 ? damaged(to, size, room) : size;
}

void parse(const unsigned char *data, std::size_t size)
{
    const std::vector<unsigned char> exact(data, data + size); /* so that a byte too far is noticed */
    Message m;
    std::size_t at = 0, before = 0;
    while (mavlink::next_message(exact.data(), exact.size(), at, m)) {
        if (at <= before || at > size) {
            fail("the parser does not move on");
        }
        before = at;
    }
}

/* The vehicle's end of the link. */
class Vehicle {
public:
    explicit Vehicle(int station)
    {
        handle_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
        to_.sin_family = AF_INET;
        to_.sin_port = htons(static_cast<std::uint16_t>(station));
        to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }

    ~Vehicle() { close(handle_); }

    void send(const unsigned char *data, std::size_t size) const
    {
        (void)sendto(handle_, data, size, 0, reinterpret_cast<const sockaddr *>(&to_), sizeof to_);
    }

    /* Every set-point that came is finite and in range; how many there were. */
    long check() const
    {
        unsigned char data[512];
        long count = 0;
        for (long size; (size = recv(handle_, data, sizeof data, 0)) > 0;) {
            Message m;
            for (std::size_t at = 0; mavlink::next_message(data, static_cast<std::size_t>(size), at, m);) {
                if (m.id != mavlink::SET_ATTITUDE_TARGET) {
                    continue;
                }
                count++;
                for (std::size_t i = 0; i < 8; i++) {
                    if (!std::isfinite(m.get<float>(4 + 4 * i))) {
                        fail("a set-point is not finite");
                    }
                }
                if (!(m.get<float>(32) >= 0.0f && m.get<float>(32) <= 1.0f)) {
                    fail("a thrust is no share");
                }
            }
        }
        return count;
    }

private:
    int handle_;
    sockaddr_in to_{};
};

long fly(long count, int port)
{
    const std::unique_ptr<Link> link = make_link("mavlink://127.0.0.1:" + std::to_string(port), robot());
    Vehicle vehicle(port);
    std::atomic<bool> open{false};
    std::thread sender([&] {
        std::mt19937 kept = rng;
        unsigned char data[600];
        while (!open) {
            vehicle.send(data, good(data, true));
            usleep(1000);
        }
        rng = kept;
    });
    link->open();
    open = true;
    sender.join();
    const safety_limits limits = filter_limits(robot(), settings_of(robot()).limits);
    safety_memory memory{};
    Reading reading;
    reading.values.resize(static_cast<std::size_t>(robot().values));
    std::vector<float> command(static_cast<std::size_t>(robot().commands));
    controller().begin();
    long set_points = 0;
    for (long i = 0; i < count; i++) {
        unsigned char data[600];
        const std::size_t size = packet(data, sizeof data);
        parse(data, size);
        vehicle.send(data, size);
        if (i % 8 != 0 || !link->read(reading)) {
            continue;
        }
        safety_sample s{};
        s.now = monotonic();
        s.heard = link->heard;
        s.received = reading.received;
        s.measured = reading.received; /* the vehicle's clock is wild here, which is another fault than this looks for */
        s.policy = -1.0;
        s.battery = static_cast<double>(reading.battery);
        s.count = robot().values;
        s.values = reading.values.data();
        safety_reset(&memory);
        if (safety_check(&limits, &memory, &s, nullptr) != SAFETY_OK) {
            controller().begin();
            continue;
        }
        for (const float value : reading.values) {
            if (!std::isfinite(value)) {
                fail("the filter passes a value that is not finite");
            }
        }
        if (controller().step(reading.values.data(), command.data()) && safety_command(&limits, &memory, command.data()) == SAFETY_OK) {
            link->write(command.data());
        }
        set_points += vehicle.check();
    }
    return set_points;
}

/* Files of settings and controls, and addresses: an answer or a sentence. */
long words(long count, const std::string &folder)
{
    const std::string text = "[limits]\ntilt_deg = 45 # here\nfence_m = 1.5\nmisses = 3\n[reactions]\nbattery = \"land\"\ntilt = \"stop\"\n";
    const std::string url = "mavlink://127.0.0.1:14540/path?hover=0.5&system=2&loss=0.1";
    const std::string controls = "[ranges]\nvelocity = [[-1, -0.5, -1e0],\n [1, 0.5, 1.0]] # own\n\"target\" = [[0], [1]]\n[axes]\nup = 3\n";
    const std::string file = folder + "/safety.toml";
    long refused = 0;
    for (long i = 0; i < count; i++) {
        std::string one = i % 3 == 0 ? text : i % 3 == 1 ? url : controls;
        for (unsigned k = below(6) + 1; k > 0; k--) {
            const std::size_t at = below(static_cast<unsigned>(one.size() + 1));
            switch (below(4)) {
            case 0: one.insert(at, 1, static_cast<char>(rng())); break;
            case 1: one.erase(at, below(5)); break;
            case 2: one.insert(at, one.substr(at, 9)); break;
            default: one.insert(at, below(2) != 0 ? "nan" : "=\"[&?");
            }
        }
        try {
            if (i % 3 == 2) {
                std::ofstream(file, std::ios::binary) << one;
                for (const Span &span : read_ranges(file)) {
                    for (const std::vector<float> *ends : {&span.low, &span.high}) {
                        for (const float end : *ends) {
                            if (!std::isfinite(end)) {
                                fail("a range without an end was taken");
                            }
                        }
                    }
                }
            } else if (i % 3 == 0) {
                std::ofstream(file, std::ios::binary) << one;
                Settings settings = settings_of(robot());
                read_settings(settings, robot(), file);
                if (!(settings.limits.stale_ms >= 0.0) || std::isnan(settings.limits.fence_m)) {
                    fail("settings that mean nothing were taken");
                }
            } else {
                make_link(one, robot());
            }
        } catch (const Refused &why) {
            refused++;
            if (std::string(why.what()).find('\n') != std::string::npos && one.find('\n') == std::string::npos) {
                fail("a refusal is more than a sentence");
            }
        }
    }
    return refused;
}

} // namespace

int main(int, char **arguments)
{
    const long count = std::atol(arguments[1]);
    rng.seed(static_cast<unsigned>(std::atol(arguments[2])));
    const long set_points = fly(count, std::atoi(arguments[4]));
    const long refused = words(count / 10, arguments[3]);
    std::printf("%ld %ld\n", set_points, refused);
    return 0;
}
