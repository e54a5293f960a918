"""Hit: one drone hits a falling ball once, as far as it can over the net."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from torch import Tensor

from rookery.sim.specs import Group, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.volleyball import plays, rally
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.rules import NOWHERE, PLANE, Rules


@dataclass(frozen=True)
class HitConfig(VolleyConfig):
    """Values of volley-hit (VolleyBots' SingleHitVolleyball, arXiv 2502.01932); `yaw_rate` is not in the publication."""

    episode_s: float = 10.0  # s
    ball_above_m: float = 3.0  # m, where the ball starts above the drone
    finish_height_m: float = 2.0  # m, where the distance is measured as the ball comes down
    reward: Weights = Weights(
        hit=1.0, far_from_anchor=-0.05, distance=2.0, yaw_rate=0.0, wrong_hit=-10.0, drone_fault=-10.0, ball_fault=-10.0
    )


class VolleyHit(VolleyTask):
    """One drone hits the ball once, as far as it can.

    Success: one hit, and the ball comes down through 2 m beyond the net. Headline: the horizontal distance in m between
    the drone's place and there. Ball and drone may leave the court; the net is none (it is only drawn), but the drone must
    not pass it.
    """

    name = "volley-hit"

    metric_definitions = MappingProxyType(
        {
            "success": (
                "1 where the drone hit the ball once, without a fault, and it came down at x < 0, behind the net"
            ),
            "distance_m": (
                "m, horizontal, from the drone's place to where the ball came down; 0 for an episode that ended "
                "otherwise"
            ),
            "distance_x_m": "m, the same along -x",
            "hits": "hits of the ball by the drone",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = HitConfig
    headline: ClassVar[str] = "distance_m"
    over_net: ClassVar[bool] = True
    cfg: HitConfig

    def rules(self) -> Rules:
        return self.court_rules(
            hit_gap=25, gap_is_fault=True, racket_only=False, ball_low=1.5 * self.ball_kind.radius, ball_high=16.0,
            bounds=NOWHERE, ball_net=False, finish_height=self.cfg.finish_height_m, drone_low=0.4, drone_net=PLANE,
        )  # fmt: skip

    def groups(self) -> dict[str, Group]:
        terms = (*self.state_terms(), *self.ball_terms(), *self.action_terms())
        return {"drone": Group(1, terms, self.action, history=self.cfg.history)}

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": {**self.observe_state(), **self.observe_ball(), **self.observe_action()}}

    @property
    def finished(self) -> Tensor:
        """[N] bool: the ball came down after one hit."""
        return self.referee.fault == rally.FINISHED

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`yaw_rate` is the size of the drone's angular velocity about the vertical, rad/s."""
        away = (self.drones.bodies.pos - self.places).norm(dim=-1)
        distance = (self.places[:, 0] - self.referee.end[:, :1]) * self.finished[:, None]
        return {
            "drone": {
                "hit": self.referee.hit_now.float(),
                "far_from_anchor": (away > 1.0).float(),
                "distance": distance,
                "yaw_rate": self.turning.rate.abs(),
                **self.faults(),
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        finished = self.finished.float()
        end = self.referee.end
        return {
            "success": finished * (end[:, 0] < 0),
            "distance_m": finished * (end[:, :2] - self.places[0, :2]).norm(dim=-1),
            "distance_x_m": finished * (self.places[0, 0] - end[:, 0]),
            "hits": self.referee.total.float(),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        return plays.Hit(self, reach=9.5, contact=2.4, spread=0.8, apex=6.0)
