"""Whether somebody has seen the first picture: with pages that answer, slowly or never."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rookery.sim.viewing import spectators
from rookery.sim.viewing.spectators import FIRST, PATIENCE, ROUNDS, Spectators


class Page:
    """A page that keeps the questions, and answers the last one when it is told to."""

    def __init__(self):
        self.asked = []
        self.camera = SimpleNamespace(fov=0.9)
        self._websock_connection = SimpleNamespace(queue_message=lambda message: self.asked.append(message.fov))

    def flush(self):
        pass

    def answer(self):
        self.camera.fov = self.asked[-1] * (1.0 + 1e-12)  # the page computes with a focal length in between


@pytest.fixture
def now(monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: clock.value, value=100.0)
    monkeypatch.setattr(spectators, "time", clock)
    return clock


def test_a_page_has_its_first_picture_after_some_answers_and_keeps_its_field_of_view(now):
    page = Page()
    who = Spectators(SimpleNamespace(get_clients=lambda: {3: page}))
    assert who.look() and not who.see() and who.quick() is None
    assert who.look() and len(page.asked) == 1  # asked once until it answers
    for k in range(ROUNDS):
        assert who.see() == (k >= FIRST)
        assert page.asked[-1] == pytest.approx(0.9, rel=1e-5) and len(page.asked) == k + 1
        now.value += 1.0 if k < FIRST else 0.03  # it compiles what draws
        page.answer()
        assert who.look()
    assert page.asked[-1] == 0.9 and len(page.asked) == ROUNDS
    assert who.see() and who.quick() is True
    who.look()
    assert len(page.asked) == ROUNDS


def test_a_slow_page_is_not_quick_and_a_silent_one_is_waited_for_no_longer_than_that(now):
    slow, silent = Page(), Page()
    pages = {0: slow}
    who = Spectators(SimpleNamespace(get_clients=lambda: pages))
    who.look()
    for _ in range(ROUNDS):
        now.value += 0.4
        slow.answer()
        who.look()
    assert who.see() and who.quick() is False
    pages[1] = silent
    who.look()
    assert who.see() and who.quick() is None  # one picture is enough for time to go on
    del pages[0]
    who.look()
    assert not who.see()
    now.value += PATIENCE + 0.1
    assert who.see()
    pages.clear()
    assert not who.look() and not who.see()
