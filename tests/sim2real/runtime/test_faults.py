"""Each fault leads to a safe state within 80 ms of its beginning, whenever it comes; the vehicle lands softly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

from rookery.cli.main import main
from rookery.sim2real.runtime import pilot
from rookery.sim2real.runtime.pilot import ARM_S, LOST_S, Phase
from rookery.sim2real.runtime.reading import Reading
from tests.sim2real.runtime.flights import Flight

SAFE_S = 0.08


def cut(flight: Flight) -> None:
    """Nothing passes either way."""
    flight.link.cut = True


def stale(flight: Flight) -> None:
    """Heartbeats arrive, measurements do not."""

    def lose(reading: Reading) -> None:
        flight.link.heard = reading.received

    flight.link.fault = lose


def frozen(flight: Flight) -> None:
    """The same values come again and again, with new stamps."""
    kept = flight.link.read()
    assert kept is not None
    flight.link.fault = lambda reading: dataclasses.replace(reading, values=kept.values)


def not_a_number(flight: Flight) -> None:
    """One value is NaN."""

    def spoil(reading: Reading) -> Reading:
        values = dict(reading.values)
        name = list(values)[int(1e3 * reading.measured) % len(values)]
        values[name] = values[name].copy()
        values[name][-1] = np.nan
        return dataclasses.replace(reading, values=values)

    flight.link.fault = spoil


def clock_jump(flight: Flight) -> None:
    """The vehicle's clock goes back by a minute."""
    flight.link.fault = lambda reading: dataclasses.replace(reading, measured=reading.measured - 60.0)


def hung(flight: Flight) -> None:
    """The policy's step does not return: the loop stands, and the watchdog runs on."""
    flight.link.receive()
    stamp = flight.pilot.policy_stamp
    flight.pilot.step = lambda: flight.record  # type: ignore[method-assign, return-value]
    flight.pilot.policy_stamp = stamp


def operator(flight: Flight) -> None:
    """The stop key."""
    flight.pilot.commands.stop = True


def killed(flight: Flight) -> None:
    """SIGKILL of the runtime: nothing of it runs any more."""
    flight.runtime_alive = False


def pushed_over(flight: Flight) -> None:
    """A gust turns it by 75 degrees."""
    state = flight.vehicle.drones.bodies.state.clone()
    state[0, 0, 3:7] = state.new_tensor([np.cos(0.65), np.sin(0.65), 0.0, 0.0])
    flight.vehicle.drones.bodies.set_state(state.new_zeros(1, dtype=__import__("torch").int64), state)


def carried_away(flight: Flight) -> None:
    """It is 4 m from its target."""
    flight.pilot.commands.values["target"] = flight.pilot.commands.values["target"] + np.float32([4.0, 0.0, 0.0])


def estimator_reset(flight: Flight) -> None:
    """Its estimator says another heading from now on, or another place: the readings jump, and the vehicle does not."""

    def turn(reading: Reading) -> Reading:
        w, x, y, z = reading.values["rotation"]
        c, s = np.cos(1.5), np.sin(1.5)  # 3 rad about world z
        turned = np.float32([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])
        return dataclasses.replace(reading, values={**reading.values, "rotation": turned})

    def move(reading: Reading) -> Reading:
        place = reading.values["position"] + np.float32([1.0, -1.0, 0.0])
        return dataclasses.replace(reading, values={**reading.values, "position": place})

    flight.link.fault = move if round(100 * flight.clock.moment) % 2 else turn


def empty(flight: Flight) -> None:
    """The battery is at 5 %."""
    flight.vehicle._onboard[0].battery = 0.05


def late(flight: Flight) -> None:
    """Five control steps in a row began late."""
    flight.pilot.late = 5


FAULTS: dict[str, Callable[[Flight], None]] = {
    "silent": cut, "stale": stale, "frozen": frozen, "not_finite": not_a_number, "clock": clock_jump, "hung": hung,
    "operator": operator, "": killed, "tilt": pushed_over, "fence": carried_away, "jump": estimator_reset,
    "battery": empty, "deadline": late,
}  # fmt: skip


def check(fly: Callable[..., Flight], bundle: Path, fault: str, strike: Callable[[Flight], None], times: int) -> None:
    """A fault at random moments of flights, each from a start of its own.

    Args:
        fly: makes a flight.
        bundle: for it.
        fault: name of what the filter finds; "" where nothing is left to find it.
        strike: lets it happen.
        times: flights.
    """
    rng = np.random.default_rng(len(fault))
    for k in range(times):
        with closing(fly(bundle, seed=k)) as flight:
            flight.begin()
            flight.run(int(rng.integers(1, 100)))
            assert flight.pilot.phase is Phase.POLICY, flight.said
            strike(flight)
            assert flight.seconds_to_safety() <= SAFE_S, (fault, k, flight.said)
            if fault:
                assert flight.pilot.fault is not None
                assert flight.pilot.fault.name == fault
            if k < 2:
                hardest = 4.0 if fault == "tilt" else 1.5  # from 75 degrees it falls first
                assert flight.lands(hardest), (fault, k)


@pytest.mark.parametrize("times", slow_but([1], [1, 2]))
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_safe_state_within_80_ms(hover_bundle: Path, fault: str, times: int) -> None:
    check(Flight, hover_bundle, fault, FAULTS[fault], times)


@pytest.mark.slow
@pytest.mark.flights
@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_hundred_times(hover_bundle: Path, fault: str) -> None:
    check(Flight, hover_bundle, fault, FAULTS[fault], 100)


@pytest.mark.parametrize("period", [0.1, np.inf])
def test_a_place_that_stands_still_is_found_and_a_slow_tracker_is_flown_by(hover_bundle: Path, period: float) -> None:
    """The same place and velocity for ever end the flight before it has drifted far; new ones at 10 Hz do not."""
    with closing(Flight(hover_bundle)) as flight:
        flight.begin()
        moved = -np.inf
        told: dict[str, Any] = {}

        def repeat(reading: Reading) -> Reading:
            nonlocal moved
            if not told or flight.clock.moment - moved >= period - 1e-9:
                moved = flight.clock.moment
                told.update({name: reading.values[name] for name in ("position", "velocity")})
            return dataclasses.replace(reading, values={**reading.values, **told})

        flight.link.fault = repeat
        start = flight.vehicle.truth(0)["position"]
        if period < np.inf:
            flight.run(100)
            assert flight.pilot.phase is Phase.POLICY, flight.said
            return
        assert flight.seconds_to_safety() < 0.3, flight.said
        assert flight.pilot.fault is not None and flight.pilot.fault.name == "frozen"
        assert np.linalg.norm(flight.vehicle.truth(0)["position"] - start) < 0.1
        assert flight.lands()


@pytest.mark.parametrize("seeds", slow_but([1], [1, 3]))
def test_it_flies_on_when_a_third_of_the_measurements_is_lost(hover_bundle: Path, seeds: int) -> None:
    """Or comes down: what it must not do is to fall, or to go on by old measurements."""
    for seed in range(seeds):
        flight = Flight(hover_bundle, seed=seed)
        flight.begin()
        rng = np.random.default_rng(seed)
        flight.link.fault = lambda reading, rng=rng: None if rng.random() < 0.3 else reading
        oldest = 0.0
        for _ in range(1000):
            flight.run(1)
            reading = flight.link.read()
            assert reading is not None
            if flight.pilot.phase is Phase.POLICY:
                oldest = max(oldest, flight.clock.now() - reading.received)
                assert (
                    np.linalg.norm(flight.vehicle.truth(0)["position"] - flight.pilot.commands.values["target"]) < 0.3
                )
        assert oldest <= 0.07
        assert flight.pilot.phase in (Phase.POLICY, Phase.EMERGENCY, Phase.IDLE)


def never_there(flight: Flight) -> None:
    """Its estimate of the place moves away as it climbs, so that it never comes to where it was sent."""

    def move(reading: Reading) -> Reading:
        place = reading.values["position"] * np.float32([1.0, 1.0, 0.5])
        velocity = reading.values["velocity"] * np.float32([1.0, 1.0, 0.5])
        return dataclasses.replace(reading, values={**reading.values, "position": place, "velocity": velocity})

    flight.link.fault = move


@pytest.mark.slow
def test_an_entry_that_takes_too_long_is_no_flight(hover_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for spoil in (True, False):
        with closing(Flight(hover_bundle, seconds=0.5)) as flight:
            flight.pilot.check()
            if spoil:
                never_there(flight)
            flight.link.receive()
            flight.pilot.start()
            flown = False
            until = flight.clock.moment + 40.0
            while not flight.pilot.done and flight.clock.moment < until:
                flight.run(1)
                flown |= flight.pilot.phase is Phase.POLICY
            assert flight.pilot.done and flight.pilot.fault is None
            assert flight.pilot.entry_failed is not flown
            assert flown is not spoil
    monkeypatch.setattr(pilot, "ENTRY_S", 0.5)  # less than a climb takes
    assert main(["fly", str(hover_bundle), "--dry-run", "--seconds", "0.5", "--json"]) == 1


def test_a_drone_that_its_policy_drops_is_said_to_be_on_the_ground(hover_bundle: Path) -> None:
    for drops in (True, False):
        with closing(Flight(hover_bundle, seconds=4.0)) as flight:
            if drops:
                flight.pilot.controller.step = lambda values: np.zeros(4, np.float32)
            flight.begin()
            while flight.pilot.phase is Phase.POLICY:
                flight.run(1)
            low = bool(flight.vehicle.truth(0)["position"][2] < 0.1)
            assert (low, flight.pilot.on_ground) == (drops, drops)


def test_a_vehicle_that_never_measures_is_left_to_its_fail_safe(hover_bundle: Path) -> None:
    """It was asked to arm, so that it is asked to come down until the pilot has given it up."""
    with closing(Flight(hover_bundle)) as flight:
        asked: list[str] = []
        react = flight.link.react
        flight.link.react = lambda reaction: (asked.append(reaction), react(reaction))
        flight.pilot.check()
        flight.link.read = lambda: None
        flight.pilot.start()
        began = flight.clock.moment
        while not flight.pilot.done and flight.clock.moment - began < 60.0:
            flight.run(1)
        assert flight.pilot.done and flight.pilot.fault is not None and flight.pilot.fault.name == "silent"
        assert flight.clock.moment - began == pytest.approx(ARM_S + LOST_S, abs=0.1)
        assert set(asked) == {flight.pilot.settings.reactions["silent"]} and len(asked) > 900
        assert "lost: no measurement for 10 s" in flight.said[-1]


def test_what_is_cut_hears_neither_arm_nor_disarm(hover_bundle: Path) -> None:
    with closing(Flight(hover_bundle)) as flight:
        link, vehicle = flight.link, flight.vehicle
        for order, other, armed in ((link.arm, link.disarm, True), (link.disarm, link.arm, False)):
            link.cut = False
            other()
            link.cut = True
            order()
            assert vehicle.armed(0) is not armed
            link.cut = False
            order()
            assert vehicle.armed(0) is armed
