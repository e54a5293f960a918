#include "log.hpp"

#include <chrono>
#include <cmath>
#include <cstring>

namespace flight {
namespace {

void append(std::string &out, const char *format, double value)
{
    char text[64];
    if (!std::isfinite(value)) {
        out += "null";
        return;
    }
    std::snprintf(text, sizeof text, format, value);
    out += text;
}

void append_list(std::string &out, const float *values, std::size_t count)
{
    out += '[';
    for (std::size_t i = 0; i < count; i++) {
        out += i == 0 ? "" : ", ";
        append(out, "%.9g", static_cast<double>(values[i]));
    }
    out += ']';
}

} // namespace

/* Names come from a contract: a quote in one of them must not end the text. */
std::string quoted(const char *text)
{
    std::string out = "\"";
    for (; *text != '\0'; text++) {
        char escaped[8];
        std::snprintf(escaped, sizeof escaped, *text == '"' || *text == '\\' || static_cast<unsigned char>(*text) < 0x20 ? "\\u%04x" : "%c",
                      static_cast<unsigned char>(*text));
        out += escaped;
    }
    return out + "\"";
}

Log::Log(const std::string &path, const Robot &robot)
    : robot_(robot), stride_(static_cast<std::size_t>(robot.values + robot.commands)), entries_(places), numbers_(places * stride_)
{
    if (!file_.open(path, "rookery.Step", robot.schema, "/0/step")) {
        throw Refused("cannot write " + path + ": choose another file for --log.");
    }
    file_.metadata("rookery.contract", "json", robot.contract);
    text_.reserve(1 << 14);
}

Log::~Log() { end(); }

void Log::begin(const std::vector<bool> &measured)
{
    measured_ = measured;
    thread_ = std::thread([this] { run(); });
}

void Log::write(const Step &step)
{
    const std::size_t n = written_.load(std::memory_order_relaxed);
    if (n - read_.load(std::memory_order_acquire) == places) {
        left_out_++;
        return;
    }
    const Reading &r = *step.reading;
    entries_[n % places] = {step.now, r.measured, r.received, r.battery, step.phase, step.fault, step.measured, step.command != nullptr};
    float *numbers = &numbers_[n % places * stride_];
    std::memcpy(numbers, r.values.data(), sizeof(float) * r.values.size());
    if (step.command != nullptr) {
        std::memcpy(numbers + robot_.values, step.command, sizeof(float) * static_cast<std::size_t>(robot_.commands));
    }
    written_.store(n + 1, std::memory_order_release);
}

void Log::run()
{
    for (;;) {
        const bool over = over_.load();
        const std::size_t end = written_.load(std::memory_order_acquire);
        std::size_t n = read_.load(std::memory_order_relaxed);
        for (; n != end; n++) {
            write_entry(entries_[n % places], &numbers_[n % places * stride_]);
            read_.store(n + 1, std::memory_order_release);
        }
        if (over) {
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

void Log::write_entry(const Entry &entry, const float *numbers)
{
    text_ = "{\"time\": ";
    append(text_, "%.9f", entry.now);
    text_ += std::string(", \"phase\": \"") + phase_names[static_cast<int>(entry.phase)] + "\"";
    if (entry.has_reading) {
        text_ += ", \"measured\": ";
        append(text_, "%.9f", entry.measured);
        text_ += ", \"received\": ";
        append(text_, "%.9f", entry.received);
        text_ += ", \"state\": {";
        bool first = true;
        for (int i = 0; i < robot_.quantity_count; i++) {
            const Quantity &q = robot_.quantities[i];
            if (measured_[static_cast<std::size_t>(i)]) {
                text_ += (first ? "" : ", ") + quoted(q.name) + ": ";
                append_list(text_, numbers + q.at, static_cast<std::size_t>(q.size));
                first = false;
            }
        }
        text_ += "}";
        if (entry.battery >= 0.0f) {
            text_ += ", \"battery\": ";
            append(text_, "%.9g", static_cast<double>(entry.battery));
        }
    }
    if (entry.has_command) {
        text_ += ", \"command\": ";
        append_list(text_, numbers + robot_.values, static_cast<std::size_t>(robot_.commands));
    }
    if (entry.fault != SAFETY_OK) {
        text_ += std::string(", \"fault\": \"") + fault_names[entry.fault] + "\"";
    }
    file_.message(static_cast<std::uint64_t>(1e9 * entry.now), text_ + "}");
}

long Log::end()
{
    if (thread_.joinable()) {
        over_ = true;
        thread_.join();
    }
    return file_.close() ? left_out_ : -1;
}

} // namespace flight
