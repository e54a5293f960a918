"""Recipes: how a policy of the zoo is trained again, from nothing, in stages one after the other.

A recipe is a TOML file, `policies/recipes/NAME.toml`. A task without one has a single stage, which is its preset. Its stages:

    [[stages]]
    name = "imitated"                # folder of the stage
    algorithm = "dagger"             # settings in place of the preset's, as in settings.toml of a run
    runner = {total_steps = 1_000_000}

    [[stages]]
    name = "trained"
    init = "imitated"                # a stage before it, or a policy of the zoo; likewise `teacher`
    randomize = "ranges.toml"        # a file is found from the recipe's folder
    ppo = {learning_rate = 1e-4}

    [[stages]]
    kind = "low_pass"                # rookery.policies.low_pass
    name = "smooth"
    of = "trained"
    share = 0.6
    actions = ["joint1"]             # none for all

    [[stages]]
    kind = "fuse"                    # rookery.policies.fuse, for the task of the recipe
    name = "both"
    first = "legs"
    second = "trained"

`task` at the top is the recipe's name where it is left out; a stage may train in another one. `notes` says what is known of
the stored policy.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.experiments.presets import preset
from rookery.experiments.runs import find_run, open_run, write_json, zoo
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import Training, resume, start
from rookery.making import full_config, make
from rookery.policies.fuse import fuse_policies
from rookery.policies.low_pass import low_pass
from rookery.policies.policy import Policy
from rookery.policies.training import checkpoint
from rookery.policies.training.store import save_policy
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_json, read_toml
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.provenance import gather_provenance
from rookery.tasks.registry import TASKS

PROGRESS = "recipe.json"
"""In the folder of a reproduction: the recipe, its scale and seed, and the stages that are done."""
KEYS = {"low_pass": ({"of", "share"}, {"actions"}), "fuse": ({"first", "second"}, set())}
"""Keys of the kinds of stage other than "train": those that must be there, and others."""
SOURCES = {"train": ("init", "teacher"), "low_pass": ("of",), "fuse": ("first", "second")}
"""Keys that name a policy, by the kind of stage."""
UPDATES = 4
"""Updates that a scaled stage has at least: it takes fewer worlds for them."""
LEAST_WORLDS = 16


@dataclass(frozen=True)
class Stage:
    """One step of a recipe.

    Args:
        name: of its folder.
        kind: "train", "low_pass" or "fuse".
        values: by key, see the top of this file; of "train" complete settings but for what names a policy.
    """

    name: str
    kind: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """How a policy is trained.

    Args:
        name: of the policy in the zoo, or of the file.
        task: registered name.
        stages: in order; the last one gives the policy.
        notes: what is known of the stored policy's own training.
    """

    name: str
    task: str
    stages: tuple[Stage, ...]
    notes: str = ""

    @property
    def total_steps(self) -> int:
        """Control steps of all stages."""
        return sum(s.values["runner"]["total_steps"] for s in self.stages if s.kind == "train")

    def to_values(self) -> dict[str, Any]:
        """JSON values, by which two recipes are compared."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values


def recipe_files() -> dict[str, Path]:
    """The package's recipes, by name."""
    import rookery.policies

    return {f.stem: f for f in sorted((Path(rookery.policies.__file__).parent / "recipes").glob("*.toml"))}


def find_recipe(name: str | Path) -> Recipe:
    """The recipe of a policy of the zoo, of a task, or in a file.

    Raises:
        RookeryError: there is none of this name, or the file is not a recipe.
    """
    files = recipe_files()
    if str(name) in files:
        return read_recipe(files[str(name)])
    if Path(name).suffix == ".toml":
        return read_recipe(Path(name))
    if str(name) not in TASKS:
        raise unknown("recipe", str(name), sorted({*files, *TASKS}))
    task = str(name)
    return Recipe(task, task, (Stage("trained", "train", preset(task).to_values()),))


def read_recipe(file: Path) -> Recipe:
    """A recipe from its file, checked.

    Raises:
        RookeryError: it cannot be read, or a key or value is not that of a recipe.
    """
    try:
        values = read_toml(file)
    except OSError as error:
        raise RookeryError(f"cannot read the recipe {file} ({error.strerror}).") from error
    except ValueError as error:
        raise RookeryError(f"the recipe {file} is not TOML: {error}.") from error
    for key in values:
        if key not in ("task", "notes", "stages"):
            raise unknown(f"key of {file.name}", key, ("task", "notes", "stages"))
    task = values.get("task", file.stem)
    given = values.get("stages")
    if not isinstance(given, list) or not given or not all(isinstance(s, dict) for s in given):
        raise RookeryError(f"{file.name} has no stages: begin each with [[stages]].")
    stages: list[Stage] = []
    for number, stage in enumerate(given, 1):
        ranges = stage.get("randomize")
        if isinstance(ranges, str) and (file.parent / ranges).is_file():
            stage["randomize"] = str((file.parent / ranges).resolve())
        stages.append(_stage(dict(stage), str(task), [s.name for s in stages], f"stage {number} of {file.name}"))
    return Recipe(file.stem, str(task), tuple(stages), str(values.get("notes", "")).strip())


def _stage(values: dict[str, Any], task: str, before: list[str], where: str) -> Stage:
    """A stage from its values in the file."""
    name, kind = values.pop("name", None), values.pop("kind", "train")
    if not isinstance(name, str) or not name or Path(name).name != name or name.startswith("."):
        raise RookeryError(f"{where} needs a name that can be a folder's, got {name!r}.")
    if name in before or name in zoo() or name == PROGRESS:
        raise RookeryError(f"{where} is called {name!r}, which is taken: give it another name.")
    if kind not in SOURCES:
        raise unknown(f"kind of {where}", str(kind), SOURCES)
    for key in SOURCES[kind]:
        source = values.get(key)
        if source is not None and source not in before and source not in zoo():
            raise unknown(f"{key} in {where}", str(source), [*before, *zoo()])
    if kind == "train":
        base = preset(str(values.get("task", task)), values.get("algorithm"))
        settings = RunSettings.from_values(values, base)
        settings.check()
        return Stage(name, kind, settings.to_values())
    needed, others = KEYS[kind]
    for key in needed:
        if key not in values:
            raise RookeryError(f"{where} needs {key!r}.")
    for key in values:
        if key not in needed | others:
            raise unknown(f"key of {where}", key, sorted(needed | others))
    if isinstance(share := values.get("share", 1.0), bool) or not isinstance(share, (int, float)):
        raise RookeryError(f"share in {where} needs a number above 0, up to 1, got {share!r}.")
    if not isinstance(actions := values.get("actions", []), list) or not all(isinstance(a, str) for a in actions):
        raise RookeryError(f"actions in {where} needs a list of names, got {actions!r}.")
    return Stage(name, kind, values)


class Reproduction:
    """A recipe that is carried out in a folder, stage after stage; what is done there already is not repeated.

    Args:
        recipe: what to do.
        folder: its own; a folder for each stage, and at the end the policy.
        scale: share of the control steps to make, above 0 to 1: for tests.
        seed: of all stages; None leaves them theirs.

    Raises:
        RookeryError: a scale out of range, or the folder holds something else.
    """

    def __init__(self, recipe: Recipe, folder: Path, scale: float = 1.0, seed: int | None = None) -> None:
        if not 0.0 < scale <= 1.0:
            raise RookeryError(f"--scale must be above 0 and at most 1, got {scale:g}.")
        self.recipe = recipe
        self.folder = folder
        self.scale = scale
        self.seed = seed
        self._plan = {"recipe": recipe.to_values(), "scale": scale, "seed": seed}
        self.done = self._progress()

    def _progress(self) -> list[str]:
        """Stages that an earlier call has finished in the folder."""
        if not self.folder.exists() or (self.folder.is_dir() and not any(self.folder.iterdir())):
            return []
        try:
            found = read_json(self.folder / PROGRESS)
            done = [str(name) for name in found.pop("done")]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise RookeryError(f"{self.folder} holds something else: choose another --out.") from None
        if found != self._plan:
            raise RookeryError(
                f"{self.folder} was begun with another recipe, --scale or --seed: give the same ones, or another --out."
            )
        return done

    def run(self, announce: Callable[[str, Training | None], None] = lambda line, training: None) -> bool:
        """Carry out what is left, and put the policy of the last stage into the folder.

        Args:
            announce: called at the beginning of each stage.

        Returns:
            Whether all is done; False after Ctrl-C, from which another call goes on.

        Raises:
            RookeryError: settings that do not fit, or a folder that cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
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
        policies, contract = open_run(self.folder / self.recipe.stages[-1].name)
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

    def settings(self, stage: Stage) -> RunSettings:
        """The settings with which a training of the recipe is made."""
        settings = RunSettings.from_values(stage.values)
        paths: dict[str, Any] = {key: self._source(getattr(settings, key)) for key in SOURCES["train"]}
        settings = dataclasses.replace(settings, **paths)
        if self.seed is not None:
            settings = dataclasses.replace(settings, seed=self.seed)
        return settings if self.scale == 1.0 else scaled(settings, self.scale)

    def _training(self, stage: Stage) -> Training | None:
        """The training of a stage, begun or gone on with; None where it has made all its steps."""
        settings = self.settings(stage)
        run = self.folder / stage.name
        if not checkpoint.complete(run):
            shutil.rmtree(run, ignore_errors=True)  # what was killed before its first checkpoint
            return start(settings, run)
        if checkpoint.read_state(run)["steps"] >= settings.runner.total_steps:
            return None
        return resume(run)

    def _low_pass(self, stage: Stage) -> None:
        policies, contract = self._open(stage.values["of"])
        made = {
            name: low_pass(
                policy, contract.groups[name].spec, stage.values["share"], tuple(stage.values.get("actions", ()))
            )
            for name, policy in policies.items()
        }
        save_policy(self.folder / stage.name, made, contract.to_json())

    def _fuse(self, stage: Stage) -> None:
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


def scaled(settings: RunSettings, scale: float) -> RunSettings:
    """Settings with a share of the control steps, and fewer worlds where less than UPDATES updates would be left."""
    steps = max(1, round(scale * settings.runner.total_steps))
    rollout = getattr(settings.algorithm_config, "rollout_steps", 1)
    worlds = min(settings.num_envs, max(LEAST_WORLDS, steps // (UPDATES * rollout)))
    return dataclasses.replace(
        settings, num_envs=worlds, runner=dataclasses.replace(settings.runner, total_steps=steps)
    )
