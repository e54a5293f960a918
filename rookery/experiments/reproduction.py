"""Reproduction: a recipe carried out in a folder, stage after stage."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rookery.experiments.opponents import FILE as OPPONENTS
from rookery.experiments.opponents import against, opponents_of
from rookery.experiments.recipes import PROGRESS, SOURCES, Recipe, RecipeStage
from rookery.experiments.runs import find_run, open_run, write_json
from rookery.experiments.settings import RunSettings, to_toml
from rookery.experiments.training import RANGES, Training, resume, start
from rookery.making import full_config, make
from rookery.policies.fuse import fuse_policies
from rookery.policies.low_pass import low_pass
from rookery.policies.policy import Policy
from rookery.policies.training import checkpoint
from rookery.policies.training.lock import RunLock, is_unused
from rookery.policies.training.store import save_policy
from rookery.sim.devices import find_device
from rookery.sim.errors import RookeryError
from rookery.sim.files import replace
from rookery.sim.untrusted import read_json
from rookery.sim2real.build import build_contract
from rookery.sim2real.compatibility import short
from rookery.sim2real.contract import Contract
from rookery.sim2real.provenance import gather_provenance

UPDATES = 4
"""Updates that a scaled stage has at least: it takes fewer worlds for them."""
LEAST_WORLDS = 16


class Reproduction:
    """A recipe that is carried out in a folder, stage after stage; what is done there already is not repeated.

    Args:
        recipe: what to do.
        folder: its own; a folder for each stage, and at the end the policy.
        scale: share of the control steps to make, above 0 to 1: for tests.
        seed: of all stages; None leaves them theirs.
        device: where all stages learn; None leaves them theirs. Another call may name another.

    Raises:
        RookeryError: a scale out of range, a device that is not here, or the folder holds something else.
    """

    def __init__(
        self, recipe: Recipe, folder: Path, scale: float = 1.0, seed: int | None = None, device: str | None = None
    ) -> None:
        if not 0.0 < scale <= 1.0:
            raise RookeryError(f"--scale must be above 0 and at most 1, got {scale:g}.")
        if device is not None:
            find_device(device)
        self.recipe = recipe
        self.folder = folder
        self.scale = scale
        self.seed = seed
        self.device = device
        self._plan: dict[str, Any] = {"recipe": recipe.to_values(), "scale": scale, "seed": seed}
        self.done = self._progress()

    def _progress(self) -> list[str]:
        """Stages that an earlier call has finished in the folder, and that are still there."""
        if is_unused(self.folder):
            return []
        try:
            found = read_json(self.folder / PROGRESS)
            done = [str(name) for name in found.pop("done") if (self.folder / str(name)).is_dir()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RookeryError(f"{self.folder} holds something else: choose another --out.") from None
        if found != self._plan and not self._goes_on(found, done):
            raise RookeryError(f"{self.folder} was begun {self._otherwise(found)}: give the same, or another --out.")
        return done

    def _otherwise(self, found: Any) -> str:
        """Difference of a plan from ours, in words."""
        try:
            reseeded = _seeded(found) != _seeded(found | {"seed": self._plan["seed"]})
            differs = {"scale": found["scale"] != self._plan["scale"], "seed": reseeded}
        except (KeyError, TypeError, AttributeError):
            differs = {}
        theirs = [
            f"without --{key}" if found[key] is None else f"with --{key} {short(found[key])}"
            for key in differs
            if differs[key]
        ]
        return " and ".join(theirs) or "with another recipe"

    def _goes_on(self, found: Any, done: list[str]) -> bool:
        """True where a plan differs from ours in stages alone of which the folder has nothing; a seed that is given is
        the same as that of the recipe."""
        ours = self._plan
        try:
            if (found["scale"], found["recipe"]["task"]) != (ours["scale"], self.recipe.task):
                return False
            theirs = _seeded(found)
        except (KeyError, TypeError, AttributeError):
            return False
        mine = _seeded(ours)
        begun = {name for name in (*theirs, *mine) if name in done or (self.folder / name).exists()}
        return all(theirs.get(name) == mine.get(name) for name in begun)

    def run(self, announce: Callable[[str, Training | None], None] = lambda line, training: None) -> bool:
        """Carry out what is left, and put the policy of the last stage into the folder.

        Args:
            announce: called at the beginning of each stage.

        Returns:
            Whether all is done; False after Ctrl-C, from which another call goes on.

        Raises:
            RookeryError: settings that do not fit, a folder that cannot be written, or another process that reproduces in it.
        """
        self._check_opponents()
        with RunLock(self.folder):
            self.done = self._progress()  # once more: another process may have gone on since
            return self._run(announce)

    def _check_opponents(self) -> None:
        """Refuse opponents that cannot play in their stage before the stages before it are trained."""
        stages = [stage.name for stage in self.recipe.stages]
        for stage in self.recipe.stages:
            given = stage.values.get("opponents")
            if not isinstance(given, dict) or checkpoint.complete(self.folder / stage.name):
                continue
            own = RunSettings.from_values(stage.values | {"opponents": None})
            config = own.training_config
            env = make(own.task, 1, engine=own.engine, config=config, weights=own.weights or None)
            against(env, opponents_of(given, f"opponents in {stage.name}"), own.seed, stages).close()

    def _run(self, announce: Callable[[str, Training | None], None]) -> bool:
        self._note()
        for number, stage in enumerate(self.recipe.stages, 1):
            if stage.name in self.done:
                continue
            line = f"stage {number} of {len(self.recipe.stages)}, {stage.name}"
            if stage.kind == "train":
                training = self._training(stage)
                announce(line, training)
                if training is not None and training.run()["interrupted"]:
                    return False
            else:
                announce(line, None)
                {"low_pass": self._low_pass, "fuse": self._fuse}[stage.kind](stage)
            self.done.append(stage.name)
            self._note()
        last = self.folder / self.recipe.stages[-1].name
        if (last / RANGES).is_file():
            shutil.copyfile(last / RANGES, self.folder / RANGES)
        policies, contract = open_run(last)
        values = contract.to_json()
        values["provenance"]["steps"] = self._steps()
        save_policy(self.folder, policies, values)
        return True

    def _note(self) -> None:
        write_json(self.folder / PROGRESS, self._plan | {"done": self.done})

    def _steps(self) -> int:
        """Control steps that the stages have made."""
        trained = [s.name for s in self.recipe.stages if s.kind == "train"]
        return sum(open_run(self.folder / name)[1].provenance.steps or 0 for name in trained)

    def _source(self, name: str | None) -> str | None:
        """The folder of an earlier stage, or of a policy of the zoo."""
        if name is None:
            return None
        return str(self.folder / name if name in self.done else find_run(Path(name)))

    def settings(self, stage: RecipeStage) -> RunSettings:
        """The settings with which a training of the recipe is made."""
        opponents = stage.values.get("opponents")
        table = isinstance(opponents, dict)  # a file is of a task's own preset
        settings = RunSettings.from_values(stage.values | ({"opponents": None} if table else {}))
        paths: dict[str, Any] = {key: self._source(getattr(settings, key)) for key in SOURCES["train"]}
        if table:
            paths["opponents"] = str(self.folder / f"{stage.name}-{OPPONENTS}")
        settings = dataclasses.replace(settings, **paths)
        if self.seed is not None:
            settings = dataclasses.replace(settings, seed=self.seed)
        if self.device is not None:
            settings = dataclasses.replace(settings, device=self.device)
        return settings if self.scale == 1.0 else scaled(settings, self.scale)

    def _training(self, stage: RecipeStage) -> Training | None:
        """The training of a stage, begun or gone on with; None where it has made all its steps."""
        settings = self.settings(stage)
        run = self.folder / stage.name
        if not checkpoint.complete(run):
            shutil.rmtree(run, ignore_errors=True)  # what was killed before its first checkpoint
            opponents = stage.values.get("opponents")
            if isinstance(opponents, dict) and settings.opponents is not None:  # stages before it are folders beside it
                replace(Path(settings.opponents), to_toml(opponents).encode())
            return start(settings, run)
        if checkpoint.read_state(run)["steps"] >= settings.runner.total_steps:
            return None
        return resume(run, device=self.device)

    def _low_pass(self, stage: RecipeStage) -> None:
        policies, contract = self._open(stage.values["of"])
        made = {
            name: low_pass(
                policy, contract.groups[name].spec, stage.values["share"], tuple(stage.values.get("actions", ()))
            )
            for name, policy in policies.items()
        }
        save_policy(self.folder / stage.name, made, contract.to_json())

    def _fuse(self, stage: RecipeStage) -> None:
        env = make(self.recipe.task, 1)
        try:
            (name, group), *_ = env.groups.items()
            learned = []
            for key in ("first", "second"):
                policies, contract = self._open(stage.values[key])
                learned.append((policies[name], contract.groups[name].spec))
            first, second = learned
            provenance = gather_provenance(0, 0, env.engine, "none") | {"fixed": {}}
            fused = build_contract(
                env, config=full_config(self.recipe.task, {}), provenance=provenance, trained_here=False
            )
            save_policy(self.folder / stage.name, {name: fuse_policies(first, second, group)}, fused.to_json())
        finally:
            env.close()

    def _open(self, name: str) -> tuple[dict[str, Policy], Contract]:
        source = self._source(name)
        assert source is not None
        return open_run(Path(source))


def _seeded(plan: Any) -> dict[str, Any]:
    """The stages of a plan by name, trainings with the seed that they have by it."""
    seed = {} if plan["seed"] is None else {"seed": plan["seed"]}
    return {
        stage["name"]: stage | {"values": stage["values"] | (seed if stage["kind"] == "train" else {})}
        for stage in plan["recipe"]["stages"]
    }


def scaled(settings: RunSettings, scale: float) -> RunSettings:
    """Settings with a share of the control steps, and fewer worlds where less than UPDATES updates would be left."""
    steps = max(1, round(scale * settings.runner.total_steps))
    rollout = getattr(settings.algorithm_config, "rollout_steps", 1)
    worlds = min(settings.num_envs, max(LEAST_WORLDS, steps // (UPDATES * rollout)))
    return dataclasses.replace(
        settings, num_envs=worlds, runner=dataclasses.replace(settings.runner, total_steps=steps)
    )
