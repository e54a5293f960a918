"""Matches of two policies or controllers in a task with two teams, both from both sides.

worlds          0 .. N/2 - 1    N/2 .. N - 1
first team      A               B
second team     B               A

Made with `starts` N/2, world i and world N/2 + i begin alike: every start is played from both sides, so that a serve or a lucky
start counts for both, and exchanging A and B exchanges their figures. Where the teams have roles, such as pursuit and evasion,
and A and B can play one each, A plays that team in all worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from rookery.sim.env import Act, AgentNote, Env, Narrator
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.threads import one_thread_each

__all__ = ["Alternating", "MatchResult", "Tally", "check_wins", "match", "two_teams"]

Rows = dict[str, Tensor]
WINS = "wins"
"""A team wins an episode where the metric ``<team>_wins`` is 1."""


@dataclass(frozen=True)
class Tally:
    """Episodes by who won them."""

    a: int
    b: int
    nobody: int

    @classmethod
    def of(cls, outcome: Tensor) -> Tally:
        """Count outcomes, any shape: 1 where A won, -1 where B did, 0 where nobody did."""
        return cls(*(int((outcome == won).sum()) for won in (1, -1, 0)))

    @property
    def episodes(self) -> int:
        """Number of all of them."""
        return self.a + self.b + self.nobody


@dataclass(frozen=True)
class MatchResult:
    """Result of a match.

    Args:
        teams: names of the first and the second team.
        outcome: [2, E / 2] int64: 1 where A won, -1 where B did, 0 where nobody did; A played the first team in row 0, and the
            second in row 1. Columns are starts. [1, E] where A played one team throughout.
        causes: for "a", "b" and "nobody" the episodes that they won so, by name of what ended them.
        shares: for every figure ``<team>_<name>`` that the task measures of both teams, but wins: the episodes in which A had
            more of it, and those in which B had, such as {"serves": {"a": ..., "b": ...}}.
        metrics: means of the task's other figures.
        played: the teams that A played, by row of `outcome`; both where left out.
        distinct: the episodes without those whose last state is that of another one to the last bit, which repeat it; None
            where the environment tells no states.
    """

    teams: tuple[str, str]
    outcome: Tensor
    causes: dict[str, dict[str, int]]
    shares: dict[str, dict[str, Tally]] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    played: tuple[str, ...] = ()
    distinct: int | None = None

    @property
    def total(self) -> Tally:
        """All episodes."""
        return Tally.of(self.outcome)

    @property
    def sides(self) -> dict[str, Tally]:
        """Episodes by the team that A played."""
        return {team: Tally.of(rows) for team, rows in zip(self.played or self.teams, self.outcome, strict=True)}


def two_teams(env: Env) -> tuple[str, str]:
    """Names of the first and the second team.

    Raises:
        RookeryError: the environment has not two teams that all agents belong to.
    """
    if len(env.teams) != 2:
        has = f"has {len(env.teams)} teams" if env.teams else "has no teams that play against each other"
        raise RookeryError(
            f"{env.task_id} {has}: a match needs a task with two. Compare policies of other tasks by `rookery eval`."
        )
    members = [(g, i) for team in env.teams.values() for g, agents in team.items() for i in agents]
    if sorted(members) != sorted((g, i) for g, s in env.groups.items() for i in range(s.count)):
        raise RookeryError(
            f"not every agent of {env.task_id} belongs to one of its teams, so nobody would act for some."
        )
    first, second = env.teams
    return first, second


def _check_winner(env: Env) -> None:
    """Refuse an environment, after its reset, that does not measure which team wins."""
    names = [f"{team}_{WINS}" for team in env.teams]
    if not set(names) <= set(env.metrics()):
        raise RookeryError(
            f"{env.task_id} does not say who wins: have its metrics() give {' and '.join(names)}, 0 or 1."
        )


def check_wins(task: str, teams: Iterable[str], metrics: Mapping[str, Tensor], whole: Tensor) -> None:
    """Refuse wins of episodes that are neither 0 nor 1, or of both teams: whoever counts them would not see it.

    Args:
        task: that measures them.
        teams: the two.
        metrics: [m] of episodes that ended.
        whole: [m] bool, the episodes that count; one whose simulation diverged measures nothing.
    """
    wins = {f"{team}_{WINS}": metrics[f"{team}_{WINS}"][whole].double() for team in teams}
    for name, won in wins.items():
        if len(wrong := won[(won != 0.0) & (won != 1.0)]):
            raise RookeryError(
                f"{task} gives {name} {float(wrong[0]):g} in an episode: have its metrics() give 1 where the team has won, "
                "else 0, and 0 to both where nobody has."
            )
    if bool((torch.stack(list(wins.values())).sum(0) > 1.0).any()):
        raise RookeryError(
            f"{task} gives {' and '.join(wins)} 1 in one episode: have its metrics() give 1 to one team at most."
        )


class _Sides:
    """Actions of A and B, each for its own agents.

    Args:
        env: with two teams.
        a, b: of all agents of all worlds; those of the other's agents are left. A group may be missing in one that has no agent
            in it.
        first: [N] bool, the worlds in which A plays the first team.
    """

    def __init__(self, env: Env, a: Act, b: Act, first: Tensor) -> None:
        self._a = a
        self._b = b
        team = next(iter(env.teams.values()))
        self._own = {}
        for g, spec in env.groups.items():
            in_first = torch.zeros(spec.count, dtype=torch.bool)
            in_first[list(team.get(g, ()))] = True
            self._own[g] = (first[:, None] == in_first)[..., None].to(env.device)

    def __call__(self, obs: Rows) -> Rows:
        a = self._a(obs)
        if self._b is self._a:  # one controller for both, which must not be advanced twice in a step
            return a
        b = self._b(obs)
        return {
            g: a[g] if g not in b else b[g] if g not in a else torch.where(own, a[g], b[g])
            for g, own in self._own.items()
        }

    def notes(self, world: int) -> list[AgentNote]:
        """Notes of A and B on their own agents."""
        out: list[AgentNote] = []
        for player, own in ((self._a, True), (self._b, False)):
            narrator: Narrator | None = player if isinstance(player, Narrator) else None
            said = [] if narrator is None else narrator.notes(world)
            out += [note for note in said if bool(self._own[note.group][world, note.agent]) is own]
        return out


class Alternating:
    """Actions of A and B that change sides with every episode: A begins as the first team in worlds 0, 2, 4 ..., and as the
    second in the others. With `team`, A plays that one always.

    Args:
        env: with two teams; it says where episodes begin (`Env.episode_start`).
        a, b: as in `match`.
        team: the one that A plays; None for both.
        names: of A and B.

    Attributes:
        episodes: begun so far, by the team that A plays in them.
    """

    def __init__(
        self, env: Env, a: Act, b: Act, team: str | None = None, names: tuple[str, str] = ("A", "B")
    ) -> None:  # fmt: skip
        self._env = env
        self._called = names
        self._names = two_teams(env)
        even = torch.arange(env.num_envs) % 2 == 0
        self._first = even if team is None else torch.full_like(even, team == self._names[0])
        self._changes = team is None
        self._begun = False
        self._players = a, b
        self._sides = _Sides(env, a, b, self._first)
        self.episodes = dict.fromkeys(self._names, 0)

    def __call__(self, obs: Rows) -> Rows:
        begins = self._env.episode_start.cpu()
        if begins.any():
            if self._begun and self._changes:
                self._first = self._first ^ begins
                self._sides = _Sides(self._env, *self._players, self._first)
            self._begun = True
            for name, own in zip(self._names, (self._first, ~self._first), strict=True):
                self.episodes[name] += int((own & begins).sum())
        return self._sides(obs)

    def notes(self, world: int) -> list[AgentNote]:
        """Notes of the players on their own agents."""
        return self._sides.notes(world)

    def playing(self, world: int) -> dict[str, str]:
        """Names of A and B by the team that each plays in a world's episode, of one that is about to begin, too."""
        changes = self._begun and self._changes and bool(self._env.episode_start[world])
        first = bool(self._first[world]) != changes
        return dict(zip(self._names, self._called if first else self._called[::-1], strict=True))


@one_thread_each
def match(
    env: Env, a: Act, b: Act, episodes: int, seed: int | None = 0,
    progress: Callable[[int, float], None] | None = None, team: str | None = None,
) -> MatchResult:  # fmt: skip
    """Play exactly `episodes` episodes, A as either team in half of them, or as `team` in all.

    Every world contributes its first episodes, as in `evaluate`, and worlds i and N/2 + i the same number of them. The same
    seed gives the same result.

    Args:
        env: with two teams and an even number N of worlds, made with `starts` N/2 for the same starts from both sides. With
            `team`, any number of worlds with any starts. It is reset with `seed`, and left where the last counted episode
            ended.
        a, b: from observations {group: [N, A, O]} of all agents to actions of all agents, such as of `act_with`; those of its
            own team are used. The same object twice is asked once a step.
        episodes: how many, even.
        seed: of the episodes; None continues the environment's own streams.
        progress: called after every control step with the episodes finished and the share of all work, 0 to 1.
        team: the one that A plays; None for both.

    Raises:
        RookeryError: no two teams (see `two_teams`), metrics that do not say which of them wins (see `check_wins`), an odd
            number of episodes or worlds.
    """
    teams = two_teams(env)
    if team is not None:
        return _one_sided(env, a, b, episodes, seed, progress, team)
    for name, count in (("episodes", episodes), ("num_envs", env.num_envs)):
        if count < 2 or count % 2:
            raise RookeryError(f"a match is played from both sides: {name} must be even and at least 2, got {count}.")
    half = env.num_envs // 2
    first = torch.arange(env.num_envs) < half
    quota = episodes // 2 // half + (torch.arange(half) < episodes // 2 % half).long().repeat(2)
    return _result(env, teams, first, half, _played(env, _Sides(env, a, b, first), quota, seed, progress))


def _one_sided(
    env: Env, a: Act, b: Act, episodes: int, seed: int | None, progress: Callable[[int, float], None] | None, team: str
) -> MatchResult:
    """`match` in which A plays one team throughout."""
    if team not in env.teams:
        raise unknown(f"team of {env.task_id}", team, env.teams)
    if episodes < 1:
        raise RookeryError(f"a match needs an episode at least, got episodes {episodes}.")
    worlds = torch.arange(env.num_envs)
    quota = episodes // env.num_envs + (worlds < episodes % env.num_envs).long()
    teams = two_teams(env)
    first = torch.full((env.num_envs,), team == teams[0])
    ended = _played(env, _Sides(env, a, b, first), quota, seed, progress)
    return replace(_result(env, teams, first, env.num_envs, ended), played=(team,))


def _played(
    env: Env, act: Act, quota: Tensor, seed: int | None, progress: Callable[[int, float], None] | None
) -> Iterator[Rows]:
    """The counted episodes that end in each control step, as columns [m]: world, episode (of that world), cause, metrics and
    a digest of the last state.

    Args:
        quota: [N], how many episodes of each world count.
    """
    counted = torch.zeros_like(quota)
    total = int(quota.sum())
    most = int(quota.max()) * (env.max_episode_steps + 1)
    obs, _ = env.reset(seed)
    _check_winner(env)
    for step in range(most):
        obs, _, _, _, info = env.step(act(obs))
        if "episode" in info:
            episode = info["episode"]
            ids = episode["ids"].cpu()
            keep = counted[ids] < quota[ids]
            columns = {"world": ids, "episode": counted[ids], "cause": episode["cause"].cpu()}
            metrics = {name: values.cpu() for name, values in episode["metrics"].items()}
            check_wins(env.task_id, env.teams, metrics, keep & (columns["cause"] <= len(env.causes)))
            columns |= {f"metric/{name}": values for name, values in metrics.items()}
            if "final_state" in info:
                columns["end"] = _digest(info["final_state"].cpu()[ids])
            yield {name: values[keep] for name, values in columns.items()}
            counted[ids[keep]] += 1
        finished = int(counted.sum())
        if progress is not None:
            progress(finished, max(finished / total, step / most))
        if finished == total:
            return


def _result(env: Env, teams: tuple[str, str], first: Tensor, half: int, ended: Iterable[Rows]) -> MatchResult:
    """The match of all counted episodes, as columns [m].

    Args:
        first: [N] bool, the worlds in which A played the first team.
        half: worlds after which the same starts come again.
    """
    parts: dict[str, list[Tensor]] = {}
    for some in ended:
        for name, values in some.items():
            parts.setdefault(name, []).append(values)
    columns = {name: torch.cat(values) for name, values in parts.items()}
    # by A's side, then by start: world i and half + i, in the order of their episodes
    side = columns["world"] // half
    order = torch.argsort((side * (columns["episode"].max() + 1) + columns["episode"]) * half + columns["world"] % half)
    columns = {name: values[order] for name, values in columns.items()}
    swap = torch.where(first[columns["world"]], 1, -1)
    metrics = {name.removeprefix("metric/"): v for name, v in columns.items() if name.startswith("metric/")}
    ahead = {name: swap * torch.sign(x - y).long() for name, (x, y) in _of_both(metrics, teams).items()}
    diverged = columns["cause"] > len(env.causes)
    outcome = torch.where(diverged, 0, ahead.pop(WINS))
    names = ["time limit", *env.causes, "diverged"]
    of_teams = {f"{team}_{name}" for team in teams for name in (WINS, *ahead)}
    return MatchResult(
        teams,
        outcome.view(len(first) // half, -1),
        {who: _causes(columns["cause"][outcome == won], names) for who, won in (("a", 1), ("b", -1), ("nobody", 0))},
        {
            name: {who: Tally.of(outcome[more == one]) for who, one in (("a", 1), ("b", -1))}
            for name, more in ahead.items()
        },
        {name: v.double().nanmean().item() for name, v in metrics.items() if name not in {*of_teams, "success"}},
        distinct=len(columns["end"].unique()) if "end" in columns else None,
    )


def _digest(states: Tensor) -> Tensor:
    """[m] int64 of states [m, ...] float32: alike where all bits are."""
    bits = states.flatten(1).contiguous().view(torch.int32).long()
    factors = torch.randint(2**62, (bits.shape[1],), generator=torch.Generator().manual_seed(0))
    return (bits * (2 * factors + 1)).sum(1)  # odd, so that none loses a bit; overflows wrap


def _of_both(metrics: Mapping[str, Tensor], teams: tuple[str, str]) -> dict[str, tuple[Tensor, Tensor]]:
    """The figures ``<team>_<name>`` that both teams have, by name."""
    first, second = teams
    names = [name.removeprefix(f"{first}_") for name in metrics if name.startswith(f"{first}_")]
    return {
        name: (metrics[f"{first}_{name}"], metrics[f"{second}_{name}"])
        for name in names
        if f"{second}_{name}" in metrics
    }


def _causes(cause: Tensor, names: list[str]) -> dict[str, int]:
    """Episodes by the cause that ended them, of those that occurred."""
    counts = torch.bincount(cause.long(), minlength=len(names)).tolist()
    found: dict[str, Any] = {name: n for name, n in zip(names, counts, strict=True) if n}
    return found
