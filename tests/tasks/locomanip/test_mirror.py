"""The mirror that go2-velocity declares, verified by the physics itself."""

from __future__ import annotations

import numpy as np
import torch

import rookery


def mirrored(x: torch.Tensor, vector: tuple[int, ...]) -> torch.Tensor:
    signed = torch.tensor(vector)
    return x[..., signed.abs() - 1] * signed.sign()


def test_the_heights_of_the_ground_are_those_on_the_other_side() -> None:
    env = rookery.make("go2-velocity", 2, config={"terrain": "rough", "start_yaw": 0.0, "push_s": 0.0})
    env.reset(seed=0)
    task = env.task
    mirror = env.groups["robot"].mirror
    assert mirror is not None
    assert len(mirror.state) == env.state_size
    points = task.scan.points
    columns = torch.tensor(mirror.observation[-35:]) - (env.groups["robot"].frame_size - 35) - 1
    assert torch.allclose(points[columns], points * torch.tensor([1.0, -1.0]))
    points = task.wide_scan.points
    columns = torch.tensor(mirror.state[-187:]) - (env.state_size - 187) - 1
    assert torch.allclose(points[columns], points * torch.tensor([1.0, -1.0]), atol=1e-6)


def test_a_robot_in_a_mirror_walks_as_the_mirrored_robot() -> None:
    """Worlds 4 to 7 begin as worlds 0 to 3 in a mirror on the plane of x and z, and get their actions in the mirror."""
    env = rookery.make("go2-velocity", 8, config={"push_s": 0.0, "resample_s": 1000.0})
    env.reset(seed=0)
    group = env.groups["robot"]
    mirror = group.mirror
    assert mirror is not None
    task = env.task
    robot = task.robot
    # Menagerie turns the trunk's principal axes 0.2 degrees out of the plane
    trunk = env.world.model.body("go2/base").id
    axes = env.world.batch.expand("body_iquat")[:, trunk]
    axes[:, [0, 2]] = 0.0
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    own = torch.arange(4)
    other = own + 4
    state = robot.base.state[own].clone()
    state[..., [1, 4, 6]] *= -1.0  # y, and the parts of the quaternion that turn the other way
    joints = robot.joints.pos[own] * torch.tensor([-1.0, 1.0, 1.0] * 4)
    robot.base.set_state(other, state)
    robot.joints.set_state(other, joints.view(4, 2, 2, 3).flip(2).reshape(4, 12), torch.zeros(4, 12))
    task.command[other] = task.command[own] * torch.tensor([1.0, -1.0, -1.0])
    task.phase[other] = (task.phase[own] + 0.5) % 1.0
    task.last_action[other] = mirrored(task.last_action[own], mirror.action)
    env.world.forward()
    generator = torch.Generator().manual_seed(0)
    neutral = torch.tensor(group.action.neutral)
    for _ in range(50):
        action = neutral + 0.3 * torch.randn(4, 1, 12, generator=generator)
        both = torch.cat((action, mirrored(action, mirror.action)))
        obs, reward, terminated, _, _ = env.step({"robot": both})
        assert not terminated.any()
        assert (mirrored(obs["robot"][own], mirror.observation) - obs["robot"][other]).abs().max() < 1e-4
        assert (mirrored(env.state[own], mirror.state) - env.state[other]).abs().max() < 1e-4
        assert (reward["robot"][own] - reward["robot"][other]).abs().max() < 1e-4
    # no component was a constant, of which a wrong declaration would be true
    assert obs["robot"][own].std(0).min() > 1e-3
    assert env.state[own][:, [*range(51), *range(55, 83)]].std(0).min() > 1e-3  # but feet on the ground
