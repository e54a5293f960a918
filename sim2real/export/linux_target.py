"""`--target linux`: a C++17 program that runs a bundle at a fixed rate without Python, and compiles as it is.

It reads the measured state and writes commands through the functions of robot.hpp, which the user fills for the robot at hand;
the ones that come with it speak UDP, for a demo and for simulators. The network is checked against golden vectors at the start.
Stale measurements, numbers that are none, missed deadlines and a signal end the run in the safe state.
"""

from __future__ import annotations

from pathlib import Path

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import C_FILE, CPP_HEADER, HEADER, Export, Exporter, file_name
from rookery.sim2real.export.golden_c import golden_header
from rookery.sim2real.export.joints_c import JointsC
from rookery.sim2real.export.linux_text import LOOP_TEXT, ROBOT_TEXT, UDP_TEXT
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.multirotor_c import MultirotorC
from rookery.sim2real.export.tool_c import ToolC

LOOP, ROBOT, UDP, GOLDEN_HEADER, MAKEFILE = (
    "linux/loop{group}.cpp",
    "linux/robot{group}.hpp",
    "linux/robot_udp{group}.cpp",
    "linux/golden{group}.h",
    "linux/Makefile",
)


class Linux(Exporter):
    """The bundle and a C++17 program that runs it at a fixed rate on Linux."""

    name = "linux"
    includes = ("bundle",)
    files = (LOOP, ROBOT, UDP, GOLDEN_HEADER, MAKEFILE)

    def check(self, export: Export) -> None:
        for name, group in export.contract.groups.items():
            if group.spec.action.masked:
                raise RookeryError(
                    f"the group {name!r} is told which options it may choose, which a loop does not: --target c."
                )

    def write(self, export: Export, folder: Path) -> None:
        for group, policy, (loop, robot, udp, golden) in export.parts(folder, *self.files[:-1]):
            prefix = export.c_prefix(group)
            names = {
                "P": prefix, "U": prefix.upper(), "HPP": file_name(CPP_HEADER, export.contract, group), "ROBOT": robot.name,
                "GOLDEN": golden.name,
            }  # fmt: skip
            parts = _parts(export.contract, group, prefix)
            for path, text in ((loop, LOOP_TEXT), (robot, ROBOT_TEXT), (udp, UDP_TEXT)):
                path.write_text(_filled(text, names | parts), encoding="ascii")
            golden.write_text(
                golden_header(policy, prefix, file_name(HEADER, export.contract, group)), encoding="ascii"
            )
        (folder / MAKEFILE).write_text(_makefile(export.contract), encoding="ascii")


def _parts(contract: Contract, group: str, prefix: str) -> dict[str, str]:
    """Code of the program for a command, by the kind of its loops."""
    below = LoopsC(contract, group, prefix).written
    if isinstance(below, ToolC) or below is None:
        return {
            "SENSED": "", "OUTPUT": "Policy::Command", "WHAT": "the policy's command", "LOOPS": "", "BEGIN": "", "TAKE": "",
            "ACT": "output = command;", "DT": f"{prefix}::Policy::control_dt", "STEPS": "1", "BYTES": "sizeof(Policy::State)",
        }  # fmt: skip
    out = {
        "SENSED": "    Loops::Sensed sensed; /* what the loops below measure */\n", "LOOPS": "        Loops loops;\n",
        "DT": f"{prefix}::Loops::loop_dt", "STEPS": f"{prefix}::Loops::steps", "BEGIN": "", "TAKE": "",
        "BYTES": "sizeof(Policy::State) + sizeof(Loops::Sensed)",
    }  # fmt: skip
    if isinstance(below, MultirotorC):
        motors = {"OUTPUT": "Loops::Motors", "WHAT": "motor commands in [0, 1]"}
        return out | motors | {"ACT": "output = loops.motors(now.sensed, command);"}
    pulled = isinstance(below, JointsC) and below.pulled
    return out | {
        "OUTPUT": "Loops::Joints",
        "WHAT": "torques above gravity compensation, N m" if pulled else "targets of the joints' servos, rad (m)",
        "BEGIN": "                loops.start(now.sensed);\n",
        "TAKE": "            loops.take_command(now.sensed, command);\n",
        "ACT": f"output = loops.{'torques' if pulled else 'targets'}();",
    }


def _makefile(contract: Contract) -> str:
    """Rules of each group's program."""
    rules = []
    programs = []
    for group in contract.groups:
        loop, robot, udp, golden, source, hpp, header = (
            file_name(f, contract, group) for f in (LOOP, ROBOT, UDP, GOLDEN_HEADER, C_FILE, CPP_HEADER, HEADER)
        )
        name = Path(loop).stem
        programs.append(name)
        local = " ".join(Path(f).name for f in (robot, golden))
        policy = Path(source).with_suffix(".o").name
        rules.append(
            f"{policy}: ../{source} ../{header}\n\t$(CC) -std=c99 $(WARNINGS) -O2 -c -o $@ $<\n\n"
            f"{name}: {Path(loop).name} $(or $(ROBOT),{Path(udp).name}) {policy} {local} ../{hpp}\n"
            "\t$(CXX) -std=c++17 $(WARNINGS) -O2 -I.. -o $@ $(filter %.cpp %.o,$^)"
        )
    return f"""# Builds the program; `make ROBOT=my_robot.cpp` with the functions of robot.hpp for your robot in place of UDP.
# Leave -ffast-math out: it takes tests for NaN out.
WARNINGS := -Wall -Wextra -Wpedantic

all: {" ".join(programs)}

{(chr(10) * 2).join(rules)}

clean:
\trm -f {" ".join(programs)} *.o

.PHONY: all clean
"""


def _filled(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
