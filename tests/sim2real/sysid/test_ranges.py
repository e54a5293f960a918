"""Ranges for a training hold what the log says, or the file says that they do not."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from rookery.sim2real.sysid.identify import Estimated
from rookery.sim2real.sysid.intervals import Interval
from rookery.sim2real.sysid.problem import FitParameter
from rookery.sim2real.sysid.ranges import JOINTED, randomization

BY_GAIN = ("kp", "kd", "motor_strength", "motor_speed")  # whose parameters are factors themselves


def text(quantity: str, nominal: float, low: float, high: float) -> str:
    """The file of one parameter that a log identifies with this interval."""
    unit = "1" if quantity in BY_GAIN else "SI"
    parameter = FitParameter(quantity, "", unit, nominal, 0.0, 1e3, 0.1, None, ("elbow",))
    found = Estimated(parameter, 0.5 * (low + high), Interval(low, high, "profile", 1.0), ())
    report = SimpleNamespace(robot="r", log="l", family="arm", identified=SimpleNamespace(parameters=[found]))
    return randomization(report)


@pytest.mark.parametrize("nominal", [0.0, 0.5])
@pytest.mark.parametrize(("low", "high"), [(0.011, 0.012), (0.3, 0.6), (0.3, 40.0), (30.0, 40.0)])
@pytest.mark.parametrize("quantity", list(JOINTED))
def test_a_range_holds_what_the_log_says_or_the_file_says_that_it_is_cut(
    quantity: str, nominal: float, low: float, high: float
) -> None:
    written = text(quantity, nominal, low, high)
    (found,) = (table for table in tomllib.loads(written).values() if isinstance(table, dict))
    target = JOINTED[quantity]
    own = 1.0 if quantity in BY_GAIN else nominal  # of which a drawn number is a factor, or to which it is added
    drawn = [own * x if target.factor else nominal + x for x in (found["low"], found["high"])]
    assert ("# cut: " in written) != (drawn == pytest.approx([low, high], rel=1e-4))
