"""ArmTask: the base of all table-top tasks with arms. It owns the arms; a task adds objects, goals, rewards and an expert.

World: a single arm stands at the origin and faces +x, y is to its left, z up; the table's top is z = 0.

A task is a short file, in this order:

    add_objects           what stands on the table
    reset_objects         where objects and goals are when an episode begins, drawn from `object_box` and `goal_box`
    refresh_observation   what is read of the world after each step
    observation_terms, observation   what an agent observes beside its own arm
    evaluate              reward terms, and whether the task is done
    expert_targets        how it can be done, for the scripted expert

Meta-World's tasks have an observation of their own, see meta_world.py.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import mujoco
import torch
from torch import Tensor

from rookery.assets.scenery import table
from rookery.robots.manipulators.action_kinds import find_action, register_action
from rookery.robots.manipulators.manipulator import ArmAction, Manipulator, add_manipulator
from rookery.robots.manipulators.table import PANDA, find_manipulator
from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim.gauge import Gauge
from rookery.sim.quantities import (
    BASE_POSITION,
    BASE_ROTATION,
    OPENING,
    TOOL_GOAL,
    TOOL_POSITION,
    TOOL_ROTATION,
    axes,
    base,
    joint_angles,
    joint_velocities,
)
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.rotations import quaternion
from rookery.sim.scene import Scene
from rookery.sim.specs import Group, Term, Weights
from rookery.sim.task import Task
from rookery.tasks.manipulation.arm_scene import SELF, UNDESIRED, ArmMount, Box, base_of, count_arm_contacts, world_box
from rookery.tasks.manipulation.scripted import ToolTarget, command_towards
from rookery.tasks.rewards import joint_torques_l2
from rookery.tasks.strain import STRAIN_METRICS, Strain

HARDWARE_METRICS = {
    **STRAIN_METRICS,
    "torque_peak_share": "largest torque of any joint at the end of any control step, as a share of its motor's limit",
    "undesired_contact": "share of the control steps in which anything of an arm but its fingers touches the table",
    "self_collision": "share of the control steps in which links of an arm touch each other, or another arm",
}
"""Definitions of `Strain.metrics` of an arm; torques are those of the motors, gravity included."""
DEFAULT_RANDOMIZATION = {
    "pad_friction": Range(0.6, 1.5),
    "joint_damping": Range(0.5, 3.0),
    "observation_noise": Range(1.0, 1.0),
    "observation_delay": Range(0.0, 0.025),
    "action_delay": Range(0.0, 0.025),
}


@dataclass(frozen=True)
class ArmTaskConfig:
    """Values that all tasks with arms share."""

    robot: str = "panda"  # an arm by its name, or the path of a URDF or MJCF file (docs/own_robot.md)
    action: str = "cartesian"  # see robots.manipulators.action_kinds
    episode_s: float = 5.0  # s
    control_dt: float = 0.025  # s
    dt: float = 0.0025  # s
    start_spread: tuple[float, float, float] = (0.05, 0.1, 0.05)  # m, half-widths of the box in which tools start
    reward: Weights = Weights()


class ArmTask(Task):
    """Base of the table-top tasks. Success: the task is done at the end, and has been for `hold_s`.

    Attributes:
        model: what kind of arm it is. arms: by agent group; `robot` is the first.
        done: [N] whether the task is done now. done_steps: [N] control steps for which it has been without a break.
        ever_done: [N] whether it was done at any step. steps_to_done: [N] control steps until it first was, or so far.
        terms: unweighted reward terms [N] of this control step.
        phase: [N] int64, of the scripted expert.
    """

    metric_definitions = MappingProxyType(
        {
            "success": "1 where the task is done at the end, and has been without a break for the task's hold_s",
            "done_at_any_time": "1 where it was done at any control step",
            "seconds": "s, until it was first done; the time so far while it was not",
            **HARDWARE_METRICS,
        }
    )

    Config: ClassVar[type] = ArmTaskConfig
    family = "panda"
    interface: ClassVar[tuple[str, ...]] = ("robot", "action")
    default_randomization = DEFAULT_RANDOMIZATION
    delays_controls = True
    camera: Any = ((1.2, -0.6, 0.6), (0.4, 0.0, 0.1))
    cfg: Any
    needs_gripper: ClassVar[bool] = True
    mounts: ClassVar[dict[str, ArmMount]] = {"arm": ArmMount()}
    """By agent group."""
    home: ClassVar[tuple[float, ...] | None] = None
    """rad, of a Panda, see Manipulator, in tasks for no other arm; None: the model's."""
    across: ClassVar[bool] = False
    """Whether fingers close along the base's x, not its y."""
    box: ClassVar[Box] = ((0.28, -0.45, 0.012), (0.76, 0.45, 0.6))
    """m, mount's frame, where the tool may go: down to where its finger tips nearly touch the table."""
    start: ClassVar[tuple[float, float, float]] = (0.45, 0.0, 0.25)
    """m, mount's frame, of the tool when an episode begins."""
    opening: ClassVar[float | None] = None
    """m, of the gripper when an episode begins; None: open."""
    integrator: ClassVar[str] = "implicitfast"
    hold_s: ClassVar[float] = 0.25
    object_box: ClassVar[Box]
    """Where the object (or the fixture) begins, m, world."""
    goal_box: ClassVar[Box | None] = None
    """Where the goal is, m, world; None where it follows from the object."""

    done: Tensor
    done_steps: Tensor
    ever_done: Tensor
    steps_to_done: Tensor
    phase: Tensor

    # What a task defines

    def add_objects(self, scene: Scene) -> Scene:
        """Add what stands on the table."""
        return scene

    @abc.abstractmethod
    def reset_objects(self, ids: Tensor) -> None:
        """Put objects and goals of the worlds `ids` where an episode begins."""

    def refresh_observation(self) -> None:
        """Read objects of all worlds. `self.arms` are up to date."""

    @abc.abstractmethod
    def observation_terms(self, group: str) -> tuple[Term, ...]:
        """Terms that an agent observes beside its own arm."""

    @abc.abstractmethod
    def quantities(self, group: str) -> dict[str, Tensor]:
        """Those [N, d] of the task itself, of which `observation_terms` are made."""

    @abc.abstractmethod
    def evaluate(self) -> tuple[dict[str, Tensor], Tensor]:
        """Unweighted reward terms [N], which all agents share, and whether the task is done [N] bool. Called once in each
        control step, after `refresh_observation`: what a task remembers is updated here."""

    @abc.abstractmethod
    def expert_targets(self) -> dict[str, ToolTarget]:
        """Targets of the scripted expert of each arm now, from the true state."""

    # Setup

    def __init__(self, cfg: Any = None) -> None:
        super().__init__(cfg)
        self.model = find_manipulator(self.cfg.robot)
        if self.home is not None and self.model is not PANDA:
            raise RookeryError(
                f"{type(self).__name__} is for a Panda alone, with whose joint angles it begins: leave robot out, or use "
                f"{self.model.name!r} in another table-top task."
            )
        if not self.model.fingers:
            if self.needs_gripper:
                raise RookeryError(
                    f"{type(self).__name__} needs a gripper, and the arm {self.model.name!r} has no two sliding fingers: use "
                    "it in table-reach, or put a gripper into its file."
                )
            ranges = {k: v for k, v in (self.default_randomization or {}).items() if k != "pad_friction"}
            self.default_randomization = ranges  # type: ignore[misc]
        self.action: ArmAction = find_action(self.cfg.action)
        if isinstance(self.cfg.action, ArmAction):  # configs hold names, which contracts can keep
            self.cfg = dataclasses.replace(self.cfg, action=register_action(self.cfg.action).name)

    def scene(self) -> Scene:
        scene = Scene(self.ground, dt=self.cfg.dt, integrator=self.integrator)
        self.add_arms(scene)
        return self.add_objects(scene)

    def add_arms(self, scene: Scene) -> None:
        """Add the arms and what they stand on."""
        for mount in self.mounts.values():
            pos = base_of(mount, self.model.nearer)
            add_manipulator(scene, self.model, self.action, mount.prefix, pos=pos, quat=mount.quat)
        count_arm_contacts(scene, self.model, self.mounts.values())

    def ground(self) -> mujoco.MjSpec:
        """The table. Friction cones are elliptic, without which what a gripper holds creeps out of it."""
        spec = table(half=(0.65, 0.7), centre=(0.45, 0.0))
        spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
        return spec

    def setup(self) -> None:
        world = self.world
        n = world.num_envs
        self.arms: dict[str, Manipulator] = {}
        home = (self.model.home_across if self.across else self.model.home) if self.home is None else self.home
        for group, mount in self.mounts.items():
            box = self.world_box(mount)
            arm = Manipulator(world, self.model, self.action, mount.prefix, self.cfg.control_dt, home, box)
            self.child(group, arm)
            self.arms[group] = arm
        self.robot = next(iter(self.arms.values()))
        self.start_rotation = {g: a.tool_at(a.home[None])[1][0].float() for g, a in self.arms.items()}
        """[3, 3] of each tool at home, to the world."""
        for arm in self.arms.values():
            arm.joints.keep_torque()
        self.strain = Strain(n, torch.tensor(self.model.torque * len(self.arms)))
        self.child("strain", self.strain)
        self.undesired = world.contact_count(UNDESIRED)
        self.colliding = world.contact_count(SELF)
        self.buffer("done", n, dtype=torch.bool)
        self.buffer("ever_done", n, dtype=torch.bool)
        self.buffer("done_steps", n, dtype=torch.int64)
        self.buffer("steps_to_done", n)
        self.buffer("phase", n, dtype=torch.int64)
        self._progress = tuple(b.numpy() for b in (self.done, self.done_steps, self.ever_done, self.steps_to_done))
        self._phase = self.phase.numpy()
        self.terms: dict[str, Tensor] = {name: torch.zeros(n) for name in self.cfg.reward}

    def world_box(self, mount: ArmMount) -> Box:
        """`box` in the world."""
        return world_box(self.box, mount)

    def groups(self) -> dict[str, Group]:
        count = len(self.model.joints)
        own: tuple[Term, ...] = (
            Term("joint_position", joint_angles(count), noise=0.001),
            Term("joint_velocity", joint_velocities(count), scale=0.5, noise=0.01),
            Term("opening", OPENING, scale=12.5, noise=0.0005),
            Term("tool", base(TOOL_POSITION - BASE_POSITION), scale=2.0, noise=0.001),
        )
        if not self.action.keeps_rotation:
            own += (Term("tool_axes", base(axes(TOOL_ROTATION, "xy")), noise=0.002),)
        if self.action.follows_tool_goal:
            own += (Term("command", base(TOOL_GOAL - TOOL_POSITION), scale=20.0, initial="0"),)
        return {g: Group(1, own + self.observation_terms(g), arm.spec) for g, arm in self.arms.items()}

    @property
    def actuation(self) -> dict[str, Actuation]:
        """Those of the action kind and the arm, by group; arm and gripper begin as the task has them."""
        out = {}
        for group, arm in self.arms.items():
            parts = arm.actuation
            assert parts.chain is not None
            start = tuple(float(v) for v in self.middle_start(group)[0])
            parts = dataclasses.replace(parts, chain=dataclasses.replace(parts.chain, start=start))
            if self.opening is not None and parts.gripper is not None:
                parts = dataclasses.replace(parts, gripper=dataclasses.replace(parts.gripper, start=self.opening))
            out[group] = parts
        return out

    @property
    def safety_limits(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Those of the action kind, by group."""
        return {group: self.action.safety_limits(arm) for group, arm in self.arms.items()}

    @property
    def disturbed_bodies(self) -> tuple[str, ...]:
        return tuple(arm.hand for arm in self.arms.values())

    def parameters(self) -> dict[str, Parameter]:
        """Those of all arms: a value holds for each of them."""
        parts = [arm.parameters() for arm in self.arms.values()]
        if len(parts) == 1:
            return parts[0]
        return {name: _for_all([part[name] for part in parts]) for name in parts[0]}

    # Episodes

    def reset(self, ids: Tensor) -> None:
        for group, arm in self.arms.items():
            arm.reset(ids, self.start_joints(ids, group), self.opening)
        where = ids.numpy()
        for progress in (*self._progress, self._phase):
            progress[where] = 0
        self.strain.reset(ids)
        self.reset_objects(ids)
        self.refresh(arms=False)

    def start_joints(self, ids: Tensor, group: str) -> Tensor:
        """Joint angles [n, J] rad with which an arm begins an episode: the tool is drawn about `start`."""
        spread = torch.tensor(self.cfg.start_spread)
        local = self._start() + spread * self.rng(ids).uniform(-1.0, 1.0, (3,))
        return self.arms[group].joints_for(self.to_world(group, local))

    def middle_start(self, group: str) -> Tensor:
        """The middle [1, J] rad of what `start_joints` draws."""
        return self.arms[group].joints_for(self.to_world(group, self._start()[None]))

    def _start(self) -> Tensor:
        return torch.tensor((self.start[0] - self.model.nearer, *self.start[1:]))

    def draw(self, ids: Tensor, box: Box) -> Tensor:
        """Places [n, 3] m, uniform in a box."""
        low, high = torch.tensor(box)
        return low + (high - low) * self.rng(ids).uniform(0.0, 1.0, (3,))

    def apply(self, actions: dict[str, Tensor]) -> None:
        for group, arm in self.arms.items():
            arm.apply(actions[group][:, 0], self.late.get(group))

    def advance(self) -> None:
        self.refresh()
        torque, speed = self.robot.motor_torque, self.robot.vel
        if len(self.arms) > 1:
            torque = torch.cat([arm.motor_torque for arm in self.arms.values()], dim=1)
            speed = torch.cat([arm.vel for arm in self.arms.values()], dim=1)
        self.strain.add(torque, torque, speed, self.undesired, self.colliding)
        self.terms, done = self.evaluate()
        self.steps_to_done += ~self.ever_done
        self.done.copy_(done)
        self.done_steps.add_(1).mul_(done)
        self.ever_done |= done

    def refresh(self, arms: bool = True) -> None:
        """Read the world after a step or a reset: all that `observe`, `evaluate` and the expert use.

        Args:
            arms: False where they are up to date, as after `Manipulator.reset`.
        """
        if arms:
            for arm in self.arms.values():
                arm.refresh()
        self.refresh_observation()

    def measured(self) -> dict[str, dict[str, Tensor]]:
        out = {}
        for group, arm in self.arms.items():
            n = len(arm.pos)
            values = {
                "joint angles": arm.pos, "joint velocities": arm.vel, OPENING.name: arm.opening[:, None],
                TOOL_POSITION.name: arm.tool, TOOL_ROTATION.name: quaternion(arm.rotation), TOOL_GOAL.name: arm.goal,
                BASE_POSITION.name: arm.base_pos.expand(n, 3),
                BASE_ROTATION.name: quaternion(arm.base_rotation.expand(n, 3, 3)),
            } | self.quantities(group)  # fmt: skip
            out[group] = {name: value[:, None].float() for name, value in values.items()}
        return out

    def rewards(self) -> dict[str, dict[str, Tensor]]:
        """`terms`, and where a task has a weight for it `torques` [N, 1]: the sum of squares of an arm's motor torques, as
        shares of their limits."""
        out = {g: {name: value[:, None] for name, value in self.terms.items()} for g in self.arms}
        if "torques" in self.cfg.reward:
            limits = self.strain.limits[: len(self.model.torque)]  # of each arm the same
            for group, arm in self.arms.items():
                out[group]["torques"] = joint_torques_l2(arm.motor_torque / limits)[:, None]
        return out

    def terminated(self) -> Tensor:
        return torch.zeros_like(self.steps)

    def success(self) -> Tensor:
        """[N] bool."""
        return self.done_steps * self.cfg.control_dt >= self.hold_s

    def gauges(self, i: int) -> list[Gauge]:
        """Gauge of how long the task has been done without a break."""
        return [Gauge("done for", float(self.done_steps[i]) * self.cfg.control_dt, self.hold_s, "s", at_most=False)]

    def metrics(self) -> dict[str, Tensor]:
        seconds = self.steps_to_done * self.cfg.control_dt
        own = {"success": self.success().float(), "done_at_any_time": self.ever_done.float(), "seconds": seconds}
        return own | self.strain.metrics(self.steps)

    # Frames

    def to_world(self, group: str, local: Tensor) -> Tensor:
        """Places [n, 3] m of an arm's base frame in the world's."""
        arm = self.arms[group]
        return local @ arm.base_rotation.float().T + arm.base_pos.float()

    # The scripted expert

    def controller(self) -> Callable[[dict[str, Tensor]], dict[str, Tensor]] | None:
        """The scripted expert of the task: it reads the true state and moves tools straight to `expert_targets`. None for
        action kinds that do not move the tool's goal."""
        if not self.action.follows_tool_goal:
            return None

        def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
            targets = self.expert_targets().items()
            return {g: command_towards(self.arms[g], target, self.start_rotation[g])[:, None] for g, target in targets}

        return act

    def next_phase(self, ready: Sequence[Tensor]) -> None:
        """Go to the next phase where the present one's condition, [N] bool, holds. The last phase has none."""
        conditions = torch.stack([*ready, torch.zeros_like(self.ever_done)])
        self.phase += conditions.gather(0, self.phase[None])[0]

    def of_phase(self, values: Sequence[Tensor]) -> Tensor:
        """The value of each world's phase: one [N, ...] of each phase -> [N, ...]."""
        return torch.stack(list(values))[self.phase, torch.arange(len(self.phase))]


def _for_all(same: Sequence[Parameter]) -> Parameter:
    """One parameter that writes to those of several arms."""

    def write(ids: Tensor, values: Tensor) -> None:
        for parameter in same:
            parameter.write(ids, values)

    return dataclasses.replace(same[0], write=write)
