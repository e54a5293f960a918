"""A page that sends what its controls do not offer."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from rookery.sim.viewing.values import is_place, read

MENU = {"options": ("0", "1")}
SLIDER = {"min": 0.05, "max": 4.0}


@pytest.mark.parametrize(
    ("control", "good", "bad"),
    [
        (MENU, ["0", "1"], ["999", 0, None, ["0"], {}, "", math.inf]),
        (SLIDER, [0.05, 1, 4.0], [math.inf, -math.inf, math.nan, 4.01, 0.0, -1, "1", None, True, [1.0]]),
        ({}, [True, False], [1, "yes", None, math.inf]),
    ],
)
def test_only_what_is_offered_is_taken(control, good, bad):
    for value in good:
        assert read(SimpleNamespace(value=value, **control), "before") == value
    for value in bad:
        assert read(SimpleNamespace(value=value, **control), "before") == "before"


def test_places():
    assert is_place((1.0, 2, -3.5))
    for bad in ((1.0, 2.0), (math.nan, 0, 0), (math.inf, 0, 0), (1e9, 0, 0), "abc", None, ((1, 2, 3),), (1, 2, "x")):
        assert not is_place(bad)
