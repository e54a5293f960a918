"""What a person may set while a task runs: the task takes it, and it lies where the task draws it."""

from __future__ import annotations

import pytest
import torch

import rookery

PLACES = {
    "drone-hover": "target_0", "drone-swap": "target_3", "swarm-surround": "goal", "swarm-escort": "waypoint",
    "panda-lift": "target", "dual-panda-handover": "target", "table-reach": "target", "table-push": "target",
    "table-pick-place": "target", "drone-navigate": "goal",
}  # fmt: skip


@pytest.mark.parametrize("task", PLACES)
def test_a_place_set_by_hand_changes_what_agents_observe_in_that_world_alone(task):
    observed = []
    for by_hand in (False, True):
        env = rookery.make(task, 2)
        env.reset(0)
        act = {g: torch.tensor(s.action.neutral).expand(2, s.count, -1) for g, s in env.groups.items()}
        command = next(c for c in env.unwrapped.task.commands() if c.name == PLACES[task])
        assert command.place and command.values.shape == (2, 3)
        command.values[0] += torch.tensor([0.05, -0.05, 0.05]) * by_hand
        place = command.values.clone()
        observation, *_ = env.step(act)
        torch.testing.assert_close(command.values, place)  # it stays
        if task == "swarm-escort":  # the target is on its way there
            observation, *_ = env.step(act)
        observed.append(torch.cat([torch.as_tensor(x).flatten(1) for x in observation.values()], 1))
        env.close()
    assert not torch.allclose(observed[0][0], observed[1][0], atol=1e-4)
    torch.testing.assert_close(observed[0][1], observed[1][1])


@pytest.mark.parametrize("task", ["drone-land", "table-basketball", "table-shelf-place", "table-sweep-into"])
def test_a_goal_that_is_a_part_of_the_scene_is_not_set(task):
    env = rookery.make(task, 1)
    assert env.unwrapped.task.commands() == []
    env.close()
