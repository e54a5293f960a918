"""One update against a plain implementation with autograd, masks, separate weights, and settings."""

from __future__ import annotations

import copy
import dataclasses

import pytest
import torch
from policies_drift import Drift
from policies_drive import Drive, mean_actions
from policies_fake import FakeEnv
from torch import nn

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_rates import adapt_learning_rate, schedule_learning_rate
from rookery.policies.algorithms.ppo_targets import final_values
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

BASE = PPOConfig(
    rollout_steps=12, epochs=2, minibatches=3, hidden=(16, 8), schedule="fixed", entropy_coef=0.01, gamma=0.97
)


def sequential(mlp) -> nn.Sequential:
    parts: list[nn.Module] = []
    for w, b in zip(mlp.weights, mlp.biases, strict=True):
        layer = nn.Linear(w.shape[1], w.shape[2])
        layer.weight.data.copy_(w[0].T)
        layer.bias.data.copy_(b[0, 0])
        parts += [layer, nn.Tanh()]
    return nn.Sequential(*parts[:-1])


def flat(net: nn.Sequential) -> torch.Tensor:
    return torch.cat([t.flatten() for m in net if isinstance(m, nn.Linear) for t in (m.weight.T, m.bias)])


def plain_update(ppo: PPO, last_obs: dict[str, torch.Tensor]) -> torch.Tensor:
    """PPO's update as one would write it down, on copies; returns the new parameters.

    Takes only the collected rollout and the initial weights from the trainer.
    """
    c, a = ppo.config, ppo.learners["point"]
    actor = sequential(a.actor)
    critic = sequential(a.critic)
    log_std = nn.Parameter(a.log_std[0, 0].clone())
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_std], lr=c.learning_rate, eps=1e-5)
    generator = torch.Generator()
    generator.set_state(ppo._generator.get_state())
    r = a.rollout
    env = ppo.env
    see = lambda x: ((x - a.observations.mean) / a.observations.std).clamp(-c.obs_clip, c.obs_clip)  # noqa: E731
    obs = r.observation
    last = see(last_obs["point"])
    state = r.state
    last_state = env.state
    steps, worlds, count, _ = obs.shape
    critic_in = obs
    critic_last = last
    if state is not None:
        look = lambda s, o: torch.cat((s.unsqueeze(-2).expand(*o.shape[:-1], s.shape[-1]), o), -1)  # noqa: E731
        critic_in = look(state, obs)
        critic_last = look(last_state, last)
    active = torch.ones(steps, worlds, count, dtype=torch.bool) if r.active is None else r.active
    last_active = (env.active or {"point": torch.ones(worlds, count, dtype=torch.bool)})["point"]
    with torch.no_grad():
        value = critic(critic_in).squeeze(-1)
        last_value = critic(critic_last).squeeze(-1)
        final = torch.zeros_like(value)
        for t, ids, o, s in r.finals:
            final[t, ids] = critic(o if s is None else look(s, o)).squeeze(-1)
        advantage = torch.zeros_like(value)
        carry = torch.zeros(worlds, count)
        for t in reversed(range(steps)):
            on = (last_active if t == steps - 1 else active[t + 1]).float()
            cut = r.truncated[t].unsqueeze(1).float()
            end = r.terminated[t].unsqueeze(1).float()
            following = last_value if t == steps - 1 else value[t + 1]
            following = cut * final[t] + (1 - cut) * (1 - end) * on * following
            delta = r.reward[t] + c.gamma * following - value[t]
            carry = delta + c.gamma * c.lam * (1 - cut) * (1 - end) * on * carry
            advantage[t] = carry
        returns = advantage + value
        adv = advantage[active]
        advantage = (advantage - adv.mean()) / (adv.std(correction=0) + 1e-8)
        if c.normalize_values:
            x = returns[active].double()  # one update of the debiased averages is the batch's own mean and variance
            mean = x.mean()
            var = (x.square().mean() - x.mean() ** 2).clamp(min=1e-2)
            returns = ((returns - mean) / var.sqrt()).float()
        old = torch.distributions.Normal(actor(obs), log_std.exp()).log_prob(r.action).sum(-1)
    rows = lambda x: x.reshape(steps * worlds * count, *x.shape[3:])  # noqa: E731
    obs, critic_in, action, old, advantage, returns, value, active = map(
        rows, (obs, critic_in, r.action, old, advantage, returns, value, active)
    )
    for _ in range(c.epochs):
        order = torch.randperm(len(old), generator=generator)
        size = len(old) // c.minibatches
        for k in range(c.minibatches):
            i = order[k * size : (k + 1) * size]
            i = i[active[i]]
            policy = torch.distributions.Normal(actor(obs[i]), log_std.exp())
            ratio = (policy.log_prob(action[i]).sum(-1) - old[i]).exp()
            surrogate = torch.min(ratio * advantage[i], ratio.clamp(1 - c.clip, 1 + c.clip) * advantage[i]).mean()
            new = critic(critic_in[i]).squeeze(-1)
            distance = (
                nn.MSELoss(reduction="none")
                if c.value_loss == "mse"
                else nn.HuberLoss(reduction="none", delta=c.huber_delta)
            )
            half = 0.5 if c.value_loss == "mse" else 1.0
            value_loss = half * distance(new, returns[i])
            if c.value_clip is not None:
                near = value[i] + (new - value[i]).clamp(-c.value_clip, c.value_clip)
                value_loss = torch.max(value_loss, half * distance(near, returns[i]))
            entropy = policy.entropy().sum(-1).mean()
            loss = -surrogate + c.value_coef * value_loss.mean() - c.entropy_coef * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], c.max_grad_norm)
            optimizer.step()
    return torch.cat((flat(actor), flat(critic), log_std)).detach()


CASES = {
    "plain": {},
    "raw values": {"normalize_values": False, "value_coef": 0.5, "value_clip": 0.2},
    "huber": {"value_loss": "huber", "huber_delta": 0.3, "value_clip": 0.1},
    "central critic": {"critic": "central", "critic_hidden": (24,)},
    "hard clip": {"clip": 0.01, "learning_rate": 3e-3, "max_grad_norm": 0.1},
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("drop_out", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_update_equals_a_plain_implementation(case, drop_out, compiled):
    config = dataclasses.replace(BASE, **CASES[case], compiled=compiled)
    ppo = PPO(FakeEnv(10, agents=2, act=2, horizon=9, limit=1.5, drop_out=drop_out), config)
    ppo.learners["point"].chunk = 32  # several chunks in each thread's part, the last one smaller
    ppo.learners["point"].divide(2)
    drive = Drive(ppo)
    drive.collect()
    roll = ppo.learners["point"].rollout
    assert roll.truncated.any() and roll.terminated.any() and (roll.active is not None) == drop_out
    want = plain_update(ppo, drive.obs)
    before = ppo.learners["point"].parameters[0].clone()
    ppo.update(0.0)
    got = ppo.learners["point"].parameters[0]
    assert (want - before).abs().max() > 1e-3
    torch.testing.assert_close(got, want, rtol=0.0, atol=1e-5)


def test_what_inactive_agents_see_and_earn_changes_nothing():
    results = []
    for garbage in (False, True):
        ppo = PPO(FakeEnv(10, agents=3, horizon=9, drop_out=True), BASE)
        Drive(ppo).collect()
        roll = ppo.learners["point"].rollout
        assert roll.active is not None and not roll.active.all()
        if garbage:
            off = ~roll.active
            for x in (roll.observation, roll.action, roll.noise, roll.reward):
                x[off] = 7.0
        figures = ppo.update(0.0)
        results.append((ppo.learners["point"].parameters.clone(), figures))
    (a, first), (b, second) = results
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    for key, value in first.items():
        assert value == pytest.approx(second[key], rel=1e-4, abs=1e-6), key


def test_separate_weights_learn_as_single_learners_would():
    config = dataclasses.replace(BASE, share=False)
    ppo = PPO(FakeEnv(10, agents=3, horizon=9), config)
    drive = Drive(ppo)
    drive.collect()
    a = ppo.learners["point"]
    a.parameters += 0.1 * torch.randn(a.parameters.shape, generator=torch.Generator().manual_seed(0))
    samples = a.samples(drive.obs["point"], None, None)
    singles = []
    for g in range(3):
        single = PPO(FakeEnv(10, agents=1, horizon=9), BASE)
        single.learners["point"].parameters.copy_(a.parameters[g : g + 1])
        mine = copy.copy(samples)
        for name, x in vars(samples).items():
            setattr(mine, name, None if x is None else x[g : g + 1].clone())
        figures = torch.stack([single.learn(single.learners["point"], mine, slice(0, 60), 60) for _ in range(3)])
        singles.append((single.learners["point"].parameters, figures))
    figures = torch.stack([ppo.learn(a, samples, slice(0, 60), 60) for _ in range(3)])
    torch.testing.assert_close(a.parameters, torch.cat([p for p, _ in singles]), rtol=0.0, atol=1e-5)
    torch.testing.assert_close(figures, torch.cat([f for _, f in singles], -1), rtol=1e-4, atol=1e-5)


def test_separate_advantages_and_rows_belong_to_their_agents():
    ppo = PPO(FakeEnv(6, agents=3, horizon=5), dataclasses.replace(BASE, share=False))
    a = ppo.learners["point"]
    x = torch.arange(12 * 6 * 3).view(12, 6, 3).float()
    rows = a.rows(x.unsqueeze(-1)).squeeze(2)
    for g in range(3):
        assert torch.equal(rows[g], x[..., g].reshape(-1))
    assert torch.equal(a.grid(rows, 12), x)
    obs = torch.randn(6, 3, 3)
    mean = a.mean_action(obs).clone()
    for g, policy in enumerate(ppo.policies().values()):
        torch.testing.assert_close(policy(obs[:, g]), mean[:, g].clamp(-1, 1), rtol=1e-4, atol=1e-5)


def test_training_starts_at_the_neutral_action_and_policies_travel():
    env = FakeEnv(16, agents=2, act=3)
    ppo = PPO(env, BASE)
    obs, _ = env.reset()
    assert (mean_actions(ppo, obs)["point"] - 0.1).abs().max() < 0.1
    Drive(ppo).iterate(3)
    obs, _ = env.reset()
    learner = ppo.learners["point"]
    mean = learner.mean_action(learner.observations.normalize(obs["point"])).clamp(-1.0, 1.0)
    torch.testing.assert_close(ppo.policies()["point"](obs["point"]), mean, rtol=1e-5, atol=1e-6)


def test_adaptive_rate_falls_and_rises_by_half():
    ppo = PPO(FakeEnv(8), dataclasses.replace(BASE, schedule="adaptive", target_kl=0.01, learning_rate=1e-3))
    a = ppo.learners["point"]
    rates = []
    for kl, last in ((0.03, False), (0.001, False), (0.001, True), (0.01, True), (0.03, True)):
        adapt_learning_rate(ppo.config, a, torch.tensor([kl]), last)
        rates.append(a.learning_rate.item())
    want = [1e-3 / 1.5, 1e-3 / 1.5, 1e-3, 1e-3, 1e-3 / 1.5]
    assert rates == pytest.approx(want, rel=1e-5)
    for _ in range(40):
        adapt_learning_rate(ppo.config, a, torch.tensor([1.0]), True)
    assert a.learning_rate.item() == pytest.approx(ppo.config.learning_rate_min)


@pytest.mark.parametrize("asked", [1e-6, 0.5])
def test_the_adaptive_rate_begins_where_it_was_asked_to(asked):
    """Below and above the default bounds: it was 1.5e-5 after the first update for a rate of 1e-6."""
    ppo = PPO(FakeEnv(8), dataclasses.replace(BASE, schedule="adaptive", target_kl=0.01, learning_rate=asked))
    a = ppo.learners["point"]
    adapt_learning_rate(ppo.config, a, torch.tensor([0.01]), True)
    assert a.learning_rate.item() == pytest.approx(asked)
    towards = 0.001 if asked < 1e-3 else 0.03
    adapt_learning_rate(ppo.config, a, torch.tensor([towards]), True)
    assert a.learning_rate.item() == pytest.approx(asked * 1.5 if asked < 1e-3 else asked / 1.5)


def test_bounds_of_the_adaptive_rate_in_the_wrong_order_are_refused():
    with pytest.raises(RookeryError, match=r"learning_rate_min is 0\.1 and learning_rate_max 0\.01"):
        dataclasses.replace(BASE, learning_rate_min=0.1)


def test_after_the_critics_warm_up_the_adaptive_rate_begins_anew_with_a_share_of_the_rate():
    """Two updates of the critic alone, whose rate stays; then a third of the rate, which is adapted from there."""
    config = dataclasses.replace(BASE, schedule="adaptive", critic_warmup=2, learning_rate=3e-3)
    ppo = PPO(FakeEnv(8), config)
    a = ppo.learners["point"]
    rates = []
    for updates in range(5):
        ppo.updates = updates
        a.learning_rate.fill_(7e-4)
        schedule_learning_rate(config, a, updates, 0.1)
        rates.append(a.learning_rate.item())
    assert rates == pytest.approx([7e-4, 7e-4, 1e-3, 7e-4, 7e-4])


def test_samples_are_shuffled_in_the_same_memory_whether_or_not_all_take_part():
    ppo = PPO(FakeEnv(8, agents=2), BASE)
    drive = Drive(ppo)
    drive.collect()
    a = ppo.learners["point"]
    whole = a.samples(drive.obs["point"], None, None)
    rows = whole.advantage.shape[1]
    whole.advantage.copy_(torch.arange(rows))
    some = dataclasses.replace(whole, active=whole.advantage % 3 == 0)
    generator = torch.Generator().manual_seed(0)
    addresses = set()
    for samples in (whole, whole, some, some, whole):
        for batch, _, _ in a.epoch(samples, generator):
            addresses.add(batch.advantage.data_ptr())
        assert batch.advantage[0].sort().values.tolist() == list(range(rows))
        assert (batch.active is None) == (samples.active is None)
        assert batch.active is None or torch.equal(batch.active, batch.advantage % 3 == 0)
    assert len(addresses) == 1


def test_linear_rate_reaches_zero_at_the_end():
    drive = Drive(PPO(FakeEnv(8), dataclasses.replace(BASE, schedule="linear", learning_rate=1e-3)))
    rates = [drive.iterate(progress=k / 4)["point/learning_rate"] for k in range(4)]
    assert rates == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


def test_it_learns(tmp_path):
    ppo = PPO(FakeEnv(32), PPOConfig(gamma=0.95, hidden=(16,)))
    config = RunnerConfig(total_steps=32 * 32 * 100, target_success=0.9, success_window=100)
    runner = Runner(ppo, config, tmp_path)
    assert runner.run(lambda row: None) == "success"
    assert runner.episodes.success >= 0.9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation": "tan"}, "did you mean 'tanh'"),
        ({"schedule": "adaptiv"}, "did you mean 'adaptive'"),
        ({"gamma": 1.5}, "from 0 to 1"),
        ({"epochs": 0}, "at least 1"),
        ({"learning_rate": 0.0}, "above 0"),
        ({"hidden": 64}, r"hidden is 64: give a list of whole numbers"),
        ({"hidden": (-4,)}, r"hidden is \(-4,\).*at least 1"),
        ({"hidden": (6.5,)}, "give a list of whole numbers"),
        ({"epochs": 2.5}, "epochs is 2.5: give a whole number"),
        ({"epochs": True}, "epochs is True: give a whole number"),
        ({"learning_rate": "fast"}, "learning_rate is 'fast': give a number"),
        ({"learning_rate": float("nan")}, "learning_rate is nan: give a number"),
        ({"normalize_values": 1}, "normalize_values is 1: give true or false"),
        ({"schedule": 3}, "schedule is 3: give fixed or linear or adaptive"),
        ({"separate": ("a", 1)}, "give a list of names"),
        ({"mirror": True}, "normalize_observations=false"),
        ({"mirror": True, "normalize_observations": False, "estimator": "predict"}, "estimator=off"),
        ({"critic_hidden": "wide"}, "give a list of whole numbers.* or null"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(RookeryError, match=words):
        PPOConfig(**settings)


def test_environments_that_do_not_fit_are_refused():
    with pytest.raises(RookeryError, match="minibatches"):
        PPO(FakeEnv(1), dataclasses.replace(BASE, rollout_steps=1, minibatches=4))
    with pytest.raises(RookeryError, match="separate names group"):
        PPO(FakeEnv(4), dataclasses.replace(BASE, separate=("nobody",)))
    with pytest.raises(RookeryError, match="vector reward"):
        Drive(PPO(FakeEnv(4, vector=True), BASE)).collect()
    with pytest.raises(RookeryError, match="act and observe"):
        PPO(FakeEnv(4), BASE).update(0.0)


def test_diverged_training_is_a_sentence(tmp_path):
    env = FakeEnv(4)
    ppo = PPO(env, BASE)
    env.step = lambda actions, step=env.step: (lambda o, r, *rest: (o, {"point": r["point"] * float("nan")}, *rest))(
        *step(actions)
    )
    with pytest.raises(RookeryError, match="diverged"):
        Runner(ppo, RunnerConfig(), tmp_path).iterate()


@pytest.mark.parametrize("critic", ["own", "central"])
def test_truncated_worlds_are_bootstrapped_from_their_own_last_observations(critic):
    ppo = PPO(FakeEnv(10, agents=2, horizon=9, limit=1.5), dataclasses.replace(BASE, critic=critic))
    learner = ppo.learners["point"]
    env = ppo.env
    wanted = torch.zeros_like(learner.rollout.reward)
    step = env.step

    def noting(actions):
        result = step(actions)
        truncated = result[3]
        info = result[4]
        if truncated.any():  # the normalizers are at their start: they change nothing within their limits
            state = info["final_state"] if critic == "central" else None
            inputs = learner.critic_input(info["final_observation"]["point"], state)
            values = learner.values(inputs).view(10, 2)
            wanted[ppo._step] = torch.where(truncated[:, None], values, 0.0)
        return result

    env.step = noting
    drive = Drive(ppo)
    env.reset()
    drive.collect()
    truncated = learner.rollout.truncated
    assert (truncated.sum(1) > 0).any() and not truncated[:, 0].all()
    torch.testing.assert_close(final_values(learner, lambda x: x), wanted)
    assert wanted.abs().max() > 0.05


@pytest.mark.parametrize("critic", ["own", "central"])
def test_the_last_observation_is_normalized_before_the_critic_sees_it(critic):
    """By statistics far from those at the start, by hand: (x - mean) / std within obs_clip."""
    config = dataclasses.replace(BASE, critic=critic, obs_clip=3.0)
    ppo = PPO(FakeEnv(10, agents=2, horizon=9, limit=100.0), config)
    learner = ppo.learners["point"]
    mean, std = torch.tensor([0.7, -0.4, 0.2]), torch.tensor([0.2, 0.5, 0.1])
    learner.observations.set_statistics(mean, std, torch.ones(3, dtype=torch.bool))
    if critic == "central":
        learner.states.set_statistics(mean.repeat(2), std.repeat(2), torch.ones(6, dtype=torch.bool))
    notes = []
    step = ppo.env.step

    def noting(actions):
        result = step(actions)
        if result[3].any():
            notes.append((ppo._step, result[3], result[4]["final_observation"]["point"], result[4]["final_state"]))
        return result

    ppo.env.step = noting
    Drive(ppo).collect()
    got = final_values(learner, lambda x: x)
    assert notes
    for t, truncated, obs, state in notes:
        x = ((obs - mean) / std).clamp(-3.0, 3.0)
        if critic == "central":
            s = ((state - mean.repeat(2)) / std.repeat(2)).clamp(-3.0, 3.0)
            x = torch.cat((s[:, None].expand(-1, 2, -1), x), dim=-1)
        wanted = learner.critic.forward(x.reshape(1, 20, -1).contiguous())[0].view(10, 2)
        torch.testing.assert_close(got[t][truncated], wanted[truncated])
    assert got.abs().max() > 0.05


def test_the_adaptive_rate_follows_each_epoch_and_rises_only_after_the_last(monkeypatch):
    config = dataclasses.replace(BASE, schedule="adaptive", epochs=3, minibatches=2)
    ppo = PPO(FakeEnv(8), config)
    divergence = iter([0.01, 0.03, 0.05, 0.07, 0.09, 0.11])

    def learn(learner, batch, rows, count):
        figures = torch.zeros(5, 1)
        figures[2] = next(divergence)
        return figures

    calls = []
    ppo.learn = learn
    monkeypatch.setattr(
        "rookery.policies.algorithms.ppo.adapt_learning_rate",
        lambda c, learner, approx_kl, last: calls.append((approx_kl.item(), last)),
    )
    Drive(ppo).iterate()
    assert [last for _, last in calls] == [False, False, True]
    assert [kl for kl, _ in calls] == pytest.approx([0.02, 0.06, 0.10])


def test_a_group_named_in_separate_learns_a_policy_for_each_agent():
    ppo = PPO(FakeEnv(8, agents=3), dataclasses.replace(BASE, separate=("point",)))
    assert list(ppo.policies()) == ["point_0", "point_1", "point_2"]
    assert list(PPO(FakeEnv(8, agents=3), BASE).policies()) == ["point"]


def test_an_agent_that_drops_out_after_the_last_row_is_not_bootstrapped():
    env = FakeEnv(4, agents=2, horizon=24, limit=100.0, drop_out=True)
    ppo = PPO(env, dataclasses.replace(BASE, normalize_values=False, lam=1.0, gamma=1.0, normalize_advantages=False))
    drive = Drive(ppo)
    drive.obs, _ = env.reset()
    drive.collect()  # 12 steps: the second agent takes part in all of them, and then drops out
    samples = ppo.learners["point"].samples(drive.obs["point"], None, env.active["point"])
    assert samples.active.all() and not env.active["point"][:, 1].any()
    rewards = ppo.learners["point"].rollout.reward.sum(0)
    returns = samples.value_target.view(12, 4, 2)[0]
    torch.testing.assert_close(returns[:, 1], rewards[:, 1], rtol=1e-4, atol=1e-4)
    assert (returns[:, 0] - rewards[:, 0]).abs().max() > 1e-3


def test_the_normalizer_counts_active_agents_alone():
    env = FakeEnv(6, agents=2, horizon=12, limit=100.0, drop_out=True)
    drive = Drive(PPO(env, BASE))
    drive.obs, _ = env.reset()
    drive.collect()
    learner = drive.algorithm.learners["point"]
    roll = learner.rollout
    assert roll.active is not None and not roll.active.all()
    observed = roll.observation[roll.active]  # as given: the normalizer is at its start
    drive.algorithm.update(0.0)
    torch.testing.assert_close(learner.observations.mean, observed.mean(0), rtol=1e-4, atol=1e-5)


def test_the_critic_has_its_own_hidden_layers_or_the_policys():
    for given, wanted in (((24,), (24,)), (None, (16, 8))):
        learner = PPO(FakeEnv(8), dataclasses.replace(BASE, critic_hidden=given)).learners["point"]
        assert learner.critic.sizes == (3, *wanted, 1)
        assert learner.actor.sizes == (3, 16, 8, 1)


def test_figures_are_means_over_minibatches_and_components():
    ppo = PPO(FakeEnv(8, agents=2, act=3), dataclasses.replace(BASE, epochs=2, minibatches=2, learning_rate=1e-9))
    learner = ppo.learners["point"]
    std = torch.tensor([0.2, 0.5, 1.1])
    learner.log_std.copy_(std.log().expand_as(learner.log_std))
    learn, sums = ppo.learn, []
    ppo.learn = lambda *args: sums.append(learn(*args)) or sums[-1]
    figures = Drive(ppo).iterate()
    assert len(sums) == 4
    for i, name in enumerate(("policy_loss", "value_loss", "approx_kl", "clip_fraction")):
        assert figures[f"point/{name}"] == pytest.approx(torch.stack(sums)[:, i].mean().item(), rel=1e-5, abs=1e-9)
    assert figures["point/std"] == pytest.approx(0.6, rel=1e-4)
    entropy = torch.distributions.Normal(0.0, std).entropy().sum().item()
    assert figures["point/entropy"] == pytest.approx(entropy, rel=1e-4)
    assert figures["point/learning_rate"] == pytest.approx(1e-9)


def test_where_no_mask_is_given_everyone_takes_part():
    roll = PPO(FakeEnv(4, agents=2), BASE).learners["point"].rollout
    roll.set_active(0, torch.zeros(4, 2, dtype=torch.bool))
    roll.set_active(1, None)
    assert not roll.active[0].any() and roll.active[1].all()


def test_an_update_takes_a_whole_rollout() -> None:
    env = FakeEnv(4)
    ppo = PPO(env, BASE)
    obs, _ = env.reset()
    for steps in range(2):
        with pytest.raises(RookeryError, match=rf"update\(\) has {steps} of 12 steps to learn from"):
            ppo.update(0.0)
        actions = ppo.act(obs)
        result = env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]


def test_the_estimators_targets_are_scaled_by_those_who_take_part() -> None:
    env = Drift(8, agents=2)
    ppo = PPO(env, dataclasses.replace(BASE, estimator="predict", estimator_hidden=(8,)))
    taking_part = torch.arange(16).view(8, 2) % 3 > 0
    env.taking_part = {"point": taking_part}
    obs, _ = env.reset()
    seen = []
    for _ in range(ppo.rollout_steps):
        seen.append(env.privileged_targets["point"][taking_part])
        actions = ppo.act(obs)
        result = env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
    ppo.update(0.0)
    scale = ppo.learners["point"].estimator.scale
    torch.testing.assert_close(scale.mean, torch.cat(seen).mean(0))
    torch.testing.assert_close(scale.std, torch.cat(seen).std(0, correction=0))
