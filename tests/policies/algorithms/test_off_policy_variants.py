"""SAC and TD3 with critics on a hypersphere or with batch normalization, with scaled rewards, and with prioritised draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_memory import fill
from policies_toy import ToyEnv, assert_resumes, batch_of, distance, train
from sampled import slow_but

from rookery.policies.algorithms import VARIANTS
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.algorithms.td3 import TD3, TD3Config
from rookery.policies.policy import layers_of
from rookery.policies.storage.priorities import FLOOR
from rookery.policies.storage.replay import Replay
from rookery.sim.errors import RookeryError

COMMON: dict[str, Any] = {"rollout_steps": 4, "learning_starts": 16, "batch": 32, "buffer_size": 120, "hidden": (8, 8)}
SPAN: dict[str, Any] = {"atoms": 21, "value_low": -5.0, "value_high": 5.0, "return_limit": 5.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "simbav2": {"critic_hypersphere": True, **SPAN},
    "xqc": {"critic_batch_norm": True, "critic_unit_weights": True, **SPAN},
    "crossq": {"critic_batch_norm": True, "tau": 1.0},
    "prioritised": {"priority_alpha": 0.6},
}
KINDS = [(SAC, SACConfig), (TD3, TD3Config)]


def learner_of(name: str, kind: int = 0, **changes: Any):
    algorithm, config = KINDS[kind]
    return algorithm(ToyEnv(), config(**COMMON, **SETTINGS[name], **changes)).learners["point"]


def random_batch(rows: int = 16):
    g = torch.Generator().manual_seed(4)
    out = batch_of(torch.randn(rows, generator=g), 0.9, torch.rand(rows, generator=g) < 0.3)
    obs, after = torch.randn(2, rows, 2, generator=g)
    active = torch.rand(rows, generator=g) < 0.7
    return replace(out, observation=obs, next_observation=after, action=torch.rand(rows, 1, generator=g), active=active)


RESUMED = [(name, kind) for name in SETTINGS for kind in (0, 1)]


@pytest.mark.parametrize(
    ("name", "kind"), slow_but([("simbav2", 1), ("xqc", 0), ("crossq", 1), ("prioritised", 0)], RESUMED)
)
def test_resume_has_the_same_bits(name, kind):
    """After the memory of 30 steps a world has been overwritten, and, with priorities, also while it fills."""
    algorithm, config = KINDS[kind]
    made = config(**COMMON, **SETTINGS[name], policy_every=2)
    for before in (6, 11) if name == "prioritised" else (11,):
        assert assert_resumes(lambda: algorithm(ToyEnv(4, agents=2, drop_out=True), made, seed=3), before)[-1]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", ["simbav2", "xqc"])
def test_weights_have_length_one_after_gradient_steps(name, kind):
    algorithm, config = KINDS[kind]
    made = algorithm(ToyEnv(), config(**COMMON, **SETTINGS[name], learning_rate=1e-2))
    learner = made.learners["point"]
    before = [w.clone() for w in learner.critics.weights]
    train(made, made.env, made.env.reset()[0], 8)
    for weight, old in zip(learner.critics.weights, before, strict=True):
        torch.testing.assert_close(weight.square().sum(1), torch.ones(2, weight.shape[2]))
        assert (weight - old).abs().max() > 1e-3


def test_features_of_a_hypersphere_have_length_one(monkeypatch):
    """What enters each block and the output: the inputs of every second product."""
    from rookery.policies.nn import ensemble

    critics = learner_of("simbav2").critics
    seen = []
    own = ensemble._unit
    monkeypatch.setattr(ensemble, "_unit", lambda x: (seen.append(own(x)), own(x))[1])
    critics(torch.randn(7, 3) * 100.0)
    assert len(seen) == 2 + 2 * 2
    for x in seen:
        torch.testing.assert_close(x.square().sum(-1), torch.ones(x.shape[:-1]))


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("name", ["xqc", "crossq"])
def test_present_and_next_actions_are_normalized_together(name, kind):
    """Targets and outputs are those of one batch of rows that are there: of agents that take part, and that go on."""
    learner = learner_of(name, kind)
    batch = random_batch()
    noise = torch.randn(2, 16, 1, generator=torch.Generator().manual_seed(5))
    next_action, bonus = learner.next_action(batch.next_observation, noise[0])
    rows = torch.cat(
        (torch.cat((batch.observation, batch.action), 1), torch.cat((batch.next_observation, next_action), 1))
    )
    there = torch.cat((batch.active, batch.active & ~batch.terminated))
    assert 10 < there.sum() < 28
    values = learner.q_values(learner.targets(rows, None, there))[:, 16:].amin(0)
    got, following = learner.target_values(batch, noise[0])
    assert torch.equal(following, rows[16:])
    if learner.categorical is None:
        wanted = batch.reward + 0.9 * torch.where(batch.terminated, 0.0, values + bonus)
        torch.testing.assert_close(got, wanted)
    alone = learner.q_values(learner.targets(rows[16:], None, there[16:])).amin(0)
    assert (alone - values).abs().max() > 1e-3
    critics = learner.critics
    before = critics(rows, None, there)[:, :16].detach()  # this moves the running statistics once, and the step again
    loss = learner.descend(batch, noise[: learner.NOISES])[0]
    faults = (
        0.5 * (before.squeeze(-1) - got).square()
        if learner.categorical is None
        else learner.categorical.loss(before, got)
    )
    torch.testing.assert_close(loss, (faults * batch.active).sum() / batch.active.sum())
    mean = rows[there].mean(0)
    for k in range(2):
        torch.testing.assert_close(critics.norms[0].mean[k, 0], mean * (1.0 - 0.99**2))
    assert all((norm.mean == 0.0).all() and (norm.variance == 1.0).all() for norm in learner.targets.norms)


@pytest.mark.parametrize("name", SETTINGS)
def test_rows_that_are_not_there_teach_nothing(name):
    """Observations and rewards of agents that took no part, and what follows an end, change nothing but for rounding."""
    ends = []
    for garbage in (0.0, 7.0):
        learner = learner_of(name)
        batch = random_batch()
        gone = ~batch.active
        batch.observation[gone] += garbage
        batch.reward[gone] += garbage
        batch.next_observation[gone | batch.terminated] += garbage
        learner.descend(batch, torch.randn(2, 16, 1, generator=torch.Generator().manual_seed(5)))
        gradients = [p.grad for network in (learner.actor, learner.critics) for p in network.parameters()]
        ends.append([*gradients, *learner.critics.buffers(), learner.log_temperature.grad])
    for mine, its in zip(*ends, strict=True):
        torch.testing.assert_close(mine, its, atol=1e-5, rtol=1e-4)


def test_at_tau_one_targets_are_the_critics():
    """So a batch has the values that CrossQ, which has no targets, gives it."""
    made = SAC(ToyEnv(), SACConfig(**COMMON, **SETTINGS["crossq"]))
    train(made, made.env, made.env.reset()[0], 4)
    learner = made.learners["point"]
    for slow, fast in zip(learner.targets.parameters(), learner.critics.parameters(), strict=True):
        assert torch.equal(slow, fast)


class Chain(ToyEnv):
    """Four places in a row, each world moves on by itself: a reward of 1 for the last step, which ends the episode."""

    def _obs(self):
        place = torch.stack((self.clock / 3.0, (self.clock % 2).float()), -1)
        return {"point": place[:, None]}

    def step(self, actions):
        ended = self.clock == 3
        self.clock += 1
        obs = self._obs()
        info = {"final_observation": obs} if ended.any() else {}
        self.clock[ended] = torch.randint(4, (int(ended.sum()),), generator=self.generator)
        return self._obs(), {"point": ended.float()[:, None]}, ended, torch.zeros_like(ended), info


CHAINS = [(0, "prioritised"), (0, "xqc"), *[(1, name) for name in SETTINGS]]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name"), slow_but(CHAINS[1:3], CHAINS))
def test_critics_learn_the_values_of_a_chain(name, kind):
    """``0.8 ** steps to the end``, whatever the action, in units of the scale of rewards."""
    algorithm, config = KINDS[kind]
    options = {
        "rollout_steps": 8,
        "learning_starts": 64,
        "batch": 64,
        "buffer_size": 4000,
        "hidden": (32, 32),
        "gamma": 0.8,
    }
    settings = {"tau": 0.05, "learning_rate": 3e-3, **SETTINGS[name]}
    if kind == 0:  # no entropy in the values
        settings |= {"initial_temperature": 1e-6, "target_entropy": -100.0}
    made = algorithm(Chain(8), config(**options, **settings))
    train(made, made.env, made.env.reset()[0], 60)
    learner = made.learners["point"]
    places = torch.tensor([0.0, 1.0, 2.0, 3.0])
    obs = learner.norm.normalize(torch.stack((places / 3.0, places % 2), -1))
    action = learner.policy()(torch.stack((places / 3.0, places % 2), -1)).detach()
    scale = 1.0 if learner.returns is None else learner.returns.scale
    found = scale * learner.q_values(learner.outputs(learner.critics, obs, action, None)).detach()
    near = 0.15 if name == "crossq" else 0.06  # whose targets jump with every gradient step
    torch.testing.assert_close(found, (0.8 ** (3.0 - places)).expand(2, 4), atol=near, rtol=0.0)


def test_rewards_are_divided_by_the_scale_of_returns():
    made = SAC(ToyEnv(), SACConfig(**COMMON, return_limit=2.0, normalize_observations=False))
    train(made, made.env, made.env.reset()[0], 3)
    learner = made.learners["point"]
    reward, ended, *_ = learner.replay.latest_rewards(12)
    total = torch.zeros(4)
    sums = []
    for t in range(12):
        total = 0.99 * total + reward[t, :, 0]
        sums.append(total.clone())
        total[ended[t]] = 0.0
    found = torch.stack(sums)
    scale = max(found.std(correction=0).item(), found.abs().max().item() / 2.0)
    assert learner.returns.scale.item() == pytest.approx(scale, rel=1e-5) and ended.any()
    number = torch.arange(20)
    batch = learner._batch(number, made._generator)
    torch.testing.assert_close(batch.reward, learner.replay.take(number, 0.99).reward / scale)
    assert (learner.norm.mean == 0.0).all(), "observations are left as they are"


@pytest.mark.parametrize("atoms", [1, 21])
def test_errors_become_priorities_and_importance_weighs_the_loss(atoms):
    made = SAC(ToyEnv(), SACConfig(**COMMON, priority_alpha=0.6, priority_beta=0.4, atoms=atoms, critics=3))
    train(made, made.env, made.env.reset()[0], 6)
    learner = made.learners["point"]
    memory = learner.replay.priorities
    index, noise = learner.draw(1, made._generator)
    number = learner.replay.place(index[0])
    p = memory.leaves[number]
    relative = (p / memory.leaves.sum() * (memory.leaves > 0.0).sum()) ** -0.7
    learner.set_progress(0.5)
    batch = learner._batch(number, made._generator)
    torch.testing.assert_close(batch.importance.double(), relative / relative.max())
    assert batch.importance.max() == 1.0 > batch.importance.min()
    target, _ = learner.target_values(batch, noise[0, 0], torch.Generator().manual_seed(1))
    x = torch.cat((learner.norm.normalize(batch.observation), batch.action), -1)
    out = learner.critics(x).detach()
    wanted = target if atoms == 1 else target @ learner.categorical.values
    errors = (learner.q_values(out) - wanted).abs().mean(0)
    faults = 0.5 * (out.squeeze(-1) - target).square() if atoms == 1 else learner.categorical.loss(out, target)
    found = learner.descend(batch, noise[0], torch.Generator().manual_seed(1))
    torch.testing.assert_close(found[0], (faults * batch.importance).sum() / 32)
    torch.testing.assert_close(learner.errors, errors)
    learner.learn(index, noise, made._generator)
    latest = torch.stack([learner.errors[number == n].max() for n in number])
    torch.testing.assert_close(memory.leaves[number], (latest.double() + FLOOR) ** 0.6)


def test_weights_grow_with_the_progress():
    made = TD3(ToyEnv(), TD3Config(**COMMON, priority_alpha=1.0, priority_beta=0.4))
    obs, _ = train(made, made.env, made.env.reset()[0], 3)
    for progress, beta in ((0.0, 0.4), (0.5, 0.7), (1.0, 1.0)):
        obs, _ = train(made, made.env, obs, 1, progress)
        assert made.learners["point"].beta == pytest.approx(beta)


def test_draws_follow_the_priorities_of_the_same_update(monkeypatch):
    """All gradient steps of an update draw their random numbers at once, and the transitions when it is their turn."""
    made = SAC(ToyEnv(), SACConfig(**COMMON, priority_alpha=1.0))
    train(made, made.env, made.env.reset()[0], 6)
    learner = made.learners["point"]
    index, noise = learner.draw(1, made._generator)
    taken = []
    own = learner.replay.take
    monkeypatch.setattr(learner.replay, "take", lambda number, *rest: (taken.append(number), own(number, *rest))[1])
    before = learner.replay.place(index[0])
    learner.learn(index.repeat(2, 1), noise.repeat(2, 1, 1, 1), made._generator)
    assert torch.equal(taken[0], before) and torch.equal(taken[1], taken[1]) and not torch.equal(taken[0], taken[1])


def test_demonstrations_keep_their_share_and_have_no_priorities():
    made = SAC(ToyEnv(), SACConfig(**COMMON, priority_alpha=1.0, demonstration_share=0.25, return_limit=5.0))
    shown = Replay(9, 1, 1, 2, 1, "cpu")
    fill(shown, 1, 1, 0, 9)
    shown.reward += 100.0
    learner = made.learners["point"]
    learner.learn_from(shown)
    train(made, made.env, made.env.reset()[0], 6)
    memory = learner.replay.priorities
    number = learner.replay.place(learner.replay.draw(24, made._generator))
    batch = learner._batch(number, made._generator)
    scale = learner.returns.scale
    assert (
        len(batch.reward) == 32
        and (batch.reward[24:] * scale > 99.0).all()
        and (batch.reward[:24] * scale < 50.0).all()
    )
    own = memory.weights(number, learner.beta)
    torch.testing.assert_close(batch.importance, torch.cat((own, torch.ones(8))) / max(own.max().item(), 1.0))
    before = memory.leaves.clone()
    index, noise = learner.draw(1, made._generator)
    changed = learner.replay.place(index[0])[:24]
    learner.learn(index, noise, made._generator)
    others = torch.ones(len(before), dtype=torch.bool)
    others[changed] = False
    assert torch.equal(memory.leaves[others], before[others]) and (memory.leaves != before)[changed].any()
    found = learner.errors[:24].double() + FLOOR  # the demonstrations' errors stand behind them
    largest = torch.zeros_like(before).scatter_reduce(0, changed, found, "amax")
    torch.testing.assert_close(memory.leaves[changed], largest[changed])
    alone = SAC(ToyEnv(), replace(made.config, demonstration_share=1.0))
    alone.learners["point"].learn_from(shown)
    assert train(alone, alone.env, alone.env.reset()[0], 6)[1][-1]


@pytest.mark.parametrize("name", ["simbav2", "xqc"])
def test_a_variant_trains_and_its_policy_is_a_plain_perceptron(name):
    variant = VARIANTS[name]
    config = SACConfig(**{**variant.config, **COMMON, "hidden": (16, 16)})
    made = SAC(ToyEnv(), config)
    obs, figures = train(made, made.env, made.env.reset()[0], 6)
    assert all(torch.isfinite(torch.tensor(list(f.values()))).all() for f in figures)
    assert made.learners["point"].compiled is None and not config.in_kernel
    policy = made.policies()["point"]
    learner = made.learners["point"]
    mean = learner.actor(learner.norm.normalize(obs["point"]).flatten(0, 1))[0][:, :1]
    torch.testing.assert_close(policy(obs["point"]).flatten(0, 1), mean.tanh())
    assert [tuple(layer.weight.shape) for layer in layers_of(policy)] == [
        (16, 2),
        (16, 16),
        (1, 16),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["xqc"], ["simbav2", "xqc", "prioritised"]))
def test_it_learns(name):
    """Points come near the origin and stay there: over seeds at 0.05 to 0.24, and at 0.5 and more untrained."""
    options = {"rollout_steps": 4, "learning_starts": 200, "batch": 64, "hidden": (32, 32), "buffer_size": 10**4}
    made = SAC(ToyEnv(), SACConfig(**options, learning_rate=3e-3, **SETTINGS[name]))
    untrained = distance(made.policies()["point"])
    train(made, made.env, made.env.reset()[0], 120)
    assert distance(made.policies()["point"]) < 0.35 < 0.45 < untrained


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"priority_alpha": 1.5}, "priority_alpha is 1.5: give a number from 0 to 1"),
        ({"priority_alpha": -0.1}, "priority_alpha is -0.1: give a number from 0 to 1"),
        ({"priority_beta": 2.0}, "priority_beta is 2.0: give a number from 0 to 1"),
        ({"return_limit": 0.0}, "return_limit is 0.0: give a number above 0"),
        ({"critic_hypersphere": True, "critic_batch_norm": True}, "leave out critic_batch_norm, or critic_hypersphere"),
        ({"critic_hypersphere": True, "critic_dropout": 0.1}, "leave out critic_dropout, or critic_hypersphere"),
        ({"critic_hypersphere": True, "hidden": (64, 32)}, r"hidden is \[64, 32\]: give equal widths"),
        ({"critic_hypersphere": True, "hidden": ()}, r"hidden is \[\]: give equal widths"),
        ({"critic_layer_norm": True, "critic_batch_norm": True}, "normalize the same layers: give one of them"),
    ],
)
@pytest.mark.parametrize("config", [SACConfig, TD3Config])
def test_misfits_are_refused(config, settings, words):
    with pytest.raises(RookeryError, match=words):
        config(**settings)


@pytest.mark.parametrize(("name", "wanted"), [("fasttd3", 2.0), ("fastsac", 8.0)])
def test_updates_of_the_variants_of_many_worlds(name: str, wanted: float) -> None:
    # num_updates of FastTD3 and of holosoma's fast_sac count from step to step of all worlds: 1,024 worlds do not divide them.
    assert VARIANTS[name].config["updates_per_step"] == wanted
