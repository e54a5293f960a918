"""The loop of a league: a mixture of opponents, a candidate trained against it, matches, and a member more or not."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rookery.experiments.league.arena import LeagueMatches, pairs_of, score_of, seed_of
from rookery.experiments.league.mixtures import (
    CandidatePlan,
    mixture_of,
    opponents_of,
    opposing,
    parent_of,
    plans,
    prefix,
    training_mixture,
    value_of,
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
    check_members,
    digest_of,
    load,
    locate,
    save,
)
from rookery.experiments.match_env import CONTROLLER, act_of, find_player, teams_of
from rookery.experiments.recipes import preset
from rookery.experiments.runs import new_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import resume, start
from rookery.experiments.zoo import zoo
from rookery.making import make
from rookery.policies.multiagent.frozen_opponent import EITHER
from rookery.policies.multiagent.match import two_teams
from rookery.policies.training import checkpoint
from rookery.policies.training.lock import RunLock
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace
from rookery.sim.trust import refuse_untrusted
from rookery.sim2real.task_source import task_source
from rookery.tasks.registry import find

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
    """

    def __init__(self, folder: Path, state: LeagueState, tell: Tell) -> None:
        self.folder = folder
        self.state = state
        self.tell = tell
        self.training = training_settings(state.settings)

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
        members = [m for name in self.state.settings.first for m in self._first(name)]
        for population in self.state.populations:
            if not any(m.population == population for m in members):
                raise RookeryError(f"nobody of --first plays {population}: add untrained, or a policy of that role.")
        self._save(members=tuple(members))

    def _first(self, name: str) -> list[LeagueMember]:
        """The members that a name of `--first` stands for."""
        if name == UNTRAINED:
            return [self._untrained(population) for population in self.state.populations]
        env = make(self.state.settings.task, 1, engine=self.training.engine, config=self.training.task_config)
        try:
            player = find_player(name, self.state.settings.task)
            plays = [EITHER] if self.state.symmetric else teams_of(player, env)
            for population in plays:
                groups = env.groups if population == EITHER else [g for g, a in env.teams[population].items() if a]
                act_of(player, env, groups)
        finally:
            env.close()
        kept = name if name == CONTROLLER or name in zoo() else str(Path(name).resolve())
        digest = "" if name == CONTROLLER else digest_of(zoo().get(name, Path(name)))
        short = Path(name).name if name not in zoo() else name
        return [
            LeagueMember(f"{prefix(population)}-00-{short}", population, kept, digest=digest) for population in plays
        ]

    def _untrained(self, population: str) -> LeagueMember:
        """A policy as it is before any training."""
        name = f"{prefix(population)}-00-{UNTRAINED}"
        folder = self.folder / "members" / name
        if not checkpoint.complete(folder):
            shutil.rmtree(folder, ignore_errors=True)
            training = start(self._settings(name, self.state.settings.steps), folder)
            try:
                training.runner.save()
            finally:
                training.runner.algorithm.close()
                training.runner.env.close()
        return LeagueMember(name, population, f"members/{name}", digest=digest_of(folder))

    # Results

    def _fill(self) -> None:
        """Let all pairs play that have not."""
        holes = self.state.holes()
        if not holes:
            return
        self.tell(f"{len(holes)} pair{'s' if len(holes) > 1 else ''} to play")
        with LeagueMatches(self.folder, self.state, self.training) as arena:
            for a, b in holes:
                self._save(cells=(*self.state.cells, arena.meet(a, b)))

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
        while len(now.attempts) < self.state.settings.attempts and not _passed(now):
            steps = self.state.settings.steps * (len(now.attempts) + 1)
            self.tell(f"{plan.name}: training to {steps:,} steps against {_shown(now.mixture)}")
            made = self._train(self.folder / "members" / plan.name, plan, now.mixture, steps, now.init)
            now = self._judged(plan, now, made)
            self._save(current=now)
            last = now.attempts[-1]
            self.tell(
                f"{plan.name}: {last.score:.1%} ({last.low:.1%} to {last.high:.1%}); more than {last.needed:.1%} are needed"
            )
        self._close(plan, dataclasses.replace(now, accepted=_passed(now)))

    def _close(self, plan: CandidatePlan, done: Round) -> None:
        """Keep a candidate as a member, or not."""
        members, cells = self.state.members, self.state.cells
        if done.accepted:
            policy = f"members/{plan.name}"
            digest = digest_of(self.folder / policy)
            steps = done.attempts[-1].steps
            members = (
                *members,
                LeagueMember(plan.name, plan.population, policy, plan.kind, plan.iteration, steps, digest),
            )
            cells = (*cells, *done.cells)
        self.tell(f"{plan.name} is {'a member' if done.accepted else 'not accepted'}")
        self._save(members=members, cells=cells, rounds=(*self.state.rounds, done), current=None)

    def _judged(self, plan: CandidatePlan, now: Round, steps: int) -> Round:
        """The round with an attempt more."""
        s = self.state.settings
        candidate = LeagueMember(plan.name, plan.population, f"members/{plan.name}")
        others = [m for m in self.state.of(opposing(self.state, plan.population)) if m.name in now.mixture]
        cells = self._meet(candidate, others)
        score, low, high = score_of(plan.name, now.mixture, cells)
        needed = value_of(self.state, plan.population, now.mixture) + s.accept
        attempt = Attempt(steps, score, low, high, needed)
        return dataclasses.replace(now, attempts=(*now.attempts, attempt), cells=tuple(cells))

    def _meet(self, candidate: LeagueMember, others: list[LeagueMember]) -> list[Cell]:
        with LeagueMatches(self.folder, self.state, self.training) as arena:
            return [arena.meet(a, b) for a, b in pairs_of(self.state, candidate, others)]

    # Trainings

    def _train(self, folder: Path, plan: CandidatePlan, mixture: dict[str, float], steps: int, init: str) -> int:
        """Train a run to so many steps, or what is left of it; returns the steps that it has made.

        Raises:
            LeagueStopped: Ctrl-C.
        """
        if checkpoint.complete(folder):
            made = int(checkpoint.read_state(checkpoint.newest(folder))["steps"])
            if made >= steps:
                return made
            training = resume(folder, {"total_steps": steps})
        else:
            shutil.rmtree(folder, ignore_errors=True)
            where = self._write_opponents(folder.name, plan, mixture)
            parent = locate(self.folder, init) if init else None
            training = start(self._settings(folder.name, steps, opponents=str(where), init=parent), folder)
        result = training.run()
        if result["interrupted"]:
            raise LeagueStopped
        return int(result["steps"])

    def _write_opponents(self, name: str, plan: CandidatePlan, mixture: dict[str, float]) -> Path:
        """The file that names the opponents of a candidate."""
        folder = self.folder / "opponents"
        make_folder(folder)
        policies = {m.name: m.policy for m in self.state.members}
        found = {n: f"../{p}" if p.startswith("members/") else p for n, p in policies.items()}
        file = folder / f"{name}.toml"
        replace(file, opponents_of(self.state, plan, mixture, found).to_toml().encode())
        return file

    def _settings(self, name: str, steps: int, **changes: Any) -> RunSettings:
        runner = dataclasses.replace(self.training.runner, total_steps=steps)
        seed = seed_of(self.state.settings.seed, name)
        return dataclasses.replace(self.training, runner=runner, seed=seed, **changes)

    # Exploitability

    def exploit(self, steps: int, iteration: int | None = None) -> list[BestResponse]:
        """Train a fresh best response of each population against the frozen mixture of its opponents, and measure it.

        Args:
            steps: control steps of each.
            iteration: members up to which count; None for all.

        Raises:
            RookeryError: no such iteration, or as `run`.
            LeagueStopped: Ctrl-C.
        """
        with self._alone():
            done = max((r.iteration for r in self.state.rounds), default=0)
            until = done if iteration is None else iteration
            if not 0 <= until <= done:
                raise RookeryError(f"the league has iterations 0 to {done}, not {until}.")
            self._fill()
            return [self._best_response(population, steps, until) for population in self.state.populations]

    def _best_response(self, population: str, steps: int, until: int) -> BestResponse:
        for known in self.state.best_responses:
            if (known.population, known.budget, known.iteration) == (population, steps, until):
                return known
        plan = CandidatePlan(until, population, "best-response")
        other = opposing(self.state, population)
        mixture = mixture_of(self.state, other, until)
        name = f"{prefix(population)}-{until:02d}-{steps}"
        self.tell(f"best response {name}: training to {steps:,} steps against {_shown(mixture)}")
        made = self._train(self.folder / "exploiters" / name, plan, mixture, steps, "")
        candidate = LeagueMember(name, population, str((self.folder / "exploiters" / name).resolve()))
        cells = self._meet(candidate, [m for m in self.state.of(other) if m.name in mixture])
        score, low, high = score_of(name, mixture, cells)
        found = BestResponse(until, population, steps, made, score, low, high)
        self._save(best_responses=(*self.state.best_responses, found))
        self.tell(f"best response {name}: {score:.1%} ({low:.1%} to {high:.1%})")
        return found


def _passed(now: Round) -> bool:
    """True where the last attempt of a candidate is good enough."""
    return bool(now.attempts) and now.attempts[-1].low > now.attempts[-1].needed


def _shown(mixture: dict[str, float]) -> str:
    largest = sorted(mixture.items(), key=lambda item: -item[1])[:4]
    more = f" and {len(mixture) - 4} more" if len(mixture) > 4 else ""
    return ", ".join(f"{name} {weight:.0%}" for name, weight in largest) + more


def training_settings(settings: LeagueSettings) -> RunSettings:
    """Settings of all trainings of a league, but for what each has of its own.

    Raises:
        RookeryError: settings that are none, or that a league sets itself.
    """
    base = preset(settings.task, "ppo")
    own: list[str] = [k for k in ("task", "seed", "init", "opponents", "teacher", "data") if k in settings.training]
    if own or "total_steps" in settings.training.get("runner", {}):
        raise RookeryError(
            f"a league sets {(own or ['total_steps'])[0]} of its trainings itself: leave it out of --config."
        )
    if (other := settings.training.get("algorithm", "ppo")) != "ppo":
        raise RookeryError(f"a league trains with ppo, and the settings have {other}: change algorithm to ppo.")
    found = RunSettings.from_values(settings.training, base)
    runner = dataclasses.replace(found.runner, time_limit_s=None, target_success=None, keep=1)
    return dataclasses.replace(found, runner=runner, teacher=None, data=None, init=None)


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
        RookeryError: as `load`; or settings that cannot change any more.
    """
    state = load(folder)
    refuse_untrusted(state.settings.task)
    if changes:
        with RunLock(folder):
            state = load(folder)
            state = changed(state, settings=dataclasses.replace(state.settings, **changes))
            save(folder, state)
    return League(folder, state, tell)
