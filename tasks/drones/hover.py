"""Hover: each drone flies to its own target and stays there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.base import DroneConfig, DroneTask


@dataclass(frozen=True)
class HoverConfig(DroneConfig):
    """Values of drone-hover."""

    target_box_m: float = 0.5  # m, half-width of the box of targets around each drone's place
    settled_s: float = 2.0  # s, the end of the episode over which the error counts
    success_m: float = 0.05  # m, mean position error that still counts as hovering
    reward: Weights = Weights(
        alive=1.0, distance=-0.4, near=0.5, on_target=1.0, speed=-0.02, spin=-0.005, change=-0.02, crash=-20.0
    )  # fmt: skip


class Hover(DroneTask):
    """Success: no crash, and the mean position error of the last 2 s below 5 cm, for every drone of the world."""

    Config: ClassVar[type] = HoverConfig
    cfg: HoverConfig

    error_sum: Tensor
    error_count: Tensor

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.buffer("error_sum", n, self.cfg.num_drones)
        self.buffer("error_count", n)
        self._settled_from = self.max_steps - round(self.cfg.settled_s / self.cfg.control_dt)

    def groups(self) -> dict[str, Group]:
        own = Term("position_error", 3, "m", "body", noise=0.005, bias=0.005)
        return {"drone": Group(self.cfg.num_drones, (own, *self.body_terms()), self.action)}

    def reset(self, ids: Tensor) -> None:
        box, a = self.cfg.target_box_m, self.cfg.num_drones
        self.target[ids] = self.places + self.rng(ids).uniform(-box, box, (a, 3))
        self.place(ids)
        self.error_sum[ids] = 0.0
        self.error_count[ids] = 0.0

    def advance(self) -> None:
        self.error = self.target - self.drones.bodies.pos
        self.distance = self.error.norm(dim=-1)
        settled = (self.steps > self._settled_from).float()
        self.error_sum.addcmul_(self.distance, settled[:, None])
        self.error_count += settled

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": self.observe_body(position_error=self.target - self.drones.bodies.pos)}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        d, b = self.distance, self.drones.bodies
        return {
            "drone": {
                "alive": torch.ones_like(d),
                "distance": d,
                "near": (-5.0 * d).exp(),
                "on_target": (-20.0 * d).exp(),
                "speed": b.lin_vel.norm(dim=-1),
                "spin": b.ang_vel.square().sum(-1),
                "change": (self.last_action - self.previous_action).square().sum(-1),
                "crash": self.crash(),
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        error = self.error_sum / self.error_count.clamp_min(1.0)[:, None]
        flown = (self.steps >= self.max_steps) & ~self.crashed.any(1)
        return {
            "success": ((error < self.cfg.success_m).all(1) & flown).float(),
            "error_m": torch.where(flown, error.mean(1), (self.target - self.drones.bodies.pos).norm(dim=-1).mean(1)),
            "crash": self.crashed.any(1).float(),
        }

    def baseline(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        pilot = self.pilot()
        return lambda obs: {"drone": pilot.act(self.target)}
