"""A hierarchy of one group: skills brought onto an environment's observations, and the policy that both levels make."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rookery.policies.hierarchy.observed import observed
from rookery.policies.hierarchy.skill_check import check_skill
from rookery.policies.hierarchy.skill_set import CONTROLLER, Skill, SkillSet, condition_of
from rookery.policies.hierarchy.team import of_team
from rookery.policies.policy import Policy
from rookery.policies.stages.chain import Beside, Link
from rookery.policies.stages.command import CommandPart, CommandStage, merged
from rookery.policies.stages.condition import Condition
from rookery.policies.stages.controller import ControllerStage
from rookery.policies.stages.decide import Decide, DecisionRules, Switch
from rookery.policies.stages.select import Select, Span
from rookery.policies.torch_parts import copy_parts
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import ActionSpec, Discrete, Group, Term

__all__ = ["Hierarchy", "SkillRole", "SkillSource", "high_level", "make_hierarchy"]

KIND = "skills"
"""Kind of a high level's action."""


@dataclass(frozen=True)
class SkillSource:
    """A stored policy that is a skill.

    Args:
        policy: of one agent.
        group: that it was trained as.
        control_dt: s, its period.
    """

    policy: Policy
    group: Group
    control_dt: float


@dataclass(frozen=True)
class SkillRole:
    """A stored policy's part in a hierarchy.

    Args:
        name: of its skills, with + between them.
        source: the policy.
        head: from an agent's observation and decision to what the policy observes.
        options: indices of its skills; None where there are no others.
        place: of the index in that row.
        learns: where skills learn.
        rewards: by index of the skill, condition on what it observes that it is rewarded for; None for the task's reward.
    """

    name: str
    source: SkillSource
    head: Link
    options: tuple[int, ...] | None
    place: int
    learns: bool
    rewards: Mapping[int, Condition | None]


@dataclass(frozen=True)
class Hierarchy:
    """The skills of a group of agents.

    Args:
        group: the agents as the task declares them.
        high: the same as a high level observes and commands them.
        rules: when it decides.
        seen: the parts of the observation that it gets.
        lower: from observation and decision to the robot's action.
        roles: the stored policies in it.
        agents: a, of a team that one decision is for; `high`, `seen` and `lower` are of the team then, the agents' numbers one
            after the other. 1 where each agent decides.
    """

    group: Group
    high: Group
    rules: DecisionRules
    seen: tuple[Span, ...]
    lower: tuple[Link, ...]
    roles: tuple[SkillRole, ...]
    agents: int = 1

    def module(self) -> Policy:
        """The chain below the decisions, with the skills' weights."""
        policy = Policy(self.lower)
        copy_parts(policy, [role.source.policy for role in self.roles])
        return policy.eval()

    def deployed(self, policy: Policy) -> Policy:
        """The policy that acts on the robot: a high level's decisions, held as the rules say, and the skills."""
        size = self.agents * self.group.observation_size
        whole = ((0, size),)
        chain = (*([] if self.seen == whole else [Select(size, self.seen)]), *policy.chain.links)
        both = Beside(((Select(size, whole),), (Decide(self.rules, chain),)))
        out = Policy((both, *self.lower))
        copy_parts(out, [policy, *(role.source.policy for role in self.roles)])
        return out.eval()


def high_level(policy: Policy) -> Policy:
    """The high level of a policy that `Hierarchy.deployed` made.

    Raises:
        RookeryError: it has none.
    """
    if not policy.chain.decisions:
        raise RookeryError("the policy to start from has no high level: give a run that was trained with --skills.")
    links = policy.chain.decisions[0].link.chain
    out = Policy(links[1:] if isinstance(links[0], Select) else links)  # without what picks the terms that it observes
    copy_parts(out, [policy])
    return out.eval()


def make_hierarchy(
    skills: SkillSet,
    group: Group,
    sources: Mapping[str, SkillSource],
    task: str,
    control_dt: float,
    events: Sequence[str] = (),
    agents: int = 1,
) -> Hierarchy:
    """The skills of a set on the observations of a group.

    Args:
        skills: the set.
        group: the agents.
        sources: by the policies that the set names, but for "controller".
        task: name of the task, for messages.
        control_dt: s, of the environment.
        events: those that the task declares.
        agents: of a team that one decision is for; 1 where each agent decides.

    Raises:
        RookeryError: a skill that the environment cannot feed or that acts otherwise, or a parameter, condition or event that
            does not exist or fit.
    """
    if group.action.choices:
        raise RookeryError(
            f"skills act by numbers, and the agents of {task} choose their {group.action.choices[0].name!r}."
        )
    for event in skills.events:
        if event not in events:
            raise unknown(f"event of {task}", event, events)
    for name, skill in skills.skills.items():
        if skill.policy != CONTROLLER:
            check_skill(name, sources[skill.policy], group, skill, task, control_dt)
            if lacking := set(sources[skill.policy].policy.events) - set(events):
                has = f"{task} has {', '.join(events) or 'none'}"
                raise RookeryError(
                    f"the skill {name!r} decides at the event {min(lacking)!r}, and {has}: give another skill."
                )
        elif skill.shift or skill.command or skill.remap:
            raise RookeryError(f"the skill {name!r} is the classical controller, without parameters: leave them out.")
    rules = _rules(skills, group, agents)
    high = group
    seen: tuple[Span, ...] = ((0, group.observation_size),)
    if skills.observe:
        high, seen = observed(group, skills.observe, task)
    action, places = _action(skills, sources, group)
    row = group.observation_size + action.size
    heads: list[Link] = [
        ControllerStage(row, group.action.size)
        if skill.policy == CONTROLLER
        else _command(name, skill, sources[skill.policy].group, group, places[name], row - len(action.names), row)
        for name, skill in skills.skills.items()
    ]
    masked = replace(action, masked=rules.masked)
    high = replace(high, action=masked, targets=(), future=(), observation_sets={}, mirror=None)
    lower, roles = _lower(skills, sources, heads, group)
    made = Hierarchy(group, high, rules, seen, lower, roles)
    return made if agents == 1 else of_team(made, agents)


def _rules(skills: SkillSet, group: Group, agents: int) -> DecisionRules:
    """Rules of decisions among the skills of a set, on the observations of a group."""
    names = tuple(skills.skills)
    return DecisionRules(
        names,
        tuple(skills.steps(name) for name in names),
        tuple(condition_of(s.finished, group, f"finished of the skill {k!r}") for k, s in skills.skills.items()),
        tuple(condition_of(s.allowed, group, f"allowed of the skill {k!r}") for k, s in skills.skills.items()),
        skills.events,
        agents,
    )


def _lower(
    skills: SkillSet, sources: Mapping[str, SkillSource], heads: Sequence[Link], group: Group
) -> tuple[tuple[Link, ...], tuple[SkillRole, ...]]:
    """The links below a decision, and the policies' parts. Skills of one policy go through it together: one pass for each."""
    place = group.observation_size
    roles: list[SkillRole] = []
    branches: list[tuple[Link, ...]] = []
    cases: list[tuple[int, ...]] = []
    for policy in skills.policies:
        mine = [k for k, skill in enumerate(skills.skills.values()) if skill.policy == policy]
        head = heads[mine[0]]
        if len(mine) > 1 and policy != CONTROLLER:
            head = Switch(place, tuple((k,) for k in mine), tuple((heads[k],) for k in mine))
        branches.append((head, *(() if policy == CONTROLLER else sources[policy].policy.chain.links)))
        cases.append(tuple(mine))
        if policy != CONTROLLER:
            own = {name: skill for name, skill in skills.skills.items() if skill.policy == policy}
            options = tuple(mine) if len(skills.policies) > 1 else None
            learns = all(skill.learn for skill in own.values())
            spec = sources[policy].group
            rewards = {
                k: condition_of(skill.reward, spec, f"reward of the skill {name!r}")
                for k, (name, skill) in zip(mine, own.items(), strict=True)
            }
            roles.append(SkillRole("+".join(own), sources[policy], head, options, place, learns, rewards))
    lower = branches[0] if len(branches) == 1 else (Switch(place, tuple(cases), tuple(branches)),)
    return lower, tuple(roles)


# Parameters

Bounds = list[tuple[float, float]]


def _action(
    skills: SkillSet, sources: Mapping[str, SkillSource], group: Group
) -> tuple[ActionSpec, dict[str, dict[str, list[Any]]]]:
    """The high level's action; and by skill and commanded term, for each component (least, greatest, place among the numbers),
    or the one number that it has."""
    names: list[str] = []
    bounds: Bounds = []
    units: list[str] = []
    read_by: list[int] = []
    places: dict[str, dict[str, list[Any]]] = {}
    for option, (name, skill) in enumerate(skills.skills.items()):
        places[name] = {}
        if skill.policy == CONTROLLER:
            continue
        terms = {t.name: t for t in sources[skill.policy].group.observation}
        for kind, given in (("shift", skill.shift), ("command", skill.command)):
            for term, values in given.items():
                if term not in terms:
                    raise unknown(f"term that the skill {name!r} observes", term, terms)
                if term in places[name]:
                    raise RookeryError(f"the skill {name!r} both shifts and commands {term!r}: do one of both.")
                found: list[Any] = []
                for i, value in enumerate(_components(name, kind, terms[term], values)):
                    if isinstance(value, float):
                        found.append(value)
                        continue
                    found.append((*value, len(names)))
                    names.append(f"{name}.{term}[{i}]")
                    bounds.append(value)
                    units.append(_unit(terms[term], i))
                    read_by.append(option)
                places[name][term] = found
    choices = (Discrete("skill", tuple(skills.skills)),) if len(skills.skills) > 1 else ()
    if not names and not choices:
        raise RookeryError(
            "one skill without parameters leaves nothing to decide: give it a shift or a command, or another skill."
        )
    low, high = (tuple(b[k] for b in bounds) for k in (0, 1))
    rest = tuple((a + b) / (a - b) if a <= 0.0 <= b else 0.0 for a, b in bounds)  # 0, or the middle of what has none
    reading = tuple(read_by) if choices else ()
    return ActionSpec(KIND, tuple(names), low, high, tuple(units), rest, choices, read_by=reading), places


def _unit(term: Term, i: int) -> str:
    """Unit of a component: terms of several kinds have them side by side."""
    units = term.unit.split(", ")
    return units[i] if len(units) == term.size else term.unit


def _components(skill: str, kind: str, term: Term, values: Any) -> list[Any]:
    """For each component of a term (least, greatest), or the number that it is fixed at."""
    what = f"{kind}.{term.name} of the skill {skill!r}"
    given = values if isinstance(values, (list, tuple)) else [values] * (term.size if kind == "shift" else 1)
    if len(given) != term.size:
        raise RookeryError(f"{what} has {len(given)} values, and the term {term.size} components: give one for each.")
    out: list[Any] = []
    for value in given:
        pair = value
        if kind == "shift" and _is_number(value):
            if value <= 0:
                raise RookeryError(f"{what} holds {value!r}: the largest shift of a component is above 0.")
            pair = [-value, value]
        numbers = pair if isinstance(pair, (list, tuple)) else [pair]
        if not all(_is_number(x) for x in numbers) or len(numbers) not in (1, 2):
            raise RookeryError(f"{what} holds {value!r}: give numbers, or [least, greatest] of a component.")
        limit = term.clip / abs(term.scale)
        if max(abs(float(x)) for x in numbers) > limit:
            raise RookeryError(
                f"{what} holds {value!r}, and the skill observes it within {-limit:g} and {limit:g} {term.unit}."
            )
        if len(numbers) == 1:
            out.append(float(numbers[0]))
        elif numbers[0] < numbers[1]:
            out.append((float(numbers[0]), float(numbers[1])))
        else:
            raise RookeryError(f"{what} holds {value!r}: the least value of a component is below its greatest.")
    return out


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _command(
    name: str, skill: Skill, own: Group, group: Group, places: Mapping[str, list[Any]], first: int, row: int
) -> CommandStage:
    """A skill's observation, from the environment's observation and the decision's numbers, which begin at `first`."""
    parts: list[CommandPart] = []
    starts = {}
    at = 0
    for term in group.observation:
        starts[term.name] = at
        at += term.size
    for frame in range(group.history - own.history, group.history):
        for term in own.observation:
            place = frame * group.frame_size + starts.get(skill.remap.get(term.name, term.name), 0)
            if term.name not in places:
                last = parts[-1] if parts else None
                if last is not None and last.plain and last.start + last.size == place:
                    parts[-1] = replace(last, size=last.size + term.size)
                else:
                    parts.append(CommandPart(place, term.size))
                continue
            kept = term.name in skill.shift
            clip = None if math.isinf(term.clip) else term.clip
            for i, value in enumerate(places[term.name]):
                scale = term.effective_scale
                if isinstance(value, float):
                    parts.append(CommandPart(place + i if kept else 0, 1, kept, offset=(value * scale,), clip=clip))
                    continue
                low, high, number = value
                half, middle = 0.5 * (high - low) * scale, 0.5 * (high + low) * scale
                offset = (middle,) if middle else ()
                parts.append(CommandPart(place + i if kept else 0, 1, kept, first + number, (half,), offset, clip))
    return CommandStage(row, merged(parts))
