"""Strength of drones as it is seen: factors by which what they do with their thrust differs from what nominal constants say.

Mass, rotors and inertia are never quite those of the data sheet, and gravity is never quite along -z. From one control step to
the next the velocities tell: a drone of e times the nominal thrust over mass accelerates by e T / m along its axis. Everything
is a first-order filter of that, so what a ball's touch does to a drone is soon forgotten.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.tasks.volleyball.rotors import see_lag

FAST, SLOW = 0.25, 0.05
"""Shares of a step's finding that are taken over: of factors, which matter at once, and of the horizontal pull."""
FARTHEST = 0.4  # from 1, of factors
ODD, STRONGEST = 2.0, 1.0  # m/s^2, of horizontal acceleration: what a step can tell, and the most that is believed
NOTICEABLE = 5.0  # rad/s^2, of turning that says something


class Strength(Buffers):
    """Factors of A drones in each of N worlds.

    Attributes:
        thrust: [N, A] on thrust over mass.
        turning: [N, A] on torque over inertia, across the thrust.
        pull: [N, A, 2] m/s^2, horizontal acceleration that is not of the thrust, world.
        lag: [N, A] on the rotors' time constant.
        fresh: [N] bool, worlds whose last step tells nothing.
    """

    thrust: Tensor
    turning: Tensor
    pull: Tensor
    lag: Tensor
    fresh: Tensor
    seen: Tensor
    speed: Tensor

    def __init__(self, n: int, a: int) -> None:
        super().__init__()
        self.buffer("thrust", n, a).fill_(1.0)
        self.buffer("turning", n, a).fill_(1.0)
        self.buffer("pull", n, a, 2)
        self.buffer("lag", n, a).fill_(1.0)
        self.buffer("fresh", n, dtype=torch.bool).fill_(True)
        self.buffer("seen", n, a, 12)  # velocity 3, spin 3, nominal acceleration by the thrust 3, nominal twist 3
        self.buffer("speed", n, a, 4)  # of the rotors, when they were last seen

    def reset(self, ids: Tensor) -> None:
        """New episodes: nominal."""
        self.thrust[ids] = 1.0
        self.turning[ids] = 1.0
        self.pull[ids] = 0.0
        self.lag[ids] = 1.0
        self.fresh[ids] = True

    def learn(self, velocity: Tensor, spin: Tensor, push: Tensor, twist: Tensor, dt: float) -> None:
        """Take what a control step did.

        Args:
            velocity: [N, A, 3] m/s, world; spin: [N, A, 3] rad/s, body.
            push: [N, A, 3] m/s^2, acceleration by the thrust now, nominal, world.
            twist: [N, A, 3] rad/s^2, angular acceleration now, nominal, body.
            dt: s, since the last call.
        """
        now = torch.cat((velocity, spin, push, twist), -1)
        gained = (now - self.seen)[..., :6] / dt
        mean_push, mean_twist = (0.5 * (now + self.seen))[..., 6:].split(3, -1)
        self.seen.copy_(now)
        known = (~self.fresh)[:, None].float()
        self.fresh.zero_()

        size = mean_push.norm(dim=-1).clamp_min(1.0)
        lifted = gained[..., :3].clone()
        lifted[..., 2] += GRAVITY
        found = (lifted * mean_push).sum(-1) / size.square()
        self._towards(self.thrust, found, FAST * known)

        across = mean_twist[..., :2]
        miss = gained[..., 3:5] - self.turning[..., None] * across
        step = (across * miss).sum(-1) / (across.square().sum(-1) + NOTICEABLE**2)
        self._towards(self.turning, self.turning + step, FAST * known)

        rest = gained[..., :2] - self.thrust[..., None] * mean_push[..., :2]
        odd = (rest - self.pull).clamp(-ODD, ODD)
        self.pull.add_(SLOW * known[..., None] * odd).clamp_(-STRONGEST, STRONGEST)

    def learn_lag(
        self, speed: Tensor, given: Tensor, late: Tensor, steps: int, dt: float, full: float, nominal: float
    ) -> None:
        """Take what a control step did to the rotors, before `learn`.

        Args:
            speed: [N, A, 4] of the rotors, normalized.
            given: [3, N, A, 4] N, commands of the step and of the two before; late, steps, dt, full: see `see_lag`.
            nominal: s, time constant.
        """
        see_lag(
            self.speed.numpy(), speed.numpy(), given.numpy(), late.numpy(), steps, dt, full, nominal, self.fresh.numpy(),
            self.lag.numpy(),
        )  # fmt: skip
        self.speed.copy_(speed)

    @staticmethod
    def _towards(factor: Tensor, found: Tensor, share: Tensor) -> None:
        factor.add_(share * (found - factor).clamp(-FARTHEST, FARTHEST)).clamp_(1.0 - FARTHEST, 1.0 + FARTHEST)
