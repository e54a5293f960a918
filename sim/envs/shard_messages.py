"""Messages between a ShardedEnv and its processes, and the memory that they share.

A message is a pickled value in which tensors are NumPy arrays: pickling a tensor takes twenty times as long. What every step
carries (actions, observations, rewards, ends) lies in shared memory, where each shard writes the rows of its own worlds; only
what ended and what was asked for is sent.

One system call writes a message, and one takes it once it lies there as a whole: an exception between two calls, such as
Ctrl-C, can lose a message but never cut one. A value that is larger than what a socket takes at once goes along as the
descriptor of a file in memory. Every message has a number: a reply has that of its request, so a late one is recognized.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import select
import socket
import struct
import tempfile
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.sim.specs import Group

ALIGN = 64  # bytes: arrays begin on cache lines of their own
REQUEST, REPLY = 32 << 10, 128 << 10
"""Bytes of the largest request and reply that are sent without a file, which takes 0.1 ms more. Several requests fit into a
socket's buffer, so that sending one never waits, when a signal could cut it; the processes that reply take no signals."""
PATIENCE_S = 10.0
"""s that a message may be on its way."""
HEAD = struct.Struct("<QQQ")
"""A message's number, and the bytes of its value that follow, or lie in a file."""
COUNT = struct.Struct("i")
"""What FIONREAD gives: bytes that can be read."""


@dataclass(frozen=True)
class _TensorData:
    """A tensor in a message."""

    values: np.ndarray


@dataclass(frozen=True)
class Failure:
    """The reply that tells of an error: "RookeryError", "ValueError", "MemoryError" or "RuntimeError", and what it says."""

    kind: str
    text: str


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


class ShardChannel:
    """One end of a connection between a ShardedEnv and one of its processes.

    Args:
        end: a connected stream socket, which the channel closes.
        inline: bytes of the largest value that is sent without a file, REQUEST or REPLY.
    """

    def __init__(self, end: socket.socket, inline: int = REQUEST) -> None:
        self._end = end
        self._inline = inline
        self._poll = select.poll()
        self._poll.register(end, 0)  # for its end alone

    def fileno(self) -> int:
        """Descriptor of the socket; -1 once closed."""
        return self._end.fileno()

    def send(self, number: int, value: Any) -> None:
        """Send anything that can be pickled; tensors by way of `pack`.

        Raises:
            EOFError: the other side is gone.
        """
        data = pickle.dumps(pack(value), protocol=pickle.HIGHEST_PROTOCOL)
        try:
            if len(data) <= self._inline:
                record = HEAD.pack(number, len(data), 0) + data
                sent = self._end.send(record)
            else:
                record = HEAD.pack(number, 0, len(data))
                file = memory_file()
                try:
                    _write(file, data)
                    sent = socket.send_fds(self._end, [record], [file])
                finally:
                    os.close(file)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError from error
        if sent != len(record):
            raise EOFError("a message was cut")

    def receive(self) -> tuple[int, Any]:
        """Number and value of the next message.

        Raises:
            EOFError: the other side is gone.
        """
        try:
            head = self._end.recv(HEAD.size, socket.MSG_PEEK | socket.MSG_WAITALL)
            if len(head) != HEAD.size:
                raise EOFError
            number, inline, length = HEAD.unpack(head)
            self._wait_for(HEAD.size + inline)
            record, files, _, _ = socket.recv_fds(self._end, HEAD.size + inline, 1)
        except ConnectionResetError as error:
            raise EOFError from error
        data = _read(files[0], length) if files else memoryview(record)[HEAD.size :]
        return number, unpack(pickle.loads(data))

    def _wait_for(self, size: int) -> None:
        """Wait until so many bytes lie there, the last of which are on their way."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # asked before the count, which then has all that came until the end
            ended = bool(self._poll.poll(0)) or time.monotonic() > deadline
            if COUNT.unpack(fcntl.ioctl(self._end, termios.FIONREAD, bytes(COUNT.size)))[0] >= size:
                return
            if ended:
                raise EOFError("a message was cut")
            time.sleep(1e-4)

    def close(self) -> None:
        """Close the socket, at which the other side notices the end. Safe to call twice."""
        self._end.close()


def memory_file() -> int:
    """Descriptor of an empty file in memory, which has no name and ends with its last descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rookery-shards")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _read(file: int, length: int) -> bytes:
    """All of a file, which is closed."""
    with open(file, "rb") as opened:
        opened.seek(0)
        return opened.read(length)


class SharedStep:
    """Values that every step carries, as tensors of all N worlds in shared memory.

    Args:
        groups: agent groups by name.
        num_envs: N.
        objectives: M of a vector reward, 0 for a reward of one number.
        descriptor: of a file of `size` bytes; None makes only the layout.

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
