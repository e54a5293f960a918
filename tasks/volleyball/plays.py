"""Who plays which ball, and where to: the controller of each volleyball task.

Each play writes the goals of the players (scripted.py) from the referee's sheet, the true state of the ball and the drones'
places. They play for long rallies: every ball goes high and to where somebody stands.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from rookery.sim.multirotor.parameters import GRAVITY
from rookery.tasks.volleyball.ballistics import landings
from rookery.tasks.volleyball.base import VolleyTask
from rookery.tasks.volleyball.flight import Tolerance
from rookery.tasks.volleyball.players import Players, Timing, Touch
from rookery.tasks.volleyball.rules import SERVE

SHORT = 0.6
"""Part of what a bump has fallen short by which the next one aims higher."""
Act = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def _names() -> Iterator[str]:
    """Names of a task's controllers in its saved state."""
    yield "players"
    yield from (f"players_{i}" for i in itertools.count(2))


class Team:
    """A controller: called with observations (which it does not need) it gives the actions of all drones.

    Args:
        task: set up.
        contact, spread: m, height of the ball's centre at which it is played, and by how much it may differ.
        apex: m, of lobs.
        serve_contact, serve_apex: m, the same of the first stroke, for which there is less time.
        wait: m, height at which drones wait for their turn; that of their places if None.
    """

    def __init__(
        self, task: VolleyTask, contact: float = 2.3, spread: float = 0.5, apex: float = 4.0,
        serve_contact: float | None = None, serve_apex: float | None = None, wait: float | None = None,
        timing: Timing | None = None, tolerance: Tolerance | None = None,
    ) -> None:  # fmt: skip
        self.task = task
        self.players = Players(task.drones, task.ball, touch(task), task.cfg.control_dt, timing, tolerance)
        # so that a saved environment includes what its controllers remember, of which there may be one for each side
        task.child(next(name for name in _names() if name not in task._children), self.players)
        goals = self.goals = self.players.goals
        goals.home[:] = task.places
        goals.target[:] = task.places
        if wait is not None:
            goals.home[..., 2] = wait
        goals.contact[:] = contact
        goals.spread[:] = spread
        goals.apex[:] = apex
        goals.target[..., 2] = contact
        self._numbers = torch.arange(task.num_drones)
        self._contact = goals.contact.clone()
        self._apex = goals.apex.clone()
        self._serve_contact = self._contact if serve_contact is None else torch.full_like(self._contact, serve_contact)
        self._serve_apex = self._apex if serve_apex is None else torch.full_like(self._apex, serve_apex)

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        task = self.task
        self.players.steering.note(task.drones.physical(task.commanded), task.late.get("drone"))
        fresh = (task.steps == 0).nonzero().squeeze(1)
        if len(fresh):
            self.players.reset(fresh)
        if self.task.has_ball:
            serve = (self.task.referee.total == 0)[:, None]
            self.goals.contact[:] = torch.where(serve, self._serve_contact, self._contact)
            self.goals.apex[:] = torch.where(serve, self._serve_apex, self._apex)
        self.players.see()
        self.plan()
        return {"drone": self.players.act()}

    def plan(self) -> None:
        """Write `goals` for this control step."""
        raise NotImplementedError

    def landing(self) -> Tensor:
        """[N, 3]: x, y (m) where the ball comes down to the height of contact, and s until then, -1 for never."""
        p = self.players
        out = torch.empty(len(p.balls), 3)
        landings(p.balls.numpy(), float(self.goals.contact[0, 0]), GRAVITY, p.touch.drag, out.numpy())
        return out


class WayPoints(Team):
    """Back-and-forth: fly to the target."""

    def plan(self) -> None:
        self.goals.home[:, 0] = self.task.target  # type: ignore[attr-defined]


class SoloBump(Team):
    """Bump the ball straight up, and each time a part of the way back to the place. The drone stays low, as the task wants.

    Args:
        highest: m, up to which it aims where its strokes fall short, as those of weak and late rotors do.
    """

    def __init__(
        self, task: VolleyTask, contact: float = 2.25, spread: float = 0.15, apex: float = 3.9, highest: float = 4.8
    ) -> None:
        super().__init__(task, contact, spread, apex)
        self._wanted = apex
        self._highest = highest
        self._aim = self.goals.buffer("aim", *self.goals.apex.shape).fill_(apex)

    def plan(self) -> None:
        self.goals.strike[:] = True
        landing = self.landing()[:, None, :2]
        self.goals.target[..., :2] = landing + 0.4 * (self.task.places[:, :2] - landing)
        self._correct()
        self.goals.apex.copy_(self._aim)

    def _correct(self) -> None:
        """Aim higher by a part of what the stroke of this control step has fallen short, and lower where it was too high."""
        ball, aim = self.players.balls, self._aim
        apex = ball[:, 2] + ball[:, 5].clamp_min(0.0).square() / (2.0 * GRAVITY)
        better = (aim + SHORT * (self._wanted - apex[:, None])).clamp(self._wanted, self._highest)
        aim.copy_(torch.where(self.task.referee.hit_now.bool(), better, aim))
        aim[self.task.steps == 0] = self._wanted


class Hit(Team):
    """Hit the ball once, far over the net.

    Args:
        reach: m, how far beyond the drone's place the ball goes.
    """

    def __init__(self, task: VolleyTask, reach: float = 12.0, **others: Any) -> None:
        super().__init__(task, **others)
        self.goals.target[..., 0] -= reach

    def plan(self) -> None:
        self.goals.strike[:] = (self.task.referee.total == 0)[:, None]


class TakeTurns(Team):
    """Whose turn it is plays the ball to the other drone: bump-and-pass and 1 vs 1.

    Args:
        nearer: part of the way from its place to the middle between both that each drone comes nearer, for shorter passes.
        serve_way: part of the way to the other's spot that the first stroke goes, for which the drone must tilt less.
    """

    def __init__(self, task: VolleyTask, nearer: float = 0.0, serve_way: float = 1.0, **others: Any) -> None:
        super().__init__(task, **others)
        self._serve_way = serve_way
        spots = task.places + nearer * (task.places.mean(0) - task.places)
        self.goals.home[..., :2] = spots[:, :2]
        self._aims = spots[:, :2].flip(0)
        self.goals.target[..., :2] = self._aims

    def plan(self) -> None:
        task = self.task
        if self._serve_way < 1.0:
            serve = (task.referee.total == 0)[:, None, None]
            now = self.players.balls[:, None, :2]
            self.goals.target[..., :2] = torch.where(serve, now + self._serve_way * (self._aims - now), self._aims)
        turn = task.referee.turn[:, None] == self._numbers
        if task.referee.teams:  # over the net there is nothing to play
            turn &= self.landing()[:, :1] * task.places[:, 0] > 0.3 * task.places[:, 0].abs()
        self.goals.strike[:] = turn


class SetAndSpike(TakeTurns):
    """The setter plays the ball high above the attacker, which drives it over the net, from where it can stop before it.

    Args:
        spot: (x, y) m, where the attacker meets the ball; above: m, at which height.
        flight: s, of the spike.
        retreat: m/s away from the net, at which the attacker meets the ball: its tilt then drives it towards the net.
        after: m from its spot, away from the net, where it goes then.
        aim: (x, y) m on the ground, where the spike goes; the middle of the task's target if None.
    """

    def __init__(
        self, task: VolleyTask, spot: tuple[float, float] = (2.8, 0.9), above: float = 3.5, flight: float = 1.27,
        retreat: float = 0.0, after: float = 0.0, aim: tuple[float, float] | None = None, **others: Any,
    ) -> None:  # fmt: skip
        super().__init__(task, **others)
        goals = self.goals
        cfg = task.cfg
        goals.target[:, 0] = torch.tensor((*spot, above))
        goals.home[:, 1, :2] = torch.tensor(spot)
        self._contact[:, 1] = above
        goals.target[:, 1] = torch.tensor((*(aim or (cfg.target_x_m, cfg.target_y_m)), task.ball_kind.radius))
        goals.flight[:, 1] = flight
        goals.drift[:, 1, 0] = retreat
        self._spot = spot[0]
        self._after = after

    def plan(self) -> None:
        super().plan()
        self.goals.home[:, 1, 0] = self._spot + self._after * (self.task.referee.turn > 1)


class AsTold(Team):
    """One drone plays a ball as its task tells it, or flies to the place that it is told. It stays where it is while the ball
    comes down on the other side.

    Args:
        retreat: m/s away from the net, at which balls are driven: the tilt then drives them towards the net.
    """

    def __init__(self, task: VolleyTask, retreat: float = 0.5, **others: Any) -> None:
        super().__init__(task, spread=0.3, **others)
        self._retreat = retreat

    def plan(self) -> None:
        task: Any = self.task
        g = self.goals
        told = task.stroke.sum(-1) > 0.0
        g.contact[:, 0] = torch.where(told, task.contact, 2.0)
        g.strike[:, 0] = told & (self._down()[:, 0] > 0.3)
        g.target[:, 0] = task.aim
        g.apex[:, 0] = task.apex
        g.flight[:, 0] = task.flight
        g.drift[:, 0, 0] = self._retreat * (task.flight > 0.0)
        here = task.drones.bodies.pos[:, 0].clone()
        here[:, 2].clamp_(1.6, 2.4)
        g.home[:, 0] = torch.where(told[:, None], here, task.aim)

    def _down(self) -> Tensor:
        """[N, 2] m, where balls come down to the height at which they are to be met; where they are, if they never do."""
        p, v = self.players.balls[:, :3], self.players.balls[:, 3:]
        above = v[:, 2].square() + 2.0 * GRAVITY * (p[:, 2] - self.goals.contact[:, 0])
        time = (v[:, 2] + above.clamp_min(0.0).sqrt()) / GRAVITY
        return p[:, :2] + time.clamp_min(0.0)[:, None] * v[:, :2]


class MatchPlay(Team):
    """3 vs 3 and 6 vs 6: the ball belongs to the drone whose place is nearest to where it comes down, among those that may
    still play it. It goes over the net to one of the places on the other side that are near enough, in turns.

    Args:
        reach: m, of a pass over the net.
        room: m, that others keep to where the ball comes down.
        serve_to: m behind the net, in its middle: where the serve goes; 0 for where any pass goes.
    """

    def __init__(
        self, task: VolleyTask, reach: float = 7.5, serve_to: float = 0.0, room: float = 1.5, **others: Any
    ) -> None:
        super().__init__(task, **others)
        self._side = torch.tensor(task.sides)
        a = len(self._side) // 2
        self._opponents = torch.stack((a + torch.arange(a), torch.arange(a)))  # [2, a] of each side
        self._serve = torch.tensor([[-serve_to, 0.0], [serve_to, 0.0]])  # [2, 2] m, of each side
        self._reach = reach
        self._room = room

    def plan(self) -> None:
        task = self.task
        r = self.task.referee
        g = self.goals
        landing = self.landing()
        side = (landing[:, 0] < 0).long()
        mine = self._side == side[:, None]
        hitter = r.last_hitter.long()
        coming = (hitter >= 0) & (self._side[hitter.clamp_min(0)] != side)  # from the other side: everybody may play it
        allowed = mine & (coming[:, None] | (r.used == 0)) & (landing[:, 2:] >= 0)
        far = (task.places[:, :2] - landing[:, None, :2]).norm(dim=-1).masked_fill(~allowed, 1e9)
        chosen = far.argmin(1, keepdim=True)
        g.strike[:] = (self._numbers == chosen) & allowed.any(1, keepdim=True)
        away = task.places[:, :2] - landing[:, None, :2]
        room = away.norm(dim=-1, keepdim=True).clamp_min(1e-3)
        g.home[..., :2] = task.places[:, :2] + (self._room - room).clamp_min(0.0) * away / room
        g.target[..., :2] = self._aim(landing[:, :2], side)[:, None]
        if self._serve[1, 0] > 0.0:
            serve = (r.phase == SERVE)[:, None]
            g.target[..., :2] = torch.where(serve[..., None], self._serve[side][:, None], g.target[..., :2])

    def _aim(self, landing: Tensor, side: Tensor) -> Tensor:
        """[N, 2] m: the place of the next opponent in turn that is near enough, or of the nearest."""
        places = self.task.places[self._opponents[side], :2]  # [N, a, 2]
        far = (places - landing[:, None]).norm(dim=-1)
        count = far.shape[1]
        after = (torch.arange(count) - self.task.referee.total[:, None]) % count
        order = torch.where(far < self._reach, after.float(), count + far)
        return places.gather(1, order.argmin(1)[:, None, None].expand(-1, 1, 2)).squeeze(1)


def touch(task: VolleyTask) -> Touch:
    """Constants of a task's ball and racket, from its nominal constants."""
    ball = task.ball_kind
    drone = task.drone
    drag = task.effects.ball_constants(ball.mass, ball.radius)[0] if task.effects.ball_drag else 0.0
    share = drone.mass / (drone.mass + ball.mass)
    return Touch(ball.restitution, share, drag, racket_face(task) + ball.radius)


def racket_face(task: VolleyTask) -> float:
    """m, height of the racket's upper face above a drone's centre, from the compiled scene."""
    if not task.has_ball:
        return 0.0
    geom = task.world.model.geom(f"{task.names[0]}/racket")
    return float(geom.pos[2] + geom.size[1])
