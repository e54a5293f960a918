"""Work shared among threads: every world once, whatever the number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from rookery.sim import threads
from rookery.sim.threads import share_worlds


@pytest.mark.parametrize("cost", [0.0, 1e9])
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_every_world_is_worked_on_once(monkeypatch, n, cores, cost):
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    ids = np.arange(n)[::-1] * 2
    count = np.zeros(40, int)
    parts = []
    lock = threading.Lock()

    def work(some, weight):
        with lock:
            count[some] += weight
            parts.append(len(some))

    share_worlds(work, ids, 5, cost=cost)
    assert count.tolist() == [5 if i in ids else 0 for i in range(40)]
    assert len(parts) == (min(cores, n) if cost and n > 1 else 1)
    assert sum(parts) == n and max(parts) - min(parts) <= 1


def test_an_error_in_any_part_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "_cores", lambda: 4)

    def work(some):
        if 7 in some:
            raise IndexError("world 7")

    with pytest.raises(IndexError, match="world 7"):
        share_worlds(work, np.arange(8), cost=1e9)
    share_worlds(work, np.arange(7), cost=1e9)


def test_the_numba_limit_holds(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    threads._cores.cache_clear()
    try:
        assert threads._cores() == 1
    finally:
        threads._cores.cache_clear()
