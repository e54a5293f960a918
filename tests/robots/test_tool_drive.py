"""Goals of tools that actions move."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.robots.manipulators.tool_drive import GoalBounds, _move


@pytest.mark.parametrize("ahead", [0.1, -0.1])
@pytest.mark.parametrize("way", [0.01, -0.01])
def test_a_goal_ahead_of_its_lead_moves_on_along_the_other_axes(ahead: float, way: float) -> None:
    """A goal that is farther ahead along x than it may be, and a step along y and z alone: x is not what the step is
    shortened for."""
    goal = np.array([[ahead, 0.2, 0.3]])
    step = np.array([[0.0, way, -way]])
    place, tool = np.array([0.0, 0.2, 0.3]), goal.copy()
    box = np.full(3, 1.0)
    _move(goal, step, 0, place, tool, GoalBounds(0.05, 0.5, -box, box))
    assert goal[0].tolist() == pytest.approx([ahead, 0.2 + way, 0.3 - way])
