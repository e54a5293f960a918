"""A saved environment includes what its classical controller remembers."""

from __future__ import annotations

import pytest
import torch
from sampled import slow_but

import rookery

TASKS = (
    "drone-hover", "drone-track", "drone-formation", "volley-solo-bump", "volley-set-and-spike-hard", "volley-3v3",
    "go2-velocity", "go2arm-reach", "table-pick-place", "drone-land", "drone-navigate",
)  # fmt: skip


@pytest.mark.parametrize("task", slow_but([t for t in TASKS if t != "volley-set-and-spike-hard"], TASKS))
def test_a_controller_continues_in_a_restored_environment(task: str) -> None:
    """A new controller in a new environment that takes a saved state acts as the first one, to the bit."""
    first = rookery.make(task, 3, seed=1)
    act = first.controller()
    assert act is not None
    obs, _ = first.reset()
    for _ in range(40):
        obs = first.step(act(obs))[0]
    saved = first.state_dict()
    second = rookery.make(task, 3, seed=2)
    act_there = second.controller()
    assert act_there is not None
    second.load_state_dict(saved)
    obs_there = {name: value.clone() for name, value in obs.items()}
    for _ in range(10):
        actions = act(obs)
        actions_there = act_there(obs_there)
        for name, action in actions.items():
            assert torch.equal(action, actions_there[name])
        obs = first.step(actions)[0]
        obs_there = second.step(actions_there)[0]
    first.close()
    second.close()
