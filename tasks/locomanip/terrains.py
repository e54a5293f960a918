"""The terrains that a quadruped's task may name, and the physics step that they take."""

from __future__ import annotations

from dataclasses import replace

from rookery.assets.terrain import KINDS, Terrain, TerrainConfig, TileShape, build
from rookery.sim.errors import unknown

STAIRS = ("stairs_up", "stairs_down")
TERRAIN_DT = 0.005
"""s, longest physics step on a height field. At 10 ms a policy of the flat falls in 0.35 of episodes on rough ground and in
0.49 on steps of 5 cm; at 5 ms in 0.15 and 0.18; on these steps at 2.5 ms in 0.19 (96 episodes each)."""


def find_terrain(name: str, rows: int, columns: int, step_m: float) -> Terrain:
    """A grid of tiles.

    Args:
        name: "mixed", "stairs" (up and down), or one kind of assets.terrain.
        rows, columns: of tiles; rows by difficulty.
        step_m: m, rise of the steps of the hardest row of stairs.

    Raises:
        RookeryError: an unknown name, with the nearest one, or a grid that cannot be built.
    """
    kinds = {"mixed": KINDS, "stairs": STAIRS, **{kind: (kind,) for kind in KINDS}}
    if name not in kinds:
        raise unknown("terrain", name, kinds)
    low, _ = TileShape().step_m
    config = TerrainConfig(rows=rows, columns=columns, shape=TileShape(step_m=(min(low, step_m), step_m)))
    if name != "mixed":
        config = replace(config, kinds=kinds[name], shares=(1.0,) * len(kinds[name]))
    return build(config)
