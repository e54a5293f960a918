"""Delays between the network and the robot: old actions arrive late, observations are old.

Both keep a short history whose first axis is age: row 0 is the newest. With control steps of K = 5 physics steps and an
action delay of 7 physics steps, a control step begins with the action given 2 steps ago (ages 10 and more, in physics
steps) for 2 physics steps and goes on with that of 1 step ago:

    physics step i          0      1      2      3      4
    age of action in force  2      2      1      1      1        (7 = 1 * K + 2: the first 2 take one step more)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers

MAX_DELAY = 0.1  # s; longer ones are refused, so that histories stay small


class ActionDelay(Buffers):
    """Delays the actions of one group by whole physics steps, a number of its own for each world.

    Args:
        num_envs, count, size: N, A, D.
        physics_steps: K.
        dt: physics step in s.
        neutral: [D] the action in force before the first one of an episode arrives.
    """

    history: Tensor
    delay: Tensor

    def __init__(self, num_envs: int, count: int, size: int, physics_steps: int, dt: float, neutral: Tensor) -> None:
        super().__init__()
        self.k = physics_steps
        self.dt = dt
        self.neutral = neutral
        rows = int(MAX_DELAY / (dt * physics_steps)) + 2
        self.buffer("history", rows, num_envs, count, size)
        self.buffer("delay", num_envs, dtype=torch.int64)
        self.on = False

    def set(self, ids: Tensor, seconds: Tensor) -> None:
        """Set the delay [n] s of worlds, rounded to physics steps."""
        self.delay[ids] = (seconds / self.dt).round().long()
        self.on = bool((self.delay > 0).any())

    def reset(self, ids: Tensor) -> None:
        """Forget the actions of the last episode."""
        self.history[:, ids] = self.neutral

    def push(self, action: Tensor) -> Tensor:
        """Take [N, A, D]; give what is in force: the same where nothing is delayed, else [N, K, A, D]."""
        if not self.on:
            return action
        self.history[1:] = self.history[:-1].clone()
        self.history[0] = action
        worlds = torch.arange(len(self.delay))[:, None]
        late = torch.arange(self.k) < (self.delay % self.k)[:, None]  # [N, K]
        return self.history[(self.delay // self.k)[:, None] + late, worlds]

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.on = bool((self.delay > 0).any())


class ObservationDelay(Buffers):
    """Gives observations of some control steps ago; the age may differ between worlds and between components.

    Args:
        num_envs, count, size: N, A, O.
        control_dt: s.
        own: [O] s, the delay that each component always has.
    """

    history: Tensor
    extra: Tensor

    def __init__(self, num_envs: int, count: int, size: int, control_dt: float, own: Tensor) -> None:
        super().__init__()
        self.control_dt = control_dt
        self.own = (own / control_dt).round().long()
        rows = math.ceil(MAX_DELAY / control_dt) + int(self.own.max()) + 1 if size else 1
        self.buffer("history", rows, num_envs, count, size)
        self.buffer("extra", num_envs, dtype=torch.int64)
        self.on = bool((self.own > 0).any())

    def set(self, ids: Tensor, seconds: Tensor) -> None:
        """Set the additional delay [n] s of worlds, rounded to control steps."""
        self.extra[ids] = (seconds / self.control_dt).round().long()
        self._switch()

    def _switch(self) -> None:
        self.on = bool((self.extra > 0).any()) or bool((self.own > 0).any())

    def push(self, x: Tensor) -> Tensor:
        """Take [N, A, O] as it is now; give [N, A, O] as the agent gets it."""
        if not self.on:
            return x
        self.history[1:] = self.history[:-1].clone()
        self.history[0] = x
        lag = self.extra[:, None] + self.own
        return self.history.gather(0, lag[None, :, None, :].expand(1, *x.shape)).squeeze(0)

    def restart(self, ids: Tensor, x: Tensor) -> Tensor:
        """First observation [n, A, O] of new episodes: nothing older exists, so it is also what the agent gets."""
        if self.on:
            self.history[:, ids] = x
        return x

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._switch()
