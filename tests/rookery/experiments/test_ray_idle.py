"""Tasks of a Ray cluster that do nothing any more: they are found on their machine, and ended there."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from rookery.experiments import ray_idle
from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.ray_idle import NodeProcesses, TaskProcess, TaskWatch
from rookery.sim.errors import ProcessLost

NAMED = """
import sys, time
if sys.argv[1] == "busy":
    while True:
        pass
time.sleep(60)
"""
"""A program that computes or waits."""


def named(name: str, job: str, what: str = "wait") -> subprocess.Popen[bytes]:
    """A process with the name that Ray gives to one of its own."""
    env = {**os.environ, "RAY_JOB_ID": job}
    return subprocess.Popen([name, "-ISc", NAMED, what], executable=sys.executable, env=env)


def test_processes_of_the_tasks_of_one_job_are_found_and_ended() -> None:
    """Also one that is stopped before it has begun; none of another job, of another node, or that waits for a task."""
    node = NodeProcesses("02", os.getpid())
    busy, waits = named("ray::as_here", "02", "busy"), named("ray::as_here", "02")
    early, idle = named("ray::IDLE", "ffffffff"), named("ray::IDLE", "02")
    everybody = (busy, waits, early, idle, named("ray::as_here", "03"), named("ray::Letters", "02"))
    try:
        wait_for(lambda: all("".join(psutil.Process(p.pid).cmdline()).startswith("ray::") for p in everybody))
        early.send_signal(signal.SIGSTOP)
        wait_for(lambda: psutil.Process(early.pid).status() == psutil.STATUS_STOPPED)
        before = {p.pid: p for p in node.tasks()}
        assert before.keys() == {busy.pid, waits.pid, early.pid}
        assert NodeProcesses("02", os.getppid()).tasks() == []
        wait_for(lambda: computed(node, busy.pid) > before[busy.pid].computed)
        assert computed(node, early.pid) == before[early.pid].computed
        node.end(TaskProcess(early.pid, before[early.pid].started - 1, 0.0))  # one of before, whose id it has now
        assert early.poll() is None
        node.end(before[early.pid])
        assert early.wait(10) == -signal.SIGKILL
        node.end(before[early.pid])  # nobody has the id any more
    finally:
        for process in everybody:
            process.kill()
            process.wait()


def computed(node: NodeProcesses, pid: int) -> float:
    return next(p.computed for p in node.tasks() if p.pid == pid)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


class Lost(Exception):
    """In place of Ray's error for a process that is gone."""


class Node:
    """In place of Ray's handle of a node's processes, whose answers are its replies."""

    def __init__(self) -> None:
        self.found: list[TaskProcess] = []
        self.ended: list[TaskProcess] = []
        self.tasks = SimpleNamespace(remote=lambda: tuple(self.found))
        self.end = SimpleNamespace(remote=self.ended.append)


class Ray:
    """Of two nodes, whose answers come at once, later, never, or with an error."""

    exceptions = SimpleNamespace(RayError=Lost)

    def __init__(self) -> None:
        self.here = {"on near": Node(), "on far": Node()}
        self.answers = True
        self.lost = False

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": n, "Alive": n != "gone"} for n in ("near", "far", "gone")]

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_job_id=lambda: "02")

    def remote(self, scheduling_strategy: str, **options: Any) -> Any:
        def placed(kind: type) -> Any:
            assert kind is NodeProcesses
            return SimpleNamespace(remote=lambda job: self.here.pop(scheduling_strategy))  # once for each

        return placed

    def wait(self, replies: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return (replies, []) if self.answers else ([], replies)

    def get(self, reply: Any) -> Any:
        if self.lost:
            raise Lost
        return reply


class Looked:
    """A watch with a limit of 20 s, which are five looks, a clock, and a task on each node, of which the near one computes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = 1000.0
        monkeypatch.setattr(ray_idle.time, "monotonic", lambda: self.clock)
        self.ray = Ray()
        self.near, self.far = self.ray.here.values()
        self.watch = TaskWatch(self.ray, 20.0, lambda node: f"on {node}")
        self.stuck = TaskProcess(22, 202, 5.0)
        self.far.found = [self.stuck]

    def look(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.clock += 1.0
            self.near.found = [TaskProcess(11, 101, self.clock)]
            self.watch.look()


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Looked:
    return Looked(monkeypatch)


def test_a_task_that_does_not_compute_is_ended_on_its_machine(looked: Looked) -> None:
    looked.look(20)
    assert not looked.far.ended
    looked.look(15)
    assert looked.far.ended == [looked.stuck]
    assert looked.watch.ended == 1
    looked.look(15)
    assert len(looked.far.ended) == 1
    looked.look(15)
    assert len(looked.far.ended) == 2, "it is still there after as long again"
    assert not looked.near.ended


def test_the_process_that_takes_its_place_has_all_the_time(looked: Looked) -> None:
    looked.look(15)
    looked.far.found = [TaskProcess(22, 203, 5.0)]  # with the id of the one before
    looked.look(20)
    assert not looked.far.ended
    looked.far.found = []
    looked.look(60)
    assert not looked.far.ended


def test_no_time_counts_while_a_node_does_not_answer(looked: Looked) -> None:
    looked.look(12)
    looked.ray.answers = False
    looked.look(100)
    looked.ray.answers, looked.ray.lost = True, True
    looked.look(100)
    assert not looked.far.ended
    looked.ray.lost = False
    looked.look(20)
    assert looked.far.ended == [looked.stuck]


def test_with_a_short_limit_looks_are_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = Looked(monkeypatch)
    looked.watch = TaskWatch(looked.ray, 4.0, lambda node: f"on {node}")
    looked.look(5)
    assert not looked.far.ended
    looked.look(2)
    assert looked.far.ended == [looked.stuck]


@pytest.mark.slow
def test_a_task_is_done_again_whose_process_is_stopped_and_one_too_often_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As soon as it has its name, which is before it has imported anything, and later."""
    monkeypatch.setenv("ROOKERY_SHARD_TIMEOUT_S", "4")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    work = functools.partial(hashlib.pbkdf2_hmac, "sha256", b"", b"")
    rounds = round(3.0 / timeit.timeit(lambda: work(10_000), number=1) * 10_000)  # some seconds
    with Cluster("local", 1, 1.0) as cluster:
        with stopping([0.0, 1.0]) as stopped:
            assert list(cluster.map(work, [rounds, 1])) == [work(rounds), work(1)]
        assert len(stopped) == 2
        with (
            stopping([0.0] * 5) as stopped,
            pytest.raises(ProcessLost, match="lost 4 times, and 6 were ended that had not"),
        ):
            list(cluster.map(work, [rounds]))
        assert len(stopped) == 4


@contextlib.contextmanager
def stopping(after: list[float]) -> Iterator[set[int]]:
    """Stop the first processes that do a task, each so many seconds after it is seen; their ids."""
    over, stopped = threading.Event(), set[int]()

    def stop() -> None:
        for seconds in after:
            while not (new := tasks_of_this_process() - stopped):
                if over.wait(0.02):
                    return
            if over.wait(seconds):
                return
            pid = new.pop()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                stopped.add(pid)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield stopped
    finally:
        over.set()
        thread.join()


def tasks_of_this_process() -> set[int]:
    """Ids of Ray's processes that do a task for this one."""
    found = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if next(iter(process.cmdline()), "").strip() == ray_idle.WORKS:
                found.add(process.pid)
    return found
