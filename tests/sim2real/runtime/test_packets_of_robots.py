"""Damaged packets, as in test_packets.py, to the parsers of Unitree's link and vehicle, of FCI's vehicle and of the tracker."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rookery.sim2real.links import fci, tracker
from rookery.sim2real.links import unitree_messages as um
from rookery.sim2real.runtime.safety import SafetyFilter
from rookery.sim2real.runtime.settings import Limits
from rookery.sim2real.vehicles import fci as fci_vehicle
from rookery.sim2real.vehicles.fci import FciArm
from tests.fuzz.mutate import mutate_bytes
from tests.sim2real.runtime.flights import library
from tests.sim2real.runtime.processes import free_port
from tests.sim2real.runtime.reaches import vehicle as arm_vehicle
from tests.sim2real.runtime.test_packets import COUNTS, MANY
from tests.sim2real.runtime.test_unitree_faults import DdsWalk

# -- Unitree -------------------------------------------------------------------------------------------------------

HARD = np.array([np.nan, np.inf, -1e38, 1e9, 1e-40], np.float32)


def damaged(record: um.Record, message: um.Message, rng: np.random.Generator) -> um.Record | None:
    """A record with hard numbers or other bytes under a right CRC, with a wrong CRC, or of another size."""
    kind = rng.random()
    out = record.copy()
    if kind < 0.4:
        field = rng.choice(["motor_state", "motor_cmd", "imu_state"])
        if field in (out.dtype.names or ()):
            part = out[field].reshape(-1)[int(rng.integers(12)) % out[field].size :][:1]
            name = rng.choice([n for n in part.dtype.names or () if part.dtype[n].base.kind == "f"])
            part[name] = rng.choice(HARD)
        return um.seal(out)
    raw = bytearray(message.to_wire(out))
    if kind < 0.95:
        for _ in range(int(rng.integers(1, 5))):
            raw[int(rng.integers(len(raw)))] = int(rng.integers(256))
        back = message.from_wire(bytes(raw))
        return back if back is None or kind < 0.5 else um.seal(back)
    return message.from_wire(bytes(raw[: int(rng.integers(len(raw)))]))


@pytest.mark.parametrize("count", [500, MANY])
def test_states_to_the_link_of_a_go2(walk_bundle: Path, count: int) -> None:
    """No error, and no command that is not finite or leaves the joints' limits."""
    with closing(DdsWalk(walk_bundle)) as walk:
        walk.pilot.check()
        link, spec = walk.link, walk.controller.spec
        good: list[um.Record] = []
        walk.bus.spoil = lambda record: (good.append(record.copy()), record)[1]
        walk.run(1)
        rng = np.random.default_rng(count)
        waiting: list[um.Record] = []
        sent: list[um.Record] = []
        link._states = SimpleNamespace(take=lambda: [waiting.pop()] if waiting else [])
        link._commands = SimpleNamespace(write=lambda record: sent.append(record.copy()))
        judge = SafetyFilter(library(), Limits(frozen_ms=0.0, battery=0.0), spec)
        passed = 0
        with np.errstate(all="ignore"):
            for i in range(count):
                walk.clock.moment += 0.002
                state = good[i % len(good)].copy()
                state["tick"] = (int(state["tick"]) + 2 * i) % (1 << 32)
                record = um.seal(state) if i % 2 else damaged(um.seal(state), um.LOW_STATE, rng)
                if record is not None:
                    waiting.append(record)
                link._cycle()
                reading = link.read()
                if reading is None or i % 10:
                    continue
                judge.reset()
                if judge.check(reading, walk.clock.now(), link.heard) is None:
                    assert all(np.isfinite(v).all() for v in reading.values.values())
                    command = np.float32(rng.uniform(-1.0, 1.0, len(spec.spec.action.low)))
                    link.write(spec.spec.action.kind, command)
                    passed += 1
                if i % 1000 == 0:
                    judge_commands(sent)
        assert passed > count / 100
        assert sent
        judge_commands(sent)


def judge_commands(sent: list[um.Record]) -> None:
    """Whole and finite."""
    for record in sent:
        assert um.intact(record)
        motors = record["motor_cmd"][:12]
        assert all(np.isfinite(motors[name]).all() for name in ("q", "dq", "kp", "kd", "tau"))
    del sent[:-1]


@pytest.mark.parametrize("count", COUNTS)
def test_commands_to_our_go2(walk_bundle: Path, count: int) -> None:
    """Damaged under a right CRC is the worst: what is not finite counts as none."""
    with closing(DdsWalk(walk_bundle)) as walk:
        walk.pilot.check()
        server, go2 = walk.server, walk.vehicle
        rng = np.random.default_rng(count)
        q = np.zeros(12, np.float32)
        good = walk.link._command(q, 20.0, 1.0)
        with np.errstate(all="ignore"):
            for i in range(count):
                record = good if i % 3 == 0 else damaged(good, um.LOW_CMD, rng)
                if record is not None:
                    server._take(record)
                if i % 100 == 0:
                    server.receive()
                    go2.step()
                    server.send()
                    assert all(np.isfinite(v).all() for v in go2.truth().values())
        assert server.refused > count / 50


# -- FCI -----------------------------------------------------------------------------------------------------------


class Client:
    """The other end of a TCP connection, in memory."""

    def __init__(self) -> None:
        self.waiting = b""

    def recv(self, size: int) -> bytes:
        out, self.waiting = self.waiting[:size], self.waiting[size:]
        if not out:
            raise BlockingIOError
        return out

    def sendall(self, data: bytes) -> None:
        assert data

    def setblocking(self, blocks: bool) -> None:
        """It never does."""

    settimeout = setblocking

    def close(self) -> None:
        self.waiting = b""


def orders(rng: random.Random) -> bytes:
    """A message of a client to the arm, whole or damaged."""
    kind = rng.choice((fci.CONNECT, fci.MOVE, fci.MOVE, rng.randrange(14), rng.getrandbits(32)))
    if kind == fci.CONNECT:
        payload = struct.pack("<HH", rng.choice((fci.VERSION, fci.VERSION, 9)), 9)
    elif kind == fci.MOVE:
        payload = struct.pack("<II", 0, fci.JOINT_POSITION - 1) + bytes(64)
    elif kind == fci.SET_COLLISION_BEHAVIOR:
        payload = np.array([rng.choice((20.0, 87.0, float("nan"), -1.0)) for _ in range(52)]).tobytes()
    else:
        payload = rng.randbytes(rng.randrange(40))
    wire = fci.message(kind, rng.randrange(1 << 16), payload)
    return mutate_bytes(wire, rng) if rng.random() < 0.2 else wire


def positions(rng: random.Random, number: int, near: np.ndarray) -> bytes:
    """A command of joint positions, most of them near the last."""
    row = np.zeros((), fci.COMMAND)
    row["message_id"] = number if rng.random() < 0.95 else rng.getrandbits(63)
    step = 1e-6 if rng.random() < 0.9 else rng.choice((1e-3, 0.1, 5.0, float("nan"), float("inf")))
    row["q_c"] = near + step * rng.uniform(-1.0, 1.0)
    row["motion_generation_finished"] = rng.random() < 0.01
    wire = row.tobytes()
    return mutate_bytes(wire, rng) if rng.random() < 0.2 else wire


def packets(rng: random.Random, count: int) -> Iterator[str]:
    """Which kind comes next."""
    for _ in range(count):
        yield "order" if rng.random() < 0.1 else "positions"


@pytest.mark.parametrize("count", COUNTS)
def test_a_clients_messages_to_our_arm(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """It follows no position that breaks a limit of motion, whatever it is told."""
    monkeypatch.setattr(fci_vehicle, "PATIENCE_S", 0.0)
    rng = random.Random(count)
    with closing(FciArm(arm_vehicle(), port=free_port(2))) as server, np.errstate(over="ignore", invalid="ignore"):
        arm, kind = server.vehicle, server.vehicle.kind
        client: Any = Client()
        moved = 0
        for i, what in enumerate(packets(rng, count)):
            if not server._robot.there:
                server._robot._client = client
                server._robot.peer = "127.0.0.1"
            if what == "order":
                client.waiting += orders(rng)
            else:
                wire = positions(rng, server._sent, arm.monitor.position)
                server._udp.arriving.put(arm.now, (wire, ("127.0.0.1", 9)))
            server.receive()
            if i % 5 == 0:
                arm.step()
                server.send()
                moved += arm.mode == "setpoints"
                if arm.error and rng.random() < 0.05:
                    arm.arm()
            at = arm.monitor
            assert np.isfinite(at.position).all()
            assert ((at.position >= kind.lower) & (at.position <= kind.upper)).all()
            assert (np.abs(at.velocity) <= np.array(kind.speed) * 1.001).all()
            assert np.isfinite(arm.collision).all()
        assert moved > count / 1000
        assert np.isfinite(arm.truth()["joint angles"]).all()


# -- the tracker ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", COUNTS)
def test_datagrams_of_a_tracker(count: int) -> None:
    rng = random.Random(count)
    read = 0
    for _ in range(count):
        values = {f"quantity {k}": np.array([rng.uniform(-9, 9) for _ in range(3)]) for k in range(rng.randrange(1, 4))}
        wire = tracker.pack(values)
        if rng.random() < 0.8:
            wire = mutate_bytes(wire, rng)
        with np.errstate(over="ignore"):
            told = tracker.parse(wire)
        if told is not None:
            read += 1
            assert all(v.dtype == np.float32 and v.ndim == 1 and 0 < len(v) <= tracker.MOST for v in told.values())
    assert count / 5 < read < count
