"""Matches of a league: results of pairs, with what is known of their chance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.experiments.league.state import Cell, LeagueMember, LeagueState, locate
from rookery.experiments.match_env import act_of, find_player
from rookery.making import make
from rookery.policies.multiagent.match import MatchResult, match
from rookery.sim2real.gate.intervals import wilson

if TYPE_CHECKING:
    from rookery.experiments.settings import RunSettings
    from rookery.sim.env import Act, Env

MOST_WORLDS = 512
TINY = 1e-12
"""In place of a variance of 0."""


def seed_of(*words: object) -> int:
    """A seed that follows from names and numbers."""
    text = " ".join(str(word) for word in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


class LeagueMatches:
    """Matches between members of a league; the environment is made when the first pair meets.

    Args:
        folder: of the league.
        state: of the league; its settings and populations count.
        training: settings of its trainings, whose engine, task config and randomization count.
    """

    def __init__(self, folder: Path, state: LeagueState, training: RunSettings) -> None:
        self._folder = folder
        self._state = state
        self._training = training
        self._acts: dict[tuple[str, str], Act] = {}
        self._env: Env | None = None

    def __enter__(self) -> LeagueMatches:
        return self

    def __exit__(self, *error: object) -> None:
        if self._env is not None:
            self._env.close()

    @property
    def env(self) -> Env:
        """The match; of one population with each start from both sides."""
        if self._env is None:
            t, worlds = self._training, min(self._state.settings.episodes, MOST_WORLDS)
            starts = worlds // 2 if self._state.symmetric else 0
            self._env = make(
                t.task,
                worlds,
                engine=t.engine,
                config=t.task_config,
                randomize=t.randomize,
                fixed=t.fixed,
                starts=starts,
            )
        return self._env

    def meet(self, a: LeagueMember, b: LeagueMember, progress: Callable[[int, float], None] | None = None) -> Cell:
        """Let two members play.

        Args:
            a, b: of one population; or of the first and of the second.
            progress: see `match`.
        """
        s = self._state.settings
        team = None if self._state.symmetric else self._state.populations[0]
        seed = seed_of(s.seed, a.name, b.name, a.steps, b.steps)  # a second attempt has other starts than the first
        played = match(self.env, self._act(a), self._act(b), s.episodes, seed, progress, team)
        return cell_of(a.name, b.name, played)

    def _act(self, member: LeagueMember) -> Act:
        key = (member.policy, "" if self._state.symmetric else member.population)
        if key not in self._acts:
            env = self.env
            groups = (
                env.groups if self._state.symmetric else [g for g, own in env.teams[member.population].items() if own]
            )
            self._acts[key] = act_of(find_player(locate(self._folder, member), env.task_id), env, groups)
        return self._acts[key]


def cell_of(a: str, b: str, played: MatchResult) -> Cell:
    """The result of a match in a league."""
    outcome = played.outcome.double()
    starts = (0.5 * (1.0 + outcome)).mean(0)  # the two episodes of a start are not independent
    total = played.total
    # a repetition tells nothing new
    differ = len(starts) if played.distinct is None else max(1, len(starts) * played.distinct // total.episodes)
    variance = float(starts.var(correction=1)) / differ if differ > 1 else 0.25
    return Cell(a, b, total.a, total.b, total.nobody, float(starts.mean()), variance, differ)


def interval(score: float, variance: float, starts: float, episodes: float) -> tuple[float, float]:
    """The 95 % interval of a pair's mean score: Wilson's of as many independent episodes as have its variance.

    Args:
        score: 0 to 1.
        variance: of the score, by its episodes.
        starts: of them that are different.
        episodes: that were played.
    """
    return _ends(score, _doubt(score, variance, starts, episodes, score))


def _ends(score: float, doubt: float) -> tuple[float, float]:
    """The 95 % interval of a score whose variance is `doubt` times that of one episode."""
    independent = max(1.0, 1.0 / doubt)
    return wilson(score * independent, independent)


def _doubt(score: float, variance: float, starts: float, episodes: float, whole: float) -> float:
    """Variance of a pair's score in units of that of one episode, which wins with a probability of `whole`.

    Where all starts end alike, the variance that they show is none: each start counts as an episode then, since the two sides
    of one are no two observations. No pair counts for more than two episodes a start, or more than it has played.
    """
    starts = max(starts, 1.0)
    own = score * (1.0 - score)
    if own <= 0.0:
        return 1.0 / starts
    least = own / starts if variance <= 0.0 else own / min(2.0 * starts, max(episodes, 1.0))
    return max(variance, least) / max(whole * (1.0 - whole), TINY)


def score_of(member: str, mixture: dict[str, float], cells: Iterable[Cell]) -> tuple[float, float, float]:
    """The score of a member against a mixture, and its 95 % interval. Against itself it has a half, which is certain.

    Args:
        member: its name.
        mixture: probabilities of opponents, by name.
        cells: its results against all of them.
    """
    score = 0.5 * mixture.get(member, 0.0)
    own: list[tuple[float, Cell]] = []
    for cell in cells:
        weight = mixture.get(cell.b if cell.a == member else cell.a, 0.0)
        if member in (cell.a, cell.b) and weight > 0.0:
            own.append((weight, cell))
            score += weight * (cell.score if cell.a == member else 1.0 - cell.score)
    if not own:
        return score, score, score
    doubt = sum(
        weight**2 * _doubt(cell.score, cell.variance, cell.starts, cell.episodes, score) for weight, cell in own
    )
    return score, *_ends(score, doubt)


def pairs_of(
    state: LeagueState, member: LeagueMember, others: Sequence[LeagueMember]
) -> list[tuple[LeagueMember, LeagueMember]]:
    """A member with each of its opponents, in the order in which they play."""
    first = state.symmetric or member.population == state.populations[0]
    return [(member, other) if first else (other, member) for other in others if other.name != member.name]
