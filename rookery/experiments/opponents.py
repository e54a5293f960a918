"""Opponents of a training: a file that names the members of a population, their weights, and the team that learns.

`rookery train volley-1v1 --opponents FILE`:

    # or "either", where both teams are alike
    team = "near"
    # optional: opponents that the learner loses to come oftener, see WEIGHTINGS
    prioritized = "squared"
    # optional, with `prioritized`: how often it plays the last member all the same
    share_of_latest = 0.35
    # a run folder (from this file's own), a policy of the zoo, or "controller"; the weight is optional
    members = [{policy = "runs/old", weight = 2.0}, {policy = "controller"}]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.match_env import CONTROLLER, act_of, find_player
from rookery.experiments.settings import read_table, to_toml
from rookery.experiments.zoo import zoo
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.multiagent.population import are_weights
from rookery.policies.multiagent.solvers import WEIGHTINGS, prioritized
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.values import from_values, plain

if TYPE_CHECKING:
    from rookery.policies.training.runner import Runner
    from rookery.sim.env import Act, Env

FILE = "opponents.toml"
"""Copy of the file in the run folder, so that a resume needs nothing else."""


@dataclass(frozen=True)
class Member:
    """One of a population."""

    policy: str
    """Run folder, a zoo policy's name, or "controller"."""
    weight: float = 1.0
    """Its share of the draws, against the others' weights; with `prioritized` until the first update."""


@dataclass(frozen=True)
class Opponents:
    """Whom a learner plays against."""

    team: str
    """The learner's team, or "either" for both sides, evenly."""
    members: tuple[Member, ...] = field(default_factory=tuple)
    """The population."""
    prioritized: str = ""
    """AlphaStar's weighting by which opponents are drawn as the learner's win rates change; "" for fixed weights."""
    share_of_latest: float = 0.0
    """With `prioritized`: share of the episodes against the last member."""

    def to_toml(self) -> str:
        """Text of the file."""
        return to_toml(plain(self))


def read_opponents(file: Path) -> Opponents:
    """The opponents that a file names; folders in it are found from the file's own.

    Raises:
        RookeryError: it cannot be read, or has another form.
    """
    found = opponents_of(read_table(file, "file of opponents"), f"the file of opponents {file}")
    return replace(found, members=tuple(replace(m, policy=_found_from(m.policy, file.parent)) for m in found.members))


def opponents_of(values: dict[str, Any], where: str) -> Opponents:
    """The opponents in a file's values, by the names that it gives them.

    Args:
        values: of the file, or of a table of that form.
        where: its name in errors.

    Raises:
        RookeryError: another form.
    """
    members = values.get("members", [])
    if not isinstance(members, list) or not all(isinstance(m, dict) for m in members):
        raise RookeryError(f'{where} has no list of members: write members = [{{policy = "RUN"}}].')
    made = [from_values(Member, m, f"value of a member in {where}", inside=f"{where}: a member's ") for m in members]
    found: Opponents = from_values(Opponents, {**values, "members": made}, f"value in {where}", inside=f"{where}: ")
    if not found.members:
        raise RookeryError(f'{where} names nobody: write members = [{{policy = "RUN"}}].')
    names = [m.policy for m in found.members]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise RookeryError(f"{where} names {twice[0]} twice: give it a larger weight.")
    weights = [m.weight for m in found.members]
    if not are_weights(weights):
        raise RookeryError(f"weights of the members in {where} need numbers of at least 0, not all 0, got {weights}.")
    if found.prioritized and found.prioritized not in WEIGHTINGS:
        raise unknown("weighting", found.prioritized, WEIGHTINGS)
    if not 0.0 <= found.share_of_latest <= 1.0 or (found.share_of_latest and not found.prioritized):
        raise RookeryError(
            f"share_of_latest in {where} must lie between 0 and 1, and goes with prioritized, got {found.share_of_latest}."
        )
    return found


def opponents_in(file: str | None, folder: Path) -> Opponents | None:
    """Whom the learner of a run plays against, by the file's path from the run's folder; None for nobody but itself."""
    return None if file is None else read_opponents(folder / file)


def _found_from(policy: str, folder: Path) -> str:
    """A member's policy as it is found from here."""
    return policy if policy == CONTROLLER or policy in zoo() else str(folder / policy)


def copy_opponents(file: Path, folder: Path) -> None:
    """Copy a file of opponents into a run folder; members' folders are named from there, so that both may be moved
    together."""
    from rookery.sim.files import replace as write_whole

    found = read_opponents(file)
    kept = [
        m if m.policy == CONTROLLER or m.policy in zoo() else replace(m, policy=os.path.relpath(m.policy, folder))
        for m in found.members
    ]
    write_whole(folder / FILE, replace(found, members=tuple(kept)).to_toml().encode())


def against(env: Env, opponents: Opponents, seed: int, coming: Collection[str] = ()) -> FrozenOpponentEnv:
    """The environment of a learner that plays these opponents; it closes `env`, also where it cannot be made.

    Args:
        env: the match.
        opponents: whom.
        seed: of the draws.
        coming: members that are not trained yet and say nothing, to check the others alone.

    Raises:
        RookeryError: a member that does not play in this task, or what `FrozenOpponentEnv` refuses.
    """
    try:
        groups = _others(env, opponents.team)
        members: list[Act] = [
            (lambda obs: {}) if m.policy in coming else act_of(find_player(m.policy, env.task_id), env, groups)
            for m in opponents.members
        ]
        return FrozenOpponentEnv(env, members, opponents.team, [m.weight for m in opponents.members], seed)
    except BaseException:
        env.close()
        raise


def _others(env: Env, team: str) -> set[str]:
    """Groups of the agents that the opponents act for."""
    return {g for name, agents in env.teams.items() if name != team for g, own in agents.items() if own}


def reweighing(opponents: Opponents) -> Callable[[Runner], None] | None:
    """The function to call after each iteration of a training: opponents are drawn by what the learner wins against them;
    None for fixed weights."""
    if not opponents.prioritized:
        return None

    def reweigh(runner: Runner) -> None:
        env: Env = runner.env
        while isinstance(env, EnvWrapper) and not isinstance(env, FrozenOpponentEnv):  # the learner may have skills
            env = env.env
        assert isinstance(env, FrozenOpponentEnv)
        env.population.set_weights(drawn_by(env.population.win_rates.tolist(), opponents))

    return reweigh


def drawn_by(win_rates: list[float], opponents: Opponents) -> list[float]:
    """Weights [K] of opponents that a learner wins against at these rates."""
    weights = (1.0 - opponents.share_of_latest) * prioritized(win_rates, opponents.prioritized)
    weights[-1] += opponents.share_of_latest
    return [float(w) for w in weights]


def member_files(opponents: Opponents) -> list[Path]:
    """The files of all members' policies, whose checksums a training keeps."""
    from rookery.experiments.runs import find_run

    folders = [find_run(Path(m.policy)) for m in opponents.members if m.policy != CONTROLLER]
    return [file for folder in folders for file in sorted(folder.glob("policy*.safetensors"))]
