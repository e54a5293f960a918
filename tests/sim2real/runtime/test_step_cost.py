"""A control step's own cost: in lock-step, without the link's messages and the policy's network, at most 400 us."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sampled import slow_but

from rookery.sim2real.runtime.pilot import Phase
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.reaches import Reach
from tests.sim2real.runtime.walks import Walk

MOST_S = 400e-6
KINDS: dict[str, type[Flight]] = {"hover_bundle": Flight, "walk_bundle": Walk, "reach_bundle": Reach}


@pytest.mark.parametrize("name", slow_but(["reach_bundle"], KINDS))
def test_a_control_step_costs_at_most_400_us_beside_link_and_network(name: str, request: pytest.FixtureRequest) -> None:
    """The least of many: whatever else the machine does only adds to it."""
    flight = KINDS[name](request.getfixturevalue(name))
    flight.begin()
    outside: list[float] = []
    within = 0.0

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def inner(*given: Any) -> Any:
            nonlocal within
            began = time.perf_counter()
            answer = call(*given)
            within += time.perf_counter() - began
            return answer

        return inner

    def step() -> Any:
        nonlocal within
        within = 0.0
        began = time.perf_counter()
        record = step_of_pilot()
        outside.append(time.perf_counter() - began - within)
        return record

    step_of_pilot = flight.pilot.step
    flight.pilot.step = step
    flight.link.read, flight.link.write = timed(flight.link.read), timed(flight.link.write)
    flight.controller._act = timed(flight.controller._act)  # type: ignore[method-assign]
    flight.run(60)
    assert flight.pilot.phase is Phase.POLICY and len(outside) == 60
    assert 0.0 < min(outside) < MOST_S
