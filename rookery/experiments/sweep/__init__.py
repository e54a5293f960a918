"""Sweeps: many trainings of one task with different settings, by Ray Tune (docs/sweep.md)."""
