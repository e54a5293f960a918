"""The loop of a league: a mixture of opponents, a candidate trained against it, matches, and a member more or not."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.league.arena import LeagueMatches, pairs_of, score_of
from rookery.experiments.league.first import check_init, first_members
from rookery.experiments.league.mixtures import (
    CandidatePlan,
    independent,
    init_of,
    mixture_of,
    needed_score,
    opposing,
    parent_of,
    plans,
    prefix,
    shown_mixture,
    shown_needed,
    training_mixture,
)
from rookery.experiments.league.state import (
    FILE,
    UNTRAINED,
    Attempt,
    BestResponse,
    Cell,
    LeagueMember,
    LeagueSettings,
    LeagueState,
    Round,
    changed,
    changed_settings,
    check_members,
    digest_of,
    load,
    save,
)
from rookery.experiments.league.trainings import CandidateTraining, candidate_settings, training_settings
from rookery.experiments.runs import new_run
from rookery.experiments.training import Training, start
from rookery.making import make
from rookery.policies.multiagent.frozen_opponent import EITHER
from rookery.policies.multiagent.match import two_teams
from rookery.policies.training import checkpoint
from rookery.policies.training.lock import RunLock
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.trust import refuse_untrusted
from rookery.sim2real.task_source import task_source
from rookery.tasks.registry import find

if TYPE_CHECKING:
    from rookery.experiments.league.remote import LeagueCluster

BEST_RESPONSE = "best-response"
"""Kind of a policy by which the league is judged, and which is no candidate."""
Pairs = list[tuple[LeagueMember, LeagueMember]]
Tell = Callable[[str], None]
"""Called with a line on what happens."""


class LeagueStopped(Exception):
    """Ctrl-C in a league; everything is saved."""


class League:
    """A league in its folder.

    Args:
        folder: that holds it.
        state: of `load`.
        tell: called with a line on what happens.

    Attributes:
        cluster: that plays and trains, with the same results; None for this process.
    """

    def __init__(self, folder: Path, state: LeagueState, tell: Tell) -> None:
        self.cluster: LeagueCluster | None = None
        self.folder = folder
        self.state = state
        self.tell = tell
        self.training = training_settings(state.settings)
        self._repeats = False  # told that episodes repeat others

    def run(self) -> LeagueState:
        """Train and judge until all candidates are done.

        Raises:
            RookeryError: a member or the task is not what it was.
            LeagueStopped: Ctrl-C.
        """
        with self._alone():
            self._begin()
            self._fill()
            for plan in plans(self.state)[len(self.state.rounds) :]:
                self._round(plan)
                self._fill()
        return self.state

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder, with the state as it is now: another process may have gone on with it since it was opened."""
        with RunLock(self.folder):
            self.state = load(self.folder)
            self._check()
            yield

    def _check(self) -> None:
        check_members(self.folder, self.state)
        now = task_source(self.state.settings.task).changed_since(self.state.source)
        if now:
            raise RookeryError(
                f"the league in {self.folder} was made with another version of {self.state.settings.task}, which has changed "
                f"in {', '.join(now)}: its results would not go together. Go on with that version, or begin a new league with "
                "its members by --first."
            )

    def _save(self, **values: Any) -> None:
        self.state = changed(self.state, **values)
        save(self.folder, self.state)

    # First members

    def _begin(self) -> None:
        if self.state.members:
            return
        try:
            found = changed(self.state, members=first_members(self.state, self.training, self._untrained))
            without = check_init(self.folder, found, self.training)
        except RookeryError:  # the folder holds nothing but settings that cannot be used
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._save(members=found.members, without_init=without)

    def _untrained(self, population: str) -> LeagueMember:
        """A policy as it is before any training."""
        name = f"{prefix(population)}-00-{UNTRAINED}"
        folder = self.folder / "members" / name
        if not checkpoint.complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
            settings = candidate_settings(self.training, self.state, name, self.state.settings.steps)
            self._save_first(start(settings, folder))
        return LeagueMember(name, population, f"members/{name}", digest=digest_of(folder))

    # Results

    def _fill(self) -> None:
        """Let all pairs play that have not."""
        holes = self.state.holes()
        if not holes:
            return
        self.tell(f"{len(holes)} pair{'s' if len(holes) > 1 else ''} to play")
        for cell in self._played(holes):
            self._save(cells=(*self.state.cells, cell))

    def _played(self, pairs: Pairs) -> Iterator[Cell]:
        """Results of pairs, in their order, as they come."""
        for cell in self._results(pairs):
            starts = cell.episodes // (2 if self.state.symmetric else 1)
            if not self._repeats and 0 < 2 * cell.known_starts < starts:
                self._repeats = True
                self.tell(
                    f"only {cell.known_starts} of the {starts} starts of {cell.a} against {cell.b} differ, and intervals count "
                    'no repetition: begin a league with randomize = "default" in its settings'
                )
            yield cell

    def _results(self, pairs: Pairs) -> Iterator[Cell]:
        if self.cluster is not None:
            yield from self.cluster.play(self.folder, self.state, self.training, pairs)
            return
        with LeagueMatches(self.folder, self.state, self.training) as arena:
            for a, b in pairs:
                yield arena.meet(a, b)

    # Candidates

    def _round(self, plan: CandidatePlan) -> None:
        if self.state.current is None:
            mixture = training_mixture(self.state, plan)
            parent = parent_of(self.state, plan)
            self._save(current=Round(plan.iteration, plan.population, plan.kind, plan.name, mixture, parent))
        now = self.state.current
        assert now is not None
        if now.name != plan.name:
            raise RookeryError(f"{self.folder / FILE} is amid {now.name}, and {plan.name} is next: put back its copy.")
        needed = needed_score(self.state, plan.population, now.mixture)
        attempts = self.state.settings.attempts if needed < 1.0 else 0  # nobody wins more than all
        while len(now.attempts) < attempts and not _passed(now):
            steps = self.state.settings.steps * (len(now.attempts) + 1)
            beside = [] if now.attempts else self._beside(plan)
            made = self._train(self._candidate(plan, now.mixture, steps, now.init), *beside)
            now = self._judged(plan, now, made[0], needed)
            self._save(current=now)
            last = now.attempts[-1]
            self.tell(
                f"{plan.name}: {last.score:.1%} ({last.low:.1%} to {last.high:.1%}); {shown_needed(last.needed)} is enough"
            )
        self._close(plan, dataclasses.replace(now, accepted=_passed(now)))

    def _close(self, plan: CandidatePlan, done: Round) -> None:
        """Keep a candidate as a member, or not."""
        members, cells = self.state.members, self.state.cells
        if done.accepted:
            policy = f"members/{plan.name}"
            digest = digest_of(self.folder / policy)
            if not digest or done.digest not in ("", digest):
                raise RookeryError(
                    f"the candidate {plan.name} of the league, {self.folder / policy}, is missing, damaged or another policy "
                    "than the one that played: put it back as it was; nothing was changed."
                )
            steps = done.attempts[-1].steps
            members = (
                *members,
                LeagueMember(plan.name, plan.population, policy, plan.kind, plan.iteration, steps, digest),
            )
            cells = (*cells, *done.cells)
        why = "not accepted" if done.attempts else "not trained: its population wins every episode already"
        self.tell(f"{plan.name} is {'a member' if done.accepted else why}")
        self._save(members=members, cells=cells, rounds=(*self.state.rounds, done), current=None)

    def _judged(self, plan: CandidatePlan, now: Round, steps: int, needed: float) -> Round:
        """The round with an attempt more."""
        candidate = LeagueMember(plan.name, plan.population, f"members/{plan.name}", steps=steps)
        others = [m for m in self.state.of(opposing(self.state, plan.population)) if m.name in now.mixture]
        cells = list(self._played(pairs_of(self.state, candidate, others)))
        score, low, high = score_of(plan.name, now.mixture, cells)
        attempt = Attempt(steps, score, low, high, needed)
        digest = digest_of(self.folder / candidate.policy)
        return dataclasses.replace(now, attempts=(*now.attempts, attempt), cells=tuple(cells), digest=digest)

    # Trainings

    def _train(self, *trainings: CandidateTraining) -> list[int]:
        """Train candidates to their steps, or what is left of that; returns the steps that each has made.

        Raises:
            LeagueStopped: Ctrl-C.
        """
        left = [t for t in trainings if t.made < t.steps or not t.begun]
        for t in left:
            kind = "best response " if t.plan.kind == BEST_RESPONSE else ""
            done = f", {t.made:,} of them done," if t.made else ""
            self.tell(f"{kind}{t.folder.name}: training to {t.steps:,} steps{done} against {shown_mixture(t.mixture)}")
        if self.cluster is None:
            for training in left:
                if training.open(self.folder, self.state, self.training).run()["interrupted"]:
                    raise LeagueStopped
        elif left:
            for training in left:
                if not training.begun:
                    self._save_first(training.open(self.folder, self.state, self.training))
            if not self.cluster.train({t.folder: t.steps for t in left}):
                raise LeagueStopped
        return [t.made for t in trainings]

    def _save_first(self, training: Training) -> None:
        """Write the checkpoint with which a training begins."""
        try:
            training.runner.save()
        finally:
            training.close()

    def _candidate(self, plan: CandidatePlan, mixture: dict[str, float], steps: int, init: str) -> CandidateTraining:
        return CandidateTraining(self.folder / "members" / plan.name, plan, mixture, steps, init)

    def _beside(self, plan: CandidatePlan) -> list[CandidateTraining]:
        """First attempts of other candidates that a cluster trains beside this one: what they give is the same as in turn."""
        if self.cluster is None:
            return []
        state, steps = self.state, self.state.settings.steps
        return [
            self._candidate(p, training_mixture(state, p), steps, parent_of(state, p))
            for p in independent(state)
            if p != plan
        ]

    # Exploitability

    def exploit(self, steps: int, *iterations: int) -> list[BestResponse]:
        """Train a fresh best response of each population against the frozen mixture of its opponents, and measure it.

        Args:
            steps: control steps of each.
            iterations: members up to which count; none for all members.

        Raises:
            RookeryError: no such iteration, or as `run`.
            LeagueStopped: Ctrl-C.
        """
        with self._alone():
            done = max((r.iteration for r in self.state.rounds), default=0)
            for until in iterations:
                if not 0 <= until <= done:
                    raise RookeryError(f"the league has iterations 0 to {done}, not {until}.")
            self._fill()
            wanted = [(p, until) for until in iterations or (done,) for p in self.state.populations]
            if self.cluster is not None:
                unknown = [w for w in wanted if self._known_response(*w, steps) is None]
                self._train(*(self._response(*w, steps) for w in unknown))
            return [self._best_response(*w, steps) for w in wanted]

    def _known_response(self, population: str, until: int, steps: int) -> BestResponse | None:
        for known in self.state.best_responses:
            if (known.population, known.budget, known.iteration) == (population, steps, until):
                return known
        return None

    def _response(self, population: str, until: int, steps: int) -> CandidateTraining:
        """The training of a best response."""
        plan = CandidatePlan(until, population, BEST_RESPONSE)
        mixture = mixture_of(self.state, opposing(self.state, population), until)
        name = f"{prefix(population)}-{until:02d}-{steps}"
        return CandidateTraining(
            self.folder / "exploiters" / name, plan, mixture, steps, init_of(self.state, population)
        )

    def _best_response(self, population: str, until: int, steps: int) -> BestResponse:
        known = self._known_response(population, until, steps)
        if known is not None:
            return known
        training = self._response(population, until, steps)
        name, mixture = training.folder.name, training.mixture
        (made,) = self._train(training)
        candidate = LeagueMember(name, population, str(training.folder.resolve()))
        others = [m for m in self.state.of(opposing(self.state, population)) if m.name in mixture]
        cells = list(self._played(pairs_of(self.state, candidate, others)))
        score, low, high = score_of(name, mixture, cells)
        found = BestResponse(until, population, steps, made, score, low, high)
        self._save(best_responses=(*self.state.best_responses, found))
        self.tell(f"best response {name}: {score:.1%} ({low:.1%} to {high:.1%})")
        return found


def _passed(now: Round) -> bool:
    """True where the last attempt of a candidate is good enough."""
    return bool(now.attempts) and now.attempts[-1].low > now.attempts[-1].needed


def populations_of(env: Env) -> tuple[str, ...]:
    """The populations of a match: one where both teams are alike, otherwise the two teams."""
    first, second = two_teams(env)
    sizes = [{g: len(a) for g, a in env.teams[team].items() if a} for team in (first, second)]
    return (EITHER,) if sizes[0] == sizes[1] else (first, second)


def new_league(settings: LeagueSettings, out: Path | None) -> tuple[Path, LeagueState]:
    """A new league in a new folder.

    Args:
        settings: of the league.
        out: its folder; None makes runs/TASK-league/<time>.

    Raises:
        RookeryError: settings or a task that make no league, or a folder that is not empty.
    """
    if find(settings.task).members:
        raise RookeryError(f"{settings.task} is a set of tasks, which has no teams that play against each other.")
    training = training_settings(settings)
    env = make(settings.task, 1, engine=training.engine, config=training.task_config)
    try:
        populations = populations_of(env)
    finally:
        env.close()
    folder = new_run(f"{settings.task}-league", out)
    state = LeagueState(settings, populations, task_source(settings.task).to_json())
    save(folder, state)
    return folder, state


def open_league(folder: Path, tell: Tell, **changes: Any) -> League:
    """A league that goes on, with more iterations or other settings of that kind.

    Raises:
        RookeryError: as `load`; or settings that are none, or a member or a task that is not what it was.
    """
    state = load(folder)
    refuse_untrusted(state.settings.task)
    if changes:
        with RunLock(folder):
            league = League(folder, load(folder), tell)
            league._check()
            league._save(settings=changed_settings(league.state, **changes))
            return league
    return League(folder, state, tell)
