"""Who plays which ball, and where to: the scripted team of each volleyball task, as its baseline.

Each play writes the goals of the players (scripted.py) from the referee's sheet, the true state of the ball and the drones'
places. They play for long rallies: every ball goes high and to where somebody stands.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rookery.sim.rotor.parameters import GRAVITY
from rookery.tasks.volleyball.ballistics import landings
from rookery.tasks.volleyball.base import VolleyTask
from rookery.tasks.volleyball.flight import FlightGains
from rookery.tasks.volleyball.rules import TEAMS
from rookery.tasks.volleyball.scripted import (
    ARC,
    CONTACT,
    DRIVE,
    HOME,
    HURRY,
    SPREAD,
    STRIKE,
    TARGET,
    Players,
    Timing,
    Touch,
)

Act = Callable[[dict[str, Tensor]], dict[str, Tensor]]


class Team:
    """A baseline: called with observations (which it does not need) it gives the actions of all drones.

    Args:
        task: set up.
        contact, spread: m, height of the ball's centre at which it is played, and by how much it may differ.
        apex: m, of lobs.
    """

    def __init__(
        self, task: VolleyTask, contact: float = 2.3, spread: float = 0.5, apex: float = 4.0, timing: Timing | None = None,
        gains: FlightGains | None = None,
    ) -> None:  # fmt: skip
        self.task = task
        self.players = Players(task.drones, task.ball, touch(task), task.cfg.control_dt, timing, gains)
        goals = self.goals = self.players.goals
        goals[..., HOME : HOME + 3] = task.places
        goals[..., CONTACT], goals[..., SPREAD] = contact, spread
        goals[..., TARGET : TARGET + 3] = task.places
        goals[..., TARGET + 2] = contact
        goals[..., ARC] = apex
        goals[..., HURRY] = 1.0
        self._numbers = torch.arange(task.num_drones)

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        fresh = (self.task.steps == 0).nonzero().squeeze(1)
        if len(fresh):
            self.players.reset(fresh)
        self.plan()
        return {"drone": self.players.act()}

    def plan(self) -> None:
        """Write `goals` for this control step."""
        raise NotImplementedError

    def landing(self) -> Tensor:
        """[N, 3]: x, y (m) where the ball comes down to the height of contact, and s until then, -1 for never."""
        p = self.players
        out = torch.empty(len(self.goals), 3)
        p.see()
        landings(p.balls.numpy(), float(self.goals[0, 0, CONTACT]), GRAVITY, p.touch.drag, out.numpy())
        return out


class WayPoints(Team):
    """Back-and-forth: fly to the target."""

    def plan(self) -> None:
        self.goals[:, 0, HOME : HOME + 3] = self.task.target  # type: ignore[attr-defined]


class SoloBump(Team):
    """Bump the ball straight up, and each time a part of the way back to the place. The drone stays low, as the task wants."""

    def __init__(self, task: VolleyTask, contact: float = 2.15, spread: float = 0.15, apex: float = 3.8) -> None:
        super().__init__(task, contact, spread, apex)

    def plan(self) -> None:
        self.goals[..., STRIKE] = 1.0
        landing = self.landing()[:, None, :2]
        self.goals[..., TARGET : TARGET + 2] = landing + 0.4 * (self.task.places[:, :2] - landing)


class Hit(Team):
    """Hit the ball once, far over the net.

    Args:
        reach: m, how far beyond the drone's place the ball shall go.
    """

    def __init__(self, task: VolleyTask, reach: float = 12.0, **others: float) -> None:
        super().__init__(task, **others)  # type: ignore[arg-type]
        self.goals[..., TARGET] -= reach

    def plan(self) -> None:
        self.goals[..., STRIKE] = (self.task.referee.total == 0)[:, None].float()


class TakeTurns(Team):
    """Whose turn it is plays the ball to the other drone: bump-and-pass and 1 vs 1."""

    def __init__(self, task: VolleyTask, **others: float) -> None:
        super().__init__(task, **others)  # type: ignore[arg-type]
        self.goals[..., TARGET : TARGET + 2] = task.places[:, :2].flip(0)

    def plan(self) -> None:
        task = self.task
        turn = task.referee.turn[:, None] == self._numbers
        if task.referee.teams:  # over the net there is nothing to play
            turn &= self.landing()[:, :1] * task.places[:, 0] > 0.3 * task.places[:, 0].abs()
        self.goals[..., STRIKE] = turn.float()


class SetAndSpike(TakeTurns):
    """The setter plays the ball high above the attacker, which drives it down over the net.

    Args:
        above: m, height at which the attacker meets the ball.
        flight: s, of the spike.
    """

    def __init__(self, task: VolleyTask, apex: float = 8.0, above: float = 3.8, flight: float = 0.85) -> None:
        super().__init__(task, contact=2.6, apex=apex)
        self.goals[:, 1, SPREAD] = 0.2
        self.goals[:, 0, TARGET + 2] = above
        self.goals[:, 1, CONTACT] = above
        cfg = task.cfg
        self.goals[:, 1, TARGET : TARGET + 3] = torch.tensor((cfg.target_x_m, cfg.target_y_m, task.ball_kind.radius))
        self.goals[:, 1, ARC], self.goals[:, 1, DRIVE] = flight, 1.0


class Match(Team):
    """3 vs 3 and 6 vs 6: the ball belongs to the drone whose place is nearest to where it comes down, among those that may
    still play it. It goes over the net to one of the places on the other side, the next one each time."""

    def __init__(self, task: VolleyTask, **others: float) -> None:
        super().__init__(task, **others)  # type: ignore[arg-type]
        self._side = torch.tensor(task.sides)
        a = len(self._side) // 2
        self._opponents = torch.where(self._side[:, None] == 0, a + torch.arange(a), torch.arange(a))  # [A, a]

    def plan(self) -> None:
        task, r = self.task, self.task.referee
        landing = self.landing()
        side = (landing[:, 0] < 0).long()
        mine = self._side == side[:, None]
        hitter = r.last_hitter.long()
        coming = (hitter >= 0) & (self._side[hitter.clamp_min(0)] != side)  # from the other side: everybody may play it
        allowed = mine & (coming[:, None] | (r.used == 0)) & (landing[:, 2:] >= 0)
        far = (task.places[:, :2] - landing[:, None, :2]).norm(dim=-1).masked_fill(~allowed, 1e9)
        chosen = far.argmin(1, keepdim=True)
        self.goals[..., STRIKE] = 0.0
        self.goals[..., STRIKE].scatter_(1, chosen, allowed.any(1, keepdim=True).float())
        turn = r.total.long()[:, None] % self._opponents.shape[1]
        target = self._opponents.expand(len(side), -1, -1).gather(2, turn[:, None].expand(-1, len(self._side), 1))
        self.goals[..., TARGET : TARGET + 2] = task.places[target.squeeze(2), :2]


def touch(task: VolleyTask) -> Touch:
    """What the player knows of a task's ball and racket, from its nominal constants."""
    ball, drone = task.ball_kind, task.drone
    drag = task.air.ball_constants(ball.mass, ball.radius)[0] if task.air.ball_drag else 0.0
    share = drone.mass / (drone.mass + ball.mass)
    return Touch(ball.restitution, share, drag, racket_face(task) + ball.radius)


def racket_face(task: VolleyTask) -> float:
    """m, height of the racket's upper face above a drone's centre, from the compiled scene."""
    if not task.has_ball:
        return 0.0
    geom = task.world.model.geom(f"{task.names[0]}/racket")
    return float(geom.pos[2] + geom.size[1])


def match(task: VolleyTask) -> Team:
    """The scripted teams of a competitive task."""
    return Match(task, apex=4.4) if task.referee.rules.order == TEAMS else TakeTurns(task, apex=4.2)
