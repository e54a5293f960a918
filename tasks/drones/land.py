"""Land: a drone touches down on a pad that heaves, sways and tilts, and stays on it with its rotors off."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.assets.pads import THICKNESS, landing_pad
from rookery.sim import rotations
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.quantities import POSITION, VELOCITY, axes, body, place, rotation, velocity
from rookery.sim.scene import Scene
from rookery.sim.specs import Command, Group, Term, Weights
from rookery.tasks.drones import land_kernels
from rookery.tasks.drones.base import DroneConfig, DroneTask
from rookery.tasks.drones.kernels import NEAR_M
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_exp

REST = "where the drone's centre is in the middle of the pad"
"""A quantity that `pad_offset` shows."""
OFF = {"ctbr": (0.0, 0.0, 0.0, -1.0), "attitude": (0.0, 0.0, 0.0, -1.0), "rotor_thrust": (-1.0, -1.0, -1.0, -1.0)}
"""Action kinds that can have rotors stand still, and the action that does."""
LIFTED = 0.03  # m, of a drone's centre over where it stands: higher it is not on the pad
UPRIGHT = math.cos(math.radians(20.0))  # of the angle between drone and pad: beyond it the drone does not stand


@dataclass(frozen=True)
class LandConfig(DroneConfig):
    """Values of drone-land. Motions are sines, each with an amplitude of up to the value here and a period of its own."""

    pad_m: float = 0.6  # m, edge of the pad
    pad_height_m: float = 0.5  # m, mean height of the pad's middle
    heave_m: float = 0.1  # m, amplitude up and down, at most
    sway_m: float = 0.3  # m, amplitude along each horizontal axis, at most
    tilt: float = math.radians(10.0)  # rad, amplitude of roll and of pitch, at most
    period_least_s: float = 3.0  # s, of each motion
    period_most_s: float = 6.0  # s
    touchdown_most: float = 0.5  # m/s, against the pad at the first touch: faster is a crash
    rest_s: float = 1.0  # s, that the drone stays on the pad with its rotors off
    episode_s: float = 6.0  # s
    height_m: float = 1.6  # m, of the middle of the box of starts
    start_box_m: float = 0.7  # m, half-width of that box
    reward: Weights = Weights(
        alive=1.0,
        distance=-0.4,
        near=0.5,
        landed=2.0,
        impact=-4.0,
        speed=-0.02,
        ang_vel=-0.005,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


class Land(DroneTask):
    """A drone lands on a pad that heaves, sways and tilts.

    Success: no crash, a first touch at 0.5 m/s or less, and the last 1 s on the pad with the rotors off.

    At the first touch of its pad the task commands no thrust until the episode ends. A drone is on the pad that stands upright
    within its edges. Whoever touches faster, turns over after the touch, falls to the ground or leaves has crashed.
    """

    name = "drone-land"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the drone touched down gently enough and has stayed on the pad for rest_s, without a crash",
            "touchdown_speed": (
                "m/s, against the pad's moving surface in the control step before the first touch; the present one before it"
            ),
            "lateral_m": "m, from the middle of the pad, along its face; the present one",
            "rest_s": "s, that the drone has been on the pad with its rotors off, the present stay",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = LandConfig
    causes: ClassVar[tuple[str, ...]] = ("ground", "collision", "out_of_bounds", "overturned", "hard_landing")
    event_definitions = MappingProxyType(
        {**DroneTask.event_definitions, "touchdown": "the drone touches its pad for the first time"}
    )
    deciding = MappingProxyType({"touchdown_speed": ("touchdown_most", True)})
    cfg: LandConfig

    wave: Tensor
    clock: Tensor
    touched: Tensor
    touching_now: Tensor
    touchdown_speed: Tensor
    last_speed: Tensor
    resting: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if c.num_drones != 1:
            raise RookeryError(f"one drone lands on the pad of drone-land, got num_drones={c.num_drones}.")
        if c.action not in OFF:
            raise RookeryError(f"drone-land turns rotors off, which action={c.action} cannot: use {', '.join(OFF)}.")
        if c.obs != "state":
            raise RookeryError("the onboard camera looks ahead and does not see a pad below: drone-land has obs=state.")
        if min(c.heave_m, c.sway_m, c.tilt) < 0.0 or not 0.0 < c.period_least_s <= c.period_most_s:
            raise RookeryError("a pad's amplitudes are 0 or more, and its periods positive, the least one first.")
        if c.pad_height_m - c.heave_m - 0.5 * c.pad_m * math.sin(min(2.0 * c.tilt, 0.5 * math.pi)) < 0.1:
            raise RookeryError(
                "the pad would come to within 0.1 m of the ground: raise pad_height_m, or lower its motions."
            )
        if c.pad_m < 4.0 * self.drone.body_radius:
            raise RookeryError(
                f"pad_m must be at least {4.0 * self.drone.body_radius:.3g} m, two of these drones' diameters."
            )
        self.rest = 0.5 * (THICKNESS + self.drone.body_height)  # m, of the drone's centre over the pad's

    def scene(self) -> Scene:
        scene = super().scene()
        scene.add(lambda: landing_pad(self.cfg.pad_m), "pad", pos=(0.0, 0.0, self.cfg.pad_height_m))
        scene.extension(Aeronautics).moving.append("pad")
        return scene.add_contact_sensor("drone_0/collision", ["pad/platform"])

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self.pad = self.world.bodies(["pad/base"])
        self.contact = self.world.contact_sensor("drone_0/collision", ["pad/platform"])
        self.buffer("wave", n, land_kernels.MOTIONS, 3, dtype=torch.float64)
        self.buffer("clock", n, dtype=torch.int64)
        self.buffer("touched", n, dtype=torch.bool)
        self.buffer("touching_now", n, dtype=torch.bool)  # the first touch was in this step
        for name in ("touchdown_speed", "last_speed"):
            self.buffer(name, n)
        self.buffer("resting", n, dtype=torch.int64)  # control steps
        self._off = torch.tensor(OFF[self.cfg.action])
        self._all = np.arange(n)
        self._place = np.array([0.0, 0.0, self.cfg.pad_height_m])
        self._pads = torch.zeros(n, 1, 13)
        self._relative = self.buffer("pad_place", n, 3), self.buffer("pad_speed", n), self.buffer("pad_lean", n)
        c = self.cfg
        self._most = torch.tensor([c.sway_m, c.sway_m, c.heave_m, c.tilt, c.tilt], dtype=torch.float64)

    def groups(self) -> dict[str, Group]:
        rest = place(REST, doc=f"{self.rest:g} m above the pad's middle, along its z axis")
        middle = velocity("velocity of the pad's middle")
        pad = (
            Term("pad_offset", body(rest - POSITION), noise=0.005, bias=0.005, estimated="position"),
            Term("pad_velocity", body(middle - VELOCITY), scale=0.5, noise=0.01, estimated="pad's velocity"),
            Term("pad_up", body(axes(rotation("pad's rotation", "pad"), "z")), noise=0.005, estimated="pad's attitude"),
        )
        return {"drone": Group(1, (*pad, *self.body_terms()), self.action)}

    def measured(self) -> dict[str, dict[str, Tensor]]:
        pad = self.pad
        up = rotations.matrix(pad.quat)[..., 2::3]
        own = {REST: pad.pos + self.rest * up, "velocity of the pad's middle": pad.lin_vel, "pad's rotation": pad.quat}
        return {"drone": super().measured()["drone"] | own}

    def _move(self, worlds: np.ndarray) -> None:
        """Write the pads' poses and velocities for the coming control step."""
        land_kernels.move_pads(
            worlds, self.wave.numpy(), self.clock.numpy(), self._place, self.cfg.control_dt, self._pads.numpy()
        )

    def _follow(self) -> None:
        """Refresh what follows from the states of drone and pad: target, and the drone as seen from the pad."""
        drone, pad = self.drones.bodies.state, self.pad.state
        land_kernels.relative(drone.numpy(), pad.numpy(), self.rest, *(t.numpy() for t in self._relative))
        self.target[:, 0] = pad[:, 0, :3] + self.rest * _upward(pad[:, 0, 3:7])

    def reset(self, ids: Tensor) -> None:
        c = self.cfg
        u = self.rng(ids).uniform(0.0, 1.0, (3, land_kernels.MOTIONS)).double()
        period = c.period_least_s + (c.period_most_s - c.period_least_s) * u[:, 1]
        self.wave[ids] = torch.stack((self._most * u[:, 0], math.tau / period, math.tau * u[:, 2]), dim=-1)
        self.clock[ids] = 0
        self.touched[ids] = False
        self.touching_now[ids] = False
        self.resting[ids] = 0
        self._move(ids.numpy())
        self.pad.set_state(ids, self._pads[ids])
        self.target[ids] = self.places
        self.place(ids)
        self._follow()
        self.last_speed[ids] = self._relative[1][ids]
        self.touchdown_speed[ids] = self._relative[1][ids]

    def apply(self, actions: dict[str, Tensor]) -> None:
        self._move(self._all)
        self.pad.set_state(None, self._pads)
        given = actions["drone"]
        cut = self.touched.view(-1, *[1] * (given.dim() - 1))
        super().apply({"drone": torch.where(cut, self._off, given)})

    def advance(self) -> None:
        self.clock += 1
        self._follow()
        place, speed, lean = self._relative
        self.touching_now.copy_((self.contact.impulse[:, 0] > 0.0) & ~self.touched)
        self.touchdown_speed.copy_(
            torch.where(self.touching_now, self.last_speed, torch.where(self.touched, self.touchdown_speed, speed))
        )
        self.touched |= self.touching_now
        self.last_speed.copy_(speed)
        inside = place[:, :2].abs().amax(1) <= 0.5 * self.cfg.pad_m
        on = self.touched & inside & (place[:, 2].abs() <= LIFTED) & (lean >= UPRIGHT)
        self.resting.copy_(torch.where(on, self.resting + 1, 0))
        self.detect_crashes(self.distances() > self.cfg.bounds_m)

    def detect_crashes(self, out_of_bounds: Tensor, collision: Tensor | None = None) -> None:
        super().detect_crashes(out_of_bounds, collision)
        overturned = self.touched & (self._relative[2] < 0.0)  # with its rotors off it stays on its back
        hard = self.touching_now & (self.touchdown_speed > self.cfg.touchdown_most)
        self.crash_where(overturned[:, None], "overturned")
        self.crash_where(hard[:, None], "hard_landing")

    def observe(self) -> dict[str, dict[str, Tensor]]:
        state, pad = self.drones.bodies.state, self.pad.state
        velocity = pad[..., 7:10] - state[..., 7:10]
        seen = self.observe_body({"pad_offset": self.target}, pad_velocity=velocity, pad_up=_upward(pad[..., 3:7]))
        return {"drone": seen}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        distance = self.distances()
        terms = {
            "alive": self.alive, "distance": distance, "near": closeness_exp(distance, NEAR_M),
            "landed": (self.resting > 0).float()[:, None],
            "impact": (self.touchdown_speed * self.touching_now)[:, None],
            "speed": self._relative[1][:, None].clone(),
        }  # fmt: skip
        return {"drone": terms | self.motion_rewards()}

    def events(self) -> dict[str, Tensor]:
        return super().events() | {"touchdown": self.touching_now.clone()}

    def metrics(self) -> dict[str, Tensor]:
        """Success; the speed of the first touch; distance from the pad's middle; time at rest on it; a crash; the
        drift of the heading."""
        crashed = self.crashed[:, 0]
        rest = self.resting * self.cfg.control_dt
        done = (self.resting >= round(self.cfg.rest_s / self.cfg.control_dt)) & ~crashed
        return {
            "success": (done & (self.touchdown_speed <= self.cfg.touchdown_most)).float(),
            "touchdown_speed": self.touchdown_speed.clone(),
            "lateral_m": self._relative[0][:, :2].norm(dim=1),
            "rest_s": rest.float(),
            "crash": crashed.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        """Above the pad first, then down onto it, with its velocity fed forward."""
        controller = self.cascade_controller()

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            aim = self.target.clone()
            sideways = (self.pad.lin_vel - self.drones.bodies.lin_vel)[..., :2].norm(dim=-1)
            off = (aim - self.drones.bodies.pos)[..., :2].norm(dim=-1)
            height = (self.drones.bodies.pos - aim)[..., 2]
            wanted = (2.0 * (off - 0.1) + (sideways - 0.2)).clamp(0.0, 0.3) - 0.08
            aim[..., 2] += torch.maximum(wanted, height - 0.12 - 0.5 * (height - 0.2).clamp_min(0.0))  # no faster down
            return {"drone": controller.act(aim, self.pad.lin_vel)}

        return act

    def commands(self) -> list[Command]:
        return []

    def markers(self, i: int) -> list[dict[str, Any]]:
        return []


def _upward(quat: Tensor) -> Tensor:
    """[..., 3] world: the z axes of frames with quaternions [..., 4] wxyz."""
    return rotations.matrix(quat)[..., 2::3]
