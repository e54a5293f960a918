"""Set and spike: one drone sets the ball for the other, which drives it down over the net."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.specs import Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.volleyball import plays, rally
from rookery.tasks.volleyball.base import VolleyConfig
from rookery.tasks.volleyball.bump_and_pass import Pair
from rookery.tasks.volleyball.rally_starts import begin_in_flight
from rookery.tasks.volleyball.rules import IN_THE_AIR, PLANE, SEQUENCE, Rules

SETTER = 0
ATTACKER = 1
THROUGH = 2


@dataclass(frozen=True)
class SetAndSpikeConfig(VolleyConfig):
    """Values of volley-set-and-spike-easy (VolleyBots, arXiv 2502.01932)."""

    ball_above_m: float = 2.0  # m, where the ball starts above the setter
    anchor_radius_m: float = 0.5  # m, around its anchor in which a drone may be
    target_x_m: float = -4.5  # m, world: centre of the target on the ground
    target_y_m: float = 0.0  # m
    target_radius_m: float = 1.0  # m
    in_flight: float = 0.0  # share of episodes that begin with the set in flight, for training
    reward: Weights = Weights(
        hit=5.0,
        downward_spike=5.0,
        crossed=5.0,
        in_target=5.0,
        far_from_anchor=-0.05,
        near_ball=0.05,
        direction=1.0,
        spike_speed=0.2,
        landing=0.2,
        wrong_hit=-10.0,
        drone_fault=-10.0,
        ball_fault=-10.0,
        under_landing=0.0,
        at_anchor=0.0,
        ball_height=0.0,
        pass_aim=0.0,
    )


class VolleySetAndSpikeEasy(Pair):
    """One drone sets the ball, the other spikes it over the net.

    Success: the setter's and the attacker's one hit each, and the ball lands within 1 m of (-4.5, 0).

    As published, a drone fault costs both, and the ball's landing costs 10 wherever it lands.
    """

    name = "volley-set-and-spike-easy"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the rally was won",
            "hits": "hits of the ball by the drones",
            "crossed": "1 where the ball crossed the net",
            "off_target_m": "m, from the spike's target to where the ball landed; 10 while it has not",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = SetAndSpikeConfig
    over_net: ClassVar[bool] = True
    anchors: ClassVar[tuple[tuple[float, float, float], ...]] = ((2.0, -2.5, 2.5), (2.0, 2.5, 3.5))
    cfg: SetAndSpikeConfig

    won: Tensor

    def rules(self) -> Rules:
        return self.court_rules(
            order=SEQUENCE, ball_low=2.0 * self.ball_kind.radius, ball_high=16.0, bounds=IN_THE_AIR,
            cross_at=-self.ball_kind.radius, drone_low=0.4, drone_net=PLANE,
        )  # fmt: skip

    def setup(self) -> None:
        super().setup()
        self.buffer("won", self.world.num_envs, dtype=torch.bool)
        self._target = torch.tensor([self.cfg.target_x_m, self.cfg.target_y_m])
        # weight of being near the ball, by turn: setter and attacker
        self._eager = torch.tensor([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]])

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self.won[ids] = False
        if self.cfg.in_flight > 0.0:
            begin_in_flight(self, ids, self.cfg.in_flight, (ATTACKER,))

    def advance(self) -> None:
        super().advance()
        self.won |= self.scored()

    @property
    def landed(self) -> Tensor:
        """[N] bool: the rally has ended with the spiked ball on the ground."""
        return (self.referee.fault == rally.BALL_LANDED) & (self.referee.turn == THROUGH)

    @property
    def off_target(self) -> Tensor:
        """[N] m, horizontal distance from the target to where the rally ended."""
        return (self.referee.end[:, :2] - self._target).norm(dim=-1)

    def scored(self) -> Tensor:
        """[N] bool: the point is won in this step."""
        return self.landed & (self.off_target < self.cfg.target_radius_m)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        assert self.ball is not None
        r = self.referee
        pos = self.drones.bodies.pos[..., :2]
        fall = self.ball.lin_vel[:, 0, 2]
        spike = r.hit_now[:, ATTACKER].float()
        wanted = torch.stack((pos[:, 1] - pos[:, 0], self._target - pos[:, 1]), dim=1)
        faults = self.faults()
        terms = {
            "hit": r.hit_now.any(1).float(),
            "downward_spike": spike * (fall < 0),
            "crossed": ((r.crossed < 0) & (r.turn == THROUGH)).float(),
            "in_target": self.won.float(),
            "spike_speed": spike * (5.0 - fall).clamp_min(0.0),
            "landing": self.landed * (10.0 - self.off_target).clamp_min(0.0),
        }
        return {
            "drone": {
                **{name: self.shared(value) for name, value in terms.items()},
                "far_from_anchor": self.far_from_anchor(self.cfg.anchor_radius_m),
                "near_ball": self.near_ball(self._eager[r.turn.clamp_max(THROUGH).long()]),
                "direction": self.direction(wanted),
                **faults,
                "drone_fault": self.shared(faults["drone_fault"].amax(1)),
                **self.training_terms(),
            }
        }

    def metrics(self) -> dict[str, Tensor]:
        r = self.referee
        return {
            "success": self.won.float(),
            "hits": r.total.float(),
            "crossed": (r.crossings > 0).float(),
            "off_target_m": torch.where(self.landed, self.off_target, 10.0),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        return plays.SetAndSpike(
            self, contact=2.8, apex=5.6, above=2.8, flight=1.35, retreat=0.5, after=1.0,
            timing=plays.Timing(engage=1.3, calm=14.0),
        )  # fmt: skip

    def markers(self, i: int) -> list[dict[str, Any]]:
        x, y = self._target.tolist()
        size = self.cfg.target_radius_m
        return [{"pos": [x, y, 0.0], "size": size, "rgba": [0.1, 0.9, 0.2, 0.25], "trail": False}]
