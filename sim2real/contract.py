"""The contract: everything that somebody needs to run a policy without knowing the task, as one typed object.

    contract = build_contract(env, policies, provenance=...)   # see sim2real/build.py
    contract.write("contract.json")
    contract = Contract.read("contract.json")       # validated, line by line
    check_compatible(contract, env)                 # see sim2real/compatibility.py

The JSON form (`Contract.to_json`, schema version 3, docs/contract.md) lists the observation terms with their formulas, the
action and all that lies between it and the motors, rates, latencies, the stages of the policy, the metrics and the provenance.
Infinite clips are null there, because JSON has no infinity. Contracts of versions 1 and 2 are refused here;
`upgrade.upgraded` brings them to this one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rookery.policies.stages.chain import StageChain
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.specs import CommandRange, Group
from rookery.sim.untrusted import parse_json, read_json
from rookery.sim.values import from_json, plain
from rookery.sim2real.command_ranges import parse_ranges, ranges_json
from rookery.sim2real.contract_lines import CONVENTIONS, SCHEMA, SCHEMA_VERSION
from rookery.sim2real.decisions import DecisionEvent, events_at, parse_events
from rookery.sim2real.group_json import group_json, parse_group
from rookery.sim2real.schema import validate
from rookery.version import __version__

__all__ = ["Contract", "ContractGroup", "Delay", "Latency", "Limit", "MeasurementErrors", "Provenance"]


@dataclass(frozen=True)
class Limit:
    """Range of a quantity that must not be left; None where a side has no limit."""

    low: float | None
    high: float | None
    unit: str


Span = tuple[float, float]
"""Least and greatest value."""


@dataclass(frozen=True)
class Delay:
    """A time that passes between robot and policy.

    Args:
        assumed: s, without randomization; terms may have a delay of their own besides.
        randomized: s, drawn for every episode of the training; None where it is not known.
    """

    assumed: float = 0.0
    randomized: Span | None = (0.0, 0.0)

    @property
    def words(self) -> str:
        """Such as "0 s, randomized 0 to 0.02 s"; what is assumed without randomization says nothing of an unknown training."""
        if self.randomized is None:
            return "not known"
        low, high = self.randomized
        return f"{self.assumed:g} s" + (f", randomized {low:g} to {high:g} s" if high > 0.0 else "")


@dataclass(frozen=True)
class Latency:
    """Delays in training: `observation` from a measurement to the policy, `action` from the policy to the motors."""

    observation: Delay = field(default_factory=Delay)
    action: Delay = field(default_factory=Delay)


@dataclass(frozen=True)
class MeasurementErrors:
    """Factors on the noise, the bias and the drift that the terms declare, drawn for every episode of the training: 0 for none,
    None where it is not known."""

    noise: Span | None = (0.0, 0.0)
    bias: Span | None = (0.0, 0.0)
    drift: Span | None = (0.0, 0.0)

    def to_json(self) -> dict[str, Any]:
        """As it stands in contract.json; `drift` where there was any."""
        return {k: v for k, v in plain(self).items() if k != "drift" or v != [0.0, 0.0]}


@dataclass(frozen=True)
class Quantization:
    """Rounding of a policy's weights after training.

    Args:
        weights: "int8": integers of 8 bits, with a scale for each row of the matrices of dense layers.
        largest_difference: of an action in [-1, 1] from that of the trained network, over the golden observations; of a
            hierarchy the largest of its networks, each by itself.
    """

    weights: Literal["int8"]
    largest_difference: float


@dataclass(frozen=True)
class ContractGroup:
    """One agent group.

    Args:
        spec: observation terms, action, history and targets, as the task declares them.
        stages: of its policy, from the observation to the action; None before training.
        actuation: what lies between its action and the motors; None where the action goes to none, such as a skill's.
        safety: limits by quantity.
        quantization: of its weights; None for those of the training.
        commands: ranges from which commands were drawn in training, by quantity of the observation; without those that nobody
            wrote down.
        events: at which its policy decides, in the order of its chain's `events`; before training all of the task.
    """

    spec: Group
    stages: StageChain | None = None
    actuation: Actuation | None = None
    safety: Mapping[str, Limit] = field(default_factory=dict)
    quantization: Quantization | None = None
    commands: Mapping[str, CommandRange] = field(default_factory=dict)
    events: tuple[DecisionEvent, ...] = ()

    @property
    def trained(self) -> StageChain:
        """The stages of a group that has them.

        Raises:
            RookeryError: there are none yet.
        """
        if self.stages is None:
            raise RookeryError("the contract has no stages yet: train the policy first.")
        return self.stages

    def refuse_team(self) -> None:
        """Refuse a policy for a team where one robot has one of its own.

        Raises:
            RookeryError: it acts for several.
        """
        if self.stages is not None and self.stages.agents > 1:
            raise RookeryError(
                f"this policy acts for a team of {self.stages.agents} robots together, and here is one: call the bundle's C "
                "or ONNX on a computer that gets the state of all, or train without central."
            )

    def to_json(self) -> dict[str, Any]:
        """The group as it stands in contract.json."""
        own = {
            "stages": None if self.stages is None else self.stages.to_json(),
            "actuation": None if self.actuation is None else plain(self.actuation),
            "safety": plain(self.safety),
        }
        if self.quantization is not None:
            own["quantization"] = plain(self.quantization)
        if self.events:
            own["events"] = [event.to_json() for event in self.events]
        if self.commands:
            own["commands"] = ranges_json(self.commands, self.spec.observation)
        declared = group_json(self.spec)
        return {k: declared.pop(k) for k in ("count", "observation", "action")} | own | declared


@dataclass(frozen=True)
class Provenance:
    """Origin of a policy; None where it is not known.

    Args:
        steps: control steps over all worlds.
        seed: of the training.
        command: command line.
        commit: of Rookery.
        machine: name, system and cores.
        date: ISO 8601, UTC.
        engine: physics engine.
        randomisation: "none", "default" or the file of the ranges.
        more: other entries, as JSON values.
    """

    steps: int | None = None
    seed: int | None = None
    command: str | None = None
    commit: str | None = None
    machine: str | None = None
    date: str | None = None
    engine: str | None = None
    randomisation: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Provenance:
        """From JSON values by name; names that are not fields go to `more`."""
        names = [f.name for f in dataclasses.fields(cls) if f.name != "more"]
        known = {k: values[k] for k in names if k in values}
        return cls(**known, more={k: v for k, v in values.items() if k not in names})

    def to_json(self) -> dict[str, Any]:
        """The entries as JSON values, `more` beside the others."""
        values: dict[str, Any] = plain({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})
        return values | values.pop("more")


@dataclass(frozen=True)
class Contract:
    """Meaning of the numbers that go into and come out of a policy.

    Args:
        task_id: registered name of the task.
        control_dt: s, the policy's period.
        physics_dt: s, time step of the physics by the task's config; training may have taken a longer one.
        groups: agent groups by name.
        task_config: the task's config as JSON values.
        latency: delays in training.
        measurement_errors: how much of the terms' noise, bias and drift there was in training.
        metrics: what each metric of the task means, by name.
        provenance: where the policy comes from.
        rookery_version: of the writer.
    """

    task_id: str
    control_dt: float
    physics_dt: float
    groups: Mapping[str, ContractGroup]
    task_config: Mapping[str, Any] = field(default_factory=dict)
    latency: Latency = field(default_factory=Latency)
    measurement_errors: MeasurementErrors = field(default_factory=MeasurementErrors)
    metrics: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    rookery_version: str = __version__

    @classmethod
    def from_json(cls, source: bytes | str | Mapping[str, Any], stages: bool = True) -> Contract:
        """Parse and validate.

        Args:
            source: text of a contract.json, or its values.
            stages: also require every group's stages; False for a contract made before training.

        Raises:
            RookeryError: not JSON, written by a newer version, or invalid, naming the line.
        """
        if isinstance(source, (bytes, str)):
            try:
                source = parse_json(source)
            except ValueError as error:
                raise RookeryError(f"the contract is not JSON ({error}): export the policy again.") from error
        values = validate(source, stages)
        return cls(
            task_id=values["task_id"],
            control_dt=values["control_dt"],
            physics_dt=values["physics_dt"],
            groups={name: _parse_group(group) for name, group in values["groups"].items()},
            task_config=values["task_config"],
            latency=from_json(Latency, values["latency"]),
            measurement_errors=from_json(MeasurementErrors, values["measurement_errors"]),
            metrics=values["metrics"],
            provenance=Provenance.from_json(values["provenance"]),
            rookery_version=values["rookery_version"],
        )

    @classmethod
    def read(cls, path: Path | str) -> Contract:
        """Read a file, or the contract.json of a folder.

        Raises:
            RookeryError: the file is missing, is not JSON, or is not a valid contract.
        """
        path = Path(path)
        path = path / "contract.json" if path.is_dir() else path
        try:
            values = read_json(path)
        except OSError as e:
            raise RookeryError(
                f"cannot read {path} ({e.strerror}): give a folder that `rookery export` or `rookery train` wrote."
            ) from e
        except ValueError as e:
            raise RookeryError(f"{path} is not a JSON file ({e}): export the policy again.") from e
        return cls.from_json(values)

    def to_json(self) -> dict[str, Any]:
        """The contract as JSON values; `Contract.from_json` gives an equal contract back."""
        return {
            "schema": SCHEMA,
            "schema_version": SCHEMA_VERSION,
            "rookery_version": self.rookery_version,
            "task_id": self.task_id,
            "task_config": plain(self.task_config),
            "control_dt": self.control_dt,
            "physics_dt": self.physics_dt,
            "latency": plain(self.latency),
            "measurement_errors": self.measurement_errors.to_json(),
            "groups": {name: group.to_json() for name, group in self.groups.items()},
            "metrics": dict(self.metrics),
            "conventions": dict(CONVENTIONS),
            "provenance": self.provenance.to_json(),
        }

    def dumps(self) -> str:
        """The text of contract.json, floats at full precision."""
        return json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"

    def write(self, path: Path | str) -> None:
        """Write contract.json.

        Raises:
            RookeryError: a group has no stages. OSError: the file cannot be written.
        """
        validate(self.to_json())
        Path(path).write_text(self.dumps(), encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the values in canonical order; it ties the files of a bundle together."""
        return fingerprint_of(self.to_json())


def fingerprint_of(values: Mapping[str, Any]) -> str:
    """SHA-256 of JSON values, whatever their order and spacing."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _parse_group(values: Mapping[str, Any]) -> ContractGroup:
    """A group from valid JSON values."""
    stages = None if values["stages"] is None else StageChain.from_json(values["stages"])
    events = parse_events(values.get("events", ()))
    return ContractGroup(
        spec=parse_group(values),
        stages=stages,
        actuation=None if values["actuation"] is None else from_json(Actuation, values["actuation"]),
        safety=parse_limits(values["safety"]),
        quantization=None if "quantization" not in values else from_json(Quantization, values["quantization"]),
        commands=parse_ranges(values.get("commands", {})),
        events=events if stages is None else events_at(events, stages.events),
    )


def parse_limits(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Limit]:
    return {name: Limit(**limit) for name, limit in values.items()}
