/* Flight logs: MCAP files of JSON messages on the channel /0/step, as `rookery fly --log` writes them; Foxglove and `rookery
   sysid` read both. Steps wait in a ring for a thread that writes; the loop never waits for the disk. */
#ifndef FLIGHT_LOG_HPP
#define FLIGHT_LOG_HPP

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "mcap.hpp"
#include "pilot.hpp"

namespace flight {

/* A text as JSON. */
std::string quoted(const char *text);

class Log {
public:
    /* Refused where the file cannot be written. */
    Log(const std::string &path, const Robot &robot);
    ~Log();
    Log(const Log &) = delete;
    Log &operator=(const Log &) = delete;

    /* Begin to write; `measured` of the quantities are state. */
    void begin(const std::vector<bool> &measured);

    /* Add a step; left out and counted where the disk has fallen behind by `places` steps. */
    void write(const Step &step);

    /* Write what waits and close the file; how many steps were left out, -1 where the disk refused. */
    long end();

private:
    static constexpr std::size_t places = 4096;

    /* A step; its numbers stand in `numbers_`. */
    struct Entry {
        double now, measured, received;
        float battery;
        Phase phase;
        int fault;
        bool has_reading, has_command;
    };

    void run();
    void write_entry(const Entry &entry, const float *numbers);

    const Robot &robot_;
    McapWriter file_;
    std::vector<bool> measured_;
    std::size_t stride_;
    std::vector<Entry> entries_;
    std::vector<float> numbers_;
    std::atomic<std::size_t> written_{0}, read_{0};
    std::atomic<bool> over_{false};
    long left_out_ = 0;
    std::string text_;
    std::thread thread_;
};

} // namespace flight

#endif
