"""The program around a policy's C, as its README shows it: declarations, the start, the control step, the loops below."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rookery.sim2real.export.loops_c import LoopsC
    from rookery.sim2real.export.state_c import StateC


@dataclass(frozen=True)
class LoopCalls:
    """Statements of the loops below a policy, of one robot, over `loops`, `now`, `command` and the arrays.

    Args:
        start: begins an episode.
        inner: run every LOOP_DT.
        arrays: sizes of the arrays that they fill, by name.
        control: run once a control step.
        reads: True where `start` and `control` read `now`.
        before: declarations that they need.
    """

    start: str
    inner: Sequence[str]
    arrays: Mapping[str, int]
    control: Sequence[str] = ()
    reads: bool = False
    before: Sequence[str] = ()


def program(state: StateC, loops: LoopsC, prefix: str, header: str) -> str:
    """C of a program that calls a policy and what lies below it; it compiles in a function once its state is filled.

    Args:
        state, loops: of the group.
        prefix: beginning of the C names.
        header: file name of the policy's header.
    """
    upper = prefix.upper()
    calls = None if loops.written is None else loops.written.calls
    lines = [f'#include "{header}"', ""]
    if calls is not None and any("NULL" in call for call in (calls.start, *calls.control, *calls.inner)):
        lines.insert(0, "#include <stddef.h>")
    lines += [
        f"static {prefix}_controller controller;",
        f"static {prefix}_state state;",
        f"static float command[{upper}_POLICY_ACTIONS];",
    ]
    if state.mask:
        lines.append(f"static unsigned char allowed[{upper}_POLICY_MASK]; /* 1 for each option that may be chosen */")
    if calls is not None:
        several = f"[{upper}_POLICY_AGENTS]" if state.agents > 1 else ""
        lines += [f"static {prefix}_loops loops{several};", f"static {prefix}_sensed now;"]
        lines += [f"static float {name}[{size}];" for name, size in calls.arrays.items()]
        lines += [*calls.before, *["int i;"] * (state.agents > 1), "int k;"]
    lines += ["", f"{prefix}_start(&controller); /* at an episode's start */"]
    if calls is not None:
        lines += _each(state, upper, [*["/* fill now */"] * calls.reads, calls.start])
    lines += [
        f"for (;;) {{ /* every {state.control_dt:g} s */",
        f"    /* fill state{' and allowed' * bool(state.mask)} */",
        f"    if ({prefix}_step(&controller, &state, {'allowed, ' * bool(state.mask)}command) == 0) {{",
        "        /* a measurement was none: the command is as before, 0 before the first */",
        "    }",
    ]
    if calls is not None:
        below = _each(state, upper, [*["/* fill now */"] * calls.reads, *calls.control]) if calls.control else []
        below.append(f"for (k = 0; k < {upper}_LOOP_STEPS; k++) {{ /* every {upper}_LOOP_DT s */")
        below += [f"    {line}" for line in _each(state, upper, ["/* fill now */", *calls.inner])]
        lines += [f"    {line}" for line in [*below, "}"]]
    return "\n".join([*lines, "}"])


def _each(state: StateC, upper: str, statements: Sequence[str]) -> list[str]:
    """Statements of one robot, or of each robot of a team, which has loops of its own."""
    if state.agents == 1:
        return list(statements)
    own = [re.sub(r"&loops\b", "&loops[i]", line) for line in statements]
    own = [re.sub(r"\bloops\.", "loops[i].", line) for line in own]
    own = [re.sub(r"\bcommand\b(?=[,)])", f"&command[{state.outputs} * i]", line) for line in own]
    own = [line.replace("/* fill now */", "/* fill now of robot i */") for line in own]
    return [f"for (i = 0; i < {upper}_POLICY_AGENTS; i++) {{", *(f"    {line}" for line in own), "}"]
