/* A writer of MCAP files with one channel of JSON messages: chunks without compression, an index, a summary.
   Format: mcap.dev/spec. */
#ifndef FLIGHT_MCAP_HPP
#define FLIGHT_MCAP_HPP

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace flight {

class McapWriter {
public:
    ~McapWriter();

    /* False where the file cannot be written. */
    bool open(const std::string &path, const std::string &schema_name, const std::string &schema, const std::string &topic);

    void metadata(const std::string &name, const std::string &key, const std::string &value);

    /* `time`: ns. */
    void message(std::uint64_t time, const std::string &data);

    /* Write the index and close; false where anything could not be written. */
    bool close();

private:
    struct ChunkIndex {
        std::uint64_t first, last, start, length, index_start, index_length, size;
    };

    void put(const std::string &bytes);
    void write_chunk();
    std::string statistics() const;

    std::FILE *file_ = nullptr;
    bool failed_ = false;
    std::uint64_t at_ = 0; /* bytes written */
    std::string schema_, channel_, chunk_, metadata_index_;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> times_; /* of the chunk's messages, and where in it they begin */
    std::vector<ChunkIndex> chunks_;
    std::uint64_t messages_ = 0, first_ = 0, last_ = 0;
    std::uint32_t metadata_count_ = 0;
};

} // namespace flight

#endif
