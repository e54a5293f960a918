"""The classical controller of a Go2 with an arm: its integral works where its own actions move the arm, and there alone."""

from __future__ import annotations

import pytest
import torch

import rookery


@pytest.mark.parametrize("task", ["go2arm-reach", "go2arm-loco-manipulation"])
def test_the_integral_does_not_wind_up_where_another_moves_the_arm(task: str) -> None:
    env = rookery.make(task, 2, seed=4)
    obs = env.reset()[0]
    act = env.controller()
    assert act is not None
    for step in range(40):
        action = act(obs)["robot"].clamp(-1.0, 1.0)
        if step < 30:
            action[1, :, 12:] = 0.0  # another leaves the arm where it is
        obs = env.step({"robot": action})[0]
        sag = env.task.state_dict()["controller.sag"]
        if step == 29:
            assert sag[0].abs().max() > 5e-3
            assert torch.equal(sag[1], torch.zeros(6))
    assert sag[1].abs().max() > 1e-3, "it takes up the arm again"
