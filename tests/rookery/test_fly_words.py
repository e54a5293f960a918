"""What `rookery fly` reads from its words."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.cli.fly import commands
from rookery.sim.errors import RookeryError


def test_every_command_is_there_by_its_name():
    found = commands(["velocity=0.3,-1,2e-1", " height =0.5", "a=b=7"])
    assert list(found) == ["velocity", "height", "a=b"]
    np.testing.assert_array_equal(found["velocity"], np.float32([0.3, -1.0, 0.2]))
    np.testing.assert_array_equal(found["height"], np.float32([0.5]))
    assert all(value.dtype == np.float32 for value in found.values())
    assert commands([]) == {}
    assert commands(["x=1", "x=2"])["x"] == 2.0  # the last holds


@pytest.mark.parametrize(
    "word", ["velocity", "velocity=", "velocity=a", "velocity=1,,2", "velocity=nan", "velocity=1,inf", ""]
)
def test_what_is_no_command_is_named(word):
    with pytest.raises(RookeryError, match=f"--command must be NAME=number,number,..., got {word!r}"):
        commands(["x=1", word])
