"""The `mujoco` engine: `mujoco.batch.Batch` behind the World interface."""
