"""Skills that an environment cannot feed, or that act otherwise than it wants, are refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rookery.policies.hierarchy.skill_set import Skill
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group, Term

if TYPE_CHECKING:
    from rookery.policies.hierarchy.hierarchy import SkillSource

__all__ = ["check_skill"]


def check_skill(name: str, source: SkillSource, group: Group, skill: Skill, task: str, control_dt: float) -> None:
    """Refuse a skill that the environment cannot feed, or that acts otherwise."""
    own = source.group
    if not math.isclose(source.control_dt, control_dt, rel_tol=1e-6):
        raise RookeryError(
            f"the skill {name!r} acts every {source.control_dt:g} s, and {task} every {control_dt:g} s: give one of that rate."
        )
    if source.policy.options:
        raise RookeryError(f"the skill {name!r} chooses among options: give one that acts by numbers alone.")
    if (agents := source.policy.agents) > 1:
        raise RookeryError(
            f"the skill {name!r} decides for a team of {agents} at once: give one that acts for one agent."
        )
    ours, theirs = group.action, own.action
    limits = zip((*ours.low, *ours.high), (*theirs.low, *theirs.high), strict=False)
    same = all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in limits)
    if ours.kind != theirs.kind or ours.names != theirs.names:
        raise RookeryError(
            f"the skill {name!r} acts by {theirs.kind!r} ({', '.join(theirs.names[:3])} ...), and {task} by {ours.kind!r} "
            f"({', '.join(ours.names[:3])} ...): give skills of this robot that act alike, and the task their kind by --action."
        )
    if not same:
        raise RookeryError(
            f"the skill {name!r} acts by {theirs.kind!r} with other limits than {task}: give one with the same."
        )
    if own.history > group.history:
        raise RookeryError(
            f"the skill {name!r} observes {own.history} frames, and {task} gives {group.history}: set its config value "
            f"history={own.history}."
        )
    terms = {t.name: t for t in group.observation}
    _check_remap(name, skill, [t.name for t in own.observation], terms, task)
    for term in own.observation:
        if term.name in skill.command:
            continue
        mine = terms.get(skill.remap.get(term.name, term.name))
        if mine is None:
            raise RookeryError(
                f"the skill {name!r} observes {term.name!r}, and {task} has none: command it ([skills.{name}] "
                f"command.{term.name} = ...), remap it to another term, or give another skill."
            )
        if not mine.same_frame(term) or _numbers(mine) != _numbers(term):
            raise RookeryError(
                f"the skill {name!r} observes {term.name!r} in other units, axes, scale or limits than {mine.name!r} of "
                f"{task}: remap it to a term with the same, or give a skill that was trained with this one's."
            )


def _check_remap(name: str, skill: Skill, own: Sequence[str], terms: Mapping[str, Term], task: str) -> None:
    """Refuse to remap what the skill does not observe or is told anyway, or to what the task does not have."""
    for term, other in skill.remap.items():
        if term not in own:
            raise unknown(f"term that the skill {name!r} observes", term, own)
        if other not in terms:
            raise unknown(f"term of {task} in remap.{term} of the skill {name!r}", other, terms)
        if term in skill.command:
            raise RookeryError(f"the skill {name!r} both commands and remaps {term!r}: do one of both.")


def _numbers(term: Term) -> tuple[int, str, float, float]:
    return term.size, term.unit, term.effective_scale, term.clip
