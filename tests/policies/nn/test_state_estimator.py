"""The auxiliary state estimator: gradients, the actor's input, resumes, and that it pays where a velocity is not measured."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drift import HORIZON, Drift
from policies_drive import Drive, mean_actions
from policies_fake import FakeEnv

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import load_policy, save_policy
from rookery.policies.training.warm_start import warm_start
from rookery.sim.errors import RookeryError

BASE = PPOConfig(
    rollout_steps=16, epochs=2, minibatches=2, hidden=(16,), estimator_hidden=(16, 8), estimator="predict",
    schedule="fixed", gamma=0.5,
)  # fmt: skip


def trained(env: Drift, config: PPOConfig, iterations: int = 2) -> PPO:
    ppo = PPO(env, config)
    Drive(ppo).iterate(iterations)
    return ppo


@pytest.mark.parametrize("mode", ["off", "predict", "privileged"])
def test_a_policy_without_an_estimator_is_taken_over_and_its_predictions_begin_without_influence(mode):
    config = dataclasses.replace(BASE, normalize_observations=True, critic_warmup=100)
    old = trained(Drift(8, history=1), dataclasses.replace(config, estimator="off"))
    groups = {"point": old.learners["point"].spec}
    new = PPO(Drift(8, history=3), dataclasses.replace(config, estimator=mode, actor_frames=1), 5)
    warm_start(new, old.policies(), groups)
    obs, _ = new.env.reset()
    want = old.policies()["point"](obs["point"][..., -1:])
    torch.testing.assert_close(mean_actions(new, obs, mode == "privileged")["point"], want, rtol=1e-4, atol=1e-5)
    wide = PPO(
        Drift(8, history=3), dataclasses.replace(config, estimator="off")
    )  # older frames begin without influence
    warm_start(wide, old.policies(), groups)
    torch.testing.assert_close(mean_actions(wide, obs, False)["point"], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("critic", ["own", "central"])
def test_gradient_equals_autograd_and_the_policy_has_no_part_in_it(masked, critic):
    env = Drift(40, agents=2)
    env.fixed_state = torch.zeros(40, 3)
    env.state_size = 3
    if masked:
        env.taking_part = {"point": torch.rand(40, 2, generator=torch.Generator().manual_seed(1)) < 0.7}
    ppo = PPO(env, dataclasses.replace(BASE, critic=critic, max_grad_norm=1e9, estimator_learning_rate=1e-9))
    a = ppo.learners["point"]
    a.chunk = 100
    a.divide(3)
    env.step = lambda actions, step=env.step: (lambda *out: (*out[:4], {}))(*step(actions))  # no final_state
    drive = Drive(ppo)
    drive.collect()
    active = None if env.active is None else env.active["point"]
    samples = a.samples(drive.obs["point"], env.state if critic == "central" else None, active)
    size = samples.advantage.shape[1]
    count = size if samples.active is None else samples.active.sum(1, keepdim=True)
    sums = ppo.learn(a, samples, slice(0, size), count)
    mlp = a.estimator.network
    weights = [p[0].clone().requires_grad_() for pair in zip(mlp.weights, mlp.biases, strict=True) for p in pair]
    x = a.rollout.observation.reshape(size, -1)
    for k in range(0, len(weights), 2):
        x = x @ weights[k] + weights[k + 1]
        x = x.tanh() if k + 2 < len(weights) else x
    error = (x - a.rollout.privileged_targets.reshape(size, -1)).square().mean(-1)
    on = slice(None) if not masked else a.rollout.active.reshape(-1)
    error[on].mean().backward()
    want = torch.cat([w.grad.flatten() for w in weights])
    assert want.abs().max() > 1e-3
    torch.testing.assert_close(a.estimator.workers[0].gradients[0], want, rtol=0.0, atol=1e-6)
    assert sums[4].item() == pytest.approx(error[on].mean().item(), rel=1e-4)
    # The actor learns from what it saw when it acted: its samples are still as likely as they were.
    assert abs(sums[2].item()) < 1e-6 and sums[3].item() == 0.0


def test_input_of_the_actor():
    env = Drift(8, history=3, reveal=True)
    for mode in ("predict", "privileged"):
        ppo = PPO(env, dataclasses.replace(BASE, estimator=mode, normalize_observations=False))
        Drive(ppo).collect()
        a = ppo.learners["point"]
        actor_input = a.rollout.actor_input
        truth = a.rollout.privileged_targets
        obs = a.rollout.observation
        assert actor_input.shape[-1] == 1 + 3 and torch.equal(actor_input[..., :1], obs[..., -1:])
        if mode == "privileged":
            assert torch.equal(actor_input[..., 1:], truth)
        else:
            prediction = a.estimator.network.forward_agents(obs.flatten(0, 1)).view(truth.shape)
            torch.testing.assert_close(actor_input[..., 1], prediction[..., 0])  # the velocity is never revealed
            assert torch.equal(actor_input[:, ::2, :, 2:], truth[:, ::2, :, 1:])
            torch.testing.assert_close(actor_input[:, 1::2, :, 2:], prediction[:, 1::2, :, 1:])
    both = PPO(env, dataclasses.replace(BASE, actor_frames=2)).learners["point"]
    assert both.actor_inputs == 2 and both.actor.inputs == 2 + 3
    alone = PPO(env, dataclasses.replace(BASE, estimator="off"))
    assert alone.learners["point"].actor_inputs == 3 and alone.learners["point"].rollout.actor_input is None
    short = trained(env, dataclasses.replace(BASE, estimator="off", actor_frames=1))
    obs, _ = env.reset()
    a = short.learners["point"]
    mean = a.mean_action(a.actor_input(a.observations.normalize(obs["point"]), None, None)).clamp(-1.0, 1.0)
    torch.testing.assert_close(short.policies()["point"](obs["point"]), mean, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("reveal", [True, False])
def test_stored_policies_act_as_the_trainer_does(tmp_path, share, reveal):
    env = Drift(8, agents=2, reveal=reveal)
    ppo = trained(env, dataclasses.replace(BASE, share=share))
    save_policy(tmp_path, ppo.policies(), {"groups": {"point": {}}})
    policies, _ = load_policy(tmp_path)
    obs, _ = env.reset()
    a = ppo.learners["point"]
    truth = a.estimator.scale.normalize(env.privileged_targets["point"])
    actor_input = a.actor_input(a.observations.normalize(obs["point"]), truth, env.reveal_future_mask)
    want = a.mean_action(actor_input).clamp(-1.0, 1.0)
    torch.testing.assert_close(act_with(policies, env)(obs)["point"], want, rtol=1e-4, atol=1e-5)
    env.reveal = not reveal
    assert not torch.allclose(act_with(policies, env)(obs)["point"], want, atol=1e-3)  # the test can fail
    first = next(iter(policies.values()))
    alone = obs["point"][:, 0]
    predicted = first(alone, first.predict(alone))
    torch.testing.assert_close(predicted, first(alone), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("share", [True, False])
def test_a_resumed_run_is_bit_equal(share):
    config = dataclasses.replace(BASE, share=share)
    straight = trained(Drift(8, 3, 2, True), config, 5).state_dict()
    first = Drive(PPO(Drift(8, 3, 2, True), config))
    first.iterate(3)
    second = Drive(PPO(Drift(8, 3, 2, True), config, seed=9))
    second.algorithm.load_state_dict({k: v.clone() for k, v in first.algorithm.state_dict().items()})
    second.env.load_state_dict(first.env.state_dict())
    second.obs = first.obs
    second.iterate(2)
    resumed = second.algorithm.state_dict()
    assert "point/estimator.adam.second" in straight and "context/privileged_targets.point" in straight
    assert straight.keys() == resumed.keys()
    for name, x in straight.items():
        assert torch.equal(x, resumed[name]), name


def reward(mode: str, **settings) -> float:
    """Mean reward of the deterministic policy after training."""
    config = dataclasses.replace(
        BASE, rollout_steps=32, epochs=4, minibatches=4, hidden=(32,), estimator_hidden=(32,), estimator=mode,
        learning_rate=3e-3, estimator_learning_rate=1e-2, **settings,
    )  # fmt: skip
    env = Drift(64, goal=False)
    ppo = trained(env, config, 36)
    obs, _ = env.reset()
    act = act_with(ppo.policies(), env, mode == "privileged")
    total = 0.0
    for _ in range(3 * HORIZON):
        obs, r, *_ = env.step(act(obs))
        total += r["point"].mean().item()
    return total / (3 * HORIZON)


@pytest.mark.slow
def test_prediction_pays_where_the_velocity_is_not_measured():
    # Acting without knowing the velocity earns -1/3, knowing it 0, and knowing it but at the first of an episode's 20
    # steps -1/60. A position tells a little of it, for that is where the velocity led.
    off = reward("off", actor_frames=1)
    predict = reward("predict")
    truth = reward("privileged")
    assert off < -0.25 and predict > -0.06 and truth > -0.02, (off, predict, truth)


def test_misfits_are_refused():
    with pytest.raises(RookeryError, match="no group of this task declares any"):
        PPO(FakeEnv(8), dataclasses.replace(BASE, estimator="privileged"))
    with pytest.raises(RookeryError, match="did you mean 'predict'"):
        PPOConfig(estimator="predic")
    with pytest.raises(RookeryError, match="actor_frames is 0"):
        PPOConfig(actor_frames=0)
    ppo = trained(Drift(8), BASE, 1)
    with pytest.raises(RookeryError, match="cannot be taken over"):
        warm_start(ppo, ppo.policies(), {"point": ppo.learners["point"].spec})


def test_the_statistics_of_targets_count_active_agents_alone():
    env = Drift(16, agents=2)
    env.taking_part = {"point": torch.tensor([[True, False]]).expand(16, 2)}
    ppo = PPO(env, dataclasses.replace(BASE, estimator="predict", normalize_observations=True))
    drive = Drive(ppo)
    drive.collect()
    learner = ppo.learners["point"]
    active = learner.rollout.active
    assert active is not None and not active.all()
    targets = learner.rollout.privileged_targets[active]  # as given: the statistics are at their start
    ppo.update(0.0)
    torch.testing.assert_close(learner.estimator.scale.mean, targets.mean(0), rtol=1e-4, atol=1e-5)
