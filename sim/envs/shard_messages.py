"""Messages between a ShardedEnv and its processes, and the memory that they share.

A message is a pickled tuple in which tensors are NumPy arrays: pickling a tensor takes twenty times as long. What every step
carries (actions, observations, rewards, ends) lies in shared memory, where each shard writes the rows of its own worlds; only
what ended and what was asked for is sent.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.sim.specs import Group

ALIGN = 64  # bytes: arrays begin on cache lines of their own


@dataclass(frozen=True)
class _TensorData:
    """A tensor in a message."""

    values: np.ndarray


def pack(tree: Any) -> Any:
    """A tree of dicts, lists and tuples with its tensors as arrays."""
    if isinstance(tree, Tensor):
        return _TensorData(tree.detach().numpy())
    if isinstance(tree, Mapping):
        return {k: pack(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(pack(v) for v in tree)
    return tree


def unpack(tree: Any) -> Any:
    """The tree that `pack` was given."""
    if isinstance(tree, _TensorData):
        return torch.from_numpy(tree.values)
    if isinstance(tree, dict):
        return {k: unpack(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(unpack(v) for v in tree)
    return tree


def send(connection: Connection, message: Any) -> None:
    """Send anything that can be pickled; tensors by way of `pack`."""
    connection.send_bytes(pickle.dumps(pack(message), protocol=pickle.HIGHEST_PROTOCOL))


def receive(connection: Connection) -> Any:
    """The next message.

    Raises:
        EOFError: the other side is gone.
    """
    return unpack(pickle.loads(connection.recv_bytes()))


def shared_file() -> int:
    """Descriptor of an empty file without a name, in memory where the system has such a place."""
    place = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryFile(dir=place) as file:
        return os.dup(file.fileno())


class SharedStep:
    """What every step carries, as tensors of all N worlds in shared memory.

    Args:
        groups: agent groups by name.
        num_envs: N.
        objectives: M of a vector reward, 0 for a reward of one number.
        descriptor: of a file of `size` bytes, which is closed; None makes only the layout.

    Attributes:
        size: bytes.
        actions, observations, rewards: by group. terminated, truncated: [N] bool.
    """

    actions: dict[str, Tensor]
    observations: dict[str, Tensor]
    rewards: dict[str, Tensor]
    terminated: Tensor
    truncated: Tensor

    def __init__(self, groups: Mapping[str, Group], num_envs: int, objectives: int, descriptor: int | None) -> None:
        n = num_envs
        self.size = 0
        self._memory: mmap.mmap | None = None
        if descriptor is not None:
            self._memory = mmap.mmap(descriptor, 0)
            os.close(descriptor)
        shape = {g: (n, s.count) for g, s in groups.items()}
        self.actions = {g: self._take((*shape[g], s.action.size)) for g, s in groups.items()}
        self.observations = {g: self._take((*shape[g], s.observation_size)) for g, s in groups.items()}
        self.rewards = {g: self._take((*shape[g], objectives) if objectives else shape[g]) for g in groups}
        self.terminated = self._take((n,), torch.bool)
        self.truncated = self._take((n,), torch.bool)

    def _take(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        count = int(np.prod(shape))
        start = self.size
        self.size += -(-count * dtype.itemsize // ALIGN) * ALIGN
        if self._memory is None or not count:
            return torch.empty(0 if count else shape, dtype=dtype)
        return torch.frombuffer(self._memory, dtype=dtype, count=count, offset=start).view(shape)
