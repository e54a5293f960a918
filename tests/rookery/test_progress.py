"""Progress on standard error: rare lines in a log, one line on a terminal, nothing for short work."""

from __future__ import annotations

import pytest

import rookery
from rookery.cli import progress as module
from rookery.cli.progress import Progress
from rookery.policies.training.evaluate import evaluate


class Clock:
    """A clock that stands still until it is moved."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_a_log_gets_a_line_every_few_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("episodes", 64) as progress:
        for i in range(1, 121):
            clock.now += 0.1
            progress(i // 2, i / 120)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(lines) == 2
    assert lines[0] == "25 of 64 episodes, 42% of the work, 7 s left"
    assert "\r" not in err


def test_the_time_left_is_at_the_rate_of_units_and_not_of_what_was_before_them(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("frames", 100) as progress:
        clock.now += 60.0  # processes start
        progress(0, 0.0)
        clock.now += 10.0
        progress(20, 0.2)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 100 frames, 0% of the work", "20 of 100 frames, 20% of the work, 40 s left"
    ]  # fmt: skip


def test_short_work_prints_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("frames", 30) as progress:
        clock.now += 4.9
        progress(30, 1.0)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_keeps_one_line_and_ends_with_none(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress("episodes", 8) as progress:
        clock.now += 300.0
        progress(1, 0.1)
        clock.now += 1.0
        progress(8, 1.0)
    err = capsys.readouterr().err
    assert "\n" not in err and err.count("\r") == 4
    assert "1 of 8 episodes, 10% of the work, 45 min 0 s left" in err
    assert err.endswith("\r") and not err.rsplit("\r", 2)[1].strip(), "the line is erased at the end"


def test_evaluation_reports_every_step() -> None:
    env = rookery.make("drone-hover", 3, config={"episode_s": 0.2})
    calls: list[tuple[int, float]] = []
    act = env.controller()
    assert act is not None
    evaluate(env, act, 5, progress=lambda done, share: calls.append((done, share)))
    env.close()
    done = [c[0] for c in calls]
    share = [c[1] for c in calls]
    assert done == sorted(done) and share == sorted(share)
    assert done[0] == 0 and done[-1] >= 3 and share[0] >= 0.0 and share[-1] <= 1.0
    assert len(calls) == 40, "two episodes of 20 control steps in the first worlds"
