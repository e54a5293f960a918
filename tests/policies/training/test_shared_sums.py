"""Sums through shared memory: right for every shape, in whatever order processes come, the same bits in all, and no hang."""

from __future__ import annotations

import errno
import multiprocessing
import random
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
from sampled import slow_but

from rookery.policies.training import shared_sums as module
from rookery.policies.training.shared_sums import ROOM, SharedSums, shared_sums

FORKS = multiprocessing.get_context("fork")
SHARED = Path("/dev/shm")
"""Folder of files in memory."""


class Teller:
    """Tells all processes what each says, by way of the test."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe

    def __call__(self, value: Any) -> list[Any]:
        self.pipe.send(value)
        return self.pipe.recv()


def run(size: int, work: Any, rounds: int = 3) -> list[Any]:
    """What `work(sums, rank)` returns in each of `size` processes; `rounds` of telling before that."""
    pipes = [FORKS.Pipe() for _ in range(size)]

    def process(rank: int) -> None:
        torch.set_num_threads(1)
        teller = Teller(pipes[rank][1])
        sums = shared_sums(rank, size, teller)
        teller.pipe.send(work(sums, rank))

    processes = [FORKS.Process(target=process, args=(rank,), daemon=True) for rank in range(size)]
    for p in processes:
        p.start()
    ours = [pipe[0] for pipe in pipes]
    for _ in range(rounds):
        told = [pipe.recv() for pipe in ours]
        for pipe in ours:
            pipe.send(told)
    out = [pipe.recv() for pipe in ours]
    for p in processes:
        p.join(60)
    return out


def numbers(rank: int, k: int) -> torch.Tensor:
    """Another tensor for each process and call, of any size up to twice what one piece holds."""
    g = torch.Generator().manual_seed(1000 * k + rank)
    count = (0, 1, 7, 1000, ROOM // 4, ROOM // 4 + 1, ROOM // 2)[k % 7]
    if k % 3 == 2:
        return torch.randint(-1000, 1000, (count,), generator=g)
    return torch.randn(count, generator=g, dtype=torch.float64 if k % 3 else torch.float32)


@pytest.mark.parametrize("size", slow_but([2], [2, 3]))
def test_all_get_the_same_right_sums_whoever_is_late(size: int) -> None:
    def work(sums: SharedSums | None, rank: int) -> list[tuple[bool, bytes]]:
        assert sums is not None
        late = random.Random(rank)
        out = []
        for k in range(60):
            if late.random() < 0.2:
                time.sleep(late.random() * 0.004)
            parts = torch.stack([numbers(r, k) for r in range(size)])
            mine, largest = numbers(rank, k), numbers(rank, k)
            assert sums.sum(mine) is mine
            sums.max(largest)
            right = torch.allclose(mine.double(), parts.double().sum(0), rtol=1e-5, atol=1e-5)
            right &= torch.equal(largest, parts.amax(0) if parts.numel() else largest)
            out.append((right, mine.numpy().tobytes()))
        return out

    found = run(size, work)
    assert all(right for rows in found for right, _ in rows)
    assert all(rows == found[0] for rows in found)


def test_a_process_that_dies_ends_the_others_as_a_lost_connection_does() -> None:
    def work(sums: SharedSums | None, rank: int) -> str:
        assert sums is not None
        sums.sum(torch.ones(3))
        if rank:
            return "left"  # and ends
        try:
            sums.sum(torch.ones(3))
        except ConnectionError as error:
            return str(error)
        return "no error"

    assert run(2, work) == ["the worker of rank 1 is gone, and its sums with it.", "left"]


def test_a_stopped_process_is_waited_for() -> None:
    def work(sums: SharedSums | None, rank: int) -> float:
        assert sums is not None
        if rank:
            time.sleep(1.5)
        return float(sums.sum(torch.ones(1)))

    assert run(2, work) == [2.0, 2.0]


@pytest.mark.parametrize("lack", ["order", "machine", "room"])
def test_others_than_neighbors_have_none(lack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*args: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    def other(rank: int) -> None:
        if lack == "order" and rank == 1:
            monkeypatch.setattr(module.platform, "machine", lambda: "aarch64")
        if lack == "machine":
            monkeypatch.setattr(module.socket, "gethostname", lambda: f"host{rank}")
        if lack == "room":
            monkeypatch.setattr(module.os, "posix_fallocate", no_room)

    pipes = [FORKS.Pipe() for _ in range(2)]

    def process(rank: int) -> None:
        other(rank)
        teller = Teller(pipes[rank][1])
        teller.pipe.send(shared_sums(rank, 2, teller) is None)

    processes = [FORKS.Process(target=process, args=(rank,), daemon=True) for rank in range(2)]
    for p in processes:
        p.start()
    for _ in range(2):
        told = [pipe[0].recv() for pipe in pipes]
        for pipe in pipes:
            pipe[0].send(told)
    assert [pipe[0].recv() for pipe in pipes] == [True, True]
    for p in processes:
        p.join(30)


def test_nothing_is_left_in_memory() -> None:
    before = set(SHARED.glob("rookery-*"))
    assert run(2, lambda sums, rank: sums is not None) == [True, True]
    assert set(SHARED.glob("rookery-*")) <= before


def test_a_process_that_is_killed_before_the_others_come_leaves_nothing_in_memory() -> None:
    before = set(SHARED.glob("rookery-*"))
    ours, its = FORKS.Pipe()
    process = FORKS.Process(target=lambda: shared_sums(0, 2, Teller(its)), daemon=True)
    process.start()
    ours.recv()  # it says who it is, and waits for the others
    process.kill()
    process.join(30)
    assert set(SHARED.glob("rookery-*")) <= before


def test_one_process_needs_none() -> None:
    assert shared_sums(0, 1, lambda value: [value]) is None
