"""A log of joints, simulated again in windows by MuJoCo, many candidates at a time.

Each window begins at the measured angles, a little before its first sample that counts, so that an initial velocity that
nobody measured has decayed by then. Commands act as drives see them: held from sample to sample, `delay` later, and averaged
over each physics step, so that the residuals are continuous in the delay.

The step h of MuJoCo's Euler integrator is a leapfrog: forces belong to its beginning, velocities to half a step before and
after it. So commands are averaged over the time from half a step before to half a step after; and the explicit damping, which
takes the earlier velocity, acts as h/2 (kd + damping) less inertia, which is added. That is the midpoint rule, stable for any
damping, and errors are of second order in h: the parameters are those of continuous time.

The columns of the Jacobian that belong to
different kinematic trees (legs of a robot that is held) are computed together: they move different residuals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from mujoco.batch import Batch
from numpy.typing import NDArray

from rookery.sim.cores import usable_cores
from rookery.sim2real.sysid.held import held
from rookery.sim2real.sysid.jointed.parameters import Values, write
from rookery.sim2real.sysid.jointed.robot import JointedRobot
from rookery.sim2real.sysid.logs import JointLog, stretches
from rookery.sim2real.sysid.problem import FitParameter, Problem, make_blocks

Array = NDArray[np.float64]
LARGEST_STEP = 0.0025  # s, of the physics
WINDOW_S = 4.0  # s, of samples that count
WARM_UP_S = 0.4  # s, before them
MOST_MEMORY = 1 << 28
"""Bytes of controls and positions of the simulations that run at a time."""


class JointProblem(Problem):
    """See the module.

    Args:
        robot: the model.
        log: of its joints, in its order.
        parameters: that are identified.
        window: s, of samples that count in a window; infinity: each stretch of the log is one window, without a warm-up.
        threads: of the simulation; None for all cores.
        largest_step: s, of the physics.
    """

    def __init__(
        self, robot: JointedRobot, log: JointLog, parameters: tuple[FitParameter, ...], window: float = WINDOW_S,
        threads: int | None = None, largest_step: float = LARGEST_STEP,
    ) -> None:  # fmt: skip
        self.robot = robot
        self.log = log
        self.parameters = parameters
        self.names = log.joints
        self._values = Values(robot, parameters)
        self.period = float(np.median(np.diff(log.time)))
        self._each = math.ceil(self.period / largest_step - 1e-6)
        self._dt = self.period / self._each
        self._window = window
        self._windows = _windows(log, window, self.period)
        self.stretches = tuple(stop - count for _, count, stop in self._windows)
        self.channels = np.tile(np.arange(len(log.joints)), sum(self.stretches))
        self.blocks = make_blocks(robot.trees, self.stretches)
        steps = max(stop - start for start, _, stop in self._windows) * self._each
        self._steps = steps
        self._threads = usable_cores() if threads is None else threads
        self._batch: Batch | None = None
        rate = np.gradient(log.position, log.time, axis=0)
        begin = log.time[[start for start, _, _ in self._windows]] - 0.5 * self._dt
        self._velocity = np.stack([np.interp(begin, log.time, column) for column in rate.T], axis=1)
        self.samples = np.concatenate([np.arange(count, stop) for _, count, stop in self._windows])

    # -- the simulation ----------------------------------------------------------------------------------------

    def predict(self, points: Array) -> Array:
        """Joint angles as encoders read them, [k, S, J] rad, at `samples` of the log."""
        w = len(self._windows)
        j = len(self.log.joints)
        at_once = max(1, MOST_MEMORY // (8 * 3 * j * self._steps * w))
        return np.concatenate([self._predict(points[i : i + at_once]) for i in range(0, len(points), at_once)])

    def _predict(self, points: Array) -> Array:
        values = self._values.of(points)
        w, k = len(self._windows), len(points)
        rows = {name: np.repeat(v, w, axis=0) for name, v in values.items()}
        batch = self._simulations(k * w)
        write(batch, self.robot, rows, self.log.kp, self.log.kd, self._dt)
        batch.reset()
        qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
        starts = np.tile([start for start, _, _ in self._windows], k)
        qpos[:, self.robot.dofs] = self.log.position[starts] - rows["encoder_offset"]
        qvel[:, self.robot.dofs] = np.tile(self._velocity, (k, 1))
        recorded = batch.rollout(self._steps, self._control(values), record=("qpos",))["qpos"]
        recorded = recorded.reshape(k, w, self._steps, -1)[..., self.robot.dofs]
        out = [self._sampled(recorded[:, i], *window) for i, window in enumerate(self._windows)]
        return np.concatenate(out, axis=1) + values["encoder_offset"][:, None]

    def _simulations(self, count: int) -> Batch:
        if self._batch is None or self._batch.nsim != count:
            self.robot.model.opt.timestep = self._dt  # a batch has a copy of the model
            self._batch = Batch(self.robot.model, count, min(self._threads, count))
        return self._batch

    def _sampled(self, angles: Array, start: int, count: int, stop: int) -> Array:
        """[k, stop - count, J] of a window's angles [k, steps, J] after each physics step, at the log's times."""
        place = (self.log.time[count:stop] - self.log.time[start]) / self._dt - 1.0
        low = np.clip(np.floor(place + 1e-6).astype(int), 0, self._steps - 2)
        share = np.clip(place - low, 0.0, 1.0)[:, None]
        return angles[:, low] * (1.0 - share) + angles[:, low + 1] * share

    def _control(self, values: dict[str, Array]) -> Array:
        """[k w, steps, 2 J] targets and feedforwards of all simulations."""
        log, j = self.log, len(self.log.joints)
        k, w = len(values["delay"]), len(self._windows)
        out = np.empty((k, w, self._steps, j, 2))
        for i, (start, _, _) in enumerate(self._windows):
            # times of physics steps in this window; a window is shorter than its neighbors' at the end of a stretch
            at = log.time[start] + self._dt * (np.arange(self._steps + 1) - 0.5)
            for c, delay in _alike(values["delay"][:, 0]):
                out[c, i, :, :, 0] = held(log.time, log.target, at - delay) - values["encoder_offset"][c][:, None]
                out[c, i, :, :, 1] = values["torque_bias"][c][:, None]
                if log.feedforward is not None:
                    out[c, i, :, :, 1] += held(log.time, log.feedforward, at - delay)
                if log.target_velocity is not None:
                    kd = (log.kd * values["kd"][c])[:, None]
                    out[c, i, :, :, 1] += kd * held(log.time, log.target_velocity, at - delay)
        return out.reshape(k * w, self._steps, 2 * j)

    # -- residuals ---------------------------------------------------------------------------------------------

    def residuals(self, points: Array) -> Array:
        return (self.predict(points) - self.log.position[self.samples]).reshape(len(points), -1)

    def finer_residuals(self, x: Array) -> Array:
        finer = JointProblem(self.robot, self.log, self.parameters, self._window, self._threads, 0.5 * self._dt)
        return finer.residuals(x[None])[0]

    def jacobian(self, x: Array, columns: NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
        steps = self.steps(x)
        owners = self._owners()
        chosen = range(len(x)) if columns is None else np.flatnonzero(columns).tolist()
        colors = _colors({column: self._touched(self.parameters[column]) for column in chosen})
        points = np.tile(x, (len(colors) + 1, 1))
        for row, together in enumerate(colors, 1):
            points[row, together] += steps[together]
        out = self.residuals(points)
        jacobian = np.zeros((out.shape[1], len(x)))
        for row, together in enumerate(colors, 1):
            change = out[row] - out[0]
            for column in together:
                own = np.isin(owners, list(self._touched(self.parameters[column])))
                jacobian[own, column] = change[own] / steps[column]
        return out[0], jacobian

    def _owners(self) -> NDArray[np.int64]:
        """[m] kinematic tree of each residual."""
        return np.asarray(self.robot.trees[self.channels])

    def _touched(self, parameter: FitParameter) -> frozenset[int]:
        """Kinematic trees that a parameter moves."""
        return frozenset(int(self.robot.trees[self.robot.joints.index(j)]) for j in parameter.members)


def _alike(delays: Array) -> list[tuple[NDArray[np.int64], float]]:
    """Candidates by their delay: most of them share it."""
    different, which = np.unique(delays, return_inverse=True)
    return [(np.flatnonzero(which == i), float(delay)) for i, delay in enumerate(different)]


def _colors(touched: Mapping[int, frozenset[int]]) -> list[list[int]]:
    """Columns that can be differenced together, since no two of them touch the same residuals (Curtis, Powell and Reid, "On
    the estimation of sparse Jacobian matrices", 1974)."""
    colors: list[tuple[list[int], set[int]]] = []
    for column, trees in touched.items():
        for columns, taken in colors:
            if not taken & trees:
                columns.append(column)
                taken |= trees
                break
        else:
            colors.append(([column], set(trees)))
    return [columns for columns, _ in colors]


def _windows(log: JointLog, window: float, period: float) -> list[tuple[int, int, int]]:
    """Windows: the sample at which each starts, the first that counts, and the one after its last."""
    out = []
    for first, last in stretches(log):
        if math.isinf(window):
            out.append((first, first + 1, last))
            continue
        warm = min(round(WARM_UP_S / period), (last - first) // 2)
        count = max(1, round((last - first - warm) * period / window))
        edges = np.linspace(first + warm, last, count + 1).astype(int)
        out += [(int(a) - warm, int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return out
