"""Limits of the safety filter: which values they take."""

from __future__ import annotations

import dataclasses
import math

import pytest

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.settings import Limits

COUNTED = ("stale_ms", "silent_ms", "frozen_ms", "clock_ms", "policy_ms", "ground_ms", "misses")


@pytest.mark.parametrize("name", COUNTED)
def test_0_switches_a_limit_off_and_less_is_refused(name):
    assert getattr(Limits(**{name: 0}), name) == 0
    with pytest.raises(RookeryError, match=rf"{name} must not be below 0 \(0 switches it off\), got -0\.01"):
        Limits(**{name: -0.01})


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Limits)])
def test_no_limit_is_nan(name):
    with pytest.raises(RookeryError, match=f"{name} must be a number, got nan"):
        Limits(**{name: math.nan})


def test_a_command_may_change_by_something():
    assert Limits(command_change=1e-9).command_change == 1e-9
    for bad in (0.0, -1.0):
        with pytest.raises(RookeryError, match="command_change must be above 0"):
            Limits(command_change=bad)
