"""The members that a league begins with, and the policy that its candidates begin from, with what is refused of both."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterator
from itertools import chain, count
from pathlib import Path

from rookery.experiments.league.mixtures import CandidatePlan, opposing, prefix
from rookery.experiments.league.state import UNTRAINED, LeagueMember, LeagueState, digest_of
from rookery.experiments.league.trainings import CandidateTraining
from rookery.experiments.match_env import CONTROLLER, act_of, find_player, teams_of
from rookery.experiments.runs import open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.zoo import zoo
from rookery.making import make
from rookery.policies.multiagent.frozen_opponent import EITHER
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

__all__ = ["check_init", "first_members"]


def first_members(
    state: LeagueState, training: RunSettings, untrained: Callable[[str], LeagueMember]
) -> tuple[LeagueMember, ...]:
    """The members that `--first` names; of those that would be called alike, the second ends with -2, and so on.

    Args:
        state: of the league.
        training: settings of its trainings.
        untrained: makes the member of a population that nobody has trained.

    Raises:
        RookeryError: a population that nobody plays, a policy that does not fit, or one that is named twice.
    """
    members: list[LeagueMember] = []
    for name in state.settings.first:
        for member in _members(name, state, training, untrained):
            others = [m for m in members if m.population == member.population]
            if member.digest and member.digest in (m.digest for m in others):
                raise RookeryError(f"--first has the policy of {name} twice: leave one out.")
            called = {m.name for m in others}
            names = chain([member.name], (f"{member.name}-{k}" for k in count(2)))
            own = next(name for name in names if name not in called)
            members.append(dataclasses.replace(member, name=own))
    for population in state.populations:
        if not any(m.population == population for m in members):
            raise RookeryError(f"nobody of --first plays {population}: add untrained, or a policy of that role.")
    return tuple(members)


def _members(
    name: str, state: LeagueState, training: RunSettings, untrained: Callable[[str], LeagueMember]
) -> list[LeagueMember]:
    """The members that a name of `--first` stands for."""
    if name == UNTRAINED:
        return [untrained(population) for population in state.populations]
    with _one_world(state, training) as env:
        player = find_player(name, state.settings.task)
        plays = [EITHER] if state.symmetric else teams_of(player, env)
        for population in plays:
            act_of(player, env, _groups(env, population))
    stored = name == CONTROLLER or name in zoo()
    folder = zoo().get(name, Path(name)).resolve()
    digest = "" if name == CONTROLLER else digest_of(folder)
    short = name if stored else folder.name
    return [
        LeagueMember(f"{prefix(population)}-00-{short}", population, name if stored else str(folder), digest=digest)
        for population in plays
    ]


def check_init(folder: Path, state: LeagueState, training: RunSettings) -> tuple[str, ...]:
    """Begin a candidate of each population from the policy of `--init`, and leave it.

    Args:
        folder: of the league.
        state: of the league, with its first members.
        training: settings of its trainings.

    Returns:
        the populations whose candidates begin from nothing, since that policy is of the other role.

    Raises:
        RookeryError: it is of no role, or candidates cannot begin from it.
    """
    init = state.settings.init
    if not init:
        return ()
    known = open_run(Path(init))[1].groups
    with _one_world(state, training) as env:
        groups = {population: _groups(env, population) for population in state.populations}
    without = tuple(p for p, own in groups.items() if not set(own) <= set(known))
    if len(without) == len(groups):
        needed = " or ".join(" and ".join(own) for own in groups.values())
        raise RookeryError(
            f"--init {init} has policies of {', '.join(known)}, and {state.settings.task} needs those of {needed}: give "
            "another policy, or leave --init out."
        )
    for population in groups:
        if population not in without:
            plan = CandidatePlan(1, population, "main")
            others = state.of(opposing(state, population))
            mixture = {m.name: 1.0 / len(others) for m in others}  # nobody has played yet
            run = folder / "members" / plan.name
            CandidateTraining(run, plan, mixture, state.settings.steps, init).check(folder, state, training)
    return without


@contextlib.contextmanager
def _one_world(state: LeagueState, training: RunSettings) -> Iterator[Env]:
    """A world of the league's task, for a look at its groups."""
    env = make(state.settings.task, 1, engine=training.engine, config=training.task_config)
    try:
        yield env
    finally:
        env.close()


def _groups(env: Env, population: str) -> Collection[str]:
    """Groups whose agents a population plays."""
    return list(env.groups) if population == EITHER else [g for g, own in env.teams[population].items() if own]
