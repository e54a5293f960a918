"""Messages are short, whatever a damaged file puts into them."""

from __future__ import annotations

import pickle

from rookery.sim.errors import RookeryError


def test_a_long_message_keeps_its_beginning_and_the_way_out() -> None:
    text = str(RookeryError(f"the value {'9' * 5000} is no name: give one of reset, startup."))
    assert len(text) == RookeryError.LONGEST
    assert text.startswith("the value 999") and text.endswith("99 is no name: give one of reset, startup.")


def test_a_message_of_the_usual_length_stays_as_it_is() -> None:
    for text in ("no such file: give another.", "x" * RookeryError.LONGEST):
        assert str(RookeryError(text)) == text
        assert str(pickle.loads(pickle.dumps(RookeryError(text)))) == text
