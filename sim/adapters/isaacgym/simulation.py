"""Isaac Gym's tensor API over a World: `gymapi`'s names, shapes and order of values, for subclasses of VecTask.

Isaac Gym's conventions hold in these tensors, not Rookery's: quaternions x, y, z, w, and angular velocities in world axes.

A tensor that `acquire_...` gives is one object for good: `refresh_...` writes the state of the world into it, and
`set_...` writes the world from the tensor that it is given. Rows are ordered by environment, then by actor, body or
degree of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import mujoco
import torch
from torch import Tensor

from rookery.assets.near_names import nearest
from rookery.sim.adapters.isaacgym.checks import chosen_indices, require_finite, rows_of
from rookery.sim.engines import make_world
from rookery.sim.errors import RookeryError
from rookery.sim.rotations import matrix
from rookery.sim.scene import Scene, SpecFactory

ONE_AXIS = (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class MissingFunction(RookeryError, AttributeError):
    """A function of Isaac Gym that has no counterpart here."""


@dataclass
class SimParams:
    """``cfg["sim"]``: dt in s of one simulation step, its number of physics steps, gravity in m/s^2, engine of Rookery."""

    dt: float = 1.0 / 60.0
    substeps: int = 2
    gravity: tuple[float, float, float] = (0.0, 0.0, -9.81)
    up_axis: str = "z"
    engine: str = "mujoco"

    @staticmethod
    def read(section: dict[str, Any]) -> SimParams:
        """The known values of a config's section "sim"; others, such as "physx", have no meaning here.

        Raises:
            RookeryError: a value that no simulation can have.
        """
        out = SimParams()
        try:
            out.dt = float(section.get("dt", out.dt))
            out.substeps = int(section.get("substeps", out.substeps))
            x, y, z = (float(v) for v in section.get("gravity", out.gravity))
        except (TypeError, ValueError) as e:
            raise RookeryError(f'cfg["sim"] must have numbers dt and substeps and three of gravity: {e}.') from e
        out.gravity = (x, y, z)
        out.up_axis = str(section.get("up_axis", out.up_axis))
        out.engine = str(section.get("engine", out.engine))
        if out.dt <= 0 or out.substeps < 1 or out.up_axis != "z":
            raise RookeryError(
                f'cfg["sim"] must have dt > 0, substeps >= 1 and up_axis "z", got {out.dt}, {out.substeps} and {out.up_axis!r}.'
            )
        return out


class Simulation:
    """N copies of a scene, and the tensors of their state.

    Args:
        scene: what is simulated; its physics step becomes ``dt / substeps``.
        num_envs: N.
        params: dt, substeps, gravity and engine.

    Attributes:
        world: the World, for everything that Isaac Gym has no function for.
        failed: [N] bool, copies whose physics diverged since the task cleared it; they are back at the initial state.
        drives: the actuators by degree of freedom.
        dof_names, body_names, actor_names: of the D hinges and slides, the B bodies and the A bodies that stand in the world.

    Raises:
        RookeryError: the scene does not compile.
    """

    def __init__(self, scene: Scene, num_envs: int, params: SimParams) -> None:
        scene.dt = params.dt / params.substeps
        scene.base = None if scene.base is None else _named(scene.base)
        scene.placements = [replace(p, make=_named(p.make)) for p in scene.placements]
        self.params = params
        self.num_envs = num_envs
        self.world = make_world(params.engine, scene, num_envs)
        model = self.world.model
        self.dof_names = tuple(model.joint(j).name for j in range(model.njnt) if int(model.jnt_type[j]) in ONE_AXIS)
        self.body_names = tuple(model.body(b).name for b in range(1, model.nbody))
        self.actor_names = tuple(model.body(b).name for b in range(1, model.nbody) if model.body_parentid[b] == 0)
        sensors = _force_sensors(model)
        self.sensor_names = tuple(sensors)
        self.sensors = [[self.world.sensors(n) if n else None for n in pair] for pair in sensors.values()]
        if tuple(model.opt.gravity) != params.gravity:
            self.world.params.set("gravity", (), torch.tensor(params.gravity).expand(num_envs, 3))
        self.joints = self.world.joints(self.dof_names) if self.dof_names else None
        self.bodies = self.world.bodies(self.body_names)
        self.actors = [self.world.bodies([name]) for name in self.actor_names]
        self.drives = JointDrives(self)
        self.failed = torch.zeros(num_envs, dtype=torch.bool)
        self._wrench_held = False
        n = num_envs
        self.dof_state = torch.zeros(n * len(self.dof_names), 2)
        self.root_states = torch.zeros(n * len(self.actor_names), 13)
        self.rigid_body_states = torch.zeros(n * len(self.body_names), 13)
        self.force_sensors = torch.zeros(n * len(self.sensor_names), 6)
        self.dof_forces = torch.zeros(n * len(self.dof_names))
        self.world.forward()

    def simulate(self) -> None:
        """Advance all copies by dt."""
        self.world.step(self.params.substeps)
        self.failed[self.world.failed] = True
        if self._wrench_held:  # Isaac Gym applies forces in one simulation step
            self.bodies.set_wrench(torch.zeros(self.num_envs, len(self.body_names), 6))
            self._wrench_held = False

    def push(self, wrench: Tensor) -> None:
        """Forces and torques [N, B, 6] in world axes at the centres of mass, in the next simulation step."""
        self.bodies.set_wrench(wrench)
        self._wrench_held = True

    def close(self) -> None:
        """Free the engine."""
        self.world.close()


class JointDrives:
    """The actuator of each degree of freedom: what to write for a force or for a target."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        model = sim.world.model
        joint = int(mujoco.mjtTrn.mjTRN_JOINT)
        by_joint: dict[int, int] = {}
        for u in range(model.nu):
            if int(model.actuator_trntype[u]) != joint:
                continue
            j = int(model.actuator_trnid[u, 0])
            if j in by_joint:
                raise RookeryError(
                    f"joint {model.joint(j).name!r} has two actuators: keep one; `kv` of a <position> damps it."
                )
            by_joint[j] = u
        names = {name: by_joint[model.joint(name).id] for name in sim.dof_names if model.joint(name).id in by_joint}
        self.dofs = [i for i, name in enumerate(sim.dof_names) if name in names]
        ids = [names[sim.dof_names[i]] for i in self.dofs]
        self._view = sim.world.actuators([model.actuator(u).name for u in ids]) if ids else None
        self._gear = torch.tensor([float(model.actuator_gear[u, 0]) for u in ids])
        gain = torch.tensor([float(model.actuator_gainprm[u, 0]) for u in ids])
        self._motors = [int(model.actuator_biastype[u]) == int(mujoco.mjtBias.mjBIAS_NONE) for u in ids]
        self._per_force = self._gear * gain
        self._control = torch.zeros(sim.num_envs, len(ids))

    def _write(self, what: str, motors: bool, values: Tensor, factor: Tensor) -> None:
        """Write the drives of one kind, times `factor`; those of the other kind keep what they hold."""
        fit = [k for k, m in enumerate(self._motors) if m == motors]
        if not fit:
            kind = "motor" if motors else "position or velocity"
            raise RookeryError(
                f"{what} needs {kind} actuators on the degrees of freedom, and there are none: change the MJCF."
            )
        by_env = rows_of(what, values, self._sim.num_envs, len(self._sim.dof_names))
        require_finite(what, by_env[:, self.dofs])
        self._control[:, fit] = (by_env[:, self.dofs] * factor)[:, fit]
        assert self._view is not None
        self._view.set_control(self._control)

    def set_force(self, values: Tensor) -> None:
        """[N * D] N m or N by motors; those of degrees of freedom without one are not read."""
        self._write("set_dof_actuation_force_tensor", True, values, 1.0 / self._per_force)

    def set_target(self, values: Tensor) -> None:
        """[N * D] rad or m (or rad/s, m/s), the targets of servos; gears are taken into account."""
        self._write("set_dof_position_target_tensor", False, values, self._gear)

    def force(self) -> Tensor:
        """[N, D] N m or N that the actuators gave in the last physics step."""
        out = torch.zeros(self._sim.num_envs, len(self._sim.dof_names))
        if self._view is not None:
            out[:, self.dofs] = self._view.force * self._gear
        return out


class TensorApi:
    """The functions of Isaac Gym's `gym` object that read and write tensors, and `simulate`.

    Assets, environments and actors are not made by functions: `VecTask.create_sim` takes a Scene.
    """

    def __getattr__(self, name: str) -> Any:
        known = sorted(n for n in dir(type(self)) if not n.startswith("_"))
        near = nearest(name, known)
        hint = f"did you mean {near!r}? " if near else ""
        raise MissingFunction(
            f"gym.{name} has no counterpart here: {hint}create_sim takes a Scene in place of assets and actors, "
            f"`self.sim.world` "
            f"gives the rest, and there are {', '.join(known)}."
        )

    def prepare_sim(self, sim: Simulation) -> bool:
        """Nothing is left to do."""
        return True

    def simulate(self, sim: Simulation) -> None:
        """Advance by dt."""
        sim.simulate()

    def fetch_results(self, sim: Simulation, wait: bool = True) -> None:
        """Nothing is left to do: `simulate` waits."""

    def acquire_dof_state_tensor(self, sim: Simulation) -> Tensor:
        """[N * D, 2] rad or m, and rad/s or m/s."""
        self.refresh_dof_state_tensor(sim)
        return sim.dof_state

    def acquire_actor_root_state_tensor(self, sim: Simulation) -> Tensor:
        """[N * A, 13] position 3 m, quaternion xyzw, velocity 3 m/s, angular velocity 3 rad/s, all in world axes."""
        self.refresh_actor_root_state_tensor(sim)
        return sim.root_states

    def acquire_rigid_body_state_tensor(self, sim: Simulation) -> Tensor:
        """[N * B, 13], as the states of actors."""
        self.refresh_rigid_body_state_tensor(sim)
        return sim.rigid_body_states

    def acquire_force_sensor_tensor(self, sim: Simulation) -> Tensor:
        """[N * S, 6] force 3 N and torque 3 N m in the axes of the sites that have MJCF sensors `force` or `torque`."""
        self.refresh_force_sensor_tensor(sim)
        return sim.force_sensors

    def acquire_dof_force_tensor(self, sim: Simulation) -> Tensor:
        """[N * D] N m or N of the actuators."""
        self.refresh_dof_force_tensor(sim)
        return sim.dof_forces

    def refresh_dof_state_tensor(self, sim: Simulation) -> None:
        """Read positions and velocities."""
        if sim.joints is not None:
            sim.dof_state[:, 0] = sim.joints.pos.flatten()
            sim.dof_state[:, 1] = sim.joints.vel.flatten()

    def refresh_actor_root_state_tensor(self, sim: Simulation) -> None:
        """Read the states of the bodies that stand in the world."""
        states = torch.stack([a.state[:, 0] for a in sim.actors], dim=1)
        sim.root_states.copy_(to_isaac(states.flatten(0, 1)))

    def refresh_rigid_body_state_tensor(self, sim: Simulation) -> None:
        """Read the states of all bodies."""
        sim.rigid_body_states.copy_(to_isaac(sim.bodies.state.flatten(0, 1)))

    def refresh_force_sensor_tensor(self, sim: Simulation) -> None:
        """Read the force sensors."""
        rows = sim.force_sensors.view(sim.num_envs, -1, 6)
        for i, pair in enumerate(sim.sensors):
            for half, sensor in zip((slice(0, 3), slice(3, 6)), pair, strict=True):
                if sensor is not None:
                    rows[:, i, half] = sensor.data

    def refresh_dof_force_tensor(self, sim: Simulation) -> None:
        """Read what the actuators give."""
        sim.dof_forces.copy_(sim.drives.force().flatten())

    def set_dof_actuation_force_tensor(self, sim: Simulation, forces: Tensor) -> bool:
        """Hold forces [N * D] N m or N; needs `motor` actuators."""
        sim.drives.set_force(forces)
        return True

    def set_dof_position_target_tensor(self, sim: Simulation, targets: Tensor) -> bool:
        """Hold targets [N * D] rad or m; needs `position` actuators."""
        sim.drives.set_target(targets)
        return True

    def apply_rigid_body_force_tensors(
        self, sim: Simulation, forces: Tensor, torques: Tensor | None = None, space: Any = None
    ) -> bool:
        """Push bodies with forces [N * B, 3] N and torques [N * B, 3] N m, world axes, at their centres of mass, in the next
        simulation step."""
        what, bodies = "apply_rigid_body_force_tensors", len(sim.body_names)
        wrench = torch.zeros(sim.num_envs, bodies, 6)
        for k, values in ((0, forces), (3, torques)):
            if values is not None:
                rows = rows_of(what, values, sim.num_envs * bodies, 3)
                wrench[..., k : k + 3] = rows.view(sim.num_envs, bodies, 3)
        require_finite(what, wrench)
        sim.push(wrench)
        return True

    def set_dof_state_tensor(self, sim: Simulation, states: Tensor) -> bool:
        """Write positions and velocities [N * D, 2] of all environments."""
        return self.set_dof_state_tensor_indexed(sim, states, torch.arange(sim.num_envs * len(sim.actor_names)), None)

    def set_dof_state_tensor_indexed(self, sim: Simulation, states: Tensor, actors: Tensor, count: int | None) -> bool:
        """Write them in the environments of the actors with these indices (``env * A + actor``), for all their actors."""
        what = "set_dof_state_tensor_indexed"
        ids = _environments(sim, chosen_indices(what, actors, count, sim.num_envs * len(sim.actor_names)))
        if sim.joints is not None:
            every = rows_of(what, states, sim.num_envs * len(sim.dof_names), 2)
            rows = every.view(sim.num_envs, -1, 2)[ids]
            require_finite(what, rows)
            sim.joints.set_state(ids, rows[..., 0].contiguous(), rows[..., 1].contiguous())
            sim.world.forward(ids)
        return True

    def set_actor_root_state_tensor(self, sim: Simulation, states: Tensor) -> bool:
        """Write the states [N * A, 13] of all actors that move freely; those that are fixed stay where they stand."""
        every = torch.arange(sim.num_envs * len(sim.actor_names))
        return self.set_actor_root_state_tensor_indexed(sim, states, every, None)

    def set_actor_root_state_tensor_indexed(
        self, sim: Simulation, states: Tensor, actors: Tensor, count: int | None
    ) -> bool:
        """Write the states of the actors with these indices (``env * A + actor``); fixed ones stay where they stand."""
        what, per_env = "set_actor_root_state_tensor_indexed", len(sim.actor_names)
        chosen = chosen_indices(what, actors, count, sim.num_envs * per_env)
        states = rows_of(what, states, sim.num_envs * per_env, 13)
        require_finite(what, states[chosen])
        model = sim.world.model
        for a, (name, view) in enumerate(zip(sim.actor_names, sim.actors, strict=True)):
            rows = chosen[chosen % per_env == a].unique()
            joint = int(model.body(name).jntadr[0])
            free = joint >= 0 and int(model.jnt_type[joint]) == int(mujoco.mjtJoint.mjJNT_FREE)
            if len(rows) and (free or int(model.body(name).mocapid[0]) >= 0):
                view.set_state(rows // per_env, from_isaac(states[rows])[:, None])
        sim.world.forward(_environments(sim, chosen))
        return True


def _named(make: SpecFactory) -> SpecFactory:
    """The same part, with names for what has none: views go by names, and MJCF does without them."""

    def made() -> mujoco.MjSpec:
        spec = make()
        for kind, elements in (
            ("body", spec.bodies[1:]),
            ("joint", spec.joints),
            ("motor", spec.actuators),
            ("site", spec.sites),
            ("sensor", spec.sensors),
        ):
            for i, element in enumerate(elements):
                element.name = element.name or f"{kind}_{i}"
        return spec

    return made


def _environments(sim: Simulation, actors: Tensor) -> Tensor:
    """Sorted indices of the environments of these actors."""
    return (actors // max(len(sim.actor_names), 1)).unique()


def to_isaac(state: Tensor) -> Tensor:
    """[n, 13] with quaternion xyzw and angular velocity in world axes, from wxyz and body axes."""
    quat = state[:, 3:7]
    spin = torch.einsum("nij,nj->ni", matrix(quat).view(-1, 3, 3), state[:, 10:13])
    return torch.cat((state[:, :3], quat[:, [1, 2, 3, 0]], state[:, 7:10], spin), dim=1)


def from_isaac(state: Tensor) -> Tensor:
    """The inverse of `to_isaac`; quaternions are normalized."""
    quat = torch.nn.functional.normalize(state[:, [6, 3, 4, 5]], dim=1)
    spin = torch.einsum("nji,nj->ni", matrix(quat).view(-1, 3, 3), state[:, 10:13])
    return torch.cat((state[:, :3], quat, state[:, 7:10], spin), dim=1)


def _force_sensors(model: mujoco.MjModel) -> dict[str, tuple[str, str]]:
    """By site, the names of its sensors `force` and `torque`, "" for none."""
    kinds = {int(mujoco.mjtSensor.mjSENS_FORCE): 0, int(mujoco.mjtSensor.mjSENS_TORQUE): 1}
    out: dict[str, list[str]] = {}
    for i in range(model.nsensor):
        if (kind := kinds.get(int(model.sensor_type[i]))) is not None:
            out.setdefault(model.site(int(model.sensor_objid[i])).name, ["", ""])[kind] = model.sensor(i).name
    return {site: (force, torque) for site, (force, torque) in out.items()}
