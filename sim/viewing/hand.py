"""A hand in the simulation: pulls a body, where the mouse holds it, towards the mouse, as a damped spring."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.rotations import matrix

Floats = NDArray[np.float64]
STIFFNESS = 150.0
"""1/s^2, of the spring over the mass of the body with all that hangs together with it."""
MOST = 4.0
"""Greatest force over the weight."""


@dataclass
class Hand:
    """Holds one body of one world.

    Args:
        env: whose body it is.
        world: index of its world in `env`.
        body: full name.
        held: [3] m, where the body is held, world.

    Raises:
        RookeryError: the engine takes no force on this body.
    """

    env: VecEnv
    world: int
    body: str
    held: Floats

    def __post_init__(self) -> None:
        model = self.env.world.model
        body = model.body(self.body).id
        self._view = self.env.world.bodies([self.body])
        self._mass = float(model.body_subtreemass[model.body_rootid[body]])
        self._com = model.body_ipos[body].copy()
        self._weight = self._mass * max(float(np.linalg.norm(model.opt.gravity)), 1.0)
        pos, turn, _, _ = self._state()
        self._arm = turn.T @ (self.held - pos)
        self.mouse = self.held.copy()

    def pull(self) -> None:
        """Set the force of the coming control step, from where the body and the mouse are now."""
        pos, turn, velocity, spin = self._state()
        arm = turn @ self._arm
        self.held = pos + arm
        moving = velocity + turn @ np.cross(spin, self._arm)
        force = self._mass * (STIFFNESS * (self.mouse - self.held) - 2.0 * np.sqrt(STIFFNESS) * moving)
        force *= min(1.0, MOST * self._weight / max(float(np.linalg.norm(force)), 1e-9))
        torque = np.cross(arm - turn @ self._com, force)
        self._set(np.concatenate((force, torque)))

    def let_go(self) -> None:
        """No force from the next control step on."""
        self._set(np.zeros(6))

    def _set(self, wrench: Floats) -> None:
        value = torch.from_numpy(wrench.astype(np.float32)).view(1, 1, 6).to(self.env.device)
        self._view.set_wrench(value, torch.tensor([self.world]))

    def _state(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Position, rotation matrix, velocity of the body's origin in the world, angular velocity in the body's frame."""
        state = self._view.state[self.world, 0].double().cpu()
        turn = matrix(state[None, 3:7]).view(3, 3).numpy()
        return state[0:3].numpy(), turn, state[7:10].numpy(), state[10:13].numpy()
