"""Surround: a swarm closes in on a target at rest, from all sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rookery.tasks.swarm.multi_objective import Swarm, SwarmConfig


@dataclass(frozen=True)
class SurroundConfig(SwarmConfig):
    """Values of swarm-surround."""


class Surround(Swarm):
    """Success: all through the last second no drone had crashed, all were within 0.4 and 1.2 m of the target, and they
    stood around it rather than on one side (see `Swarm.met`).

    MOMAland's surround_v0 with drones that have mass (facts/drones.md 5); it defines rewards but no success.
    """

    Config: ClassVar[type] = SurroundConfig
    cfg: SurroundConfig
