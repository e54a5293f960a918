"""Per-world physical parameters of the `pybullet` engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.sim.engines.mujoco.views import object_ids
from rookery.sim.engines.pybullet.build import Constants
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.world import Ids, Params

if TYPE_CHECKING:
    from rookery.sim.engines.pybullet.world import PyBulletWorld

_OBJ = mujoco.mjtObj
_KINDS = {
    "mass": (_OBJ.mjOBJ_BODY, "body"),
    "inertia": (_OBJ.mjOBJ_BODY, "body"),
    "friction": (_OBJ.mjOBJ_GEOM, "geom"),
    "height": (_OBJ.mjOBJ_GEOM, "geom"),
    "gravity": (None, ""),
    "damping": (_OBJ.mjOBJ_JOINT, "joint"),
    "armature": (_OBJ.mjOBJ_JOINT, "joint"),
    "frictionloss": (_OBJ.mjOBJ_JOINT, "joint"),
    "gain": (_OBJ.mjOBJ_ACTUATOR, "actuator"),
    "bias": (_OBJ.mjOBJ_ACTUATOR, "actuator"),
    "com": (_OBJ.mjOBJ_BODY, "body"),
    "kp": (_OBJ.mjOBJ_ACTUATOR, "actuator"),
    "kd": (_OBJ.mjOBJ_ACTUATOR, "actuator"),
    "force_range": (_OBJ.mjOBJ_ACTUATOR, "actuator"),
}
_BUILT_IN = ("mass", "inertia", "friction", "gravity", "damping", "armature", "frictionloss", "com", "height")
_LIVE = ("gain", "bias", "gravity", "kp", "kd", "force_range")  # written without building anew


class PyBulletParams(Params):
    """See Params. A write that Bullet's bodies depend on rebuilds that world, in its present state, before it steps on.

    Bullet keeps friction by link: geoms of one body that share their contact parameters in the scene must keep sharing
    them.
    """

    def __init__(self, world: PyBulletWorld) -> None:
        self._world = world
        model = world.model
        n = world.num_envs

        def copies(a: np.ndarray) -> np.ndarray:
            return np.repeat(np.asarray(a, dtype=np.float64)[None], n, axis=0)

        self.arrays = {
            "mass": copies(model.body_mass),
            "inertia": copies(model.body_inertia),
            "friction": copies(model.geom_friction),
            "gravity": copies(model.opt.gravity),
            "damping": copies(model.dof_damping),
            "armature": copies(model.dof_armature),
            "frictionloss": copies(model.dof_frictionloss),
            "com": copies(model.body_ipos),
            "height": copies(model.geom_pos[:, 2]),
            **{name: getattr(world.actuation, name) for name in ("gain", "bias", "kp", "kd", "force_range")},
        }
        self._nominal = {name: a[0].copy() for name, a in self.arrays.items()}
        self.stale = np.zeros(n, dtype=bool)

    @property
    def fields(self) -> dict[str, np.ndarray]:
        """[N, ...] what `FreeBodies.set_constants` takes, by the names of MjModel's fields."""
        names = {"body_mass": "mass", "body_inertia": "inertia", "geom_friction": "friction", "opt.gravity": "gravity"}
        places = np.repeat(self._world.model.geom_pos[None], len(self.stale), axis=0)
        places[:, :, 2] = self.arrays["height"]
        return {"geom_pos": places} | {field: self.arrays[name] for field, name in names.items()}

    def constants(self, i: int) -> Constants:
        """World i's parameters."""
        a = self.arrays
        return Constants(**{name: a[name][i] for name in _BUILT_IN})

    def _index(self, field: str, names: Sequence[str]) -> np.ndarray:
        if field not in _KINDS:
            raise unknown("parameter field", field, _KINDS)
        kind, what = _KINDS[field]
        if kind is None:
            return np.arange(3)
        ids = np.array(object_ids(self._world.model, kind, what, names), dtype=int)
        return self._world.model.jnt_dofadr[ids] if what == "joint" else ids

    def supports(self, field: str) -> bool:
        return field in _KINDS

    def get(self, field: str, names: Sequence[str] = ()) -> Tensor:
        index = self._index(field, names)
        return torch.from_numpy(self.arrays[field][:, index].astype(np.float32))

    def nominal(self, field: str, names: Sequence[str] = ()) -> Tensor:
        index = self._index(field, names)
        return torch.from_numpy(self._nominal[field][index].astype(np.float32))

    def set(self, field: str, names: Sequence[str], values: Tensor, ids: Ids = None) -> None:
        index = self._index(field, names)
        rows = np.arange(self._world.num_envs) if ids is None else ids.cpu().numpy()
        self.arrays[field][rows[:, None], index] = values.detach().cpu().numpy().astype(np.float64)
        if field == "friction":
            self._check_friction(rows)
        if field == "gravity":
            self._world.set_gravity(rows)
        elif field not in _LIVE:
            self.stale[rows] = True

    def _check_friction(self, rows: np.ndarray) -> None:
        for collider in self._world.plan.colliders:
            values = self.arrays["friction"][np.ix_(rows, np.array(collider.geoms))]
            if (values != values[:, :1]).any():
                body = mujoco.mj_id2name(self._world.model, _OBJ.mjOBJ_BODY, collider.body) or "the world"
                raise RookeryError(
                    "PyBullet keeps one friction for like geoms of a body: write all "
                    f"{len(collider.geoms)} of {body!r} alike."
                )
