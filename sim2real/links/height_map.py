"""Unitree's map of the ground around a robot, and the heights that a policy sees of it.

Topics `rt/utlidar/height_map_array` (HeightMap_) and `rt/utlidar/robot_pose` (PoseStamped_), both in the frame of the robot's
odometry. Fields: unitree_sdk2_python, IDL `unitree_go`; their meaning: the comments of HeightMap.msg in unitree_ros2 (cell
[ix, iy] lies at origin + resolution [ix, iy] and has the value data[width iy + ix]). A cell that nobody has seen has 1e9, and
a Go2's map 128 x 128 cells of 0.06 m: Unitree's example of the topic for unitree_sdk2py, and its LiDAR service's page.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import distance_transform_edt

from rookery.sim.errors import RookeryError
from rookery.sim.terms import GroundScan
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.frames import euler
from rookery.sim2real.links.ros2_messages import ros_types
from rookery.sim2real.runtime.reading import Array

MAPS, POSES = "rt/utlidar/height_map_array", "rt/utlidar/robot_pose"
FRAME = "odom"
SEEN = "from the lidar's map"
UNSEEN = 1e9
MOST_HEIGHT_M = 1e3  # m; beyond it a height is none
MOST_CELLS = 512  # along each edge
LONGEST_NAME = 256  # bytes, of a frame's name
FILLED_M = 0.5  # m beyond the farthest scan point in which cells that nobody has seen are filled


@dataclass(frozen=True, eq=False)
class HeightMap:
    """A map.

    Args:
        stamp: s, the robot's clock.
        resolution: m, between cells.
        origin: (x, y) m, odometry's frame, of cell [0, 0].
        heights: [height, width] m, odometry's frame, rows along y; NaN where nobody has seen the ground.
    """

    stamp: float
    resolution: float
    origin: tuple[float, float]
    heights: Array


@dataclass(frozen=True, eq=False)
class TrunkPose:
    """The trunk's place.

    Args:
        stamp: s, the robot's clock.
        position: [3] m, odometry's frame.
        rotation: [4] w, x, y, z, from the trunk's axes to the odometry's.
    """

    stamp: float
    position: NDArray[np.float64]
    rotation: NDArray[np.float64]


class HeightMapMessage:
    """HeightMap_ on the wire; see rookery.sim2real.links.dds.WireMessage."""

    def declare(self, dds: Any) -> Any:
        """A class of cyclonedds of its type."""
        t = dds.idl.types
        fields = {
            "stamp": t.float64, "frame_id": str, "resolution": t.float32, "width": t.uint32, "height": t.uint32,
            "origin": t.array[t.float32, 2], "data": t.sequence[t.float32],
        }  # fmt: skip
        return dds.idl.make_idl_struct("HeightMap_", "unitree_go.msg.dds_.HeightMap_", fields)

    def to_wire(self, record: HeightMap) -> bytes:
        """Its bytes in CDR, little-endian."""
        rows, columns = record.heights.shape
        head = struct.pack("<d", record.stamp) + _name(FRAME)
        shape = struct.pack("<fIIffI", record.resolution, columns, rows, *record.origin, rows * columns)
        data = np.where(np.isfinite(record.heights), record.heights, UNSEEN).astype("<f4")
        return _aligned(head, 4) + shape + data.tobytes()

    def from_wire(self, data: bytes) -> HeightMap | None:
        """The map that bytes hold; None where they hold none."""
        try:
            (stamp,) = struct.unpack_from("<d", data)
            at = _after_name(data, 8)
            at += -at % 4
            resolution, columns, rows, x, y, count = struct.unpack_from("<fIIffI", data, at)
        except (struct.error, ValueError):
            return None
        at += 24
        sized = 2 <= rows <= MOST_CELLS and 2 <= columns <= MOST_CELLS and count == rows * columns
        if not sized or len(data) < at + 4 * count or not 0.0 < resolution <= 1.0:
            return None
        if not all(math.isfinite(v) for v in (stamp, x, y)):
            return None
        heights = np.frombuffer(data, "<f4", count, at).reshape(rows, columns).astype(np.float32)
        with np.errstate(invalid="ignore"):  # a NaN that signals
            heights[~(np.abs(heights) <= MOST_HEIGHT_M)] = np.nan
        return HeightMap(stamp, resolution, (x, y), heights)


class PoseMessage:
    """PoseStamped_ on the wire; see rookery.sim2real.links.dds.WireMessage."""

    def declare(self, dds: Any) -> Any:
        """A class of cyclonedds of its type."""
        k = ros_types()
        fields = {"header": k.Header, "pose": k.Pose}
        return dds.idl.make_idl_struct("PoseStamped_", "geometry_msgs.msg.dds_.PoseStamped_", fields)

    def to_wire(self, record: TrunkPose) -> bytes:
        """Its bytes in CDR, little-endian."""
        whole = math.floor(record.stamp)
        head = struct.pack("<iI", whole, min(999_999_999, round(1e9 * (record.stamp - whole)))) + _name(FRAME)
        w, x, y, z = record.rotation
        return _aligned(head, 8) + struct.pack("<7d", *record.position, x, y, z, w)

    def from_wire(self, data: bytes) -> TrunkPose | None:
        """The pose that bytes hold; None where they hold none."""
        try:
            seconds, rest = struct.unpack_from("<iI", data)
            at = _after_name(data, 8)
            values = np.array(struct.unpack_from("<7d", data, at + -at % 8))
        except (struct.error, ValueError):
            return None
        position, rotation = values[:3], np.roll(values[3:], 1)
        if not (np.abs(position) < 1e6).all() or not (np.abs(rotation) < 2.0).all():
            return None
        if not abs(float(rotation @ rotation) - 1.0) < 0.1:
            return None
        return TrunkPose(seconds + 1e-9 * rest, position, rotation / np.linalg.norm(rotation))


HEIGHT_MAP, TRUNK_POSE = HeightMapMessage(), PoseMessage()


def _name(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<I", len(raw)) + raw


def _aligned(data: bytes, size: int) -> bytes:
    return data + bytes(-len(data) % size)


def _after_name(data: bytes, at: int) -> int:
    """Place behind a string at `at`."""
    (length,) = struct.unpack_from("<I", data, at)
    if length > LONGEST_NAME:
        raise ValueError("no name of a frame")
    return at + 4 + int(length)


def ground_scan(group: ContractGroup) -> GroundScan | None:
    """The scan of the ground that a policy observes; None for one that sees no ground.

    Raises:
        RookeryError: there are several.
    """
    seen = (t.expression for t in group.spec.observation if not t.hidden)
    found = list(dict.fromkeys(q for e in seen for q in e.leaves() if isinstance(q, GroundScan)))
    if len(found) > 1:
        raise RookeryError(f"the policy observes {len(found)} scans of the ground, and this link gives one.")
    return found[0] if found else None


class GroundSampler:
    """Heights of the ground at a policy's scan points, from the newest map and the trunk's newest place in it.

    Maps and places come seldom: between two places the trunk moves on by its velocity, as `move` is told it, and turns by its
    IMU. The robot's own body hides the ground below where it starts: a cell that nobody has seen gets the height of the nearest
    one that somebody has.

    Args:
        scan: of the policy.
    """

    def __init__(self, scan: GroundScan) -> None:
        self.name = scan.name
        self._points = np.array(scan.points, float)
        self._limit = scan.limit
        self._reach = float(np.linalg.norm(self._points, axis=1).max()) + FILLED_M
        self._map: HeightMap | None = None
        self._pose: TrunkPose | None = None
        self._mapped = self._placed = -math.inf  # s, the runtime's clock
        self._moved = np.zeros(3)  # m, since the newest place, axes of the attitude
        self._turn = 0.0  # rad, of the odometry's heading from that of the attitude

    @property
    def received(self) -> float:
        """s, the runtime's clock when the map or the place arrived, the older of the two; minus infinity before."""
        return min(self._mapped, self._placed)

    def take_map(self, new: HeightMap, now: float) -> None:
        """A map has arrived at `now`, s; one that is no newer than the one before, or shows nothing, counts as none."""
        seen = np.isfinite(new.heights)
        if (self._map is not None and new.stamp <= self._map.stamp) or self._pose is None:
            return
        rows, columns = (self._near(i, n, new) for i, n in ((1, seen.shape[0]), (0, seen.shape[1])))
        part = seen[rows, columns]
        if not part.any():
            return
        filled = new.heights.copy()
        if not part.all():
            i, j = distance_transform_edt(~part, return_distances=False, return_indices=True)
            filled[rows, columns] = new.heights[rows, columns][i, j]
        self._map = HeightMap(new.stamp, new.resolution, new.origin, filled)
        self._mapped = now

    def _near(self, axis: int, cells: int, new: HeightMap) -> slice:
        """Cells along x (0) or y (1) that are near the trunk."""
        assert self._pose is not None
        middle = (self._pose.position[axis] - new.origin[axis]) / new.resolution
        reach = self._reach / new.resolution
        return slice(max(0, math.floor(middle - reach)), max(0, min(cells, math.ceil(middle + reach) + 1)))

    def take_pose(self, new: TrunkPose, now: float, rotation: ArrayLike) -> None:
        """The trunk's place has arrived at `now`, s, when its attitude by the IMU was `rotation`."""
        turn = euler(new.rotation)[2] - euler(rotation)[2]
        if (self._pose is not None and new.stamp <= self._pose.stamp) or not math.isfinite(turn):
            return
        self._pose = new
        self._placed = now
        self._turn = turn
        self._moved[:] = 0.0

    def move(self, velocity: ArrayLike, dt: float) -> None:
        """The trunk has moved at [3] m/s, in the world as its IMU has it, for s."""
        self._moved += dt * np.asarray(velocity, float)

    def heights(self, rotation: ArrayLike) -> Array | None:
        """[P] m, the ground's heights less the trunk's, where the attitude is `rotation`; None without a map of the ground
        there."""
        if self._map is None or self._pose is None:
            return None
        moved = self._moved[:2] @ _turning(self._turn)
        place = self._pose.position[:2] + moved
        height = self._pose.position[2] + self._moved[2]
        found = _bilinear(self._map, place + self._points @ _turning(euler(rotation)[2] + self._turn))
        if not np.isfinite(found).all():
            return None
        return np.clip(found - height, -self._limit, self._limit).astype(np.float32)


def _turning(angle: float) -> NDArray[np.float64]:
    """[2, 2], by which rows (x, y) are multiplied to turn them by rad."""
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array(((cos, sin), (-sin, cos)))


def _bilinear(of: HeightMap, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """[P] m at [P, 2] m; NaN outside of the map, and beside cells that nobody has seen."""
    rows, columns = of.heights.shape
    u, v = ((places - of.origin) / of.resolution).T
    inside = (u >= 0.0) & (u <= columns - 1) & (v >= 0.0) & (v <= rows - 1)
    u, v = np.where(inside, u, 0.0), np.where(inside, v, 0.0)
    i, j = np.minimum(u.astype(int), columns - 2), np.minimum(v.astype(int), rows - 2)
    u, v = u - i, v - j
    h = of.heights
    low = (1.0 - u) * h[j, i] + u * h[j, i + 1]
    high = (1.0 - u) * h[j + 1, i] + u * h[j + 1, i + 1]
    return np.where(inside, (1.0 - v) * low + v * high, np.nan)
