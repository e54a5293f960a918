#include "mcap.hpp"

#include <algorithm>
#include <cstring>

namespace flight {
namespace {

enum Op : unsigned char {
    HEADER = 1, FOOTER = 2, SCHEMA = 3, CHANNEL = 4, MESSAGE = 5, CHUNK = 6, MESSAGE_INDEX = 7, CHUNK_INDEX = 8, STATISTICS = 11,
    METADATA = 12, METADATA_INDEX = 13, DATA_END = 15
};

constexpr char magic[] = "\x89MCAP0\r\n";
constexpr std::size_t largest_chunk = 1 << 16;
constexpr std::uint16_t schema_id = 1, channel_id = 0;

template <typename T> std::string number(T value)
{
    std::string out(sizeof value, '\0');
    std::memcpy(&out[0], &value, sizeof value); /* little-endian, as the processors that packets.cpp allows */
    return out;
}

std::string text(const std::string &value) { return number(static_cast<std::uint32_t>(value.size())) + value; }

std::string record(Op op, const std::string &content)
{
    return std::string(1, static_cast<char>(op)) + number(static_cast<std::uint64_t>(content.size())) + content;
}

} // namespace

McapWriter::~McapWriter() { close(); }

bool McapWriter::open(const std::string &path, const std::string &schema_name, const std::string &schema, const std::string &topic)
{
    file_ = std::fopen(path.c_str(), "wb");
    if (file_ == nullptr) {
        return false;
    }
    schema_ = record(SCHEMA, number(schema_id) + text(schema_name) + text("jsonschema") + text(schema));
    channel_ = record(CHANNEL, number(channel_id) + number(schema_id) + text(topic) + text("json") + number(std::uint32_t{0}));
    put(std::string(magic, 8) + record(HEADER, text("") + text("rookery")));
    chunk_ = schema_ + channel_;
    return true;
}

void McapWriter::put(const std::string &bytes)
{
    failed_ = failed_ || std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size();
    at_ += bytes.size();
}

void McapWriter::metadata(const std::string &name, const std::string &key, const std::string &value)
{
    const std::string pair = text(key) + text(value);
    const std::string whole = record(METADATA, text(name) + number(static_cast<std::uint32_t>(pair.size())) + pair);
    metadata_index_ += record(METADATA_INDEX, number(at_) + number(static_cast<std::uint64_t>(whole.size())) + text(name));
    metadata_count_++;
    put(whole);
}

void McapWriter::message(std::uint64_t time, const std::string &data)
{
    times_.emplace_back(time, chunk_.size());
    first_ = messages_ == 0 ? time : std::min(first_, time);
    last_ = std::max(last_, time);
    chunk_ += record(MESSAGE, number(channel_id) + number(static_cast<std::uint32_t>(messages_++)) + number(time) + number(time) + data);
    if (chunk_.size() >= largest_chunk) {
        write_chunk();
    }
}

void McapWriter::write_chunk()
{
    if (times_.empty()) {
        return;
    }
    ChunkIndex index{};
    index.first = times_.front().first;
    std::string entries;
    for (const auto &[time, offset] : times_) {
        index.first = std::min(index.first, time);
        index.last = std::max(index.last, time);
        entries += number(time) + number(offset);
    }
    index.start = at_;
    index.size = chunk_.size();
    const std::uint32_t unchecked = 0; /* no checksum */
    put(record(CHUNK, number(index.first) + number(index.last) + number(index.size) + number(unchecked) + text("") +
                          number(static_cast<std::uint64_t>(chunk_.size())) + chunk_));
    index.length = at_ - index.start;
    index.index_start = at_;
    put(record(MESSAGE_INDEX, number(channel_id) + number(static_cast<std::uint32_t>(entries.size())) + entries));
    index.index_length = at_ - index.index_start;
    chunks_.push_back(index);
    chunk_.clear();
    times_.clear();
    std::fflush(file_); /* what a killed program leaves is read up to here */
}

std::string McapWriter::statistics() const
{
    const std::string counts = number(channel_id) + number(messages_);
    return record(STATISTICS, number(messages_) + number(std::uint16_t{1}) + number(std::uint32_t{1}) + number(std::uint32_t{0}) +
                                  number(metadata_count_) + number(static_cast<std::uint32_t>(chunks_.size())) + number(first_) +
                                  number(last_) + number(static_cast<std::uint32_t>(counts.size())) + counts);
}

bool McapWriter::close()
{
    if (file_ == nullptr) {
        return !failed_;
    }
    write_chunk();
    put(record(DATA_END, number(std::uint32_t{0})));
    const std::uint64_t summary = at_;
    put(schema_ + channel_ + statistics());
    for (const ChunkIndex &c : chunks_) {
        const std::string offsets = number(channel_id) + number(c.index_start);
        put(record(CHUNK_INDEX, number(c.first) + number(c.last) + number(c.start) + number(c.length) +
                                    number(static_cast<std::uint32_t>(offsets.size())) + offsets + number(c.index_length) + text("") +
                                    number(c.size) + number(c.size)));
    }
    put(metadata_index_);
    put(record(FOOTER, number(summary) + number(std::uint64_t{0}) + number(std::uint32_t{0})) + std::string(magic, 8));
    failed_ = std::fclose(file_) != 0 || failed_;
    file_ = nullptr;
    return !failed_;
}

} // namespace flight
