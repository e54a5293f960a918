"""Messages of ROS 2 over DDS, without ROS: their types as cyclonedds knows them, and the names of topics.

A topic `/joint_states` of ROS is `rt/joint_states` of DDS, a type `sensor_msgs/msg/JointState` is
`sensor_msgs::msg::dds_::JointState_` (design.ros2.org, "Topic and service name mapping to DDS"). Fields: ros2/common_interfaces
and ros2/rcl_interfaces. None of them has a byte, which Cyclone DDS 0.10 could not bear (links/dds.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.dds import cyclone
from rookery.sim2real.links.frames import matrix
from rookery.sim2real.runtime.reading import Array

MOST = 256  # joints or points in a message
_TOPIC = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


def dds_topic(name: str) -> str:
    """The topic of DDS for one of ROS.

    Raises:
        RookeryError: ROS knows no such names.
    """
    if not _TOPIC.fullmatch(name):
        raise RookeryError(f"{name!r} is no name of a topic of ROS 2: write it like /joint_states.")
    return "rt/" + name.lstrip("/")


@cache
def ros_types() -> SimpleNamespace:
    """cyclonedds's classes of the messages.

    Raises:
        RookeryError: it is not installed.
    """
    idl = cyclone().idl
    t = idl.types

    def struct(package: str, title: str, /, **fields: Any) -> Any:
        return idl.make_idl_struct(f"{title}_", f"{package}.msg.dds_.{title}_", fields)

    k = SimpleNamespace()
    doubles = t.sequence[t.float64]
    k.Time = struct("builtin_interfaces", "Time", sec=t.int32, nanosec=t.uint32)
    k.Duration = struct("builtin_interfaces", "Duration", sec=t.int32, nanosec=t.uint32)
    k.Header = struct("std_msgs", "Header", stamp=k.Time, frame_id=str)
    k.JointState = struct(
        "sensor_msgs", "JointState", header=k.Header, name=t.sequence[str], position=doubles, velocity=doubles, effort=doubles
    )  # fmt: skip
    k.JointTrajectoryPoint = struct(
        "trajectory_msgs", "JointTrajectoryPoint", positions=doubles, velocities=doubles, accelerations=doubles, effort=doubles,
        time_from_start=k.Duration,
    )  # fmt: skip
    k.JointTrajectory = struct(
        "trajectory_msgs", "JointTrajectory", header=k.Header, joint_names=t.sequence[str],
        points=t.sequence[k.JointTrajectoryPoint],
    )  # fmt: skip
    k.MultiArrayDimension = struct("std_msgs", "MultiArrayDimension", label=str, size=t.uint32, stride=t.uint32)
    k.MultiArrayLayout = struct(
        "std_msgs", "MultiArrayLayout", dim=t.sequence[k.MultiArrayDimension], data_offset=t.uint32
    )
    k.Float64MultiArray = struct("std_msgs", "Float64MultiArray", layout=k.MultiArrayLayout, data=doubles)
    k.Vector3 = struct("geometry_msgs", "Vector3", x=t.float64, y=t.float64, z=t.float64)
    k.Point = struct("geometry_msgs", "Point", x=t.float64, y=t.float64, z=t.float64)
    k.Quaternion = struct("geometry_msgs", "Quaternion", x=t.float64, y=t.float64, z=t.float64, w=t.float64)
    k.Twist = struct("geometry_msgs", "Twist", linear=k.Vector3, angular=k.Vector3)
    k.TwistStamped = struct("geometry_msgs", "TwistStamped", header=k.Header, twist=k.Twist)
    k.Pose = struct("geometry_msgs", "Pose", position=k.Point, orientation=k.Quaternion)
    k.PoseWithCovariance = struct("geometry_msgs", "PoseWithCovariance", pose=k.Pose, covariance=t.array[t.float64, 36])
    k.TwistWithCovariance = struct(
        "geometry_msgs", "TwistWithCovariance", twist=k.Twist, covariance=t.array[t.float64, 36]
    )
    k.Odometry = struct(
        "nav_msgs",
        "Odometry",
        header=k.Header,
        child_frame_id=str,
        pose=k.PoseWithCovariance,
        twist=k.TwistWithCovariance,
    )
    nine = t.array[t.float64, 9]
    k.Imu = struct(
        "sensor_msgs", "Imu", header=k.Header, orientation=k.Quaternion, orientation_covariance=nine,
        angular_velocity=k.Vector3, angular_velocity_covariance=nine, linear_acceleration=k.Vector3,
        linear_acceleration_covariance=nine,
    )  # fmt: skip
    return k


def stamp_of(seconds: float, kind: Any) -> Any:
    """A Time or a Duration of s."""
    whole = math.floor(seconds)
    return kind(int(whole), min(999_999_999, round(1e9 * (seconds - whole))))


def header(seconds: float, frame: str = "") -> Any:
    """A header of s and a frame."""
    k = ros_types()
    return k.Header(stamp_of(seconds, k.Time), frame)


def joint_state(seconds: float, names: Sequence[str], rows: NDArray[np.float64]) -> Any:
    """A JointState of [3, J] positions, velocities and efforts."""
    return ros_types().JointState(header(seconds), list(names), *(row.tolist() for row in rows))


def read_joint_state(sample: Any, names: Sequence[str]) -> NDArray[np.float64] | None:
    """[3, J] positions, velocities and efforts of named joints; efforts that are not told are 0, and what has not positions
    and velocities of all these joints is None."""
    told = list(getattr(sample, "name", ()))[:MOST]
    count = len(told)
    if len(set(told)) != count or not set(names) <= set(told):
        return None
    rows = [list(getattr(sample, part, ())) for part in ("position", "velocity", "effort")]
    rows[2] = rows[2] or [0.0] * count
    if any(len(row) != count for row in rows):
        return None
    places = [told.index(name) for name in names]
    return np.array([[float(row[i]) for i in places] for row in rows])


def trajectory(names: Sequence[str], positions: Sequence[float], seconds: float) -> Any:
    """A JointTrajectory of one point, due `seconds` after it arrives: its header has no time, which means now."""
    k = ros_types()
    point = k.JointTrajectoryPoint(list(positions), [], [], [], stamp_of(seconds, k.Duration))
    return k.JointTrajectory(header(0.0), list(names), [point])


def read_trajectory(sample: Any, names: Sequence[str]) -> list[tuple[float, list[float]]] | None:
    """(s from now, [J] positions) of each point; None where the message is not for exactly these joints, or is damaged."""
    told = list(getattr(sample, "joint_names", ()))
    if sorted(told) != sorted(names):
        return None
    out: list[tuple[float, list[float]]] = []
    for point in list(getattr(sample, "points", ()))[:MOST]:
        due = float(point.time_from_start.sec) + 1e-9 * float(point.time_from_start.nanosec)
        positions = [float(v) for v in point.positions]
        if len(positions) != len(told) or not all(math.isfinite(v) for v in positions) or due < 0.0:
            return None
        if out and due <= out[-1][0]:
            return None
        out.append((due, [positions[told.index(name)] for name in names]))
    return out


def multi_array(values: Sequence[float]) -> Any:
    """A Float64MultiArray of one row."""
    k = ros_types()
    return k.Float64MultiArray(k.MultiArrayLayout([], 0), [float(v) for v in values])


def read_multi_array(sample: Any, count: int) -> list[float] | None:
    """So many finite numbers; None where it is another message."""
    values = [float(v) for v in list(getattr(sample, "data", ()))[: MOST + 1]]
    return values if len(values) == count and all(math.isfinite(v) for v in values) else None


def twist(linear: ArrayLike, turn: float) -> Any:
    """A Twist of m/s and rad/s about z."""
    k = ros_types()
    return k.Twist(k.Vector3(*(float(v) for v in np.asarray(linear))), k.Vector3(0.0, 0.0, float(turn)))


def read_twist(sample: Any) -> list[float] | None:
    """Linear velocity and turning about z of a Twist or a TwistStamped, finite; None where it is none."""
    inner = getattr(sample, "twist", sample)
    try:
        values = [inner.linear.x, inner.linear.y, inner.linear.z, inner.angular.z]
    except AttributeError:
        return None
    return [float(v) for v in values] if all(math.isfinite(v) for v in values) else None


def _vector(v: Any) -> Array:
    with np.errstate(over="ignore"):
        return np.array((v.x, v.y, v.z), np.float32)


def _rotation(q: Any) -> Array:
    """w, x, y, z; NaN where it is no rotation."""
    out = np.array((q.w, q.x, q.y, q.z), float)
    length = float(np.linalg.norm(out))
    return (out / length if abs(length - 1.0) < 0.1 else np.full(4, np.nan)).astype(np.float32)


def read_odometry(sample: Any) -> tuple[float, dict[str, Array]] | None:
    """s of its stamp, and position, velocity, rotation and angular velocity; None where it is none.

    The twist is in the axes of the child frame (Odometry.msg says so); the velocity given back is in those of the world.
    """
    try:
        pose, moving = sample.pose.pose, sample.twist.twist
        stamp = float(sample.header.stamp.sec) + 1e-9 * float(sample.header.stamp.nanosec)
        turned = _rotation(pose.orientation)
        values = {
            "position": _vector(pose.position), "velocity": (matrix(turned) @ _vector(moving.linear)).astype(np.float32),
            "rotation": turned, "angular velocity": _vector(moving.angular),
        }  # fmt: skip
    except AttributeError:
        return None
    return stamp, values


def odometry(seconds: float, values: Mapping[str, Array]) -> Any:
    """An Odometry from `odom` to `base_link` of position, velocity, rotation and angular velocity."""
    k = ros_types()
    w, x, y, z = (float(v) for v in values["rotation"])
    pose = k.Pose(k.Point(*(float(v) for v in values["position"])), k.Quaternion(x, y, z, w))
    ahead = matrix(values["rotation"]).T @ np.asarray(values["velocity"], float)
    moving = k.Twist(k.Vector3(*ahead.tolist()), k.Vector3(*(float(v) for v in values["angular velocity"])))
    none = [0.0] * 36
    return k.Odometry(
        header(seconds, "odom"), "base_link", k.PoseWithCovariance(pose, none), k.TwistWithCovariance(moving, none)
    )


def read_imu(sample: Any) -> Array | None:
    """Angular velocity; None where it is no Imu."""
    try:
        return _vector(sample.angular_velocity)
    except AttributeError:
        return None


def imu(seconds: float, rotation: ArrayLike, turning: ArrayLike) -> Any:
    """An Imu of a rotation (w, x, y, z) and rad/s, which has no accelerations: a covariance that begins with -1 says so."""
    k = ros_types()
    w, x, y, z = np.asarray(rotation, float).tolist()
    none = [0.0] * 9
    return k.Imu(
        header(seconds, "base_link"), k.Quaternion(x, y, z, w), none, k.Vector3(*np.asarray(turning, float).tolist()), none,
        k.Vector3(0.0, 0.0, 0.0), [-1.0, *none[1:]],
    )  # fmt: skip
