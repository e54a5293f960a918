from __future__ import annotations

import torch

from rookery.tasks.volleyball import rally
from rookery.tasks.volleyball.rally import ROWS, RallyLog


def note(log: RallyLog, time: float, event: int, drone: int = -1, where=(0.0, 0.0, 0.0), world: int = 0) -> None:
    log.note(torch.tensor([world]), torch.tensor([time]), event, drone, torch.tensor([where]))


def test_a_rally_reads_like_one():
    log = RallyLog(2)
    note(log, 0.0, rally.START, 1, (4.5, 2.0, 4.0), world=1)
    note(log, 0.84, rally.RACKET_HIT, 1, (4.4, 2.1, 2.2), world=1)
    note(log, 1.9, rally.CROSSING, where=(0.0, 0.0, 3.14), world=1)
    note(log, 2.35, rally.FAULT + rally.BALL_LANDED, where=(-3.0, 1.0, 0.2), world=1)
    note(log, 2.35, rally.POINT_NEAR, world=1)
    assert log.play_by_play(1) == [
        " 0.00 s  ball above drone 1 at (4.5, 2.0, 4.0) m",
        " 0.84 s  drone 1 hits the ball with the racket at (4.4, 2.1, 2.2) m",
        " 1.90 s  ball crosses the middle at 3.1 m",
        " 2.35 s  ball lands in the court at (-3.0, 1.0) m",
        " 2.35 s  point for the near side",
    ]
    assert log.play_by_play(0) == []
    assert "Eva hits" in log.play_by_play(1, names=["Ada", "Eva"])[1]


def test_every_event_has_a_line():
    log = RallyLog(1)
    for event in [*range(rally.NO_POINT + 1), *(rally.FAULT + i + 1 for i in range(len(rally.FAULTS)))]:
        note(log, 1.0, event, 0)
        (*_, line) = log.play_by_play(0)
        assert len(line) > 12
        assert "{" not in line
    assert len({line for back in range(2) for line in log.play_by_play(0, back)}) > 20


def test_rallies_before_this_one_are_kept_while_there_is_room():
    log = RallyLog(1)
    for r in range(10):
        note(log, 0.0, rally.START, r)
        for i in range(9):
            note(log, 0.1 * i, rally.CROSSING)
    assert [log.events(0, back)[0][2] for back in range(6)] == [9, 8, 7, 6, 5, 4]
    assert len(log.events(0, 5)) == 10
    assert len(log.events(0, 6)) == ROWS - 60  # its beginning is overwritten
    assert log.events(0, 7) == []
    assert int(log.written[0]) == 100


def test_one_note_goes_into_several_worlds():
    log = RallyLog(4)
    where = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    log.note(torch.tensor([1, 3]), torch.tensor([0.5, 0.7]), rally.TARGET, 0, where)
    assert [log.events(n) for n in range(4)] == [
        [], [(0.5, rally.TARGET, 0, (1.0, 2.0, 3.0))],
        [], [(log.events(3)[0][0], rally.TARGET, 0, (4.0, 5.0, 6.0))],
    ]  # fmt: skip


def test_the_log_is_saved():
    a, b = RallyLog(1), RallyLog(1)
    note(a, 0.0, rally.START, 0)
    note(a, 0.5, rally.BODY_HIT, 0)
    b.load_state_dict(a.state_dict())
    note(a, 0.7, rally.CROSSING)
    note(b, 0.7, rally.CROSSING)
    assert a.play_by_play(0) == b.play_by_play(0)
    assert len(b.play_by_play(0)) == 3
