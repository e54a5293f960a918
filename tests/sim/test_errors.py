"""Messages are short, whatever a damaged file puts into them."""

from __future__ import annotations

import pickle

from rookery.sim.errors import RookeryError, unknown


def test_a_long_message_keeps_its_beginning_and_the_way_out() -> None:
    text = str(RookeryError(f"the value {'9' * 5000} is no name: give one of reset, startup."))
    assert len(text) == RookeryError.LONGEST
    assert text.startswith("the value 999") and text.endswith("99 is no name: give one of reset, startup.")


def test_only_a_near_name_is_offered() -> None:
    """Else the names are listed alone: "bad" and "go2/onboard" share three letters."""
    cameras = ["chase", "fixed", "go2/onboard"]
    assert str(unknown("camera", "bad", cameras)) == "unknown camera 'bad'. Known: chase, fixed, go2/onboard."
    assert "did you mean 'go2/onboard'?" in str(unknown("camera", "onboard", cameras))


def test_a_message_of_the_usual_length_stays_as_it_is() -> None:
    for text in ("no such file: give another.", "x" * RookeryError.LONGEST):
        assert str(RookeryError(text)) == text
        assert str(pickle.loads(pickle.dumps(RookeryError(text)))) == text
