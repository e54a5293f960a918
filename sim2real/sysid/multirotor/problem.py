"""A flight, simulated again in short windows from measured states, thousands of windows of candidates at a time."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor import layout as at
from rookery.sim.multirotor.layout import LANES
from rookery.sim.multirotor.parameters import DroneParameters
from rookery.sim2real.sysid.held import held
from rookery.sim2real.sysid.logs import MultirotorLog, stretches
from rookery.sim2real.sysid.multirotor import kernels
from rookery.sim2real.sysid.multirotor.parameters import MultirotorConstants
from rookery.sim2real.sysid.problem import FitParameter, Problem, make_blocks

Array = NDArray[np.float64]
LARGEST_STEP = 0.0025  # s, of the physics
WINDOW_S = 0.5
"""s, of a window: long for the sensors' noise, short for what a multirotor without its controller does."""
WARM_S = 0.5  # s, of commands before a window from which the rotors' speeds follow
CHANNELS = tuple(f"{name} {axis}" for name in ("position", "velocity", "attitude", "rate") for axis in "xyz")


class FlightProblem(Problem):
    """See the module.

    Args:
        drone: the model.
        log: of its flight.
        parameters: that are identified.
        window: s, of each window.
        threads: of the simulation; None for all cores.
        largest_step: s, of the physics.
    """

    def __init__(
        self, drone: DroneParameters, log: MultirotorLog, parameters: tuple[FitParameter, ...], window: float = WINDOW_S,
        threads: int | None = None, largest_step: float = LARGEST_STEP,
    ) -> None:  # fmt: skip
        self.drone = drone
        self.log = log
        self.parameters = parameters
        self.names = CHANNELS
        self.period = float(np.median(np.diff(log.time)))
        self._every = math.ceil(self.period / largest_step - 1e-6)
        self._dt = self.period / self._every
        self._window = window
        self._samples = max(2, round(window / self.period))
        self._warm = round(WARM_S / self._dt)
        known = round(WARM_S / self.period)  # what the motors were told before a stretch is not in the log
        self.starts = [s for a, b in stretches(log) for s in range(a + known, b - self._samples, self._samples)]
        if not self.starts:
            raise RookeryError(f"{log.source} has no {WARM_S + window:g} s in one piece: log for longer.")
        self.samples = np.array([s + 1 + i for s in self.starts for i in range(self._samples)])
        self.stretches = (self._samples,) * len(self.starts)
        self.channels = np.tile(np.arange(len(CHANNELS)), len(self.samples))
        self.blocks = make_blocks(np.zeros(len(CHANNELS), np.int64), self.stretches)
        self._constants = MultirotorConstants(drone, parameters, self._dt)
        self._threads = usable_cores() if threads is None else threads
        # measured states as they are: smoothed ones know what comes, which a fit takes for less delay
        states = np.concatenate((log.position, log.quaternion, log.velocity, log.rate), axis=1)
        self._begin = self._lanes(states[self.starts])
        self._measured = states[self.samples]

    def finer_residuals(self, x: Array) -> Array:
        finer = FlightProblem(self.drone, self.log, self.parameters, self._window, self._threads, 0.5 * self._dt)
        return finer.residuals(x[None])[0]

    def predict(self, points: Array) -> Array:
        """States [k, S, 13] at `samples`: position, quaternion, velocity, rate."""
        types, varied = self._constants.of(points)
        delays, which = np.unique(self._constants.value(points, "delay"), return_inverse=True)
        motors = np.stack([self._commands(float(delay)) for delay in delays])
        out = np.empty((len(points), len(self._begin), self._samples, at.STATE * LANES))

        def fly(first: int, last: int) -> None:
            kernels.fly(
                first, last, self._begin, motors, which, types, varied, self._dt, self._warm, self._every, out
            )  # fmt: skip

        edges = np.linspace(0, len(points), min(self._threads, len(points)) + 1).astype(int).tolist()
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(fly, edges[:-1], edges[1:]))
        lanes = out.reshape(len(points), -1, self._samples, at.STATE, LANES).transpose(0, 1, 4, 2, 3)
        windows = lanes.reshape(len(points), -1, self._samples, at.STATE)[:, : len(self.starts)]
        return np.asarray(windows.reshape(len(points), -1, at.STATE))

    def residuals(self, points: Array) -> Array:
        x, y = self.predict(points), self._measured
        turned = _rotation_between(y[:, 3:7], x[..., 3:7])
        parts = (x[..., :3] - y[:, :3], x[..., 7:10] - y[:, 7:10], turned, x[..., 10:13] - y[:, 10:13])
        return np.concatenate(parts, axis=2).reshape(len(points), -1)

    def _lanes(self, rows: Array) -> Array:
        """[B, F * LANES] of rows [W, F], the last block filled up with copies."""
        count = math.ceil(len(rows) / LANES) * LANES
        full = rows[np.minimum(np.arange(count), len(rows) - 1)]
        return np.ascontiguousarray(full.reshape(-1, LANES, rows.shape[1]).transpose(0, 2, 1)).reshape(
            -1, rows.shape[1] * LANES
        )

    def _commands(self, delay: float) -> Array:
        """[B, warm + steps, 4 * LANES] motor commands of all windows, late by `delay` s."""
        steps = self._warm + self._samples * self._every
        rows = []
        for start in self.starts:
            at_times = self.log.time[start] + self._dt * (np.arange(steps + 1) - self._warm)
            rows.append(held(self.log.time, self.log.motors, at_times - delay))
        table = np.array(rows).reshape(len(rows), -1)
        lanes = self._lanes(table).reshape(-1, steps, 4, LANES)
        return np.ascontiguousarray(lanes.reshape(len(lanes), steps, 4 * LANES))


def _rotation_between(measured: Array, predicted: Array) -> Array:
    """[k, S, 3] rad, rotation vectors in the body frame from measured [S, 4] to predicted [k, S, 4]."""
    w, v = measured[:, :1], measured[:, 1:]
    pw, pv = predicted[..., :1], predicted[..., 1:]
    scalar = w * pw + (v * pv).sum(axis=-1, keepdims=True)
    vector = w * pv - pw * v - np.cross(np.broadcast_to(v, pv.shape), pv)
    sine = np.linalg.norm(vector, axis=-1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, np.abs(scalar))
    return np.asarray(np.sign(scalar) * np.where(sine > 1e-9, angle / np.maximum(sine, 1e-9), 2.0) * vector)
