"""Sums over the processes of torch.distributed."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor

from rookery.policies.training.reduction import Reduction


class Distributed(Reduction):
    """The processes of torch.distributed's default group, which has been made.

    Attributes:
        sent: bytes that this process has sent in sums, by the ring that gloo uses: each of S processes sends
            2 (S - 1) / S of a tensor (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms").
    """

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def sum(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.MAX)

    def _reduce(self, x: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        if self.size == 1:
            return x
        self.sent += 2 * (self.size - 1) / self.size * x.numel() * x.element_size()
        if x.is_contiguous():
            dist.all_reduce(x, how)
            return x
        flat = x.contiguous()
        dist.all_reduce(flat, how)
        return x.copy_(flat)

    def gather(self, value: Any) -> list[Any] | None:
        out: list[Any] | None = [None] * self.size if self.rank == 0 else None
        dist.gather_object(value, out, dst=0)
        return out
