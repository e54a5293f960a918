"""The state of a league: its settings, members, results and history, in one JSON file that is whole at any moment.

    runs/volley-1v1-league/<time>/
        league.json          this file's `LeagueState`
        members/<name>/      the run folder of each candidate, those that were not accepted too
        opponents/           the mixtures that they were trained against
        exploiters/          best responses by which the league is judged
        report.md  report.json  cross_play.svg  ratings.svg  exploitability.svg

A training stands in its own folder and resumes by itself. Everything else is a function of what league.json holds, so that a
league which is killed at any moment goes on with the same bits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.experiments.runs import write_json
from rookery.experiments.zoo import zoo
from rookery.policies.multiagent.frozen_opponent import EITHER
from rookery.policies.multiagent.solvers import SOLVERS
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_json, read_safetensors
from rookery.sim.values import from_values, plain

FILE = "league.json"
FORMAT, VERSION = "rookery-league", 1
UNTRAINED = "untrained"
"""A first member: a policy as it is before any training."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeagueSettings:
    """Everything that a league is made from."""

    task: str
    """Registered name of a task with two teams."""
    solver: str = "psro-nash"
    """Mixes the opponents, one of `SOLVERS`."""
    iterations: int = 8
    """Candidates that each population trains."""
    steps: int = 1_000_000
    """Control steps of an attempt of a candidate."""
    attempts: int = 2
    """Attempts before a candidate is given up; each goes on from the one before."""
    accept: float = 0.0
    """Share of the episodes by which the lower end of a candidate's interval must exceed what its population has already."""
    episodes: int = 256
    """Number of each pair's, even."""
    first: tuple[str, ...] = (UNTRAINED,)
    """Members to begin with: "untrained", "controller", run folders, policies of the zoo."""
    init: str = ""
    """Policy that best responses begin from, and candidates that have no parent: a run folder or a policy of the zoo, as
    `rookery train --init` takes them; "" for none."""
    seed: int = 0
    """Seed of trainings and matches."""
    training: dict[str, Any] = field(default_factory=dict)
    """Settings of the trainings in place of those of the task's preset."""

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise unknown("solver", self.solver, SOLVERS)
        for name in ("iterations", "steps", "attempts"):
            if getattr(self, name) < 1:
                raise RookeryError(f"{name} of a league must be at least 1, got {getattr(self, name)}.")
        if self.episodes < 2 or self.episodes % 2:
            raise RookeryError(f"episodes must be even and at least 2, as both sides are played, got {self.episodes}.")
        if not -1.0 <= self.accept < 1.0:
            raise RookeryError(f"accept is a share of the episodes from -1, for everybody, to 1, got {self.accept}.")
        if not self.first or len(set(self.first)) < len(self.first):
            raise RookeryError("a league begins with one member at least, and none of them twice.")
        if self.init and self.init not in zoo():
            object.__setattr__(self, "init", str(Path(self.init).resolve()))  # the league may go on from elsewhere


@dataclass(frozen=True)
class LeagueMember:
    """One who plays in a league."""

    name: str
    population: str
    """The team that it plays, or "either"."""
    policy: str
    """Folder from that of the league, a policy of the zoo, or "controller"."""
    kind: str = "first"
    """"first", "main" or "exploiter"."""
    iteration: int = 0
    steps: int = 0
    """Control steps that it was trained, those before it was its parent's child not counted."""
    digest: str = ""
    """SHA-256 of its policies; "" for the controller."""


@dataclass(frozen=True)
class Cell:
    """Results of a pair; a plays the first population, or stands before b in the only one."""

    a: str
    b: str
    a_wins: int
    b_wins: int
    nobody: int
    score: float
    """Mean of a's episodes: 1 for one that it won, a half where nobody did."""
    variance: float
    """Variance of that mean, by its episodes."""
    known_starts: int = 0
    """Number of different starts, each played from both sides where the teams are alike; 0 where it was not counted."""

    @property
    def episodes(self) -> int:
        return self.a_wins + self.b_wins + self.nobody

    @property
    def starts(self) -> int:
        """Number of different starts, or the fewest that there may be."""
        return self.known_starts or self.episodes // 2


@dataclass(frozen=True)
class Attempt:
    """Result of a candidate after so many steps."""

    steps: int
    score: float
    low: float
    high: float
    needed: float
    """Score that `low` must exceed."""


@dataclass(frozen=True)
class Round:
    """One candidate: whom it was trained against, and how it did."""

    iteration: int
    population: str
    kind: str
    name: str
    mixture: dict[str, float]
    """Members that it was trained against, and their probabilities."""
    init: str = ""
    """Policy that it began from, as `LeagueMember.policy`; "" for none."""
    attempts: tuple[Attempt, ...] = ()
    cells: tuple[Cell, ...] = ()
    """Its results of the last attempt."""
    accepted: bool = False
    digest: str = ""
    """SHA-256 of the policy that has these results."""


@dataclass(frozen=True)
class BestResponse:
    """A fresh policy that was trained against the league as it was after an iteration."""

    iteration: int
    population: str
    """The one that it plays for."""
    budget: int
    """Control steps that were asked for."""
    steps: int
    score: float
    low: float
    high: float


@dataclass(frozen=True)
class LeagueState:
    """Everything that is known of a league."""

    settings: LeagueSettings
    populations: tuple[str, ...]
    """("either",) or the two teams."""
    source: dict[str, Any] = field(default_factory=dict)
    """Digests of the task's code."""
    members: tuple[LeagueMember, ...] = ()
    cells: tuple[Cell, ...] = ()
    rounds: tuple[Round, ...] = ()
    current: Round | None = None
    best_responses: tuple[BestResponse, ...] = ()
    without_init: tuple[str, ...] = ()
    """Populations of whose role `LeagueSettings.init` is not: they begin from nothing."""

    @property
    def symmetric(self) -> bool:
        """True where one population plays both sides."""
        return self.populations == (EITHER,)

    def of(self, population: str, until: int | None = None) -> list[LeagueMember]:
        """The members of a population, those up to an iteration."""
        return [m for m in self.members if m.population == population and (until is None or m.iteration <= until)]

    def sides(self, until: int | None = None) -> tuple[list[LeagueMember], list[LeagueMember]]:
        """The members of the row and of the column player."""
        rows, columns = (self.of(p, until) for p in (self.populations[0], self.populations[-1]))
        return rows, columns

    def results(self, until: int | None = None) -> tuple[Array, Array, Array]:
        """Mean scores [R, C] of the row player's members, 0 to 1, their variances, and numbers of different starts; NaN where a
        pair has not played."""
        rows, columns = self.sides(until)
        place = [{m.name: i for i, m in enumerate(side)} for side in (rows, columns)]
        score, variance, starts = (np.full((len(rows), len(columns)), np.nan) for _ in range(3))
        if self.symmetric:
            np.fill_diagonal(score, 0.5)
            np.fill_diagonal(variance, 0.0)
            np.fill_diagonal(starts, 0.0)
        for cell in self.cells:
            i, j = place[0].get(cell.a), place[1].get(cell.b)
            if i is None or j is None:
                continue
            score[i, j], variance[i, j], starts[i, j] = cell.score, cell.variance, cell.starts
            if self.symmetric:
                score[j, i], variance[j, i], starts[j, i] = 1.0 - cell.score, cell.variance, cell.starts
        return score, variance, starts

    def payoffs(self, until: int | None = None) -> tuple[Array, Array]:
        """The payoff matrix [R, C], -1 to 1, and its variances."""
        score, variance, _ = self.results(until)
        return 2.0 * score - 1.0, 4.0 * variance

    def holes(self) -> list[tuple[LeagueMember, LeagueMember]]:
        """Pairs that have not played."""
        rows, columns = self.sides()
        score, _, _ = self.results()
        return [
            (rows[i], columns[j])
            for i, j in np.argwhere(np.isnan(score)).tolist()
            if not self.symmetric or i < j
        ]  # fmt: skip


# The file


def save(folder: Path, state: LeagueState) -> None:
    """Write league.json, whole or not at all."""
    body = {"format": FORMAT, "version": VERSION, "state": plain(state)}
    write_json(folder / FILE, body | {"sha256": _digest(body)})


def load(folder: Path) -> LeagueState:
    """The state of a league.

    Raises:
        RookeryError: there is no league, or its file is damaged, edited or of another version.
    """
    file = folder / FILE
    if not file.is_file():
        raise RookeryError(
            f"{folder} holds no league: give the folder of one, or a task with teams, such as volley-1v1, to begin one."
        )
    try:
        values = read_json(file)
        if values["format"] != FORMAT:
            raise KeyError("format")
        version = int(values["version"])
        sealed = {k: v for k, v in values.items() if k != "sha256"}
        whole = values["sha256"] == _digest(sealed)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(file, "is cut short or is no league's") from error
    if version != VERSION:
        raise RookeryError(f"{file} is of version {version}, this Rookery reads {VERSION}: use the one that wrote it.")
    if not whole:
        raise _damaged(file, "was edited or damaged")
    try:
        return from_values(LeagueState, values["state"], f"value in {file}")
    except RookeryError as error:
        raise _damaged(file, f"does not fit ({error})") from error


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _damaged(file: Path, why: str) -> RookeryError:
    return RookeryError(
        f"{file} {why}: put back a copy of it; the members' policies in {file.parent / 'members'} are as they were, and "
        "`rookery league TASK --first RUN ...` begins a new league with them."
    )


def digest_of(policy: Path) -> str:
    """SHA-256 of the weights in a run folder; "" where there are none that can be read."""
    digest = hashlib.sha256()
    files = sorted(policy.glob("policy*.safetensors"))
    try:
        for file in files:
            for name, values in sorted(read_safetensors(file)[0].items()):
                digest.update(f"{file.name} {name} {values.dtype} {list(values.shape)}".encode())
                digest.update(values.contiguous().view(torch.uint8).numpy().data)
    except (OSError, ValueError):
        return ""
    return digest.hexdigest() if files else ""


def locate(folder: Path, member: LeagueMember | str) -> str:
    """A member's policy as it is found from here."""
    policy = member if isinstance(member, str) else member.policy
    inside = folder / policy
    return str(inside) if policy.startswith("members/") else policy


def check_members(folder: Path, state: LeagueState) -> None:
    """Refuse a league whose members are not what they were.

    Raises:
        RookeryError: a member is missing, half written or another one.
    """
    for member in state.members:
        if member.digest and digest_of(_files(folder, member)) != member.digest:
            where = locate(folder, member)
            there = Path(where).exists()
            raise RookeryError(
                f"the member {member.name} of the league, {where}, "
                + ("is damaged or another policy than the one that played" if there else "is missing")
                + ": put it back as it was; nothing was changed."
            )


def _files(folder: Path, member: LeagueMember) -> Path:
    where = locate(folder, member)
    return zoo().get(where, Path(where)) if not Path(where).exists() else Path(where)


def changed(state: LeagueState, **values: Any) -> LeagueState:
    """A state with other values."""
    return dataclasses.replace(state, **values)


def changed_settings(state: LeagueState, **values: Any) -> LeagueSettings:
    """Settings with which a league goes on.

    Raises:
        RookeryError: fewer iterations than have been made, or values that are none.
    """
    new = dataclasses.replace(state.settings, **values)
    done = max((r.iteration for r in state.rounds), default=0)
    if new.iterations < done:
        raise RookeryError(f"the league has made {done} iterations: give at least as many, or none to go on.")
    return new
