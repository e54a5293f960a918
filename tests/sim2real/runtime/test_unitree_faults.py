"""A Go2's link and vehicle in lock-step, DDS replaced by a bus in memory: faults, a bad network, a long walk; no real time."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.unitree import COMMANDS, DAMP_S, HOLD_S, PERIOD_S, STATES, UnitreeLink
from rookery.sim2real.links.unitree_messages import Record, seal
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles import unitree as vehicles
from rookery.sim2real.vehicles.network import NetworkConfig
from rookery.sim2real.vehicles.unitree import UnitreeGo2
from tests.sim2real.runtime.dds_bus import Bus, bus_for_links
from tests.sim2real.runtime.flights import TIMEOUT_S
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS, hung_without_watchdog
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.walks import Walk, vehicle

CONTROL_S = 0.02


class DdsWalk(Walk):
    """A quadruped behind Unitree's messages; the link's thread is stepped, too."""

    def __init__(
        self, bundle: Path, network: NetworkConfig | None = None, timeout_s: float = TIMEOUT_S, **options: Any
    ) -> None:
        self._network = network
        self._timeout_s = timeout_s
        self._substeps = 0
        super().__init__(bundle, **options)

    def connect(self, seed: int) -> Any:
        self.bus = Bus()
        go2 = vehicle(control_dt=PERIOD_S, timeout_s=self._timeout_s, seed=seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vehicles, "Participant", lambda *where: self.bus)
            patch.setattr(vehicles, "MotionSwitcher", lambda *where: type("", (), {"serve": lambda self: None})())
            self.server = UnitreeGo2(go2, network=self._network, seed=seed)
        link = UnitreeLink(parse_address("unitree://lo"), self.controller.spec, self.clock)
        link._run = lambda: None  # type: ignore[method-assign]
        link.vehicle = go2  # type: ignore[attr-defined]
        link.receive = lambda: None  # type: ignore[attr-defined]
        self._open, link.open = link.open, self.open  # type: ignore[method-assign]
        return link

    def open(self, timeout_s: float = 1.0) -> Any:
        with bus_for_links(self.bus, self.world):
            return self._open(timeout_s)

    def world(self) -> None:
        """A step of robot and network."""
        self.server.receive()
        self.vehicle.step()
        self.server.send()

    def substep(self) -> None:
        """2 ms of everything."""
        self.world()
        self.clock.moment += PERIOD_S
        self._substeps += 1
        if not self.runtime_alive:
            return
        self.link._cycle()
        if self._substeps % round(CONTROL_S / PERIOD_S) == 0:
            self.record = self.pilot.step()
        self.watchdog.look()

    def run(self, steps: int) -> None:
        for _ in range(steps * round(CONTROL_S / PERIOD_S)):
            self.substep()

    def seconds_to_safety(self, limit: float = 0.5) -> float:
        for i in range(round(limit / PERIOD_S)):
            if self.safe:
                return i * PERIOD_S
            self.substep()
        return math.inf


def spoiling(change: Callable[[Record], None]) -> Callable[[DdsWalk], None]:
    """A fault that changes states, whose CRC is right."""

    def begin(walk: DdsWalk) -> None:
        def spoil(record: Record) -> Record:
            out = record.copy()
            change(out)
            return seal(out)

        walk.bus.spoil = spoil

    return begin


def not_a_number(record: Record) -> None:
    record["motor_state"]["dq"][7] = np.nan


def no_attitude(record: Record) -> None:
    record["imu_state"]["quaternion"] = 0.0


def clock_jump(record: Record) -> None:
    record["tick"] += 60_000


def frozen(walk: DdsWalk) -> None:
    """The same values come again and again, with new stamps."""
    kept: list[Record] = []

    def spoil(record: Record) -> Record:
        kept.append(record.copy())
        out = kept[0].copy()
        out["tick"] = record["tick"]
        return seal(out)

    walk.bus.spoil = spoil


def wrong_crc(walk: DdsWalk) -> None:
    def spoil(record: Record) -> Record:
        out = record.copy()
        out["crc"] ^= 1
        return out

    walk.bus.spoil = spoil


def cut(walk: DdsWalk) -> None:
    walk.bus.cut = {STATES, COMMANDS}


def deaf(walk: DdsWalk) -> None:
    """Set-points do not reach the robot, whose own fail-safe begins; its states say so."""
    walk.bus.cut = {COMMANDS}


FAULTS: dict[str, tuple[Callable[[DdsWalk], None], str]] = {
    "link cut": (cut, "silent"), "deaf": (deaf, "disarmed"), "wrong CRC": (wrong_crc, "silent"), "frozen": (frozen, "frozen"),
    "NaN": (spoiling(not_a_number), "not_finite"), "no attitude": (spoiling(no_attitude), "not_finite"),
    "clock": (spoiling(clock_jump), "clock"), **RUNTIME_FAULTS,
}  # fmt: skip


QUICK = ("wrong CRC",)
"""What the link and the vehicle notice themselves; the filter's other faults are in test_legs.py."""


@pytest.mark.parametrize("fault", slow_but(QUICK, FAULTS))
def test_joints_are_damped_within_80_ms(walk_bundle: Path, fault: str) -> None:
    """Whenever it comes; and the robot sinks softly: free fall from its stand would end at 2 m/s."""
    begin, name = FAULTS[fault]
    rng = np.random.default_rng(len(fault))
    walk = DdsWalk(walk_bundle)
    walk.begin()
    for _ in range(int(rng.integers(1, 500))):
        walk.substep()
    assert walk.pilot.phase is Phase.POLICY, walk.said
    assert not walk.safe
    begin(walk)
    assert walk.seconds_to_safety() <= SAFE_S + 1e-9, walk.said
    if name:
        for _ in range(10):
            walk.substep()
        assert walk.pilot.fault is not None
        assert walk.pilot.fault.name == name
    fastest = 0.0
    for _ in range(round(15.0 / PERIOD_S)):
        walk.substep()
        fastest = max(fastest, -float(walk.vehicle.truth()["velocity"][2]))
        assert walk.safe
        if walk.vehicle.lying:
            break
    assert fastest < 0.6
    assert walk.vehicle.lying
    assert walk.height < 0.15


@pytest.mark.slow
def test_a_loop_that_stops_is_damped_then_silent(walk_bundle: Path) -> None:
    """By the link's thread, with a robot that waits longer than the link; its own fail-safe follows the silence."""
    waits = 0.5
    walk = DdsWalk(walk_bundle, timeout_s=waits)
    walk.begin()
    hung_without_watchdog(walk)
    damped = walk.seconds_to_safety()
    assert damped == pytest.approx(
        HOLD_S, abs=CONTROL_S
    )  # after the loop's last step, which was up to a control step ago
    assert walk.vehicle.mode == "setpoints"
    silent = 0.0
    while walk.vehicle.mode == "setpoints" and silent < 5.0:
        walk.substep()
        silent += PERIOD_S
    assert walk.vehicle.mode == "failsafe"
    assert silent == pytest.approx(DAMP_S + waits, abs=4 * PERIOD_S)


BAD = {"10 ms, 1 %": NetworkConfig(10.0, 0.0, 0.01), "5 ms and jitter of 3, 30 %": NetworkConfig(5.0, 3.0, 0.3)}


@pytest.mark.slow
@pytest.mark.parametrize("network", slow_but(list(BAD)[1:], BAD))
def test_it_walks_through_a_bad_network_and_lies_down(walk_bundle: Path, network: str) -> None:
    walk = DdsWalk(walk_bundle, BAD[network], seconds=8.0)
    walk.pilot.commands.values = {"velocity": np.float32((0.5, 0.0, 0.3))}
    walk.begin()
    errors, own = [], []
    while walk.pilot.phase is Phase.POLICY:
        walk.run(1)
        assert walk.height > 0.22
        assert walk.record is not None
        if math.isnan(walk.record.velocity_error):  # it comes to a stand
            continue
        truth = walk.vehicle.truth()
        yaw = euler(truth["rotation"])[2]
        vx, vy, _ = truth["velocity"].astype(float)
        ahead, left = math.cos(yaw) * vx + math.sin(yaw) * vy, math.cos(yaw) * vy - math.sin(yaw) * vx
        errors.append(math.hypot(ahead - 0.5, left))
        own.append(walk.record.velocity_error)
    assert len(errors) == pytest.approx(8.0 / CONTROL_S - walk.flown, abs=2)
    assert walk.pilot.phase is Phase.EXIT, walk.said
    assert np.sqrt(np.mean(np.square(errors))) < 0.15
    assert np.mean(own) == pytest.approx(np.mean(errors), abs=0.03)
    assert walk.lands(hardest=0.4), walk.said
    assert walk.pilot.fault is None
    assert walk.vehicle.mode == "off"
