"""The `pybullet` engine: an independent engine for sim-to-sim checks."""
