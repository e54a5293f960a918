"""The skills that a high level chooses among, as a TOML file declares them.

every = 10                                   # control steps that a decision stands for at most
observe = ["goal", "lidar"]                  # what the high level observes; all terms if left out

[skills.walk]
policy = "go2-velocity"                      # a run, a bundle, a name of the zoo, or "controller"
command.command = [[-0.5, 1.0], 0.0, [-0.8, 0.8]]     # by component: least and greatest value, or one that is fixed
finished = "norm(goal) < 0.3"

[skills.grasp]
policy = "go2arm-loco-manipulation"
remap.to_goal = "to_ball"                    # a term of the task that the skill gets as another

[skills.hover]
policy = "drone-hover"
shift.position_error = 0.5                   # the largest shift of each component, in the term's unit
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.policies.stages.condition import Condition
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group
from rookery.sim.untrusted import read_toml
from rookery.sim.values import from_values

__all__ = ["CONTROLLER", "Skill", "SkillSet", "condition_of", "read_skills"]

CONTROLLER = "controller"
"""Policy of a skill that is the task's classical controller."""
MOST = 1_000_000
"""Control steps that a decision may stand for: counts stay exact as float32."""
CONDITION = re.compile(r"(norm\()?\s*(\w+)\s*(?(1)\)|(?:\[(\d+)\])?)\s*([<>])\s*([-+.\deE]+)")


@dataclass(frozen=True)
class Skill:
    """One skill as it is declared.

    Args:
        policy: run, bundle or zoo folder, a name of the zoo, or "controller".
        every: most control steps that a decision for it stands for; None takes that of the set.
        shift: by term that it observes, the largest shift, in the term's unit: one number, or one for each component.
        command: by term, for each component its least and greatest value, or one number that is fixed.
        remap: by term that it observes, the term of the task that it gets in its place.
        finished: condition under which it has finished, such as "norm(position_error) < 0.1"; "" for none.
        allowed: condition under which it may be chosen; "" for at all times.
        learn: its policy learns too, where a training has its skills learn.
        reward: condition on what the skill observes, commands included, such as "norm(position_error) < 0.1": a skill that
            learns earns 1 for each control step after which it holds, in place of the task's reward; "" for the task's.
    """

    policy: str
    every: int | None = None
    shift: dict[str, Any] = field(default_factory=dict)
    command: dict[str, Any] = field(default_factory=dict)
    remap: dict[str, str] = field(default_factory=dict)
    finished: str = ""
    allowed: str = ""
    learn: bool = True
    reward: str = ""


@dataclass(frozen=True)
class SkillSet:
    """Skills by name, and when a high level decides.

    Args:
        skills: by name, in the order of their indices.
        every: most control steps that a decision stands for.
        events: of the task, each of which brings a decision.
        observe: terms that the high level observes, or components of them, "lidar[0:8]"; () for all.
        group: the agents that have these skills; "" for the task's only group.
        central: one decision for all agents of a team, from what all of them observe; false for each agent its own.

    Raises:
        RookeryError: no skill, or a number of control steps out of bounds.
    """

    skills: dict[str, Skill]
    every: int = 1
    events: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    group: str = ""
    central: bool = False

    def __post_init__(self) -> None:
        if not self.skills:
            raise RookeryError("the set has no skill: give at least one, as [skills.NAME] with its policy.")
        own = {f"skills.{name}.every": skill.every for name, skill in self.skills.items() if skill.every is not None}
        for name, steps in ({"every": self.every} | own).items():
            if not 1 <= steps <= MOST:
                raise RookeryError(f"{name} is {steps}: give a number of control steps from 1 to {MOST}.")
        for name in self.skills:
            if not re.fullmatch(r"\w[\w-]*", name):
                raise RookeryError(f"a skill is called {name!r}: use letters, digits, - and _.")

    def steps(self, name: str) -> int:
        """Most control steps that a decision for a skill stands for."""
        own = self.skills[name].every
        return self.every if own is None else own

    @property
    def policies(self) -> list[str]:
        """Policies that the skills name, each once."""
        return list(dict.fromkeys(skill.policy for skill in self.skills.values()))


def read_skills(file: Path | str) -> SkillSet:
    """The set of a TOML file; relative folders of policies are as they stand there.

    Raises:
        RookeryError: it cannot be read, is no TOML, or holds a wrong name or value.
    """
    try:
        values = read_toml(Path(file))
    except OSError as error:
        raise RookeryError(
            f"cannot read the skills {file} ({error.strerror}): give the path of a TOML file."
        ) from error
    except ValueError as error:
        raise RookeryError(f"the skills {file} are not TOML: {error}.") from error
    try:
        return skills_of(values)
    except RookeryError as error:
        raise RookeryError(f"{file}: {error}") from error


def skills_of(values: Mapping[str, Any]) -> SkillSet:
    """The set of plain values.

    Raises:
        RookeryError: a wrong name or value.
    """
    declared = values.get("skills", {})
    if not isinstance(declared, Mapping) or not all(isinstance(s, Mapping) for s in declared.values()):
        raise RookeryError("skills are tables by name, as [skills.walk].")
    skills = {
        name: from_values(Skill, own, f"setting of the skill {name}", inside=f"skills.{name}.")
        for name, own in declared.items()
    }
    given = from_values(_Decisions, values, "setting of the skills")
    return SkillSet(skills, given.every, given.events, given.observe, given.group, given.central)


@dataclass(frozen=True)
class _Decisions:
    """Settings of a set, see `SkillSet`; its skills are read by themselves."""

    skills: dict[str, Any] = field(default_factory=dict)
    every: int = 1
    events: tuple[str, ...] = ()
    observe: tuple[str, ...] = ()
    group: str = ""
    central: bool = False


def condition_of(text: str, group: Group, what: str) -> Condition | None:
    """The condition of a text, on the observations of a group; None of an empty one.

    Args:
        text: "TERM < LIMIT" or ">", of a term with one component; "TERM[I] < LIMIT", "norm(TERM) < LIMIT".
        group: that observes the term.
        what: for messages, such as "finished of the skill 'walk'".

    Raises:
        RookeryError: another form, a term that the group does not observe, or a limit that it never reaches.
    """
    if not text:
        return None
    found = CONDITION.fullmatch(text.strip())
    try:
        norm, name, index, sign, limit = found.groups() if found else (None,) * 5
        number = float(limit or "")
    except ValueError:
        raise RookeryError(
            f'{what} is {text!r}: write "TERM < LIMIT", "TERM[0] > LIMIT" or "norm(TERM) < LIMIT", with a number as the limit.'
        ) from None
    terms = {t.name: t for t in group.observation}
    if name not in terms:
        raise unknown(f"term in {what}", str(name), terms)
    term = terms[str(name)]
    if term.effective_scale <= 0.0:
        raise RookeryError(f"{what} reads {name!r}, which is hidden from the policy: name another term.")
    at = 0 if index is None else int(index)
    if (norm is None and index is None and term.size > 1) or at >= term.size:
        raise RookeryError(
            f"{what} reads {name!r} of {term.size} components: write {name}[0] to {name}[{term.size - 1}], or norm({name})."
        )
    if norm and (number < 0.0 or (number == 0.0 and sign == "<")):
        raise RookeryError(f"{what} compares norm({name}) with {number:g}, and a norm is never below 0.")
    scaled = number * term.effective_scale
    if abs(scaled) >= term.clip * (term.size**0.5 if norm else 1.0):
        raise RookeryError(
            f"{what} compares {name!r} with {number:g}, and it is clipped at {term.clip / term.effective_scale:g}."
        )
    return Condition(group.slices()[term.name].start + at, term.size if norm else 0, sign == ">", scaled)
