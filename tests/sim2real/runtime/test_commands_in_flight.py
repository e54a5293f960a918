"""Commands in flight: whatever is asked, the policy is told what it was trained with, and the operator once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rookery.sim.specs import CommandRange
from rookery.sim2real.runtime.pilot import Phase
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.walks import Walk

VELOCITY = "commanded velocity forward, velocity left, yaw rate to the left"


@pytest.mark.slow
def test_a_walk_is_told_the_end_of_the_range_and_to_stand_at_its_end(walk_bundle: Path) -> None:
    commands = {}
    for asked in ((5.0, -9.0, 0.0), (1.0, -0.4, 0.0)):
        walk = Walk(walk_bundle)
        walk.begin()
        walk.pilot.commands.values[VELOCITY] = np.array(asked, np.float32)
        commands[asked] = []
        for _ in range(25):
            walk.run(1)
            assert walk.record is not None and walk.record.command is not None
            commands[asked].append(walk.record.command)
        told = [text for text in walk.said if "is held within what the policy was trained with" in text]
        assert len(told) == (asked[0] == 5.0), walk.said
        assert not told or "-0.6 to 1, -0.4 to 0.4, -0.8 to 0.8" in told[0]
    first, second = commands.values()
    np.testing.assert_array_equal(first, second)

    told_to: list[Any] = []
    step = walk.pilot.controller.step
    walk.pilot.controller.step = lambda values: (told_to.append(values[VELOCITY]), step(values))[1]  # type: ignore[method-assign]
    try:
        walk.pilot.command_limits.replace(VELOCITY, CommandRange((0.2, -0.4, -0.8), (1.0, 0.4, 0.8)))
        walk.pilot.commands.values[VELOCITY] = np.zeros(3, np.float32)
        walk.run(1)
        np.testing.assert_array_equal(told_to[-1], np.array((0.2, 0.0, 0.0), np.float32))
        walk.pilot.commands.finish = True
        walk.run(1)
        assert walk.pilot.phase is Phase.POLICY
        np.testing.assert_array_equal(told_to[-1], 0.0)  # a robot that leaves stands first, whatever the range is
    finally:
        walk.pilot.controller.step = step  # type: ignore[method-assign]


def test_a_drone_flies_to_a_far_target_by_near_ones(hover_bundle: Path) -> None:
    flight = Flight(hover_bundle)
    flight.begin()
    goal = flight.vehicle.truth(0)["position"] + np.array((2.0, 0.3, 0.0), np.float32)
    flight.pilot.commands.values["target"] = goal.astype(np.float32)
    flight.run(300)
    assert flight.pilot.phase is Phase.POLICY, flight.said
    assert float(np.linalg.norm(flight.vehicle.truth(0)["position"] - goal)) < 0.1
    assert sum("'target' is held" in text for text in flight.said) == 1
