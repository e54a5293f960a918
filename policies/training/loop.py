"""The training loop of one algorithm: collect, update, log, checkpoint, stop and resume."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.training import checkpoint
from rookery.policies.training.logging import EpisodeLog, Progress, RunLog
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each


@dataclass(frozen=True)
class LoopConfig:
    """Settings of `TrainingLoop`."""

    checkpoint_every: int = 25
    """Iterations between checkpoints; one is always written at the end and on Ctrl-C."""
    keep: int = 3
    """Checkpoints that stay on disk."""
    target_success: float | None = None
    """Stop as soon as the mean `success` of the latest `success_window` episodes (with exploration) reaches this."""
    success_window: int = 512
    """Number of latest finished episodes that success is averaged over."""


class TrainingLoop:
    """Runs an algorithm in its environment.

    Args:
        algorithm: what learns.
        config: settings of the loop.
        extra: JSON values stored verbatim in every checkpoint; ``extra["contract"]`` goes beside the policy.

    Attributes:
        steps: control steps made so far, counted over all worlds.
        iteration: updates made so far.
        seconds: spent in them.
        episodes: figures of finished episodes.
        obs: observations of the next step {group: [N, A, O]}; None before the first.
    """

    def __init__(
        self, algorithm: Algorithm, config: LoopConfig | None = None, extra: dict[str, Any] | None = None
    ) -> None:
        self.algorithm = algorithm
        self.env = algorithm.env
        self.config = config or LoopConfig()
        self.extra = dict(extra or {})
        self.steps = 0
        self.iteration = 0
        self.seconds = 0.0
        self.total_steps = 0
        self.episodes = EpisodeLog(self.config.success_window)
        self.obs: dict[str, Tensor] | None = None

    @torch.no_grad()
    @one_thread_each
    def collect(self) -> None:
        """Make `algorithm.rollout_steps` steps of every world, with exploration."""
        if self.obs is None:
            self.obs, _ = self.env.reset()
            self.env.stagger()
        for _ in range(self.algorithm.rollout_steps):
            actions = self.algorithm.act(self.obs)
            result = self.env.step(actions)
            self.algorithm.observe(self.obs, actions, result)
            info = result[4]
            if "episode" in info:
                self.episodes.add(info["episode"])
            self.obs = result[0]

    def iterate(self) -> dict[str, Any]:
        """One collect and update, timed; returns the row for the logs.

        Raises:
            RookeryError: a figure is not a number.
        """
        progress = self.steps / self.total_steps if self.total_steps else 0.0
        start = time.perf_counter()
        self.collect()
        middle = time.perf_counter()
        figures = self.algorithm.update(progress)
        end = time.perf_counter()
        self.steps += self.algorithm.steps_per_update
        self.iteration += 1
        self.seconds += end - start
        agents = sum(group.count for group in self.env.groups.values())
        bad = [k for k, v in figures.items() if v != v]
        if bad:
            raise RookeryError(
                f"training diverged: {bad[0]} is not a number after {self.steps} steps; lower the learning rate, "
                "or look for rewards or observations without bounds."
            )
        return {
            "steps": self.steps,
            "iteration": self.iteration,
            "seconds": self.seconds,
            "samples_per_s": self.algorithm.steps_per_update * agents / (end - start),
            "collect_s": middle - start,
            "learn_s": end - middle,
            **self.episodes.summarise(self.steps),
            **figures,
        }

    def train(self, total_steps: int, run_dir: Path | str, progress: Progress | None = None) -> dict[str, Any]:
        """Collect and update until `total_steps`, with logs, checkpoints and a line of progress.

        Args:
            total_steps: control steps over all worlds, those before a resume included.
            run_dir: run folder; gets checkpoints/, policy.safetensors, contract.json, progress.csv, TensorBoard files.
            progress: called with the figures of each iteration; None shows them on the terminal.

        Returns:
            the figures of the last iteration, with "stopped": "steps" or "success".

        Raises:
            Interrupted: Ctrl-C, after the iteration was finished and a checkpoint written.
            RookeryError: the folder cannot be written, or training diverged.
        """
        self.total_steps = total_steps
        run_dir = Path(run_dir)
        row: dict[str, Any] = {}
        stopped = "steps"
        with RunLog(run_dir, self.steps, total_steps, progress) as log, checkpoint.Interruption() as interruption:
            log.resume(self.steps)
            saved = -1
            while self.steps < total_steps:
                row = self.iterate()
                log.write(row)
                if interruption.wanted:
                    raise checkpoint.Interrupted(self.save(run_dir))
                target = self.config.target_success
                if target is not None and (self.episodes.success or 0.0) >= target:
                    stopped = "success"
                    break
                if self.iteration % self.config.checkpoint_every == 0:
                    self.save(run_dir)
                    saved = self.steps
            if saved != self.steps:
                self.save(run_dir)
        return {**row, "stopped": stopped}

    def save(self, run_dir: Path | str) -> Path:
        """Write a checkpoint and the run's current policy; returns the checkpoint's folder.

        Raises:
            RookeryError: the disk is full or the folder cannot be written; older checkpoints are left as they are.
        """
        return checkpoint.save(self, Path(run_dir))

    def load(self, folder: Path | str) -> None:
        """Continue from a checkpoint, or from the newest one of a run folder.

        Raises:
            RookeryError: it is missing, damaged, of a newer version, or does not fit this environment and config.
        """
        checkpoint.load(self, Path(folder))
