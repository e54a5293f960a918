"""The goal of a group's agents, as the settings of hindsight name it."""

from __future__ import annotations

import math
import re

from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.storage.hindsight import GoalTerm, Hindsight
from rookery.policies.storage.replay import Replay
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import Group, Term

__all__ = ["goal_of", "hindsight_of"]


def hindsight_of(config: OffPolicyConfig, group: Group, replay: Replay) -> Hindsight | None:
    """Other goals for the transitions of a memory; None where the settings ask for none.

    Raises:
        RookeryError: terms that cannot say a goal.
    """
    if config.hindsight_share == 0.0:
        return None
    return Hindsight(replay, goal_of(config, group), config.hindsight_share)


def goal_of(config: OffPolicyConfig, group: Group) -> GoalTerm:
    """The goal that settings name.

    Args:
        config: with `goal`, `goal_achieved`, `goal_within` and `goal_reward`.
        group: that observes these terms.

    Raises:
        RookeryError: an unknown term, one that is not exact, or two that differ.
    """
    if group.history > 1:
        raise RookeryError(
            f"hindsight_share is for observations without a history, and this one has {group.history} frames: set history=1, "
            "or hindsight_share=0."
        )
    goal, place = _term(group, "goal", config.goal)
    achieved = None
    if config.goal_achieved:
        other, achieved = _term(group, "goal_achieved", config.goal_achieved)
        sizes = [at.stop - at.start for at in (place, achieved)]
        if sizes[0] != sizes[1] or (other.scale, other.frame) != (goal.scale, goal.frame):
            raise RookeryError(
                f"goal {config.goal!r} and goal_achieved {config.goal_achieved!r} differ in size, axes or scale: give terms "
                "that can be compared, perhaps a part of one, as TERM[0:3]."
            )
    return GoalTerm(place, achieved, config.goal_within * abs(goal.scale), config.goal_reward)


def _term(group: Group, setting: str, text: str) -> tuple[Term, slice]:
    """A term whose numbers can be moved by another goal's, and where it, or the part of it, stands."""
    found = re.fullmatch(r"(\w+)(?:\[(\d+):(\d+)\])?", text)
    name, first, stop = found.groups() if found else (text, None, None)
    terms = {t.name: t for t in group.observation}
    if name not in terms:
        raise unknown(setting, name, terms)
    term, whole = terms[name], group.slices()[name]
    place = whole if first is None else slice(whole.start + int(first), whole.start + int(stop or 0))
    if not whole.start <= place.start < place.stop <= whole.stop:
        raise RookeryError(
            f"{setting} is {text!r}, and {name} has the components 0 to {term.size - 1}: name some of them."
        )
    if term.effective_scale == 0.0:
        raise RookeryError(f"{setting} is {name!r}, which is hidden from the policy: name another term.")
    if not math.isinf(term.clip):
        raise RookeryError(
            f"{setting} is {name!r}, which is clipped at {term.clip / abs(term.scale):g} {term.unit}, so that goals beyond "
            "look alike: name a term without a limit, or give hindsight_share=0."
        )
    if term.frame == "body":
        raise RookeryError(
            f"{setting} is {name!r} in axes of the robot, which turn from step to step: name a term in axes that stay, or give "
            "hindsight_share=0."
        )
    return term, place
