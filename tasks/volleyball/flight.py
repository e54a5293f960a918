"""Flying a drone into a state at a time: what it takes to hit a moving ball.

A drone is seen as three chains of integrators. Sideways, in x and in y: position, velocity, tilt (the component of the thrust's
direction), its rate and its second derivative, which follows a command with the rotors' lag; upwards: height, velocity and
acceleration, which follows likewise. For a chain, a time that is left and wanted values at its end, the commands that cost
least (squares of commands, plus squares of what is missed over what may be missed) are a linear function of what would be
missed without any. That function is a table over the time left (`Chain`), made once; only the first of the commands is
given, and at the next control step all is worked out again. So there is no plan to fall out of, and close to the end, where
commands no longer change much, the table itself lets them fade.

Real drones are heavier, their rotors weaker and their commands late: how strong a drone is it is seen to be (`Strength`), and
commands are for the state in which they take effect (ahead.py), and for rotors that lag as these are seen to (rotors.py).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rookery.robots.drones.drone import Drones
from rookery.sim.buffers import Buffers
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.tasks.volleyball.ahead import drones_ahead
from rookery.tasks.volleyball.rotors import lead
from rookery.tasks.volleyball.strength import Strength

STEP = 0.0025  # s, between the rows of a table
LONGEST = 3.0  # s, of a table
MOST_TURNING = 47.0  # rad/s^2, asked of a drone
TORQUE_SHARE = 0.52  # of a rotor's thrust that turning may have in any case
MOST_TILT = 0.75  # sine of the angle
LEAST_THRUST = 0.35  # of the weight: attitude needs thrust to act on
YAW_RATE = 2.0  # 1/s, gain of the damping of the heading, which is left as it is


class Chain(NamedTuple):
    """For each time left, in rows `STEP` apart: tensors of a chain of D values.

    Args:
        free: [K, D, D] the values at the end without commands, from those now.
        gain: [K, D] the command to be given now, from what would be missed [D] without any.
        reach: [K, D, D] what all commands together change of that.
        cost: [K, D, D] what they, and the rest that is missed, cost: a quadratic form of what would be missed.
    """

    free: Tensor
    gain: Tensor
    reach: Tensor
    cost: Tensor


def chain(dynamics: np.ndarray, command: np.ndarray, tolerance: list[float], effort: float, control_dt: float) -> Chain:
    """The table of a chain x' = dynamics x + command c.

    Args:
        dynamics: [D, D]; command: [D].
        tolerance: [D] of each value at the end: what costs 1 when missed by so much; inf for what may be anything.
        effort: of a command; one of that size, held for a second, costs 1.
        control_dt: s, for which each command is held.
    """
    size = len(command)
    rows = round(LONGEST / STEP)
    hold = round(control_dt / STEP)
    block = torch.zeros(size + 1, size + 1, dtype=torch.float64)
    block[:size, :size] = torch.from_numpy(dynamics)
    block[:size, size] = torch.from_numpy(command)
    one = torch.linalg.matrix_exp(STEP * block)
    powers = [torch.eye(size + 1, dtype=torch.float64)]
    for _ in range(rows):
        powers.append(one @ powers[-1])
    every = torch.stack(powers)
    free, response = every[:, :size, :size], every[:, :size, size]  # response: to a command held since then
    weight = torch.diag(torch.tensor([1.0 / t for t in tolerance], dtype=torch.float64))
    # [K, commands] rows left when each command is given; 0 for those that come too late
    left = (torch.arange(rows + 1)[:, None] - hold * torch.arange(-(-rows // hold))).clamp_min(0)
    effect = (response[left] - response[(left - hold).clamp_min(0)]).mT  # [K, D, commands]
    ease = torch.where(left > 0, effort**2 / (STEP * left.clamp(1, hold)), 0.0)[:, None]
    one = torch.eye(size, dtype=torch.float64)
    inverse = torch.linalg.inv(one + weight @ (effect * ease) @ effect.mT @ weight)
    cost = weight @ inverse @ weight
    best = (effect * ease).mT @ cost
    gain = best[:, 0]
    reach = effect @ best
    return Chain(*(t.float().contiguous() for t in (free, gain, reach, cost)))


class Tolerance(NamedTuple):
    """Errors allowed to a drone at the end of a flight; inf for anything. The values are those of a cross-entropy search over
    serves and rallies of two Irises."""

    place: float = 0.03  # m, sideways
    speed: float = 1.0  # m/s, sideways
    tilt: float = 0.014  # rad
    turning: float = 0.7  # rad/s
    twist: float = 10.0  # rad/s^2
    height: float = 0.04  # m
    rise: float = 0.04  # m/s
    push: float = math.inf  # m/s^2, upwards
    effort: float = 4.2  # rad/s^2, of turning
    lift: float = 3.9  # m/s^2, of climbing


class Steering(Buffers):
    """Commands of A drones in each of N worlds.

    Args:
        drones: what is flown, with the action kind rotor_thrust.
        control_dt: s.
        tolerance: at the end of a flight.

    Attributes:
        strength: what the drones are seen to do with their thrust.
        given: [3, N, A, 4] N, commands of the last control step and the two before.
        late: [N] int64 physics steps from a command to its effect.
        state: [N, A, 13] of the drones then, see Bodies.state; speed: [N, A, 4] of their rotors, normalized.
    """

    given: Tensor
    late: Tensor

    def __init__(self, drones: Drones, control_dt: float, tolerance: Tolerance) -> None:
        super().__init__()
        self.drones = drones
        self.control_dt = control_dt
        n, a = drones.rotor_speed.shape[:2]
        self.strength = Strength(n, a)
        self.child("strength", self.strength)
        self.hover = 0.25 * drones.drone.mass * GRAVITY
        self.buffer("given", 3, n, a, 4).fill_(self.hover)
        self.buffer("late", n, dtype=torch.int64)
        self.state = torch.zeros(n, a, 13)
        self.speed = torch.zeros(n, a, 4)
        d, t = drones.drone, tolerance
        self.lag = 0.5 * (d.tau_up + d.tau_down)  # s, nominal
        quick = 1.0 / self.lag
        side = np.diag(np.ones(4), 1)
        up = np.diag(np.ones(2), 1)
        side[1, 2] = GRAVITY
        side[4, 4] = -quick
        up[2, 2] = -quick
        wanted = [t.place, t.speed, t.tilt, t.turning, t.twist]
        self.side = chain(side, np.array([0.0, 0.0, 0.0, 0.0, quick]), wanted, t.effort, control_dt)
        self.drift = chain(side, np.array([0.0, 0.0, 0.0, 0.0, quick]), [math.inf, *wanted[1:]], t.effort, control_dt)
        self.up = chain(up, np.array([0.0, 0.0, quick]), [t.height, t.rise, t.push], t.lift, control_dt)
        rotors = np.array(d.rotor_positions)
        share = np.zeros((4, 4))
        ratio = sum(d.torque_curve) / sum(d.thrust_curve)
        share[0] = 1.0
        share[1] = rotors[:, 1]
        share[2] = -rotors[:, 0]
        share[3] = ratio * np.array(d.directions)
        self.share = torch.tensor(share, dtype=torch.float32)  # [4, 4] thrust and torques of each rotor's N
        self.inverse = torch.tensor(np.linalg.inv(share), dtype=torch.float32)
        self.inertia = torch.tensor(d.inertia)
        self.most_yaw = 0.15 * 4 * d.max_thrust * ratio  # N m
        self.sideways = torch.zeros(*drones.rotor_speed.shape[:2], 2, 5)
        """[N, A, 2, 5] place (m), velocity, tilt, turning, its change; x and y, world."""
        self.upwards = torch.zeros(*drones.rotor_speed.shape[:2], 3)
        """[N, A, 3] height (m), velocity, acceleration."""

    def reset(self, ids: Tensor) -> None:
        """New episodes of the worlds `ids`."""
        self.strength.reset(ids)
        self.given[:, ids] = self.hover

    def note(self, given: Tensor, late: Tensor | None) -> None:
        """Take the commands of the last control step [N, A, 4] (N), and for how many physics steps commands are on their way
        [N] int64, None for none."""
        self.given[1:] = self.given[:2].clone()
        self.given[0] = given
        if late is None:
            self.late.zero_()
        else:
            self.late.copy_(late.clamp(0, 2 * self.drones.physics_steps))

    def look(self) -> None:
        """Take the state of the drones, when commands take effect, into `sideways` and `upwards`."""
        d, x, u = self.drones.drone, self.drones.bodies.state, self.drones.rotor_speed
        self._take(x, u)
        push = self.wrench[..., :1] / d.mass * self.normal
        self.strength.learn_lag(u, self.given, self.late, self.drones.physics_steps, self.dt, d.max_thrust, self.lag)
        self.strength.learn(x[..., 7:10], self.spin, push, self.twist, self.control_dt)
        if self.late.any():
            self._ahead(x, u)
            self._take(self.state, self.speed)
        else:
            self.state.copy_(x)
            self.speed.copy_(u)
        x, s = self.state, self.strength
        world = self.world(self.spin)
        change = self.world(s.turning[..., None] * self.twist)
        normal = self.normal
        rate = self.rate = torch.linalg.cross(world, normal)
        bend = torch.linalg.cross(change, normal) + torch.linalg.cross(world, rate)
        self.sideways.copy_(torch.stack((x[..., 0:2], x[..., 7:9], normal[..., :2], rate[..., :2], bend[..., :2]), -1))
        rise = s.thrust * self.wrench[..., 0] * normal[..., 2] / d.mass - GRAVITY
        self.upwards.copy_(torch.stack((x[..., 2], x[..., 9], rise), -1))

    def _take(self, x: Tensor, u: Tensor) -> None:
        """Attitude, rates and nominal thrust and twist of drones at states x with rotor speeds u."""
        d = self.drones.drone
        c0, c1, c2 = d.thrust_curve
        self.wrench = (c0 + u * (c1 + u * c2)) @ self.share.T
        self.rotation = matrix(x[..., 3:7])
        self.normal = self.rotation[..., 2]
        spin = self.spin = x[..., 10:13]
        self.twist = (self.wrench[..., 1:4] - torch.linalg.cross(spin, self.inertia * spin)) / self.inertia

    def _ahead(self, x: Tensor, u: Tensor) -> None:
        d, s = self.drones.drone, self.strength
        places = np.array(d.rotor_positions)[:, :2]
        drone = (d.mass, np.array(d.inertia), places, self.share[3].double().numpy(), d.max_thrust, self.lag, GRAVITY)
        drones_ahead(
            x.numpy(), u.numpy(), self.given.numpy(), self.late.numpy(), self.drones.physics_steps, self.dt,
            s.thrust.numpy(), s.turning.numpy(), s.pull.numpy(), s.lag.numpy(), drone, self.state.numpy(), self.speed.numpy(),
        )  # fmt: skip

    @property
    def dt(self) -> float:
        """s, physics step."""
        return self.control_dt / self.drones.physics_steps

    def flown(self, table: Chain, index: Tensor) -> Tensor:
        """[N, A, 2, 5] `sideways` after the rows `index` [N, A] of a table, without commands."""
        out = (table.free[index][:, :, None] @ self.sideways[..., None]).squeeze(-1)
        time = STEP * index[..., None]
        out[..., 0] += 0.5 * time.square() * self.strength.pull
        out[..., 1] += time * self.strength.pull
        return out

    @property
    def level(self) -> Tensor:
        """[N, A, 2] the tilt with which a drone stays where it is."""
        return -self.strength.pull / GRAVITY

    def world(self, v: Tensor) -> Tensor:
        """[N, A, 3] of a vector in the body frame."""
        return (self.rotation @ v[..., None]).squeeze(-1)

    def _bound_tilt(self, turning: Tensor) -> Tensor:
        """Turn no further where the drone is tilted as far as it may be, and is still turning."""
        tilt = self.sideways[..., 2]
        rate = self.sideways[..., 3]
        size = tilt.norm(dim=-1, keepdim=True)
        out = tilt / size.clamp_min(1e-6)
        most = 100.0 * (MOST_TILT - size) - 20.0 * (rate * out).sum(-1, keepdim=True)
        along = (turning * out).sum(-1, keepdim=True)
        return turning - (along - most).clamp_min(0.0) * out

    def actions(self, turning: Tensor, rise: Tensor) -> Tensor:
        """Normalized actions [N, A, 4].

        Args:
            turning: [N, A, 2] rad/s^2, world: wanted second derivative of the tilt.
            rise: [N, A] m/s^2, wanted acceleration upwards.
        """
        d, n = self.drones.drone, self.normal
        turning = self._bound_tilt(turning)
        size = turning.norm(dim=-1, keepdim=True).clamp_min(1e-9)
        turning = turning * (MOST_TURNING / size).clamp_max(1.0)
        down = -(self.rate.square().sum(-1) + (n[..., :2] * turning).sum(-1)) / n[..., 2].clamp_min(0.2)
        twist = torch.linalg.cross(n, torch.cat((turning, down[..., None]), -1))
        twist = (self.rotation.mT @ twist[..., None]).squeeze(-1)
        twist[..., 2] = -YAW_RATE * self.spin[..., 2]
        torque = self.inertia * twist + torch.linalg.cross(self.spin, self.inertia * self.spin)
        torque[..., :2] /= self.strength.turning[..., None]
        torque[..., 2].clamp_(-self.most_yaw, self.most_yaw)
        thrust = d.mass * (GRAVITY + rise) / (self.strength.thrust * n[..., 2].clamp_min(0.4))
        thrust = thrust.clamp(LEAST_THRUST * d.mass * GRAVITY, 4 * d.max_thrust)
        base = 0.25 * thrust[..., None]
        uneven = torque @ self.inverse[:, 1:].T
        # torques may take what the collective thrust leaves, and a part of that
        room = torch.maximum(d.max_thrust - base, torch.tensor(TORQUE_SHARE * d.max_thrust))
        uneven = uneven * (room / uneven.abs().amax(-1, keepdim=True).clamp_min(1e-9)).clamp_max(1.0)
        base = torch.minimum(base, d.max_thrust - uneven.amax(-1, keepdim=True))
        base = torch.maximum(base, -uneven.amin(-1, keepdim=True))
        thrusts = lead(base + uneven, self.speed, self.strength.lag, d.max_thrust, self.lag, self.control_dt)
        return self.drones.normalized(thrusts)


def hardest(way: Tensor, now: Tensor, end: Tensor | float, time: Tensor) -> Tensor:
    """The largest acceleration (m/s^2, [..., D] by component) of a flight that goes `way` (m), from velocity `now` to `end`
    (m/s) within `time` (s), and whose acceleration changes evenly."""
    first = (6.0 * way / time - 4.0 * now - 2.0 * end) / time
    last = (-6.0 * way / time + 2.0 * now + 4.0 * end) / time
    return torch.maximum(first.abs(), last.abs())


def rows(time: Tensor) -> Tensor:
    """Rows of a table for times left (s)."""
    return (time / STEP).round().long().clamp(1, round(LONGEST / STEP))


def matrix(q: Tensor) -> Tensor:
    """Rotation matrices [..., 3, 3], body to world, of quaternions [..., 4] wxyz."""
    w, x, y, z = q.unbind(-1)
    flat = (
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    )  # fmt: skip
    return torch.stack(flat, -1).unflatten(-1, (3, 3))
