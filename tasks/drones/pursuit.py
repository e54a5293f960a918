"""What hover and track share: each drone has a point to be at, and is judged by its distance from it."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.tasks.drones.base import DroneTask


class Pursuit(DroneTask):
    """Base of tasks in which ``self.target`` is where each drone should be now.

    Subclasses set `counted_from`: the control step of an episode after which the distance counts. Their config has
    `success_m`, the mean distance (m) that is still a success.
    """

    counted_from: int
    distance: Tensor
    error_sum: Tensor
    error_count: Tensor

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.buffer("distance", n, self.cfg.num_drones)
        self.buffer("error_sum", n, self.cfg.num_drones)
        self.buffer("error_count", n)

    def place(self, ids: Tensor) -> None:
        super().place(ids)
        self.error_sum[ids] = 0.0
        self.error_count[ids] = 0.0
        self.distance[ids] = (self.target[ids] - self.drones.bodies.pos[ids]).norm(dim=-1)

    def advance(self) -> None:
        self.distance.copy_(self.distances())
        self.detect_crashes(self.distance > self.cfg.bounds_m)
        counts = (self.steps > self.counted_from).float()
        self.error_sum.addcmul_(self.distance, counts[:, None])
        self.error_count += counts

    def closeness(self) -> dict[str, Tensor]:
        """Reward terms of both tasks, unweighted. `near` pulls over half a metre, `on_target` over the last decimetre;
        `alive` outweighs what a far drone loses, or the policy would learn to crash soon; `turning` is linear, so that a
        slow drift of the heading, which nothing else opposes, does not pay."""
        d = self.distance
        spin = self.drones.bodies.ang_vel
        return {
            "alive": torch.ones_like(d),
            "distance": d,
            "near": (-5.0 * d).exp(),
            "on_target": (-20.0 * d).exp(),
            "ang_vel": spin.square().sum(-1),
            "yaw_rate": spin[..., 2].abs(),
            "action_rate": (self.last_action - self.previous_action).square().sum(-1),
            "crash": self.crashed.float(),
        }

    def metrics(self) -> dict[str, Tensor]:
        """Success, the mean distance while it counted (the present one before), and whether the episode ended in a
        crash."""
        error = self.error_sum / self.error_count.clamp_min(1.0)[:, None]
        crashed = self.crashed.any(1)
        flown = (self.steps >= self.max_steps) & ~crashed
        return {
            "success": ((error < self.cfg.success_m).all(1) & flown).float(),
            "error_m": torch.where(self.error_count > 0, error.mean(1), self.distance.mean(1)),
            "crash": crashed.float(),
        }
