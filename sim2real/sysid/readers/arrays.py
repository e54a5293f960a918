"""NumPy's .npz: arrays [T] and [T, C] by our names, and `joints`, the names of the C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import read_npz
from rookery.sim2real.sysid.table import Table, split

GAINS = ("kp", "kd")


def read(path: Path) -> Table:
    """The arrays of a file; see rookery.sim2real.sysid.readers.reading."""
    arrays = read_npz(path)
    joints = [str(name) for name in arrays.pop("joints", [])]
    gains = {name: arrays.pop(name) for name in GAINS if name in arrays and arrays[name].ndim < 2}
    found = {}
    if len(gains) == 2 and joints:
        kp, kd = (_numbers(path, name, gains[name], len(joints)) for name in GAINS)
        found = {j: (float(p), float(d)) for j, p, d in zip(joints, kp, kd, strict=True)}
    rate = arrays.pop("rate", None)
    if rate is not None and not (rate.ndim == 0 and rate.dtype.kind in "fiu" and 0.0 < rate < np.inf):
        raise RookeryError(f"{path}: rate must be a number of Hz above 0, got {rate.tolist()!r:.60}.")
    robot = arrays.pop("robot", None)
    columns = split(str(path), arrays, joints)
    if rate is not None and "time" not in columns:
        length = len(next(iter(columns.values())))
        columns["time"] = np.arange(length) / float(rate)
    return Table(str(path), columns, None if robot is None else str(robot), found)


def _numbers(path: Path, name: str, given: NDArray[Any], count: int) -> NDArray[np.float64]:
    """[count] of one number for all joints, or one for each."""
    fits = given.dtype.kind in "fiu" and given.shape in ((), (count,))
    if not (fits and np.isfinite(given).all() and (given >= 0.0).all()):
        raise RookeryError(
            f"{path}: {name} must be a number from 0, or one for each of the {count} joints, got {given.tolist()!r:.60}."
        )
    return np.broadcast_to(given.astype(np.float64), (count,))
