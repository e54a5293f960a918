"""`--target px4`: a module skeleton for PX4 that flies the policy on the autopilot, behind the same safety filter.

    make px4_sitl_default EXTERNAL_MODULES_LOCATION=/path/to/export/px4      # in PX4-Autopilot

It publishes set-points while the vehicle is armed and in Offboard mode, and stops to where the filter finds a fault: PX4's own
fail-safe for lost off-board control (COM_OF_LOSS_T, COM_OBL_RC_ACT) takes over. It was compiled against stand-ins of PX4's
headers alone, never against its tree, and flown in simulation by its topics.

Interface: PX4 user guide 1.15, "External Modules (Out-of-Tree)", "Module Template"; fields of topics: msg/*.msg of
github.com/PX4/PX4-Autopilot 1.15. PX4's world is north, east, down, its body forward, right, down.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

from rookery.policies.stages.c_text import literal
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import C_FILE, HEADER, Export, Exporter, TargetGuide, file_name
from rookery.sim2real.export.golden_c import golden_header
from rookery.sim2real.export.on_board import check_on_board, only_group
from rookery.sim2real.export.px4_text import CMAKE, HOLD, KCONFIG, MODULE, MODULE_HEADER, OUTER_CMAKE, PUBLISH, YAML
from rookery.sim2real.export.state_c import StateC
from rookery.sim2real.runtime.safety import filter_ranges
from rookery.sim2real.runtime.settings import safety_settings

FOLDER = "px4/src/modules/rookery"
FILTER = Path(__file__).parents[1] / "runtime"
FILES = {
    "px4/src/CMakeLists.txt": OUTER_CMAKE, f"{FOLDER}/CMakeLists.txt": CMAKE, f"{FOLDER}/Kconfig": KCONFIG,
    f"{FOLDER}/module.yaml": YAML, f"{FOLDER}/Rookery.hpp": MODULE_HEADER, f"{FOLDER}/Rookery.cpp": MODULE,
}  # fmt: skip
POLICY, GOLDEN_HEADER = f"{FOLDER}/policy.c", f"{FOLDER}/golden.h"
SAFETY = ("safety.c", "safety.h")
FIELDS = ("target", "position", "velocity", "rotation", "angular velocity")
"""Quantities that the autopilot gives, by the names that all tasks share; the target is where Offboard began, or what `rookery
target` says."""
TOPICS = {
    "ctbr": ("vehicle_rates_setpoint", "body_rate"), "attitude": ("vehicle_attitude_setpoint", "attitude"),
    "velocity": ("trajectory_setpoint", "velocity"), "position": ("trajectory_setpoint", "position"),
}  # fmt: skip
"""Topic of each action kind, and its flag in offboard_control_mode."""
MOST_STACK = 1500
"""Bytes of the work queue's stack that a control step may take."""


class Px4(Exporter):
    """The bundle and a module skeleton for PX4, which was not compiled against PX4's tree."""

    name = "px4"
    includes = ("bundle",)
    files = (*FILES, POLICY, GOLDEN_HEADER, *(f"{FOLDER}/{name}" for name in SAFETY))

    def guide(self, export: Export) -> TargetGuide:
        return TargetGuide(
            "px4/",
            "an out-of-tree module for PX4 that flies this policy in Offboard mode, a skeleton",
            (
                'here=$PWD; cd ~/PX4-Autopilot && make px4_sitl_default EXTERNAL_MODULES_LOCATION="$here/px4"',
                "# for a board: its target in place of px4_sitl_default, and `upload` behind it",
            ),
            "On PX4's shell `rookery start` starts it, `rookery target N E D` says where to fly. It flies while the vehicle is "
            "armed and in Offboard mode; where its filter finds a fault it publishes nothing more, and PX4's fail-safe for "
            "lost off-board control (`COM_OF_LOSS_T`, `COM_OBL_RC_ACT`) takes over.",
            (
                "stand-ins of PX4's headers; flown in simulation by its topics",
                "PX4's build, an autopilot",
            ),
        )

    def check(self, export: Export) -> None:
        group = only_group(export, "an autopilot")
        of = export.contract.groups[group]
        of.refuse_team()
        if of.actuation is None or of.actuation.multirotor is None or of.spec.action.kind not in TOPICS:
            raise RookeryError(
                f"the group {group!r} gives {of.spec.action.kind}, and PX4 takes {', '.join(TOPICS)} of multirotors."
            )
        check_on_board(export, group, "the autopilot", FIELDS, "PX4's work queue", MOST_STACK)

    def write(self, export: Export, folder: Path) -> None:
        ((group, policy),) = export.policies.items()
        prefix = export.c_prefix(group)
        up = "../../../.."
        header = f"{up}/{file_name(HEADER, export.contract, group)}"
        values = module_values(export.contract, group, prefix, header)
        for name, text in FILES.items():
            (folder / name).write_text(_filled(text, values), encoding="ascii")
        source = f"{up}/{file_name(C_FILE, export.contract, group)}"
        (folder / POLICY).write_text(f'/* For PX4 to build. */\n#include "{source}"\n', encoding="ascii")
        (folder / GOLDEN_HEADER).write_text(golden_header(policy, prefix, header), encoding="ascii")
        for name in SAFETY:
            shutil.copyfile(FILTER / name, folder / FOLDER / name)


def module_values(contract: Contract, group: str, prefix: str, header: str) -> dict[str, str]:
    """By name, what the texts of the module have between @."""
    of = contract.groups[group]
    kind = of.spec.action.kind
    topic, flag = TOPICS[kind]
    members = StateC(contract, group, prefix).members
    places = {q.name: name for name, q in members.items()}
    fill = [
        f"\tmemcpy(_state.{places[name]}, _{name.replace(' ', '_')}, sizeof(_state.{places[name]}));"
        for name in FIELDS
        if name in places
    ]
    held = of.commands.get("target")
    ends = ""
    if held is not None and "target" in places:
        origin = "_position" if held.relative_to == "position" else "nullptr"
        fill.append(HOLD.replace("@MEMBER@", places["target"]).replace("@ORIGIN@", origin))
        least, most = (", ".join(map(literal, side)) for side in (held.low, held.high))
        ends = f"static const float TARGET_LOW[3] = {{{least}}}; /* m, what the policy was trained with */\n"
        ends += f"static const float TARGET_HIGH[3] = {{{most}}};\n"
    limits = safety_settings(contract, group).limits
    ranges = filter_ranges(of)
    craft = of.actuation.multirotor if of.actuation is not None else None
    assert craft is not None
    numbers = {
        "stale_s": limits.stale_ms / 1e3, "silent_s": limits.silent_ms / 1e3, "frozen_s": limits.frozen_ms / 1e3,
        "clock_s": 0.0, "policy_s": 0.0, "lowest": limits.lowest_m, "highest": limits.highest_m,
        "spin": math.radians(limits.spin_deg_s), "jump": limits.jump_m, "jump_angle": math.radians(limits.jump_deg),
        "battery": 0.0,
    }  # fmt: skip
    lines = [f"\t_limits.{name} = {_double(value)};" for name, value in numbers.items()]
    for i, (low, high) in enumerate(zip(ranges.command_low, ranges.command_high, strict=True)):
        lines.append(f"\t_limits.command_low[{i}] = {literal(low)};")
        lines.append(f"\t_limits.command_high[{i}] = {literal(high)};")
        lines.append(f"\t_limits.command_step[{i}] = INFINITY;")
    fence = limits.fence_m if math.isfinite(limits.fence_m) else 1000.0
    return {
        "PUBLISH": PUBLISH[kind],  # first: what it has between @ is filled in, too
        "P": prefix, "U": prefix.upper(), "HEADER": header, "TOPIC": topic, "FLAG": flag, "FILL": "\n".join(fill),
        "PERIOD": f"{round(1e6 * contract.control_dt)}", "LIMITS": "\n".join(lines), "COMMANDS": str(of.trained.outputs),
        "WEIGHT": literal(craft.mass * GRAVITY), "TILT": f"{limits.tilt_deg:g}",
        "FENCE": f"{fence:g}", "TARGETS": ends,
    }  # fmt: skip


def _double(value: float) -> str:
    if math.isinf(value):
        return "static_cast<double>(INFINITY)" if value > 0 else "-static_cast<double>(INFINITY)"
    return repr(float(value))


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text
