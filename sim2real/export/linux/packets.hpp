/* Frames of MAVLink, and the fields of the few messages that the loop needs.

   Layout of frames and checksum: mavlink.io/en/guide/serialization.html. Ids, fields and CRC_EXTRA of messages: common.xml and
   minimal.xml of github.com/mavlink/mavlink. Fields lie in the wire's order: by size, the largest first. */
#ifndef FLIGHT_PACKETS_HPP
#define FLIGHT_PACKETS_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace flight {
namespace mavlink {

enum Id : std::uint32_t {
    HEARTBEAT = 0,
    SYS_STATUS = 1,
    PARAM_SET = 23,
    ATTITUDE_QUATERNION = 31,
    LOCAL_POSITION_NED = 32,
    COMMAND_LONG = 76,
    SET_ATTITUDE_TARGET = 82,
    SET_POSITION_TARGET_LOCAL_NED = 84,
    EXTENDED_SYS_STATE = 245
};

constexpr std::size_t longest_payload = 255;
constexpr std::size_t longest_packet = longest_payload + 12;

/* A message; fields that the sender left out are 0. */
struct Message {
    std::uint32_t id = 0;
    std::uint8_t system = 0;
    std::uint8_t component = 0;
    unsigned char payload[longest_payload + 1] = {};

    /* The field of a type that begins at byte `at`. */
    template <typename T> T get(std::size_t at) const
    {
        T out;
        std::memcpy(&out, payload + at, sizeof out); /* the wire has this byte order: little-endian */
        return out;
    }

    template <typename T> void put(std::size_t at, T value) { std::memcpy(payload + at, &value, sizeof value); }
};

/* Checksum of the wire, X.25, one byte further. */
std::uint16_t crc_further(std::uint16_t crc, unsigned char byte);

/* Finds the next sound message of a kind above in `data` from byte `at` on, versions 1 and 2, signed or not, whose signatures it
   does not check; moves `at` behind it. False where there is none. */
bool next_message(const unsigned char *data, std::size_t size, std::size_t &at, Message &out);

/* A packet of version 2; its length. `packet` has room for longest_packet. */
std::size_t pack(const Message &message, std::uint8_t sequence, unsigned char *packet);

} // namespace mavlink
} // namespace flight

#endif
