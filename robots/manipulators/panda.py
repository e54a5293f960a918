"""The Panda: views, kinds of actions that the real robot takes, and its limits.

Whatever the action, joints are driven as on the robot: a reference that keeps the limits of position, speed, acceleration
and jerk goes to the servos, no faster than the rate of the motors' torques allows (references.py), or torques that keep their
limits of size and rate go to the motors (Franka's interface specification; facts 3.1). A tool pose is never imposed: it is
turned into joint angles, or into torques.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from rookery.assets.panda import ARMATURE, DAMPING, FINGERS, JOINTS, KD, KP, LOWER, STROKE, TORQUE, UPPER, panda_spec
from rookery.robots.arms.kinematics import chain_of
from rookery.robots.manipulators.kernels import impedance, see, tools, track_pose, turn_goals
from rookery.robots.manipulators.references import follow, links_of
from rookery.robots.manipulators.tool_drive import drive_tools, move_goals
from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.randomization.parameters import Parameter, scaled, sliding
from rookery.sim.scene import Scene
from rookery.sim.specs import ActionSpec
from rookery.sim.world import World

KINDS = ("cartesian", "pose", "joint_position", "joint_velocity", "joint_torque", "impedance")
"""Action kinds. "cartesian": the tool's place moves, its attitude stays; "pose": both move; "impedance": likewise, by
torques."""
SPEED = (2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61)  # rad/s, facts 3.1; so are those that follow
ACCELERATION = (15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0)  # rad/s^2
JERK = (7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0)  # rad/s^3
TORQUE_RATE = 1000.0  # N m/s
INERTIAL = (50.0, 28.0, 40.0, 35.0, 6.0, 6.0, 6.0)
"""N m that references may take to accelerate the arm. Gravity takes up to 45 of joint 2's 87, and where a servo meets its
limit its torque chatters (measured: 6 kN m/s)."""
RATE_SHARE = 0.8
"""Of the torque's rate that the arm's inertia may take in free motion; the rest is for what references do not know of:
speed, friction and the servos' own errors."""
MARGIN = 0.05  # rad, from the limits of position
HOME = (0.0, 0.1, 0.0, -2.0, 0.0, 2.1, math.pi / 4)
"""rad: the tool points down and its fingers close along the base's y."""
STEP = 0.01
"""m, that a "cartesian" action of 1 moves the tool's goal in a control step: Meta-World's (facts 4)."""
TURN = 0.05  # rad, likewise of "pose" and "impedance", a turn about each of the base's axes
LEAD = 0.045
"""m, along each axis, how far the goal may be ahead of the reference: steps are made shorter for that, in their direction."""
LEASH = 0.06
"""m, likewise of the tool itself: what is blocked is not wound up."""
SPRING_LEASH = 0.05  # m, likewise of "impedance"
LEASH_TURN = 0.4  # rad, likewise of a pose's turn
IK_DAMPING = 0.03
POSTURE = 0.04
"""Of the least squares (m and rad), share of the way home in a control step."""
STIFFNESS = (400.0, 400.0, 400.0, 20.0, 20.0, 20.0)
"""N/m and N m/rad of "impedance". The damping is 2 sqrt(stiffness) in the same units, that of Franka's example for a unit mass,
and half as much again, since the arm is heavier."""
NULL = (10.0, 4.0)  # N m/rad, N m s/rad of its pull home


def add_panda(scene: Scene, name: str = "panda", action: str = "cartesian", **place: Any) -> Scene:
    """A Panda in a scene, prefix ``name/``, with the drive that the action kind needs; `place` goes to `Scene.add`.

    Raises:
        RookeryError: an unknown action kind.
    """
    if action not in KINDS:
        raise unknown("action", action, KINDS)
    drive = "torque" if action in ("joint_torque", "impedance") else "position"
    return scene.add(lambda: panda_spec(drive=drive), name, **place)


class Panda(Buffers):
    """N Pandas of one world.

    Actions are the seven joints' (or three or six of the tool's goal) and the gripper's: how far it is to close, 1 wholly.

    Args:
        world: of a scene with `add_panda`.
        name: its prefix.
        action: its kind; as in the scene.
        control_dt: s.
        home: rad, where the joints' null space is drawn to, and where episodes begin.
        box: m, corners [2, 3] of the world's box that the tool's goal stays in; None: no box.

    Attributes:
        pos, vel: [N, 7] rad, rad/s. opening: [N] m, between the fingers. tool: [N, 3] m, world, of the point between the finger
        tips. turn: [N, 3, 3], tool to world. All of `refresh`.
        goal, goal_turn: [N, 3] m, [N, 3, 3], world: what Cartesian actions move.
        reference: [N, 3, 7] position, velocity, acceleration of the joints' references.

    Raises:
        RookeryError: an unknown action kind.
    """

    goal: Tensor
    goal_turn: Tensor
    joint_goal: Tensor
    reference: Tensor
    torque: Tensor
    grip: Tensor

    def __init__(
        self,
        world: World,
        name: str = "panda",
        action: str = "cartesian",
        control_dt: float = 0.0125,
        home: tuple[float, ...] = HOME,
        box: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    ) -> None:
        super().__init__()
        if action not in KINDS:
            raise unknown("action", action, KINDS)
        self.world = world
        self.name = name
        self.action = action
        self.steps = round(control_dt / world.dt)
        self.control_dt = control_dt
        n = world.num_envs
        self.joint_names = tuple(f"{name}/{j}" for j in JOINTS)
        self.finger_names = tuple(f"{name}/{j}" for j in FINGERS)
        self.joints = world.joints([*self.joint_names, *self.finger_names])
        self.actuators = world.actuators([*self.joint_names, f"{name}/gripper"])
        data = mujoco.MjData(world.model)
        mujoco.mj_kinematics(world.model, data)
        base = data.body(f"{name}/link0")
        self.base_pos = torch.tensor(base.xpos, dtype=torch.float64)
        self.base_turn = torch.tensor(base.xmat.reshape(3, 3), dtype=torch.float64)
        turns, offsets, axes = chain_of(world.model, self.joint_names, f"{name}/link0", f"{name}/tcp")
        # with the base's pose in the chain, all that is computed with it is in the world's frame
        offsets[0] = base.xpos + self.base_turn.numpy() @ offsets[0]
        turns[0] = self.base_turn.numpy() @ turns[0]
        self._chain = turns, offsets, axes
        self.home = torch.tensor(home, dtype=torch.float64)
        self.box = torch.tensor(((-math.inf,) * 3, (math.inf,) * 3) if box is None else box, dtype=torch.float64)
        limits = np.array((LOWER, UPPER)) + MARGIN * np.array([[1.0], [-1.0]])
        self._lower, self._upper = limits
        self._limits = np.array((self._lower, self._upper, SPEED, ACCELERATION, JERK, INERTIAL))
        self._links = links_of(world.model, self.joint_names, turns, offsets)
        self._lead = (np.array(KD) + DAMPING) / np.array(KP)
        self.buffer("reference", n, 3, 7, dtype=torch.float64)
        self.buffer("joint_goal", n, 7, dtype=torch.float64)
        self.buffer("goal", n, 3, dtype=torch.float64)
        self.buffer("goal_turn", n, 3, 3, dtype=torch.float64)
        self.buffer("torque", n, 7, dtype=torch.float64)
        self.buffer("grip", n)  # m, opening that is asked for
        self.pos = torch.zeros(n, 7)
        self.vel = torch.zeros(n, 7)
        self.opening = torch.zeros(n)
        self._tool = torch.zeros(n, 3, dtype=torch.float64)
        self._turn = torch.zeros(n, 3, 3, dtype=torch.float64)
        self.tool = torch.zeros(n, 3)
        self.turn = torch.zeros(n, 3, 3)
        self._rows = torch.zeros(n, self.steps, 8, dtype=torch.float64)
        self._stiffness = np.array(STIFFNESS)
        self._damping = 3.0 * np.sqrt(self._stiffness)
        self._torques = np.array(TORQUE, float)
        if action == "impedance":
            world.inner_loops += (self._press,)
        self.spec = self._declare()

    def _declare(self) -> ActionSpec:
        """The declaration of the action, gripper last."""
        axes = ("x", "y", "z", "roll", "pitch", "yaw")
        if self.action in ("cartesian", "pose", "impedance"):
            d = 3 if self.action == "cartesian" else 6
            high = [STEP] * 3 + [TURN] * (d - 3)
            names = [f"tool_{a}" for a in axes[:d]]
            units = ["m"] * 3 + ["rad"] * (d - 3)
            low = [-h for h in high]
        else:
            names = list(JOINTS)
            table: dict[str, tuple[Any, Any, str]] = {
                "joint_position": (self._lower, self._upper, "rad"),
                "joint_velocity": ([-s for s in SPEED], SPEED, "rad/s"),
                "joint_torque": ([-t for t in TORQUE], TORQUE, "N m"),
            }
            a, b, unit = table[self.action]
            low = [float(v) for v in a]
            high = [float(v) for v in b]
            units = [unit] * 7
        neutral = [0.0] * len(names)
        if self.action == "joint_position":
            neutral = [float(2 * (h - lo) / (hi - lo) - 1) for h, lo, hi in zip(self.home, low, high, strict=True)]
        return ActionSpec(
            self.action, (*names, "closed_by"), (*low, 0.0), (*high, 2 * STROKE), (*units, "m"), (*neutral, -1.0)
        )

    # Commands

    def apply(self, action: Tensor) -> None:
        """Turn actions into commands of the coming control step.

        Args:
            action: [N, D] in [-1, 1], or [N, K, D], a row for each physics step, of which the last is obeyed: the robot's
                own clock is slower than the physics.
        """
        a = (action if action.dim() == 2 else action[:, -1]).to(torch.float64)
        self.grip.copy_((0.5 - 0.5 * a[:, -1]) * (2 * STROKE))
        getattr(self, f"_{self.action}")(a[:, :-1])

    def _cartesian(self, a: Tensor) -> None:
        drive_tools(
            self.goal.numpy(), self.goal_turn.numpy(), (STEP * a[:, :3]).numpy(), self._tool.numpy(), LEAD, LEASH,
            self.box.numpy(), self.joint_goal.numpy(), self.home.numpy(), IK_DAMPING, POSTURE, 0.2, self.reference.numpy(),
            *self._motion(),
        )  # fmt: skip
        self.actuators.set_control(self._rows)

    def _pose(self, a: Tensor) -> None:
        self._turn_goal(a[:, 3:])
        self._cartesian(a)

    def _impedance(self, a: Tensor) -> None:
        # torques have no reference that goes ahead
        move_goals(
            self.goal.numpy(), (STEP * a[:, :3]).numpy(), self.reference.numpy(), self._tool.numpy(), math.inf, SPRING_LEASH,
            *self._chain, *self.box.numpy(),
        )  # fmt: skip
        self._turn_goal(a[:, 3:])
        self._rows[:, :, :7] = self.torque[:, None]
        self._rows[:, :, 7] = self.grip[:, None]

    def _joint_position(self, a: Tensor) -> None:
        low = torch.from_numpy(self._lower)
        high = torch.from_numpy(self._upper)
        self.joint_goal.copy_(low + 0.5 * (a + 1.0) * (high - low))
        self._send(self.joint_goal, together=True)

    def _joint_velocity(self, a: Tensor) -> None:
        self._send(a * torch.tensor(SPEED, dtype=torch.float64), together=False)

    def _joint_torque(self, a: Tensor) -> None:
        wish = a * torch.tensor(TORQUE, dtype=torch.float64)
        most = (TORQUE_RATE * self.world.dt * torch.arange(1, self.steps + 1, dtype=torch.float64))[:, None]
        ramp = self.torque[:, None] + (wish - self.torque)[:, None].clamp(-most, most)
        self._rows[:, :, :7] = ramp
        self.torque.copy_(ramp[:, -1])
        self._rows[:, :, 7] = self.grip[:, None]
        self.actuators.set_control(self._rows)

    def _turn_goal(self, a: Tensor) -> None:
        turn_goals((TURN * a).numpy(), self._turn.numpy(), math.cos(LEASH_TURN), self.goal_turn.numpy())

    def _motion(self) -> tuple[Any, ...]:
        """What `follow` is told of the robot, and where its results go."""
        return (
            self._limits, RATE_SHARE * TORQUE_RATE, *self._chain, self._links, ARMATURE, self._lead, self.world.dt,
            self.grip.numpy(), self._rows.numpy(),
        )  # fmt: skip

    def _send(self, goal: Tensor, together: bool) -> None:
        follow(goal.numpy(), self.reference.numpy(), together, *self._motion())
        self.actuators.set_control(self._rows)

    def _press(self, i: int) -> None:
        """Torques of "impedance", before each physics step."""
        impedance(
            self.joints.pos.numpy(), self.joints.vel.numpy(), self.goal.numpy(), self.goal_turn.numpy(), *self._chain,
            self.home.numpy(), self._stiffness, self._damping, NULL, self._torques, TORQUE_RATE * self.world.dt,
            self.torque.numpy(), self._rows[:, 0].numpy(),
        )  # fmt: skip
        self.actuators.set_control(self._rows[:, 0])

    # State

    def refresh(self) -> None:
        """Read the joints and place the tool. To be called after each step and write."""
        see(
            self.joints.pos.numpy(), self.joints.vel.numpy(), *self._chain, self._tool.numpy(), self._turn.numpy(),
            self.tool.numpy(), self.turn.numpy(), self.pos.numpy(), self.vel.numpy(), self.opening.numpy(),
        )  # fmt: skip

    def reset(self, ids: Tensor, joints: Tensor, opening: float = 2 * STROKE) -> None:
        """Put robots at joint angles [n, 7] rad, at rest, held there; the gripper `opening` m wide. Needs no `refresh`."""
        fingers = torch.full((len(ids), 2), 0.5 * opening)
        full = torch.cat((joints.float(), fingers), 1)
        self.joints.set_state(ids, full, torch.zeros_like(full))
        self.reference[ids] = 0.0
        self.reference[ids, 0] = joints.double()
        self.joint_goal[ids] = joints.double()
        self.torque[ids] = 0.0
        self.grip[ids] = opening
        pos, turn = self._place(joints.double())
        self.goal[ids] = pos
        self.goal_turn[ids] = turn
        self._tool[ids] = pos
        self._turn[ids] = turn
        self.pos[ids] = full[:, :7]
        self.vel[ids] = 0.0
        self.opening[ids] = opening
        self.tool[ids] = pos.float()
        self.turn[ids] = turn.float()
        control = torch.cat((self.reference[:, 0].float(), self.grip[:, None]), 1)
        if self.action in ("joint_torque", "impedance"):
            control[:, :7] = 0.0
        self.actuators.set_control(control)

    def _place(self, q: Tensor) -> tuple[Tensor, Tensor]:
        """Tool's places [n, 3] m and matrices [n, 3, 3] in the world at joint angles [n, 7] rad, all float64."""
        pos = q.new_zeros(len(q), 3)
        turn = q.new_zeros(len(q), 3, 3)
        tools(q.contiguous().numpy(), *self._chain, pos.numpy(), turn.numpy())
        return pos, turn

    def joints_for(self, pos: Tensor, turn: Tensor | None = None, start: Tensor | None = None) -> Tensor:
        """Joint angles [n, 7] rad that bring the tool to world places [n, 3] m.

        Args:
            turn: [n, 3, 3] tool to world; None: as at home.
            start: [n, 7] rad, where the search begins; None: home.

        Raises:
            RookeryError: a place that the arm cannot reach within 1 mm and 0.01 rad.
        """
        n = len(pos)
        q = (self.home.expand(n, 7) if start is None else start.double()).contiguous().clone()
        place = pos.double().contiguous()
        wish = (self._place(self.home[None])[1].expand(n, 3, 3) if turn is None else turn.double()).contiguous()
        arguments = (place.numpy(), wish.numpy(), *self._chain, self._lower, self._upper, self.home.numpy())
        track_pose(q.numpy(), *arguments, 0.05, 0.02, 0.3, 40)
        track_pose(q.numpy(), *arguments, 0.001, 0.0, 0.1, 10)
        at, now = self._place(q)
        off = (at - place).norm(dim=1)
        cosine = (0.5 * ((now * wish).sum((1, 2)) - 1.0)).clamp(-1.0, 1.0)
        bad = (off > 1e-3) | (cosine.acos() > 0.01)
        if bad.any():
            i = int(bad.nonzero()[0])
            where = ", ".join(f"{v:.3f}" for v in pos[i].tolist())
            raise RookeryError(
                f"the Panda {self.name!r} cannot bring its tool to ({where}) m in that attitude: it misses by "
                f"{float(off[i]):.3f} m. Goals must lie in its workspace."
            )
        return q

    def parameters(self) -> dict[str, Parameter]:
        """Physical quantities that can differ between worlds."""
        p = self.world.params
        pads = [f"{self.name}/{f}_pad" for f in FINGERS]
        nominal = float(p.nominal("friction", pads)[0, 0])
        damp = scaled(p, self.joint_names, "damping")
        return {
            "pad_friction": Parameter("sliding friction of the finger pads", "1", nominal, 0.2, 3.0, sliding(p, pads)),
            "joint_damping": Parameter("friction of the arm's joints", "1", 1.0, 0.0, 10.0, damp),
        }
