"""Declarations of an environment for the contract of a policy that was trained in it, beside the agent groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rookery.sim.actuation import Actuation
from rookery.sim.specs import CommandRange
from rookery.sim.terms import Expression

LINK = ("observation_delay", "action_delay", "observation_noise", "observation_bias", "observation_drift")
"""Randomized parameters of the link between robot and policy: s, s, and factors on the terms' noise, bias and drift."""


@dataclass(frozen=True)
class Deployment:
    """Declarations of an environment for a contract, beside its groups.

    Args:
        config: the task's config as JSON values; of a ConcatEnv, by task.
        physics_dt: s.
        actuation: by group, what lies between actions and motors.
        safety: by group and quantity, ``{"low": value or None, "high": value or None, "unit": "m/s"}``.
        commands: by quantity, the ranges from which commands are drawn.
        metrics: what each metric means, by name.
        events: by name, how a robot knows of each event of the task, see `Task.event_expressions`.
        randomized: least and greatest value drawn now of those parameters of `LINK` that are randomized.
        randomization_share: of the distributions' width that the curriculum draws now, 0 to 1; None without one.
    """

    config: dict[str, Any] = field(default_factory=dict)
    physics_dt: float = 0.0
    actuation: dict[str, Actuation] = field(default_factory=dict)
    safety: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    commands: dict[str, CommandRange] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)
    events: dict[str, Expression] = field(default_factory=dict)
    randomized: dict[str, tuple[float, float]] = field(default_factory=dict)
    randomization_share: float | None = None
