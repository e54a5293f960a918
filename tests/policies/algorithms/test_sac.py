"""SAC against its equations: targets at the ends of episodes, log-probabilities, resume; and that it learns."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from policies_toy import ToyEnv, assert_resumes, distance, train
from sampled import slow_but
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.sac_learner import squashed_sample
from rookery.sim.errors import RookeryError

SMALL = SACConfig(rollout_steps=4, learning_starts=16, batch=32, buffer_size=400, hidden=(16,), learning_rate=3e-3)


def test_log_probabilities_are_those_of_a_transformed_distribution() -> None:
    g = torch.Generator().manual_seed(0)
    mean, log_std, noise = torch.randn(3, 500, 3, generator=g, dtype=torch.float64)
    action, log_prob = squashed_sample(mean, log_std, noise)
    normal = Independent(Normal(mean, log_std.exp()), 1)
    squashed = TransformedDistribution(normal, [TanhTransform(cache_size=1)])
    inside = (action.abs() < 1.0 - 1e-9).all(-1)
    assert inside.sum() > 400
    torch.testing.assert_close(log_prob[inside], squashed.log_prob(action)[inside], rtol=1e-6, atol=1e-6)
    assert torch.isfinite(squashed_sample(mean * 100, log_std, noise)[1]).all()


def test_samples_of_any_shape_are_those_of_their_rows() -> None:
    rows = torch.randn(3, 24, 3, generator=torch.Generator().manual_seed(1))
    want = squashed_sample(*rows)
    found = squashed_sample(*rows.view(3, 2, 4, 3, 3))
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one.flatten(0, 2), other)


def test_the_density_integrates_to_one() -> None:
    u = torch.linspace(-9.0, 9.0, 200_001, dtype=torch.float64)[:, None]
    mean = torch.full_like(u, 0.3)
    log_std = torch.full_like(u, -0.5)
    action, log_prob = squashed_sample(mean, log_std, (u - mean) / log_std.exp())
    assert torch.trapezoid(log_prob.exp(), action.squeeze(1)).item() == pytest.approx(1.0, abs=1e-4)


def constant_critics(sac: SAC, value: float) -> None:
    """Target critics that give position + value for every observation and action, the second one 5 more."""
    learner = sac.learners["point"]
    with torch.no_grad():
        for parameter in learner.targets.parameters():
            parameter.zero_()
        # One hidden layer of two units with relu: position = relu(position) - relu(-position).
        learner.targets.weights[0][:, 0, 0] = 1.0
        learner.targets.weights[0][:, 0, 1] = -1.0
        learner.targets.weights[1][:, 0, 0] = 1.0
        learner.targets.weights[1][:, 1, 0] = -1.0
        learner.targets.biases[1][0] = value
        learner.targets.biases[1][1] = value + 5.0


def test_targets_at_truncation_and_termination() -> None:
    """With Q'(s, a) = position + 7 and log pi known, every target is written down by hand."""
    config = SACConfig(
        rollout_steps=1, buffer_size=200, hidden=(2,), gamma=0.9, initial_temperature=0.5, normalize_observations=False
    )
    env = ToyEnv(2, horizon=3, limit=1.2)
    sac = SAC(env, config)
    constant_critics(sac, 7.0)
    learner = sac.learners["point"]
    obs, _ = env.reset()
    env.x[:] = torch.tensor([[0.0], [1.0]])
    obs = env._obs()
    rows = []
    # World 0 moves 0.25 a step and is truncated after 3 steps; world 1 passes 1.2 at once, and again at its third step.
    for _ in range(3):
        actions = {"point": torch.full((2, 1, 1), 0.5)}
        result = env.step(actions)
        sac.observe(obs, actions, result)
        after = result[4]["final_observation"] if "final_observation" in result[4] else result[0]
        rows.append((result[1]["point"][:, 0], after["point"][:, 0, 0], result[2], result[3]))
        obs = result[0]
    assert [bool(row[3][0]) for row in rows] == [False, False, True]
    assert bool(rows[0][2][1])
    slots = torch.tensor([0, 0, 1, 1, 2, 2])
    worlds = torch.tensor([0, 1, 0, 1, 0, 1])
    batch = learner.replay._take(slots, worlds, torch.zeros(6, dtype=torch.int64), 0.9)
    noise = torch.randn(6, 1, generator=torch.Generator().manual_seed(3))
    log_prob = learner.sample(batch.next_observation, noise)[1]
    wanted = []
    for i, (t, n) in enumerate(zip(slots.tolist(), worlds.tolist(), strict=True)):
        reward, position, terminated, _ = (v[n].item() for v in rows[t])
        value = position + 7.0 - 0.5 * log_prob[i].item()
        wanted.append(reward + (0.0 if terminated else 0.9 * value))
    got = learner.target_values(batch, noise)[0]
    torch.testing.assert_close(got, torch.tensor(wanted))
    assert rows[2][1][0].item() == pytest.approx(0.75)  # and not the new episode's first position
    assert got[1].item() == pytest.approx(rows[0][0][1].item())


def test_an_agent_that_drops_out_has_had_its_last_reward() -> None:
    env = ToyEnv(1, agents=2, horizon=8, limit=100.0, drop_out=True)
    sac = SAC(env, SACConfig(rollout_steps=8, buffer_size=100, hidden=(2,)))
    train(sac, env, env.reset()[0], 1)
    replay = sac.learners["point"].replay
    batch = replay._take(*torch.cartesian_prod(torch.arange(8), torch.tensor([0]), torch.arange(2)).unbind(1), 0.9)
    active = batch.active.view(8, 2)
    assert active[:, 0].all() and active[:, 1].tolist() == [True] * 4 + [False] * 4
    assert batch.terminated.view(8, 2)[:, 0].any().item() is False
    assert batch.terminated.view(8, 2)[3, 1] and not batch.terminated.view(8, 2)[:3, 1].any()


def test_inactive_agents_teach_nothing() -> None:
    """The gradient step of a batch is that of its active rows alone."""
    learners = []
    for garbage in (0.0, 1e6):
        sac = SAC(ToyEnv(), SMALL)
        learner = sac.learners["point"]
        g = torch.Generator().manual_seed(1)
        train(sac, sac.env, sac.env.reset()[0], 2)
        batch = learner.replay.sample(8, g, SMALL.gamma)
        batch.active[:4] = False
        batch.reward[:4] += garbage
        learner.descend(batch, torch.randn(2, 8, 1, generator=g))
        learners.append(learner)
    first, second = (dict(learner.critics.state_dict()) for learner in learners)
    assert all(torch.equal(first[k], second[k]) for k in first)


def test_targets_follow_slowly_and_the_temperature_aims_at_the_entropy() -> None:
    sac = SAC(ToyEnv(), SMALL)
    learner = sac.learners["point"]
    train(sac, sac.env, sac.env.reset()[0], 6)
    before = [p.clone() for p in learner.targets.parameters()]
    cold = learner.log_temperature.item()
    batch = learner.replay.sample(64, sac._generator, SMALL.gamma)
    entropy = learner.descend(batch, torch.randn(2, 64, 1))[2].item()
    for old, slow, fast in zip(before, learner.targets.parameters(), learner.critics.parameters(), strict=True):
        torch.testing.assert_close(slow, old + SMALL.tau * (fast - old))
    assert learner.target_entropy == -1.0
    # More entropy than wanted: the temperature falls.
    assert (learner.log_temperature.item() < cold) == (entropy > learner.target_entropy)


@pytest.mark.parametrize(("ratio", "wanted"), [(1.0, [4] * 4), (0.5, [2] * 4), (0.1, [0, 0, 1, 0]), (2.5, [10] * 4)])
@pytest.mark.parametrize("worlds", [1, 32])
def test_updates_per_step(ratio: float, wanted: list[int], worlds: int) -> None:
    config = SACConfig(
        rollout_steps=4, learning_starts=0, buffer_size=1000, hidden=(4,), updates_per_step=ratio, batch=4
    )
    sac = SAC(ToyEnv(worlds), config)
    learner = sac.learners["point"]
    made = learner.optimizers["actor"].state[learner.actor.weights[0]]["step"]
    obs, _ = sac.env.reset()
    counts = []
    for _ in wanted:
        before = int(made)
        obs, _ = train(sac, sac.env, obs, 1)
        counts.append(int(made) - before)
    assert counts == wanted


def test_learning_starts_with_random_actions() -> None:
    sac = SAC(ToyEnv(100), SACConfig(learning_starts=300, rollout_steps=3, buffer_size=1000, hidden=(4,)))
    obs, _ = sac.env.reset()
    weights = sac.learners["point"].actor.weights[0].clone()
    obs, figures = train(sac, sac.env, obs, 1)
    actions = sac.learners["point"].replay.action[:3]
    assert figures == [{}] and torch.equal(weights, sac.learners["point"].actor.weights[0])
    assert actions.mean().abs() < 0.1 and actions.std().item() == pytest.approx(1 / math.sqrt(3), abs=0.05)
    _, figures = train(sac, sac.env, obs, 1)
    assert set(figures[0]) == {f"point/{k}" for k in ("critic_loss", "policy_loss", "entropy", "value", "temperature")}
    assert not torch.equal(weights, sac.learners["point"].actor.weights[0])


@pytest.mark.parametrize(
    ("before", "compiled"),
    slow_but([(0, True), (5, True), (40, True), (5, False)], [(n, c) for n in (0, 1, 5, 40) for c in (True, False)]),
)
def test_a_resume_is_bit_equal(before: int, compiled: bool) -> None:
    """Before learning, while it fills, and after its memory of 50 steps a world has been overwritten."""

    def make() -> SAC:
        config = SACConfig(
            rollout_steps=4,
            learning_starts=16,
            batch=16,
            buffer_size=200,
            hidden=(16,),
            compiled=compiled,
        )
        return SAC(ToyEnv(4, agents=2, drop_out=True), config, seed=3)

    assert_resumes(make, before)


@pytest.mark.parametrize("compiled", [True, False])
def test_the_linear_schedule_lets_the_rate_fall_to_zero(compiled: bool) -> None:
    """Adam's first step moves each weight by the learning rate."""
    moved = {}
    for schedule, progress in (("fixed", 0.75), ("linear", 0.0), ("linear", 0.75), ("linear", 1.0)):
        config = replace(SMALL, schedule=schedule, updates_per_step=0.25, learning_starts=0, compiled=compiled)
        sac = SAC(ToyEnv(4), config)
        before = sac.learners["point"].log_temperature.item()
        train(sac, sac.env, sac.env.reset()[0], 1, progress)
        moved[schedule, progress] = abs(sac.learners["point"].log_temperature.item() - before)
    rate = SMALL.learning_rate
    wanted = {("fixed", 0.75): rate, ("linear", 0.0): rate, ("linear", 0.75): rate / 4, ("linear", 1.0): 0.0}
    assert moved == pytest.approx(wanted, rel=1e-3, abs=1e-9)


def test_the_policy_begins_with_the_initial_deviation() -> None:
    spreads = []
    for std in (0.6, 0.15):
        config = replace(SMALL, initial_std=std, learning_starts=0, buffer_size=20_000)
        sac = SAC(ToyEnv(2000), config)
        spreads.append(sac.act({"point": torch.zeros(2000, 1, 2)})["point"].atanh().std().item())
    assert spreads[0] / spreads[1] == pytest.approx(4.0, rel=0.01)


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    sac = SAC(ToyEnv(), SMALL)
    before = {k: v.clone() for k, v in sac.state_dict().items()}
    wide = SAC(ToyEnv(), SACConfig(rollout_steps=4, buffer_size=400, hidden=(17,)), seed=1).state_dict()
    with pytest.raises(
        RookeryError, match=r"actor.weights.0 has shape \[1, 2, 17\] in the saved state and \[1, 2, 16\]"
    ):
        sac.load_state_dict(wide)
    assert all(torch.equal(v, before[k]) for k, v in sac.state_dict().items())


def test_the_policy_is_the_squashed_mean() -> None:
    sac = SAC(ToyEnv(neutral=0.3), SMALL)
    obs, _ = train(sac, sac.env, sac.env.reset()[0], 8)
    learner = sac.learners["point"]
    policy = sac.policies()["point"]
    mean = learner.actor(learner.norm.normalize(obs["point"]).flatten(0, 1))[0][:, :1]
    torch.testing.assert_close(policy(obs["point"]).flatten(0, 1), mean.tanh())
    at_rest = [SAC(ToyEnv(neutral=a), SMALL).policies()["point"](torch.zeros(2)).atanh() for a in (0.0, 0.3)]
    torch.testing.assert_close(at_rest[1] - at_rest[0], torch.tensor([0.3]).atanh())


def test_misfits_are_refused() -> None:
    env = ToyEnv()
    env.objectives = ("near", "fast")
    with pytest.raises(RookeryError, match="near, fast"):
        SAC(env, SMALL)
    with pytest.raises(RookeryError, match="holds 2 control steps of 4 worlds"):
        SAC(ToyEnv(), SACConfig(rollout_steps=4, buffer_size=8))
    for name, value in (("gamma", 1.1), ("tau", 0.0), ("batch", 0), ("learning_starts", -1), ("activation", "swish")):
        with pytest.raises(RookeryError, match=name):
            SACConfig(**{name: value})


def test_it_learns() -> None:
    """In 1500 steps of 4 worlds the points stay near the origin: a mean distance of 0.5 at first, and below 0.15 then."""

    config = SACConfig(
        rollout_steps=4, learning_starts=200, batch=64, hidden=(32,), learning_rate=3e-3, buffer_size=10**4
    )
    sac = SAC(ToyEnv(), config)
    untrained = distance(sac.policies()["point"])
    train(sac, sac.env, sac.env.reset()[0], 200)
    assert distance(sac.policies()["point"]) < 0.15 < untrained


@pytest.mark.parametrize("lower", [0, 1])
def test_the_policy_climbs_the_lower_critic(lower: int) -> None:
    config = SACConfig(rollout_steps=4, buffer_size=200, hidden=(2,), learning_rate=1e-9, normalize_observations=False)
    sac = SAC(ToyEnv(), config)
    learner = sac.learners["point"]
    with torch.no_grad():
        for parameter in learner.critics.parameters():
            parameter.zero_()
        learner.critics.biases[1][lower] = -3.0
        learner.critics.biases[1][1 - lower] = 5.0
    train(sac, sac.env, sac.env.reset()[0], 2)
    batch = learner.replay.sample(32, sac._generator, SMALL.gamma)
    assert learner.descend(batch, torch.randn(2, 32, 1))[3].item() == pytest.approx(-3.0, abs=1e-3)


def test_the_normalizer_counts_active_agents_alone() -> None:
    env = ToyEnv(4, agents=2, horizon=8, limit=100.0, drop_out=True)
    sac = SAC(env, SACConfig(rollout_steps=8, buffer_size=100, hidden=(2,)))
    train(sac, env, env.reset()[0], 1)
    learner = sac.learners["point"]
    active = learner.replay.active[:8]
    assert not active.all()
    observed = learner.replay.observation[:8][active]
    torch.testing.assert_close(learner.norm.mean, observed.mean(0), rtol=1e-5, atol=1e-5)


def test_the_target_entropy_is_the_settings_or_minus_the_action_size() -> None:
    given = SACConfig(rollout_steps=4, buffer_size=200, hidden=(2,), target_entropy=-0.3)
    assert SAC(ToyEnv(), given).learners["point"].target_entropy == -0.3
    assert SAC(ToyEnv(), SMALL).learners["point"].target_entropy == -1.0
