"""`--target linux`: a C++17 program that flies a bundle without Python, and compiles as it is with make or CMake.

It has what `rookery fly` has: states from idle to emergency, the same safety filter (runtime/safety.c), a watchdog, a log. The
files of the folder linux/ here are copied as they are; bundle.cpp is written for the contract. Links: MAVLink over UDP,
datagrams for simulators, and what a user writes against link.hpp.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rookery.policies.stages.c_text import literal
from rookery.sim.actuation import Joint
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim.specs import CommandRange
from rookery.sim.terms.c import comment
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.export.exporter import C_FILE, CPP_HEADER, HEADER, Export, Exporter, TargetGuide, file_name
from rookery.sim2real.export.golden_c import golden_header
from rookery.sim2real.export.joints_c import JointsC
from rookery.sim2real.export.linux_text import BUNDLE_TEXT, CMAKE_TEXT, MAKE_TEXT, READY_TEXT
from rookery.sim2real.export.loops_c import LoopsC
from rookery.sim2real.export.multirotor_c import MultirotorC
from rookery.sim2real.export.state_c import StateC
from rookery.sim2real.export.tool_c import ToolC
from rookery.sim2real.links.joints import JointTargets
from rookery.sim2real.runtime.flight_log import SCHEMA
from rookery.sim2real.runtime.safety import MOST, FilterRanges, filter_ranges
from rookery.sim2real.runtime.settings import family_of, safety_settings

SOURCES = Path(__file__).with_name("linux")
FILTER = Path(__file__).parents[1] / "runtime"
OBJECTS = (
    "checks.cpp", "controls.cpp", "entry.cpp", "link.cpp", "log.cpp", "main.cpp", "mavlink_link.cpp", "mcap.cpp", "packets.cpp",
    "pilot.cpp", "settings.cpp", "simulator_link.cpp", "udp.cpp",
)  # fmt: skip
"""Files that every program is built from."""
HEADERS = (
    "clock.hpp", "entry.hpp", "frames.hpp", "link.hpp", "log.hpp", "mcap.hpp", "packets.hpp", "pilot.hpp", "robot.hpp",
    "settings.hpp", "toml_lines.hpp", "udp.hpp",
)  # fmt: skip
EXAMPLE = "example_link.cpp"
SAFETY = ("safety.c", "safety.h")
BUNDLE, GOLDEN_HEADER = "linux/bundle{group}.cpp", "linux/golden{group}.h"
MAKEFILE, CMAKE = "linux/Makefile", "linux/CMakeLists.txt"
SENSED = {
    "position": "position", "velocity": "velocity", "rotation": "rotation", "angular_velocity": "angular velocity",
}  # fmt: skip
SENSED_JOINTS = {"angle": "joint angles", "velocity": "joint velocities"}
"""Members of a loops' struct of measured things, and the quantities that fill them."""
MULTIROTOR = {"position": (3, "m"), "velocity": (3, "m/s"), "rotation": (4, "1"), "angular velocity": (3, "rad/s")}
"""Quantities that entry and safety filter want of a multirotor: size and unit."""


class Linux(Exporter):
    """The bundle and a C++17 program that flies it on Linux, with the safety filter and without Python."""

    name = "linux"
    includes = ("bundle",)
    files = (
        BUNDLE, GOLDEN_HEADER, *(f"linux/{f}" for f in (*OBJECTS, *HEADERS, EXAMPLE, *SAFETY)), MAKEFILE, CMAKE,
    )  # fmt: skip

    def guide(self, export: Export) -> TargetGuide:
        program = next(iter(_programs(export.contract)))
        return TargetGuide(
            "linux/",
            "a C++17 program for Linux that flies this bundle without Python, behind a safety filter",
            (
                "make -C linux                                 # or: cmake -S linux -B build && cmake --build build",
                f"linux/{program} --describe".ljust(46) + "# what it takes and measures",
                f"linux/{program} mavlink://:14540 --log flight.mcap",
            ),
            "SIGINT ends the policy and comes down; status 0 says that it came down as asked. For a robot of your own copy "
            "`linux/example_link.cpp`, and build with `make -C linux LINKS=my_link.cpp`.",
            (
                "our simulated PX4 vehicle in real time over loopback; our drone and our Go2 in lock-step, every step against "
                "`rookery fly`; parsers with sanitizers",
                "a companion computer other than x86-64, a kernel with PREEMPT_RT, an autopilot",
            ),
        )

    def check(self, export: Export) -> None:
        for name, group in export.contract.groups.items():
            group.refuse_team()
            if group.spec.action.masked:
                raise RookeryError(
                    f"the group {name!r} is told which options it may choose, which a loop does not: --target c."
                )
            joints = 0 if group.actuation is None else len(group.actuation.joints)
            if max(joints, group.trained.outputs) > MOST:
                raise RookeryError(f"the safety filter takes at most {MOST} joints and commands: --target c.")
            quantities(export.contract, name, export.c_prefix(name))

    def write(self, export: Export, folder: Path) -> None:
        for group, policy, (bundle, golden) in export.parts(folder, BUNDLE, GOLDEN_HEADER):
            prefix = export.c_prefix(group)
            bundle.write_text(bundle_text(export.contract, group, prefix, golden.name), encoding="ascii")
            header = file_name(HEADER, export.contract, group)
            golden.write_text(golden_header(policy, prefix, header), encoding="ascii")
        for name in (*OBJECTS, *HEADERS, EXAMPLE):
            shutil.copyfile(SOURCES / name, folder / "linux" / name)
        for name in SAFETY:
            shutil.copyfile(FILTER / name, folder / "linux" / name)
        (folder / MAKEFILE).write_text(_makefile(export.contract), encoding="ascii")
        (folder / CMAKE).write_text(_cmake(export.contract), encoding="ascii")


@dataclasses.dataclass(frozen=True)
class TableRow:
    """A row of the program's table of quantities."""

    name: str
    unit: str
    size: int
    at: int
    needed: bool

    @property
    def text(self) -> str:
        """The row in C++."""
        return f"{{{text_of(self.name)}, {text_of(self.unit)}, {self.size}, {self.at}, {_bool(self.needed)}}}"


def quantities(contract: Contract, group: str, prefix: str) -> dict[str, TableRow]:
    """All that the policy, its loops, the entry and the filter want measured or commanded, by name.

    Raises:
        RookeryError: two have one name and not one size.
    """
    of = contract.groups[group]
    wanted: dict[str, tuple[int, str, bool]] = {}

    def add(name: str, size: int, unit: str, needed: bool = True) -> None:
        before = wanted.get(name)
        if before is not None and before[0] != size:
            raise RookeryError(
                f"the policy observes two quantities {name!r} of {before[0]} and {size} values: rename one."
            )
        wanted[name] = (size, unit, needed or (before is not None and before[2]))

    for q in StateC(contract, group, prefix).members.values():
        add(q.name, q.size, q.unit)
    if family_of(of) == "multirotor":
        for name, (size, unit) in MULTIROTOR.items():
            add(name, size, unit)
    else:
        count = 0 if of.actuation is None else len(of.actuation.joints)
        driven = _holds(of) or _loops(contract, group, prefix) is not None
        for name, unit in (("joint angles", "rad"), ("joint velocities", "rad/s"), ("joint torques", "N m")):
            if count and name not in wanted:
                add(name, count, unit, driven and name != "joint torques")
    out: dict[str, TableRow] = {}
    at = 0
    for name, (size, unit, needed) in wanted.items():
        out[name] = TableRow(name, unit, size, at, needed)
        at += size
    return out


def _loops(contract: Contract, group: str, prefix: str) -> MultirotorC | JointsC | None:
    """C of the loops below the policy that the program runs; those of a tool want kinematics, which a link has."""
    below = LoopsC(contract, group, prefix).written
    return below if isinstance(below, MultirotorC | JointsC) and not isinstance(below, ToolC) else None


def _holds(group: ContractGroup) -> bool:
    """True where commands are angles of joints that servos can hold."""
    try:
        JointTargets(group)
    except RookeryError:
        return False
    return True


def bundle_text(contract: Contract, group: str, prefix: str, golden: str) -> str:
    """The text of bundle.cpp."""
    of = contract.groups[group]
    table = quantities(contract, group, prefix)
    ranges = filter_ranges(of)
    loops = _loops(contract, group, prefix)
    state = StateC(contract, group, prefix).members
    fill = [f"state.{member}, values + {table[q.name].at}, sizeof state.{member}" for member, q in state.items()]
    joints = () if of.actuation is None else of.actuation.joints
    weight, most = _thrust(of)
    values = {
        "OF": f"{comment(contract.task_id)}, agent group {comment(group)}", "VERSION": text_of(contract.rookery_version),
        "P": prefix, "U": prefix.upper(), "HPP": file_name(CPP_HEADER, contract, group), "GOLDEN": golden,
        "QUANTITIES": _rows(q.text for q in table.values()),
        "COUNT": len(table), "VALUES": sum(q.size for q in table.values()),
        "JOINTS": _rows(_joint(j, of) for j in joints) or "    {},", "JOINT_COUNT": len(joints), "HOLDS": _bool(_holds(of)),
        "TASK": text_of(contract.task_id), "GROUP": text_of(group), "CONTRACT": text_of(json.dumps(contract.to_json())),
        "SCHEMA": text_of(json.dumps(SCHEMA)), "FAMILY": family_of(of), "KIND": text_of(of.spec.action.kind),
        "DT": repr(float(contract.control_dt)), "WEIGHT": _number(weight), "MOST": _number(most),
        "LIMITS": ", ".join(_number(v) for v in dataclasses.asdict(safety_settings(contract, group).limits).values()),
        "FILL": "\n".join(f"        std::memcpy({words});" for words in fill) or "        (void)values;",
        "STATE": f"{prefix}::Policy::State state{{}};", "COMMANDS": of.trained.outputs,
    } | _range_values(ranges) | _command_values(of.commands, list(table))  # fmt: skip
    return _filled(BUNDLE_TEXT, _loop_values(loops, table) | values)


def _range(value: float) -> str:
    return "INFINITY" if value == math.inf else literal(value)


def _range_values(ranges: FilterRanges) -> dict[str, object]:
    names = ("command_low", "command_high", "joint_low", "joint_high", "torque", "speed", "drive_torque")
    return {name.upper(): ", ".join(_range(x) for x in getattr(ranges, name)) or "0.0f" for name in names}


def _command_values(commands: Mapping[str, CommandRange], table: Sequence[str]) -> dict[str, object]:
    """Ranges of commands, as the program's table of quantities has them."""
    known = {name: span for name, span in commands.items() if name in table}
    ends, rows = [], []
    for i, (name, span) in enumerate(known.items()):
        for side, values in (("low", span.low), ("high", span.high)):
            ends.append(f"const float range_{i}_{side}[] = {{{', '.join(literal(x) for x in values)}}};\n")
        origin = table.index(span.relative_to) if span.relative_to in table else -1
        rows.append(f"{{{table.index(name)}, range_{i}_low, range_{i}_high, {origin}}}")
    return {"RANGE_ENDS": "".join(ends), "RANGES": _rows(rows) or "    {},", "RANGE_COUNT": len(known)}


KEEP = "std::memcpy(taken_.data(), command, sizeof taken_);"
UNUSED = "(void)values, (void)command"


def _loop_values(loops: MultirotorC | JointsC | None, table: dict[str, TableRow]) -> dict[str, object]:
    """Code of the loops below the policy, which links that take actuators run."""
    if loops is None:
        return {
            "LOOPS": "", "LOOP_DT": "0.0", "LOOP_STEPS": 0, "OUTPUTS": 0, "BEGIN": "(void)values;", "TAKE": f"{UNUSED};",
            "ACT": f"{UNUSED}, (void)actuators;",
        }  # fmt: skip
    fields = SENSED if isinstance(loops, MultirotorC) else SENSED_JOINTS
    members = [line.split()[1].split("[")[0] for line in loops.sensed()]
    sense = "\n".join(
        f"        std::memcpy(out.{name}, values + {table[fields[name]].at}, sizeof out.{name});" for name in members
    )
    if isinstance(loops, MultirotorC):
        call = "loops_.motors(sensed(values), taken_)"
        begin, take = "(void)values;\n        loops_.reset();", f"(void)values;\n        {KEEP}"
    else:
        call = "loops_.torques()" if loops.pulled else "loops_.targets()"
        begin = "loops_.start(sensed(values));"
        take = f"{KEEP}\n        loops_.take_command(sensed(values), taken_);"
    lines = (f"{UNUSED};", f"const auto out = {call};", "std::memcpy(actuators, out.data(), sizeof out);")
    return {
        "LOOP_DT": repr(float(loops.period)), "OUTPUTS": loops.outputs, "LOOP_STEPS": "@P@::Loops::steps",
        "BEGIN": begin, "TAKE": take, "ACT": "\n        ".join(lines), "LOOPS": _filled(READY_TEXT, {"SENSE": sense}),
    }  # fmt: skip


def _joint(joint: Joint, group: ContractGroup) -> str:
    names = group.spec.action.names
    component = names.index(joint.name) if joint.name in names else 0
    numbers = ", ".join(literal(x) for x in (joint.home, joint.lower, joint.upper, joint.kp, joint.kd))
    return f"{{{text_of(joint.name)}, {numbers}, {component}}}"


def _thrust(group: ContractGroup) -> tuple[float, float]:
    """Weight and highest collective thrust, N."""
    multirotor = None if group.actuation is None else group.actuation.multirotor
    if multirotor is None:
        return 1.0, 1.0
    return multirotor.mass * GRAVITY, len(multirotor.rotors) * sum(multirotor.thrust_curve)


def _number(value: float) -> str:
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _rows(rows: Iterable[str]) -> str:
    return "\n".join(f"    {row}," for row in rows)


def text_of(text: str) -> str:
    """A C++ literal of a text of UTF-8, over several lines where it is long; a contract's names cannot end it."""
    safe = set(range(0x20, 0x7F)) - set(b'"\\?')
    pieces = [chr(b) if b in safe else f"\\{b:03o}" for b in text.encode()]
    lines = ["".join(pieces[i : i + 100]) for i in range(0, len(pieces), 100)] or [""]
    return "\n    ".join(f'"{line}"' for line in lines)


def _programs(contract: Contract) -> dict[str, dict[str, str]]:
    """By program, what builds it."""
    out = {}
    for group in contract.groups:
        source, bundle, golden, hpp, header = (
            file_name(f, contract, group) for f in (C_FILE, BUNDLE, GOLDEN_HEADER, CPP_HEADER, HEADER)
        )
        out[file_name("loop{group}", contract, group)] = {
            "SOURCE": source, "OBJECT": Path(source).with_suffix(".o").name, "BUNDLE": Path(bundle).name,
            "GOLDEN": Path(golden).name, "HPP": hpp, "HEADER": header,
        }  # fmt: skip
    return out


def _makefile(contract: Contract) -> str:
    rules = "\n".join(
        f"{p['OBJECT']}: ../{p['SOURCE']} ../{p['HEADER']}\n\t$(CC) -std=c99 $(WARNINGS) -O2 -c -o $@ $<\n\n"
        f"{Path(p['BUNDLE']).with_suffix('.o')}: {p['GOLDEN']} ../{p['HPP']} ../{p['HEADER']}\n\n"
        f"{name}: {Path(p['BUNDLE']).with_suffix('.o')} {p['OBJECT']} $(OBJECTS)\n\t$(CXX) -o $@ $^ -pthread\n"
        for name, p in _programs(contract).items()
    )
    objects = " ".join(Path(f).with_suffix(".o").name for f in OBJECTS)
    values = {
        "OBJECTS": objects,
        "HEADERS": " ".join(HEADERS),
        "PROGRAMS": " ".join(_programs(contract)),
        "RULES": rules,
    }
    return _filled(MAKE_TEXT, values)


def _cmake(contract: Contract) -> str:
    programs = "\n".join(
        f"add_executable({name} {p['BUNDLE']} ../{p['SOURCE']} ${{COMMON}} ${{LINKS}})\n"
        f"target_include_directories({name} PRIVATE .. .)\ntarget_link_libraries({name} PRIVATE Threads::Threads m)"
        for name, p in _programs(contract).items()
    )
    return _filled(CMAKE_TEXT, {"OBJECTS": " ".join(OBJECTS), "PROGRAMS": programs})


def _filled(text: str, values: Mapping[str, object]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text
