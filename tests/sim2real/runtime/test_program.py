"""The C++ program of `--target linux` flies and walks as the runtime in Python does, and every fault leads to a safe state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.pilot import Phase, Pilot
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.runtime.settings import safety_settings
from tests.sim2real.runtime import test_faults as faults
from tests.sim2real.runtime.flights import Flight, library
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


FLIGHT = (Flight, NativeFlight, "hover_program", 2.0, 1000)


@pytest.mark.parametrize(
    ("of", "native", "fixture", "seconds", "count"),
    slow_but([FLIGHT], [FLIGHT, (Walk, NativeWalk, "walk_program", 2.0, 500)]),
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


def settings_file(folder: Path, text: str) -> Path:
    """Of the safety filter."""
    (folder / "safety.toml").write_text(text)
    return folder / "safety.toml"


@pytest.mark.parametrize(
    "limits", slow_but(["", "jump_m = inf"], ["", "jump_m = inf", "jump_deg = inf", "jump_m = 0.2"])
)
def test_both_find_the_same_jumps_at_the_same_step(hover_program: Path, tmp_path: Path, limits: str) -> None:
    """Readings that jump ever farther, in turn by place and by heading; the first that is found ends both flights."""
    file = settings_file(tmp_path, f'[limits]\n{limits}\n[reactions]\njump = "stop"\n')
    found = safety_settings(Controller(hover_program).contract, "drone", file).limits

    class Python(Flight):
        def pilot_of(self, seconds: float, **overrides: Any) -> Any:
            pilot = super().pilot_of(seconds, **overrides)
            settings = safety_settings(self.controller.contract, self.controller.group, file)
            return Pilot(self.controller, self.link, library(), settings, self.clock, seconds=seconds, say=pilot._say)

    class Program(NativeFlight):
        words = ("--safety", str(file))

    with closing(Python(hover_program, seed=3)) as ours, closing(Program(hover_program, seed=3)) as theirs:
        begin_alike(ours, theirs)
        count = 0
        for step in range(1000):
            size = 0.05 * count  # of m, and of rad
            for flight in (ours, theirs):
                flight.link.fault = partial(off, place=size * (count % 2), heading=size * (count % 2 == 0))
                flight.run(1)
            assert ours.record.phase is theirs.record.phase, (step, ours.said, theirs.pilot.said)
            if ours.pilot.fault is not None:
                break
            count += ours.record.phase is Phase.POLICY and step % 4 == 0
        assert ours.pilot.fault.name == theirs.pilot.fault.name == "jump"
        # each leads from one kind of jump to the other: both have been that large, and the one before was within its limits
        leap = np.array((size * (count % 2), size * (count % 2 == 0)))
        before = np.array((0.05 * (count - 1) * ((count - 1) % 2), 0.05 * (count - 1) * ((count - 1) % 2 == 0)))
        most = (found.jump_m, np.radians(found.jump_deg))
        assert (np.maximum(leap, before) > np.array(most) - 0.06).any()
        assert (before < np.array(most) + 0.06).all()
        for flight in (ours, theirs):
            flight.run(2)
            assert not flight.vehicle.armed(0)  # the reaction of the file


def off(reading: Reading, place: float, heading: float) -> Reading:
    """A reading whose estimator is off by m to the east, and by rad of heading."""
    w, x, y, z = reading.values["rotation"]
    c, s = np.cos(0.5 * heading), np.sin(0.5 * heading)
    turned = np.float32([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])
    moved = reading.values["position"] + np.float32([place, 0.0, 0.0])
    return dataclasses.replace(reading, values={**reading.values, "rotation": turned, "position": moved})


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


def test_the_program_says_by_its_exit_code_that_the_policy_never_acted(hover_program: Path) -> None:
    for spoil in (True, False):
        with closing(NativeFlight(hover_program, seconds=0.5)) as flight:
            flight.pilot.check()
            if spoil:
                faults.never_there(flight)
            flight.link.receive()
            flight.pilot.start()
            until = flight.clock.moment + 40.0
            while not flight.pilot.done and flight.clock.moment < until:
                flight.run(1)
            assert flight.pilot.done and flight.pilot.fault is None
            assert flight.pilot.process.wait(10) == int(spoil)


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
