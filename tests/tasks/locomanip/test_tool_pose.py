"""The tool of a walking robot in the world: where the joints and the trunk are now, also right after they were set."""

from __future__ import annotations

import pytest
import torch

import rookery


@pytest.mark.parametrize("name", ["go2arm-fetch", "go2arm-reach"])
def test_quantities_are_of_the_state_that_was_just_set(name: str) -> None:
    env = rookery.make(name, 3, seed=2)
    env.reset()
    task = env.unwrapped.task  # type: ignore[attr-defined]
    task.quantities()
    joints = task.robot.joints.pos.clone()
    joints[:, 12:] += 0.3
    trunk = task.robot.base.state.clone()
    trunk[..., 2] += 0.1
    task.robot.joints.set_state(torch.arange(3), joints, torch.zeros_like(joints))
    task.robot.base.set_state(torch.arange(3), trunk)
    at_once = {k: v.clone() for k, v in task.quantities().items()}
    task.measure()  # reads the state anew
    read = task.quantities()
    assert [k for k, v in at_once.items() if not torch.equal(v, read[k])] == []
    env.close()
