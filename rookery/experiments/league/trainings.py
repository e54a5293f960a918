"""Trainings of a league's candidates: their settings, opponents and run folders."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

from rookery.experiments.algorithm import begin
from rookery.experiments.league.arena import seed_of
from rookery.experiments.league.mixtures import CandidatePlan, opponents_of
from rookery.experiments.league.state import LeagueSettings, LeagueState, locate
from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import Training, resume, start
from rookery.policies.training import checkpoint
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace


@dataclasses.dataclass(frozen=True)
class CandidateTraining:
    """Training of a candidate.

    Args:
        folder: of its run.
        plan: the candidate.
        mixture: probabilities of its opponents, by name.
        steps: control steps at the end.
        init: policy that it begins from, as `LeagueMember.policy`; "" for none.
    """

    folder: Path
    plan: CandidatePlan
    mixture: dict[str, float]
    steps: int
    init: str = ""

    @property
    def begun(self) -> bool:
        """True where there is a checkpoint to go on from."""
        return bool(checkpoint.complete(self.folder))

    @property
    def made(self) -> int:
        """Control steps of its newest checkpoint; 0 without one."""
        return int(checkpoint.read_state(checkpoint.newest(self.folder))["steps"]) if self.begun else 0

    def open(self, league: Path, state: LeagueState, base: RunSettings) -> Training:
        """The training, or what is left of it.

        Args:
            league: folder of the league.
            state: of the league.
            base: settings of all trainings.
        """
        if self.begun:
            return resume(self.folder, {"total_steps": self.steps})
        shutil.rmtree(self.folder, ignore_errors=True)
        return start(self._settings(league, state, base), self.folder)

    def check(self, league: Path, state: LeagueState, base: RunSettings) -> None:
        """Refuse what cannot be trained; the arguments are those of `open`.

        Raises:
            RookeryError: as a training does that begins.
        """
        _, algorithm, _ = begin(self._settings(league, state, base), base.randomize)
        algorithm.close()
        algorithm.env.close()

    def _settings(self, league: Path, state: LeagueState, base: RunSettings) -> RunSettings:
        where = self._write_opponents(league / "opponents", state)
        parent = locate(league, self.init) if self.init else None
        return candidate_settings(base, state, self.folder.name, self.steps, opponents=str(where), init=parent)

    def _write_opponents(self, folder: Path, state: LeagueState) -> Path:
        """The file that names the opponents."""
        make_folder(folder)
        policies = {m.name: m.policy for m in state.members}
        found = {n: f"../{p}" if p.startswith("members/") else p for n, p in policies.items()}
        file = folder / f"{self.folder.name}.toml"
        replace(file, opponents_of(state, self.plan, self.mixture, found).to_toml().encode())
        return file


def candidate_settings(base: RunSettings, state: LeagueState, name: str, steps: int, **changes: Any) -> RunSettings:
    """Settings of one training of a league."""
    runner = dataclasses.replace(base.runner, total_steps=steps)
    return dataclasses.replace(base, runner=runner, seed=seed_of(state.settings.seed, name), **changes)


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
