"""PX4's ULog files, with their frames and their numbers of motors brought to ours."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.frames import rotation_from_ned
from rookery.sim2real.sysid.readers.reading import needs, one_line
from rookery.sim2real.sysid.table import Table, merge

Array = NDArray[np.float64]
TOPICS = {
    "vehicle_local_position": ("x", "y", "z", "vx", "vy", "vz"),
    "vehicle_attitude": ("q[0]", "q[1]", "q[2]", "q[3]"),
    "vehicle_angular_velocity": ("xyz[0]", "xyz[1]", "xyz[2]"),
    "actuator_motors": ("control[0]", "control[1]", "control[2]", "control[3]"),
}
MOTORS = (0, 3, 1, 2)
"""PX4's number of our rotors: ours go clockwise from the front right, those of its quadrotor X are front right, rear left,
front left, rear right."""


def read(path: Path) -> Table:
    """Position, attitude, rates and motors; see rookery.sim2real.sysid.readers.reading."""
    try:
        from pyulog import ULog
    except ImportError:
        raise needs("pyulog", path) from None
    try:
        log = ULog(str(path), list(TOPICS))
    except Exception as error:  # pyulog's share no base class, and bytes may lead it anywhere
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # that is a place in the file that there is not
            raise
        raise RookeryError(f"{path} is a damaged ULog file: {one_line(error)}.") from error
    found: dict[str, Any] = {data.name: data.data for data in reversed(log.data_list)}
    missing = [t for t in TOPICS if t not in found or any(f not in found[t] for f in TOPICS[t])]
    if missing:
        raise RookeryError(f"{path} lacks {', '.join(missing)}: log them (SDLOG_PROFILE) and fly again.")
    time = {t: 1e-6 * found[t]["timestamp"].astype(float) for t in TOPICS}
    x, y, z, vx, vy, vz = (
        np.asarray(found["vehicle_local_position"][f], float) for f in TOPICS["vehicle_local_position"]
    )
    columns = {
        "position.x": y, "position.y": x, "position.z": -z, "velocity.x": vy, "velocity.y": vx, "velocity.z": -vz
    }  # fmt: skip
    streams = {name: (time["vehicle_local_position"], values) for name, values in columns.items()}
    q = np.stack([found["vehicle_attitude"][f] for f in TOPICS["vehicle_attitude"]], axis=1).astype(float)
    turned = continuous(np.array([rotation_from_ned(row) for row in q], float))
    streams |= {f"quaternion.{a}": (time["vehicle_attitude"], turned[:, i]) for i, a in enumerate("wxyz")}
    for axis, field, sign in zip("xyz", TOPICS["vehicle_angular_velocity"], (1.0, -1.0, -1.0), strict=True):
        values = sign * np.asarray(found["vehicle_angular_velocity"][field], float)
        streams[f"angular_velocity.{axis}"] = (time["vehicle_angular_velocity"], values)
    held = [f"motors.{i}" for i in range(1, 5)]
    for name, theirs in zip(held, MOTORS, strict=True):
        command = np.nan_to_num(np.asarray(found["actuator_motors"][f"control[{theirs}]"], float))
        streams[name] = (time["actuator_motors"], command)
    return Table(str(path), merge(streams, "angular_velocity.x", held))


def continuous(q: Array) -> Array:
    """Quaternions [T, 4] whose signs do not jump, so that they can be interpolated."""
    flips = np.cumprod(np.where((q[1:] * q[:-1]).sum(axis=1) < 0.0, -1.0, 1.0))
    return np.asarray(q * np.concatenate(([1.0], flips))[:, None])
