"""The C++ program of `--target linux` flies and walks as the runtime in Python does, and every fault leads to a safe state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim2real.runtime.pilot import Phase
from tests.sim2real.runtime import test_faults as faults
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.programs import NativeFlight, NativeWalk
from tests.sim2real.runtime.test_legs import FAULTS as LEGS
from tests.sim2real.runtime.walks import Walk


def steps(flight: Flight, count: int) -> Iterator[tuple[Phase, np.ndarray | None]]:
    """State and command of control steps, from when motors may turn."""
    for _ in range(count):
        flight.run(1)
        assert flight.record is not None
        yield flight.record.phase, flight.record.command


def begin_alike(ours: Flight, theirs: Flight) -> None:
    """Check and arm a flight of the runtime in Python and one of the program, so that both measure the same in every step."""
    for flight in (ours, theirs):
        flight.pilot.check()
        if flight is ours:  # the program's check takes the first step
            flight.link.receive()
        flight.pilot.start()
        flight.pilot.step()
        flight.vehicle.step()
        flight.clock.moment += flight.vehicle.period


@pytest.mark.parametrize(
    ("of", "native", "fixture", "seconds", "count"),
    [(Flight, NativeFlight, "hover_program", 2.0, 1000), (Walk, NativeWalk, "walk_program", 2.0, 500)],
)
def test_both_runtimes_do_the_same(
    of: type[Flight], native: type[Flight], fixture: str, seconds: float, count: int, request: pytest.FixtureRequest
) -> None:
    """In every control step from arming to standing down: one state, one command, on vehicles that measure the same."""
    bundle = request.getfixturevalue(fixture)
    with (
        closing(of(bundle, seed=3, seconds=seconds)) as ours,
        closing(native(bundle, seed=3, seconds=seconds)) as theirs,
    ):
        begin_alike(ours, theirs)
        phases = []
        for (phase, command), (other, theirs_command) in zip(steps(ours, count), steps(theirs, count), strict=True):
            assert phase is other
            assert (command is None) == (theirs_command is None)
            if command is not None:
                np.testing.assert_allclose(theirs_command, command, atol=1e-5)
            phases.append(phase)
        assert [p for p in Phase if p in phases] == [Phase.IDLE, Phase.ENTRY, Phase.POLICY, Phase.EXIT]
        assert ours.pilot.fault is None
        assert theirs.pilot.process.returncode == 0


class TooFast(NativeWalk):
    """A walk that no training had."""

    words = ("--command", "velocity=0.5,-0.6,0")


def test_a_velocity_that_no_training_had_is_refused_before_anything_moves(walk_program: Path) -> None:
    with closing(TooFast(walk_program)) as walk:
        with pytest.raises(AssertionError):
            walk.pilot.check()
        (said,) = walk.pilot.said.splitlines()
        assert "value 1 of the command commanded velocity forward" in said and "out of its range, -0.4 to 0.4" in said
        assert walk.pilot.process.wait(10) == 2
        assert not walk.vehicle.stiff


@pytest.mark.parametrize("fly", [Flight, NativeFlight])
def test_the_operators_end_is_heard_on_the_way_up(fly: type[Flight], hover_program: Path) -> None:
    """It comes down, and the policy never begins."""
    with closing(fly(hover_program)) as flight:
        flight.pilot.check()
        flight.link.receive()
        flight.pilot.start()
        flight.run(80)
        assert flight.pilot.phase is Phase.ENTRY
        flight.pilot.commands.finish = True
        flight.run(20)
        assert flight.pilot.phase is Phase.EXIT
        assert flight.lands()
        flight.run(5)
        assert (flight.pilot.phase, flight.pilot.fault) == (Phase.IDLE, None)


def carried_away(flight: Flight) -> None:
    """A gust takes it 4 m from its target."""
    state = flight.vehicle.drones.bodies.state.clone()
    state[0, 0, 0] += 4.0
    flight.vehicle.drones.bodies.set_state(state.new_zeros(1, dtype=__import__("torch").int64), state)


FAULTS: dict[str, Callable[[Flight], None]] = {**faults.FAULTS, "fence": carried_away}


@pytest.mark.parametrize("fault", slow_but(["", "fence", "hung", "not_finite", "tilt"], FAULTS))
def test_a_safe_state_within_80_ms(hover_program: Path, fault: str) -> None:
    faults.check(NativeFlight, hover_program, fault, FAULTS[fault], 1)


@pytest.mark.slow
@pytest.mark.flights
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_hundred_times(hover_program: Path, fault: str) -> None:
    faults.check(NativeFlight, hover_program, fault, FAULTS[fault], 100)


@pytest.mark.parametrize("fault", slow_but(["silent", "tilt"], ["silent", "hung", "", "tilt"]))
def test_joints_are_damped_within_80_ms(walk_program: Path, fault: str) -> None:
    with closing(NativeWalk(walk_program)) as walk:
        walk.begin()
        walk.run(23)
        assert walk.pilot.phase is Phase.POLICY, walk.pilot.said
        LEGS[fault](walk)
        assert walk.seconds_to_safety() <= faults.SAFE_S, (fault, walk.pilot.said)
        if fault in ("hung", "tilt"):  # a loop that hangs reads no more; one that is tipped falls first
            walk.run(250)
            assert walk.vehicle.lying
        else:
            assert walk.lands()


def test_it_flies_on_when_a_third_of_the_measurements_is_lost(hover_program: Path) -> None:
    """Or comes down: what it must not do is to fall."""
    with closing(NativeFlight(hover_program)) as flight:
        flight.begin()
        rng = np.random.default_rng(0)
        flight.link.fault = lambda reading: None if rng.random() < 0.3 else reading
        start = flight.vehicle.truth(0)["position"]
        for _ in range(1000):
            flight.run(1)
            if flight.pilot.phase is Phase.POLICY:
                assert np.linalg.norm(flight.vehicle.truth(0)["position"] - start) < 0.3
        assert flight.pilot.phase in (Phase.POLICY, Phase.EMERGENCY, Phase.IDLE)
