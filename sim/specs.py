"""What agents see and do: the declarations every other room reads.

A `Term` is written once, in the task. From it come the observation tensor, the randomised noise and delay, the generated
docs and the contract that travels with a trained policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Term:
    """One named part of an observation.

    The policy sees ``clip((raw + noise * n + bias * b) * scale, -clip, clip)``, where n is drawn anew at every control
    step (standard normal) and b once an episode (uniform in [-1, 1]); both only while randomisation asks for them.

    Args:
        name: identifier, unique in its group.
        size: number of values d; the task gives the term as [N, A, d].
        unit: SI unit of the raw value, "1" when it has none.
        frame: frame the raw value is expressed in ("world", "body", "body to world"), "" when that has no meaning.
        scale: factor from the raw value to what the network sees.
        clip: symmetric limit after scaling.
        noise: standard deviation of measurement noise, in `unit`.
        bias: half-width of the constant offset of an episode, in `unit`.
        delay: age of the measurement in s, rounded to whole control steps; adds to the randomised observation delay.
    """

    name: str
    size: int
    unit: str = "1"
    frame: str = ""
    scale: float = 1.0
    clip: float = math.inf
    noise: float = 0.0
    bias: float = 0.0
    delay: float = 0.0


@dataclass(frozen=True)
class ActionSpec:
    """What an agent commands. Policies act in [-1, 1]; `low` and `high` say what that means.

    Args:
        kind: the control mode's name, such as "ctbr".
        names: one name for each of the D action components.
        low: physical value at action -1, per component.
        high: physical value at action +1, per component.
        units: unit of the physical value, per component.
        neutral: the normalised action that a robot at rest would take (hover, hold the pose); trainers start there.
    """

    kind: str
    names: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    units: tuple[str, ...]
    neutral: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = {len(self.names), len(self.low), len(self.high), len(self.units), len(self.neutral)}
        if len(sizes) != 1:
            raise ValueError(f"ActionSpec {self.kind!r}: names, low, high, units and neutral differ in length.")

    @property
    def size(self) -> int:
        """Number of action components D."""
        return len(self.names)


@dataclass(frozen=True)
class Group:
    """Agents that share one observation and one action declaration.

    Args:
        count: number of agents A in each world.
        observation: terms, in the order in which the policy sees them.
        action: the control mode.
    """

    count: int
    observation: tuple[Term, ...]
    action: ActionSpec

    def __post_init__(self) -> None:
        names = [t.name for t in self.observation]
        if len(set(names)) != len(names):
            raise ValueError(f"observation terms must have different names, got {names}")

    @property
    def observation_size(self) -> int:
        """Length O of one agent's observation vector."""
        return sum(t.size for t in self.observation)

    def slices(self) -> dict[str, slice]:
        """Where each term stands in the observation vector."""
        out, at = {}, 0
        for t in self.observation:
            out[t.name] = slice(at, at + t.size)
            at += t.size
        return out


@dataclass(frozen=True)
class Weights(Mapping[str, float]):
    """Reward weights by term name, read like a dict and shown in full in configs and checkpoints.

    ``Weights(distance=-0.5, close=1.0)``
    """

    values_by_name: dict[str, float] = field(default_factory=dict)

    def __init__(self, **weights: float) -> None:
        object.__setattr__(self, "values_by_name", {k: float(v) for k, v in weights.items()})

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.values_by_name.items())))
