"""Imitation with an encoder of pictures."""

from __future__ import annotations

import pytest
import torch
from policies_drive import Drive
from policies_spot import SpotEnv, spot_group
from policies_toy import ToyEnv

from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.regression import ActionRegression, RegressionConfig
from rookery.policies.imitation.teacher import ControllerTeacher, Teacher
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim.errors import RookeryError

SETTINGS = {"encoder": "cnn", "encoder_channels": (4, 6), "encoder_kernels": (3, 2), "encoder_strides": (2, 1)}


class Knowing(Teacher):
    """Tells the place."""

    def __init__(self, env: SpotEnv) -> None:
        self.env = env

    def act(self, obs):
        return {"eye": self.env.place.unsqueeze(2)}


@pytest.mark.parametrize("history", [1, 2])
def test_the_policy_acts_as_its_network_does_and_state_is_kept(history):
    group = spot_group(1, 2, 1, history)
    one, other = (
        ActionRegression(
            group, RegressionConfig(hidden=(8,), learning_rate=1e-2, **SETTINGS), torch.Generator().manual_seed(seed)
        )
        for seed in (0, 1)
    )
    chance = torch.Generator().manual_seed(2)
    obs = torch.randn(20, group.observation_size, generator=chance)
    expert = torch.rand(20, 1, generator=chance)
    one.observations.record(obs)
    one.observations.commit()
    assert len(one.observations.std.unique()) == 2 + 3 * history
    losses = [one.learn(obs, expert, 0.0).item() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    for made in (one, other):
        made.learn(obs, expert, 0.5)
    want = one.act(obs.unsqueeze(1)).squeeze(1)
    assert torch.equal(other.act(obs.unsqueeze(1)).squeeze(1), want)
    torch.testing.assert_close(one.policy()(obs), want, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_dagger_learns_to_see_what_its_teacher_knows():
    env = SpotEnv(32)
    config = DAggerConfig(rollout_steps=8, hidden=(16,), batch=128, epochs=8, learning_rate=3e-3, **SETTINGS)
    dagger = DAgger(env, config, inputs={"teacher": Knowing(env)})
    Drive(dagger).iterate(20)
    test = SpotEnv(64, seed=5)
    assert evaluate(test, act_with(dagger.policies(), test), 64)["success_rate"] > 0.9


def test_dagger_refuses_an_encoder_without_a_picture():
    env = ToyEnv(6)
    with pytest.raises(RookeryError, match="encoder=cnn needs pictures"):
        DAgger(env, DAggerConfig(**SETTINGS), inputs={"teacher": ControllerTeacher(env.controller())})
