"""Value targets of our own trainers, with a task whose value is known: at time limits, at ends, where an agent drops out."""

from __future__ import annotations

import pytest
import torch
from decay import GAMMA, LENGTH, Decay, targets, value
from torch import Tensor

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.nn.mlp import MLP
from rookery.sim.elapsed import elapsed
from rookery.sim.errors import RookeryError

AGENTS, STEPS = 2, 2 * LENGTH
ENDS = pytest.mark.parametrize("drop", [0, 3, LENGTH])
TERMINATES = pytest.mark.parametrize("terminates", [False, True])


def counted(drop: int) -> Tensor:
    """[STEPS, 1, AGENTS] bool: agents that take part in a step."""
    out = torch.ones(STEPS, 1, AGENTS, dtype=torch.bool)
    if drop:
        out[..., -1] = (torch.arange(STEPS) % LENGTH < drop)[:, None]
    return out


def collect(algorithm: PPO | SAC | TD3) -> dict[str, Tensor]:
    """STEPS control steps; the observations after them."""
    obs, _ = algorithm.env.reset()
    for _ in range(STEPS):
        actions = algorithm.act(obs)
        result = algorithm.env.step(actions)
        algorithm.observe(obs, actions, result)
        obs = result[0]
    return obs


def exact(critic: MLP) -> None:
    """Make a critic without hidden layers the value function."""
    critic.weights[0].fill_(1.0 / (1.0 - GAMMA * 0.8))
    critic.biases[0].zero_()


@ENDS
@TERMINATES
@pytest.mark.parametrize("share", [True, False])
def test_ppo_value_targets(share, terminates, drop):
    config = PPOConfig(
        rollout_steps=STEPS, minibatches=1, gamma=GAMMA, lam=1.0, hidden=(), normalize_observations=False,
        normalize_values=False, obs_clip=1e6, share=share,
    )  # fmt: skip
    ppo = PPO(Decay(terminates=terminates, agents=AGENTS, drop=drop), config)
    learner = ppo.learners["agent"]
    exact(learner.critic)
    last = collect(ppo)
    samples = learner.samples(last["agent"], None, ppo._context.get("active.agent"))
    got = learner.grid(samples.value_target, STEPS)
    want = targets(STEPS, terminates, AGENTS, drop=drop)
    on = counted(drop).expand_as(want)
    torch.testing.assert_close(got[on], want[on], rtol=1e-5, atol=1e-5)


@ENDS
@TERMINATES
@pytest.mark.parametrize("n_step", [1, 3, STEPS])
@pytest.mark.parametrize("kind", [(SAC, SACConfig), (TD3, TD3Config)])
def test_replay_value_targets(kind, n_step, terminates, drop):
    algorithm, config = kind
    env = Decay(terminates=terminates, agents=AGENTS, drop=drop)
    made = algorithm(env, config(hidden=(4,), buffer_size=1000))
    learner = made.learners["agent"]
    collect(made)
    number = torch.arange(STEPS * env.num_envs * AGENTS)
    batch = learner.replay.take(number, GAMMA, n_step)
    following = torch.where(batch.terminated, 0.0, value(batch.next_observation[:, 0]))
    got = (batch.reward + batch.discount * following).view(STEPS, env.num_envs, AGENTS)
    want = targets(STEPS, terminates, AGENTS, drop=drop)
    on = counted(drop).expand_as(want)
    assert torch.equal(batch.active.view_as(want), on)
    # an agent that will drop out, or an end that is too far away to be seen, is not known to fewer steps
    known = on.clone()
    if n_step < LENGTH:
        step = torch.arange(STEPS) % LENGTH
        if terminates:
            known &= (step + n_step >= LENGTH)[:, None, None]
        if drop:
            known[..., -1] &= (step + n_step >= drop)[:, None]
    assert known.any()
    torch.testing.assert_close(got[known], want[known], rtol=1e-5, atol=1e-5)


# Steps that stand for several control steps: the value functions of a semi-Markov process are the same, since what the steps
# do is; the sums of rewards up to an end count control steps.

DURATIONS = (3, 1, 4, 2, 7)
SPANS = pytest.mark.parametrize("apart", [False, True])


def smdp_targets(terminates: bool, apart: bool, worlds: int) -> Tensor:
    """[STEPS, worlds, AGENTS]: ``o (1 - (gamma beta)^left) / (1 - gamma beta)`` with the control steps left."""
    out = torch.zeros(STEPS, worlds, AGENTS)
    for a in range(AGENTS):
        own = [DURATIONS[(t + a * apart) % len(DURATIONS)] for t in range(LENGTH)]
        for t in range(STEPS):
            before, left = sum(own[: t % LENGTH]), sum(own[t % LENGTH :])
            o = 0.8**before * (a + 1) * torch.arange(1.0, worlds + 1)
            out[t, :, a] = value(o) * (1.0 - (GAMMA * 0.8) ** left if terminates else 1.0)
    return out


@SPANS
@TERMINATES
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_ppo_value_targets_of_options(lam, terminates, apart):
    config = PPOConfig(
        rollout_steps=STEPS, minibatches=1, gamma=GAMMA, lam=lam, hidden=(), normalize_observations=False,
        normalize_values=False, obs_clip=1e6,
    )  # fmt: skip
    ppo = PPO(Decay(terminates=terminates, agents=AGENTS, durations=DURATIONS, apart=apart), config)
    learner = ppo.learners["agent"]
    exact(learner.critic)
    last = collect(ppo)
    got = learner.grid(learner.samples(last["agent"], None, None).value_target, STEPS)
    want = smdp_targets(terminates, apart, ppo.env.num_envs)
    if terminates and lam == 0.0:  # the critic knows no end
        got, want = got[LENGTH - 1 :: LENGTH], want[LENGTH - 1 :: LENGTH]
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@SPANS
@TERMINATES
@pytest.mark.parametrize("n_step", [1, 2, STEPS])
@pytest.mark.parametrize("kind", [(SAC, SACConfig), (TD3, TD3Config)])
def test_critics_targets_of_options(kind, n_step, terminates, apart):
    algorithm, config = kind
    env = Decay(terminates=terminates, agents=AGENTS, durations=DURATIONS, apart=apart)
    settings = {"hidden": (), "buffer_size": 1000, "normalize_observations": False, "obs_clip": 1e6}
    made = algorithm(env, config(**settings))
    learner = made.learners["agent"]
    with torch.no_grad():
        for parameter in learner.targets.parameters():
            parameter.zero_()
        learner.targets.weights[0][:, 0, 0] = 1.0 / (1.0 - GAMMA * 0.8)  # of the observation, not of the action
    collect(made)
    batch = learner.replay.take(torch.arange(STEPS * env.num_envs * AGENTS), GAMMA, n_step)
    got = learner.backup(batch, learner.norm.normalize(batch.next_observation), batch.action, made._generator)
    want = smdp_targets(terminates, apart, env.num_envs)
    got = got.detach().view_as(want)
    if terminates:
        known = torch.arange(STEPS) % LENGTH + n_step >= LENGTH
        got, want = got[known], want[known]
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


def test_one_control_step_is_no_option_and_none_is_refused():
    """So that nothing changes, to the bit, where every step is one control step."""
    assert elapsed({}, "a") is None
    assert elapsed({"elapsed": torch.ones(3, dtype=torch.int64)}, "a") is None
    assert elapsed({"elapsed": {"b": torch.full((3, 2), 2)}}, "a") is None
    assert elapsed({"elapsed": torch.tensor([1, 2])}, "a").tolist() == [[1], [2]]
    with pytest.raises(RookeryError, match="at least 1 control step, got elapsed 0"):
        elapsed({"elapsed": torch.tensor([0, 2])}, "a")
