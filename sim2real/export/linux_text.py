"""Texts of `--target linux` that differ from bundle to bundle; what stands between @ is filled in by linux_target.py."""

from __future__ import annotations

BUNDLE_TEXT = """/* @OF@: the robot and its policy, as the loop takes them. Written by Rookery. */
#include <cmath>
#include <cstring>

#include "@HPP@"
#include "@GOLDEN@"
#include "robot.hpp"

namespace flight {
namespace {

const Quantity quantities[] = {
@QUANTITIES@
};

const Joint joints[] = {
@JOINTS@
};

@RANGE_ENDS@const CommandRange ranges[] = {
@RANGES@
};

const float command_low[] = {@COMMAND_LOW@};
const float command_high[] = {@COMMAND_HIGH@};
const float joint_low[] = {@JOINT_LOW@};
const float joint_high[] = {@JOINT_HIGH@};
const float joint_torque[] = {@TORQUE@};
const float joint_speed[] = {@SPEED@};
const float drive_torque[] = {@DRIVE_TORQUE@};

class Bundle final : public Controller {
public:
    void begin() override { policy_.reset(); }

    bool step(const float *values, float *command) override
    {
        @STATE@
        @P@::Policy::Command out{};
@FILL@
        if (!policy_.step(state, out)) {
            return false;
        }
        std::memcpy(command, out.data(), sizeof out);
        return true;
    }

    void begin_loops(const float *values) override
    {
        @BEGIN@
    }

    void take(const float *values, const float *command) override
    {
        @TAKE@
    }

    void actuate(const float *values, const float *command, float *actuators) override
    {
        @ACT@
    }

    float golden_error() const override { return @P@_golden_error(); }
    float golden_most() const override { return @U@_GOLDEN_MOST; }

private:
    @P@::Policy policy_;
@LOOPS@};

} // namespace

const Robot &robot()
{
    static const Robot out = {
        @TASK@,
        @GROUP@,
        @VERSION@,
        @CONTRACT@,
        @SCHEMA@,
        Family::@FAMILY@,
        @KIND@,
        @DT@,
        @LOOP_DT@,
        @LOOP_STEPS@,
        @OUTPUTS@,
        quantities,
        @COUNT@,
        @VALUES@,
        ranges,
        @RANGE_COUNT@,
        joints,
        @JOINT_COUNT@,
        @HOLDS@,
        @WEIGHT@,
        @MOST@,
        {@LIMITS@},
        @COMMANDS@,
        command_low,
        command_high,
        joint_low,
        joint_high,
        joint_torque, joint_speed, drive_torque,
    };
    return out;
}

Controller &controller()
{
    static Bundle out;
    return out;
}

} // namespace flight
"""

READY_TEXT = """    @P@::Loops loops_;
    @P@::Policy::Command taken_{};

    static @P@::Loops::Sensed sensed(const float *values)
    {
        @P@::Loops::Sensed out{};
        (void)values;
@SENSE@
        return out;
    }
"""

MAKE_TEXT = """# Builds the program; `make LINKS=my_link.cpp` with links of your own, see example_link.cpp.
# Leave -ffast-math out: it takes tests for NaN out.
WARNINGS := -Wall -Wextra -Wpedantic
CXXFLAGS := -std=c++17 -O2 -pthread -I.. -I.
LINKS    :=
OBJECTS  := @OBJECTS@ safety.o $(LINKS:.cpp=.o)

all: @PROGRAMS@

%.o: %.cpp @HEADERS@ safety.h
\t$(CXX) $(CXXFLAGS) $(WARNINGS) -c -o $@ $<

safety.o: safety.c safety.h
\t$(CC) -std=c99 $(WARNINGS) -O2 -c -o $@ $<

@RULES@
clean:
\trm -f @PROGRAMS@ *.o

.PHONY: all clean
"""

CMAKE_TEXT = """# The same program as the Makefile's: cmake -B build && cmake --build build; -DLINKS=my_link.cpp adds yours.
cmake_minimum_required(VERSION 3.16)
project(flight CXX C)

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_C_STANDARD 99)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_compile_options(-Wall -Wextra -Wpedantic -fno-fast-math)
find_package(Threads REQUIRED)

set(COMMON @OBJECTS@ safety.c)
@PROGRAMS@
"""
