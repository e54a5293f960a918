"""What legged tasks measure beside success: contacts that nobody wants, kneeling, torque, power."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

import rookery
from rookery.tasks.locomanip.gait import gait_terms

CALM = {"push_s": 0.0, "start_joints": 0.0, "start_yaw": 0.0, "stand_share": 1.0, "fall_height_m": 0.0, "fall_up": -1.0}
REWARDED = ("undesired_contacts", "self_collision", "kneeling")


def env_of(task: str, n: int = 1, engine: str = "mujoco"):
    env = rookery.make(task, n, engine=engine, randomize="none", config=CALM)
    env.reset(seed=0)
    return env


def hold(env, steps: int, action: torch.Tensor | None = None) -> dict[str, float]:
    """The metrics after `steps` control steps of an action, or of the neutral one."""
    if action is None:
        action = torch.tensor(env.groups["robot"].action.neutral)
    for _ in range(steps):
        env.step({"robot": action.expand(env.num_envs, 1, -1).clone()})
    return {k: float(v[0]) for k, v in env.task.metrics().items()}


def put(env, z: float, quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)) -> None:
    """The trunk at that height and orientation, legs at home, at rest."""
    robot = env.task.robot
    state = torch.zeros(1, 13)
    state[0, 2] = z
    state[0, 3:7] = torch.tensor(quat)
    robot.reset(torch.arange(1), state, robot.home[None])
    env.world.forward()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_standing_is_on_feet_and_lying_on_the_side_is_not(engine):
    env = env_of("go2-velocity", engine=engine)
    standing = hold(env, 25)
    assert standing["undesired_contact"] == standing["self_collision"] == 0.0
    assert standing["knee_height"] == pytest.approx(1.0, abs=0.15)
    assert all(not gait_terms(env.task)[name].any() for name in REWARDED)
    env.reset(seed=0)
    put(env, 0.2, (2**-0.5, 2**-0.5, 0.0, 0.0))  # on its left side: hips and thighs come down first
    lying = hold(env, 25)
    assert lying["undesired_contact"] > 0.5
    assert gait_terms(env.task)["undesired_contacts"].item() == 1.0
    env.close()


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_a_robot_in_the_air_touches_nothing(engine):
    env = env_of("go2-velocity", engine=engine)
    put(env, 3.0)
    falling = hold(env, 10)
    assert falling["undesired_contact"] == falling["self_collision"] == 0.0
    env.close()


def test_kneeling_costs_and_shows():
    """Front thighs upright, their shins flat on the floor, feet ahead; the rear legs stand."""
    env = env_of("go2-velocity")
    robot = env.task.robot
    folded = robot.home.clone()
    folded[[1, 4]] = 0.1
    folded[[2, 5]] = -1.7
    kneeling = hold(env, 50, robot.normalized(folded[None]))
    height = env.task.knees.clone()
    cost = gait_terms(env.task)["kneeling"].item()
    model, data = env.world.model, env.world.mj_data(0)
    z = [data.xanchor[model.joint(f"go2/{leg}_calf").id][2] for leg in ("FL", "FR", "RL", "RR")]
    env.close()
    stands = mujoco.MjData(model)
    stands.qpos[:7] = 0.0, 0.0, 0.29, 1.0, 0.0, 0.0, 0.0
    stands.qpos[7:19] = robot.home.numpy()
    mujoco.mj_kinematics(model, stands)
    mujoco.mj_comPos(model, stands)
    whole = [stands.xanchor[model.joint(f"go2/{leg}_calf").id][2] for leg in ("FL", "FR", "RL", "RR")]
    share = 1.0 + (np.array(z) - np.array(whole)) / 0.18
    np.testing.assert_allclose(height[0].numpy(), share, atol=0.02)
    assert share[:2].max() < 0.45 and kneeling["knee_height"] < 0.6
    assert cost == pytest.approx(float(np.clip(0.6 - share, 0.0, None).sum()), abs=0.03)


def test_an_arm_in_its_own_trunk_collides():
    """Poses in which MuJoCo itself finds a link of the arm in trunk or legs; in others it does not."""
    env = env_of("go2arm-reach")
    robot, model = env.task.robot, env.world.model
    rng = np.random.default_rng(0)
    data = mujoco.MjData(model)
    low, high = robot.limits[:, 12:].numpy()

    def meets(arm: np.ndarray) -> bool:
        data.qpos[:7] = 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, 0.0
        data.qpos[7:19] = robot.home[:12].numpy()
        data.qpos[19 : 19 + len(arm)] = arm
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        names = {(model.body(model.geom_bodyid[c.geom[0]]).name, model.body(model.geom_bodyid[c.geom[1]]).name)
                 for c in data.contact[: data.ncon]}  # fmt: skip
        return any(a.split("/")[0] != b.split("/")[0] for a, b in names)

    arms = [rng.uniform(low, high) for _ in range(400)]
    inside = next(a for a in arms if meets(a))
    for arm, expected in ((inside, True), (robot.home[12:].numpy(), False)):
        joints = robot.home.clone()
        joints[12:] = torch.from_numpy(arm)
        env.reset(seed=0)
        state = torch.zeros(1, 13)
        state[0, 2:4] = torch.tensor([3.0, 1.0])
        robot.reset(torch.arange(1), state, joints[None])
        env.world.forward()
        metrics = hold(env, 1, robot.normalized(joints[None]))
        assert (metrics["self_collision"] > 0) == expected
        assert (gait_terms(env.task)["self_collision"].item() > 0) == expected
    env.close()
