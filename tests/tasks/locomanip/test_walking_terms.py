"""Every reward and observation term of go2-velocity on states set by hand: value, sign, axes and unit.

The oracle is NumPy on the numbers that were set, and MuJoCo's own kinematics for the feet; it reads nothing of the task.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.tasks.locomanip.velocity import VelocityConfig

CALM = {"push_s": 0.0, "start_joints": 0.0, "start_yaw": 0.0, "stand_share": 0.0, "resample_s": 1000.0}
FEET = ("go2/FL_foot", "go2/FR_foot", "go2/RL_foot", "go2/RR_foot")
N = 4
POS = np.array([[0.3, -0.2, 0.31], [0.0, 0.0, 0.27], [1.0, 2.0, 0.35], [0.0, 0.0, 0.29]])
TILT = np.array([[0.2, -0.1, 0.7], [-0.15, 0.25, -2.0], [0.0, 0.1, 3.0], [0.1, 0.0, 0.0]])  # rad: roll, pitch, yaw
LINEAR = np.array([[0.5, -0.2, 0.1], [-0.3, 0.6, -0.2], [0.9, 0.1, 0.3], [0.0, 0.0, 0.05]])  # m/s, world
ANGULAR = np.array([[0.3, -0.4, 0.5], [-0.6, 0.1, -0.7], [0.2, 0.2, 0.9], [0.0, 0.1, -0.1]])  # rad/s, body
COMMAND = np.array([[0.4, 0.1, 0.3], [-0.2, -0.3, -0.5], [0.8, 0.0, 0.6], [0.0, 0.0, 0.0]])  # the last one stands
PHASE = np.array([0.1, 0.35, 0.8, 0.2])
CONTACT = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 1]], bool)
SWING = np.array([[1, 0, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0]], bool)  # a trot: front left with rear right
SWING_PHASE = np.array([[0.1, 0, 0, 0.1], [0.35, 0, 0, 0.35], [0, 0.3, 0.3, 0], [0, 0, 0, 0]])


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Body to world, intrinsic z-y-x."""
    (a, b, c), (x, y, z) = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, a, -x], [0, x, a]])
    about_y = np.array([[b, 0, y], [0, 1, 0], [-y, 0, b]])
    about_z = np.array([[c, -z, 0], [z, c, 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


ROTATION = np.stack([rotation(*tilt) for tilt in TILT])


class Scene:
    """go2-velocity in that state; joints, torques and actions drawn once."""

    def __init__(self) -> None:
        draw = np.random.default_rng(5)
        self.env = rookery.make("go2-velocity", N, config=CALM)
        self.env.reset(seed=0)
        task = self.task = self.env.task
        self.offset = draw.uniform(-0.3, 0.3, (N, 12))
        self.speed = draw.uniform(-2.0, 2.0, (N, 12))
        self.torque = draw.uniform(-10.0, 10.0, (N, 12))
        self.action, self.before = draw.uniform(-1.0, 1.0, (2, N, 12))
        self.slip = draw.uniform(0.0, 1.0, N)
        quat = np.zeros((N, 4))
        for i in range(N):
            mujoco.mju_mat2Quat(quat[i], ROTATION[i].ravel())
        state = np.concatenate((POS, quat, LINEAR, ANGULAR), axis=1)
        self.home = task.robot.home.double().numpy()
        task.robot.base.set_state(None, torch.from_numpy(state).float()[:, None])
        joints = torch.from_numpy(self.home + self.offset).float()
        task.robot.joints.set_state(None, joints, torch.from_numpy(self.speed).float())
        self.env.world.forward()
        for buffer, value in (
            (task.command, COMMAND), (task.phase, PHASE), (task.contact, CONTACT), (task.robot.force, self.torque),
            (task.last_action, self.action), (task.before_action, self.before), (task.slip, self.slip),
            (task.fallen, np.array([False, True, False, False])),
        ):  # fmt: skip
            buffer.copy_(torch.from_numpy(value))
        task.refresh()
        self.feet = np.zeros((N, 4))  # m, of the lowest point of each foot
        self.foot_speed = np.zeros((N, 4))  # m/s, of its centre, up
        for i in range(N):
            data = self.env.mj_data(i)
            for k, name in enumerate(FEET):
                geom = self.env.world.model.geom(name)
                self.feet[i, k] = data.geom_xpos[geom.id][2] - geom.size[0]
                six = np.zeros(6)
                mujoco.mj_objectVelocity(data.model, data, mujoco.mjtObj.mjOBJ_GEOM, geom.id, six, 0)
                self.foot_speed[i, k] = six[5]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


def rewards(s: Scene) -> dict[str, np.ndarray]:
    """What each term should be, [N]."""
    body = np.einsum("nji,nj->ni", ROTATION, LINEAR)  # world to body
    up = ROTATION[:, 2]
    height = 0.04 * (1.0 - np.cos(4 * math.pi * SWING_PHASE))  # m, of a swinging foot
    falls = np.maximum(-s.foot_speed, 0.0) * (~CONTACT & (s.feet < 0.03))
    return {
        "tracking_lin_vel": np.exp(-((body[:, 0] - COMMAND[:, 0]) ** 2 + (body[:, 1] - COMMAND[:, 1]) ** 2) / 0.1),
        "tracking_ang_vel": np.exp(-((ANGULAR[:, 2] - COMMAND[:, 2]) ** 2) / 0.2),
        "lin_vel_z": body[:, 2] ** 2,
        "ang_vel_xy": ANGULAR[:, 0] ** 2 + ANGULAR[:, 1] ** 2,
        "orientation": up[:, 0] ** 2 + up[:, 1] ** 2,
        "base_height": (POS[:, 2] - 0.29) ** 2,
        "gait_phase": (CONTACT == SWING).mean(1),
        "feet_clearance": ((s.feet - height) ** 2 * SWING).sum(1),
        "feet_slip": s.slip,
        "feet_landing": (falls**2).sum(1),
        "torques": (s.torque**2).sum(1),
        "power": np.maximum(s.torque * s.speed, 0.0).sum(1),
        "action_rate": ((s.action - s.before) ** 2).sum(1),
        "hip_pos": s.offset[:, 0] ** 2 + s.offset[:, 3] ** 2 + s.offset[:, 6] ** 2 + s.offset[:, 9] ** 2,
        "stand_still": np.abs(s.offset).sum(1) * [0, 0, 0, 1],
        "termination": np.array([0, 1, 0, 0]),
        "alive": np.array([1, 0, 1, 1]),
    }


TERMS = tuple(VelocityConfig().reward)
GOOD = {"tracking_lin_vel", "tracking_ang_vel", "alive"}


@pytest.mark.parametrize("term", TERMS)
def test_reward_terms(scene, term):
    got = scene.task.rewards()["robot"][term]
    expected = rewards(scene)[term].astype(float)
    assert got.shape == (N, 1)
    np.testing.assert_allclose(got[:, 0], expected, rtol=2e-4, atol=2e-5)
    assert np.ptp(expected) > 0, "the states do not tell this term's faults"


@pytest.mark.parametrize("term", TERMS)
def test_following_is_rewarded_and_everything_else_costs(term):
    weight = VelocityConfig().reward[term]
    assert weight > 0 if term in GOOD else weight < 0


def test_observation_terms(scene):
    s = scene
    angle = 2 * math.pi * PHASE
    moving = np.array([1, 1, 1, 0])
    expected = {
        "angular_velocity": ANGULAR,
        "up": ROTATION[:, 2],  # the world's z axis in body axes
        "command": COMMAND,
        "gait": np.stack((np.sin(angle) * moving, np.cos(angle) * moving), 1),
        "joint_position": s.offset,
        "joint_velocity": s.speed,
        "last_action": s.action,
    }
    got = s.task.observe()["robot"]
    assert set(got) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name][:, 0], value, rtol=1e-4, atol=1e-5, err_msg=name)
    privileged = s.task.observe_privileged()["robot"]["base_velocity"][:, 0]
    np.testing.assert_allclose(privileged, np.einsum("nji,nj->ni", ROTATION, LINEAR), rtol=1e-4, atol=1e-5)


def test_home_is_the_manufacturers_stance(scene):
    """Hips 0.1 rad outward, thighs forward, knees bent, alike on both sides."""
    legs = scene.home.reshape(4, 3)
    assert legs[:, 0] == pytest.approx([0.1, -0.1, 0.1, -0.1])
    assert (legs[:, 1] > 0.5).all() and (legs[:, 2] < -1.2).all()
    assert (legs[0, 1:] == legs[1, 1:]).all() and (legs[2, 1:] == legs[3, 1:]).all()


def test_slip_is_the_speed_of_the_feet_that_are_down():
    env = rookery.make("go2-velocity", 2, config=CALM)
    env.reset(seed=0)
    actions = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(2, 1, -1).clone()}
    for _ in range(40):
        env.step(actions)
    state = env.task.robot.base.state.clone()
    state[1, 0, 7:9] = torch.tensor([0.6, -0.3])  # m/s: the second one is shoved
    env.task.robot.base.set_state(None, state)
    env.world.forward()
    env.step(actions)
    expected = []
    for i in range(2):
        data, model = env.mj_data(i), env.world.model
        total = 0.0
        for name in FEET:
            velocity = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_SITE, model.site(name).id, velocity, 0)
            down = data.site(name).xpos[2] - model.geom(name).size[0] < 0.004
            total += down * (velocity[3] ** 2 + velocity[4] ** 2)
        expected.append(total)
    got = env.task.rewards()["robot"]["feet_slip"][:, 0]
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-5)
    assert expected[1] > 100 * expected[0]


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0.0, 0.0), (0.3, 0.22, 0.38), (1.0, 1.0, 1.0)])
def test_the_share_of_commands_to_stand(share, low, high):
    """Of 32 worlds' commands, new every control step."""
    env = rookery.make("go2-velocity", 32, config={**CALM, "stand_share": share, "resample_s": 0.02})
    env.reset(seed=1)
    actions = {"robot": torch.tensor(env.groups["robot"].action.neutral).expand(32, 1, -1).clone()}
    commands = []
    for _ in range(16):
        env.step(actions)
        commands.append(env.task.command.clone())
    stand = (torch.stack(commands) == 0.0).all(-1).float().mean()
    assert low <= stand <= high


def test_commands_fill_their_ranges():
    """Forward -0.6 to 1, sideways -0.4 to 0.4 m/s, turning -0.8 to 0.8 rad/s."""
    env = rookery.make("go2-velocity", 256, config=CALM)
    env.reset(seed=1)
    least, most = env.task.command.amin(0).tolist(), env.task.command.amax(0).tolist()
    assert least == pytest.approx([-0.6, -0.4, -0.8], abs=0.03) and most == pytest.approx([1.0, 0.4, 0.8], abs=0.03)
    assert min(least[0] + 0.6, least[1] + 0.4, least[2] + 0.8) >= 0 and most[0] <= 1 and most[1] <= 0.4


def test_the_velocity_error_is_that_behind_a_low_pass_of_0_2_seconds():
    """A command of 0.5 m/s to a robot at rest, smoothed over 0.2 s, one control step of 0.02 s after the speed is set."""
    env = rookery.make("go2-velocity", 2, config={**CALM, "settle_s": 0.0})
    env.reset(seed=0)
    task = env.task
    task.steps.fill_(60)
    task.command.copy_(torch.tensor([[0.5, 0.0, 0.2]]).expand(2, 3))
    task.smooth.zero_()
    state = task.robot.base.state.clone()
    state[:, 0, 7:10] = torch.tensor([0.4, 0.1, 0.0])
    state[:, 0, 10:13] = torch.tensor([0.0, 0.0, 0.3])
    task.robot.base.set_state(None, state)
    env.world.forward()
    task.advance()
    figures = task.metrics()
    forward, left, turn = 0.1 * 0.4, 0.1 * 0.1, 0.1 * 0.3  # a tenth of the way: 0.02 s of 0.2 s
    assert figures["velocity_error"].tolist() == pytest.approx([math.hypot(0.5 - forward, left)] * 2, rel=1e-3)
    assert figures["turn_error"].tolist() == pytest.approx([0.2 - turn] * 2, rel=1e-3)
    assert figures["velocity_error_all"].tolist() == pytest.approx([math.hypot(0.5 - 0.4, 0.1)] * 2, rel=1e-3)
    assert figures["turn_error_all"].tolist() == pytest.approx([0.3 - 0.2] * 2, rel=1e-3)


def test_the_error_over_all_time_counts_from_the_settle_time_after_the_start():
    env = rookery.make("go2-velocity", 1, config={**CALM, "settle_s": 0.1})
    env.reset(seed=0)
    task = env.task
    squares = []
    for step in range(12):
        task.steps.fill_(step)
        task.command.fill_(0.1 * step)
        before = task.command.clone()
        task.advance()
        squares.append(float((task.level_velocity() - before[:, :2]).square().sum()))
    figures = task.metrics()
    assert float(figures["velocity_error_all"]) == pytest.approx(math.sqrt(sum(squares[5:]) / 7), rel=1e-4)
