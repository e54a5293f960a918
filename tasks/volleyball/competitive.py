"""Matches: 1 vs 1, 3 vs 3 and 6 vs 6, one rally an episode. Constants: VolleyBots, envs/competitive/volleyball_{1v1,3v3,6v6}.py
and competitive/utils/rules.py (arXiv 2502.01932).

All drones are one group "drone", those of the near side (x > 0) first, those of the far side after them: observations are
symmetric (symmetry.py), so one policy trained by any trainer plays both sides, which is self-play. `rookery match` lets two
policies play against each other.

A drone that commits a fault loses the point for its side, one that flies too low or too close to its partner included.
VolleyBots gives that point to nobody: then half of the rallies of a policy that plays itself have no winner, and flying into
the floor is a way not to lose.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from rookery.sim.env import Team
from rookery.sim.quantities import POSITION, command, own, place
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.task import Wrapper
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.outdated import OutdatedWorlds
from rookery.tasks.volleyball import plays
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.competition import (
    CRASH,
    HIT,
    MISPLACED,
    NEAR_ANCHOR,
    NEAR_BALL,
    REWARDS,
    TOO_CLOSE,
    WIN,
    earn,
    relations,
)
from rookery.tasks.volleyball.rules import ALTERNATE, IN_THE_AIR, ON_GROUND, PLANE, TEAMS, Rules
from rookery.tasks.volleyball.state import MIDDLE, PLACE_BIAS, PLACE_NOISE, drone_state, own_side
from rookery.tasks.volleyball.symmetry import Place, far_places

TURN, MAY_HIT = "1, 0 when the own side is to play, else 0, 1", "1, 0 while the drone may hit, else 0, 1"
NUMBER, DRONES = (
    "1 at this drone's place among its side, 0 elsewhere",
    "positions of the own side's drones, then of the other's",
)
"""Quantities that a drone observes; a side of one drone is that drone."""


@dataclass(frozen=True)
class MatchConfig(VolleyConfig):
    """Values that all matches have."""

    net_band_m: float = 0.76  # m
    drone_low_m: float = 0.3  # m, height below which a drone has crashed
    apart_m: float = 0.0  # m, least distance of two drones of one side


@dataclass(frozen=True)
class Match1v1Config(MatchConfig):
    """Values of volley-1v1."""

    court_length_m: float = 6.0  # m
    court_width_m: float = 3.0  # m
    episode_s: float = 20.0  # s
    ball_above_m: float = 1.5  # m
    start_box_m: tuple[float, ...] = (0.1, 0.1, 0.1)  # m
    start_tilt: float = 0.1  # rad
    start_yaw: float = 0.1  # rad
    reward: Weights = Weights(win=100.0, hit=5.0, near_ball=0.5, misplaced=-0.2, crash=-100.0)


@dataclass(frozen=True)
class Match3v3Config(MatchConfig):
    """Values of volley-3v3. Drones start exactly at their places."""

    court_length_m: float = 12.0  # m
    court_width_m: float = 6.0  # m
    episode_s: float = 10.0  # s
    ball_above_m: float = 3.0  # m
    start_box_m: tuple[float, ...] = (0.0, 0.0, 0.0)  # m
    start_tilt: float = 0.0  # rad
    start_yaw: float = 0.0  # rad
    apart_m: float = 0.8  # m
    reward: Weights = Weights(
        win=100.0, hit=10.0, near_ball=0.5, near_anchor=0.05, crash=-100.0, too_close=-100.0
    )  # fmt: skip


@dataclass(frozen=True)
class Match6v6Config(Match3v3Config):
    """Values of volley-6v6."""

    court_length_m: float = 18.0  # m
    court_width_m: float = 9.0  # m


class Match(VolleyTask):
    """Base of matches. Success: the near side wins the point.

    Metrics besides: `near_wins` and `far_wins` (0 or 1; neither where the time ran out), `near_serves` and `far_serves`,
    `hits` (legal, of both sides), `crossings` of the net, `seconds` the rally took. How it ended is the episode's cause. A
    policy that plays both sides wins half of its points: `rookery match` measures it against another one.
    """

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the near side won the rally",
            "near_wins": "1 where the near side won the rally",
            "far_wins": "1 where the far side won it",
            "near_serves": "1 where the near side served",
            "far_serves": "1 where the far side served",
            "hits": "hits of the ball by all drones",
            "crossings": "times that the ball crossed the net",
            "seconds": "s, length of the rally",
            **TURNING_METRICS,
        }
    )

    turned: ClassVar[bool] = True
    headline: ClassVar[str] = "near_wins"
    event_definitions = MappingProxyType(
        {
            **VolleyTask.event_definitions,
            "ball_hit": "somebody hits the ball, legally; all drones are told",
            "point_near": "the near side wins the rally",
            "point_far": "the far side wins the rally",
        }
    )
    server: ClassVar[int] = 0
    """Which drone of a side serves."""
    terms: ClassVar[dict[str, int]]
    """The reward's terms and their rows, see competition."""
    cfg: MatchConfig

    @property
    def near(self) -> slice:
        """Agents of the near side."""
        return slice(0, self.num_drones // 2)

    @property
    def far(self) -> slice:
        """Agents of the far side."""
        return slice(self.num_drones // 2, self.num_drones)

    @property
    def in_teams(self) -> bool:
        """True where a side has more than one drone."""
        return self.num_drones > 2

    def teams(self) -> dict[str, Team]:
        agents = tuple(range(self.num_drones))
        return {"near": {"drone": agents[self.near]}, "far": {"drone": agents[self.far]}}

    def events(self) -> dict[str, Tensor]:
        loser = self.referee.loser
        events = super().events()
        return events | {"ball_hit": events["hit"].any(1), "point_near": loser == 1, "point_far": loser == 0}

    def rules(self) -> Rules:
        c = self.cfg
        return self.court_rules(
            order=TEAMS if self.in_teams else ALTERNATE, bounds=ON_GROUND if self.in_teams else IN_THE_AIR,
            ball_low=0.2, drone_low=c.drone_low_m, drone_net=PLANE, apart=c.apart_m,
        )  # fmt: skip

    def groups(self) -> dict[str, Group]:
        a = self.num_drones // 2
        anchor, ball, velocity, *landing = self.ball_terms()
        turn = Term("turn", own(TURN, 2))
        if self.in_teams:
            others: tuple[Term, ...] = (
                anchor,
                ball,
                velocity,
                turn,
                Term("number", command(NUMBER, a)),
                Term("already_hit", own(MAY_HIT, 2)),
                Term(
                    "positions", own_side(place(DRONES, 2 * a) - MIDDLE), scale=0.25, noise=PLACE_NOISE, bias=PLACE_BIAS,
                    estimated="other drones' position",
                ),
            )  # fmt: skip
        else:
            offset = own_side(POSITION - place("opponent's position"))
            opponent = Term(
                "from_opponent",
                offset,
                scale=0.25,
                noise=PLACE_NOISE,
                bias=PLACE_BIAS,
                estimated="other drones' position",
            )
            others = (anchor, opponent, ball, velocity, turn)
        terms = (*self.state_terms(), *others, *landing, *self.action_terms())
        return {"drone": Group(self.num_drones, terms, self.action, history=self.cfg.history)}

    def measured(self) -> dict[str, dict[str, Tensor]]:
        seen, sheet, a = super().measured()["drone"], self.referee.sheet, self.num_drones // 2
        sides = torch.arange(2).repeat_interleave(a)
        to_play = torch.from_numpy(sheet.turn)[:, None] == sides
        may_hit = torch.from_numpy(sheet.used) == 0
        own_first = [(a * side + torch.arange(2 * a)) % (2 * a) for side in sides.tolist()]
        out = {
            TURN: torch.stack((to_play, ~to_play), -1), MAY_HIT: torch.stack((may_hit, ~may_hit), -1),
            NUMBER: torch.eye(a).repeat(2, 1).expand(len(to_play), -1, -1),
            DRONES: torch.stack([seen["position"][:, order].flatten(1) for order in own_first], 1),
            "opponent's position": seen["position"].roll(a, 1),
        }  # fmt: skip
        return {"drone": seen | {name: value.float() for name, value in out.items()}}

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        a = self.num_drones
        group = self.groups()["drone"]
        observed = torch.zeros(n, a, group.frame_size)
        self._out = observed.numpy()
        self._sides = self._turned.numpy()
        self._outdated = OutdatedWorlds(n)
        sizes = [t.size for t in group.observation]
        self._views = dict(zip((t.name for t in group.observation), observed.split(sizes, dim=-1), strict=True))
        self._earned = torch.zeros(REWARDS, n, a)
        self._paid = {name: self._earned[row] for name, row in self.terms.items()}
        self._lines = (0.5 * self.cfg.court_length_m, 0.5 * self.cfg.court_width_m)

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self._outdated.begin(ids)

    def advance(self) -> None:
        super().advance()
        self._outdated.move()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._outdated.move()

    def servers(self, ids: Tensor) -> Tensor:
        side = self.rng(ids).integers(0, 2)
        return self.server + side * (self.num_drones // 2)

    def observe(self) -> dict[str, dict[str, Tensor]]:
        assert self.ball is not None
        x = self.drones.bodies.state.numpy()
        ball = self.ball.state[:, 0].numpy()
        worlds = self._outdated.take().numpy()
        sheet = self.referee.sheet
        drone_state(worlds, x, self.drones.rotor_speed.numpy(), self._sides, self._out)
        relations(worlds, x, ball, self._start[0], sheet.turn, sheet.used, self.in_teams, self._out)
        if self.cfg.observe_landing:
            for name, value in self.observe_landing().items():
                self._views[name].copy_(value)
        for name, value in self.observe_action().items():
            self._views[name].copy_(value)
        return {"drone": self._views.copy()}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        assert self.ball is not None
        c = self.cfg
        earn(
            self.drones.bodies.state.numpy(), self.ball.state[:, 0].numpy(), self._start[0], self.referee.sheet, self.in_teams,
            self._lines, c.drone_low_m, c.apart_m, self._earned.numpy(),
        )  # fmt: skip
        return {"drone": self._paid.copy()}

    def metrics(self) -> dict[str, Tensor]:
        r = self.referee
        won = (r.loser == 1).float()
        half = self.num_drones // 2
        return {
            "success": won,
            "near_wins": won,
            "far_wins": (r.loser == 0).float(),
            "near_serves": (r.server < half).float(),
            "far_serves": (r.server >= half).float(),
            "hits": r.total.float(),
            "crossings": r.crossings.float(),
            "seconds": r.clock * self.cfg.control_dt,
            **self.turning.metrics(),
        }


class Volley1v1(Match):
    """One drone against one.

    Two drones hit the ball in turns; see Match.
    """

    name = "volley-1v1"

    Config: ClassVar[type] = Match1v1Config
    anchors: ClassVar[tuple[Place, ...]] = ((1.5, 0.0, 2.0), (-1.5, 0.0, 2.0))
    terms: ClassVar[dict[str, int]] = {
        "win": WIN, "hit": HIT, "near_ball": NEAR_BALL, "misplaced": MISPLACED, "crash": CRASH
    }  # fmt: skip

    def controller(self) -> plays.Act:
        return plays.TakeTurns(self, apex=4.2)


class Volley1v1Frozen(Volley1v1):
    """One drone against a frozen opponent.

    The match is that of volley-1v1; only the near side learns. The far side is flown by the config value `frozen`, by default
    the scripted controller.
    """

    name = "volley-1v1-frozen"
    wrapper = Wrapper(
        "rookery.policies.multiagent.frozen_opponent:frozen_opponent", frozen="controller", options={"team": "near"}
    )


_TEAM_TERMS = {
    "win": WIN, "hit": HIT, "near_ball": NEAR_BALL, "near_anchor": NEAR_ANCHOR, "crash": CRASH, "too_close": TOO_CLOSE
}  # fmt: skip
_THREE: tuple[Place, ...] = ((3.0, -1.5, 2.0), (3.0, 1.5, 2.0), (6.0, 0.0, 2.0))
_SIX: tuple[Place, ...] = (
    (3.0, -3.0, 2.0), (3.0, 0.0, 2.0), (3.0, 3.0, 2.0), (6.0, -3.0, 2.0), (9.0, 0.0, 2.0), (6.0, 3.0, 2.0)
)  # fmt: skip


class Volley3v3(Match):
    """Three drones against three.

    Two sides of three; each drone may hit once until the ball crosses the net; see Match.
    """

    name = "volley-3v3"

    headline: ClassVar[str] = "crossings"
    Config: ClassVar[type] = Match3v3Config
    server: ClassVar[int] = 2
    anchors: ClassVar[tuple[Place, ...]] = (*_THREE, *far_places(_THREE))
    terms: ClassVar[dict[str, int]] = _TEAM_TERMS

    def controller(self) -> plays.Act:
        return plays.MatchPlay(self, apex=6.0)


class Volley6v6(Match):
    """Six drones against six.

    Two sides of six, by the same rule: so up to six hits a side, as published; see Match.
    """

    name = "volley-6v6"

    headline: ClassVar[str] = "crossings"
    Config: ClassVar[type] = Match6v6Config
    server: ClassVar[int] = 4
    anchors: ClassVar[tuple[Place, ...]] = (*_SIX, *far_places(_SIX))
    terms: ClassVar[dict[str, int]] = _TEAM_TERMS

    def controller(self) -> plays.Act:
        return plays.MatchPlay(self, apex=5.0, serve_to=2.5, serve_contact=2.8, serve_apex=6.5)
