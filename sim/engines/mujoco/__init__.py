"""The `mujoco` engine: `mujoco.batch.Batch` behind the World interface."""

from __future__ import annotations

from rookery.sim.engines.entry import Engine, register

register(
    Engine(
        "mujoco",
        "everything: MuJoCo's batch of C threads, float64, bit-identical at any thread count",
        "rookery.sim.engines.mujoco.world:MujocoWorld",
        shardable=True,
    )
)
