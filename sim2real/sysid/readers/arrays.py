"""NumPy's .npz: arrays [T] and [T, C] by our names, and `joints`, the names of the C."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
        kp, kd = (values.astype(float) + [0.0] * len(joints) for values in gains.values())
        found = {j: (float(p), float(d)) for j, p, d in zip(joints, kp, kd, strict=True)}
    rate = arrays.pop("rate", None)
    robot = arrays.pop("robot", None)
    columns = split(str(path), arrays, joints)
    if rate is not None and "time" not in columns:
        length = len(next(iter(columns.values())))
        columns["time"] = np.arange(length) / float(rate)
    return Table(str(path), columns, None if robot is None else str(robot), found)
