"""How episodes begin and what arm tasks remember of success."""

from __future__ import annotations

import numpy as np
import torch

import rookery
from rookery.tasks.manipulation.meta_world import first_apart


def test_a_reset_arm_is_as_it_will_be_read_and_the_others_stay():
    env = rookery.make("table-reach", 5, seed=2)
    env.reset()
    for _ in range(10):
        env.step({"arm": torch.full((5, 1, 4), 0.6)})
    robot = env.task.robot
    before = {name: value.clone() for name, value in robot.state_dict().items()}
    ids = torch.tensor([1, 4])
    joints = robot.home + torch.tensor([[0.1], [-0.2]], dtype=torch.float64)
    robot.reset(ids, joints, 0.05)
    after = {name: value.clone() for name, value in robot.state_dict().items()}
    control = robot.actuators.control
    robot.refresh()
    others = [0, 2, 3]
    for name, value in robot.state_dict().items():
        assert torch.equal(value, after[name]), name
        if name == "delay.pushed":  # one number for all worlds
            continue
        worlds = (slice(None), others) if name.startswith("delay.") else others  # rows of a ring come first
        assert torch.equal(value[worlds], before[name][worlds]), name
    assert torch.equal(robot.pos[ids], joints.float())
    assert torch.equal(robot.joint_goal[ids], joints)
    assert torch.equal(robot.reference[ids, 0], joints)
    assert not robot.reference[ids, 1:].any() and not robot.vel[ids].any()
    assert torch.equal(robot.goal[ids], robot.tool_at(joints)[0])
    assert torch.equal(robot.goal_rotation[ids], robot.tool_at(joints)[1])
    assert torch.allclose(robot.opening[ids], torch.tensor(0.05))
    assert torch.allclose(robot.grip[ids], torch.tensor(0.05))
    assert torch.equal(control[ids, :7], joints.float())
    assert torch.allclose(control[ids, 7], torch.tensor(0.05))
    env.close()


def test_places_are_the_first_pair_that_is_apart():
    low = np.array([[0.0, 1.0, 2.0], [0.5, 1.0, 0.0]], np.float32)
    size = np.array([[1.0, 0.5, 0.0], [1.0, 0.25, 0.5]], np.float32)
    draws = np.random.default_rng(0).random((200, 4, 2, 3), np.float32)
    draws[0] = 0.5  # no pair is apart: 0.5 m in x, 0.125 m in y
    out = first_apart(torch.from_numpy(low + draws * size), 0.8).numpy()
    assert out.shape == (2, 200, 3)
    tries = []
    for world in range(200):
        pairs = low + draws[world] * size
        apart = [np.hypot(*(pair[0] - pair[1])[:2]) >= 0.8 for pair in pairs]
        tries.append(apart.index(True) if True in apart else 0)
        np.testing.assert_allclose(out[:, world], pairs[tries[-1]], atol=1e-6)
    assert tries[0] == 0 and set(tries) == {0, 1, 2, 3}


def test_success_is_counted_until_it_comes_and_while_it_lasts():
    course = torch.tensor([[0, 1, 1, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1]], dtype=torch.bool)
    env = rookery.make("table-reach", 3)
    env.reset()
    task = env.task
    history = []
    for now in course.T:
        task.evaluate = lambda now=now: ({"score": torch.zeros(3)}, now)
        task.advance()
        assert torch.equal(task.done, now)
        history.append(task.done_steps.tolist())
    assert torch.tensor(history).T.tolist() == [[0, 1, 2, 0, 1], [0, 0, 0, 0, 0], [1, 0, 1, 2, 3]]
    assert task.ever_done.tolist() == [True, False, True]
    assert task.steps_to_done.tolist() == [2.0, 5.0, 1.0]
    env.close()
