"""Counts of contact points between parts of a scene: links that meet the floor, an arm that meets its own robot.

For each pair of parts the MuJoCo model has a contact sensor, which `mujoco` reads in every physics step; to other engines it
names the parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.random_kernels import kernel

WORLD = "world"
"""The part that is all geoms of the world itself, such as the floor; bodies that are fixed to it are parts of their own."""
Pair = tuple[str, str]
"""Two parts: each WORLD, "geom:NAME", "body:NAME", a body and all that hangs on it, or likewise the body of "joint:NAME" or
"site:NAME". One body twice: contacts of its links with each other."""

_OBJ = mujoco.mjtObj


@dataclass(frozen=True)
class Count:
    """Contact points of all `pairs`, less those of the pairs `but`."""

    pairs: tuple[Pair, ...]
    but: tuple[Pair, ...] = ()


def add_counters(spec: mujoco.MjSpec, counts: Mapping[str, Count]) -> None:
    """A contact sensor for each pair of each count.

    Raises:
        RookeryError: a part is unknown.
    """
    for name, count in counts.items():
        for i, pair in enumerate((*count.pairs, *count.but)):
            (first, one), (second, other) = (_part(spec, part) for part in pair)
            sensor = spec.add_sensor(
                name=counter_name(name, i), type=mujoco.mjtSensor.mjSENS_CONTACT,
                objtype=first, objname=one, reftype=second, refname=other,
            )  # fmt: skip
            sensor.intprm = [1 << int(mujoco.mjtConDataField.mjCONDATA_FOUND), 0, 1]


def counter_name(count: str, i: int) -> str:
    """Sensor of the i-th pair of a count."""
    return f"contacts:{count}:{i}"


def _part(spec: mujoco.MjSpec, part: str) -> tuple[mujoco.mjtObj, str]:
    if part == WORLD:
        return _OBJ.mjOBJ_BODY, spec.worldbody.name
    kind, _, name = part.partition(":")
    known = {"body": spec.bodies, "geom": spec.geoms, "joint": spec.joints, "site": spec.sites}
    if kind not in known:
        raise RookeryError(
            f"{part!r} is no part of a scene: give {WORLD!r}, or one of {', '.join(f'{k}:NAME' for k in known)}."
        )
    found = next((x for x in known[kind] if x.name == name), None)
    if found is None:
        raise unknown(kind, name, [x.name for x in known[kind] if x.name])
    if kind == "geom":
        return _OBJ.mjOBJ_GEOM, name
    return _OBJ.mjOBJ_XBODY, name if kind == "body" else found.parent.name


class ContactCounts:
    """The largest counts of the physics steps of a control step, for C counts in N worlds.

    Attributes:
        most: [N, C].
    """

    def __init__(self, model: mujoco.MjModel, counts: Mapping[str, Count], num_envs: int) -> None:
        self.names = tuple(counts)
        self.sensors = [
            int(model.sensor(counter_name(name, i)).id)
            for name, count in counts.items()
            for i in range(len(count.pairs) + len(count.but))
        ]
        self.signs = np.zeros((len(self.sensors), len(counts)))
        row = 0
        for column, count in enumerate(counts.values()):
            for sign, pairs in ((1.0, count.pairs), (-1.0, count.but)):
                self.signs[row : row + len(pairs), column] = sign
                row += len(pairs)
        self._all = np.arange(len(self.sensors))
        self.most = torch.zeros(num_envs, len(counts))
        self._most = self.most.numpy()

    def clear(self, rows: slice | Tensor = slice(None)) -> None:
        """Forget all contacts of some worlds."""
        self.most[rows] = 0.0

    def add(self, found: np.ndarray, columns: np.ndarray | None = None) -> None:
        """Take in the contact points [N, k, P] of k physics steps: of each pair, or where `columns` [pairs] say."""
        raise_counts(found, self._all if columns is None else columns, self.signs, self._most)

    def view(self, name: str) -> Tensor:
        """[N] of one count, kept up to date.

        Raises:
            RookeryError: there is none of that name.
        """
        if name not in self.names:
            raise RookeryError(
                f"contacts {name!r} are not counted: call scene.count_contacts({name!r}, ...) in the task's scene()."
            )
        return self.most[:, self.names.index(name)]


class CounterReader(ContactCounts):
    """Reads the counters of a MuJoCo model out of all its sensors' readings."""

    def __init__(self, model: mujoco.MjModel, counts: Mapping[str, Count], num_envs: int) -> None:
        super().__init__(model, counts, num_envs)
        self._columns = model.sensor_adr[self.sensors].astype(np.int64)

    def take(self, readings: np.ndarray) -> None:
        """Take in readings [N, k, nsensordata] of k physics steps."""
        self.add(readings, self._columns)


@kernel
def raise_counts(found, columns, signs, most):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Raise counts to the largest ones of some physics steps.

    Args:
        found: [N, k, P] contact points by pair. columns: [p] int64 of those that count.
        signs: [p, C] by which they count. most: [N, C], raised.
    """
    for n in range(found.shape[0]):
        for c in range(most.shape[1]):
            largest = 0.0
            for k in range(found.shape[1]):
                total = 0.0
                for i in range(len(columns)):
                    total += signs[i, c] * found[n, k, columns[i]]
                largest = max(largest, total)
            if largest > most[n, c]:
                most[n, c] = largest


def members(model: mujoco.MjModel, kind: int, obj: int) -> np.ndarray:
    """[ngeom] bool: the geoms of one side of a contact sensor."""
    if kind == _OBJ.mjOBJ_GEOM:
        return np.asarray(np.arange(model.ngeom) == obj)
    if kind == _OBJ.mjOBJ_BODY:
        return np.asarray(model.geom_bodyid == obj)
    inside = np.zeros(model.nbody, dtype=bool)
    inside[obj] = True
    for body in range(obj + 1, model.nbody):  # parents come first
        inside[body] = inside[model.body_parentid[body]]
    return np.asarray(inside[model.geom_bodyid])
