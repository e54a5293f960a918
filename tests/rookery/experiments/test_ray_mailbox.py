"""Messages of workers: none is lost, the first failure is told, and a wish to stop arrives with the next row."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from rookery.experiments.ray_mailbox import ANSWER_S, Letters, WorkerMailbox
from rookery.sim.errors import ProcessLost


class Lost(Exception):
    """In place of Ray's error for a process that is gone."""


class Ray:
    """In place of Ray: an actor's methods are called when they are asked for, and answers come at once, later, or never."""

    exceptions = SimpleNamespace(RayError=Lost)

    def __init__(self) -> None:
        self.letters = Letters()
        self.answers = True
        self.lost = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.letters, name)
        return SimpleNamespace(remote=lambda *args: SimpleNamespace(value=method(*args)))

    def wait(self, replies: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return (replies, []) if self.answers else ([], replies)

    def get(self, reply: Any, timeout: float | None = None) -> Any:
        if self.lost:
            raise Lost
        return reply.value


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Ray:
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize("what", ["rows", "notes"])
def test_what_an_open_question_has_taken_is_not_lost(what: str, ray: Ray) -> None:
    mailbox = WorkerMailbox(ray)
    send, take = (mailbox.put, mailbox.rows) if what == "rows" else (mailbox.note, mailbox.notes)
    send("first")  # type: ignore[operator]
    ray.answers = False
    assert take(wait=False) == []
    send("second")  # type: ignore[operator]
    assert take(wait=False) == []
    send("third")  # type: ignore[operator]
    assert take(wait=True) == ["first", "second", "third"]
    assert take(wait=True) == []
    ray.answers = True
    send("fourth")  # type: ignore[operator]
    assert take(wait=False) == ["fourth"]


def test_the_first_failure_is_told_and_the_result(ray: Ray) -> None:
    """What fails first has the others fail."""
    mailbox = WorkerMailbox(ray)
    assert mailbox.error() == mailbox.error(wait=False) == "" and mailbox.result() is None
    mailbox.fail("training diverged.")
    mailbox.fail("the worker of rank 0 is gone.")
    ray.answers = False
    assert mailbox.error(wait=False) == ""
    ray.answers = True
    assert mailbox.error(wait=False) == mailbox.error() == "training diverged."
    mailbox.finish({"steps": 1})
    assert mailbox.result() == {"steps": 1}


def test_the_wish_to_stop_comes_with_the_reply_to_a_row(ray: Ray) -> None:
    command, worker = WorkerMailbox(ray), WorkerMailbox(ray)
    assert not worker.wanted()
    worker.put({})
    command.stop()
    assert not worker.wanted()
    worker.put({})
    assert worker.wanted()


def test_a_lost_carrier_is_one_sentence(ray: Ray) -> None:
    ray.lost = True
    for ask in (WorkerMailbox(ray).rows, WorkerMailbox(ray).error, WorkerMailbox(ray).result):
        with pytest.raises(ProcessLost, match="the process of Ray that carries the workers' messages was lost"):
            ask()


def test_a_carrier_that_does_not_answer_is_lost_after_a_while(ray: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be stopped."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    mailbox = WorkerMailbox(ray)
    ray.answers = False
    assert mailbox.rows(wait=False) == []
    now = 0.9 * ANSWER_S
    assert mailbox.rows(wait=False) == []
    now = 1.1 * ANSWER_S
    with pytest.raises(ProcessLost):
        mailbox.rows(wait=False)


def test_workers_that_begin_anew_say_from_where(ray: Ray) -> None:
    mailbox = WorkerMailbox(ray)
    mailbox.begin(512)
    assert mailbox.notes() == []
    mailbox.begin(2560)
    assert mailbox.notes() == ["a worker was lost, and all go on from the checkpoint of 2,560 steps"]
