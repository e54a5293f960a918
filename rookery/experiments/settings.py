"""RunSettings: everything a training is made from, in one object; and the TOML file that stores it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from rookery.policies.algorithms import ALGORITHMS, find_algorithm
from rookery.policies.algorithms.checks import check_unused
from rookery.policies.tracking.trackers import check_trackers
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.config import merge
from rookery.sim.devices import check_device_name, find_device
from rookery.sim.engines import check_num_envs, check_seed
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_toml
from rookery.sim.values import NONE, from_values, plain

FILE = "settings.toml"
"""Settings in a run folder."""


@dataclass(frozen=True)
class RunSettings:
    """Everything that a training is made from; stored in its checkpoints and, as TOML, in its run folder."""

    task: str = ""
    """Registered name of the task."""
    algorithm: str = "ppo"
    """Name of the learning algorithm."""
    num_envs: int = 1024
    """Worlds that learn together."""
    seed: int = 0
    """Seed of the environment and of the algorithm."""
    engine: str | None = None
    """Physics engine; none takes the first that the task names."""
    shards: str = "auto"
    """Processes among which the worlds are divided, with the same results: a number, or auto for what is fastest here."""
    device: str = "cpu"
    """Where the policy learns: cpu, cuda for a GPU, or cuda:1 for one of several. Physics is on processors all the same."""
    randomize: str = "none"
    """Domain randomization: none, default, all, or a TOML file of ranges."""
    randomize_curriculum: bool = False
    """Begin with nominal physics, and widen what is drawn as episodes succeed."""
    fixed: dict[str, float] = field(default_factory=dict)
    """Physical parameters held at one value in all worlds, such as mass=1.2; they override `randomize`."""
    task_config: dict[str, Any] = field(default_factory=dict)
    """Values in place of defaults of the task's config; the contract holds them."""
    train_overrides: dict[str, Any] = field(default_factory=dict)
    """Values of the task's config in training alone, such as shorter episodes; the contract and evaluation leave them out."""
    weights: dict[str, float] = field(default_factory=dict)
    """Weights of the objectives of a vector reward; empty leaves the reward as it is."""
    skills: str | None = None
    """TOML file of frozen skills, or a set of the package: the policy in training decides which of them acts, and how. none
    leaves out those of the preset."""
    init: str | None = None
    """Run or zoo folder of the policy to start from."""
    teacher: str | None = None
    """Run or zoo folder of the policy to imitate; none takes the task's classical controller."""
    data: str | None = None
    """Folder of the demonstrations to learn from."""
    opponents: str | None = None
    """TOML file of the opponents to play against, in a task with teams; none trains all agents of it together."""
    runner: RunnerConfig = field(default_factory=RunnerConfig)
    """Stop criteria and checkpoints."""
    algorithm_config: Any = None
    """The algorithm's own config, an instance of its `Config`; None for its defaults."""

    def __post_init__(self) -> None:
        kind = find_algorithm(self.algorithm).load_config()
        if self.algorithm_config is None:
            object.__setattr__(self, "algorithm_config", kind())
        if type(self.algorithm_config) is not kind:
            raise RookeryError(
                f"the config of {self.algorithm} is a {kind.__name__}, got a {type(self.algorithm_config).__name__}."
            )
        if self.skills == NONE:
            object.__setattr__(self, "skills", None)
        check_device_name(self.device)
        check_num_envs(self.num_envs)
        check_seed(self.seed)

    @property
    def training_config(self) -> dict[str, Any]:
        """Values of the task's config in training."""
        return merge(self.train_overrides, self.task_config)

    def check(self) -> None:
        """Refuse settings that do not go together.

        Raises:
            RookeryError: no task, a device that is not here, an algorithm without what it learns from, with what it does not
                use, or a setting without effect.
        """
        if not self.task:
            raise RookeryError("the settings name no task: give one of `rookery list`.")
        find_device(self.device)
        check_trackers(self.runner.trackers)
        entry = find_algorithm(self.algorithm)
        inputs = entry.inputs
        if self.init is not None and not entry.starts:
            able = ", ".join(name for name, other in ALGORITHMS.items() if other.starts)
            raise RookeryError(
                f"--init RUN is for --algorithm {able}, and {self.algorithm} starts afresh: leave it out."
            )
        if self.skills is not None and self.algorithm != "ppo":
            raise RookeryError(
                f"--skills FILE is for --algorithm ppo, and {self.algorithm} learns from every control step."
            )
        held: object = getattr(self.algorithm_config, "reference_kl_coef", None)
        if self.init is None and held:
            raise RookeryError(
                "reference_kl_coef holds a policy near to the one that training starts from: give that by --init RUN, or leave "
                "it out."
            )
        if self.data is None and "dataset" in inputs:
            raise RookeryError(f"--algorithm {self.algorithm} learns from demonstrations: give them by --data DIR.")
        if self.data is not None and "dataset" not in (*inputs, *entry.optional):
            raise RookeryError(
                f"--data DIR is for --algorithm bc, sac and td3, and {self.algorithm} reads no demonstrations: leave it out."
            )
        if self.data is None and "dataset" in entry.optional:
            check_unused(self.algorithm_config, ("demonstration_share",), "demonstrations", "--data DIR")
        if self.teacher is not None and "teacher" not in inputs:
            raise RookeryError(
                "--teacher RUN is for --algorithm dagger: give both, or use --init RUN to start from a policy."
            )

    def to_values(self) -> dict[str, Any]:
        """JSON values; the algorithm's own stand under its name."""
        values = plain(self)
        return {
            **{k: v for k, v in values.items() if k != "algorithm_config"},
            self.algorithm: values["algorithm_config"],
        }

    @classmethod
    def from_values(cls, values: dict[str, Any], base: RunSettings | None = None) -> RunSettings:
        """Settings from JSON or TOML values.

        Args:
            values: as `to_values` gives them; they may be incomplete.
            base: what is left out, of the same algorithm; None takes the defaults.

        Raises:
            RookeryError: an unknown name, or a value of the wrong type or outside its limits.
        """
        known = {} if base is None else base.to_values()
        merged = known | values
        own = merged.get("algorithm", cls.algorithm)
        kind = find_algorithm(own).load_config()
        if "algorithm_config" in values:
            raise RookeryError(f"unknown setting 'algorithm_config': write the settings of {own} under [{own}].")
        for table in ("runner", own):
            given = values.get(table, {})
            if not isinstance(given, dict):
                raise RookeryError(f"{table} needs values by name, got {given!r}.")
            merged[table] = known.get(table, {}) | given
        config: Any = from_values(kind, merged.pop(own), f"setting of {own}")
        return from_values(cls, merged | {"algorithm_config": config})


def save_settings(file: Path, settings: RunSettings) -> None:
    """Write settings as TOML; `rookery train --config FILE` makes the same run.

    Raises:
        RookeryError: the place cannot be written.
    """
    from rookery.policies.training.store import unwritable
    from rookery.sim.files import replace

    try:
        replace(file, to_toml(settings.to_values()).encode())
    except OSError as error:
        raise unwritable(file.parent, error) from error


def read_table(file: Path, what: str) -> dict[str, Any]:
    """The values in a TOML file.

    Args:
        file: its path.
        what: kind of file, for messages.

    Raises:
        RookeryError: it cannot be read, or is no TOML.
    """
    try:
        return read_toml(file)
    except OSError as error:
        raise RookeryError(f"cannot read the {what} {file} ({error.strerror}).") from error
    except ValueError as error:
        raise RookeryError(f"the {what} {file} is not TOML: {error}.") from error


def read_settings(file: Path) -> dict[str, Any]:
    """The values in a settings file. Files of ranges, skills and opponents beside it are named by their full paths.

    Raises:
        RookeryError: it cannot be read, or is no TOML.
    """
    values = read_table(file, "settings file")
    for name in ("randomize", "skills", "opponents"):
        beside = values.get(name)
        if isinstance(beside, str) and (file.parent / beside).is_file():
            values[name] = str(file.parent / beside)
    return values


def to_toml(values: dict[str, Any]) -> str:
    """Nested values as TOML text; None is the text "none", which it lacks."""

    def told(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: told(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [told(each) for each in value]
        return NONE if value is None else value

    return tomli_w.dumps(told(values))
