"""Manipulator: N arms of one world, and ArmAction: the interface of the action kinds through which policies command them.

Whatever the action kind, joints are driven as on the robot: a reference that keeps the limits of position, speed, acceleration
and jerk goes to the servos, no faster than the limited rate of the motors' torques allows (references.py), or torques that
keep their limits of size and rate go to the motors. A tool pose is never imposed: inverse kinematics turn it into joint
angles, or an impedance into torques. What a delayed action leads to is late on its way to the drives: see ControlDelay.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.robots.arms.kinematics import chain_of
from rookery.robots.manipulators.actuation import RATE_SHARE, arm_actuation
from rookery.robots.manipulators.arm_reset import ArmCommands, reset_arms
from rookery.robots.manipulators.chain import ArmReadings, HingeChain, read_arms, tools
from rookery.robots.manipulators.model import ManipulatorModel
from rookery.robots.manipulators.pose_search import PoseSearch, track_pose
from rookery.robots.manipulators.references import ArmDynamics, ControlRows, ReferenceLimits, follow, links_of
from rookery.sim.actuation import Actuation, ToolGoal
from rookery.sim.buffers import Buffers
from rookery.sim.envs.delays import ControlDelay
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.bodies import BodyMass
from rookery.sim.randomization.joints import joint_parameters, servo_parameters
from rookery.sim.randomization.parameters import BatchWrite, Parameter, sliding_friction
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec
from rookery.sim.world import World

MARGIN = 0.05  # rad, from the limits of position
Box = tuple[tuple[float, ...], tuple[float, ...]]


class ArmAction(abc.ABC):
    """An action kind: what a policy commands, and how it reaches the drives.

    A subclass is all that a new kind needs: `register_action` makes it known by its name, and wherever a name is accepted,
    an instance is too. It keeps no state between steps: that is in the buffers of the Manipulator.

    Attributes:
        name: of the kind, in configs and contracts.
        drive: the drives that it needs in the scene, "position" or "torque".
        follows_tool_goal: commands move `Manipulator.goal`, which is then part of the observation. Experts need it.
        keeps_rotation: the tool keeps the rotation that it has at the start.
    """

    name: ClassVar[str]
    drive: ClassVar[str] = "position"
    follows_tool_goal: ClassVar[bool] = False
    keeps_rotation: ClassVar[bool] = False

    @abc.abstractmethod
    def spec(self, arm: Manipulator) -> ActionSpec:
        """The declaration of the D components, the gripper's last where there is one; see `arm_spec`."""

    def attach(self, arm: Manipulator) -> None:
        """Prepare an arm that was just made, for example by adding an inner loop to its world."""

    @abc.abstractmethod
    def apply(self, arm: Manipulator, command: Tensor) -> None:
        """Send controls for the coming K physics steps.

        Args:
            command: [N, D - 1] float64 in [-1, 1], without the gripper's, which is in `arm.grip` already (m); [N, D] of an
                arm without a gripper.
        """

    def sent(self, arm: Manipulator) -> int:
        """Numbers that are sent to the robot for each physics step and may be late: by default the controls of its drives."""
        return int(arm.rows.shape[2])

    def hold(self, arm: Manipulator, ids: Tensor) -> None:
        """New episodes in the worlds `ids`: what is in force there until something arrives."""
        arm.delay.reset(ids, arm.held)

    def tool_command(self, move: Tensor, rotate: Tensor) -> Tensor:
        """The command [N, D - 1] that moves the tool's goal by [N, 3] m and rotates it by [N, 3] rad, in the world's frame;
        values beyond [-1, 1] are more than one control step can do.

        Raises:
            RookeryError: the kind does not move a goal of the tool.
        """
        raise RookeryError(f"actions of kind {self.name!r} do not move the tool's goal: use a kind that does.")

    def steps(self, arm: Manipulator) -> tuple[str, ...]:
        """The way of the command to the joint references or the motors, in words, for contracts."""
        return (f"{self.name}: see {type(self).__module__}.{type(self).__qualname__}",)

    def tool_goal(self, arm: Manipulator) -> ToolGoal | None:
        """The goal that commands move, for contracts; None for a kind without one."""
        return None

    def parameters(self, arm: Manipulator) -> dict[str, Parameter]:
        """Quantities of this kind that can differ between worlds, beside the arm's own."""
        return {}

    def safety_limits(self, arm: Manipulator) -> dict[str, dict[str, Any]]:
        """Bounds that a runtime must keep, by quantity ``{"low": ..., "high": ..., "unit": ...}``: by default those of the
        command's components."""
        spec = self.spec(arm)
        rows = zip(spec.names, spec.low, spec.high, spec.units, strict=True)
        return {name: {"low": low, "high": high, "unit": unit} for name, low, high, unit in rows}


def arm_spec(
    kind: str,
    arm: Manipulator,
    names: Sequence[str],
    low: Sequence[float],
    high: Sequence[float],
    units: Sequence[str],
    neutral: Sequence[float] | None = None,
) -> ActionSpec:
    """An ActionSpec of these components and, last, the gripper's if the arm has one: 1 closes it.

    Args:
        kind: the action kind's name.
        arm: whose gripper it is.
        names, low, high, units, neutral: see ActionSpec; without `neutral`, zeros.
    """
    rest = [0.0] * len(names) if neutral is None else neutral
    lowest = tuple(float(v) for v in low)
    highest = tuple(float(v) for v in high)
    if not arm.grips:
        return ActionSpec(kind, tuple(names), lowest, highest, tuple(units), tuple(rest))
    return ActionSpec(
        kind,
        (*names, "gripper_closing"),
        (*lowest, 0.0),
        (*highest, 2.0 * arm.model.stroke),
        (*units, "m"),
        (*rest, -1.0),
    )


def add_manipulator(
    scene: Scene, model: ManipulatorModel, action: ArmAction, name: str | None = None, **place: Any
) -> Scene:
    """Add an arm to a scene, with the drives that the action kind needs.

    Args:
        name: prefix of its names, ``name/``; None: the model's name.
        place: `pos` and `quat`, see `Scene.add`.
    """
    return scene.add(lambda: model.spec(drive=action.drive), model.name if name is None else name, **place)


class Manipulator(Buffers):
    """N arms of one world, under one action kind.

    Args:
        world: of a scene with `add_manipulator`.
        model: the arm.
        action: its kind; as in the scene.
        name: its prefix; None: the model's name.
        control_dt: s.
        home: rad, start of searches for joint angles, and where the null space is drawn to; None: the model's.
        box: m, corners [2, 3] of the world's box that the tool's goal stays in; None: no box.

    Attributes:
        grips: whether it has a gripper.
        pos, vel: [N, J] rad, rad/s. opening: [N] m, between the fingers, 0 without a gripper.
        tool: [N, 3] m, world, of the point between the finger
            tips. rotation: [N, 3, 3], tool to world. All as of `refresh`.
        goal, goal_rotation: [N, 3] m, [N, 3, 3], world: what commands of the tool move.
        joint_goal: [N, J] rad. reference: [N, 3, J] position, velocity, acceleration of the joints' references.
        torque: [N, J] N m, last commanded. grip: [N] m, commanded opening.
        action_state: buffers of the action kind, by name.
        rows: [N, K, J + 1] controls of the coming physics steps as the policy's computer sends them, the gripper's last;
            [N, K, J] without one. Kinds send them with `send`.
        late: [N] int64 physics steps that they take; None where nothing is late.
        arrived: [N, K, sent] what arrives in each of the coming physics steps, of kinds that do not send `rows`.
        held: [N, J + 1] or [N, J] controls that keep the arms where their references are.
    """

    goal: Tensor
    goal_rotation: Tensor
    joint_goal: Tensor
    reference: Tensor
    torque: Tensor
    grip: Tensor
    pos: Tensor
    vel: Tensor
    opening: Tensor
    tool: Tensor
    rotation: Tensor
    exact_tool: Tensor
    exact_rotation: Tensor

    def __init__(
        self,
        world: World,
        model: ManipulatorModel,
        action: ArmAction,
        name: str | None = None,
        control_dt: float = 0.0125,
        home: tuple[float, ...] | None = None,
        box: Box | None = None,
    ) -> None:
        super().__init__()
        self.world = world
        self.model = model
        self.action = action
        self.name = model.name if name is None else name
        self.control_dt = control_dt
        self.steps = round(control_dt / world.dt)
        self.home = torch.tensor(model.home if home is None else home, dtype=torch.float64)
        self.box = torch.tensor(((-math.inf,) * 3, (math.inf,) * 3) if box is None else box, dtype=torch.float64)
        self.joint_names = tuple(f"{self.name}/{j}" for j in model.joints)
        self.finger_names = tuple(f"{self.name}/{j}" for j in model.fingers)
        self.grips = bool(model.fingers)
        self.joints = world.joints([*self.joint_names, *self.finger_names])
        grippers = [f"{self.name}/{model.gripper}"] if self.grips else []
        self.actuators = world.actuators([*self.joint_names, *grippers])
        self._find_chain()
        self._find_limits()
        self._make_buffers()
        self.spec = action.spec(self)
        action.attach(self)
        self.delay = ControlDelay(world.num_envs, self.steps, action.sent(self), world.dt)
        self.child("delay", self.delay)

    def _find_chain(self) -> None:
        """The kinematic chain, in the world's frame since the base's pose is in it."""
        data = mujoco.MjData(self.world.model)
        mujoco.mj_kinematics(self.world.model, data)
        body = f"{self.name}/{self.model.base}"
        base = data.body(body)
        self.base_pos = torch.tensor(base.xpos, dtype=torch.float64)
        self.base_rotation = torch.tensor(base.xmat.reshape(3, 3), dtype=torch.float64)
        turns, offsets, axes = chain_of(self.world.model, self.joint_names, body, f"{self.name}/{self.model.tool}")
        offsets[0] = base.xpos + self.base_rotation.numpy() @ offsets[0]
        turns[0] = self.base_rotation.numpy() @ turns[0]
        self.chain = HingeChain(turns, offsets, axes)
        self._links = links_of(self.world.model, self.joint_names, turns, offsets)

    def _find_limits(self) -> None:
        """Arrays of the model's limits, for the kernels."""
        model = self.model
        limits = np.array((model.lower, model.upper)) + MARGIN * np.array([[1.0], [-1.0]])
        self.lower, self.upper = limits
        speed, acceleration, jerk = np.array((model.speed, model.acceleration, model.jerk), float)
        self.limits = ReferenceLimits(
            self.lower, self.upper, speed, acceleration, jerk, np.array(model.inertial_torque, float),
            RATE_SHARE * model.torque_rate,
        )  # fmt: skip
        self._lead = (np.array(model.kd) + np.array(model.damping)) / np.array(model.kp)

    def _make_buffers(self) -> None:
        n = self.world.num_envs
        count = len(self.model.joints)
        self.buffer("reference", n, 3, count, dtype=torch.float64)
        self.buffer("joint_goal", n, count, dtype=torch.float64)
        self.buffer("goal", n, 3, dtype=torch.float64)
        self.buffer("goal_rotation", n, 3, 3, dtype=torch.float64)
        self.buffer("torque", n, count, dtype=torch.float64)
        self.buffer("grip", n)
        self.buffer("pos", n, count)
        self.buffer("vel", n, count)
        self.buffer("opening", n)
        self.buffer("tool", n, 3)
        self.buffer("rotation", n, 3, 3)
        self.buffer("exact_tool", n, 3, dtype=torch.float64)
        self.buffer("exact_rotation", n, 3, 3, dtype=torch.float64)
        self.action_state: dict[str, Tensor] = {}
        self.rows = torch.zeros(n, self.steps, count + self.grips, dtype=torch.float64)
        self.held = torch.zeros(n, count + self.grips)
        self.late: Tensor | None = None
        self.arrived = torch.zeros(0)
        commanded = (self.reference, self.joint_goal, self.torque, self.grip, self.goal, self.goal_rotation)
        seen = (self.exact_tool, self.exact_rotation, self.tool, self.rotation, self.pos, self.vel, self.opening)
        self._commands = ArmCommands(*(b.numpy() for b in commanded))
        self._readings = ArmReadings(*(b.numpy() for b in seen))
        self._held = self.held.numpy()
        self._grip = self.grip.numpy()
        dynamics = ArmDynamics(self._links, np.array(self.model.armature), self._lead, self.world.dt)
        self._motion = self.limits, self.chain, dynamics, ControlRows(self._grip, self.rows.numpy())

    def action_buffer(self, name: str, size: int) -> Tensor:
        """Make a buffer [N, size] float64 of the action kind's own, which is saved and restored with the arm; also in
        `action_state`."""
        tensor = self.buffer(f"action_{name}", self.world.num_envs, size, dtype=torch.float64)
        self.action_state[name] = tensor
        return tensor

    # Commands

    def apply(self, action: Tensor, late: Tensor | None = None) -> None:
        """Turn actions into commands of the coming control step.

        Args:
            action: [N, D] in [-1, 1].
            late: [N] int64 physics steps after which the robot gets what follows from them; None: at once, in all worlds.
        """
        self.late = late
        a = action.to(torch.float64)
        if self.grips:
            self._grip[:] = (0.5 - 0.5 * a.numpy()[:, -1]) * (2 * self.model.stroke)
            a = a[:, :-1]
        self.action.apply(self, a)

    @property
    def actuation(self) -> Actuation:
        """Everything between actions and motors."""
        return arm_actuation(self)

    def motion(self) -> tuple[ReferenceLimits, HingeChain, ArmDynamics, ControlRows]:
        """The last arguments of `references.follow`: the arm's limits and dynamics, and where the rows go."""
        return self._motion

    def follow_joints(self, goal: Tensor, together: bool) -> None:
        """Send references that go to joint goals, within all limits.

        Args:
            goal: [N, J] rad if `together`, so that all arrive at once; else rad/s, a velocity of each joint.
        """
        follow(goal.numpy(), self.reference.numpy(), together, *self.motion())
        self.send()

    def send(self) -> None:
        """Send `rows` to the drives, where they arrive as late as they do."""
        self.actuators.set_control(self.rows if self.late is None else self.delay.push(self.rows, self.late))

    # State

    def refresh(self) -> None:
        """Read the joints and place the tool. Called after each step and write."""
        read_arms(self.joints.pos.numpy(), self.joints.vel.numpy(), self.chain, self._readings)

    @property
    def motor_torque(self) -> Tensor:
        """[N, J] N m, what the motors gave in the last physics step, gravity included. Only after `joints.keep_torque`."""
        return self.joints.torque[:, : len(self.joint_names)]

    def reset(self, ids: Tensor, joints: Tensor, opening: float | None = None) -> None:
        """Put arms at joint angles [n, J] rad, at rest, held there. Needs no `refresh`.

        Args:
            opening: m, of the gripper; None: open.
        """
        wide = 2.0 * self.model.stroke if opening is None else float(opening)
        exact = joints.double().contiguous().numpy()
        count = exact.shape[1]
        full = np.empty((len(ids), count + len(self.finger_names)), np.float32)
        full[:, :count] = exact
        full[:, count:] = 0.5 * wide
        self.joints.set_state(ids, torch.from_numpy(full), torch.zeros(full.shape))
        pulled = self.action.drive == "torque"
        reset_arms(ids.numpy(), exact, full, wide, pulled, self.chain, self._commands, self._readings, self._held)
        self.actuators.set_control(self.held)
        self.action.hold(self, ids)

    def tool_at(self, joints: Tensor) -> tuple[Tensor, Tensor]:
        """Tool's places [n, 3] m and rotations [n, 3, 3] in the world at joint angles [n, J] rad; float64."""
        pos = torch.zeros(len(joints), 3, dtype=torch.float64)
        rotation = torch.zeros(len(joints), 3, 3, dtype=torch.float64)
        tools(joints.contiguous().numpy(), self.chain, pos.numpy(), rotation.numpy())
        return pos, rotation

    def joints_for(self, pos: Tensor, rotation: Tensor | None = None, start: Tensor | None = None) -> Tensor:
        """Joint angles [n, J] rad that bring the tool to world places [n, 3] m.

        Args:
            rotation: [n, 3, 3] tool to world; None: as at home.
            start: [n, J] rad, where the search begins; None: home.

        Raises:
            RookeryError: a place that the arm cannot reach within 1 mm and 0.01 rad, spin about the tool's z aside where there
                are less than six joints.
        """
        n = len(pos)
        q = (self.home.expand(n, -1) if start is None else start.double()).contiguous().clone()
        place = pos.double().contiguous()
        wanted = self.tool_at(self.home[None])[1].expand(n, 3, 3) if rotation is None else rotation.double()
        wanted = wanted.contiguous()
        coarse = PoseSearch(self.lower, self.upper, self.home.numpy(), damping=0.05, posture=0.02, most=0.3)
        track_pose(q.numpy(), place.numpy(), wanted.numpy(), self.chain, coarse, 40)
        fine = coarse._replace(damping=0.001, posture=0.0, most=0.1)
        track_pose(q.numpy(), place.numpy(), wanted.numpy(), self.chain, fine, 10)
        reached, now = self.tool_at(q)
        error = (reached - place).norm(dim=1)
        cosine = 0.5 * ((now * wanted).sum((1, 2)) - 1.0)
        if q.shape[1] < 6:
            cosine = (now[:, :, 2] * wanted[:, :, 2]).sum(1)
        bad = (error > 1e-3) | (cosine.clamp(-1.0, 1.0).acos() > 0.01)
        if bad.any():
            i = int(bad.nonzero()[0])
            where = ", ".join(f"{v:.3f}" for v in pos[i].tolist())
            raise RookeryError(
                f"the arm {self.name!r} cannot bring its tool to ({where}) m with that rotation: it misses by "
                f"{float(error[i]):.3f} m. Goals must lie in its workspace."
            )
        return q

    @property
    def hand(self) -> str:
        """Full name of the body that the last joint moves."""
        model = self.world.model
        return str(model.body(int(model.jnt_bodyid[model.joint(self.joint_names[-1]).id])).name)

    def parameters(self) -> dict[str, Parameter]:
        """Physical quantities that can differ between worlds, the action kind's included."""
        params = self.world.params
        pads = [f"{self.name}/{pad}" for pad in self.model.pads]
        load = BatchWrite(BodyMass(self.world, [self.hand], radius=0.03), "load")
        friction = (
            {"pad_friction": sliding_friction(params, pads, "sliding friction of the finger pads", 0.2, 3.0)}
            if pads
            else {}
        )
        return {
            **friction,
            "payload": Parameter("mass added to the last link", "kg", 0.0, 0.0, 1.0, load, (), (0.0, 0.2)),
            **joint_parameters(self.world, self.joint_names, "the arm's joints"),
            **servo_parameters(self.world, self.joint_names, "the arm"),
        } | self.action.parameters(self)
