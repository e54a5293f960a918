/* A UDP socket that never waits, with the time at which each datagram arrived. */
#ifndef FLIGHT_UDP_HPP
#define FLIGHT_UDP_HPP

#include <cstdint>
#include <netinet/in.h>
#include <string>

namespace flight {

class Udp {
public:
    Udp() = default;
    Udp(const Udp &) = delete;
    Udp &operator=(const Udp &) = delete;
    ~Udp();

    /* Listen; Refused where the port is taken or `host` is not this machine. An empty host is every address of it. */
    void listen(const std::string &host, int port, const std::string &url);

    /* The next datagram that waits: its length, -1 for none. `received`: s, monotonic, by the kernel's stamp. */
    long receive(void *data, std::size_t size, sockaddr_in &from, double &received);

    /* Wait for a datagram, s; false where none came, or a signal did. */
    bool wait(double seconds) const;

    void send(const void *data, std::size_t size, const sockaddr_in &to) const;

private:
    int handle_ = -1;
};

} // namespace flight

#endif
