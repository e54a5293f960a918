"""Pushes and external wrenches on robots, as events that come at random moments with the rate and size that are drawn.

A push changes a free body's velocity at once, as a collision does; a wrench is a force at the centre of mass and a torque that
stay for a while, as a gust or somebody who pulls does. Directions are uniform over all, anew for each event and body. Forces
and torques are in proportion to the body's weight with all that hangs on it, so that one range serves robots of any size.
"""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.envs import disturbance_kernels as kernels
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch
from rookery.sim.randomization.parameters import BatchWrite, Parameter
from rookery.sim.world import World

SETTINGS = {
    "push_rate": ("pushes of each body", "1/s", 5.0, 0.2),
    "push_speed": ("change of velocity by a push", "m/s", 5.0, 0.5),
    "push_spin": ("change of angular velocity by a push", "rad/s", 10.0, 0.5),
    "wrench_rate": ("external wrenches on each body", "1/s", 5.0, 0.2),
    "wrench_force": ("force of a wrench, as a share of the weight", "1", 5.0, 0.2),
    "wrench_torque": ("torque of a wrench over the weight", "m", 1.0, 0.002),
    "wrench_time": ("how long a wrench lasts", "s", 5.0, 0.5),
}
"""By name: what it is, its unit, the greatest value, and the greatest typical one. All are 0 if nothing is drawn."""
_NEEDS = {
    "push_rate": (("push_speed", "push_spin"),),
    "push_speed": (("push_rate",),),
    "push_spin": (("push_rate",),),
    "wrench_rate": (("wrench_force", "wrench_torque"),),
    "wrench_force": (("wrench_rate",),),
    "wrench_torque": (("wrench_rate",),),
    "wrench_time": (("wrench_rate",), ("wrench_force", "wrench_torque")),
}
"""By name: `Parameter.needs`. A wrench without a time lasts one control step."""
_PARTS = tuple((name, 0) for name in SETTINGS)


class Disturbances(Buffers):
    """Pushes and wrenches on some bodies in N worlds; a BatchWriter of their rates and sizes.

    Args:
        world: the engine.
        bodies: full names of the B bodies; those that are not free are never pushed.
        control_dt: s between calls of `act`.
        rng: the worlds' random streams for this alone.

    Attributes:
        settings: [N, len(SETTINGS)] in force; rates count from the next episode on.
        wrench: [N, B, 6] N, N m, world.
        wait: [2, N, B] int64 control steps to the next push, and to the beginning or the end of a wrench.
        pulling: [N, B] bool, whether a wrench is in force.
    """

    settings: Tensor
    wrench: Tensor
    wait: Tensor
    pulling: Tensor

    def __init__(self, world: World, bodies: Sequence[str], control_dt: float, rng: Streams) -> None:
        super().__init__()
        n, b = world.num_envs, len(bodies)
        self.rng = rng
        self.child("rng", rng)
        self.on = False
        self.free = bool(bodies) and all(_is_free(world.model, name) for name in bodies)
        self._bodies = world.bodies(bodies) if bodies else None
        ids = [world.model.body(name).id for name in bodies]
        gravity = float(world.params.nominal("gravity").norm())
        self._weight = world.model.body_subtreemass[ids].astype(np.float32) * np.float32(gravity)
        self._dt = control_dt
        self.buffer("settings", n, len(SETTINGS))
        self.buffer("wrench", n, b, 6)
        self.buffer("wait", 2, n, b, dtype=torch.int64).fill_(int(kernels.NEVER))
        self.buffer("pulling", n, b, dtype=torch.bool)
        self._settings, self._wrench = self.settings.numpy(), self.wrench.numpy()
        self._events = self.wait.numpy(), self.pulling.numpy()
        self._pushed = np.zeros(n, np.int64)
        self._pulled = np.zeros(n, np.int64)
        self._change = np.zeros((n, b, 6), np.float32)

    def parameters(self) -> dict[str, Parameter]:
        """Rates and sizes by name; none without bodies."""
        if self._bodies is None:
            return {}
        names = [name for name in SETTINGS if self.free or name.startswith("wrench")]
        rows = ((name, *SETTINGS[name]) for name in names)
        return {
            name: Parameter(what, unit, 0.0, 0.0, most, BatchWrite(self, name), (), (0.0, typical), _NEEDS[name])
            for name, what, unit, most, typical in rows
        }

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        """See BatchWriter; the parameters are SETTINGS."""
        kernels.set_rows(values.table, values.places.rows(_PARTS), ids, self._settings)
        self.on = True

    def reset(self, ids: NDArray[np.int64]) -> None:
        """Episodes begin in the worlds `ids`, without a wrench: the engine has forgotten it."""
        if self.on:
            numbers = self.rng.keys, self.rng.counters
            kernels.begin(*numbers, ids, self._settings, self._dt, *self._events, self._wrench)

    def act(self) -> None:
        """Push and pull in the coming control step."""
        if not self.on or self._bodies is None:
            return
        pushes, pulls = kernels.act(
            self.rng.keys, self.rng.counters, self._settings, self._wrench, *self._events, self._weight, self._dt,
            self._pushed, self._change, self._pulled,
        )  # fmt: skip
        if pulls:
            where = self._pulled[:pulls].copy()
            self._bodies.set_wrench(torch.from_numpy(self._wrench[where]), torch.from_numpy(where))
        if pushes:
            ids = torch.from_numpy(self._pushed[:pushes].copy())
            state = self._bodies.state[ids]
            state[..., 7:] += torch.from_numpy(self._change[:pushes])
            self._bodies.set_state(ids, state)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.on = self.on or bool(self.settings.any())


def _is_free(model: mujoco.MjModel, body: str) -> bool:
    joint = model.body_jntadr[model.body(body).id]
    return bool(joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE)
