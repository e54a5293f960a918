"""Settings of the training loop that hold for every algorithm."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.sim.errors import RookeryError

MOST_STEPS = 10**12
"""Bound of `total_steps`, years of training on any machine."""


@dataclass(frozen=True)
class RunnerConfig:
    """When the runner stops and what it keeps."""

    total_steps: int = 5_000_000
    """Control steps over all worlds, those before a resume included; samples for an algorithm that learns from a dataset."""
    time_limit_s: float | None = None
    """Stop after this many seconds of training, those before a resume included and those that kernels take to compile not; none
    for no limit. A resumed run keeps it."""
    target_success: float | None = None
    """Stop when the mean success of the latest `success_window` episodes, with exploration, reaches this; none for never."""
    success_window: int = 512
    """Number of latest finished episodes that success is averaged over."""
    checkpoint_every: int = 25
    """Iterations between checkpoints; one more is written at the end and on Ctrl-C."""
    keep: int = 3
    """Checkpoints that stay on disk."""
    trackers: tuple[str, ...] = ("tensorboard",)
    """Trackers that get the figures beside progress.csv: tensorboard, wandb, mlflow, an installed one, or my_tracker.py:Class;
    none for no tracker. Repeatable."""

    def __post_init__(self) -> None:
        if not 1 <= self.total_steps <= MOST_STEPS:
            raise RookeryError(f"total_steps must be from 1 to {MOST_STEPS:g}, got {self.total_steps:g}.")
        for name in ("success_window", "checkpoint_every", "keep"):
            if getattr(self, name) < 1:
                raise RookeryError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if self.time_limit_s is not None and not self.time_limit_s > 0.0:
            raise RookeryError(f"time_limit_s must be above 0, got {self.time_limit_s}.")
        if self.target_success is not None and not 0.0 <= self.target_success <= 1.0:
            raise RookeryError(f"target_success must be from 0 to 1, got {self.target_success}.")

    def end(self, steps: int, each: int) -> int:
        """Control steps at the end of a training that has made `steps` and makes `each` in an iteration: a whole one is made
        where `total_steps` lies within it."""
        return steps + -(-max(0, self.total_steps - steps) // each) * each

    def stop(self, steps: int, seconds: float, success: float | None) -> str | None:
        """Why training ends after these control steps and seconds of training, with the mean success of the latest episodes
        where it counts: "success", "steps" or "time"; None for going on."""
        if self.target_success is not None and success is not None and success >= self.target_success:
            return "success"
        if steps >= self.total_steps:
            return "steps"
        if self.time_limit_s is not None and seconds >= self.time_limit_s:
            return "time"
        return None
