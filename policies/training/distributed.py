"""Sums and messages over the processes of torch.distributed."""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from rookery.policies.training.reduction import Reduction
from rookery.policies.training.shared_sums import SharedSums, shared_sums

__all__ = ["Distributed", "distributed"]


def distributed() -> Distributed:
    """The processes of torch.distributed's default group; those of one machine add up through shared memory."""

    def tell(value: Any) -> list[Any]:
        found = [None] * dist.get_world_size()
        dist.all_gather_object(found, value)
        return found

    return Distributed(shared_sums(dist.get_rank(), dist.get_world_size(), tell))


def _is_near(x: Tensor) -> bool:
    """True for what shared memory can hold: numbers on the CPU that NumPy knows."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8)


class Distributed(Reduction):
    """The processes of torch.distributed's default group, which has been made.

    Args:
        nearby: adds up what these processes have on the CPU, where all are on one machine; None for torch.distributed.

    Attributes:
        sent, received: bytes by the ring that gloo uses for sums: each of S processes sends and receives
            2 (S - 1) / S of a tensor (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"); and by its tree
            for what is broadcast: the process of rank 0 sends to those of rank 1, 2, 4 ..., and they pass it on. What goes
            through shared memory counts as if a ring sent it.
    """

    def __init__(self, nearby: SharedSums | None = None) -> None:
        self.nearby = nearby
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()

    def sum(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.SUM)

    def max(self, x: Tensor) -> Tensor:
        return self._reduce(x, dist.ReduceOp.MAX)

    def _reduce(self, x: Tensor, how: dist.ReduceOp.RedOpType) -> Tensor:
        if self.size == 1:
            return x
        each = 2 * (self.size - 1) / self.size * x.numel() * x.element_size()
        self.sent += each
        self.received += each
        flat = x.contiguous()
        if self.nearby is None or not _is_near(x):
            dist.all_reduce(flat, how)
        elif how == dist.ReduceOp.SUM:
            self.nearby.sum(flat)
        else:
            self.nearby.max(flat)
        return x if flat is x else x.copy_(flat)

    def gather(self, value: Any) -> list[Any] | None:
        found = self._bring(b"" if self.rank == 0 else pickle.dumps(value))
        return None if found is None else [value, *(pickle.loads(own) for own in found[1:])]

    def broadcast(self, x: Tensor) -> Tensor:
        if self.size == 1:
            return x
        copies = sum(self.rank < 1 << i and self.rank + (1 << i) < self.size for i in range(self.size.bit_length()))
        self.sent += copies * x.numel() * x.element_size()
        self.received += (self.rank > 0) * x.numel() * x.element_size()
        dist.broadcast(x, 0)
        return x

    def collect(self, message: bytes) -> list[bytes] | None:
        found = self._bring(message)
        if found is None:
            self.sent += len(message)
        else:
            self.received += sum(len(own) for own in found[1:])
        return found

    def _bring(self, message: bytes) -> list[bytes] | None:
        """Messages by rank for the process of rank 0, as they are: one that is long makes the others no longer."""
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(message)
        dist.all_reduce(lengths)
        if self.rank:
            if message:
                dist.send(torch.frombuffer(bytearray(message), dtype=torch.uint8), 0)
            return None
        buffers = [torch.empty(length, dtype=torch.uint8) for length in lengths.tolist()]
        waiting = [dist.irecv(x, rank) for rank, x in enumerate(buffers) if rank and len(x)]
        for work in waiting:
            if work is not None:
                work.wait()
        return [message, *(x.numpy().tobytes() for x in buffers[1:])]
