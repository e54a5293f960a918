"""Topics of ROS 2: our types against a participant of its own, our arm under it and under our link in lock-step, faults,
refusals, damaged messages."""

from __future__ import annotations

import gc
import json
import math
import os
import random
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim2real.links import drive_link
from rookery.sim2real.links import ros2 as links
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.dds import Participant
from rookery.sim2real.links.opening import open_link
from rookery.sim2real.links.ros2 import Ros2Link
from rookery.sim2real.links.ros2_messages import (
    dds_topic,
    joint_state,
    multi_array,
    read_joint_state,
    read_multi_array,
    read_trajectory,
    ros_types,
    trajectory,
)
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles import ros2 as vehicles
from rookery.sim2real.vehicles.drive_arm import DriveArm
from rookery.sim2real.vehicles.ros2 import Ros2Arm
from tests.sim2real.runtime import ros2_peer as peer
from tests.sim2real.runtime.drive_reaches import DriveReach, blind, frozen_cameras, not_a_number, step
from tests.sim2real.runtime.processes import fly, flying, free_port, prompt, run_refused, tried_again, vehicle
from tests.sim2real.runtime.reaches import controller
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.test_packets import COUNTS
from tests.sim2real.runtime.turned_time import turning

DOMAIN = 100 + os.getpid() % 99
STATES, TRAJECTORY, ARRAY = (
    "rt/joint_states", "rt/joint_trajectory_controller/joint_trajectory", "rt/forward_position_controller/commands"
)  # fmt: skip

# -- messages ------------------------------------------------------------------------------------------------------

floats = st.floats(allow_nan=False, width=64)
names = st.lists(st.text("abcdefgh_", min_size=1, max_size=9), min_size=1, max_size=9, unique=True)


@pytest.mark.parametrize("name", sorted(vars(ros_types())))
def test_types_are_those_of_a_participant_of_its_own(name: str) -> None:
    """Names, and the same bytes for the same members."""
    ours, theirs = getattr(ros_types(), name), getattr(peer, name)
    assert ours.__idl_typename__.replace(".", "::") == theirs.__idl_typename__.replace(".", "::")
    filled = fill(theirs, random.Random(1))
    same = ours.deserialize(filled.serialize(use_version_2=False))
    assert same.serialize(use_version_2=False) == filled.serialize(use_version_2=False)


def fill(kind: Any, rng: random.Random) -> Any:
    """A message whose members all say something."""
    made = kind()
    for name in kind.__dataclass_fields__:
        value = getattr(made, name)
        if isinstance(value, str):
            setattr(made, name, "abc"[: rng.randrange(4)])
        elif isinstance(value, list):
            item = {"name": "a", "joint_names": "a", "dim": peer.MultiArrayDimension("x", 2, 3)}.get(
                name,
                peer.JointTrajectoryPoint([1.0, 2.0], time_from_start=peer.Duration(1, 2)) if name == "points" else 0.5,
            )
            setattr(made, name, [item] * (len(value) or 3))
        elif isinstance(value, float):
            setattr(made, name, rng.uniform(-9, 9))
        elif isinstance(value, int):
            setattr(made, name, rng.randrange(1000))
        else:
            setattr(made, name, fill(type(value), rng))
    return made


def test_no_type_has_a_byte() -> None:
    """Cyclone DDS 0.10.2 ends where it learns of a type with a uint8 or int8 (docs/fly.md)."""
    for kind in vars(ros_types()).values():
        assert "int8" not in repr(kind.__annotations__)


def test_topics() -> None:
    assert dds_topic("/joint_states") == dds_topic("joint_states") == "rt/joint_states"
    assert dds_topic("/arm/controller/commands") == "rt/arm/controller/commands"
    for wrong in ("", "/", "a//b", "a b", "7up", "/a/"):
        with pytest.raises(RookeryError, match="no name of a topic"):
            dds_topic(wrong)


@settings(max_examples=30)
@given(names, st.randoms(), st.floats(0, 1e6))
def test_joints_are_found_by_their_names(told: list[str], rng: random.Random, seconds: float) -> None:
    rows = np.array([[rng.uniform(-9, 9) for _ in told] for _ in range(3)])
    asked = rng.sample(told, rng.randrange(len(told)) + 1)
    found = read_joint_state(joint_state(seconds, told, rows), asked)
    assert found is not None
    for name, column in zip(asked, found.T, strict=True):
        np.testing.assert_array_equal(column, rows[:, told.index(name)])
    assert read_joint_state(joint_state(seconds, told, rows), [*asked, "zz"]) is None


@settings(max_examples=30)
@given(names, st.floats(1e-3, 1e3), st.randoms())
def test_trajectories_are_read_as_they_are_told(told: list[str], seconds: float, rng: random.Random) -> None:
    positions = [rng.uniform(-9, 9) for _ in told]
    order = rng.sample(told, len(told))
    ((due, read),) = read_trajectory(trajectory(told, positions, seconds), order) or [(0.0, [])]
    assert due == pytest.approx(seconds, abs=2e-9)
    assert dict(zip(order, read, strict=True)) == dict(zip(told, positions, strict=True))
    assert read_trajectory(trajectory(told, positions, seconds), order[1:]) is None
    assert read_multi_array(multi_array(positions), len(told)) == positions
    assert read_multi_array(multi_array(positions), len(told) + 1) is None


# -- lock-step -----------------------------------------------------------------------------------------------------


class Waiting:
    """A reader in this process."""

    def __init__(self) -> None:
        self.samples: deque[Any] = deque(maxlen=8)

    def take(self, n: int) -> list[Any]:
        return [self.samples.popleft() for _ in range(min(n, len(self.samples)))]


class Topics:
    """Takes the place of DDS: what is written to a topic waits for its readers.

    Attributes:
        cut: topics to which nothing passes any more.
        spoil: turns a message to the joint states into another one, or none.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, list[Any]] = {}
        self.cut: set[str] = set()
        self.spoil: Callable[[Any], Any] = lambda sample: sample
        self.written: dict[str, int] = {}

    def objects(self, topic: str, kind: Any) -> Any:
        reader = Waiting()
        self._waiting.setdefault(topic, []).append(weakref.ref(reader))
        return reader

    def _readers(self, topic: str) -> list[Waiting]:
        """Those that somebody still holds."""
        found = (ref() for ref in self._waiting.get(topic, []))
        return [reader for reader in found if reader is not None]

    def objects_writer(self, topic: str, kind: Any) -> Any:
        def write(sample: Any) -> None:
            self.written[topic] = self.written.get(topic, 0) + 1
            sample = self.spoil(sample) if topic == STATES else sample
            for reader in [] if topic in self.cut or sample is None else self._readers(topic):
                reader.samples.append(sample)

        return SimpleNamespace(write=write, get_matched_subscriptions=lambda: self._readers(topic))


def served(topics: Topics, task: str = "table-reach", seed: int = 0, **options: Any) -> Ros2Arm:
    """A served arm on topics in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vehicles, "Participant", lambda *where: topics)
        return Ros2Arm(DriveArm(rookery.make(task, num_envs=1, seed=seed), seed=seed, **options))


def arm_waits(server: Ros2Arm | None) -> AbstractContextManager[None]:
    """Within the block an arm goes on while a link waits for it; without one time alone does."""
    world = (lambda: None) if server is None else (lambda: step(server))
    return turning(world, 0.001, drive_link, links)


class TopicReach(DriveReach):
    """Over topics."""

    cycle_s = 0.01
    form = "trajectory"

    def __init__(self, bundle: Path, form: str = "trajectory", **options: Any) -> None:
        self.form = form
        super().__init__(bundle, **options)

    def serve(self, task: str, seed: int) -> tuple[Ros2Arm, Ros2Link]:
        self.topics = Topics()
        server = served(self.topics, task, seed, noise=self._noise)
        url = f"ros2://lo?gripper=gripper&as={self.form}"
        return server, Ros2Link(parse_address(url), self.controller.spec, self.clock)

    def waiting(self) -> AbstractContextManager[None]:
        return arm_waits(self.server)

    def open(self, timeout_s: float = 10.0) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(links, "Participant", lambda *where: self.topics)
            patch.setattr(links, "OTHERS_S", 0.0)
            return super().open(timeout_s)

    @property
    def safe(self) -> bool:
        """Whether no joint moves by the policy any more: joints hold the last position."""
        if self.link._mode != "moving" or not all(a.enabled for a in self.vehicle.axes[:7]):
            return True
        return not self.runtime_alive and not any(a.velocity for a in self.vehicle.axes[:7])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["trajectory", "array"])
def test_it_reaches_and_goes_home(reach_bundle: Path, form: str) -> None:
    with closing(TopicReach(reach_bundle, form, seconds=2.5)) as flight:
        flight.begin()
        flight.vehicle.begin_episode()
        while flight.pilot.phase is Phase.POLICY:
            flight.run(1)
        assert flight.vehicle.success, flight.said
        while flight.pilot.phase is not Phase.IDLE:
            flight.run(1)
        assert flight.pilot.fault is None, flight.said
        flight.run(10)
        told = flight.topics.written[TRAJECTORY if form == "trajectory" else ARRAY]
        flight.run(40)
        assert flight.vehicle.still
        assert told == flight.topics.written[TRAJECTORY if form == "trajectory" else ARRAY]  # it is silent at the end


def cut(flight: TopicReach) -> None:
    flight.topics.cut = {STATES, TRAJECTORY}


def no_states(flight: TopicReach) -> None:
    """The joints are silent, the tracker is not."""
    flight.topics.cut = {STATES}


def frozen(flight: TopicReach) -> None:
    kept: list[Any] = []
    flight.topics.spoil = lambda sample: (kept.append(sample), kept[0])[1]
    frozen_cameras(flight)


def one_missing(flight: TopicReach) -> None:
    """A joint is in no message any more."""

    def without(sample: Any) -> Any:
        return ros_types().JointState(
            sample.header, sample.name[1:], sample.position[1:], sample.velocity[1:], sample.effort[1:]
        )

    flight.topics.spoil = without


def drive_fault(flight: TopicReach) -> None:
    flight.vehicle.axes[2].fail(0x8611)


FAULTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "cut": (cut, "silent"), "no states": (no_states, "silent"), "frozen": (frozen, "frozen"), "joint": (one_missing, "silent"),
    "no tracker": (blind, "stale"), "NaN": (not_a_number, "not_finite"), **RUNTIME_FAULTS,
    "drive": (drive_fault, ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_it_stops_within_80_ms(reach_bundle: Path, fault: str) -> None:
    begin, name = FAULTS[fault]
    rng = np.random.default_rng(len(fault))
    with closing(TopicReach(reach_bundle, seed=1)) as flight:
        flight.begin()
        flight.run(int(rng.integers(1, 40)))
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert not flight.safe
        before = flight.vehicle.truth()["joint angles"]
        begin(flight)
        assert flight.seconds_to_safety() <= SAFE_S + 1e-9, (fault, flight.said)
        flight.run(16)
        if name:
            assert flight.pilot.fault is not None
            assert flight.pilot.fault.name == name
        if fault == "drive":
            assert "nobody listens to /joint_trajectory_controller/joint_trajectory any more" in " ".join(flight.said)
        flight.run(100)
        assert np.abs(flight.vehicle.truth()["joint velocities"]).max() < 0.05
        assert np.abs(flight.vehicle.truth()["joint angles"] - before).max() < 0.3


# -- refusals ------------------------------------------------------------------------------------------------------


def refused(bundle: Path, url: str, topics: Topics, server: Any = None) -> str:
    """The sentence of a link that does not open."""
    with pytest.MonkeyPatch.context() as patch, arm_waits(server):
        patch.setattr(links, "Participant", lambda *where: topics)
        patch.setattr(links, "OPEN_S", 0.1)
        patch.setattr(links, "OTHERS_S", 0.05)
        with pytest.raises(RookeryError) as refusal:
            Ros2Link(parse_address(url), controller(bundle).spec, ManualClock()).open(0.2)
    said = str(refusal.value)
    assert said[-1] in ".?" and "\n" not in said
    return said


@pytest.mark.slow
def test_wrong_addresses_and_other_robots_are_refused(reach_bundle: Path) -> None:
    empty = Topics()
    assert "must name the network interface" in refused(reach_bundle, "ros2://", empty)
    assert "unknown option" in refused(reach_bundle, "ros2://lo?state=/a", empty)
    assert "as must be one of" in refused(reach_bundle, "ros2://lo?as=twist", empty)
    assert "period must be" in refused(reach_bundle, "ros2://lo?period=1", empty)
    assert "no name of a topic" in refused(reach_bundle, "ros2://lo?states=a%20b", empty)
    assert "nobody publishes sensor_msgs/JointState to /joint_states" in refused(reach_bundle, "ros2://lo", empty)
    topics = Topics()
    with closing(served(topics)) as server:
        assert "/joint_states has no hand, but" in refused(reach_bundle, "ros2://lo?gripper=hand", topics, server)
        topics.spoil = lambda s: ros_types().JointState(s.header, s.name, s.position, [], [])
        assert "does not tell position and velocity" in refused(reach_bundle, "ros2://lo", topics, server)
        topics.spoil = lambda s: s
        said = refused(reach_bundle, "ros2://lo?commands=/elsewhere", topics, server)
        assert "nobody listens to trajectory_msgs/JointTrajectory on /elsewhere" in said
        other = topics.objects_writer(TRAJECTORY, None)
        send = server.send
        server.send = lambda: (send(), other.write(trajectory(server.names, [0.0] * 8, 1.0)))  # type: ignore[method-assign]
        assert "another program publishes" in refused(reach_bundle, "ros2://lo", topics, server)


def test_there_is_no_such_interface(reach_bundle: Path) -> None:
    link = open_link("ros2://nowhere0", controller(reach_bundle).spec, ManualClock())
    with pytest.raises(RookeryError, match="no network interface 'nowhere0'"):
        link.open()


@pytest.mark.slow
def test_a_participant_lives_as_long_as_its_reader() -> None:
    reader = Participant("lo", DOMAIN + 3).objects("rt/time", ros_types().Time)
    gc.collect()
    assert reader.take(1) == []  # cyclonedds raises where the participant is gone


def test_a_configuration_that_names_the_interface_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cyclone DDS takes none twice."""
    monkeypatch.setenv("CYCLONEDDS_URI", peer.CONFIGURATION)
    with pytest.raises(RookeryError, match="CYCLONEDDS_URI is read too, let it name no interface"):
        Participant("lo", DOMAIN + 3)


# -- damaged messages ------------------------------------------------------------------------------------------------

WILD = (0.0, 0.1, -0.3, math.nan, math.inf, -1e308, 1e9)


def wild(rng: random.Random, kind: str, told: list[str]) -> Any:
    """A message of a kind with wild members, of the right lengths or others."""
    k = ros_types()
    some = told if rng.random() < 0.7 else rng.sample([*told, "else"], rng.randrange(len(told)))
    row = lambda: [rng.choice(WILD[:3] if rng.random() < 0.7 else WILD) for _ in some[: rng.choice((99, 99, 99, 2))]]  # noqa: E731
    if kind == "states":
        return k.JointState(
            k.Header(k.Time(rng.randrange(9), 0), ""), list(some), row(), row(), rng.choice((row(), []))
        )
    if kind == "array":
        return k.Float64MultiArray(k.MultiArrayLayout([], 0), row())
    points = [
        k.JointTrajectoryPoint(row(), [], [], [], k.Duration(rng.choice((0, 0, 1, -5)), rng.randrange(10**9)))
        for _ in range(rng.randrange(4))
    ]
    return k.JointTrajectory(k.Header(k.Time(0, 0), ""), list(some), points)


@pytest.mark.parametrize("count", COUNTS)
def test_wild_messages_to_the_arm(count: int) -> None:
    with closing(served(Topics())) as server:
        rng = random.Random(count)
        told = list(server.names)
        moved = 0
        for i in range(count):
            form = rng.choice(("trajectory", "array"))
            server.take(form, wild(rng, form, told) if rng.random() < 0.95 else object())
            if i % 20 == 0:
                server.receive()
                server.vehicle.step()
                server.send()
                moved += any(a.velocity for a in server.vehicle.axes)
                for axis in server.vehicle.axes:
                    assert math.isfinite(axis.demand)
                    past = axis.limits.speed**2 / (2.0 * axis.limits.deceleration)
                    assert axis.limits.lower - past <= axis.demand <= axis.limits.upper + past
        assert moved
        assert np.isfinite(server.vehicle.truth()["joint angles"]).all()


@pytest.mark.parametrize("count", COUNTS)
def test_wild_messages_to_the_link(reach_bundle: Path, count: int) -> None:
    """Whatever arrives, what leaves are finite positions within the contract's limits."""
    with closing(TopicReach(reach_bundle)) as flight:
        flight.begin()
        rng = random.Random(count)
        told = list(flight.server.names)
        link = flight.link
        sent: list[Any] = []
        link._commands = SimpleNamespace(write=sent.append, get_matched_subscriptions=lambda: [1])
        link._states = SimpleNamespace(take=lambda n: [wild(rng, "states", told)])
        with np.errstate(over="ignore"):
            for i in range(count):
                link._cycle()
                if i % 10 == 0:
                    link.read()
                if i % 50 == 0:
                    link._mode = "moving"
                    link._stamp = flight.clock.now()
        assert len(sent) > count / 2
        limits = flight.controller.spec.actuation.joints
        for message in sent:
            ((_, positions),) = read_trajectory(message, told) or [(0, [math.nan])]
            for joint, q in zip(limits, positions, strict=False):
                assert joint.lower - 0.01 <= q <= joint.upper + 0.01


# -- over DDS ----------------------------------------------------------------------------------------------------------


@contextmanager
def arm_by_dds(domain: int, *words: str):  # type: ignore[no-untyped-def]
    with vehicle("--protocol", "ros2", "--domain", str(domain), *words, task="table-reach") as process:
        yield process


def run_peer(what: str, domain: int) -> dict[str, Any]:
    """What a participant in a process of its own prints."""
    script = Path(__file__).with_name("ros2_peer.py")
    done = subprocess.run([sys.executable, str(script), what, str(domain)], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    out: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return out


@pytest.mark.slow
def test_a_participant_of_its_own_moves_our_arm() -> None:
    with arm_by_dds(DOMAIN, "--noise", "0"):
        out = run_peer("move", DOMAIN)
    names = out["names"]
    assert len(names) == 8 and names[-1] == "gripper"
    first, second = names[0], names[3]  # the client's order is the other way round
    assert out["halfway"][first] - out["home"][first] == pytest.approx(0.13, abs=0.06)
    for name in names[:7]:
        assert out["there"][name] == pytest.approx(out["end"][name], abs=0.02)
        assert out["same"][name] == pytest.approx(out["there"][name], abs=0.01)
    assert out["end"][second] == pytest.approx(out["home"][second] - 0.2)
    assert out["last"][names[1]] - out["there"][names[1]] == pytest.approx(0.15, abs=0.02)
    assert any(abs(v) > 0.5 for v in out["effort"])
    assert out["stamp"] > 0.0


@pytest.mark.slow
@tried_again
def test_a_bundle_reaches_over_dds(reach_bundle: Path) -> None:
    domain, port = DOMAIN + 1, free_port(1)
    hold = "" if prompt() else "&hold=1"
    with arm_by_dds(domain, "--port", str(port)):
        url = f"ros2://lo?domain={domain}&gripper=gripper&tracker={port}{hold}"
        code, report = fly(reach_bundle, "--link", url, seconds=5.0)
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["policy_s"] == pytest.approx(5.0, abs=0.2)


@pytest.mark.slow
def test_a_second_runtime_is_refused(reach_bundle: Path) -> None:
    domain, port = DOMAIN + 2, free_port(2)
    hold = "" if prompt() else "&hold=1"
    with (
        arm_by_dds(domain, "--port", str(port)),
        flying(reach_bundle, "--link", f"ros2://lo?domain={domain}&tracker={port}&gripper=gripper{hold}"),
    ):
        time.sleep(0.5)
        said = run_refused(["fly", str(reach_bundle), "--link", f"ros2://lo?domain={domain}&tracker={port + 1}"])
    assert "another program publishes to /joint_trajectory_controller/joint_trajectory" in said
