"""Values with limits: where they begin to be refused, and what the sentence says is wanted."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
import pytest

from rookery.sim.errors import RookeryError
from rookery.sim.values import convert

CASES: dict[str, tuple[Any, Any, Any, str]] = {
    "above": (Annotated[float, msgspec.Meta(gt=0.5)], 0.5000001, 0.5, "a number above 0.5"),
    "at least": (Annotated[float, msgspec.Meta(ge=0.5)], 0.5, 0.4999999, "a number of at least 0.5"),
    "whole, at least": (Annotated[int, msgspec.Meta(ge=3)], 3, 2, "a whole number of at least 3"),
    "whole, above": (Annotated[int, msgspec.Meta(gt=3)], 4, 3, "a whole number above 3"),
    "below": (Annotated[float, msgspec.Meta(lt=0.5)], 0.4999999, 0.5, "a number below 0.5"),
    "at most": (Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)], 1.0, 1.0000001, "a number of at least -1 and of at most 1"),
    "text": (Annotated[str, msgspec.Meta(min_length=1)], "a", "", "text that is not empty"),
    "numbers": (
        Annotated[tuple[float, ...], msgspec.Meta(min_length=2)], [1.0, 2.0], [1.0], "a list of at least 2 such as [0.5, 0.5]",
    ),
    "three": (tuple[int, int, int], [1, 2, 3], [1, 2], "a list of 3 such as [64, 64, 64]"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_last_value_that_is_taken_and_the_first_that_is_refused(case):
    hint, good, bad, wanted = CASES[case]
    assert convert(good, hint, "x") == (tuple(good) if isinstance(good, list) else good)
    with pytest.raises(RookeryError, match=rf"x needs {re.escape(wanted)}, got {re.escape(repr(bad))}"):
        convert(bad, hint, "x")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_limit_takes_nothing_that_is_not_finite(bad):
    with pytest.raises(RookeryError, match="x needs a finite number above 0, got"):
        convert(bad, Annotated[float, msgspec.Meta(gt=0)], "x")
