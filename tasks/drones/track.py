"""Track: each drone follows a moving reference: a figure-eight, a circle or a random smooth path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import unknown
from rookery.sim.quantities import POSITION, body, place
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones import kernels
from rookery.tasks.drones.base import DroneConfig
from rookery.tasks.drones.pursuit import Pursuit

PATHS = ("figure-eight", "circle", "random")
HARMONICS = 3


@dataclass(frozen=True)
class TrackConfig(DroneConfig):
    """Values of drone-track."""

    path: str = "figure-eight"  # figure-eight, circle, random, or mixed: one of them for each episode
    speed: float = 1.0  # m/s, mean along the path
    size_m: float = 1.0  # m, half-width of the path in x
    look_ahead_s: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)  # s, when the future positions in the observation are
    settle_s: float = 2.0  # s at the start, in which the drone may still be on its way to the path
    success_m: float = 0.1  # m, mean position error after settling that still counts as tracking
    reward: Weights = Weights(
        alive=1.0,
        distance=-0.4,
        near=0.5,
        on_target=1.0,
        velocity_error=-0.05,
        ang_vel=-0.002,
        yaw_rate=-0.1,
        action_rate=-0.02,
        crash=-20.0,
    )


class Track(Pursuit):
    """Each drone follows a moving reference.

    Success: no crash, and a mean position error below 10 cm after the first 2 s, for every drone of the world. The heading is
    free, see the metric `yaw_drift`.

    Along each axis the reference is ``sum_j a_j sin(w_j t + p_j)``: every path is a row of amplitudes (m), frequencies
    (rad/s) and phases (rad), so position and velocity at any time, the future included, are in closed form.
    """

    name = "drone-track"

    Config: ClassVar[type] = TrackConfig
    interface: ClassVar[tuple[str, ...]] = ("look_ahead_s",)
    headline: ClassVar[str] = "error_m"
    cfg: TrackConfig

    amplitude: Tensor
    frequency: Tensor
    phase: Tensor
    velocity: Tensor
    clock: Tensor

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        if self.cfg.path not in (*PATHS, "mixed"):
            raise unknown("path", self.cfg.path, (*PATHS, "mixed"))

    def setup(self) -> None:
        super().setup()
        n, a = self.world.num_envs, self.cfg.num_drones
        for name in ("amplitude", "frequency", "phase"):
            self.buffer(name, n, a, 3, HARMONICS)
        self.buffer("velocity", n, a, 3)
        self.buffer("clock", n, dtype=torch.int64)  # control steps on the path: `steps` may start late (VecEnv.stagger)
        self.counted_from = self.turning.counted_from = round(self.cfg.settle_s / self.cfg.control_dt)
        self._all = torch.arange(n)
        self._future = torch.zeros(n, a, 3 * len(self.cfg.look_ahead_s))
        ahead = np.array((0.0, *self.cfg.look_ahead_s), np.float32)
        shapes = self.amplitude.numpy(), self.frequency.numpy(), self.phase.numpy()
        self._paths = *shapes, self.places.numpy(), self.clock.numpy()
        self._reference = ahead, self._target, self.velocity.numpy(), self._future.numpy()

    def groups(self) -> dict[str, Group]:
        target = place("target")
        reference = (
            Term("position_error", body(target - POSITION), noise=0.005, bias=0.005, estimated="position"),
            Term("reference_ahead", body(place(self._later, len(self.cfg.look_ahead_s)) - target)),
        )
        return {"drone": Group(self.cfg.num_drones, (*reference, *self.body_terms()), self.action)}

    @property
    def _later(self) -> str:
        """The quantity that `reference_ahead` shows."""
        return f"target in {', '.join(map(str, self.cfg.look_ahead_s))} s"

    def measured(self) -> dict[str, dict[str, Tensor]]:
        now = self.clock[:, None, None, None, None] * self.cfg.control_dt
        ahead = torch.tensor(self.cfg.look_ahead_s)[None, None, :, None, None]
        angle = self.frequency[:, :, None] * (now + ahead) + self.phase[:, :, None]  # [N, A, T, 3, H]
        later = (self.amplitude[:, :, None] * angle.sin()).sum(-1) + self.places[:, None]
        return {"drone": super().measured()["drone"] | {self._later: later.flatten(2)}}

    def reset(self, ids: Tensor) -> None:
        n = len(ids)
        a = self.cfg.num_drones
        cfg = self.cfg
        r = self.rng(ids)
        kind = r.integers(0, 3, (a,)) if cfg.path == "mixed" else torch.full((n, a), PATHS.index(cfg.path))
        draws = r.uniform(0.0, 1.0, (a, 3, 2 * HARMONICS + 1))
        amplitude, frequency, phase = self._random_path(draws[..., 1:])
        start = 2 * math.pi * draws[:, :, 0, 0]  # where on the path an episode begins
        plane = torch.zeros(n, a, 3, HARMONICS)
        for which, (x, y, ratio, shift) in enumerate(((1.0, 0.5, 2.0, 0.0), (1.0, 1.0, 1.0, math.pi / 2))):
            chosen = kind == which
            # mean speed of the path for a unit circle frequency, so that cfg.speed is what the drone really flies
            w = cfg.speed / (cfg.size_m * _mean_speed(x, y, ratio, shift))
            amp = plane.clone()
            freq = plane.clone()
            ph = plane.clone()
            amp[..., 0, 0] = cfg.size_m * x
            amp[..., 1, 0] = cfg.size_m * y
            freq[..., 0, 0] = w
            freq[..., 1, 0] = ratio * w
            ph[..., 0, 0] = start
            ph[..., 1, 0] = ratio * start + shift
            amplitude[chosen] = amp[chosen]
            frequency[chosen] = freq[chosen]
            phase[chosen] = ph[chosen]
        self.amplitude[ids] = amplitude
        self.frequency[ids] = frequency
        self.phase[ids] = phase
        self.clock[ids] = 0
        self._refresh(ids)
        self.place(ids)

    def _random_path(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Three harmonics an axis, with amplitudes that fall with frequency, scaled to the wanted rms speed."""
        frequency = torch.tensor([0.4, 0.9, 1.6]) * (0.75 + 0.5 * u[..., :HARMONICS])  # rad/s at 1 m/s and 1 m
        phase = 2 * math.pi * u[..., HARMONICS:]
        amplitude = torch.tensor([0.7, 0.4, 0.2]) * self.cfg.size_m * torch.ones_like(phase)
        amplitude[:, :, 2] *= 0.5  # less climbing than sideways motion
        rms = ((amplitude * frequency).square().sum((-1, -2)) / 2).sqrt()[..., None, None]
        return amplitude, frequency * self.cfg.speed / rms, phase

    def _refresh(self, ids: Tensor) -> None:
        kernels.follow_paths(ids.numpy(), *self._paths, self.cfg.control_dt, *self._reference)

    def advance(self) -> None:
        self.clock += 1
        self._refresh(self._all)
        super().advance()

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": self.observe_body({"position_error": self.target}, reference_ahead=self._future)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._refresh(self._all)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """As in Hover, with the velocity held against the reference's."""
        near = {"distance": self.distance, **self.closeness(), "velocity_error": self.speeds(self.velocity)}
        return {"drone": {"alive": self.alive, **near, **self.motion_rewards()}}

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
        controller = self.cascade_controller()
        return lambda obs: {"drone": controller.act(self.target, self.velocity)}


def _mean_speed(x: float, y: float, ratio: float, shift: float) -> float:
    """Mean speed of (x sin t, y sin(ratio t + shift)) over a period, by the midpoint rule (exact to 1e-6 here)."""
    t = (torch.arange(4096, dtype=torch.float64) + 0.5) * (2 * math.pi / 4096)
    return float(((x * t.cos()) ** 2 + (y * ratio * (ratio * t + shift).cos()) ** 2).sqrt().mean())
