"""The parameters that every environment has, whatever its task: noise, bias, delays, and the direction of gravity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.deployment import LINK
from rookery.sim.envs import parameter_kernels as kernels
from rookery.sim.envs.delays import MAX_DELAY, ActionDelay
from rookery.sim.envs.observation import ObservationPipeline
from rookery.sim.randomization.batch import Batch
from rookery.sim.randomization.distributions import Choice, Range
from rookery.sim.randomization.parameters import BatchWrite, Parameter
from rookery.sim.randomization.ranges import Randomization
from rookery.sim.world import World

GOLDEN_ANGLE = 2.399963  # rad; its multiples spread evenly around the circle


_PARAMETERS = {
    "gravity_tilt": ("angle of gravity from -z, in a direction of each world's own", "rad", 0.5, (0.0, 0.02)),
    "observation_noise": ("factor on the declared noise of every term", "1", 100.0, (1.0, 1.0)),
    "observation_bias": ("factor on the declared bias of every term", "1", 100.0, (1.0, 1.0)),
    "observation_drift": ("factor on the declared drift of every term", "1", 100.0, (0.0, 1.0)),
    "observation_delay": ("age of observations, whole physics steps", "s", MAX_DELAY, (0.0, 0.02)),
    "observation_jitter": ("most that a step's observation is older besides", "s", MAX_DELAY, (0.0, 0.01)),
    "observation_dropout": (
        "share of the steps in which no observation arrives: the last one stays",
        "1",
        0.9,
        (0.0, 0.05),
    ),
    "action_delay": ("time from action to effect, whole physics steps", "s", MAX_DELAY, (0.0, 0.02)),
    "action_jitter": ("most by which a step's action takes longer besides", "s", MAX_DELAY, (0.0, 0.01)),
    "action_dropout": (
        "share of the steps in which commands begin to get lost: the last one stays",
        "1",
        0.9,
        (0.0, 0.05),
    ),
    "action_hold": ("for how long commands get lost then", "s", MAX_DELAY, (0.0, 0.04)),
}
"""By name: what it is, unit, greatest value, and what it typically differs by. All are 0 if nothing is drawn."""
_LATE = ("observation_delay", "observation_jitter", "action_delay", "action_jitter")
"""Those that are whole physics steps."""
_NEEDS = {"action_hold": (("action_dropout",),)}
"""By name: `Parameter.needs`."""


class _Common:
    """Writes the direction of gravity, and what lies between the task and the agents; a BatchWriter."""

    def __init__(
        self, world: World, pipelines: Sequence[ObservationPipeline], delays: Sequence[ActionDelay],
        numbers: NDArray[np.int64],
    ) -> None:  # fmt: skip
        self._world = world
        self._pipelines = pipelines
        self._delays = delays
        self._strength = float(world.params.nominal("gravity").norm())
        heading = torch.from_numpy(numbers).float() * GOLDEN_ANGLE
        self._heading = heading.cos().numpy(), heading.sin().numpy()

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        if "gravity_tilt" in values:
            gravity = np.empty((len(ids), 3), np.float32)
            kernels.tilt(ids, values["gravity_tilt"], *self._heading, self._strength, gravity)
            self._world.params.set("gravity", (), torch.from_numpy(gravity), torch.from_numpy(ids))
        for pipeline in self._pipelines:
            pipeline.configure(ids, values)
        for delay in self._delays:
            delay.configure(ids, values)


def env_parameters(
    world: World, pipelines: Sequence[ObservationPipeline], delays: Sequence[ActionDelay], numbers: NDArray[np.int64]
) -> dict[str, Parameter]:
    """The parameters by name. They are to be written between a world's episodes.

    Args:
        world: the engine.
        pipelines, delays: of all groups.
        numbers: [N] of the worlds, on which the direction of a world's tilt depends.
    """
    own = _Common(world, pipelines, delays, numbers)
    steps = dict.fromkeys(_LATE, world.dt)
    return {
        name: Parameter(
            what, unit, 0.0, 0.0, most, BatchWrite(own, name), (), typical, _NEEDS.get(name, ()), steps.get(name, 0.0)
        )
        for name, (what, unit, most, typical) in _PARAMETERS.items()
    }


def drawn_now(randomization: Randomization) -> dict[str, Any]:
    """Ranges in force of what is drawn now, by the present share of a curriculum; see `Deployment`."""
    curriculum = randomization.curriculum
    share = curriculum.share.item()
    ranges = {name: r for name, r in randomization.ranges.items() if name in LINK}
    drawn = {}
    for name, r in ranges.items():
        p = randomization.parameters[name]
        low, high = _narrowed(r, p.nominal, share)
        drawn[name] = p.in_force(low), p.in_force(high)
    return {
        "randomized": drawn,
        "randomization_share": share if curriculum.on else None,
    }


def _narrowed(r: Range, nominal: float, share: float) -> tuple[float, float]:
    """Least and greatest value where a share of a distribution's width is drawn."""
    if share >= 1.0 or r.on == "startup":
        return r.low, r.high
    if isinstance(r, Choice):  # the values themselves, but seldom
        return (min(r.low, nominal), max(r.high, nominal)) if share > 0.0 else (nominal, nominal)
    return nominal + share * (r.low - nominal), nominal + share * (r.high - nominal)
