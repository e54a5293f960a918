"""Sets of skills as they are declared."""

from __future__ import annotations

from typing import Any

import pytest

from rookery.policies.hierarchy.skill_set import skills_of
from rookery.sim.errors import RookeryError

WALK: dict[str, Any] = {"policy": "go2-velocity"}


def test_a_skill_acts_as_long_as_its_set_unless_it_says_otherwise() -> None:
    found = skills_of({"every": 7, "skills": {"walk": WALK, "turn": WALK | {"every": 3}}})
    assert [found.steps(name) for name in ("walk", "turn")] == [7, 3]


@pytest.mark.parametrize("steps", [0, -3])
@pytest.mark.parametrize("where", ["every", "skills.walk.every"])
def test_decisions_that_stand_for_no_control_step_are_refused(where: str, steps: int) -> None:
    own = {"every": steps}
    values = {"skills": {"walk": WALK}} | own if where == "every" else {"skills": {"walk": WALK | own}}
    with pytest.raises(RookeryError, match=f"^{where} is {steps}: give a number of control steps from 1"):
        skills_of(values)
