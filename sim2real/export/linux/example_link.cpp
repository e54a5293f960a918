/* A link of your own, to copy: `make LINKS=my_link.cpp`, then `./loop example:///dev/ttyACM0`. This one speaks to a flight
   controller on a serial port by lines of text: it sends "S t x y z vx vy vz qw qx qy qz p q r armed landed following" at 100 Hz
   (s, m, m/s, body to world, rad/s; world x east, y north, z up), and takes "ARM", "DISARM", "FOLLOW", "LAND", "STOP", "G x y z
   yaw" and "C" with the policy's command. */
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

#include "link.hpp"

namespace {

using namespace flight;

class ExampleLink final : public Link {
public:
    ExampleLink(const Address &address, const Robot &robot) : address_(address), robot_(robot) { address.allow({}); }
    ~ExampleLink() override { close(port_); }

    Identity open() override
    {
        port_ = ::open(address_.path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY);
        if (port_ < 0) {
            throw Refused(address_.url + " cannot be opened: is the vehicle plugged in?");
        }
        return {Family::multirotor, "example", {robot_.kind}, {"position", "velocity", "rotation", "angular velocity"}, 500.0, {}, true};
    }

    bool read(Reading &reading) override
    {
        char byte;
        while (::read(port_, &byte, 1) == 1) {
            if (byte == '\n') {
                take(reading);
                length_ = 0;
            } else if (length_ + 1 < sizeof line_) {
                line_[length_++] = byte;
            }
        }
        return measured_;
    }

    void arm() override { dprintf(port_, "ARM\n"); }
    void disarm() override { dprintf(port_, "DISARM\n"); }
    void engage() override { dprintf(port_, "FOLLOW\n"); }
    void write(const float *c) override { dprintf(port_, "C %.6g %.6g %.6g %.6g\n", c[0], c[1], c[2], c[3]); }
    void go_to(const double *p, double yaw) override { dprintf(port_, "G %.4f %.4f %.4f %.4f\n", p[0], p[1], p[2], yaw); }
    void react(Reaction reaction) override { dprintf(port_, reaction == Reaction::stop ? "STOP\n" : "LAND\n"); }

private:
    void take(Reading &reading)
    {
        double t;
        float v[13];
        int armed, landed, following;
        line_[length_] = '\0';
        if (std::sscanf(line_, "S %lf %f %f %f %f %f %f %f %f %f %f %f %f %f %d %d %d", &t, v, v + 1, v + 2, v + 3, v + 4, v + 5, v + 6, v + 7,
                        v + 8, v + 9, v + 10, v + 11, v + 12, &armed, &landed, &following) != 17) {
            return; /* a damaged line */
        }
        const float *from = v;
        for (const char *name : {"position", "velocity", "rotation", "angular velocity"}) {
            const Quantity *q = robot_.find(name);
            for (int i = 0; i < q->size; i++) {
                reading.values[static_cast<std::size_t>(q->at + i)] = *from++;
            }
        }
        reading.received = heard = monotonic();
        reading.measured = t;
        reading.armed = armed != 0 ? Known::yes : Known::no;
        reading.landed = landed != 0 ? Known::yes : Known::no;
        reading.engaged = following != 0;
        measured_ = true;
    }

    Address address_;
    const Robot &robot_;
    int port_ = -1;
    bool measured_ = false;
    char line_[512];
    std::size_t length_ = 0;
};

const Protocol named("example", [](const Address &address, const Robot &robot) -> std::unique_ptr<Link> {
    return std::make_unique<ExampleLink>(address, robot);
});

} // namespace
