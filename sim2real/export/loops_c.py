"""Loops below the policy, in C: from its command to motors and joints, by the contract's `actuation`.

    NAME_loops loops;
    NAME_start_loops(&loops, ...);            /* at an episode's start */

Multirotors have their loops and the mixer (multirotor_c.py), joints their servos (joints_c.py), tools goals, inverse
kinematics and references (tool_c.py). A vehicle that has some of it takes over where it likes: each step is a function of its
own. What an actuation of another robot would need is left to its `steps`, which the contract has in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rookery.policies.stages.c_text import literal
from rookery.sim2real.contract import Contract
from rookery.sim2real.export import chain_c
from rookery.sim2real.export.joints_c import JointsC
from rookery.sim2real.export.loop_calls import LoopCalls
from rookery.sim2real.export.multirotor_c import MultirotorC
from rookery.sim2real.export.tool_c import ToolC


class ActuationC(Protocol):
    """C of one kind of actuation.

    Attributes:
        calls: of a program.
        outputs: motors or joints.
    """

    calls: LoopCalls
    outputs: int

    @property
    def refused(self) -> str:
        """The reason why it has no C; "" where it has."""

    def sensed(self) -> list[str]:
        """Members of the struct of what the loops measure."""

    def kept(self) -> list[str]:
        """Members of the struct of what they keep."""

    def declarations(self) -> str:
        """For the header, behind the structs."""

    def code(self) -> list[str]:
        """For the C file."""


class LoopsC:
    """C of a group's actuation.

    Args:
        contract: valid, with stages.
        group: agent group.
        prefix: beginning of the C names.

    Attributes:
        below: C of its kind of actuation; None where it has none.
    """

    def __init__(self, contract: Contract, group: str, prefix: str) -> None:
        declared = contract.groups[group]
        self.prefix = prefix
        self.actuation = declared.actuation
        self.control_dt = contract.control_dt
        self.below: ActuationC | None = None
        if self.actuation is None or declared.spec.action.choices:
            return
        kinds = (
            (MultirotorC, self.actuation.multirotor),
            (ToolC, self.actuation.tool_goal),
            (JointsC, self.actuation.joints),
        )
        for kind, part in kinds:
            if part:
                self.below = kind(self.actuation, declared.spec.action, prefix, contract.control_dt)
                break

    @property
    def written(self) -> ActuationC | None:
        """The actuation's C where it has one."""
        return None if self.below is None or self.below.refused else self.below

    @property
    def steps(self) -> int:
        """Steps of the loops in a control step."""
        return 0 if self.actuation is None else round(self.control_dt / self.actuation.period)

    def declarations(self) -> str:
        """For the header: structs and functions."""
        if self.below is None or self.actuation is None:
            return ""
        if self.below.refused:
            return f"\n/* No loops below the policy: {self.below.refused}. */\n"
        p, upper = self.prefix, self.prefix.upper()
        sensed = _members(self.below.sensed())
        kept = _members(["int begun;", *self.below.kept()])
        return f"""
/* The loops below the policy. Each may be left to the vehicle. */
#define {upper}_LOOP_DT {literal(self.actuation.period)} /* s */
#define {upper}_LOOP_STEPS {self.steps} /* in a control step */

/* What they measure, every LOOP_DT. */
typedef struct {{
{sensed}
}} {p}_sensed;

/* What they keep, one for each robot; a NaN stays there until they start anew. */
typedef struct {{
{kept}
}} {p}_loops;
{self._chain_declaration()}{self.below.declarations()}"""

    def _chain_declaration(self) -> str:
        parts = self.actuation
        return "" if parts is None or parts.chain is None else chain_c.declaration(self.prefix, len(parts.joints))

    def code(self) -> list[str]:
        """For the C file, behind the policy's functions."""
        if self.written is None or self.actuation is None:
            return []
        chain, joints = self.actuation.chain, self.actuation.joints
        kinematics = [] if chain is None else chain_c.code(chain, joints, self.prefix)
        return [*kinematics, *self.written.code()]


def _members(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines or ["int none; /* nothing is measured */"])
