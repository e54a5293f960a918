"""Set and spike against a defense: the point is won only if the board on the far side cannot play the ball back."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.specs import Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.volleyball import plays, rally
from rookery.tasks.volleyball.defender import HALF_HEIGHT, Court, Defender
from rookery.tasks.volleyball.flight import Tolerance
from rookery.tasks.volleyball.set_and_spike import THROUGH, SetAndSpikeConfig, VolleySetAndSpikeEasy


@dataclass(frozen=True)
class SetAndSpikeHardConfig(SetAndSpikeConfig):
    """Values of volley-set-and-spike-hard (VolleyBots, arXiv 2502.01932). The target is used by the term `direction` alone."""

    reward: Weights = Weights(
        hit=5.0,
        downward_spike=5.0,
        crossed=5.0,
        in_target=5.0,
        far_from_anchor=-0.05,
        near_ball=0.05,
        direction=1.0,
        spike_speed=0.2,
        wrong_hit=-10.0,
        drone_fault=-10.0,
        ball_fault=-10.0,
        under_landing=0.0,
        at_anchor=0.0,
        ball_height=0.0,
        pass_aim=0.0,
    )


class VolleySetAndSpikeHard(VolleySetAndSpikeEasy):
    """One drone sets the ball, the other spikes it past a board that defends.

    Success: the setter's and the attacker's one hit each, and a ball that lands in the far court, or that the defense plays
    out or into the net.

    The drones do not see the defense, as published. Two cases of the published rule are made volleyball's: an attacker's ball
    that lands on its own side wins nothing, and a ball that the defense touches but drops on its side is won.
    """

    name = "volley-set-and-spike-hard"

    metric_definitions = MappingProxyType(
        {
            "success": ("1 where the rally was won against the defending board, which is this package's own design"),
            "returned": "1 where the board returned the ball",
            "hits": "hits of the ball by the drones",
            "crossed": "1 where the ball crossed the net",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = SetAndSpikeHardConfig
    cfg: SetAndSpikeHardConfig

    def setup(self) -> None:
        super().setup()
        r, n = self.referee.rules, self.world.num_envs
        court = Court(self.cfg.control_dt, r.ball_radius, r.ball_low, r.half_length, r.half_width)
        self.defender = Defender(n, court)
        self.child("defender", self.defender)
        self._begin, self._end = torch.zeros(n, 13), torch.zeros(n, 13)  # the ball, in a control step

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        self.defender.reset(ids)

    def apply(self, actions: dict[str, Tensor]) -> None:
        assert self.ball is not None
        self._begin.copy_(self.ball.state[:, 0])
        super().apply(actions)

    def advance(self) -> None:
        assert self.ball is not None
        self.count_turning()
        self._when.copy_(self.touches.when)
        self._defend()
        self.referee.step(self._when, self.ball.state[:, 0], self.drones.bodies.state)
        self.won |= self.scored()

    def _defend(self) -> None:
        """Let the boards play, before the referee looks at where the balls have got to."""
        assert self.ball is not None
        r, d = self.referee, self.defender
        self._end.copy_(self.ball.state[:, 0])
        if not d.step(r.turn == THROUGH, self._begin, self._end, self._when):
            return
        ids = (d.when >= 0.0).nonzero().squeeze(1)
        self.ball.set_state(ids, self._end[ids][:, None])
        self.world.forward(ids)
        self._when[ids] = torch.inf  # what the ball touched after it went through the board did not happen
        time = r.clock[ids] * self.cfg.control_dt + d.when[ids]
        self.log.note(ids, time, rally.DEFENDER_RETURN, -1, d.where[ids])

    def scored(self) -> Tensor:
        """[N] bool: the point is won in this step."""
        r = self.referee
        landed = (r.fault == rally.BALL_LANDED) & (r.loser == 1)
        spoilt = (r.fault == rally.BALL_OUT) | (r.fault == rally.BALL_IN_NET)
        return (r.turn == THROUGH) & (landed | (self.defender.returned & spoilt))

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        terms = super().rewards()["drone"]
        del terms["landing"]
        return {"drone": terms}

    def metrics(self) -> dict[str, Tensor]:
        r = self.referee
        return {
            "success": self.won.float(),
            "returned": self.defender.returned.float(),
            "hits": r.total.float(),
            "crossed": (r.crossings > 0).float(),
            **self.turning.metrics(),
        }

    def controller(self) -> plays.Act:
        """A steep spike from close above the net to a near corner: the ball is down to the board's 1.1 m within half a second,
        where the board comes 3.8 m far of 4.6. All values are those of a cross-entropy search over rallies."""
        return plays.SetAndSpike(
            self, contact=2.96, apex=5.09, spread=0.15, spot=(0.51, 1.26), above=3.1, flight=0.617, aim=(-1.62, 4.31),
            retreat=0.64, after=1.38, timing=plays.Timing(engage=1.35, calm=14.0), tolerance=Tolerance(speed=0.45, effort=3.4),
        )  # fmt: skip

    def markers(self, i: int) -> list[dict[str, Any]]:
        """The board, as spheres around its edge and in its middle."""
        color = [0.2, 0.4, 0.95, 0.8]
        return [{"pos": p, "size": HALF_HEIGHT, "rgba": color, "trail": False} for p in self.defender.outline(i)]
