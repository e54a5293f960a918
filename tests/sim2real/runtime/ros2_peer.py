"""A participant of its own, as ROS 2's nodes are: message classes written from ROS's .msg files with cyclonedds's dataclasses,
in a process of its own. It prints JSON.

python ros2_peer.py move DOMAIN         moves the arm by both controllers
python ros2_peer.py fly DOMAIN          flies the drone by Twist
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, float64, int32, sequence, uint32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

CONFIGURATION = (
    '<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces></General><Discovery>'
    "<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>"
    '<Peers><Peer address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>'
)


@dataclass
class Time(IdlStruct, typename="builtin_interfaces::msg::dds_::Time_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces::msg::dds_::Duration_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Header(IdlStruct, typename="std_msgs::msg::dds_::Header_"):
    stamp: Time = field(default_factory=Time)
    frame_id: str = ""


@dataclass
class JointState(IdlStruct, typename="sensor_msgs::msg::dds_::JointState_"):
    header: Header = field(default_factory=Header)
    name: sequence[str] = field(default_factory=list)
    position: sequence[float64] = field(default_factory=list)
    velocity: sequence[float64] = field(default_factory=list)
    effort: sequence[float64] = field(default_factory=list)


@dataclass
class JointTrajectoryPoint(IdlStruct, typename="trajectory_msgs::msg::dds_::JointTrajectoryPoint_"):
    positions: sequence[float64] = field(default_factory=list)
    velocities: sequence[float64] = field(default_factory=list)
    accelerations: sequence[float64] = field(default_factory=list)
    effort: sequence[float64] = field(default_factory=list)
    time_from_start: Duration = field(default_factory=Duration)


@dataclass
class JointTrajectory(IdlStruct, typename="trajectory_msgs::msg::dds_::JointTrajectory_"):
    header: Header = field(default_factory=Header)
    joint_names: sequence[str] = field(default_factory=list)
    points: sequence[JointTrajectoryPoint] = field(default_factory=list)


@dataclass
class MultiArrayDimension(IdlStruct, typename="std_msgs::msg::dds_::MultiArrayDimension_"):
    label: str = ""
    size: uint32 = 0
    stride: uint32 = 0


@dataclass
class MultiArrayLayout(IdlStruct, typename="std_msgs::msg::dds_::MultiArrayLayout_"):
    dim: sequence[MultiArrayDimension] = field(default_factory=list)
    data_offset: uint32 = 0


@dataclass
class Float64MultiArray(IdlStruct, typename="std_msgs::msg::dds_::Float64MultiArray_"):
    layout: MultiArrayLayout = field(default_factory=MultiArrayLayout)
    data: sequence[float64] = field(default_factory=list)


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs::msg::dds_::Vector3_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0


@dataclass
class Point(IdlStruct, typename="geometry_msgs::msg::dds_::Point_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs::msg::dds_::Quaternion_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0
    w: float64 = 1.0


@dataclass
class Twist(IdlStruct, typename="geometry_msgs::msg::dds_::Twist_"):
    linear: Vector3 = field(default_factory=Vector3)
    angular: Vector3 = field(default_factory=Vector3)


@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs::msg::dds_::TwistStamped_"):
    header: Header = field(default_factory=Header)
    twist: Twist = field(default_factory=Twist)


@dataclass
class Pose(IdlStruct, typename="geometry_msgs::msg::dds_::Pose_"):
    position: Point = field(default_factory=Point)
    orientation: Quaternion = field(default_factory=Quaternion)


@dataclass
class PoseWithCovariance(IdlStruct, typename="geometry_msgs::msg::dds_::PoseWithCovariance_"):
    pose: Pose = field(default_factory=Pose)
    covariance: array[float64, 36] = field(default_factory=lambda: [0.0] * 36)


@dataclass
class TwistWithCovariance(IdlStruct, typename="geometry_msgs::msg::dds_::TwistWithCovariance_"):
    twist: Twist = field(default_factory=Twist)
    covariance: array[float64, 36] = field(default_factory=lambda: [0.0] * 36)


@dataclass
class Odometry(IdlStruct, typename="nav_msgs::msg::dds_::Odometry_"):
    header: Header = field(default_factory=Header)
    child_frame_id: str = ""
    pose: PoseWithCovariance = field(default_factory=PoseWithCovariance)
    twist: TwistWithCovariance = field(default_factory=TwistWithCovariance)


@dataclass
class Imu(IdlStruct, typename="sensor_msgs::msg::dds_::Imu_"):
    header: Header = field(default_factory=Header)
    orientation: Quaternion = field(default_factory=Quaternion)
    orientation_covariance: array[float64, 9] = field(default_factory=lambda: [0.0] * 9)
    angular_velocity: Vector3 = field(default_factory=Vector3)
    angular_velocity_covariance: array[float64, 9] = field(default_factory=lambda: [0.0] * 9)
    linear_acceleration: Vector3 = field(default_factory=Vector3)
    linear_acceleration_covariance: array[float64, 9] = field(default_factory=lambda: [0.0] * 9)


CDR = Policy.DataRepresentation(use_cdrv0_representation=True)
RELIABLE = Qos(Policy.Reliability.Reliable(10**8), Policy.History.KeepLast(10), CDR)
"""ROS's default profile."""
SENSOR = Qos(Policy.Reliability.BestEffort, Policy.History.KeepLast(5), CDR)
"""Its profile of sensor data."""


class Node:
    """A participant; topics by ROS's names."""

    def __init__(self, domain: int) -> None:
        self._participant = DomainParticipant(domain)

    def publisher(self, name: str, kind: Any) -> Any:
        return DataWriter(self._participant, Topic(self._participant, "rt" + name, kind), RELIABLE)

    def subscription(self, name: str, kind: Any, qos: Qos = RELIABLE) -> Any:
        return DataReader(self._participant, Topic(self._participant, "rt" + name, kind), qos)


def newest(reader: Any, seconds: float = 5.0) -> Any:
    """The last message that has arrived; else the first within a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        taken = reader.take(100)
        if taken:
            return taken[-1]
        time.sleep(0.002)
    raise AssertionError("nothing arrives")


def matched(writer: Any, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not writer.get_matched_subscriptions():
        assert time.monotonic() < end, "nobody listens"
        time.sleep(0.01)


def at(state: JointState) -> dict[str, float]:
    return dict(zip(state.name, state.position, strict=True))


def move(node: Node) -> dict[str, Any]:
    """By a trajectory of two points in an order of joints of its own, then by positions."""
    states = node.subscription("/joint_states", JointState, SENSOR)
    orders = node.publisher("/joint_trajectory_controller/joint_trajectory", JointTrajectory)
    positions = node.publisher("/forward_position_controller/commands", Float64MultiArray)
    first = newest(states)
    matched(orders)
    matched(positions)
    names = list(reversed(first.name))
    home = at(first)
    middle = {**home, names[-1]: home[names[-1]] + 0.1}
    end = {**home, names[-1]: home[names[-1]] + 0.3, names[-4]: home[names[-4]] - 0.2}
    orders.write(JointTrajectory(joint_names=names, points=[
        JointTrajectoryPoint([middle[n] for n in names], time_from_start=Duration(0, 500_000_000)),
        JointTrajectoryPoint([end[n] for n in names], time_from_start=Duration(1, 500_000_000)),
    ]))  # fmt: skip
    time.sleep(0.6)
    halfway = at(newest(states))
    time.sleep(1.5)
    there = newest(states)
    orders.write(
        JointTrajectory(joint_names=names[:3], points=[JointTrajectoryPoint([0.0] * 3)])
    )  # not all of its joints
    time.sleep(0.3)
    same = at(newest(states))
    for _ in range(50):
        goal = {**at(there), names[-2]: at(there)[names[-2]] + 0.15}
        positions.write(Float64MultiArray(data=[goal[n] for n in first.name]))
        time.sleep(0.02)
    last = at(newest(states))
    return {
        "names": list(first.name), "home": home, "halfway": halfway, "end": end, "there": at(there), "same": same, "last": last,
        "effort": list(there.effort), "stamp": there.header.stamp.sec + 1e-9 * there.header.stamp.nanosec,
    }  # fmt: skip


def fly(node: Node) -> dict[str, Any]:
    """Up, ahead by the world's axes, turning, and silence."""
    odometry = node.subscription("/odom", Odometry, SENSOR)
    imu = node.subscription("/imu", Imu, SENSOR)
    velocity = node.publisher("/cmd_vel", Twist)
    rest = newest(odometry)
    matched(velocity)

    def send(linear: tuple[float, float, float], turn: float, seconds: float) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            velocity.write(Twist(Vector3(*linear), Vector3(0.0, 0.0, turn)))
            time.sleep(0.02)
        return newest(odometry)

    up = send((0.0, 0.0, 0.5), 0.0, 3.0)
    turned = send((0.0, 0.0, 0.0), 0.5, 3.0)
    rates = newest(imu)
    ahead = send((0.5, 0.0, 0.0), 0.0, 3.0)
    time.sleep(8.0)
    down = newest(odometry)

    def place(o: Odometry) -> list[float]:
        p, q, v = o.pose.pose.position, o.pose.pose.orientation, o.twist.twist.linear
        return [p.x, p.y, p.z, q.w, q.x, q.y, q.z, v.x, v.y, v.z]

    return {
        "rest": place(rest), "up": place(up), "turned": place(turned), "ahead": place(ahead), "down": place(down),
        "turning": rates.angular_velocity.z, "up_force": rates.linear_acceleration.z,
        "frames": [rest.header.frame_id, rest.child_frame_id],
    }  # fmt: skip


if __name__ == "__main__":
    os.environ["CYCLONEDDS_URI"] = CONFIGURATION  # here: who imports this for its messages has one of its own
    print(json.dumps({"move": move, "fly": fly}[sys.argv[1]](Node(int(sys.argv[2])))), flush=True)
