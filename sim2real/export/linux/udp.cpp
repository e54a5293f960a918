#include "udp.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.hpp"
#include "link.hpp"

namespace flight {

Udp::~Udp()
{
    if (handle_ >= 0) {
        close(handle_);
    }
}

void Udp::listen(const std::string &host, int port, const std::string &url)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const std::string name = host == "localhost" ? "127.0.0.1" : host;
    if (!name.empty() && inet_pton(AF_INET, name.c_str(), &address.sin_addr) != 1) {
        throw Refused(url + ": " + host + " is no IPv4 address of this machine.");
    }
    handle_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (handle_ < 0 || bind(handle_, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0) {
        throw Refused(url + " cannot listen on " + (host.empty() ? "*" : host) + ":" + std::to_string(port) + " (" +
                      std::strerror(errno) + "): is another program using it? Choose another port.");
    }
    const int on = 1;
    setsockopt(handle_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
}

long Udp::receive(void *data, std::size_t size, sockaddr_in &from, double &received)
{
    iovec part{data, size};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
    msghdr header{};
    header.msg_name = &from;
    header.msg_namelen = sizeof from;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    const ssize_t length = recvmsg(handle_, &header, 0);
    if (length < 0) {
        return -1;
    }
    received = monotonic();
    for (cmsghdr *c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            timespec stamp{}, wall{};
            std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
            clock_gettime(CLOCK_REALTIME, &wall);
            const double age = static_cast<double>(wall.tv_sec - stamp.tv_sec) + 1e-9 * static_cast<double>(wall.tv_nsec - stamp.tv_nsec);
            received -= age > 0.0 && age < 10.0 ? age : 0.0; /* else somebody has set the clock meanwhile */
        }
    }
    return length;
}

bool Udp::wait(double seconds) const
{
    pollfd waiting{handle_, POLLIN, 0};
    return poll(&waiting, 1, static_cast<int>(1e3 * seconds)) > 0;
}

void Udp::send(const void *data, std::size_t size, const sockaddr_in &to) const
{
    /* a vehicle whose port has closed: its silence is what the filter judges */
    (void)sendto(handle_, data, size, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&to), sizeof to);
}

} // namespace flight
