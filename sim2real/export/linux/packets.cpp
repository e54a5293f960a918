#include "packets.hpp"

namespace flight {
namespace mavlink {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "MAVLink's fields are little-endian: turn them in Message::get and put");

constexpr unsigned char magic_1 = 0xFE, magic_2 = 0xFD;
constexpr unsigned char is_signed = 0x01;
constexpr std::size_t signature = 13;

struct Kind {
    std::uint32_t id;
    std::size_t size; /* of its payload, extensions left out */
    unsigned char crc_extra;
};

constexpr Kind kinds[] = {
    {HEARTBEAT, 9, 50},      {SYS_STATUS, 31, 124},        {PARAM_SET, 23, 168},
    {ATTITUDE_QUATERNION, 32, 246}, {LOCAL_POSITION_NED, 28, 185}, {COMMAND_LONG, 33, 152},
    {SET_ATTITUDE_TARGET, 39, 49},  {SET_POSITION_TARGET_LOCAL_NED, 53, 143}, {EXTENDED_SYS_STATE, 2, 130},
};

const Kind *kind_of(std::uint32_t id)
{
    for (const Kind &kind : kinds) {
        if (kind.id == id) {
            return &kind;
        }
    }
    return nullptr;
}

/* Over all bytes behind the first one, then the kind's extra. */
std::uint16_t checksum(const unsigned char *packet, std::size_t size, unsigned char extra)
{
    std::uint16_t crc = 0xFFFF;
    for (std::size_t i = 1; i < size; i++) {
        crc = crc_further(crc, packet[i]);
    }
    return crc_further(crc, extra);
}

/* The message that begins at `packet`; its length with header and checksum, 0 where there is none. */
std::size_t parse(const unsigned char *packet, std::size_t size, Message &out)
{
    const bool second = packet[0] == magic_2;
    const std::size_t header = second ? 10 : 6;
    if (size < header + 2) {
        return 0;
    }
    const std::size_t length = packet[1];
    const std::size_t tail = second && (packet[2] & is_signed) != 0 ? signature : 0;
    if (size < header + length + 2 + tail || (second && (packet[2] & ~is_signed) != 0)) {
        return 0;
    }
    const std::uint32_t id = second ? packet[7] | packet[8] << 8 | static_cast<std::uint32_t>(packet[9]) << 16 : packet[5];
    const Kind *kind = kind_of(id);
    if (kind == nullptr) {
        return 0;
    }
    const std::uint16_t crc = checksum(packet, header + length, kind->crc_extra);
    if (packet[header + length] != (crc & 0xFF) || packet[header + length + 1] != crc >> 8) {
        return 0;
    }
    out = Message();
    out.id = id;
    out.system = packet[second ? 5 : 3];
    out.component = packet[second ? 6 : 4];
    std::memcpy(out.payload, packet + header, length);
    return header + length + 2 + tail;
}

} // namespace

std::uint16_t crc_further(std::uint16_t crc, unsigned char byte)
{
    std::uint8_t t = static_cast<std::uint8_t>(byte ^ (crc & 0xFF));
    t = static_cast<std::uint8_t>(t ^ (t << 4));
    return static_cast<std::uint16_t>((crc >> 8) ^ (t << 8) ^ (t << 3) ^ (t >> 4));
}

bool next_message(const unsigned char *data, std::size_t size, std::size_t &at, Message &out)
{
    for (; at < size; at++) {
        if (data[at] != magic_1 && data[at] != magic_2) {
            continue;
        }
        const std::size_t length = parse(data + at, size - at, out);
        if (length > 0) {
            at += length;
            return true;
        }
    }
    return false;
}

std::size_t pack(const Message &message, std::uint8_t sequence, unsigned char *packet)
{
    const Kind *kind = kind_of(message.id);
    std::size_t length = kind->size;
    while (length > 1 && message.payload[length - 1] == 0) {
        length--; /* version 2 leaves zeros at the end out */
    }
    const unsigned char header[10] = {
        magic_2, static_cast<unsigned char>(length), 0, 0, sequence, message.system, message.component,
        static_cast<unsigned char>(message.id & 0xFF), static_cast<unsigned char>(message.id >> 8 & 0xFF),
        static_cast<unsigned char>(message.id >> 16 & 0xFF),
    };
    std::memcpy(packet, header, sizeof header);
    std::memcpy(packet + sizeof header, message.payload, length);
    const std::uint16_t crc = checksum(packet, sizeof header + length, kind->crc_extra);
    packet[sizeof header + length] = static_cast<unsigned char>(crc & 0xFF);
    packet[sizeof header + length + 1] = static_cast<unsigned char>(crc >> 8);
    return sizeof header + length + 2;
}

} // namespace mavlink
} // namespace flight
