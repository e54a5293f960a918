"""The volleyball controller of a drone: it predicts where the ball comes down and meets it there with the racket's tilt and
velocity that the stroke needs.

`Goals` hold what each drone does now: be at a place, or play the ball at a height, so that it flies to a target. Who
plays which ball is the affair of the plays (plays.py); how the ball flies of ballistics.py; how the drone gets there in time
of flight.py.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rookery.robots.drones.drone import Drones
from rookery.robots.drones.kernels import MOTORS
from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim.world import Bodies
from rookery.tasks.volleyball.ahead import balls_ahead
from rookery.tasks.volleyball.flight import Steering, Tolerance, hardest, rows
from rookery.tasks.volleyball.strokes import stroke


class Touch(NamedTuple):
    """Constants of ball and racket.

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
    """When the player does what (s)."""

    engage: float = 1.2  # before contact: the swing begins
    lock: float = 0.35  # before contact: the height of contact is no longer changed
    through: float = 0.1  # after it: a swing that has not met the ball goes on
    settle: float = 0.7  # shortest time planned for flights to a place
    slack: float = 0.09  # m, by which a swing may miss the racket's centre
    calm: float = 4.5  # m/s^2, acceleration of such flights


TIMES = (0.7, 0.85, 1.0, 1.2, 1.4, 1.55, 1.7, 1.85, 2.0, 2.2, 2.5, 3.0)
"""s, planned for flights to a place: the shortest that is calm enough."""
HEIGHTS = 5  # of contact that are tried, within the spread
CHANGE = 1.0  # pain per meter of another height than the one flown to: plans that flutter are met late


class Goals(Buffers):
    """Goals of each drone, all [N, A] and to be written by the plays.

    Attributes:
        strike: bool, whether to play the ball.
        home: [N, A, 3] m, where to be otherwise.
        contact, spread: m, height of the ball's centre when it is played, and by how much it may differ, whatever is easier.
        target: [N, A, 3] m, where the ball goes.
        apex: m, height up to which a lob rises.
        flight: s, of a drive; 0 for a lob.
        drift: [N, A, 2] m/s, the drone's horizontal velocity when it plays the ball, about.
    """

    strike: Tensor
    home: Tensor
    target: Tensor
    contact: Tensor
    spread: Tensor
    apex: Tensor
    flight: Tensor
    drift: Tensor

    def __init__(self, n: int, a: int) -> None:
        super().__init__()
        self.buffer("strike", n, a, dtype=torch.bool)
        self.buffer("home", n, a, 3)
        self.buffer("target", n, a, 3)
        self.buffer("contact", n, a)
        self.buffer("spread", n, a)
        self.buffer("apex", n, a)
        self.buffer("flight", n, a)
        self.buffer("drift", n, a, 2)


class Players(Buffers):
    """The controllers of all drones of all worlds.

    Args:
        drones: what is flown; its action kind is rotor_thrust.
        ball: view of the ball, one body; None if there is none.
        touch: what is known of ball and racket.
        control_dt: s.

    Attributes:
        goals: to be written by the plays.
        balls: [N, 6] position (m) and velocity (m/s) of the ball, world.
        clocks: [N, A] s until the swing meets the ball, below 0 after it; -1 without one.

    Raises:
        RookeryError: another action kind.
    """

    clocks: Tensor
    heights: Tensor
    facing: Tensor
    rise: Tensor

    def __init__(
        self, drones: Drones, ball: Bodies | None, touch: Touch, control_dt: float, timing: Timing | None = None,
        tolerance: Tolerance | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if drones.level != MOTORS:
            raise RookeryError(
                f"the volleyball controller commands rotor_thrust, not {drones.spec.kind}: choose that as action."
            )
        self.drones = drones
        self.ball = ball
        self.touch = touch
        self.control_dt = control_dt
        self.timing = timing or Timing()
        n, a = drones.rotor_speed.shape[:2]
        self.steering = Steering(drones, control_dt, tolerance or Tolerance())
        self.child("steering", self.steering)
        self.goals = Goals(n, a)
        self.balls = torch.zeros(n, 6)
        self.child("goals", self.goals)
        self.buffer("clocks", n, a)
        self.buffer("heights", n, a)
        self.buffer("facing", n, a, 2)
        self.buffer("rise", n, a)

    def reset(self, ids: Tensor) -> None:
        """New episodes: no swing."""
        self.clocks[ids] = -1.0
        self.steering.reset(ids)

    def see(self) -> None:
        """Take the ball's state, when commands take effect, into `balls`."""
        if self.ball is not None:
            state = self.ball.state
            self.balls[:, :3] = state[:, 0, :3]
            self.balls[:, 3:] = state[:, 0, 7:10]
            s = self.steering
            if s.late.any():
                balls_ahead(self.balls.numpy(), s.late.numpy(), s.dt, GRAVITY, self.touch.drag)

    def act(self) -> Tensor:
        """Normalized actions [N, A, 4] for the goals."""
        self.see()
        s, t = self.steering, self.timing
        s.look()
        self.clocks.sub_(self.control_dt)
        time, point, normal, speed = self._meet()
        coming = self.goals.strike & (time > 0.0)
        swing = coming & (time <= t.engage)
        late = (self.clocks > -t.through) & (self.clocks < 0.05)  # the ball is below the height of contact by now
        hold = self.goals.strike & (time < 0.0) & late
        self.clocks.copy_(torch.where(swing, time, torch.where(hold, self.clocks, -1.0)))
        self.facing.copy_(torch.where(swing[..., None], normal[..., :2], self.facing))
        place = torch.where(coming[..., None], point - self.touch.reach * normal, self.goals.home)
        left = self._left(coming, swing, hold, time, place)
        index = rows(left)
        turning, drift = self._sideways(index, place, swing, hold)
        rise = (speed - (drift * normal[..., :2]).sum(-1)) / normal[..., 2].clamp_min(0.3)
        self.rise.copy_(torch.where(swing, rise, self.rise))
        return s.actions(turning, self._upwards(index, place, swing, hold))

    def _left(self, coming: Tensor, swing: Tensor, hold: Tensor, time: Tensor, place: Tensor) -> Tensor:
        """[N, A] s that the flight takes."""
        t, x = self.timing, self.steering.state
        way = place - x[..., :3]
        now = x[..., 7:10]
        calm = torch.full_like(time, TIMES[-1])
        for length in reversed(TIMES[:-1]):
            easy = hardest(way, now, 0.0, torch.tensor(length)).norm(dim=-1) < t.calm
            calm = torch.where(easy, length, calm)
        calm = torch.where(coming, torch.minimum(calm, (time - 0.5 * t.engage).clamp_min(t.settle)), calm)
        return torch.where(swing, time, torch.where(hold, 0.1, calm))

    def _meet(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Time (s), place of the ball [3] (m), normal [3] of the racket and its speed along it (m/s) at contact."""
        g = self.goals
        lock = (self.clocks > 0.0) & (self.clocks < self.timing.lock)
        if bool((g.strike & ~lock).any()):
            best = g.contact
            least = torch.full_like(g.contact, 1e9)
            planned = torch.where(self.clocks > 0.0, self.heights, g.contact)
            for h in torch.linspace(-1.0, 1.0, HEIGHTS).tolist():
                height = g.contact + h * g.spread
                odd = 0.3 * (height - g.contact).abs() + CHANGE * (height - planned).abs()
                pain = self._pain(self._stroke_at(height)) + odd
                best = torch.where(pain < least, height, best)
                least = torch.minimum(pain, least)
            self.heights.copy_(torch.where(lock, self.heights, best))
        return self._stroke_at(self.heights)

    def _pain(self, stroke: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        """[N, A] what it costs to be there in time."""
        time, point, normal, speed = stroke
        s = self.steering
        place = point - self.touch.reach * normal
        index = rows(time)
        wanted = torch.zeros_like(s.sideways)
        wanted[..., 0] = place[..., :2]
        wanted[..., 1] = self.goals.drift
        wanted[..., 2] = normal[..., :2]
        missed = wanted - s.flown(s.side, index)
        pain = (missed * (s.side.cost[index][:, :, None] @ missed[..., None]).squeeze(-1)).sum((-1, -2))
        up = s.upwards
        hard = hardest(place[..., 2] - up[..., 0], up[..., 1], speed, time.clamp_min(0.05))
        return pain + 4.0 * (hard - 2.5).clamp_min(0.0).square() + 1e6 * (time < 0.15)

    def _stroke_at(self, heights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        g = self.goals
        out = torch.empty(*heights.shape, 8)
        stroke(
            self.balls.numpy(), heights.numpy(), g.target.numpy(), g.apex.numpy(), g.flight.numpy(), GRAVITY,
            self.touch.drag, self.touch.restitution, self.touch.share, out.numpy(),
        )  # fmt: skip
        self._stroke = out
        return out[..., 0], out[..., 1:4], out[..., 4:7], out[..., 7]

    def _sideways(self, index: Tensor, place: Tensor, swing: Tensor, hold: Tensor) -> tuple[Tensor, Tensor]:
        """Commands [N, A, 2] in rad/s^2 and the velocity [N, A, 2] in m/s that there will be at the end."""
        s = self.steering
        free = s.flown(s.side, index)
        wanted = torch.zeros_like(free)
        wanted[..., 0] = place[..., :2]
        wanted[..., 1] = torch.where(swing[..., None], self.goals.drift, 0.0)
        wanted[..., 2] = torch.where((swing | hold)[..., None], self.facing, s.level)
        missed = wanted - free
        ease = (s.drift.reach[index][:, :, None, 0] * missed).sum(-1) - missed[..., 0]
        slack = self.timing.slack * (2.0 * (1.0 - self.clocks)).clamp(0.0, 1.0)[..., None] * swing[..., None]
        missed[..., 0] += torch.maximum(torch.minimum(ease, slack), -slack)
        missed[..., :2].masked_fill_(hold[..., None, None], 0.0)
        change = s.side.reach[index][:, :, None, 1] * missed
        return (s.side.gain[index][:, :, None] * missed).sum(-1), free[..., 1] + change.sum(-1)

    def _upwards(self, index: Tensor, place: Tensor, swing: Tensor, hold: Tensor) -> Tensor:
        """Commands [N, A] in m/s^2."""
        s = self.steering
        free = (s.up.free[index] @ s.upwards[..., None]).squeeze(-1)
        wanted = torch.zeros_like(free)
        wanted[..., 0] = place[..., 2]
        wanted[..., 1] = torch.where(swing | hold, self.rise, 0.0)
        missed = wanted - free
        missed[..., 0].masked_fill_(hold, 0.0)
        return (s.up.gain[index] * missed).sum(-1)
