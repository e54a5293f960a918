"""A scripted player: sees where the ball will come down, and is there with a racket that moves and tilts as the shot needs.

A `Goal` row tells each drone what it is to do now: stand at a place, or play the ball at a height, with a lob (by apex) or a
drive (by time of flight) to a target. Who plays which ball is the affair of the plays (plays.py); how the ball flies of
ballistics.py; how the drone gets there in time of flight.py.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from torch import Tensor

from rookery.robots.drones.drone import Drones
from rookery.robots.drones.kernels import MOTORS, RATES
from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError
from rookery.sim.rotor.parameters import GRAVITY, DroneParameters
from rookery.sim.world import Bodies
from rookery.tasks.volleyball.ballistics import drive, face, fall, lob
from rookery.tasks.volleyball.flight import REFERENCE, Airframe, FlightGains, follow, glide, lead, rotor_thrusts

GOAL = 12
STRIKE, HOME, CONTACT, SPREAD, TARGET, ARC, DRIVE, HURRY = 0, 1, 4, 5, 6, 9, 10, 11
"""Columns of a goal: 1 to play the ball, 0 to stay away; home 3 (m); height of the ball's centre at contact (m) and by how much
it may differ, whatever is easier (m); target 3 (m); apex of a lob (m) or flight time of a drive (s); 1 for a drive; speed (1 is
calm) of flights to the home."""
MISS, HEIGHT, SLIDE = 15, 17, 18
"""Columns of a reference: by how much the ball is to miss the racket's centre in x and y (m), the height of contact (m), and
the velocity in x and y that the racket will have when its tilt is reached (m/s)."""
HEIGHTS = 9  # that are tried, within the spread

_fast = njit(cache=True, nogil=True, error_model="numpy")


class Touch(NamedTuple):
    """What the player knows of ball and racket.

    Args:
        restitution: of the ball on the racket.
        share: M / (M + m) of drone and ball.
        drag: 1/m, see ballistics.
        reach: m from the drone's centre to the ball's when it lies on the racket.
    """

    restitution: float
    share: float
    drag: float
    reach: float


class Timing(NamedTuple):
    """When the player does what (s), and how hard it may swing."""

    engage: float = 1.3  # before contact: the swing begins
    commit: float = 0.04  # before contact: the swing is no longer changed
    reach: float = 0.15  # before contact: the latest moment at which a swing may begin
    steady: float = 0.2  # before contact: the tilt stays as it shall be then, and corrections sideways give way to it
    margin: float = 0.09  # m, by which a hurried swing may miss the racket's centre
    rest: float = 0.06  # after contact: no new swing
    settle: float = 1.0  # shortest time planned for flights to a place
    pace: float = 1.0  # s per square root of the distance in m, for long ones
    swing: float = 3.5  # m/s, fastest racket along its normal


@_fast
def _contact(ball, goal, height, touch, timing, rise, slide, end, s):
    """End state [9] of the swing that plays the ball.

    Args:
        ball: [6] position, velocity.
        height: m, of the ball's centre at contact.
        rise: m/s^2, upward acceleration that the drone will have then.
        slide: [2] m/s, its velocity in x and y when it begins to hold its tilt.
        end: [9], the result.
        s: [6, 3] scratch.

    Returns:
        s until contact; -1 if the ball does not come.
    """
    p, v, out, n = s[0], s[1], s[2], s[3]
    for i in range(3):
        p[i], v[i] = ball[i], ball[3 + i]
    time = fall(p, v, height, GRAVITY, touch.drag)
    if time < 0.0:
        return -1.0
    target = goal[TARGET : TARGET + 3]
    if goal[DRIVE] > 0.5:
        flight = drive(p, target, goal[ARC], GRAVITY, touch.drag, out, s[4], s[5])
    else:
        flight = lob(p, target, goal[ARC], GRAVITY, touch.drag, out, s[4], s[5])
    if flight <= 0.0:
        return -1.0
    speed = min(face(v, out, touch.restitution, touch.share, n), timing.swing)
    n[2] = max(n[2], 0.3)
    thrust = (GRAVITY + rise) / n[2]
    for i in range(3):
        end[i] = p[i] - touch.reach * n[i]
        end[6 + i] = thrust * n[i]
    end[3], end[4] = slide[0] + timing.steady * end[6], slide[1] + timing.steady * end[7]
    end[5] = (speed - end[3] * n[0] - end[4] * n[1]) / n[2]
    end[8] = rise
    return time


@_fast
def _best_height(r, ball, goal, touch, timing, end, s):
    """Height (m) of contact that asks least of the drone: the acceleration of its simplest way there, which changes evenly
    with time, at its beginning and end."""
    best, least = goal[CONTACT], 1e9
    for h in range(HEIGHTS):
        z = goal[CONTACT] + goal[SPREAD] * (2.0 * h / (HEIGHTS - 1) - 1.0)
        time = _contact(ball, goal, z, touch, timing, 0.0, r[SLIDE : SLIDE + 2], end, s)
        if time < timing.reach:
            continue
        way = 6.0 * (end[2] - r[2]) / (time * time)
        first, last = way - 2.0 * (2.0 * r[5] + end[5]) / time, 2.0 * (r[5] + 2.0 * end[5]) / time - way
        tilt = math.sqrt(end[6] * end[6] + end[7] * end[7]) / GRAVITY
        pain = max(max(abs(first), abs(last)), 1.5) + 1.5 * tilt / max(time - timing.steady, 0.1) ** 2
        pain += 0.3 * abs(z - goal[CONTACT])
        if pain < least:
            best, least = z, pain
    return best


@_fast
def _allow_miss(r, end, time, timing):
    """In a hurry any part of the racket will do: what is nearest to where the drone would come to rest."""
    left = max(time - timing.steady, 0.0)
    bound = timing.margin * min(max(2.0 * (1.1 - time), 0.0), 1.0)
    for i in range(2):
        ease = r[i] + left * (0.5 * r[3 + i] + 0.1 * left * r[6 + i]) - end[i]
        r[MISS + i] = min(max(ease, -bound), bound)


@_fast
def _swing(r, end, time, timing, gains, most, dt):
    """Move a reference on by dt towards the contact in `time` s. The tilt is reached before, and kept."""
    hold = timing.steady
    if time > hold:
        for i in range(2):
            end[i] += r[MISS + i] - 0.5 * hold * hold * end[6 + i]
        lead(r, end, time - hold, time, hold, dt, most, gains)
        r[SLIDE], r[SLIDE + 1] = end[3], end[4]
    else:
        r[6], r[7] = end[6], end[7]
        lead(r, end, 0.0, time, hold, dt, most, gains)


@_fast
def _lead_on(r, clock, ball, goal, touch, timing, gains, most, dt, end, s):
    """Move one drone's reference on by dt. Returns its clock: s until contact, or below 0 s until it may swing again."""
    time = -1.0
    if clock < 0.0:
        clock = min(clock + dt, 0.0)
    if goal[STRIKE] > 0.5 and clock >= 0.0:
        if 0.0 < clock <= timing.commit:  # the last moments: nothing new, what turning is left dies away
            glide(r, clock, dt)
            return clock - dt if clock > dt else -timing.rest
        if clock <= 0.0:
            r[SLIDE] = 0.0
            r[SLIDE + 1] = 0.0
            r[HEIGHT] = _best_height(r, ball, goal, touch, timing, end, s)
        time = _contact(ball, goal, r[HEIGHT], touch, timing, r[8], r[SLIDE : SLIDE + 2], end, s)
        if 0.0 < time <= timing.engage and (clock > 0.0 or time >= timing.reach):
            if clock <= 0.0:
                _allow_miss(r, end, time, timing)
            _swing(r, end, time, timing, gains, most, dt)
            return time - dt if time > dt else -timing.rest
        if time < timing.engage:
            time = -1.0
    if time > 0.0:
        end[3:9] = 0.0  # the ball is still far: wait where it will be played
        span = max(time - 0.5 * timing.engage, timing.settle)
    else:
        end[:] = 0.0
        for i in range(3):
            end[i] = goal[HOME + i]
        span = 1e9
    far = math.sqrt((end[0] - r[0]) ** 2 + (end[1] - r[1]) ** 2 + (end[2] - r[2]) ** 2)
    calm = max(timing.settle, timing.pace * math.sqrt(far)) / max(goal[HURRY], 0.1)
    lead(r, end, min(span, calm), min(span, calm), -1.0, dt, most, gains)
    return min(clock, 0.0)


@_fast
def play(states, balls, goals, refs, clocks, u, airframe, touch, timing, gains, dt, rates, low, half, actions):
    """One control step of all players.

    Args:
        states: [N, A, 13]; balls: [N, 6]; goals: [N, A, GOAL]; u: [N, A, 4] rotor speeds.
        refs: [N, A, REFERENCE] references and clocks: [N, A] s until contact, both moved on by dt.
        rates: whether actions are body rates and thrust, else rotor thrusts.
        low, half: [4] range of the actions: value = low + half (action + 1).
        actions: [N, A, 4] the result.
    """
    end, s, command, out = np.zeros(9), np.zeros((6, 3)), np.zeros(8), np.zeros(4)
    most = gains.most_thrust * 4.0 * airframe.max_thrust / airframe.mass
    for n in range(states.shape[0]):
        for a in range(states.shape[1]):
            x, r = states[n, a], refs[n, a]
            off = math.sqrt((r[0] - x[0]) ** 2 + (r[1] - x[1]) ** 2 + (r[2] - x[2]) ** 2)
            if not off < gains.lost:
                r[0:3] = x[0:3]
                r[3:6] = x[7:10]
                r[6:15] = 0.0
                r[6] = 2.0 * GRAVITY * (x[4] * x[6] + x[3] * x[5])  # thrust of a hovering drone, tilted as it is
                r[7] = 2.0 * GRAVITY * (x[5] * x[6] - x[3] * x[4])
                r[8] = -2.0 * GRAVITY * (x[4] * x[4] + x[5] * x[5])
            steady = 0.0 < clocks[n, a] <= timing.steady
            follow(x, r, gains, gains.steady if steady else 1.0, s, command)
            clocks[n, a] = _lead_on(r, clocks[n, a], balls[n], goals[n, a], touch, timing, gains, most, dt, end, s)
            if rates:
                out[0:3] = command[4:7]
                out[3] = airframe.mass * command[0]
            else:
                rotor_thrusts(command, x, airframe, u[n, a], dt, out)
            for i in range(4):
                actions[n, a, i] = min(max((out[i] - low[i]) / half[i] - 1.0, -1.0), 1.0)


class Players(Buffers):
    """All drones of all worlds, played by the script.

    Args:
        drones: what is flown; its action kind is rotor_thrust or ctbr.
        ball: view of the ball, one body.
        touch: what is known of ball and racket.
        control_dt: s.

    Attributes:
        goals: [N, A, GOAL], to be written by the plays.
        balls: [N, 6] position (m) and velocity (m/s) of the ball, world.
        clocks: [N, A] s until the swing meets the ball; 0 without a swing, below 0 while none may begin.

    Raises:
        RookeryError: another action kind.
    """

    goals: Tensor
    refs: Tensor
    clocks: Tensor

    def __init__(
        self, drones: Drones, ball: Bodies | None, touch: Touch, control_dt: float, timing: Timing | None = None,
        gains: FlightGains | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if drones.level not in (MOTORS, RATES):
            raise RookeryError(
                f"the scripted player commands rotor_thrust or ctbr, not {drones.spec.kind}: choose one of them as action."
            )
        self.drones, self.ball, self.touch, self.control_dt = drones, ball, touch, control_dt
        self.timing, self.gains = timing or Timing(), gains or FlightGains()
        n, a = drones.rotor_speed.shape[:2]
        self.buffer("goals", n, a, GOAL)
        self.buffer("refs", n, a, REFERENCE)
        self.buffer("clocks", n, a)
        self.airframe = airframe(drones.drone)
        self.balls = torch.zeros(n, 6)
        low = np.array(drones.spec.low)
        self._low, self._half = low, (np.array(drones.spec.high) - low) / 2

    def reset(self, ids: Tensor) -> None:
        """New episodes: references start where the drones are."""
        self.refs[ids] = float("nan")  # farther from the drone than any bound
        self.clocks[ids] = 0.0

    def see(self) -> None:
        """Take the ball's state as it is now into `balls`."""
        if self.ball is not None:
            state = self.ball.state
            self.balls[:, :3], self.balls[:, 3:] = state[:, 0, :3], state[:, 0, 7:10]

    def act(self) -> Tensor:
        """Normalised actions [N, A, 4] for the goals."""
        self.see()
        actions = torch.empty_like(self.drones.rotor_speed)
        play(
            self.drones.bodies.state.numpy(), self.balls.numpy(), self.goals.numpy(), self.refs.numpy(),
            self.clocks.numpy(), self.drones.rotor_speed.numpy(), self.airframe, self.touch, self.timing, self.gains,
            self.control_dt, self.drones.level == RATES, self._low, self._half, actions.numpy(),
        )  # fmt: skip
        return actions


def airframe(drone: DroneParameters) -> Airframe:
    """What the controller knows of a drone, from its nominal constants."""
    rotors, share = np.array(drone.rotor_positions), np.zeros((4, 4))
    ratio = sum(drone.torque_curve) / sum(drone.thrust_curve)
    share[0], share[1], share[2], share[3] = 1.0, rotors[:, 1], -rotors[:, 0], ratio * np.array(drone.directions)
    inverse = np.linalg.inv(share)
    return Airframe(
        drone.mass, drone.inertia, drone.max_thrust, drone.thrust_curve, drone.tau_up, drone.tau_down,
        0.2 * 4 * drone.max_thrust * ratio, tuple(tuple(float(v) for v in row) for row in inverse),
    )  # fmt: skip
