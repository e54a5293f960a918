"""MuJoCo's actuators and passive joint forces, computed in NumPy for the N worlds of the `pybullet` engine.

Force of an actuator: ``gain u + bias``, with u the control or the activation, gain and bias affine in the length and
velocity of its joint; clamped to `forcerange`. A joint's actuator adds ``gear force`` to that joint; a site's adds the
wrench ``gear force`` in the site's frame to that body. (MuJoCo documentation, Computation: Actuation model.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.pybullet_model import Plan, matrix, name_of

_DYN, _GAIN, _BIAS, _TRN = mujoco.mjtDyn, mujoco.mjtGain, mujoco.mjtBias, mujoco.mjtTrn
_JOINTS = (int(_TRN.mjTRN_JOINT), int(_TRN.mjTRN_JOINTINPARENT))
_DYNAMICS = {int(d) for d in (_DYN.mjDYN_NONE, _DYN.mjDYN_INTEGRATOR, _DYN.mjDYN_FILTER, _DYN.mjDYN_FILTEREXACT)}

_MAX_SUBSTEPS = 20


@dataclass
class SiteBody:
    """A body driven at sites: its place in the plan, which actuators drive it (`columns`), and the force and torque at
    its centre of mass, in its own frame, for one newton of each (`wrench` [6, len(columns)])."""

    body: int
    tree: int
    link: int
    columns: np.ndarray
    wrench: np.ndarray


class Actuation:
    """The scene's actuators.

    Args:
        plan: the scene.
        num_envs: N.

    Attributes:
        act: [N, na] activations.
        force: [N, nu] forces of the last call.
        gain, bias: [N, nu] first gain and bias parameters, by world.
        sites: bodies driven at sites.
        feeds_back: forces depend on joint positions or velocities.
    """

    def __init__(self, plan: Plan, num_envs: int) -> None:
        self.model = model = plan.model
        _refuse_unknown(model)
        n, nu = num_envs, model.nu
        self.act, self.force = np.zeros((n, model.na)), np.zeros((n, nu))
        self.gain = np.repeat(model.actuator_gainprm[None, :, 0], n, axis=0)
        self.bias = np.repeat(model.actuator_biasprm[None, :, 0], n, axis=0)
        self._joints = np.flatnonzero(np.isin(model.actuator_trntype, _JOINTS))
        driven = model.actuator_trnid[self._joints, 0]
        self._qadr, self._vadr = model.jnt_qposadr[driven], model.jnt_dofadr[driven]
        self._gear = model.actuator_gear[self._joints, 0]
        self._affine_gain = (model.actuator_gaintype == _GAIN.mjGAIN_AFFINE)[self._joints]
        self._affine_bias = (model.actuator_biastype == _BIAS.mjBIAS_AFFINE)[self._joints]
        self._springs = np.flatnonzero(model.jnt_stiffness > 0)
        self.feeds_back = bool(self._affine_gain.any() or self._affine_bias.any() or len(self._springs))
        self.sites = _site_bodies(plan)

    def forces(self, control: np.ndarray, qpos: np.ndarray, qvel: np.ndarray, dt: float) -> np.ndarray:
        """Advance activations by dt and set `force`.

        Args:
            control: [N, nu].
            qpos, qvel: [N, nq], [N, nv]; only read where `feeds_back`.
            dt: s.

        Returns:
            Generalised forces of joints [N, nv], springs included; sites are not in them.
        """
        m = self.model
        limited = m.actuator_ctrllimited.astype(bool)
        u = np.where(limited, np.clip(control, m.actuator_ctrlrange[:, 0], m.actuator_ctrlrange[:, 1]), control)
        if m.na:
            u = self._activate(u, dt)
        gain, offset = self.gain.copy(), np.where(m.actuator_biastype == _BIAS.mjBIAS_AFFINE, self.bias, 0.0)
        tau: NDArray[np.float64] = np.zeros((len(u), m.nv))
        if len(self._joints):
            length, velocity = qpos[:, self._qadr] * self._gear, qvel[:, self._vadr] * self._gear
            g, b = m.actuator_gainprm[self._joints], m.actuator_biasprm[self._joints]
            gain[:, self._joints] += self._affine_gain * (g[:, 1] * length + g[:, 2] * velocity)
            offset[:, self._joints] += self._affine_bias * (b[:, 1] * length + b[:, 2] * velocity)
        force = gain * u + offset
        bounded, (low, high) = m.actuator_forcelimited.astype(bool), m.actuator_forcerange.T
        self.force = np.where(bounded, np.clip(force, low, high), force)
        if len(self._joints):
            for c, d in enumerate(self._vadr):  # several actuators may drive one joint
                tau[:, d] += self.force[:, self._joints[c]] * self._gear[c]
            for j in np.flatnonzero(m.jnt_actfrclimited):
                d = m.jnt_dofadr[j]
                tau[:, d] = np.clip(tau[:, d], *m.jnt_actfrcrange[j])
        for j in self._springs:
            adr = m.jnt_qposadr[j]
            tau[:, m.jnt_dofadr[j]] -= m.jnt_stiffness[j] * (qpos[:, adr] - m.qpos_spring[adr])
        return tau

    def _activate(self, u: np.ndarray, dt: float) -> np.ndarray:
        """Controls with those of actuators that have a state replaced by it; the state then moves on, as in mj_step."""
        m, out = self.model, u.copy()
        for i in np.flatnonzero(m.actuator_dyntype != _DYN.mjDYN_NONE):
            a, now = int(m.actuator_actadr[i]), self.act[:, int(m.actuator_actadr[i])].copy()
            tau = max(float(m.actuator_dynprm[i, 0]), 1e-9)
            if m.actuator_dyntype[i] == _DYN.mjDYN_INTEGRATOR:
                after = now + dt * u[:, i]
            elif m.actuator_dyntype[i] == _DYN.mjDYN_FILTER:
                after = now + dt * (u[:, i] - now) / tau
            else:
                after = now + (u[:, i] - now) * (1.0 - math.exp(-dt / tau))
            if m.actuator_actlimited[i]:
                after = np.clip(after, *m.actuator_actrange[i])
            self.act[:, a] = after
            out[:, i] = after if m.actuator_actearly[i] else now
        return out


def _refuse_unknown(model: mujoco.MjModel) -> None:
    for i in range(model.nu):
        dyn, gain, bias = (
            int(a[i]) for a in (model.actuator_dyntype, model.actuator_gaintype, model.actuator_biastype)
        )
        transmission, target = int(model.actuator_trntype[i]), int(model.actuator_trnid[i, 0])
        what = ""
        if dyn not in _DYNAMICS:
            what = f"dynamics {mujoco.mjtDyn(dyn).name}"
        elif gain not in (int(_GAIN.mjGAIN_FIXED), int(_GAIN.mjGAIN_AFFINE)):
            what = f"gain {mujoco.mjtGain(gain).name}"
        elif bias not in (int(_BIAS.mjBIAS_NONE), int(_BIAS.mjBIAS_AFFINE)):
            what = f"bias {mujoco.mjtBias(bias).name}"
        elif transmission not in (*_JOINTS, int(_TRN.mjTRN_SITE)):
            what = f"transmission {mujoco.mjtTrn(transmission).name}"
        elif transmission in _JOINTS and model.jnt_type[target] == mujoco.mjtJoint.mjJNT_FREE:
            what = "transmission to a free joint"
        elif transmission == _TRN.mjTRN_SITE and model.actuator_trnid[i, 1] >= 0:
            what = "reference site"
        elif transmission == _TRN.mjTRN_SITE and _feeds_back(model, i):
            what = "feedback of length or velocity at a site"
        elif model.actuator_delay[i] or model.actuator_damping[i].any() or model.actuator_armature[i]:
            what = "delay, damping or armature of its own"
        if what:
            raise RookeryError(
                f"the engine 'pybullet' cannot drive actuator {name_of(model, 'actuator', i)!r}: it has {what}; "
                "use engine 'mujoco'."
            )


def _feeds_back(model: mujoco.MjModel, i: int) -> bool:
    gain = model.actuator_gaintype[i] == _GAIN.mjGAIN_AFFINE and model.actuator_gainprm[i, 1:3].any()
    bias = model.actuator_biastype[i] == _BIAS.mjBIAS_AFFINE and model.actuator_biasprm[i, 1:3].any()
    return bool(gain or bias)


def _site_bodies(plan: Plan) -> list[SiteBody]:
    model = plan.model
    by_body: dict[int, list[int]] = {}
    for i in np.flatnonzero(model.actuator_trntype == _TRN.mjTRN_SITE):
        by_body.setdefault(int(model.site_bodyid[model.actuator_trnid[i, 0]]), []).append(int(i))
    out = []
    for body, columns in by_body.items():
        if body not in plan.at:
            continue  # pushes at what cannot move
        wrench: NDArray[np.float64] = np.zeros((6, len(columns)))
        for c, actuator in enumerate(columns):
            site = int(model.actuator_trnid[actuator, 0])
            turn = matrix(model.site_quat[site])
            gear = model.actuator_gear[actuator]
            force, torque = turn @ gear[0:3], turn @ gear[3:6]
            wrench[0:3, c] = force
            wrench[3:6, c] = torque + np.cross(model.site_pos[site] - model.body_ipos[body], force)
        out.append(SiteBody(body, *plan.at[body], np.array(columns), wrench))
    return out


def substeps(model: mujoco.MjModel) -> int:
    """How many Bullet steps a physics step needs.

    Bullet takes joint torques as given at the start of a step, so a servo of stiffness k and damping c on an inertia I
    is stable only while dt c / I and dt sqrt(k / I) are small (here: 0.5); MuJoCo's implicit integrators bear more.

    Raises:
        RookeryError: some joint would need more than 20.
    """
    stiffness, damping = np.zeros(model.nv), model.dof_damping.copy()
    for j in range(model.njnt):
        stiffness[model.jnt_dofadr[j]] += model.jnt_stiffness[j]
    for i in range(model.nu):
        if model.actuator_trntype[i] in _JOINTS and model.actuator_biastype[i] == _BIAS.mjBIAS_AFFINE:
            d, gear = model.jnt_dofadr[model.actuator_trnid[i, 0]], float(model.actuator_gear[i, 0])
            stiffness[d] += max(0.0, -model.actuator_biasprm[i, 1]) * gear**2
            damping[d] += max(0.0, -model.actuator_biasprm[i, 2]) * gear**2
    inverse = model.dof_invweight0  # about 1 / I
    need = model.opt.timestep / 0.5 * np.maximum(damping * inverse, np.sqrt(stiffness * inverse))
    if not len(need) or need.max() <= 1.0:
        return 1
    if need.max() > _MAX_SUBSTEPS:
        joint = name_of(model, "joint", int(model.dof_jntid[int(need.argmax())]))
        raise RookeryError(
            f"joint {joint!r} is too stiff for Bullet at dt={model.opt.timestep} s (it would need "
            f"{int(np.ceil(need.max()))} steps for one): give its actuator less gain or its joint more armature."
        )
    return int(np.ceil(need.max()))
