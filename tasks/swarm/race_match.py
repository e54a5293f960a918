"""Race, head to head: two teams of drones on one course, and the first drone through all gates wins for its team."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.sim.env import Team
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Weights
from rookery.tasks.drones.turning import TURNING_METRICS
from rookery.tasks.swarm.race import Race, RaceConfig

TEAMS = ("red", "blue")
MOST = 4


@dataclass(frozen=True)
class RaceMatchConfig(RaceConfig):
    """Values of drone-race-match."""

    num_drones: int = 2  # in each world, by turns of red and blue; up to 4
    neighbours: int = 1  # nearest others that a drone sees, however many there are
    reward: Weights = Weights(
        win=10.0, progress=10.0, gate_passed=2.0, proximity=-1.0, ang_vel=-0.005, yaw_rate=-0.1, action_rate=-0.02, crash=-20.0
    )  # fmt: skip


class RaceMatch(Race):
    """Drones race against each other, and the first through all gates wins.

    Success: red wins.

    As drone-race, in two teams: drones 0 and 2 are red, 1 and 3 blue, and start side by side, or with start "anywhere" each
    before a gate of its own, as in a pursuit on a track, with the same way through all gates. The race ends with the first
    drone that has flown all laps, to a fraction of a control step, and its team wins. Who crashes loses for its team; where
    drones of both teams do in one step, as in most collisions, nobody wins. When the time is up, the team wins whose first
    drone has passed more gates, and of as many is nearer to its next one.
    """

    name = "drone-race-match"

    metric_definitions = MappingProxyType(
        {
            "success": "1 where red won",
            "red_wins": "1 where red won",
            "blue_wins": "1 where blue won",
            "finish_s": "s, until the first drone had flown all laps; the episode's length where none has",
            "completed": "1 where a drone had flown all laps",
            "gates": "gates passed, mean of the drones",
            "gap_m": "m, least distance between two drones in the episode",
            "collision": "1 where any two drones collided",
            "crash": "1 where the episode ended in a crash",
            **TURNING_METRICS,
        }
    )

    Config: ClassVar[type] = RaceMatchConfig
    causes: ClassVar[tuple[str, ...]] = (*Race.causes, "finished")
    headline: ClassVar[str] = "red_wins"
    cfg: RaceMatchConfig

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        c = self.cfg
        if not 2 <= c.num_drones <= MOST:
            raise RookeryError(f"a race of two teams has 2 to {MOST} drones, got num_drones={c.num_drones}.")

    def teams(self) -> dict[str, Team]:
        agents = range(self.cfg.num_drones)
        return {team: {"drone": tuple(agents[i::2])} for i, team in enumerate(TEAMS)}

    @property
    def finished(self) -> Tensor:
        """[N, A] bool: drones that have flown all laps."""
        return self.passed > self.cfg.laps * len(self.gates)

    def terminated(self) -> Tensor:
        """A crash of one drone ends the race, and so does the first that has flown all laps."""
        crashed = super().terminated()
        done = 1 + self.causes.index("finished")
        return torch.where((crashed == 0) & self.finished.any(1), done, crashed)

    def wins(self) -> tuple[Tensor, Tensor]:
        """[N] bool: red has won, and blue has."""
        crashed = [self.crashed[:, i::2].any(1) for i in range(2)]
        intact = ~(crashed[0] | crashed[1])
        at = torch.where(self.finished, self.when, torch.inf)  # of the first of each team, within this control step
        first = [at[:, i::2].min(1).values for i in range(2)]
        over = self.finished.any(1)
        late = ~over & (self.steps >= self.max_steps)
        ahead = [self._ahead()[:, i::2].max(1).values for i in range(2)]
        won = []
        for own, other in ((0, 1), (1, 0)):
            by_laps = intact & over & (first[own] < first[other])
            by_lead = intact & late & (ahead[own] > ahead[other])
            won.append((crashed[other] & ~crashed[own]) | by_laps | by_lead)
        return won[0], won[1]

    def _ahead(self) -> Tensor:
        """[N, A]: how far each drone is, gates passed and then by nearness to the next one."""
        return self.passed.double() - self.distances().double() / (2.0 * self.cfg.bounds_m)

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        red, blue = self.wins()
        result = red.float() - blue.float()
        sign = torch.tensor([1.0 if i % 2 == 0 else -1.0 for i in range(self.cfg.num_drones)])
        return {"drone": super().rewards()["drone"] | {"win": result[:, None] * sign}}

    def metrics(self) -> dict[str, Tensor]:
        """Who won, how soon, and what went wrong."""
        known, (red, blue), over = super().metrics(), self.wins(), self.finished.any(1)
        when = (self.steps - 1 + torch.where(self.finished, self.when, 1.0).min(1).values) * self.cfg.control_dt
        shared = {name: known[name] for name in ("gates", "gap_m", "collision", "crash", "yaw_drift")}
        return {
            "success": red.float(),
            "red_wins": red.float(),
            "blue_wins": blue.float(),
            "finish_s": torch.where(over, when, self.cfg.episode_s).float(),
            "completed": over.float(),
            **shared,
        }
