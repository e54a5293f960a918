"""SAC and TD3 with distributions of returns in place of their means."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from policies_toy import ToyEnv, assert_resumes, batch_of, train
from sampled import slow_but

from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.sim.errors import RookeryError

COMMON = {"rollout_steps": 4, "learning_starts": 16, "batch": 32, "buffer_size": 400, "hidden": (16,)}
SPAN = {"atoms": 21, "value_low": -10.0, "value_high": 10.0}
KINDS = [(SAC, SACConfig(**COMMON, **SPAN)), (TD3, TD3Config(**COMMON, **SPAN))]


def sure_of(networks, values, span=SPAN) -> None:
    """Critics that are sure of these values, one for each."""
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.zero_()
        places = torch.linspace(span["value_low"], span["value_high"], span["atoms"])
        for k, value in enumerate(values):
            networks.biases[-1][k, 0, int((places - value).abs().argmin())] = 200.0


@pytest.mark.parametrize(("algorithm", "config"), KINDS)
def test_targets_are_shifted_and_discounted(algorithm, config):
    """Of the critics that are sure of 6 and of 4 the lower one counts: 1.5 + 0.5 * 4, and the reward where nothing follows."""
    learner = algorithm(ToyEnv(), config).learners["point"]
    sure_of(learner.targets, [6.0, 4.0])
    batch = batch_of(torch.tensor([1.5, 1.5]), 0.5, torch.tensor([False, True]))
    got = learner.backup(batch, batch.next_observation, batch.action, None)
    assert got.shape == (2, 21)
    torch.testing.assert_close(got @ learner.categorical.values, torch.tensor([3.5, 1.5]))
    assert (got > 1e-4).sum(1).tolist() == [2, 2]  # 3.5 lies between 3 and 4
    bonus = torch.tensor([-2.0, -2.0])
    got = learner.backup(batch, batch.next_observation, batch.action, None, bonus)
    torch.testing.assert_close(got @ learner.categorical.values, torch.tensor([2.5, 1.5]))


def test_the_policy_climbs_the_mean():
    learner = SAC(ToyEnv(), replace(KINDS[0][1], policy_value="mean")).learners["point"]
    sure_of(learner.critics, [6.0, 4.0])
    value = learner.policy_value(torch.zeros(3, 2), torch.zeros(3, 1), None)
    torch.testing.assert_close(value, torch.full((3,), 5.0))


@pytest.mark.parametrize(("algorithm", "config"), slow_but(KINDS[1:], KINDS))
def test_critics_learn_the_reward(algorithm, config):
    """With a discount of 0 the value is the reward."""
    own = replace(config, learning_rate=1e-2, gamma=0.0, buffer_size=4000, hidden=(32,), value_low=-6.0, value_high=6.0)
    made = algorithm(ToyEnv(16), own)
    train(made, made.env, made.env.reset()[0], 40)
    learner = made.learners["point"]
    batch = learner.replay.sample(256, torch.Generator().manual_seed(0), 0.0)
    q = learner.q_values(
        learner.outputs(learner.critics, learner.norm.normalize(batch.observation), batch.action, None)
    )
    assert (q - batch.reward.clamp(-6.0, 6.0)).abs().mean(1).max() < 0.15 < batch.reward.std()


@pytest.mark.parametrize(("algorithm", "config"), KINDS)
def test_resume_has_the_same_bits(algorithm, config):
    assert assert_resumes(lambda: algorithm(ToyEnv(4), replace(config, weight_decay=0.01), seed=3), 7)[-1]


def test_weights_decay():
    """A gradient of zero leaves AdamW's shrinking: by learning rate times decay in each step."""
    learner = SAC(ToyEnv(), SACConfig(**COMMON, weight_decay=0.5, learning_rate=0.1)).learners["point"]
    parameter = learner.optimizers["critics"].param_groups[0]["params"][0]
    before = parameter.detach().clone()
    for own in learner.optimizers["critics"].param_groups[0]["params"]:
        own.grad = torch.zeros_like(own)
    learner.optimizers["critics"].step()
    torch.testing.assert_close(parameter.detach(), before * (1.0 - 0.05))
    temperature = learner.optimizers["temperature"].param_groups[0]
    assert temperature["weight_decay"] == 0.0


def test_misfits_are_refused():
    with pytest.raises(RookeryError, match=r"value_low is 3\.0 and value_high 3\.0: give the least and the greatest"):
        SACConfig(atoms=51, value_low=3.0, value_high=3.0)
    with pytest.raises(RookeryError, match="atoms"):
        TD3Config(atoms=0)
    with pytest.raises(RookeryError, match="weight_decay"):
        SACConfig(weight_decay=-0.1)
