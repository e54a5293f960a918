"""Bump and pass: two drones play the ball to each other, high over the line between them."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import torch
from torch import Tensor

from rookery.robots.drones.drone import GRAVITY
from rookery.sim.quantities import POSITION, command, own, place
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_inverse, distance
from rookery.tasks.volleyball import plays
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.flight import Tolerance
from rookery.tasks.volleyball.rally_starts import begin_in_flight
from rookery.tasks.volleyball.rules import ALTERNATE, IN_THE_AIR, SLAB, Rules
from rookery.tasks.volleyball.state import PLACE_BIAS, PLACE_NOISE


@dataclass(frozen=True)
class BumpAndPassConfig(VolleyConfig):
    """Values of volley-bump-and-pass (VolleyBots' MultiJuggle, arXiv 2502.01932)."""

    ball_above_m: float = 2.0  # m, where the ball starts above the first drone
    pass_height_m: float = 4.0  # m, height above which a pass must cross the line y = 0
    anchor_radius_m: float = 0.5  # m, around its anchor in which a drone may be
    success_passes: int = 10  # passes in an episode that count as a success
    in_flight: float = 0.0  # share of episodes that begin with a pass in flight, for training
    reward: Weights = Weights(
        hit=1.0,
        passed=1.0,
        far_from_anchor=-0.05,
        near_ball=0.05,
        direction=1.0,
        wrong_hit=-10.0,
        drone_fault=-10.0,
        ball_fault=-10.0,
        under_landing=0.0,
        at_anchor=0.0,
        ball_height=0.0,
        pass_aim=0.0,
    )


TURN, NUMBER = "1 for the drone that is to hit next, 0 for the other", "1 for this drone, 0 for the other"
"""Quantities that a drone observes."""


class Pair(VolleyTask):
    """The base of the tasks of two drones: observations, and terms of the reward."""

    enough_m: ClassVar[float] = 4.3  # m, apex of a pass that gives the other time to get below it, for training

    def groups(self) -> dict[str, Group]:
        way = place("other drone's position") - POSITION
        terms = (
            *self.state_terms(),
            *self.ball_terms(),
            Term("to_other", way, scale=0.25, noise=PLACE_NOISE, bias=PLACE_BIAS, estimated="other drones' position"),
            Term("turn", own(TURN, 2, doc="both 0 when both are through")),
            Term("number", command(NUMBER, 2)),
            *self.action_terms(),
        )
        return {"drone": Group(2, terms, self.action, history=self.cfg.history)}

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        self._number = torch.eye(2).expand(n, 2, 2)

    def measured(self) -> dict[str, dict[str, Tensor]]:
        seen = super().measured()["drone"]
        turn = torch.nn.functional.one_hot(self.referee.turn.clamp_min(0).long(), 2) * (self.referee.turn >= 0)[:, None]
        own = {"other drone's position": seen["position"].flip(1), TURN: turn.float()[:, None].expand(-1, 2, -1)}
        return {"drone": seen | own | {NUMBER: self._number}}

    def is_turn(self) -> Tensor:
        """[N, 2] float32, 1 for the drone that is to hit next."""
        return (self.referee.turn[:, None] == self._numbers).float()

    def observe(self) -> dict[str, dict[str, Tensor]]:
        pos = self.drones.bodies.pos
        return {
            "drone": {
                **self.observe_state(),
                **self.observe_ball(),
                "to_other": pos.flip(1) - pos,
                "turn": self.is_turn()[:, None].expand(-1, 2, -1),
                "number": self._number,
                **self.observe_action(),
            }
        }

    def shared(self, value: Tensor) -> Tensor:
        """[N, 2] from what both drones get, [N]."""
        return value[:, None].expand(-1, 2)

    def far_from_anchor(self, radius: float) -> Tensor:
        """[N, 2] m, the mean over both drones of how far outside the sphere around its anchor each is."""
        away = (self.drones.bodies.pos - self.places).norm(dim=-1)
        return self.shared((away - radius).clamp_min(0.0).mean(1))

    def near_ball(self, weight: Tensor) -> Tensor:
        """[N, 2] the mean over both drones of weight [N, 2] / (1 + horizontal distance to the ball in m)."""
        assert self.ball is not None
        off = (self.drones.bodies.pos[..., :2] - self.ball.pos[..., :2]).norm(dim=-1)
        return self.shared((weight * closeness_inverse(off)).mean(1))

    def training_terms(self) -> dict[str, Tensor]:
        """Terms that the published reward lacks, each [N, 2]; their weights are 0 except in training presets: being where the
        ball comes down when it is one's turn, at one's anchor when it is not, the ball's height above a drone (or 1 m), up to 2
        m, and how near to the other's anchor one's hit will come down, if it flies high enough. They are each drone's own
        doing,
        where the published terms are shared and rare."""
        assert self.ball is not None
        pos = self.drones.bodies.pos
        ball = self.ball.pos
        turn = self.is_turn()
        down, _ = self.landing()
        apex = ball[..., 2] + self.ball.lin_vel[..., 2].clamp_min(0.0).square() / (2.0 * GRAVITY)
        miss = distance(down, self.places[:, :2]).flip(1)
        off = distance(pos[..., :2], down)
        return {
            "under_landing": turn * closeness_inverse(off),
            "at_anchor": (1.0 - turn) * closeness_inverse(distance(pos, self.places)),
            "ball_height": (ball[..., 2] - pos[..., 2].clamp_min(1.0)).clamp(0.0, 2.0),
            "pass_aim": self.referee.hit_now * torch.exp(-0.5 * miss) * torch.sigmoid((apex - self.enough_m) / 0.5),
        }

    def direction(self, wanted: Tensor) -> Tensor:
        """[N, 2] cosine between a drone's legal hit of this step, as the ball flies now, and the `wanted` direction
        [N, 2, 2], in the horizontal plane; 0 without a hit."""
        assert self.ball is not None
        hit = self.referee.hit_now
        if not hit.any():
            return self._no_fault
        return hit * torch.cosine_similarity(wanted, self.ball.lin_vel[..., :2].expand_as(wanted), dim=-1)


class VolleyBumpAndPass(Pair):
    """Two drones pass the ball to each other, again and again.

    Success: 10 passes that crossed the line between the drones above 4 m. Headline: the number of such passes in 16 s.

    The published simulator counts a crossing when it sees the ball within its radius of the line; here it is the crossing
    itself, at its true height.
    """

    name = "volley-bump-and-pass"

    deciding = MappingProxyType({"passes": ("success_passes", False)})
    metric_definitions = MappingProxyType(
        {
            "success": "1 where passes is at least success_passes",
            "passes": "crossings of the net's plane above pass_height_m",
            "hits": "hits of the ball by the drones",
            "crossings": "times that the ball crossed the net's plane",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = BumpAndPassConfig
    headline: ClassVar[str] = "passes"
    event_definitions = MappingProxyType(
        {
            "hit": VolleyTask.event_definitions["hit"],
            "passed": "the ball crosses the line between the drones above pass_height_m",
            **{name: VolleyTask.event_definitions[name] for name in ("ball_down", "crash")},
        }
    )
    anchors: ClassVar[tuple[tuple[float, float, float], ...]] = ((4.5, -2.5, 2.0), (4.5, 2.5, 2.0))
    cfg: BumpAndPassConfig

    def rules(self) -> Rules:
        return self.court_rules(
            order=ALTERNATE, ball_low=2.0 * self.ball_kind.radius, ball_high=16.0, bounds=IN_THE_AIR, cross_axis=1,
            cross_above=self.cfg.pass_height_m, drone_low=0.4, drone_net=SLAB, drone_reach=self.cfg.racket_radius_m,
        )  # fmt: skip

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        if self.cfg.in_flight > 0.0:
            begin_in_flight(self, ids, self.cfg.in_flight, (0, 1))

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        pos = self.drones.bodies.pos[..., :2]
        return {
            "drone": {
                "hit": self.shared(self.referee.hit_now.any(1).float()),
                "passed": self.shared(self.referee.crossed_well.float()),
                "far_from_anchor": self.far_from_anchor(self.cfg.anchor_radius_m),
                "near_ball": self.near_ball(2.0 * self.is_turn() - 1.0),
                "direction": self.direction(pos.flip(1) - pos),
                **self.faults(),
                **self.training_terms(),
            }
        }

    def events(self) -> dict[str, Tensor]:
        out = super().events() | {"passed": self.referee.crossed_well > 0}
        return {name: out[name] for name in self.event_definitions}

    def metrics(self) -> dict[str, Tensor]:
        passes = self.referee.good_crossings.float()
        return {
            "success": (passes >= self.cfg.success_passes).float(),
            "passes": passes,
            "hits": self.referee.total.float(),
            "crossings": self.referee.crossings.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        """Passes just high enough to count, from drones that are soon back in their places. The values are those of a
        cross-entropy search over rallies in randomized worlds, and of one value at a time with noise on the actions."""
        return plays.TakeTurns(
            self, nearer=0.65, contact=3.06, spread=0.35, wait=2.6, apex=4.16, serve_contact=2.53, serve_apex=4.44,
            serve_way=0.93, timing=plays.Timing(engage=1.4, calm=14.0), tolerance=Tolerance(effort=3.4),
        )  # fmt: skip
