"""PPO's compiled gradients and updates against those of torch, which are the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_learner import GroupLearner
from rookery.policies.storage.rollout import Samples

BASE = PPOConfig(rollout_steps=20, epochs=2, minibatches=3, hidden=(16, 8), schedule="fixed", clip=0.1)
CASES = {
    "tanh": BASE,
    "relu, one layer": replace(BASE, activation="relu", hidden=(33,)),
    "elu, three layers": replace(BASE, activation="elu", hidden=(24, 7, 12)),
    "widest": replace(BASE, hidden=(128, 128, 128), critic_hidden=(128, 64)),
    "central critic": replace(BASE, critic="central", critic_hidden=(24,)),
    "huber": replace(BASE, value_loss="huber", huber_delta=0.3, value_coef=0.4),
    "value clip": replace(BASE, value_clip=0.2),
    "huber and value clip": replace(BASE, value_clip=0.2, value_loss="huber", huber_delta=0.5),
    "own weights": replace(BASE, share=False),
}


def make(config: PPOConfig, compiled: bool) -> tuple[PPO, GroupLearner]:
    ppo = PPO(FakeEnv(30, agents=2, act=3, horizon=9, limit=1.5), replace(config, compiled=compiled), seed=3)
    learner = ppo.learners["point"]
    assert bool(learner.compiled) == compiled
    # Far from the initial weights, whose last layer is too small to tell one gradient from another.
    learner.parameters += 0.2 * torch.randn(learner.parameters.shape, generator=torch.Generator().manual_seed(4))
    return ppo, learner


def samples(learner: GroupLearner, rows: int, masked: bool) -> Samples:
    """Random ones, for which ratios and values are on both sides of their limits."""
    g = torch.Generator().manual_seed(5)
    shape = (learner.sets, rows)
    actor_input = torch.randn(*shape, learner.actor.inputs, generator=g)
    same = learner.critic.inputs == learner.actor.inputs
    critic_input = actor_input if same else torch.randn(*shape, learner.critic.inputs, generator=g)
    noise = torch.randn(*shape, learner.actor.outputs, generator=g)
    action = learner.actor.forward(actor_input) + learner.log_std.exp() * noise
    now = -0.5 * noise.square().sum(-1) - learner.log_std.sum(-1)
    log_prob = now + 0.2 * torch.randn(shape, generator=g)
    log_prob[:, 0] = -40.0  # beyond the limit of the ratio
    advantage, value_target = torch.randn(2, *shape, generator=g)
    value = learner.critic.forward(critic_input).squeeze(2) + 0.4 * torch.randn(shape, generator=g)
    active = torch.rand(shape, generator=g) < 0.7 if masked else None
    return Samples(actor_input, critic_input, action, log_prob, advantage, value_target, value, active)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("rows", [5, 128, 301])
@pytest.mark.parametrize("case", CASES)
def test_gradients_equal_those_of_torch(case: str, rows: int, masked: bool) -> None:
    """On rows that begin amid the samples; torch's gradients are checked against autograd in test_ppo.py."""
    reference, by_torch = make(CASES[case], False)
    _, learner = make(CASES[case], True)
    batch = samples(learner, rows + 3, masked)
    part = slice(3, rows + 3)
    count = rows if batch.active is None else batch.active[:, part].sum(1, keepdim=True)
    want_figures = reference.loss_gradients(by_torch, by_torch.workers[0], batch, part, count)
    want = by_torch.gradients
    learner.gradients.fill_(7.0)  # left over from before
    figures = learner.compiled[0].compute(batch, part, count, False)
    torch.testing.assert_close(learner.gradients, want, rtol=1e-4, atol=1e-5 * want.abs().max().item())
    torch.testing.assert_close(figures, want_figures, rtol=1e-4, atol=1e-5)
    if rows > 5:
        assert want_figures[3].min() > 0.0 and want_figures[3].max() < 1.0  # some ratios are clipped, and some not


def test_a_frozen_policy_has_no_gradient_in_either() -> None:
    reference, by_torch = make(replace(BASE, critic_warmup=1), False)
    _, learner = make(BASE, True)
    batch = samples(learner, 40, False)
    reference.loss_gradients(by_torch, by_torch.workers[0], batch, slice(0, 40), 40)
    learner.compiled[0].compute(batch, slice(0, 40), 40, True)
    assert not learner.gradients[:, -3:].any() and learner.gradients.any()
    torch.testing.assert_close(learner.gradients, by_torch.gradients, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("max_grad_norm", [1e-3, 1e3])
@pytest.mark.parametrize("updates", [1, 9])
def test_updates_equal_those_of_torch(updates: int, max_grad_norm: float) -> None:
    """After 6 and 54 optimizer steps on the same samples, with the norm clipped always and never."""
    ends = []
    for compiled in (True, False):
        config = replace(BASE, max_grad_norm=max_grad_norm, learning_rate=3e-4)
        _, learner = make(config, compiled)
        learner.divide(2)
        ppo = PPO(FakeEnv(30, agents=2, act=3, horizon=9, limit=1.5), replace(config, compiled=compiled), seed=3)
        ppo.learners["point"] = learner
        batch = samples(learner, 1200, True)
        g = torch.Generator().manual_seed(6)
        for _ in range(2 * updates):
            for minibatch, rows, count in learner.epoch(batch, g):
                ppo.learn(learner, minibatch, rows, count)
        ends.append(learner)
    mine, reference = ends
    assert mine.adam.steps == reference.adam.steps == 6 * updates
    for name in ("parameters", "first", "second"):
        got = getattr(mine if name == "parameters" else mine.adam, name)
        want = getattr(reference if name == "parameters" else reference.adam, name)
        assert (got - want).abs().max() < 1e-5 * want.abs().max(), name


@pytest.mark.parametrize("compiled", [True, False])
def test_a_resume_is_bit_equal(compiled: bool) -> None:
    config = replace(BASE, compiled=compiled)
    drives = [Drive(PPO(FakeEnv(30, agents=2, act=3, horizon=9, limit=1.5), config, seed=s)) for s in (3, 8)]
    first, second = drives
    for _ in range(2):
        first.collect()
        first.algorithm.update(0.0)
    second.algorithm.load_state_dict({k: v.clone() for k, v in first.algorithm.state_dict().items()})
    learners = [d.algorithm.learners["point"] for d in drives]
    batch = samples(learners[0], 1200, False)
    for learner, drive in zip(learners, drives, strict=True):
        drive.algorithm._learn_epochs(learner, batch)
    assert torch.equal(learners[0].parameters, learners[1].parameters)
    assert torch.equal(learners[0].adam.second, learners[1].adam.second)


def test_what_kernels_do_not_serve_learns_in_torch() -> None:
    for change in ({"hidden": (129,)}, {"hidden": (8,) * 4}, {"critic_hidden": (200,)}, {"compiled": False}):
        ppo = PPO(FakeEnv(30, agents=2, act=3), replace(BASE, **change))
        assert not ppo.learners["point"].compiled
