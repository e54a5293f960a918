"""TD3 against its equations: targets, the delayed policy, exploration, resume; and that it learns."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from policies_toy import ToyEnv, assert_resumes, distance, train
from sampled import slow_but

from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.storage.transitions import Transitions
from rookery.sim.errors import RookeryError

SMALL = TD3Config(
    rollout_steps=4, learning_starts=16, batch=32, buffer_size=400, hidden=(16,), learning_rate=3e-3, tau=0.1
)


def learner_of(config: TD3Config, env: ToyEnv | None = None):
    return TD3(env or ToyEnv(), config).learners["point"]


def batch_of(rows: int, seed: int = 0) -> Transitions:
    g = torch.Generator().manual_seed(seed)
    obs, after = torch.randn(2, rows, 2, generator=g)
    action = 2.0 * torch.rand(rows, 1, generator=g) - 1.0
    return Transitions(
        obs, action, torch.randn(rows, generator=g), after, torch.full((rows,), 0.9),
        torch.rand(rows, generator=g) < 0.3, torch.ones(rows, dtype=torch.bool),
        torch.zeros(rows, 0), torch.zeros(rows, 0),
    )  # fmt: skip


def action_critics(learner, networks, second: float) -> None:
    """Critics that give relu(action + 10), the second one plus a constant."""
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.zero_()
        networks.weights[0][:, 2, 0] = 1.0
        networks.biases[0][:, 0, 0] = 10.0
        networks.weights[1][:, 0, 0] = 1.0
        networks.biases[1][1] = second


@pytest.mark.parametrize(("second", "lower"), [(3.0, 0.0), (-3.0, -3.0)])
def test_targets_are_the_lower_critics_at_the_smoothed_action(second, lower):
    """With Q'(s, a) = a + 10 every target is written down by hand."""
    config = replace(SMALL, normalize_observations=False, target_noise=0.4, target_noise_clip=0.3)
    learner = learner_of(config)
    action_critics(learner, learner.targets, second)
    for parameter in learner.actor_target.parameters():
        parameter.data.zero_()
    learner.actor_target.biases[-1].data += torch.tensor(0.8).atanh()
    batch = replace(batch_of(6), terminated=torch.arange(6) == 5)
    noise = torch.tensor([[0.0], [0.5], [-0.5], [2.0], [-2.0], [0.0]])
    smoothed = torch.tensor([0.8, 1.0, 0.6, 1.0, 0.5, 0.8])  # 0.8 + clip(0.4 noise, +-0.3), within [-1, 1]
    wanted = batch.reward + 0.9 * torch.where(batch.terminated, 0.0, smoothed + 10.0 + lower)
    torch.testing.assert_close(learner.target_values(batch, noise)[0], wanted)


def test_the_policy_climbs_the_first_critic():
    for second in (5.0, -5.0):
        learner = learner_of(replace(SMALL, normalize_observations=False))
        action_critics(learner, learner.critics, second)
        learner.optimizers["critics"].param_groups[0]["lr"] = 0.0
        batch = batch_of(64)
        before = learner.actor(batch.observation)[0].tanh()
        loss = learner.descend(batch, torch.zeros(1, 64, 1))[1].item()
        assert loss == pytest.approx(-(before.mean().item() + 10.0), abs=1e-4)
        assert (learner.actor(batch.observation)[0].tanh() > before).all()


def test_priorities_are_the_mean_size_of_all_critics_errors():
    """One critic 2 above its target and the other 1 below are wrong by 1.5, not by 0.5."""
    learner = learner_of(replace(SMALL, priority_alpha=0.6, normalize_observations=False))
    action_critics(learner, learner.critics, 3.0)
    batch = replace(batch_of(4), importance=torch.ones(4))
    target = batch.action[:, 0] + 11.0
    seen = learner.seen(batch.state, batch.observation)
    now = torch.cat((seen, batch.action), -1)
    learner.critic_step(batch, now, now, target, torch.full((4,), 0.25), None)
    torch.testing.assert_close(learner.errors, torch.full((4,), 1.5))


def test_agents_that_take_no_part_move_neither_critics_nor_policy():
    """A step on 5 active rows and 3 inactive ones is the step on the 5."""
    noise = torch.randn(1, 8, 1, generator=torch.Generator().manual_seed(1))
    learners = []
    for rows in (8, 5):
        learner = learner_of(SMALL)
        whole = replace(batch_of(8), active=torch.arange(8) < 5)
        cut = [None if x is None else x[:rows] for x in vars(whole).values()]
        figures = learner.descend(Transitions(*cut), noise[:, :rows])
        learners.append([figures, *learner.actor.parameters(), *learner.critics.parameters()])
    for one, other in zip(*learners, strict=True):
        torch.testing.assert_close(one, other)


def test_policy_and_targets_move_at_every_second_step_alone():
    learner = learner_of(SMALL)
    g = torch.Generator().manual_seed(0)
    train(td3 := TD3(ToyEnv(), SMALL), td3.env, td3.env.reset()[0], 5)
    learner.replay = td3.learners["point"].replay
    slow = ("actor", "actor_target", "targets")
    for step in range(1, 5):
        before = {n: [p.clone() for p in getattr(learner, n).parameters()] for n in (*slow, "critics")}
        learner.learn(*learner.draw(1, g), g)
        after = {n: list(getattr(learner, n).parameters()) for n in before}
        moved = {n: not torch.equal(before[n][0], after[n][0]) for n in before}
        assert moved == {"critics": True, **dict.fromkeys(slow, step % 2 == 0)}
        if step % 2 == 0:
            for target, network in (("targets", "critics"), ("actor_target", "actor")):
                for old, new, fast in zip(before[target], after[target], after[network], strict=True):
                    torch.testing.assert_close(new, old + SMALL.tau * (fast - old))


def test_figures_are_means_over_the_steps_that_each_was_made_in():
    means = []
    for steps in (1, 2):
        td3 = TD3(ToyEnv(), SMALL)
        train(td3, td3.env, td3.env.reset()[0], 4)  # learning starts with the next step
        learner = td3.learners["point"]
        learner.set_learning_rate(0.0)
        learner.config = replace(SMALL, policy_every=steps)
        index, noise = learner.draw(1, torch.Generator().manual_seed(0))
        means.append(learner.learn(index.repeat(steps, 1), noise.repeat(steps, 1, 1, 1), torch.Generator()))
    torch.testing.assert_close(*means)
    assert (means[0] != 0).all()


def test_exploration_is_spread_over_the_worlds():
    config = replace(SMALL, learning_starts=0, exploration_noise=0.02, exploration_noise_last=0.1, buffer_size=10_000)
    td3 = TD3(ToyEnv(3, agents=1000), config)
    obs = {"point": torch.zeros(3, 1000, 2)}
    noise = td3.act(obs)["point"] - td3.policies()["point"](obs["point"])
    torch.testing.assert_close(noise.std(dim=(1, 2)), torch.tensor([0.02, 0.06, 0.1]), rtol=0.15, atol=0.0)
    wild = TD3(ToyEnv(3, agents=1000), replace(config, exploration_noise=3.0, exploration_noise_last=None))
    actions = wild.act(obs)["point"]
    assert actions.abs().max() == 1.0
    assert actions.std(dim=(1, 2)).min() > 0.8, "the same noise in all worlds"


@pytest.mark.parametrize("before", slow_but([5], [1, 5, 40]))
def test_a_resume_is_bit_equal(before):
    def make() -> TD3:
        config = replace(SMALL, batch=16, buffer_size=200, critic_dropout=0.1, critic_layer_norm=True, policy_every=3)
        return TD3(ToyEnv(4, agents=2, drop_out=True), config, seed=3)

    assert_resumes(make, before)


def test_the_policy_is_the_squashed_output_and_begins_at_the_neutral_action():
    td3 = TD3(ToyEnv(neutral=0.3), SMALL)
    obs, _ = train(td3, td3.env, td3.env.reset()[0], 8)
    learner = td3.learners["point"]
    wanted = learner.actor(learner.norm.normalize(obs["point"]).flatten(0, 1))[0].tanh()
    torch.testing.assert_close(td3.policies()["point"](obs["point"]).flatten(0, 1), wanted)
    at_rest = [TD3(ToyEnv(neutral=a), SMALL).policies()["point"](torch.zeros(2)).atanh() for a in (0.0, 0.3)]
    torch.testing.assert_close(at_rest[1] - at_rest[0], torch.tensor([0.3]).atanh())


def test_settings_out_of_bounds_are_refused():
    for name, value in (("exploration_noise", -0.1), ("target_noise", -1.0), ("policy_every", 0)):
        with pytest.raises(RookeryError, match=name):
            TD3Config(**{name: value})
    with pytest.raises(RookeryError, match="nothing new is ever tried"):
        TD3Config(exploration_noise=0.0)


def test_it_learns():
    """In 800 steps of 4 worlds the points stay near the origin: a mean distance of 0.5 at first, and below 0.15 then."""

    config = replace(SMALL, learning_starts=200, batch=64, hidden=(32,), buffer_size=10**4, tau=0.02)
    td3 = TD3(ToyEnv(), config)
    untrained = distance(td3.policies()["point"])
    train(td3, td3.env, td3.env.reset()[0], 200)
    assert distance(td3.policies()["point"]) < 0.15 < untrained
