"""Every reward and observation term of go2arm-reach and go2arm-loco-manipulation on states set by hand; see legged_states.

Goals are given in the stance frame; the oracle brings them to the trunk by way of the world, with MuJoCo's tool and SciPy's
rotations.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from legged_states import BODY_VELOCITY, COMMAND, POS, ROTATION, LeggedScene, N
from scipy.spatial.transform import Rotation

import rookery
from rookery.tasks.locomanip.reach import ReachConfig
from rookery.tasks.strain import STRAIN_METRICS

GOAL_POS = {
    0.0: np.array([[0.45, 0.1, 0.55], [0.5, -0.2, 0.4], [0.3, 0.3, 0.6], [0.4, 0.0, 0.5]]),
    0.2: np.array([[0.5, 0.15, 0.5], [0.45, -0.25, 0.45], [0.2, 0.35, 0.65], [0.42, 0.02, 0.48]]),
    0.5: np.array([[0.6, 0.2, 0.45], [0.4, -0.3, 0.5], [0.1, 0.4, 0.7], [0.45, 0.05, 0.45]]),
}
"""m, stance frame, by seconds ahead."""
GOAL_TURN = {
    ahead: Rotation.from_euler(
        "zyx", np.array([[0.3, 0.2, -0.1], [-0.6, 0.5, 0.2], [1.0, -0.3, 0.4], [0.0, 0.1, 0.0]]) + ahead
    )
    for ahead in GOAL_POS
}
SIGMA = 0.03  # (m/s)^2
WIDTHS = (0.2, 0.5)  # m, rad
GOOD = {"tracking_tool_pose", "tracking_lin_vel", "tracking_ang_vel", "alive"}


class ReachScene(LeggedScene):
    """With goals set by hand, and what the tool lacks to them."""

    def __init__(self, name: str, **config: object) -> None:
        super().__init__(name, 18, **config)
        task = self.task
        task.goals.pose = lambda ahead_s=0.0: tuple(
            torch.from_numpy(x).float() for x in (GOAL_POS[ahead_s], GOAL_TURN[ahead_s].as_quat(scalar_first=True))
        )
        task.widths.copy_(torch.tensor(WIDTHS))
        task.measure()
        tools = [self.env.mj_data(i).site("arm/tcp") for i in range(N)]
        trunk = Rotation.from_matrix(ROTATION)
        self.tool_pos = np.stack([ROTATION[i].T @ (tools[i].xpos - POS[i]) for i in range(N)])
        self.tool = trunk.inv() * Rotation.from_matrix([t.xmat.reshape(3, 3) for t in tools])

    def goal(self, ahead: float) -> tuple[np.ndarray, Rotation]:
        """In the trunk's frame: m, rotation."""
        yaw = np.arctan2(ROTATION[:, 1, 0], ROTATION[:, 0, 0])
        heading = Rotation.from_rotvec(yaw[:, None] * [0.0, 0.0, 1.0])
        world = POS * [1, 1, 0] + heading.apply(GOAL_POS[ahead])
        trunk = Rotation.from_matrix(ROTATION)
        return trunk.inv().apply(world - POS), trunk.inv() * heading * GOAL_TURN[ahead]

    def errors(self, ahead: float) -> tuple[np.ndarray, np.ndarray]:
        """[N, 3] m, [N, 3] rad: from the tool to the goal, in the trunk's frame."""
        pos, turn = self.goal(ahead)
        return pos - self.tool_pos, (turn * self.tool.inv()).as_rotvec()

    def rewards(self, sigma: float) -> dict[str, np.ndarray]:
        place, turn = (np.linalg.norm(x, axis=1) for x in self.errors(0.0))
        own = {
            "tracking_tool_pose": np.exp(-((place / WIDTHS[0]) ** 2)) * np.exp(-turn / (1.5 * WIDTHS[1])),
            "tool_position_error": place,
            "tool_rotation_error": turn,
            "arm_dof_vel": (self.speed[:, 12:] ** 2).sum(1),
        }
        return super().rewards(sigma) | own

    def observations(self) -> dict[str, np.ndarray]:
        now, soon = self.errors(0.0), self.errors(0.2)
        pos, turn = self.goal(0.0)
        axes = turn.as_matrix()
        own = {
            "to_goal": now[0],
            "rotation_to_goal": now[1],
            "to_goal_soon": soon[0],
            "rotation_to_goal_soon": soon[1],
            "goal": pos,
            "goal_rotation": np.concatenate((axes[:, :, 0], axes[:, :, 1]), axis=1),
        }
        return super().observations() | own


@pytest.fixture(scope="module")
def reach() -> ReachScene:
    return ReachScene("go2arm-reach")


@pytest.fixture(scope="module")
def loco() -> ReachScene:
    return ReachScene("go2arm-loco-manipulation", per_family=1, tasks="reach,pull-drawer,pick-box")


@pytest.fixture(params=["reach", "loco"])
def scene(request) -> ReachScene:
    return request.getfixturevalue(request.param)


def close(got: torch.Tensor, expected: np.ndarray, name: str) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=2e-4, err_msg=name)


TERMS = tuple(ReachConfig().reward)


def test_reward_terms(scene):
    got = scene.task.rewards()["robot"]
    expected = scene.rewards(SIGMA)
    assert set(got) == set(expected) == set(TERMS)
    for name, value in expected.items():
        assert got[name].shape == (N, 1)
        close(got[name][:, 0], value, name)
        assert np.ptp(value.astype(float)) > 0, f"the states do not tell faults of {name}"


@pytest.mark.parametrize("term", TERMS)
def test_following_is_rewarded_and_everything_else_costs(term):
    weight = ReachConfig().reward[term]
    assert weight > 0 if term in GOOD else weight < 0


def test_observation_terms(scene):
    expected = scene.observations()
    got = scene.task.observe()["robot"]
    assert set(got) - {"gripper"} == set(expected)
    for name, value in expected.items():
        close(got[name][:, 0], value, name)


def test_the_gripper_is_seen_as_the_opening_between_the_fingers(loco):
    opening = []
    for i in range(N):
        data = loco.env.mj_data(i)
        opening.append(sum(data.joint(f"arm/{name}").qpos[0] for name in ("finger_left", "finger_right")))
    close(loco.task.observe()["robot"]["gripper"][:, 0, 0], np.array(opening), "gripper")


def test_what_a_teacher_knows(reach, loco):
    known = reach.task.observe_privileged()["robot"]
    assert set(known) == {"base_velocity", "path"}
    close(known["base_velocity"][:, 0], BODY_VELOCITY, "base_velocity")
    close(known["path"][:, 0], reach.errors(0.2)[0], "path")
    known = loco.task.observe_privileged()["robot"]
    assert set(known) == {"base_velocity", "to_goal_in_0.2_s", "to_goal_in_0.5_s"}
    close(known["base_velocity"][:, 0], BODY_VELOCITY, "base_velocity")
    for ahead in (0.2, 0.5):
        close(known[f"to_goal_in_{ahead}_s"][:, 0], loco.errors(ahead)[0], f"{ahead} s")


def test_state_of_a_critic(scene):
    """Walking's, then 3 / m and 0.7 / rad of the errors, and the goal."""
    walking = LeggedScene.observations(scene)
    scale = {"angular_velocity": 0.25, "joint_velocity": 0.05, "last_action": 0.5}
    now, soon = scene.errors(0.0), scene.errors(0.2)
    pos, turn = scene.goal(0.0)
    seen = [scale.get(name, 1.0) * value for name, value in walking.items()]
    own = np.concatenate((3.0 * now[0], 0.7 * now[1], 3.0 * soon[0], pos, turn.as_matrix().reshape(N, 9)), axis=1)
    got = scene.task.state().numpy()
    walked = LeggedScene.state(scene).shape[1] - sum(v.shape[1] for v in scene.observations().values())
    walked += sum(v.shape[1] for v in seen)
    np.testing.assert_allclose(
        got[:, : sum(v.shape[1] for v in seen)], np.concatenate(seen, axis=1), rtol=1e-3, atol=2e-4
    )
    np.testing.assert_allclose(got[:, walked : walked + own.shape[1]], own, rtol=1e-3, atol=3e-4)


def test_what_a_critic_of_loco_manipulation_knows_besides(loco):
    """The gripper's opening (15 / m), the way of the base to its plan, the thing from the trunk (to 2 m), and the fixtures."""
    task, stage = loco.task, loco.task.stage
    draw = np.random.default_rng(29)
    origin, plan = draw.uniform(
        -1.0, 1.0, (2, N, 3)
    )  # m, m, rad: where the trajectory began, and where the base is to be
    task.goals.origin.copy_(torch.from_numpy(origin))
    task.goals.base_plan.copy_(torch.from_numpy(plan))
    task.goals.trajectory.copy_(torch.tensor([2, 0, 2, 1]))  # worlds 0 and 2 pick the box up
    box = POS + np.array([[0.5, 0.2, -0.1], [0.0, 0.0, 0.0], [3.0, -3.0, 0.1], [0.0, 0.0, 0.0]])
    loose = stage._loose.state.clone()
    loose[:, 1, :3] = torch.from_numpy(box)  # of ball, box, crate
    stage._loose.set_state(None, loose)
    joints = draw.uniform(0.01, 0.02, (N, 5))
    stage._joints.set_state(None, torch.from_numpy(joints).float(), torch.zeros(N, 5))
    fingers = draw.uniform(0.005, 0.02, (N, 2))
    task.fingers.set_state(None, torch.from_numpy(fingers).float(), torch.zeros(N, 2))
    got = task.state()[:, -12:]
    thing = np.where(np.array([1, 0, 1, 0])[:, None], box, 0.0) - POS
    heading = np.arctan2(ROTATION[:, 1, 0], ROTATION[:, 0, 0])
    about = lambda angle, v: np.stack(  # noqa: E731
        (np.cos(angle) * v[:, 0] - np.sin(angle) * v[:, 1], np.sin(angle) * v[:, 0] + np.cos(angle) * v[:, 1]), 1
    )
    way = about(-heading, origin[:, :2] + about(origin[:, 2], plan[:, :2]) - POS[:, :2])
    turn = origin[:, 2] + plan[:, 2] - heading
    turn = np.arctan2(np.sin(turn), np.cos(turn))
    expected = (
        15.0 * fingers.sum(1, keepdims=True), way, turn[:, None],
        np.clip(np.einsum("nij,ni->nj", ROTATION, thing), -2.0, 2.0), joints,
    )  # fmt: skip
    close(got, np.concatenate(expected, axis=1), "state")


def test_metrics_of_loco_manipulation_are_by_family(loco, monkeypatch):
    """`share` is 1 for the family that a world is of, `done` where its rule holds too, without a fall, and a step counts."""
    task = loco.task
    task.goals.trajectory.copy_(torch.tensor([0, 2, 1, 2]))
    monkeypatch.setattr(task.stage, "done", lambda signs: torch.tensor([True, True, True, False]))
    fallen = task.fallen.clone()
    task.fallen.copy_(torch.tensor([False, False, True, False]))
    task.counted.copy_(torch.tensor([5.0, 5.0, 5.0, 5.0]))
    task.goals.clock.copy_(torch.tensor([10, 20, 40, 0]))
    task.change_sum.fill_(2.0)
    got = {name: value.tolist() for name, value in task.metrics().items()}
    task.counted[0] = 0.0
    uncounted = task.metrics()["success"].tolist()
    task.fallen.copy_(fallen)
    assert got["success"] == [1, 1, 0, 0] and uncounted == [0, 1, 0, 0]
    assert got["action_change"] == pytest.approx([0.2, 0.1, 0.05, 2.0])
    assert {k: v for k, v in got.items() if "/" in k} == {
        "share/reach": [1, 0, 0, 0], "share/pull-drawer": [0, 0, 1, 0], "share/pick-box": [0, 1, 0, 1],
        "done/reach": [1, 0, 0, 0], "done/pull-drawer": [0, 0, 0, 0], "done/pick-box": [0, 1, 0, 0],
    }  # fmt: skip


def test_errors_count_from_the_second_after_the_start(reach):
    """Sums of errors over the control steps after 1 s (50 steps of 0.02 s), of which world 0 has made the first."""
    task = reach.task
    before = {
        name: getattr(task, name).clone() for name in ("steps", "clearance", "contact", "phase", "slip", "fallen")
    }
    widths = task.widths.clone()
    names = ("sum_position", "sum_rotation", "counted", "speed_error", "change_sum", "torque_peak")
    for name in names:
        getattr(task, name).zero_()
    advance = task.goals.advance
    task.goals.advance = lambda: None
    try:
        task.steps.copy_(torch.tensor([51, 50, 400, 0]))
        task.robot.peak.copy_(torch.from_numpy(np.abs(reach.torque)))
        read = task.robot.read_forces
        task.robot.read_forces = lambda: None
        task.advance()
        task.robot.read_forces = read
        place, turn = (np.linalg.norm(x, axis=1) for x in reach.errors(0.0))
        counts = np.array([1, 0, 1, 0])
        speed = ((BODY_VELOCITY[:, :2] - COMMAND[:, :2]) ** 2).sum(1)
        close(task.counted, counts, "counted")
        close(task.sum_position, counts * place, "sum_position")
        close(task.sum_rotation, counts * turn, "sum_rotation")
        close(task.speed_error, counts * speed, "speed_error")
        close(task.change_sum, np.abs(reach.action - reach.before).mean(1), "change_sum")
        close(task.torque_peak, np.abs(reach.torque).max(1), "torque_peak")
        close(task.widths, widths.numpy() + 0.002 * (np.array([place.mean(), turn.mean()]) - widths.numpy()), "widths")
    finally:
        task.goals.advance = advance
        task.widths.copy_(widths)
        for name, value in before.items():
            getattr(task, name).copy_(value)


def test_metrics(reach):
    """Means over what was counted, and the present errors where nothing was; success below 3 cm and 0.2 rad without a fall."""
    task = reach.task
    task.measure()
    place, turn = (np.linalg.norm(x, axis=1)[3] for x in reach.errors(0.0))
    speed = np.linalg.norm(BODY_VELOCITY[3, :2] - COMMAND[3, :2])
    fallen = task.fallen.clone()
    task.steps.fill_(100)
    task.counted.copy_(torch.tensor([50.0, 50.0, 50.0, 0.0]))
    task.sum_position.copy_(50 * torch.tensor([0.02, 0.02, 0.02, 0.0]))
    task.sum_rotation.copy_(50 * torch.tensor([0.1, 0.1, 0.25, 0.0]))
    task.speed_error.copy_(50 * torch.tensor([0.04, 0.01, 0.0, 0.0]))
    task.change_sum.copy_(torch.tensor([10.0, 20.0, 0.0, 5.0]))
    task.torque_peak.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    task.fallen.copy_(torch.tensor([False, True, False, False]))
    got = task.metrics()
    task.fallen.copy_(fallen)
    expected = {
        "success": [1, 0, 0, 0],
        "position_error": [0.02, 0.02, 0.02, place],
        "rotation_error": [0.1, 0.1, 0.25, turn],
        "velocity_error": [0.2, 0.1, 0, speed],
        "fell": [0, 1, 0, 0],
        "action_change": [0.1, 0.2, 0, 0.05],
        "torque_peak": [1, 2, 3, 4],
    }
    assert set(got) == {*expected, "height_error", "knee_height", *STRAIN_METRICS}
    for name, value in expected.items():
        assert got[name].tolist() == pytest.approx(value, rel=1e-4), name
    task.sum_position.copy_(50 * torch.tensor([0.031, 0.029, 0.029, 0.0]))
    task.sum_rotation.copy_(50 * torch.tensor([0.1, 0.19, 0.21, 0.0]))
    task.fallen.zero_()
    assert task.metrics()["success"].tolist() == [0, 1, 0, 0]
    task.fallen.copy_(fallen)


def test_the_widths_begin_with_the_errors_of_an_untrained_policy():
    assert rookery.make("go2arm-reach", 1).task.widths.tolist() == pytest.approx([0.3, 0.8])  # m, rad


def test_the_widths_have_lower_bounds_of_2_cm_and_0_1_rad(reach):
    task = reach.task
    task.measure()
    task.widths.copy_(torch.tensor([0.001, 0.001]))
    task.position_error.copy_(torch.tensor([[0.02, 0.0, 0.0]]).expand(N, 3))
    task.rotation_error.copy_(torch.tensor([[0.0, 0.15, 0.0]]).expand(N, 3))
    got = task.rewards()["robot"]["tracking_tool_pose"][:, 0]
    task.widths.copy_(torch.tensor(WIDTHS))
    task.measure()
    assert got.tolist() == pytest.approx([math.exp(-2.0)] * N, rel=1e-4)
