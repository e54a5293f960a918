"""Delays between the network and the robot: old actions arrive late. (Delays of observations: see observation, which leaves
to the actions what is less than a control step.)

An action delay of 7 physics steps, with control steps of K = 5, begins a control step with the action given 2 steps ago (ages
10 and more, in physics steps) for 2 physics steps and goes on with that of 1 step ago:

    physics step i          0      1      2      3      4
    age of action in force  2      2      1      1      1        (7 = 1 * K + 2: the first 2 take one step more)

With jitter each action has a delay of its own; one that arrives after a newer one is ignored.

Where controls follow from more than the action in force (arms, whose commands move a goal), not the action is late but what the
policy's computer makes of it, a row of controls for each physics step: see ControlDelay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.envs import action_kernels as kernels
from rookery.sim.envs.action_kernels import ActionLayout
from rookery.sim.envs.parameter_kernels import acting
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch

if TYPE_CHECKING:
    from rookery.sim.envs.observation import ObservationPipeline

MAX_DELAY = 0.1  # s; longer ones are refused, so that histories stay small
NO_STEPS = np.zeros(0, np.int64)
PARAMETERS = tuple((f"action_{what}", 0) for what in ("delay", "jitter", "dropout", "hold"))
"""What `ActionDelay.configure` sets."""


def ring_rows(dt: float, physics_steps: int) -> int:
    """Control steps that are remembered: of the longest delay, and of an observation's age below a control step."""
    return (round(MAX_DELAY / dt) + physics_steps - 1) // physics_steps + 2


class ActionDelay(Buffers):
    """Checks and clips the actions of one group, and delays them by whole physics steps, a number of its own for each world.

    Args:
        num_envs, count, size: N, A, D.
        physics_steps: K.
        dt: physics step in s.
        neutral: [D] the action in force before the first one of an episode arrives.
        observed: the observations that are acted upon; each action takes longer by the physics steps of their age below a
            control step. None: no such age.
        controls: the robot delays its controls by `now`, and `push` gives actions undelayed.
        rng: the worlds' random streams, of which a world without jitter and losses draws nothing; None for streams of its own.

    Attributes:
        delay: [N] int64, physics steps.
        jitter: [N] int64, physics steps, the most by which an action is delayed besides.
        loss: [N] how likely it is in a control step that actions begin to get lost.
        hold: [N] int64 control steps for which they are lost then; the last action that arrived stays.
        losing: [N] int64 control steps for which they still are.
        arrived: [N, A, D] the last action that arrived.
        now: [N] int64 physics steps that the action of this control step takes.
    """

    history: Tensor
    now: Tensor
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
        observed: ObservationPipeline | None = None,
        controls: bool = False,
    ) -> None:
        super().__init__()
        self.lossy = False
        self.controls = controls
        self._observed = (NO_STEPS, NO_STEPS) if observed is None else (observed.extra.numpy(), observed.jitter.numpy())
        self._streams = Streams(num_envs, 0, "loss") if rng is None else rng
        self._control_dt = dt * physics_steps
        self.buffer("loss", num_envs)
        self.buffer("hold", num_envs, dtype=torch.int64)
        self.buffer("losing", num_envs, dtype=torch.int64)
        self.buffer("arrived", num_envs, count, size)
        self._loss = self.loss.numpy(), self.hold.numpy(), self.losing.numpy(), self.arrived.view(num_envs, -1).numpy()
        self.dt = dt
        self.on = False
        rows = 1 if controls else ring_rows(dt, physics_steps)
        self._shape = (num_envs, count, size)
        self._in_force = (num_envs, physics_steps, count, size)
        self._neutral = np.tile(neutral.float().numpy(), count)
        self.buffer("history", rows, num_envs, count, size)
        self.buffer("late", rows, num_envs, dtype=torch.int64)
        self.buffer("delay", num_envs, dtype=torch.int64)
        self.buffer("jitter", num_envs, dtype=torch.int64)
        self.buffer("pushed", 1, dtype=torch.int64)
        self.buffer("now", num_envs, dtype=torch.int64)
        rest = torch.zeros(num_envs, dtype=torch.int64) if observed is None else observed.rest
        self._kept_alive = rest
        self._delays = self.delay.numpy(), self.jitter.numpy()
        self._at = np.zeros(len(ActionLayout), np.int64)
        self._at[: ActionLayout.MOST + 1] = num_envs, count * size, physics_steps, rows, round(MAX_DELAY / dt)
        places = {
            ActionLayout.HISTORY: self.history,
            ActionLayout.LATE: self.late,
            ActionLayout.DELAY: self.delay,
            ActionLayout.JITTER: self.jitter,
            ActionLayout.PUSHED: self.pushed,
            ActionLayout.KEYS: self._streams.key,
            ActionLayout.COUNTERS: self._streams.counter,
            ActionLayout.REST: rest,
            ActionLayout.NOW: self.now,
        }
        for place, buffer in places.items():
            self._at[place] = buffer.data_ptr()

    def configure(self, ids: NDArray[np.int64], values: Batch) -> None:
        """Set what `values` has of "action_delay" and "action_jitter", s rounded to physics steps, of "action_dropout", how
        likely actions get lost, and of "action_hold", for how many s then, at least a control step, for the worlds `ids` that
        begin an episode. The observations that are acted upon must be configured before."""
        rows = values.places.rows(PARAMETERS)
        delay, jitter = self._delays
        loss, hold, _, _ = self._loss
        age, age_jitter = self._observed
        self.on, self.lossy = acting(
            values.table, rows, ids, self.dt, self._control_dt, delay, jitter, loss, hold, age, age_jitter,
            self._in_force[1],
        )  # fmt: skip

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
        return out, kernels.clip(self._at, action.data_ptr(), out.data_ptr())

    def push(self, action: Tensor) -> Tensor:
        """Take [N, A, D] as `clip` gives it; give what is in force: the same where nothing is delayed, or controls are, else
        [N, K, A, D]."""
        if self.lossy:
            action = action.clone()
            given = action.view(len(action), -1).numpy()
            kernels.lose(self._streams.keys, self._streams.counters, *self._loss, given)
        if not self.on:
            return action
        kernels.draw(self._at)
        if self.controls:
            return action
        out = torch.empty(self._in_force)
        kernels.delay(self._at, action.data_ptr(), out.data_ptr())
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.on = any(
            bool(steps.any()) for steps in (*self._delays, self._observed[1], self._observed[0] % self._in_force[1])
        )
        self.lossy = bool(self.loss.any())


class ControlDelay(Buffers):
    """Delays what a robot's computer sends, a row of controls for each physics step, by whole physics steps.

    The rows of an action of 3 physics steps' delay, with control steps of K = 5, are in force from physics step 3 of this
    control step to physics step 2 of the next:

        physics step i          0      1      2      3      4
        row in force           -1/2   -1/3   -1/4    0/0    0/1     (control step / row, 0 is this one)

    With jitter the row in force is that of the latest physics step among those that have arrived; the last one is held until
    the next arrives.

    Args:
        num_envs, physics_steps, size: N, K, U.
        dt: physics step in s.
    """

    history: Tensor
    late: Tensor
    pushed: Tensor

    def __init__(self, num_envs: int, physics_steps: int, size: int, dt: float) -> None:
        super().__init__()
        rows = ring_rows(dt, physics_steps)
        self.buffer("history", rows, num_envs, physics_steps, size, dtype=torch.float64)
        self.buffer("late", rows, num_envs, dtype=torch.int64)
        self.buffer("pushed", 1, dtype=torch.int64)
        self._rings = self.pushed.numpy(), self.late.numpy(), self.history.numpy()
        self._out = torch.zeros(num_envs, physics_steps, size, dtype=torch.float64)

    def reset(self, ids: Tensor, held: Tensor) -> None:
        """New episodes in the worlds `ids` [n]: until something arrives, controls `held` [N, U] are in force there."""
        kernels.hold_controls(*self._rings[1:], ids.numpy(), held.double().numpy())

    def push(self, controls: Tensor, late: Tensor) -> Tensor:
        """Take controls [N, K, U], or [N, U] for all physics steps, that take `late` [N] int64 physics steps; give those in
        force, [N, K, U] float64, valid until the next call."""
        rows = controls if controls.dim() == 3 else controls[:, None].expand_as(self._out)
        kernels.delay_controls(*self._rings, late.numpy(), rows.double().contiguous().numpy(), self._out.numpy())
        return self._out
