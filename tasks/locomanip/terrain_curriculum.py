"""Who trains on which tile of a terrain: worlds move to harder or easier rows as they do well or badly.

The rule is legged_gym's (Rudin et al., "Learning to walk in minutes", CoRL 2021): at the end of an episode a world goes up a
row if its robot got further than half a tile from its start, and down one if it got less than half as far as commanded
in a full episode, so that a robot that falls early goes down. Past the last row it gets any row. Its column stays.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.assets.terrain import Terrain
from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams


class TerrainCurriculum(Buffers):
    """The tile of each world.

    A task calls `track` in its `advance`, and `reset` in its `reset` for the places where robots start. Like every child of a
    task (``self.child("curriculum", ...)``) it is saved with a run, and its chance comes from the worlds' own streams.

    Args:
        terrain: the grid.
        rng: the task's streams.
        episode_s: s, length of a full episode.
        control_dt: s, between calls of `track`.
        start_rows: worlds begin spread over that many of the easiest rows, at most all.
        adapt: False draws a new tile from the whole grid at every reset: to evaluate a policy, or to film it.
        spread_m: robots start up to this far from the middle of the platform, along x and y.

    Attributes:
        level: [N] int64 row.
        column: [N] int64.
        start: [N, 3] m, world: on the ground where the episode began.

    Raises:
        RookeryError: times that are not positive, no rows to begin on, or starts beside the platform.
    """

    level: Tensor
    column: Tensor
    start: Tensor
    walked: Tensor
    commanded: Tensor
    ticks: Tensor

    def __init__(
        self,
        terrain: Terrain,
        rng: Streams,
        *,
        episode_s: float,
        control_dt: float,
        start_rows: int = 4,
        adapt: bool = True,
        spread_m: float = 0.3,
    ) -> None:
        super().__init__()
        if not (0 < control_dt <= episode_s):
            raise RookeryError(f"an episode of {episode_s} s cannot be made of control steps of {control_dt} s.")
        if start_rows < 1:
            raise RookeryError(f"worlds must begin on at least one row of the terrain, got start_rows={start_rows}.")
        if not 0 <= spread_m <= 0.5 * terrain.config.shape.platform_m:
            raise RookeryError(
                f"starts up to {spread_m} m from the middle do not fit on a platform of {terrain.config.shape.platform_m} m: "
                "take at most half of it."
            )
        count = rng.num_envs
        self.rng = rng
        self.adapt = adapt
        self.spread_m = spread_m
        self.episode_s = episode_s
        self.control_dt = control_dt
        self.half_tile_m = 0.5 * terrain.config.tile_m
        self.centres = torch.tensor(terrain.centres, dtype=torch.float32)
        self.rows, self.columns = self.centres.shape[:2]
        self.buffer("level", count, dtype=torch.int64)
        self.buffer("column", count, dtype=torch.int64)
        self.buffer("start", count, 3)
        self.buffer("walked", count)  # m from the start, now
        self.buffer("commanded", count)  # m, commanded so far
        self.buffer("ticks", count, dtype=torch.int64)  # calls of `track` in this episode
        world = torch.arange(count)
        # neighbours in number stand on different rows, and the columns get equal numbers of worlds
        self.level.copy_(world % min(start_rows, self.rows))
        self.column.copy_(world * self.columns // count)

    def track(self, pos: Tensor, speed: Tensor) -> None:
        """Note where the robots are after a control step.

        Args:
            pos: [N, 2 or more] m, world, of the bases.
            speed: [N] m/s, commanded.
        """
        self.walked.copy_((pos[:, :2] - self.start[:, :2]).norm(dim=1))
        self.commanded += speed * self.control_dt
        self.ticks += 1

    def verdict(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the worlds `ids` [n] go up and which go down, each [n] bool; none before its first step."""
        # the distance commanded so far, extrapolated to the end of a full episode
        commanded = self.commanded[ids] / (self.ticks[ids].clamp(min=1) * self.control_dt) * self.episode_s
        up = self.walked[ids] > self.half_tile_m
        return up, (self.walked[ids] < 0.5 * commanded) & ~up

    def reset(self, ids: Tensor, up: Tensor | None = None, down: Tensor | None = None) -> Tensor:
        """Move worlds to their next tiles and begin their episodes there.

        Args:
            ids: [n] int64, worlds.
            up, down: [n] bool, who goes up and down in place of `verdict`, for tasks with another measure of success; give
                both or neither.

        Returns:
            [n, 3] m, world: starts, on the ground.
        """
        draw = self.rng(ids)
        if self.adapt:
            if up is None or down is None:
                up, down = self.verdict(ids)
            level = self.level[ids] + up.long() - (down & ~up).long()
            level = torch.where(level >= self.rows, draw.integers(0, self.rows), level)
            self.level[ids] = level.clamp(min=0)
        else:
            self.level[ids] = draw.integers(0, self.rows)
            self.column[ids] = draw.integers(0, self.columns)
        start = self.centres[self.level[ids], self.column[ids]].clone()
        start[:, :2] += draw.uniform(-self.spread_m, self.spread_m, (2,))
        self.start[ids] = start
        self.walked[ids] = 0.0
        self.commanded[ids] = 0.0
        self.ticks[ids] = 0
        return start
