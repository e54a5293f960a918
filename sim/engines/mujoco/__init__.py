"""The `mujoco` engine: `mujoco.batch.Batch` behind the World interface."""

from __future__ import annotations

from pathlib import Path

from rookery.sim.engines.entry import Engine, register
from rookery.sim.numba_cache import forget_stale

_folder = Path(__file__).parent
forget_stale(_folder, _folder.parents[2] / "sim")  # kernels here call those of rookery.sim

register(
    Engine(
        "mujoco",
        "everything: MuJoCo's batch of C threads, float64, bit-identical at any thread count",
        "rookery.sim.engines.mujoco.world:MujocoWorld",
        shardable=True,
    )
)
