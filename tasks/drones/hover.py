"""Hover: each drone flies to its own target and stays there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from rookery.sim.arrays import array
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.sensors.pictures import Marks, beacon
from rookery.sim.specs import Command, CommandRange, Group, Term, Weights
from rookery.tasks.drones.base import DroneConfig
from rookery.tasks.drones.pursuit import Pursuit


@dataclass(frozen=True)
class HoverConfig(DroneConfig):
    """Values of drone-hover."""

    target_box_m: float = 0.5  # m, half-width of the box of targets around each drone's place
    settled_s: float = 2.0  # s, the end of the episode over which the error counts
    success_m: float = 0.05  # m, mean position error that still counts as hovering
    reward: Weights = Weights(
        alive=1.0,
        distance=-0.4,
        near=0.5,
        on_target=1.0,
        speed=-0.02,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


class Hover(Pursuit):
    """Each drone flies to its own target and stays there.

    Success: no crash, and the mean position error of the last 2 s below 5 cm, for every drone of the world. The heading is
    free, see the metric `yaw_drift`.
    """

    name = "drone-hover"

    Config: ClassVar[type] = HoverConfig
    cfg: HoverConfig

    def setup(self) -> None:
        super().setup()
        self.counted_from = self.turning.counted_from = self.max_steps - round(self.cfg.settled_s / self.cfg.control_dt)

    def groups(self) -> dict[str, Group]:
        error = body(place("target") - POSITION)
        own = Term("position_error", error, noise=0.005, bias=0.005, estimated="position")
        seen = () if self.sees else (own,)  # with a camera, its images show where the target is
        return {"drone": Group(self.cfg.num_drones, (*seen, *self.body_terms(), *self.pictures()), self.action)}

    def reset(self, ids: Tensor) -> None:
        box = self.cfg.target_box_m
        offset = self.rng(ids).uniform(-box, box, (self.cfg.num_drones, 3))
        self._target[array(ids)] = array(self.places) + offset.numpy()
        self.place(ids)

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": self.observe_body() if self.sees else self.observe_body({"position_error": self.target})}

    def marks(self) -> Marks:
        return beacon(self.target)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`alive` outweighs what a far drone loses, or the policy would learn to crash soon; `yaw_rate` is linear, so that a
        slow drift of the heading, which nothing else opposes, does not pay."""
        near = {"distance": self.distance, **self.closeness(), "speed": self.speeds()}
        return {"drone": {"alive": self.alive, **near, **self.motion_rewards()}}

    def command_ranges(self) -> Mapping[str, CommandRange]:
        box = (self.cfg.start_box_m,) * 3
        return {"target": CommandRange(tuple(-m for m in box), box, relative_to=POSITION.name)}

    def commands(self) -> list[Command]:
        return [Command(f"target_{a}", self.target[:, a], place=True) for a in range(self.cfg.num_drones)]

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        controller = self.cascade_controller()
        return lambda obs: {"drone": controller.act(self.target)}
