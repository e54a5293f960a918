"""Back-and-forth: one drone flies to and fro between two places. No ball."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.quantities import POSITION, place
from rookery.sim.specs import Group, Term, Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.volleyball import plays, rally
from rookery.tasks.volleyball.base import VolleyConfig, VolleyTask
from rookery.tasks.volleyball.state import PLACE_BIAS, PLACE_NOISE


@dataclass(frozen=True)
class BackAndForthConfig(VolleyConfig):
    """Values of volley-back-and-forth (VolleyBots, envs/single/back_and_forth.py)."""

    start_box_m: tuple[float, ...] = (0.0, 0.0, 0.0)  # m: it starts at its first place
    near_m: float = 0.6  # m, distance that counts as being there
    stay_steps: int = 5  # control steps in a row that it has to be there
    low_m: float = 0.4  # m, height that ends the episode
    high_m: float = 5.0  # m, likewise
    far_m: float = 7.5  # m, distance from the target that ends it
    success_targets: int = 10  # targets in an episode that count as a success
    reward: Weights = Weights(staying=2.5, closeness=0.01, drone_fault=-10.0)


class VolleyBackAndForth(VolleyTask):
    """One drone flies to and fro between two places, as often as it can.

    Success: 10 targets reached, each held for 5 control steps. Headline: targets reached in 16 s.

    With c steps in a row within 0.6 m and distance d the published reward is ``2.5 c + 0.02 (50 - c) 0.5 / (1 + d^2)``.
    """

    name = "volley-back-and-forth"

    deciding = MappingProxyType({"targets": ("success_targets", False)})
    metric_definitions = MappingProxyType(
        {
            "success": "1 where at least success_targets targets were reached",
            "targets": "targets reached, each held for stay_steps control steps",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = BackAndForthConfig
    headline: ClassVar[str] = "targets"
    ends: ClassVar[tuple[tuple[float, float, float], ...]] = ((9.0, 4.5, 2.0), (4.5, 0.0, 2.0))
    """m, world: the targets, in turns; the drone starts at the second."""
    has_ball: ClassVar[bool] = False
    event_definitions = MappingProxyType(
        {
            "target_reached": "the drone has stayed at its target for stay_steps control steps, and gets the next one",
            "crash": VolleyTask.event_definitions["crash"],
        }
    )
    cfg: BackAndForthConfig

    stayed: Tensor
    targets: Tensor
    clock: Tensor
    fault: Tensor
    distance: Tensor
    in_row: Tensor

    def setup(self) -> None:
        super().setup()
        n = self.world.num_envs
        for name in ("stayed", "targets", "clock", "fault"):
            self.buffer(name, n, dtype=torch.int64)
        for name in ("distance", "in_row"):
            self.buffer(name, n)
        self._ends = torch.tensor(self.ends)

    def groups(self) -> dict[str, Group]:
        way = place("target") - POSITION
        target = Term("to_target", way, scale=0.25, noise=PLACE_NOISE, bias=PLACE_BIAS, estimated="position")
        return {
            "drone": Group(
                1, (*self.state_terms(), target, *self.action_terms()), self.action, history=self.cfg.history
            )
        }

    def measured(self) -> dict[str, dict[str, Tensor]]:
        return {"drone": super().measured()["drone"] | {"target": self.target[:, None]}}

    def reset(self, ids: Tensor) -> None:
        super().reset(ids)
        for t in (self.stayed, self.targets, self.clock, self.fault):
            t[ids] = 0
        where = self.drones.bodies.pos[ids, 0]
        self.in_row[ids] = 0.0
        self.distance[ids] = (self.target[ids] - where).norm(dim=-1)
        self.log.note(ids, torch.zeros(len(ids)), rally.TAKE_OFF, 0, where)

    @property
    def target(self) -> Tensor:
        """[N, 3] m, world: where to fly now."""
        return self._ends[self.targets % 2]

    def advance(self) -> None:
        self.clock += 1
        self.count_turning()
        pos = self.drones.bodies.pos[:, 0]
        self.distance.copy_((self.target - pos).norm(dim=-1))
        near = self.distance < self.cfg.near_m
        self.stayed.add_(1).mul_(near)
        self.in_row.copy_(self.stayed)  # c of the reward, before the target changes
        reached = self.stayed >= self.cfg.stay_steps
        if reached.any():
            self._note(reached, rally.TARGET, pos)
            self.targets += reached
            self.stayed.masked_fill_(reached, 0)
        z = pos[:, 2]
        self.fault.copy_((z < self.cfg.low_m) * rally.DRONE_TOO_LOW + (z > self.cfg.high_m) * rally.DRONE_TOO_HIGH)
        self.fault.masked_fill_((self.fault == 0) & (self.distance > self.cfg.far_m), rally.DRONE_ASTRAY)
        for code in self.fault.unique().tolist():
            if code:
                self._note(self.fault == code, rally.FAULT + code, pos)

    def _note(self, where: Tensor, event: int, pos: Tensor) -> None:
        ids = where.nonzero().squeeze(1)
        self.log.note(ids, self.clock[ids] * self.cfg.control_dt, event, 0, pos[ids])

    def observe(self) -> dict[str, dict[str, Tensor]]:
        to_target = self.target[:, None] - self.drones.bodies.pos
        return {"drone": {**self.observe_state(), "to_target": to_target, **self.observe_action()}}

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        closeness = (50.0 - self.in_row) / (1.0 + self.distance.square())
        terms = {"staying": self.in_row, "closeness": closeness, "drone_fault": (self.fault > 0).float()}
        return {"drone": {name: value[:, None] for name, value in terms.items()}}

    def terminated(self) -> Tensor:
        return self.fault.clone()

    def events(self) -> dict[str, Tensor]:
        return {"target_reached": self.in_row >= self.cfg.stay_steps, "crash": self.fault > 0}

    def metrics(self) -> dict[str, Tensor]:
        targets = self.targets.float()
        success = (targets >= self.cfg.success_targets).float()
        return {"success": success, "targets": targets, **self.turning.metrics()}

    def controller(self) -> plays.Act:
        return plays.WayPoints(self, timing=plays.Timing(calm=11.0))

    def markers(self, i: int) -> list[dict[str, Any]]:
        pos = self.target[i].tolist()
        return [{"pos": pos, "size": self.cfg.near_m, "rgba": [0.1, 0.9, 0.2, 0.25], "trail": False}]
