"""Each fault of each link leads to a safe state within 80 ms, a hundred times of a hundred, whenever it comes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.sim2real.runtime import (
    test_betaflight,
    test_canopen,
    test_dynamixel,
    test_ros2,
    test_ros2_drone,
    test_unitree_faults,
)
from tests.sim2real.runtime.boards import BoardFlight
from tests.sim2real.runtime.drive_reaches import CanReach, ServoReach
from tests.sim2real.runtime.strikes import in_a_fork, strikes
from tests.sim2real.runtime.test_ros2 import TopicReach
from tests.sim2real.runtime.test_ros2_drone import TwistFlight, velocity_bundle
from tests.sim2real.runtime.test_unitree_faults import DdsWalk

__all__ = ["velocity_bundle"]

TIMES = 100


@dataclass(frozen=True)
class Case:
    """A link's flights and what may happen to them."""

    bundle: str
    flight: Callable[..., Any]
    faults: dict[str, tuple[Callable[[Any], None], str]]


LINKS = {
    "betaflight": Case("hover_bundle", BoardFlight, test_betaflight.FAULTS),
    "ros2, twists": Case("velocity_bundle", TwistFlight, test_ros2_drone.FAULTS),
    "ros2, joints": Case("reach_bundle", TopicReach, test_ros2.FAULTS),
    "canopen": Case("reach_bundle", CanReach, test_canopen.FAULTS),
    "dynamixel": Case("reach_bundle", ServoReach, test_dynamixel.FAULTS),
    "unitree": Case("walk_bundle", DdsWalk, test_unitree_faults.FAULTS),
}


@pytest.mark.slow
@pytest.mark.flights
@pytest.mark.parametrize(("link", "fault"), [(link, fault) for link, case in LINKS.items() for fault in case.faults])
def test_a_hundred_times(link: str, fault: str, request: pytest.FixtureRequest) -> None:
    case = LINKS[link]
    bundle = request.getfixturevalue(case.bundle)
    begin, name = case.faults[fault]
    wrong = strikes(lambda seed: case.flight(bundle, seed=seed), begin, name, TIMES)
    assert not wrong, f"{len(wrong)} of {TIMES}: {wrong[0]}"


def test_a_fork_says_what_went_wrong() -> None:
    """And one that dies is noticed, too."""

    def fails() -> None:
        raise AssertionError("too late")

    assert in_a_fork(lambda: None) == ""
    assert "too late" in in_a_fork(fails)
    assert in_a_fork(lambda: __import__("os")._exit(0)) != ""
