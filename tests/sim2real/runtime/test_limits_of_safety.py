"""Limits of the safety filter: which values they take, and when frozen measurements are found."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.safety import SafetyFilter
from rookery.sim2real.runtime.settings import Limits, frozen_ms, safety_settings
from tests.sim2real.runtime.flights import library

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


@pytest.mark.parametrize("period", slow_but([4, 25], [4, 10, 12, 20, 25]))
def test_frozen_measurements_are_found_in_time_whenever_they_freeze(hover_bundle: Path, period: int) -> None:
    """The filter looks every so many milliseconds at measurements of 1 kHz."""
    limits = Limits(frozen_ms=frozen_ms(1e-3 * period))
    spec = Controller(hover_bundle).spec
    for freezes in range(1000, 1000 + period):
        filter_ = SafetyFilter(library(), limits, spec)
        for ms in range(0, 1100, period):
            now = 1e-3 * ms
            reading = Reading(now, now, {"position": np.float32([min(ms, freezes), 0.0, 0.0])})
            found = filter_.check(reading, now, now)
            if found is not None:
                break
        assert found is not None and found.name == "frozen"
        assert freezes < ms <= freezes + 75


def test_lost_measurements_are_not_frozen_ones(hover_bundle: Path) -> None:
    """At 50 Hz, one that changes every 40 ms or is lost for as long."""
    filter_ = SafetyFilter(library(), Limits(frozen_ms=frozen_ms(0.02)), Controller(hover_bundle).spec)
    for step in range(100):
        newest = 0.04 * (step // 2)
        reading = Reading(newest, newest, {"position": np.float32([newest, 0.0, 0.0])})
        assert filter_.check(reading, 0.02 * step, 0.02 * step) is None


def test_a_command_may_change_by_something():
    assert Limits(command_change=1e-9).command_change == 1e-9
    for bad in (0.0, -1.0):
        with pytest.raises(RookeryError, match="command_change must be above 0"):
            Limits(command_change=bad)


def settings(bundle: Path, folder: Path, line: str) -> Limits:
    """Limits with a line of a user's file."""
    file = folder / "safety.toml"
    file.write_text(f"[limits]\n{line}\n")
    contract = Controller(bundle).contract
    return safety_settings(contract, next(iter(contract.groups)), file).limits


def test_limits_of_a_file(hover_bundle: Path, tmp_path: Path) -> None:
    """Whole numbers may be written as floats, and infinity switches a limit off."""
    found = settings(hover_bundle, tmp_path, "misses = 7.0\ntilt_deg = inf\nfence_m = 2")
    assert (found.misses, found.tilt_deg, found.fence_m) == (7, math.inf, 2.0)
    assert type(found.misses) is int


@pytest.mark.parametrize("value", ["'123'", "true", "nan", "[5.0]", "{a = 1}"])
@pytest.mark.parametrize("name", ["misses", "tilt_deg"])
def test_limits_that_are_no_numbers_are_refused(hover_bundle: Path, tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(RookeryError, match=rf"limits\.{name} needs a (whole |finite )?number"):
        settings(hover_bundle, tmp_path, f"{name} = {value}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("misses = 5.5", "needs a whole number"),
        ("misses = inf", "needs a whole number"),
        ("misses = 1_000_000_000_000", "needs a whole number of at most"),
        ("stale_ms = -1", "stale_ms must not be below 0"),
        ("tilt_deg = -1", "tilt_deg must be above 0"),
        ("fence_m = 0", "fence_m must be above 0"),
        ("spin_deg_s = -inf", "spin_deg_s must be above 0"),
        ("jump_m = 0", "jump_m must be above 0"),
        ("jump_deg = -30", "jump_deg must be above 0"),
        ("collision = 0.0", "collision must be above 0"),
        ("battery = 15", "battery must be a share below 1"),
        ("lowest_m = 2\nhighest_m = 2", "lowest_m must be below highest_m"),
        ("tilt_degrees = 3", "unknown safety limit 'tilt_degrees': did you mean 'tilt_deg'"),
    ],
)
def test_limits_that_none_can_keep_are_refused(hover_bundle: Path, tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        settings(hover_bundle, tmp_path, line)
