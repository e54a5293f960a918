"""Solo bump: one drone bumps a ball straight up, again and again."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from torch import Tensor

from rookery.sim.specs import Group, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.rewards import closeness_inverse, distance
from rookery.tasks.volleyball import plays
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.rules import IN_THE_AIR, PLANE, Rules


@dataclass(frozen=True)
class SoloBumpConfig(VolleyConfig):
    """Values of volley-solo-bump (VolleyBots' SingleJuggleVolleyball, arXiv 2502.01932)."""

    ball_above_m: float = 2.0  # m, where the ball starts above the drone
    apex_m: float = 3.5  # m, height that the ball should rise above after each hit
    ceiling_m: float = 4.5  # m, height that it must not reach
    drone_high_m: float = 2.5  # m, height that the drone must not reach
    success_hits: int = 10  # high flights in an episode that count as a success
    reward: Weights = Weights(
        high_hit=8.0, hit=2.0, under_ball=1.0, ball_height=0.5, wrong_hit=-10.0, drone_fault=-10.0, ball_fault=-10.0
    )


class VolleySoloBump(VolleyTask):
    """One drone bumps the ball up, again and again.

    Success: 10 flights of the ball above 3.5 m that the drone ends with another hit. Headline: their number in 16 s. A flight
    counts when the drone hits again, as published: the ball's last one does not.
    """

    name = "volley-solo-bump"

    deciding = MappingProxyType({"high_hits": ("success_hits", False)})
    metric_definitions = MappingProxyType(
        {
            "success": "1 where high_hits is at least success_hits",
            "high_hits": "flights of the ball above apex_m, from a hit to the next",
            "hits": "hits of the ball by the drone",
            "mean_apex_m": "m, mean height of the ball's apex after a hit",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = SoloBumpConfig
    headline: ClassVar[str] = "high_hits"
    cfg: SoloBumpConfig

    def rules(self) -> Rules:
        c = self.cfg
        return self.court_rules(
            hit_gap=25, gap_is_fault=True, racket_only=False, ball_low=1.5 * self.ball_kind.radius, ball_high=c.ceiling_m,
            bounds=IN_THE_AIR, ball_net=False, apex_above=c.apex_m, drone_low=0.4, drone_high=c.drone_high_m,
            drone_net=PLANE,
        )  # fmt: skip

    def groups(self) -> dict[str, Group]:
        terms = (*self.state_terms(), *self.ball_terms(), *self.action_terms())
        return {"drone": Group(1, terms, self.action, history=self.cfg.history)}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": {**self.observe_state(), **self.observe_ball(), **self.observe_action()}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`high_hit` is a hit up to which the mean apex of the flights between hits was above 3.5 m; `below` and `height`
        are shaping: being under the ball, and the ball's height above the drone (or 1 m), up to 2 m."""
        assert self.ball is not None
        r = self.referee
        pos = self.drones.bodies.pos
        ball = self.ball.pos
        hit = r.hit_now.float()
        high = (r.apex_sum > self.cfg.apex_m * (r.total - 1)) & (r.total > 1)
        return {
            "drone": {
                "high_hit": hit * high[:, None],
                "hit": hit,
                "under_ball": closeness_inverse(distance(pos[..., :2], ball[..., :2])),
                "ball_height": (ball[..., 2] - pos[..., 2].clamp_min(1.0)).clamp(0.0, 2.0),
                **self.faults(),
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        r = self.referee
        high = r.high_hits.float()
        return {
            "success": (high >= self.cfg.success_hits).float(),
            "high_hits": high,
            "hits": r.total.float(),
            "mean_apex_m": r.apex_sum / (r.total - 1).clamp_min(1),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        return plays.SoloBump(self)
