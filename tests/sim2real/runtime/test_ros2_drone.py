"""Twists and odometry of ROS 2: our drone under another participant and under our link, faults, refusals, wild messages."""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from sampled import slow_but

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim2real.links import ros2_twist as links
from rookery.sim2real.links.addresses import parse_address
from rookery.sim2real.links.ros2 import ros2_link
from rookery.sim2real.links.ros2_messages import imu, odometry, read_imu, read_odometry, read_twist, ros_types, twist
from rookery.sim2real.links.ros2_twist import LAND_M_S, Ros2TwistLink
from rookery.sim2real.runtime.clock import ManualClock
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.onnx_controller import open_controller
from rookery.sim2real.runtime.pilot import Phase
from rookery.sim2real.vehicles import ros2_drone as vehicles
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.ros2_drone import Ros2Drone
from tests.sim2real.runtime.flights import Flight
from tests.sim2real.runtime.processes import fly, tried_again, vehicle
from tests.sim2real.runtime.runtime_faults import RUNTIME_FAULTS, operator
from tests.sim2real.runtime.test_faults import SAFE_S
from tests.sim2real.runtime.test_packets import COUNTS
from tests.sim2real.runtime.test_ros2 import WILD, Topics, run_peer
from tests.sim2real.runtime.turned_time import turning

DOMAIN = 10 + os.getpid() % 80
GAIN = 1.5  # 1/s, of the policy


@pytest.fixture(scope="module")
def velocity_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy of somebody else's: velocities proportional to the way to the target, one matrix."""
    out = tmp_path_factory.mktemp("velocity")
    weights = np.zeros((3, 4), np.float32)
    weights[:3, :3] = GAIN * np.eye(3)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, s]) for n, s in (("seen", 3), ("wanted", 4))]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["seen", "w"], ["wanted"])], "policy", ends[:1], ends[1:],
        [numpy_helper.from_array(weights, "w")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), out / "policy.onnx")
    contract = {
        "schema": "rookery-short-contract", "control_dt": 0.01,
        "observation": [{"name": "way", "of": "target - position"}],
        "action": {"kind": "velocity", "low": [-1.0] * 4, "high": [1.0] * 4},
        "multirotor": {"mass": 0.0306, "most_thrust": 0.44}, "fence_m": 3.0,
    }  # fmt: skip
    (out / "contract.json").write_text(json.dumps(contract))
    return out


# -- messages --------------------------------------------------------------------------------------------------------

vectors = st.lists(st.floats(-50, 50), min_size=3, max_size=3)


@given(
    vectors,
    vectors,
    vectors,
    st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda v: np.linalg.norm(v) > 0.1),
)
def test_odometry_tells_velocity_in_the_axes_of_the_body(p: Any, v: Any, w: Any, q: Any) -> None:
    """Judged by the quaternion's product, q (0, v) q*."""
    q = np.array(q) / np.linalg.norm(q)
    values = {"position": p, "velocity": v, "angular velocity": w, "rotation": q}
    message = odometry(12.25, {name: np.asarray(x, np.float32) for name, x in values.items()})
    body = message.twist.twist.linear

    def product(a: Any, b: Any) -> Any:
        vector = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
        return np.array([a[0] * b[0] - a[1:] @ b[1:], *vector])

    turned = product(product(q, np.array([0.0, body.x, body.y, body.z])), q * [1, -1, -1, -1])
    np.testing.assert_allclose(turned[1:], v, atol=2e-3)
    stamp, read = read_odometry(message) or (0.0, {})
    assert stamp == pytest.approx(12.25)
    for name, x in values.items():
        np.testing.assert_allclose(read[name], x, atol=2e-3, err_msg=name)
    np.testing.assert_allclose(read_imu(imu(1.0, q, w)), np.float32(w))


def test_what_is_no_message() -> None:
    assert read_twist(object()) is None and read_odometry(object()) is None and read_imu(object()) is None
    assert read_twist(twist((1.0, math.nan, 0.0), 0.0)) is None
    stamped = ros_types().TwistStamped(ros_types().Header(ros_types().Time(0, 0), ""), twist((1.0, 2.0, 3.0), 4.0))
    assert read_twist(stamped) == [1.0, 2.0, 3.0, 4.0]


# -- lock-step ---------------------------------------------------------------------------------------------------------


class TwistFlight(Flight):
    """A drone behind topics; the link's thread is stepped, too."""

    def __init__(self, bundle: Path, options: str = "", **others: Any) -> None:
        self._options = options
        super().__init__(bundle, **others)

    def load(self, bundle: Path) -> Controller:
        return open_controller(bundle)  # type: ignore[return-value]

    def connect(self, seed: int) -> Any:
        self.topics = Topics()
        drone = DroneVehicle(rookery.make("drone-hover", num_envs=1, seed=seed), seed=seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(vehicles, "Participant", lambda *where: self.topics)
            self.server = Ros2Drone(drone)
        link: Any = ros2_link(parse_address(f"ros2://lo{self._options}"), self.controller.spec, self.clock)
        assert isinstance(link, Ros2TwistLink)
        link._run = lambda: None
        link.vehicle = drone
        link.receive = lambda: None
        self._open, link.open = link.open, self.open
        return link

    def open(self, timeout_s: float = 2.0) -> Any:
        with pytest.MonkeyPatch.context() as patch, turning(self.world, self.server.vehicle.period, links):
            patch.setattr(links, "Participant", lambda *where: self.topics)
            patch.setattr(links, "OTHERS_S", 0.06)
            return self._open(timeout_s)

    def world(self) -> None:
        """A step of drone and topics."""
        self.server.receive()
        self.server.vehicle.step()
        self.server.send()
        self.clock.moment += self.server.vehicle.period

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.world()
            if self.runtime_alive:
                self.link._cycle()
                self.record = self.pilot.step()
                self.watchdog.look()

    @property
    def safe(self) -> bool:
        """Whether it comes down, by itself or as it is told, or stands."""
        onboard = self.vehicle._onboard[0]
        down = onboard.level == "velocity" and np.allclose(onboard.setpoint, (0.0, 0.0, -LAND_M_S, 0.0))
        return bool(down) or super().safe


@pytest.mark.parametrize(
    "options", ["", pytest.param("?imu=/imu&commands=/cmd_vel_stamped&stamped=1", marks=pytest.mark.slow)]
)
def test_it_takes_off_goes_to_its_target_and_lands(velocity_bundle: Path, options: str) -> None:
    with closing(TwistFlight(velocity_bundle, options, seconds=5.0)) as flight:
        flight.begin()
        goal = flight.vehicle.truth(0)["position"] + np.float32((0.6, -0.4, 0.3))
        flight.pilot.commands.values["target"] = goal
        while flight.pilot.phase is Phase.POLICY:
            flight.run(1)
            near = float(np.linalg.norm(flight.vehicle.truth(0)["position"] - goal))
        assert near < 0.1, flight.said
        assert flight.pilot.phase is Phase.EXIT, flight.said
        assert flight.lands(), flight.said
        flight.run(5)
        assert flight.pilot.done and flight.pilot.fault is None, flight.said


def test_its_first_reading_is_not_that_of_before_it_listened_for_others(velocity_bundle: Path) -> None:
    with closing(TwistFlight(velocity_bundle)) as flight:
        began = flight.clock.now()
        flight.pilot.check()
        assert flight.clock.now() - began > 0.05  # it listened
        assert flight.clock.now() - flight.link.read().received < 0.03


def cut(flight: TwistFlight) -> None:
    flight.topics.cut = {"rt/odom", "rt/cmd_vel"}


def blind(flight: TwistFlight) -> None:
    flight.topics.cut = {"rt/odom"}


def not_a_number(flight: TwistFlight) -> None:
    write = flight.server._odometry.write

    def spoiled(message: Any) -> None:
        message.pose.pose.position.y = math.nan
        write(message)

    flight.server._odometry.write = spoiled


FAULTS: dict[str, tuple[Callable[[TwistFlight], None], str]] = {
    "cut": (cut, "silent"), "blind": (blind, "silent"), "NaN": (not_a_number, "not_finite"), **RUNTIME_FAULTS,
}  # fmt: skip
QUICK = ("killed",)


@pytest.mark.parametrize("fault", slow_but(QUICK, FAULTS))
def test_it_comes_down_within_80_ms(velocity_bundle: Path, fault: str) -> None:
    begin, name = FAULTS[fault]
    with closing(TwistFlight(velocity_bundle)) as flight:
        flight.begin()
        flight.run(len(fault))
        assert flight.pilot.phase is Phase.POLICY, flight.said
        assert not flight.safe
        begin(flight)
        assert flight.seconds_to_safety() <= SAFE_S + 1e-9, flight.said
        flight.run(3)
        if name:
            assert flight.pilot.fault is not None
            assert flight.pilot.fault.name == name
        assert flight.lands(), flight.said


@pytest.mark.slow
def test_the_operators_stop_ends_on_the_ground(velocity_bundle: Path) -> None:
    """No message says that it is disarmed: where it stands, the pilot is done."""
    with closing(TwistFlight(velocity_bundle)) as flight:
        flight.begin()
        operator(flight)
        for _ in range(1500):
            flight.run(1)
            if flight.pilot.done:
                break
        assert flight.pilot.done, flight.said
        flight.run(200)
        assert not flight.vehicle.armed(0)
        assert flight.topics.written["rt/cmd_vel"] > 100


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_what_is_refused(velocity_bundle: Path, hover_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "OTHERS_S", 0.02)
    spec = open_controller(velocity_bundle).spec
    topics = Topics()
    monkeypatch.setattr(links, "Participant", lambda *where: topics)

    def refused(url: str, of: Any = spec, world: Callable[[], object] = lambda: None) -> str:
        with pytest.raises(RookeryError) as refusal, turning(world, 0.005, links):
            Ros2TwistLink(parse_address(url), of, ManualClock()).open(0.1)
        said = str(refusal.value)
        assert said[-1] in ".?" and "\n" not in said
        return said

    assert "must name the network interface" in refused("ros2://")
    assert "unknown option" in refused("ros2://lo?odom=/a")
    assert "axes must be one of" in refused("ros2://lo?axes=flu")
    assert "action kind is ctbr, not velocity" in refused("ros2://lo", Controller(hover_bundle).spec)
    assert "nobody publishes nav_msgs/Odometry to /odom" in refused("ros2://lo")
    tell = topics.objects_writer("rt/odom", None)
    one = {n: np.zeros(3, np.float32) for n in ("position", "velocity", "angular velocity")}
    one["rotation"] = np.float32((1, 0, 0, 0))
    assert "or no sensor_msgs/Imu to /imu" in refused(
        "ros2://lo?imu=/imu", world=lambda: tell.write(odometry(1.0, one))
    )
    assert "nobody listens to geometry_msgs/Twist on /other" in refused(
        "ros2://lo?commands=/other",
        world=lambda: tell.write(odometry(1.0, one)),
    )
    other = topics.objects_writer("rt/cmd_vel", None)
    world = lambda: (tell.write(odometry(1.0, one)), other.write(twist((0, 0, 0), 0)))  # noqa: E731
    assert "another program publishes to /cmd_vel" in refused("ros2://lo", world=world)


# -- damaged messages --------------------------------------------------------------------------------------------------


def wild(rng: random.Random) -> Any:
    """A Twist, a TwistStamped or something else with wild numbers."""
    linear = [rng.choice(WILD[:3] if rng.random() < 0.8 else (*WILD, 1e308)) for _ in range(3)]
    message = twist((0.0, 0.0, 0.0), rng.choice(WILD))
    message.linear.x, message.linear.y, message.linear.z = linear
    kind = rng.random()
    if kind < 0.4:
        return message
    if kind < 0.8:
        return ros_types().TwistStamped(ros_types().Header(ros_types().Time(0, 0), ""), message)
    return rng.choice((object(), ros_types().Vector3(1.0, 2.0, 3.0), None))


@pytest.mark.parametrize("count", COUNTS)
def test_wild_twists(count: int) -> None:
    drone = DroneVehicle(rookery.make("drone-hover", num_envs=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vehicles, "Participant", lambda *where: Topics())
        server = Ros2Drone(drone)
    rng = random.Random(count)
    with np.errstate(over="ignore"):
        for i in range(count):
            server.take(wild(rng))
            if i % 50 == 0:
                server.receive()
                drone.step()
                server.send()
                assert np.isfinite(drone._commands).all()
                assert np.isfinite(drone._onboard[0].setpoint).all()
    assert np.isfinite(drone.truth(0)["position"]).all()
    server.close()


@pytest.mark.parametrize("count", COUNTS)
def test_wild_odometry(velocity_bundle: Path, count: int) -> None:
    """No error, and what goes out is finite."""
    rng = random.Random(count)
    clock = ManualClock()
    link: Any = Ros2TwistLink(parse_address("ros2://lo"), open_controller(velocity_bundle).spec, clock)
    sent: list[Any] = []
    link._commands = type("", (), {"write": lambda self, message: sent.append(message)})()

    def message() -> Any:
        pick = lambda n: np.array([rng.choice(WILD[:3] if rng.random() < 0.8 else WILD) for _ in range(n)])  # noqa: E731
        k = ros_types()
        made = k.Odometry(
            k.Header(k.Time(rng.randrange(-5, 9), rng.randrange(10**9)), "odom"), "base_link",
            k.PoseWithCovariance(k.Pose(k.Point(*pick(3)), k.Quaternion(*pick(4))), [0.0] * 36),
            k.TwistWithCovariance(k.Twist(k.Vector3(*pick(3)), k.Vector3(*pick(3))), [0.0] * 36),
        )  # fmt: skip
        if rng.random() < 0.5:
            made.pose.pose.orientation = k.Quaternion(0.0, 0.0, 0.0, 1.0)
        return made if rng.random() < 0.9 else object()

    link._odometry = type("", (), {"take": lambda self, n: [message()]})()
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(count):
            clock.moment += 0.01
            link._set((0.1, 0.2, 0.3, 0.4))
            link._cycle()
    assert len(sent) == count
    assert all(read_twist(out) is not None for out in sent)


# -- over DDS ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_participant_of_its_own_flies_our_drone() -> None:
    with vehicle("--protocol", "ros2", "--domain", str(DOMAIN), "--silence-ms", "800"):
        out = run_peer("fly", DOMAIN)
    assert out["frames"] == ["odom", "base_link"]
    assert out["up"][2] - out["rest"][2] > 0.8
    yaw = 2.0 * math.atan2(out["turned"][6], out["turned"][3])
    assert yaw > 0.9
    assert out["turning"] == pytest.approx(0.5, abs=0.2)
    way = np.array(out["ahead"][:2]) - out["turned"][:2]
    assert np.linalg.norm(way) > 0.8
    assert math.remainder(math.atan2(way[1], way[0]) - yaw, 2.0 * math.pi) == pytest.approx(0.0, abs=0.35)
    assert out["ahead"][7] == pytest.approx(0.5, abs=0.2) and abs(out["ahead"][8]) < 0.2  # in the axes of the body
    assert out["down"][2] < 0.1


@pytest.mark.slow
@tried_again
def test_a_policy_flies_over_dds(velocity_bundle: Path) -> None:
    domain = DOMAIN + 1
    with vehicle("--protocol", "ros2", "--domain", str(domain), "--silence-ms", "800"):
        code, report = fly(velocity_bundle, "--link", f"ros2://lo?domain={domain}&hold=0.5", seconds=3.0)
    (one,) = report["vehicles"]
    assert (code, one["fault"]) == (0, None)
    assert one["largest_distance_m"] < 0.3
