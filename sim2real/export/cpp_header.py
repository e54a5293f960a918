"""A C++17 header over a policy's C: classes without heap and exceptions, whose structs are those of policy.h.

rookery::Policy policy;
rookery::Policy::Command command;
if (policy.step(state, command)) { ... }       // once a control step
rookery::Loops loops;                          // what lies below, where the contract has it
"""

from __future__ import annotations

from pathlib import Path

from rookery.sim.terms.c import comment
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import CPP_HEADER, HEADER, Export, Exporter, file_name
from rookery.sim2real.export.joints_c import JointsC
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.multirotor_c import MultirotorC
from rookery.sim2real.export.tool_c import ToolC


class Cpp(Exporter):
    """A C++17 header over the C."""

    name = "cpp"
    includes = ("c",)
    files = (CPP_HEADER,)

    def write(self, export: Export, folder: Path) -> None:
        for group, _, (path,) in export.parts(folder, *self.files):
            header = file_name(HEADER, export.contract, group)
            path.write_text(cpp_header(export.contract, group, export.c_prefix(group), header), encoding="ascii")


def cpp_header(contract: Contract, group: str, prefix: str, header: str) -> str:
    """The text of policy.hpp.

    Args:
        contract: valid, with stages.
        group: agent group.
        prefix: of the C names; the namespace's name.
        header: file name of policy.h.
    """
    upper = prefix.upper()
    size = contract.groups[group].trained.mask_size
    allowed = f"const std::array<unsigned char, {size}> &allowed" if size else ""
    given = "allowed.data(), " * bool(size)
    loops = _loops(LoopsC(contract, group, prefix), prefix, contract.groups[group].trained.agents)
    of = f"{comment(contract.task_id)}, agent group {comment(group)}"
    values = {
        "OF": of, "VERSION": comment(contract.rookery_version), "HEADER": header, "LOOPS": loops, "GIVEN": given,
        "MASK": f"{allowed}, " * bool(size), "MASKED": f", {allowed}" * bool(size), "U": upper, "P": prefix,
    }  # fmt: skip
    text = _POLICY
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _loops(loops: LoopsC, prefix: str, agents: int) -> str:
    """The class of the loops; nothing where there are none. One policy acts for so many agents."""
    below = loops.written
    if below is None:
        return ""
    upper = prefix.upper()
    if isinstance(below, MultirotorC):
        body = _MOTORS
    elif isinstance(below, ToolC):
        body = _TOOL + (_SPRING if below.spring else _SERVOS)
    else:
        pulled = isinstance(below, JointsC) and below.pulled
        body = _JOINTS + (_PULLED if pulled else _SERVOS)
    body = body.replace("@N@", str(below.outputs)).replace("@P@", prefix)
    if agents > 1:  # a robot's part of the team's command
        body = body.replace("Policy::Command", f"std::array<float, Policy::actions / {agents}>")
    return f"""
/* The loops below the policy, every loop_dt, and what they keep; one for each robot. */
class Loops {{
public:
    using Sensed = {prefix}_sensed;

    static constexpr float loop_dt = {upper}_LOOP_DT; /* s */
    static constexpr int steps = {upper}_LOOP_STEPS;  /* in a control step */
{body}
    {prefix}_loops &kept() noexcept {{ return loops_; }}

private:
    {prefix}_loops loops_{{}};
}};
"""


_POLICY = """/* C++17 over @HEADER@, which documents all of it: no heap, no exceptions, nothing static.
   Compile the C beside it as C. @OF@. Written by Rookery @VERSION@. */
#ifndef @U@_POLICY_HPP
#define @U@_POLICY_HPP

#include <array>
#include <cstddef>

#include "@HEADER@"

namespace @P@ {

/* The policy and what it keeps between control steps; one for each robot. */
class Policy {
public:
    using State = @P@_state;

    static constexpr std::size_t observations = @U@_POLICY_OBSERVATIONS;
    static constexpr std::size_t actions = @U@_POLICY_ACTIONS;
    static constexpr float control_dt = @U@_POLICY_CONTROL_DT; /* s */
    static constexpr const char *contract = @U@_POLICY_CONTRACT;

    using Observation = std::array<float, observations>;
    using Action = std::array<float, actions>;
    using Command = std::array<float, actions>;

    Policy() noexcept { reset(); }

    /* Begin an episode. */
    void reset() noexcept { @P@_start(&controller_); }

    /* A whole control step. False where a number of the state was none: then the command is as it was. */
    [[nodiscard]] bool step(const State &now, @MASK@Command &command) noexcept
    {
        return @P@_step(&controller_, &now, @GIVEN@command.data()) != 0;
    }

    /* Its parts: the network's input, once a control step; */
    Observation observe(const State &now) noexcept
    {
        Observation out{};
        @P@_observe_state(&controller_, &now, out.data());
        return out;
    }

    /* or observation and network, once a control step: the action in [-1, 1]; */
    Action act(const State &now@MASKED@) noexcept
    {
        Action out{};
        @P@_act(&controller_, &now, @GIVEN@out.data());
        return out;
    }

    /* then the action that is carried out; */
    void acted(const State &now, const Action &action) noexcept { @P@_acted(&controller_, &now, action.data()); }

    /* and its command in physical units. */
    static Command command(const Action &action) noexcept
    {
        Command out{};
        @P@_command(action.data(), out.data());
        return out;
    }

    /* What is kept, such as the phase of a clock. */
    @P@_controller &controller() noexcept { return controller_; }

private:
    @P@_controller controller_{};
};
@LOOPS@
} // namespace @P@

#endif /* @U@_POLICY_HPP */
"""

_MOTORS = """
    using Motors = std::array<float, @N@>;

    Loops() noexcept { reset(); }

    void reset() noexcept { @P@_start_loops(&loops_); }

    /* Motor commands in [0, 1]. */
    Motors motors(const Sensed &now, const Policy::Command &command) noexcept
    {
        Motors out{};
        @P@_motors(&loops_, &now, command.data(), out.data());
        return out;
    }
"""

_JOINTS = """
    using Joints = std::array<float, @N@>;

    void start(const Sensed &now) noexcept { @P@_start_loops(&loops_, &now); }

    /* Once a control step. */
    void take_command(const Sensed &now, const Policy::Command &command) noexcept
    {
        @P@_take_command(&loops_, &now, command.data());
    }
"""

_SERVOS = """
    /* Targets of the servos, rad (m). */
    Joints targets() noexcept
    {
        Joints out{};
        @P@_targets(&loops_, out.data());
        return out;
    }

    /* Torques in N m (N), where no servo takes the targets. */
    static Joints torques(const Sensed &now, const Joints &target) noexcept
    {
        Joints out{};
        @P@_torques(&now, target.data(), out.data());
        return out;
    }
"""

_PULLED = """
    /* Torques above gravity compensation, N m. */
    Joints torques() noexcept
    {
        Joints out{};
        @P@_torques(&loops_, out.data());
        return out;
    }
"""

_TOOL = """
    using Joints = std::array<float, @N@>;

    /* Kinematics: void(const float *angle, float *place, float *matrix, float *jacobian), see the C header. */
    template <class Kinematics> void start(const Sensed &now, Kinematics &kinematics) noexcept
    {
        @P@_start_loops(&loops_, &now, &Loops::solve<Kinematics>, &kinematics);
    }

    /* Once a control step. */
    template <class Kinematics>
    void take_command(const Sensed &now, Kinematics &kinematics, const Policy::Command &command) noexcept
    {
        @P@_take_command(&loops_, &now, &Loops::solve<Kinematics>, &kinematics, command.data());
    }

    template <class Kinematics>
    static void solve(const float *angle, float *place, float *matrix, float *jacobian, void *user)
    {
        (*static_cast<Kinematics *>(user))(angle, place, matrix, jacobian);
    }
"""

_SPRING = """
    /* Torques above gravity compensation, N m. */
    template <class Kinematics> Joints torques(const Sensed &now, Kinematics &kinematics) noexcept
    {
        Joints out{};
        @P@_torques(&loops_, &now, &Loops::solve<Kinematics>, &kinematics, out.data());
        return out;
    }
"""
