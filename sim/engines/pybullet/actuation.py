"""MuJoCo's actuators and passive joint forces, computed in NumPy for the N worlds of the `pybullet` engine.

Force of an actuator: ``gain u + bias``, with u the control or the activation, gain and bias affine in the length and
velocity of its joint or fixed tendon; clamped to `forcerange`. A joint's actuator adds ``gear force`` to that joint; a
tendon's adds ``coef gear force`` to each of its joints; a site's adds the wrench ``gear force`` in the site's frame to that
body. (MuJoCo documentation, Computation: BulletActuation model.)

A `dcmotor` without states asks for the torque t = kp (u - l) + kd (0 - dl), drives the voltage (R / K) t + K dl, which ends
at +-Vmax, and gives K (voltage - K dl) / R. (MuJoCo documentation, XML reference: actuator/dcmotor, controller.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.sim.engines.pybullet.model import Plan, matrix, name_of
from rookery.sim.errors import RookeryError

_DYN = mujoco.mjtDyn
_GAIN = mujoco.mjtGain
_BIAS = mujoco.mjtBias
_TRN = mujoco.mjtTrn
_JOINTS = (int(_TRN.mjTRN_JOINT), int(_TRN.mjTRN_JOINTINPARENT))
_LINEAR = (*_JOINTS, int(_TRN.mjTRN_TENDON))  # length is a weighted sum of joint coordinates
_DYNAMICS = {int(d) for d in (_DYN.mjDYN_NONE, _DYN.mjDYN_INTEGRATOR, _DYN.mjDYN_FILTER, _DYN.mjDYN_FILTEREXACT)}

# columns of a dcmotor's gainprm (read off compiled models, and tested against mj_forward); the others belong to its states
_R = 0
_K = 1
_KP = 4
_KD = 6
_VMAX = 7
_STATES = (2, 3, 5, 8, 9)
_INPUT = mujoco.mjtCtrlInput
_INPUTS = tuple(int(i) for i in (_INPUT.mjINPUT_POS, _INPUT.mjINPUT_VEL, _INPUT.mjINPUT_FF))

_MAX_SUBSTEPS = 20


@dataclass
class SiteBody:
    """A body driven at sites: its place in the plan, which actuators drive it (`columns`), and the force and torque at
    its centre of mass, in its own frame, for one newton of each, by world (`wrench` [N, 6, len(columns)])."""

    body: int
    tree: int
    link: int
    columns: np.ndarray
    wrench: np.ndarray


@dataclass
class Arms:
    """Lengths that are weighted sums of joint coordinates: ``length [L, nq]`` and ``moment [L, nv]``."""

    length: np.ndarray
    moment: np.ndarray

    def measure(self, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths and their rates, [N, L] each."""
        return qpos @ self.length.T, qvel @ self.moment.T


@dataclass
class Springs:
    """Springs of joints, springs and dampers of tendons; all [S].

    Args:
        arms: what they pull at.
        stiffness, damping: N m/rad or N/m, and times s.
        low, high: lengths between which a spring is slack.
    """

    arms: Arms
    stiffness: np.ndarray
    damping: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def forces(self, qpos: np.ndarray, qvel: np.ndarray) -> NDArray[np.float64]:
        """Generalized forces [N, nv]."""
        length, velocity = self.arms.measure(qpos, qvel)
        pull = self.stiffness * (np.clip(length, self.low, self.high) - length) - self.damping * velocity
        out: NDArray[np.float64] = pull @ self.arms.moment
        return out


class BulletActuation:
    """The scene's actuators.

    Args:
        plan: the scene.
        num_envs: N.

    Attributes:
        act: [N, na] activations.
        force: [N, nu] forces of the last call.
        gain, bias: [N, nu] first gain and bias parameters, by world.
        kp, kd: [N, nu] gains of dcmotors' controllers, by world.
        force_range: [N, nu, 2] limits of those forces that have any, by world.
        sites: bodies driven at sites.
        feeds_back: forces depend on joint positions or velocities.
    """

    def __init__(self, plan: Plan, num_envs: int) -> None:
        self.model = model = plan.model
        _refuse_unknown(model)
        n, nu = num_envs, model.nu
        self.act = np.zeros((n, model.na))
        self.force = np.zeros((n, nu))
        parameters = model.actuator_gainprm
        self.bias = np.repeat(model.actuator_biasprm[None, :, 0], n, axis=0)
        self.gain, self.kp, self.kd = (np.repeat(parameters[None, :, c], n, axis=0) for c in (0, _KP, _KD))
        self.force_range = np.repeat(model.actuator_forcerange[None], n, axis=0)
        self._linear = np.flatnonzero(np.isin(model.actuator_trntype, _LINEAR))
        self._arms = _arms(model, [_terms_of_actuator(model, int(i)) for i in self._linear])
        self._affine_gain = (model.actuator_gaintype == _GAIN.mjGAIN_AFFINE)[self._linear]
        self._affine_bias = (model.actuator_biastype == _BIAS.mjBIAS_AFFINE)[self._linear]
        self._motors = np.flatnonzero(model.actuator_gaintype[self._linear] == _GAIN.mjGAIN_DCMOTOR)
        self._springs = _springs(model)
        affine = bool(self._affine_gain.any() or self._affine_bias.any())
        self.feeds_back = affine or bool(len(self._motors) or len(self._springs.stiffness))
        self.sites = _site_bodies(plan, n)

    def forces(self, control: np.ndarray, qpos: np.ndarray, qvel: np.ndarray, dt: float) -> np.ndarray:
        """Advance activations by dt and set `force`.

        Args:
            control: [N, nu].
            qpos, qvel: [N, nq], [N, nv]; only read where `feeds_back`.
            dt: s.

        Returns:
            Generalized forces of joints [N, nv], springs and dampers of tendons included; sites are not in them.
        """
        m = self.model
        limited = m.actuator_ctrllimited.astype(bool)
        u = np.where(limited, np.clip(control, m.actuator_ctrlrange[:, 0], m.actuator_ctrlrange[:, 1]), control)
        if m.na:
            u = self._activate(u, dt)
        gain = self.gain.copy()
        offset = np.where(m.actuator_biastype == _BIAS.mjBIAS_AFFINE, self.bias, 0.0)
        tau: NDArray[np.float64] = np.zeros((len(u), m.nv))
        at, length, velocity = self._linear, *self._arms.measure(qpos, qvel)
        if len(at):
            g, b = m.actuator_gainprm[at], m.actuator_biasprm[at]
            gain[:, at] += self._affine_gain * (g[:, 1] * length + g[:, 2] * velocity)
            offset[:, at] += self._affine_bias * (b[:, 1] * length + b[:, 2] * velocity)
        force = gain * u + offset
        if len(self._motors):
            k = self._motors
            force[:, at[k]] = self._motor_forces(u[:, at[k]], length[:, k], velocity[:, k])
        bounded = m.actuator_forcelimited.astype(bool)
        self.force = np.where(bounded, np.clip(force, self.force_range[..., 0], self.force_range[..., 1]), force)
        if len(at):
            tau += self.force[:, at] @ self._arms.moment
            for j in np.flatnonzero(m.jnt_actfrclimited):
                d = m.jnt_dofadr[j]
                tau[:, d] = np.clip(tau[:, d], *m.jnt_actfrcrange[j])
        if len(self._springs.stiffness):
            tau += self._springs.forces(qpos, qvel)
        return tau

    def _motor_forces(self, u: np.ndarray, length: np.ndarray, velocity: np.ndarray) -> np.ndarray:
        """[N, M] torques of the dcmotors; all arguments [N, M]."""
        m, i = self.model, self._linear[self._motors]
        spec = m.actuator_ctrlspec[i]
        constant = m.actuator_gainprm[i, _K]
        top = m.actuator_gainprm[i, _VMAX]
        pos, vel, ff = (u * (spec == kind) for kind in _INPUTS)  # what a motor is not told is zero
        wanted = self.kp[:, i] * (pos - length) + self.kd[:, i] * (vel - velocity) + ff
        resistance = self.gain[:, i]
        voltage = resistance / constant * wanted + constant * velocity
        voltage = np.where(top > 0, np.clip(voltage, -top, top), voltage)
        force: NDArray[np.float64] = constant * (voltage - constant * velocity) / resistance
        return force

    def place(self, world: int, com: np.ndarray) -> None:
        """Tell where the centres of mass of one world's bodies are: [nbody, 3] m, in their frames."""
        for s in self.sites:
            for c, actuator in enumerate(s.columns):
                s.wrench[world, :, c] = _site_wrench(self.model, int(actuator), com[s.body])

    def _activate(self, u: np.ndarray, dt: float) -> np.ndarray:
        """Controls with those of actuators that have a state replaced by it; the state then moves on, as in mj_step."""
        m = self.model
        out = u.copy()
        for i in np.flatnonzero(m.actuator_dyntype != _DYN.mjDYN_NONE):
            a = int(m.actuator_actadr[i])
            now = self.act[:, int(m.actuator_actadr[i])].copy()
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
    for i in range(len(model.actuator_trntype)):
        what = _unknown_force(model, i) or _unknown_transmission(model, i)
        if what:
            raise RookeryError(
                f"the engine 'pybullet' cannot drive actuator {name_of(model, 'actuator', i)!r}: it has {what}; "
                "use engine 'mujoco'."
            )


def _unknown_force(model: mujoco.MjModel, i: int) -> str:
    """The parts of an actuator's law of force that are not known here; empty for nothing."""
    dyn, gain, bias = (int(a[i]) for a in (model.actuator_dyntype, model.actuator_gaintype, model.actuator_biastype))
    if model.actuator_delay[i] or model.actuator_damping[i].any() or model.actuator_armature[i]:
        return "delay, damping or armature of its own"
    if dyn == _DYN.mjDYN_DCMOTOR:
        if model.actuator_actnum[i] or model.actuator_dynprm[i].any() or model.actuator_gainprm[i, _STATES].any():
            return "a dcmotor's inductance, heat, friction, integral, slew rate or another state"
        if model.actuator_biasprm[i].any():
            return "a dcmotor's cogging or friction"
        if int(model.actuator_ctrlspec[i]) not in _INPUTS:
            return "a dcmotor's input other than one of pos, vel, ff"
        return ""
    if dyn not in _DYNAMICS:
        return f"dynamics {mujoco.mjtDyn(dyn).name}"
    if gain not in (int(_GAIN.mjGAIN_FIXED), int(_GAIN.mjGAIN_AFFINE)):
        return f"gain {mujoco.mjtGain(gain).name}"
    if bias not in (int(_BIAS.mjBIAS_NONE), int(_BIAS.mjBIAS_AFFINE)):
        return f"bias {mujoco.mjtBias(bias).name}"
    return ""


def _unknown_transmission(model: mujoco.MjModel, i: int) -> str:
    """Likewise of what it pulls at."""
    transmission = int(model.actuator_trntype[i])
    target = int(model.actuator_trnid[i, 0])
    if transmission not in (*_LINEAR, int(_TRN.mjTRN_SITE)):
        return f"transmission {mujoco.mjtTrn(transmission).name}"
    if transmission in _JOINTS and model.jnt_type[target] == mujoco.mjtJoint.mjJNT_FREE:
        return "transmission to a free joint"
    if transmission == _TRN.mjTRN_SITE and model.actuator_trnid[i, 1] >= 0:
        return "reference site"
    if transmission == _TRN.mjTRN_SITE and _feeds_back(model, i):
        return "feedback of length or velocity at a site"
    return ""


def _feeds_back(model: mujoco.MjModel, i: int) -> bool:
    gain = model.actuator_gaintype[i] == _GAIN.mjGAIN_AFFINE and model.actuator_gainprm[i, 1:3].any()
    bias = model.actuator_biastype[i] == _BIAS.mjBIAS_AFFINE and model.actuator_biasprm[i, 1:3].any()
    return bool(gain or bias or model.actuator_gaintype[i] == _GAIN.mjGAIN_DCMOTOR)


def _terms_of_tendon(model: mujoco.MjModel, tendon: int) -> list[tuple[int, float]]:
    """Joint ids and coefficients of a fixed tendon."""
    at = slice(int(model.tendon_adr[tendon]), int(model.tendon_adr[tendon]) + int(model.tendon_num[tendon]))
    return [(int(j), float(c)) for j, c in zip(model.wrap_objid[at], model.wrap_prm[at], strict=True)]


def _terms_of_actuator(model: mujoco.MjModel, i: int) -> list[tuple[int, float]]:
    """Joint ids and weights that make up an actuator's length."""
    target = int(model.actuator_trnid[i, 0])
    gear = float(model.actuator_gear[i, 0])
    parts = [(target, 1.0)] if model.actuator_trntype[i] in _JOINTS else _terms_of_tendon(model, target)
    return [(j, gear * c) for j, c in parts]


def _arms(model: mujoco.MjModel, rows: list[list[tuple[int, float]]]) -> Arms:
    out = Arms(np.zeros((len(rows), model.nq)), np.zeros((len(rows), model.nv)))
    for r, terms in enumerate(rows):
        for joint, weight in terms:
            out.length[r, model.jnt_qposadr[joint]] += weight
            out.moment[r, model.jnt_dofadr[joint]] += weight
    return out


def _springs(model: mujoco.MjModel) -> Springs:
    joints = np.flatnonzero(model.jnt_stiffness > 0)
    tendons = np.flatnonzero((model.tendon_stiffness > 0) | (model.tendon_damping > 0))
    rows = [[(int(j), 1.0)] for j in joints] + [_terms_of_tendon(model, int(t)) for t in tendons]
    rest = model.qpos_spring[model.jnt_qposadr[joints]]
    slack = model.tendon_lengthspring[tendons].reshape(-1, 2)
    return Springs(
        _arms(model, rows),
        np.concatenate((model.jnt_stiffness[joints], model.tendon_stiffness[tendons])),
        np.concatenate((np.zeros(len(joints)), model.tendon_damping[tendons])),
        np.concatenate((rest, slack[:, 0])),
        np.concatenate((rest, slack[:, 1])),
    )


def _site_bodies(plan: Plan, num_envs: int) -> list[SiteBody]:
    model = plan.model
    by_body: dict[int, list[int]] = {}
    for i in np.flatnonzero(model.actuator_trntype == _TRN.mjTRN_SITE):
        by_body.setdefault(int(model.site_bodyid[model.actuator_trnid[i, 0]]), []).append(int(i))
    out = []
    for body, columns in by_body.items():
        if body in plan.at:  # others push at what cannot move
            wrench = np.stack([_site_wrench(model, i, model.body_ipos[body]) for i in columns], axis=1)
            out.append(SiteBody(body, *plan.at[body], np.array(columns), np.repeat(wrench[None], num_envs, axis=0)))
    return out


def _site_wrench(model: mujoco.MjModel, actuator: int, com: np.ndarray) -> NDArray[np.float64]:
    """Force and torque [6] at a centre of mass [3], in the body's frame, for one newton of an actuator at a site."""
    site = int(model.actuator_trnid[actuator, 0])
    turn = matrix(model.site_quat[site])
    gear = model.actuator_gear[actuator]
    force = turn @ gear[0:3]
    torque = turn @ gear[3:6]
    return np.concatenate((force, torque + np.cross(model.site_pos[site] - com, force)))


def substeps(model: mujoco.MjModel) -> int:
    """The number of Bullet steps that a physics step needs.

    Bullet takes joint torques as given at the start of a step, so a servo of stiffness k and damping c on an inertia I
    is stable only while dt c / I and dt sqrt(k / I) are small (here: 0.5); MuJoCo's implicit integrators bear more. What
    pulls at several joints couples them: the largest eigenvalues take the place of c / I and k / I.

    Raises:
        RookeryError: some joint would need more than 20.
    """
    if not model.nv:
        return 1
    springs = _springs(model)
    pulls = list(zip(springs.arms.moment, springs.stiffness, springs.damping, strict=True))
    for i in np.flatnonzero(np.isin(model.actuator_trntype, _LINEAR)):
        moment = _arms(model, [_terms_of_actuator(model, int(i))]).moment[0]
        g, b = model.actuator_gainprm[i], model.actuator_biasprm[i]
        if model.actuator_gaintype[i] == _GAIN.mjGAIN_DCMOTOR:  # at the end of its voltage its own back-EMF brakes it
            pulls.append((moment, g[_KP], max(g[_KD], g[_K] ** 2 / g[_R] if g[_VMAX] > 0 else 0.0)))
        elif model.actuator_biastype[i] == _BIAS.mjBIAS_AFFINE:
            pulls.append((moment, max(0.0, -b[1]), max(0.0, -b[2])))
    stiffness = np.zeros((model.nv, model.nv))
    damping = np.diag(model.dof_damping)
    for moment, k, c in pulls:
        stiffness += k * np.outer(moment, moment)
        damping += c * np.outer(moment, moment)
    root = np.sqrt(model.dof_invweight0)  # about 1 / sqrt(I)
    rates, modes = np.linalg.eigh(damping * np.outer(root, root))
    squares, swings = np.linalg.eigh(stiffness * np.outer(root, root))
    fastest, mode = max((rates[-1], modes[:, -1]), (math.sqrt(squares[-1]), swings[:, -1]), key=lambda x: float(x[0]))
    need = math.ceil(model.opt.timestep / 0.5 * fastest)
    if need > _MAX_SUBSTEPS:
        joint = name_of(model, "joint", int(model.dof_jntid[int(np.abs(mode).argmax())]))
        raise RookeryError(
            f"joint {joint!r} is too stiff for Bullet at dt={model.opt.timestep} s (it would need {need} steps for one): "
            "give its actuator less gain or its joint more armature."
        )
    return max(1, need)
