"""Recipes: how a policy is trained, from nothing, in one stage or several. The settings of a task's own recipe are its preset.

A recipe is a TOML file, `policies/recipes/NAME.toml`, for the task or the policy of the zoo of that name:

    extends = "families/drone.toml"  # a recipe whose settings are taken where these say nothing else
    notes = "what is known of the stored policy"

    [settings]                       # of all stages, as in settings.toml of a run
    runner = {total_steps = 3_200_000}
    ppo = {learning_rate = 3e-3}

    [algorithms.sac]                 # the preset where another algorithm is asked for, in place of [settings]
    num_envs = 1

    [[stages]]                       # how the stored policy is made; without any, by the settings alone
    name = "imitated"                # folder of the stage
    algorithm = "dagger"             # settings in place of those above
    runner = {total_steps = 1_000_000}

    [[stages]]
    name = "trained"
    init = "imitated"                # a stage before it, or a policy of the zoo; likewise `teacher`
    randomize = "ranges.toml"        # a file is found from the recipe's folder
    ppo = {learning_rate = 1e-4}
    opponents = {team = "either", members = [{policy = "controller"}]}  # as in a file of opponents; stages before it, too

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

Values by name (`runner`, those of the algorithm, `task_config`, `fixed`, `weights`) go over those below them one by one, as
`--task-config` and its like do; `train_overrides` stand in their place as a whole, since a stage trains in its own way.

`task` at the top names the task where the file is not called like it; its settings are then over the task's preset. A stage may
train in another task, by the preset of that one. A task outside of this package has its settings in `Task.preset`, over those
of the task or the family that it derives from.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.settings import RunSettings, read_table
from rookery.experiments.zoo import zoo
from rookery.policies.algorithms import ALGORITHMS, VARIANTS, base_algorithm, find_algorithm
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import OWN_TASKS, TASKS, TaskEntry, find

if TYPE_CHECKING:
    from rookery.sim.task import Task

PROGRESS = "recipe.json"
"""In the folder of a reproduction: the recipe, its scale and seed, and the stages that are done."""
FILES = (".json", ".toml", ".safetensors")
"""Endings of the files in that folder, which no stage may be called like."""
KEYS = {"low_pass": ({"of", "share"}, {"actions"}), "fuse": ({"first", "second"}, set())}
"""Keys of the kinds of stage other than "train": those that must be there, and others."""
SOURCES = {"train": ("init", "teacher"), "low_pass": ("of",), "fuse": ("first", "second")}
"""Keys that name a policy, by the kind of stage."""
TOP = ("task", "notes", "extends", "settings", "algorithms", "stages")
"""Keys of a recipe."""
ONE_BY_ONE = ("task_config", "fixed", "weights")
"""Settings that are values by name, which go over others one by one, reward weights in a task's config included."""


@dataclass(frozen=True)
class RecipeStage:
    """One step of a recipe.

    Args:
        name: of its folder.
        kind: "train", "low_pass" or "fuse".
        values: by key, see the top of this file; of "train" complete settings but for what names a policy, and `opponents`
            as in a file of opponents.
    """

    name: str
    kind: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Recipe:
    """The way in which a policy is trained.

    Args:
        name: of the policy in the zoo, or of the file.
        task: registered name.
        stages: in order; the last one gives the policy.
        notes: what is known of the stored policy's own training.
    """

    name: str
    task: str
    stages: tuple[RecipeStage, ...]
    notes: str = ""

    @property
    def total_steps(self) -> int:
        """Control steps of all stages."""
        return sum(s.values["runner"]["total_steps"] for s in self.stages if s.kind == "train")

    def to_values(self) -> dict[str, Any]:
        """JSON values, by which two recipes are compared."""
        values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return values


# Files


@functools.cache
def recipe_files() -> dict[str, Path]:
    """The package's recipes, by name."""
    return {f.stem: f for f in sorted(recipe_folder().glob("*.toml"))}


def recipe_folder() -> Path:
    """Folder of the package's recipes."""
    import rookery.policies

    return Path(rookery.policies.__file__).parent / "recipes"


def read_file(file: Path, within: tuple[Path, ...] = ()) -> dict[str, Any]:
    """The values in a recipe's file, those that it extends included.

    Args:
        file: of the recipe.
        within: files that extend it, by which a circle is found.

    Raises:
        RookeryError: it cannot be read, or a key or value is not that of a recipe.
    """
    values = read_table(file, "recipe")
    for key in values:
        if key not in TOP:
            raise unknown(f"key of {file.name}", key, TOP)
    tables = [(key, values.setdefault(key, {})) for key in ("settings", "algorithms")]
    if isinstance(values["algorithms"], dict):
        tables += [(f"algorithms.{name}", table) for name, table in values["algorithms"].items()]
    for key, table in tables:
        if not isinstance(table, dict):
            raise RookeryError(f"{key} in {file.name} needs values by name, got {table!r}.")
        if "opponents" in table:
            raise RookeryError(f"opponents in {key} of {file.name} belong to a stage: write them there, as a table.")
        _find_ranges(table, file)
    if (extended := values.pop("extends", None)) is None:
        return values
    below = file.parent / str(extended)
    if file.resolve() in within:
        raise RookeryError(f"{file.name} extends itself: take `extends` out of it or of {within[-1].name}.")
    base = read_file(below, (*within, file.resolve()))
    others = {k: over(base["algorithms"].get(k, {}), v) for k, v in values["algorithms"].items()}
    return values | {
        "settings": over(base["settings"], values["settings"]), "algorithms": base["algorithms"] | others
    }  # fmt: skip


def over(base: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in place of others: values by name one by one, but those of `train_overrides` as a whole."""
    nested = ("runner", *ALGORITHMS, *ONE_BY_ONE)
    both = [k for k in nested if isinstance(base.get(k), dict) and isinstance(values.get(k), dict)]
    tables = {k: merge(base[k], values[k]) if k in ONE_BY_ONE else base[k] | values[k] for k in both}
    return {**base, **values, **tables}


def _find_ranges(values: dict[str, Any], file: Path) -> None:
    """Name a file of ranges beside the recipe by its full path."""
    ranges = values.get("randomize")
    if isinstance(ranges, str) and (file.parent / ranges).is_file():
        values["randomize"] = str((file.parent / ranges).resolve())


# Presets


def preset(task: str, algorithm: str | None = None) -> RunSettings:
    """The settings with which a task is trained: of its recipe, or of the class that declares it.

    Args:
        task: registered name.
        algorithm: name of an algorithm, or of a variant of one; None takes the one of the preset.

    Raises:
        RookeryError: an unknown task or algorithm, or settings that are none.
    """
    if algorithm is not None and (base := base_algorithm(algorithm)) != algorithm:
        return varied(preset(task, base), algorithm)
    entry = find(task)
    values, others = _declared(entry)
    where = {"task": task, "engine": entry.engines[0]}
    settings = RunSettings.from_values({**values, **where})
    if algorithm is None or algorithm == settings.algorithm:
        return settings
    found = find_algorithm(algorithm)  # also of a file, which may give what is no text
    if algorithm in others:
        return RunSettings.from_values({**others[algorithm], **where, "algorithm": algorithm})
    shared = {name: getattr(settings.algorithm_config, name) for name in found.shared}
    changes = dict(found.run)
    if "total_steps" in changes:
        changes["runner"] = replace(settings.runner, total_steps=changes.pop("total_steps"))
    if "num_envs" in changes:
        changes["num_envs"] = max(changes["num_envs"], len(entry.members))
    config = replace(found.load_config()(), **shared)
    return replace(settings, algorithm=algorithm, algorithm_config=config, **changes)


def varied(settings: RunSettings, algorithm: str | None) -> RunSettings:
    """Settings with those of a variant of their algorithm; as they are where `algorithm` is none."""
    if not isinstance(algorithm, str) or algorithm not in VARIANTS:
        return settings
    variant = VARIANTS[algorithm]
    return replace(settings, algorithm_config=replace(settings.algorithm_config, **variant.config), **variant.run)


def _declared(entry: TaskEntry) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Settings of a task's preset that are not the defaults, and presets of other algorithms by name.

    A class's own preset is over that of the nearest task of this package that it derives from, as long as its config has
    those values, or over the settings of its family.
    """
    if entry.id in OWN_TASKS and entry.id in recipe_files():
        values = read_file(recipe_files()[entry.id])
        return values["settings"], values["algorithms"]
    if entry.members:
        task_set = entry.load_set()
        below, others = _declared(find(task_set.of)) if task_set.of else ({}, {})
        return _with_preset(below, task_set.preset), others
    return _of_class(entry.load())


def _of_class(cls: type[Task]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The same of a class that is not of this package."""
    layers: list[Mapping[str, Any]] = []  # the class's own first
    values: Mapping[str, Any] = {}
    others: Mapping[str, Any] = {}
    for base in cls.__mro__:
        name, own = vars(base).get("name"), vars(base).get("preset", {})
        if not isinstance(own, Mapping):
            raise RookeryError(f"preset of {base.__name__} needs settings by name, got {own!r}.")
        layers.append(own)
        if name in OWN_TASKS and name in recipe_files() and issubclass(cls.Config, find(name).load().Config):
            values, others = _declared(find(name))
            break
        if family := vars(base).get("family"):
            values = read_file(recipe_folder() / "families" / f"{family}.toml")["settings"]
            break
    for layer in reversed(layers):
        values = _with_preset(values, layer)
    return values, others


def _with_preset(values: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings with those of a class in place of theirs; of another algorithm than before no settings are left."""
    if own.get("algorithm", values.get("algorithm")) != values.get("algorithm"):
        values = {k: v for k, v in values.items() if k not in ALGORITHMS}
    return over(values, own)


# Recipes


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
    return Recipe(task, task, (RecipeStage("trained", "train", preset(task).to_values()),))


def read_recipe(file: Path) -> Recipe:
    """A recipe from its file, checked.

    Raises:
        RookeryError: it cannot be read, or a key or value is not that of a recipe.
    """
    values = read_file(file)
    task = str(values.get("task", file.stem))
    own = recipe_files().get(task) == file
    shared = {} if own else values["settings"]  # its own file's settings are the task's preset already
    given = values.get("stages", [] if values["settings"] or own else None)
    if not isinstance(given, list) or not all(isinstance(s, dict) for s in given):
        raise RookeryError(
            f"{file.name} has no stages: begin each with [[stages]], or give [settings] for a single one."
        )
    stages: list[RecipeStage] = []
    for number, stage in enumerate(given or [{"name": "trained"}], 1):
        _find_ranges(stage, file)
        before = [s.name for s in stages]
        stages.append(_stage(dict(stage), task, shared, before, f"stage {number} of {file.name}"))
    return Recipe(file.stem, task, tuple(stages), str(values.get("notes", "")).strip())


def _stage(values: dict[str, Any], task: str, shared: Mapping[str, Any], before: list[str], where: str) -> RecipeStage:
    """A stage from its values in the file."""
    name, kind = values.pop("name", None), values.pop("kind", "train")
    if not isinstance(name, str) or not name or Path(name).name != name or name.startswith("."):
        raise RookeryError(f"{where} needs a name that can be a folder's, got {name!r}.")
    if name in before or name in zoo() or name == "controller" or Path(name).suffix in FILES:
        raise RookeryError(f"{where} is called {name!r}, which is taken: give it another name.")
    if kind not in SOURCES:
        raise unknown(f"kind of {where}", str(kind), SOURCES)
    for key in SOURCES[kind]:
        source = values.get(key)
        if source is not None and source not in before and source not in zoo():
            raise unknown(f"{key} in {where}", str(source), [*before, *zoo()])
    if kind == "train":
        opponents = _opponents(values, before, where)
        return RecipeStage(name, kind, _settings(values, task, shared).to_values() | opponents)
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
    return RecipeStage(name, kind, values)


def _opponents(values: dict[str, Any], before: list[str], where: str) -> dict[str, Any]:
    """The opponents of a stage, checked and taken out of its values; empty without any."""
    given = values.pop("opponents", None)
    if given is None:
        return {}
    # presets are read for --help, which needs no torch
    from rookery.experiments.match_env import CONTROLLER
    from rookery.experiments.opponents import opponents_of

    where = f"opponents in {where}"
    if not isinstance(given, dict):
        raise RookeryError(f'{where} need a table: {{team = "either", members = [{{policy = "controller"}}]}}.')
    for member in opponents_of(given, where).members:
        if member.policy not in (CONTROLLER, *before, *zoo()):
            raise unknown(f"policy of {where}", member.policy, [CONTROLLER, *before, *zoo()])
    return {"opponents": given}


def _settings(values: dict[str, Any], task: str, shared: Mapping[str, Any]) -> RunSettings:
    """Settings of a stage: its own, over those that the recipe's stages share, over the preset of its task."""
    own = str(values.get("task", task))
    algorithm = values.get("algorithm", shared.get("algorithm"))
    base = preset(own, algorithm)
    if own == task:
        unused = set(ALGORITHMS) - {base.algorithm}
        base = _changed(base, {k: v for k, v in shared.items() if k not in unused})
    settings = _changed(base, values)
    settings.check()
    return settings


def _changed(base: RunSettings, values: Mapping[str, Any]) -> RunSettings:
    """Complete settings with others in place of theirs."""
    known = base.to_values()
    return RunSettings.from_values(over({k: known[k] for k in ONE_BY_ONE}, values), base)
