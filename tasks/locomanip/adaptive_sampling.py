"""Which task to practise next: more often what is done worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError


@dataclass(frozen=True)
class AdaptiveSamplingConfig:
    """p_k = (1 - floor) softmax(sharpness * e_k / scale) + floor / K.

    The idea of weighting trajectories by how badly they are tracked is that of MLM (arXiv 2508.10538); the constants are
    ours, as its paper gives none.
    """

    sharpness: float = 2.0
    """How strongly errors pull; 0 samples all tasks alike."""
    scale: float = 0.05
    """The unit of the errors: one `scale` more makes a task exp(sharpness) times as likely. For tracking errors, m."""
    floor: float = 0.1
    """Share of the draws that goes to all tasks alike, so that none is forgotten."""
    memory: float = 200.0
    """Number of reports after which a report counts 1 / e of what it did."""


class AdaptiveSampler(Buffers):
    """Draws tasks by their errors.

    Args:
        names: of the K tasks.
        cfg: the constants.
        device: where the tensors live.

    Attributes:
        error: exponential mean of each task's error [K] float64. A task's first report sets it. Before that it counts as
            the worst error known, so that untried tasks are tried.
        reports: number of errors taken in [K] int64.
        draws: how often each task was drawn [K] int64.
        dropped: number of errors that were not finite, and left out [1] int64.
    """

    error: Tensor
    reports: Tensor
    draws: Tensor
    dropped: Tensor

    def __init__(
        self,
        names: Sequence[str],
        cfg: AdaptiveSamplingConfig = AdaptiveSamplingConfig(),
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        if not names:
            raise RookeryError("adaptive sampling needs at least one task.")
        if not (0.0 <= cfg.floor <= 1.0 and cfg.scale > 0.0 and cfg.memory > 0.0):
            raise RookeryError(f"{cfg}: give a floor from 0 to 1, and scale and memory above 0.")
        self.names = list(names)
        self.cfg = cfg
        K = len(names)
        self.buffer("error", K, dtype=torch.float64, device=str(device))
        for name, size in (("reports", K), ("draws", K), ("dropped", 1)):
            self.buffer(name, size, dtype=torch.int64, device=str(device))

    def report(self, task: Tensor, error: Tensor) -> None:
        """Take in errors of tasks; the order within a call does not matter.

        Args:
            task: ids [n] int64.
            error: [n], in the unit of `scale`; for a reward in [0, 1], one minus it. What is not finite (a simulation
                that diverged) is left out and counted.
        """
        fine = torch.isfinite(error)
        self.dropped += (~fine).sum()
        # weight 0 instead of a selection: no wait for the device
        weight = fine.double()
        value = torch.where(fine, error, 0.0).double()
        count = torch.zeros_like(self.error).index_add_(0, task, weight)
        mean = torch.zeros_like(self.error).index_add_(0, task, value) / count.clamp_min(1.0)
        keep = torch.where(self.reports > 0, torch.exp(-count / self.cfg.memory), (count == 0.0).double())
        self.error.copy_(keep * self.error + (1.0 - keep) * mean)
        self.reports += count.long()

    def probabilities(self) -> Tensor:
        """p [K] float64."""
        cfg = self.cfg
        tried = self.reports > 0
        worst = torch.where(tried, self.error, -torch.inf).max()
        error = torch.where(tried, self.error, torch.where(torch.isfinite(worst), worst, 0.0))
        return (1.0 - cfg.floor) * torch.softmax(cfg.sharpness * error / cfg.scale, 0) + cfg.floor / len(self.names)

    def draw(self, uniform: Tensor) -> Tensor:
        """Tasks [n] int64 for uniform numbers in [0, 1) [n], so that the caller's random streams decide."""
        edges = torch.cumsum(self.probabilities(), 0)
        task = torch.searchsorted(edges, uniform.double(), right=True).clamp_(max=len(self.names) - 1)
        self.draws.index_add_(0, task, torch.ones_like(task))
        return task

    def log(self) -> dict[str, float]:
        """Probability, error and number of draws of each task, as named log figures."""
        row: dict[str, float] = {}
        columns = zip(self.names, self.probabilities().tolist(), self.error.tolist(), self.draws.tolist(), strict=True)
        for name, p, error, draws in columns:
            row |= {f"sampling/{name}/p": p, f"sampling/{name}/error": error, f"sampling/{name}/draws": draws}
        return row | {"sampling/dropped": self.dropped.item()}
