"""Mass, centre of mass and inertia of bodies, world by world, kept consistent with each other."""

from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np
import torch
from numpy.typing import NDArray

from rookery.sim.randomization.batch import Batch
from rookery.sim.world import World

FACTORS = ("mass", "inertia")
SHIFTS = ("com_x", "com_y", "com_z")


class BodyMass:
    """Writes what the mass of some bodies is and where it sits; a BatchWriter.

    A body is itself, with factors on its mass and inertia and a shifted centre of mass, and a load: a point mass, or a solid
    ball, at a fixed place on it. Mass, centre and inertia of both together follow by the parallel axis theorem (Huygens and
    Steiner), so every draw is a body that exists. "mass" alone leaves the inertia about the centre of mass as it is, as a mass
    there does; a negative load is mass that is missing there.

    Args:
        world: the engine's copies of the scene.
        bodies: names of B bodies.
        place: m, of the load, in the body's frame.
        radius: m, of the load; 0 is a point.
    """

    def __init__(
        self,
        world: World,
        bodies: Sequence[str],
        place: tuple[float, float, float] = (0.0, 0.0, 0.0),
        radius: float = 0.0,
    ) -> None:
        self._params = world.params
        self._bodies = list(bodies)
        model = world.model
        ids = [model.body(name).id for name in bodies]
        self._mass = model.body_mass[ids]
        self._com = model.body_ipos[ids]
        turn = np.zeros((len(ids), 9))
        for row, body in zip(turn, ids, strict=True):
            mujoco.mju_quat2Mat(row, model.body_iquat[body])
        self._axes = turn.reshape(-1, 3, 3)
        self._moments = model.body_inertia[ids]
        self._place = np.array(place)
        self._own = 0.4 * radius * radius
        n = world.num_envs
        self._now = {name: np.full(n, float(name in FACTORS)) for name in (*FACTORS, "load", *SHIFTS)}

    def write_batch(self, ids: NDArray[np.int64], values: Batch) -> None:
        for name, v in values.items():
            self._now[name][ids] = v
        now = {name: v[ids] for name, v in self._now.items()}
        where = torch.from_numpy(ids)
        body = now["mass"][:, None] * self._mass + now["load"][:, None].clip(max=0.0)
        load = now["load"][:, None].clip(min=0.0)
        total = body + load
        shift = np.stack([now[name] for name in SHIFTS], -1)
        com = self._com + shift[:, None]
        arm = self._place - com
        moments = now["inertia"][:, None, None] * self._moments
        if {"mass", "load"} & values.keys():
            self._set("mass", total, where)
        loaded = bool((now["load"] != 0.0).any()) or "load" in values
        if {*SHIFTS} & values.keys() or (loaded and {"mass", "load"} & values.keys()):
            self._set("com", com + (load / total)[..., None] * arm, where)
        if loaded:
            self._write_inertia(where, moments, load, body * load / total, arm)
        elif "inertia" in values:
            self._set("inertia", moments, where)

    def _write_inertia(
        self, ids: torch.Tensor, moments: np.ndarray, load: np.ndarray, mass: np.ndarray, arm: np.ndarray
    ) -> None:
        """Principal moments about the common centre: of both, and `mass` (reduced) times what the distance `arm` adds."""
        apart = (arm * arm).sum(-1)[..., None, None] * np.eye(3) - arm[..., :, None] * arm[..., None, :]
        whole = np.einsum("bij,nbj,bkj->nbik", self._axes, moments, self._axes)
        whole += mass[..., None, None] * apart + (self._own * load)[..., None, None] * np.eye(3)
        if self._params.supports("inertia_axes"):
            moments, axes = np.linalg.eigh(whole)
            self._set("inertia_axes", _quaternions(axes), ids)
        else:  # about the scene's own axes
            moments = np.einsum("bji,nbjk,bki->nbi", self._axes, whole, self._axes)
        self._set("inertia", moments, ids)

    def _set(self, field: str, values: np.ndarray, ids: torch.Tensor) -> None:
        self._params.set(field, self._bodies, torch.from_numpy(values), ids)


def _quaternions(axes: np.ndarray) -> np.ndarray:
    """[..., 4] wxyz of principal axes [..., 3, 3], columns, whose signs do not matter."""
    axes = axes * np.where(np.linalg.det(axes) < 0.0, -1.0, 1.0)[..., None, None]
    out = np.empty((*axes.shape[:-2], 4))
    for quat, turn in zip(out.reshape(-1, 4), axes.reshape(-1, 9), strict=True):
        mujoco.mju_mat2Quat(quat, turn)
    return out
