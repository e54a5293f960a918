"""Batches and cases that another process plays give the report of one process."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rookery.sim2real.gate.batches import play, try_to_play
from rookery.sim2real.gate.gate import Gate, GateSettings
from tests.sim2real.gate.test_margins import profile
from tests.sim2real.gate.toy import ToyOpener, swapped


def test_the_report_is_that_of_one_process(tmp_path, monkeypatch):
    """In batches of two points, with an engine that fails and one that is not here."""
    monkeypatch.setattr(Gate, "_points", lambda self, asked: 2)
    path = profile(tmp_path, {"offset": (0.0, 0.3), "friction": (0.4, 1.0), "observation_noise": (0.0, 1.5)})
    settings = GateSettings(20, 0.3, rounds=1, combinations=5, engines=("good", "bad"), seed=4)
    opener = ToyOpener(broken={"bad": swapped})
    told: list[str] = []
    want = Gate(opener, path, settings, note=told.append).run()
    asked: list[tuple[str, int]] = []

    def elsewhere(work: Callable[[Any], Any], orders: Sequence[Any]) -> Iterator[Any]:
        """All at once and backwards, from copies."""
        asked.extend((work.__name__, len(order.points)) for order in orders)
        return reversed([work(pickle.loads(pickle.dumps(order))) for order in reversed(orders)])

    lines: list[str] = []
    found = Gate(opener, path, settings, note=lines.append, mapper=elsewhere).run()
    assert dataclasses.replace(found, seconds=want.seconds) == want
    assert lines == told
    assert [c.verdict for c in found.cases] == ["pass", "pass", "fail", "pass", "pass", "not applicable"]
    assert asked[:4] == [(try_to_play.__name__, 1)] * 4, "the cases begin first"
    played = [count for name, count in asked if name == play.__name__]
    assert max(played) == 2 and sum(played) * 20 == found.episodes_run > 0
