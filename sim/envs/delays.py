"""Delays between the network and the robot: old actions arrive late. (Delays of observations: see observation.)

An action delay of 7 physics steps, with control steps of K = 5, begins a control step with the action given 2 steps ago (ages
10 and more, in physics steps) for 2 physics steps and goes on with that of 1 step ago:

    physics step i          0      1      2      3      4
    age of action in force  2      2      1      1      1        (7 = 1 * K + 2: the first 2 take one step more)

With jitter each action has a delay of its own; one that arrives after a newer one is ignored.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.envs import action_kernels as kernels
from rookery.sim.envs.action_kernels import ActionArrays
from rookery.sim.envs.parameter_kernels import acting
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch

MAX_DELAY = 0.1  # s; longer ones are refused, so that histories stay small
PARAMETERS = tuple((f"action_{what}", 0) for what in ("delay", "jitter", "dropout", "hold"))
"""What `ActionDelay.configure` sets."""


class ActionDelay(Buffers):
    """Checks and clips the actions of one group, and delays them by whole physics steps, a number of its own for each world.

    Args:
        num_envs, count, size: N, A, D.
        physics_steps: K.
        dt: physics step in s.
        neutral: [D] the action in force before the first one of an episode arrives.
        rng: the worlds' random streams, of which a world without jitter and losses draws nothing; None for streams of its own.

    Attributes:
        delay: [N] int64, physics steps.
        jitter: [N] int64, physics steps, the most by which an action is delayed besides.
        loss: [N] how likely it is in a control step that actions begin to get lost.
        hold: [N] int64 control steps for which they are lost then; the last action that arrived stays.
        losing: [N] int64 control steps for which they still are.
        arrived: [N, A, D] the last action that arrived.
    """

    history: Tensor
    late: Tensor
    delay: Tensor
    jitter: Tensor
    pushed: Tensor
    loss: Tensor
    hold: Tensor
    losing: Tensor
    arrived: Tensor

    def __init__(
        self,
        num_envs: int,
        count: int,
        size: int,
        physics_steps: int,
        dt: float,
        neutral: Tensor,
        rng: Streams | None = None,
    ) -> None:
        super().__init__()
        self.lossy = False
        self._streams = Streams(num_envs, 0, "loss") if rng is None else rng
        self._control_dt = dt * physics_steps
        self.buffer("loss", num_envs)
        self.buffer("hold", num_envs, dtype=torch.int64)
        self.buffer("losing", num_envs, dtype=torch.int64)
        self.buffer("arrived", num_envs, count, size)
        self._loss = self.loss.numpy(), self.hold.numpy(), self.losing.numpy(), self.arrived.view(num_envs, -1).numpy()
        self.dt = dt
        self.on = False
        rows = int(MAX_DELAY / (dt * physics_steps)) + 2
        self._shape = (num_envs, count, size)
        self._in_force = (num_envs, physics_steps, count, size)
        self._neutral = np.tile(neutral.float().numpy(), count)
        self.buffer("history", rows, num_envs, count, size)
        self.buffer("late", rows, num_envs, dtype=torch.int64)
        self.buffer("delay", num_envs, dtype=torch.int64)
        self.buffer("jitter", num_envs, dtype=torch.int64)
        self.buffer("pushed", 1, dtype=torch.int64)
        self._at = ActionArrays(
            self.history.view(rows, num_envs, count * size).numpy(), self.late.numpy(), self.delay.numpy(), self.jitter.numpy(),
            self.pushed.numpy(), self._streams.keys, self._streams.counters, round(MAX_DELAY / dt),
        )  # fmt: skip

    def configure(self, ids: NDArray[np.int64], values: Batch) -> None:
        """Set what `values` has of "action_delay" and "action_jitter", s rounded to physics steps, of "action_dropout", how
        likely actions get lost, and of "action_hold", for how many s then, at least a control step, for the worlds `ids` that
        begin an episode."""
        rows = values.places.rows(PARAMETERS)
        self.on, self.lossy = acting(
            values.table, rows, ids, self.dt, self._control_dt, self._at.delay, self._at.jitter, *self._loss[:2]
        )

    def reset(self, ids: NDArray[np.int64]) -> None:
        """Forget the actions of the last episode."""
        if self.on or self.lossy:
            kernels.forget(self._at, ids, self._neutral, *self._loss[2:])

    def clip(self, action: Tensor) -> tuple[Tensor, int]:
        """A new tensor with float32 actions [N, A, D] limited to [-1, 1], and the first world that has NaN or infinity, -1 for
        none."""
        if action.dtype is not torch.float32 or not action.is_contiguous():
            action = action.float().contiguous()
        out = torch.empty(self._shape)
        return out, kernels.clip(action.detach().numpy(), out.numpy())

    def push(self, action: Tensor) -> Tensor:
        """Take [N, A, D] as `clip` gives it; give what is in force: the same where nothing is delayed, else [N, K, A, D]."""
        if self.lossy:
            action = action.clone()
            given = action.view(len(action), -1).numpy()
            kernels.lose(self._streams.keys, self._streams.counters, *self._loss, given)
        if not self.on:
            return action
        out = torch.empty(self._in_force)
        kernels.delay(self._at, action.numpy(), out.numpy())
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.on = bool(self.delay.any() or self.jitter.any())
        self.lossy = bool(self.loss.any())
