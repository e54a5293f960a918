"""A user's own arm and own action kind: declared in one place, without an edit of ours."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import mujoco
import pytest
import torch
from torch import Tensor

from rookery.robots.arms.airbot_play import AIRBOT_PLAY
from rookery.robots.arms.models import arm_names, find_arm, register_arm
from rookery.robots.manipulators.action_kinds import action_kinds, find_action, register_action
from rookery.robots.manipulators.manipulator import ArmAction, Manipulator, arm_spec
from rookery.robots.manipulators.model import ManipulatorModel, register_manipulator
from rookery.robots.manipulators.panda import PANDA
from rookery.robots.manipulators.table import find_manipulator
from rookery.robots.manipulators.tool_actions import Cartesian, Impedance
from rookery.sim.engines import make_world
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.specs import ActionSpec
from rookery.tasks.manipulation.lift import Lift, LiftConfig
from rookery.tasks.manipulation.reach import Reach

RENAMED = {f"joint{i}": f"axis{i}" for i in range(1, 8)}


@dataclass(frozen=True)
class JointSteps(ArmAction):
    """Changes of the joint goals, no more than `step` rad in a control step, slowed by a factor of each world's own."""

    step: float = 0.02

    name = "test_joint_steps"

    def spec(self, arm: Manipulator) -> ActionSpec:
        size = (self.step,) * 7
        return arm_spec(self.name, arm, arm.model.joints, [-s for s in size], size, ("rad",) * 7)

    def attach(self, arm: Manipulator) -> None:
        arm.action_buffer("share", 1).fill_(1.0)

    def apply(self, arm: Manipulator, command: Tensor) -> None:
        arm.joint_goal += self.step * arm.action_state["share"] * command
        arm.follow_joints(arm.joint_goal, together=True)

    def parameters(self, arm: Manipulator) -> dict[str, Parameter]:
        def write(ids: Tensor, values: Tensor) -> None:
            arm.action_state["share"][ids, 0] = values.double()

        return {"step_share": Parameter("share of each step that is made", "1", 1.0, 0.0, 1.0, write)}


def other_arm(*, drive: str = "position") -> mujoco.MjSpec:
    """A Panda whose joints, tool and actuators have other names."""
    spec = mujoco.MjSpec.from_string(PANDA.spec(drive=drive, visual=False).to_xml())
    for old, new in RENAMED.items():
        spec.joint(old).name = new
        spec.actuator(old).target = new
        spec.actuator(old).name = new
    spec.site("tcp").name = "grip_point"
    return spec


OTHER = dataclasses.replace(PANDA, name="test_arm", spec=other_arm, joints=tuple(RENAMED.values()), tool="grip_point")


def make(task: type, **config: object) -> VecEnv:
    made = task(task.Config(**config))
    return VecEnv(made, make_world("mujoco", made.scene(), 3), seed=0)


@pytest.mark.parametrize("cls", [Lift, Reach])
def test_an_own_action_kind_moves_the_joints_and_brings_its_parameters(cls):
    env = make(cls, action=JointSteps(step=0.01))
    assert env.task.cfg.action == "test_joint_steps"  # configs and contracts keep the name
    assert env.groups["arm"].action.names[-1] == "gripper_closing"
    assert env.task.safety_limits["arm"]["joint3"] == {"low": -0.01, "high": 0.01, "unit": "rad"}
    env.reset()
    env.task.parameters()["step_share"].write(torch.tensor([1]), torch.tensor([0.5]))
    before = env.task.robot.pos.clone()
    action = torch.zeros(3, 1, 8)
    action[..., 1] = -1.0
    for _ in range(20):
        env.step(action)
    for _ in range(40):
        env.step(torch.zeros(3, 1, 8))
    moved = env.task.robot.pos - before
    assert torch.allclose(moved[:, 1], torch.tensor([-0.2, -0.1, -0.2]), atol=0.02)
    assert moved[:, [0, 2, 3, 4, 5, 6]].abs().max() < 0.01


def test_registered_kinds_are_found_by_name_and_names_are_taken_once():
    register_action(JointSteps(step=0.01))
    assert "test_joint_steps" in action_kinds()
    assert find_action("test_joint_steps") == JointSteps(step=0.01)
    with pytest.raises(RookeryError, match="already"):
        register_action(Cartesian(step=0.02))
    with pytest.raises(RookeryError, match="test_joint_steps"):
        find_action("test_joint_step")


def test_a_kind_without_a_tool_goal_has_no_expert():
    assert make(Lift, action="joint_velocity").task.controller() is None
    with pytest.raises(RookeryError, match="joint_velocity"):
        find_action("joint_velocity").tool_command(torch.zeros(1, 3), torch.zeros(1, 3))


def test_stiffness_of_the_impedance_differs_between_worlds():
    env = make(Lift, action="impedance")
    env.reset()
    write = env.task.parameters()["tool_stiffness"].write
    write(torch.tensor([0, 2]), torch.tensor([0.5, 2.0]))
    stiffness = env.task.robot.action_state["stiffness"]
    assert stiffness[:, 0].tolist() == [200.0, 400.0, 800.0]
    assert torch.allclose(env.task.robot.action_state["damping"], 3.0 * stiffness.sqrt())
    for _ in range(40):
        env.step(torch.zeros(3, 1, 7))
    goal = env.task.robot.goal.clone()
    for _ in range(15):  # the softer spring lags more behind a goal that moves
        action = torch.zeros(3, 1, 7)
        action[..., 2] = 0.3
        env.step(action)
    moved = env.task.robot.tool[:, 2].double() - goal[:, 2]
    assert moved[0] < moved[1] < moved[2]
    assert isinstance(env.task.action, Impedance)


def test_an_own_arm_does_a_task_as_the_panda_does():
    register_manipulator(OTHER)
    runs = []
    for robot in ("panda", "test_arm"):
        task = Lift(LiftConfig(episode_s=3.5, robot=robot))
        env = VecEnv(task, make_world("mujoco", task.scene(), 3), seed=1)
        obs, _ = env.reset()
        act = task.controller()
        for _ in range(env.max_episode_steps - 1):
            obs, reward, *_ = env.step(act(obs))
        assert task.metrics()["success"].min() == 1.0
        runs.append((obs["arm"], reward["arm"]))
    assert all(torch.allclose(a, b, atol=1e-3) for a, b in zip(*runs, strict=True))


def test_arms_are_registered_by_name():
    register_manipulator(OTHER)
    assert find_manipulator("test_arm") is OTHER
    with pytest.raises(RookeryError, match="already"):
        register_manipulator(dataclasses.replace(OTHER, stroke=0.03))
    with pytest.raises(RookeryError, match="test_arm"):
        find_manipulator("test_arms")
    register_arm(dataclasses.replace(AIRBOT_PLAY, name="test_arm"))
    assert find_arm("test_arm").numbers == AIRBOT_PLAY.numbers
    assert find_arm("none") is None
    assert arm_names()[0] == "none"
    for name in ("none", "arx5"):
        with pytest.raises(RookeryError, match="taken"):
            register_arm(dataclasses.replace(AIRBOT_PLAY, name=name))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"speed": (1.0,) * 6}, "speed needs 7"),
        ({"joints": ("a",) * 4}, "needs 4 values"),
        ({"fingers": ("a",)}, "two fingers or none"),
        ({"lower": PANDA.upper}, "lower joint limit"),
        ({"jerk": (0.0,) * 7}, "positive"),
    ],
)
def test_arms_that_make_no_sense_are_refused(change, message):
    with pytest.raises(RookeryError, match=message):
        ManipulatorModel(**{f.name: getattr(PANDA, f.name) for f in dataclasses.fields(PANDA)} | change)
