"""What SAC and TD3 share: ensembles of critics, and how often the policy moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import ToyEnv, assert_resumes, batch_of, train

from rookery.policies.algorithms import VARIANTS
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Mirror

SMALL = SACConfig(rollout_steps=4, learning_starts=16, batch=32, buffer_size=400, hidden=(8,), compiled=False)


def constants(networks, values) -> None:
    """Critics whose values are constants."""
    with torch.no_grad():
        for parameter in networks.parameters():
            parameter.zero_()
        networks.biases[-1][:, 0, 0] = torch.tensor(values)


def test_the_target_is_the_least_of_a_random_pair():
    learner = SAC(ToyEnv(), replace(SMALL, critics=4, target_critics=2)).learners["point"]
    constants(learner.targets, [1.0, 2.0, 3.0, 4.0])
    g = torch.Generator().manual_seed(0)
    batch = batch_of(torch.zeros(3))
    obs, action = batch.next_observation, batch.action
    values = [learner.backup(batch, obs, action, g) for _ in range(600)]
    assert all((v == v[0]).all() for v in values), "one pair for the whole batch"
    found = torch.stack(values)[:, 0]
    # of the 6 pairs 3 have the least value 1, 2 have 2, one has 3
    shares = torch.tensor([(found == v).float().mean() for v in (1.0, 2.0, 3.0, 4.0)])
    torch.testing.assert_close(shares, torch.tensor([1 / 2, 1 / 3, 1 / 6, 0.0]), atol=0.08, rtol=0.0)
    whole = SAC(ToyEnv(), replace(SMALL, critics=4, target_critics=4)).learners["point"]
    constants(whole.targets, [4.0, 2.0, 3.0, 5.0])
    assert (whole.backup(batch, obs, action, g) == 2.0).all()


@pytest.mark.parametrize(("kind", "wanted"), [("min", 1.0), ("mean", 3.0), ("first", 3.5)])
def test_what_the_policy_climbs(kind, wanted):
    learner = SAC(ToyEnv(), replace(SMALL, critics=3, policy_value=kind)).learners["point"]
    constants(learner.critics, [3.5, 1.0, 4.5])
    assert (learner.policy_value(torch.zeros(4, 2), torch.zeros(4, 1), None) == wanted).all()


@pytest.mark.parametrize("every", [1, 3])
def test_the_policy_moves_at_its_own_pace(every):
    sac = SAC(ToyEnv(), replace(SMALL, policy_every=every, updates_per_step=1.5))
    train(sac, sac.env, sac.env.reset()[0], 9)
    learner = sac.learners["point"]
    steps = {name: int(next(iter(o.state.values()))["step"]) for name, o in learner.optimizers.items()}
    made = 8 * 6  # the first of the nine rollouts, 16 steps of all worlds, is random
    assert steps["critics"] == int(learner.made) == made
    assert steps["actor"] == steps["temperature"] == made // every


@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_and_subsets_resume_with_the_same_bits(compiled):
    def make() -> SAC:
        config = replace(
            SMALL, batch=16, buffer_size=200, critics=5, critic_dropout=0.1, critic_layer_norm=True, policy_every=4,
            updates_per_step=2.5, policy_value="mean", compiled=compiled,
        )  # fmt: skip
        return SAC(ToyEnv(4, agents=2, drop_out=True), config, seed=3)

    assert assert_resumes(make, 7)[-1]["point/policy_loss"] != 0.0


def test_all_critics_learn_the_value():
    """With a discount of 0 the value is the reward."""
    config = replace(SMALL, critics=3, target_critics=2, critic_layer_norm=True, learning_rate=1e-2, gamma=0.0)
    sac = SAC(ToyEnv(16), replace(config, buffer_size=4000, hidden=(32,)))
    train(sac, sac.env, sac.env.reset()[0], 60)
    learner = sac.learners["point"]
    batch = learner.replay.sample(256, torch.Generator().manual_seed(0), 0.0)
    q = learner.q_values(
        learner.outputs(learner.critics, learner.norm.normalize(batch.observation), batch.action, None)
    )
    assert q.shape == (3, 256)
    assert (q - batch.reward).abs().mean(1).max() < 0.1 < batch.reward.std()


@pytest.mark.parametrize("horizon", [3, 100])
def test_a_central_critic_sees_the_state_of_the_same_step(monkeypatch, horizon):
    """The state of FakeEnv is its agents' observations side by side."""
    config = replace(SMALL, critic="central", n_step=2, batch=64, compiled=True)
    sac = SAC(FakeEnv(4, agents=2, obs=3, horizon=horizon, limit=1.5), config)
    learner = sac.learners["point"]
    batches = []
    own = learner.descend
    monkeypatch.setattr(learner, "descend", lambda batch, *rest: (batches.append(batch), own(batch, *rest))[1])
    train(sac, sac.env, sac.env.reset()[0], 4)
    batch = batches[-1]
    mine = [(batch.state[:, k : k + 3] == batch.observation).all(1) for k in (0, 3)]
    assert (mine[0] ^ mine[1]).all()
    following = torch.where(mine[0][:, None], batch.next_state[:, :3], batch.next_state[:, 3:])
    lives = ~batch.terminated
    assert lives.sum() > 20 and torch.equal(following[lives], batch.next_observation[lives])
    assert learner.compiled is None
    assert learner.critics.sizes[0] == 6 + 3 + 1 and learner.actor.sizes[0] == 3
    states = learner.replay.state[:16].flatten(0, 1)
    torch.testing.assert_close(learner.states.mean, states.mean(0), rtol=1e-4, atol=1e-4)
    seen = learner.seen(batch.state, learner.norm.normalize(batch.observation))
    torch.testing.assert_close(seen[:, :6], (batch.state - learner.states.mean) / learner.states.std)


@pytest.mark.parametrize("before", [1, 8])
def test_a_central_critic_resumes_with_the_same_bits(before):
    def make() -> SAC:
        return SAC(FakeEnv(4, agents=2, horizon=3, drop_out=True), replace(SMALL, critic="central", buffer_size=80))

    assert assert_resumes(make, before)[-1]


class MirroredEnv(ToyEnv):
    """A toy whose left is its right: position and push change their sign, the clock does not."""

    def __init__(self, num_envs: int = 4, **options) -> None:
        super().__init__(num_envs, **options)
        self.groups = {"point": replace(self.groups["point"], mirror=Mirror((-1, 2), (-1,), ()))}


def test_every_other_transition_is_mirrored(monkeypatch):
    batches = []
    for mirror in (False, True):
        sac = SAC(MirroredEnv(), replace(SMALL, mirror=mirror, normalize_observations=False))
        learner = sac.learners["point"]
        monkeypatch.setattr(learner, "descend", lambda batch, *_: (batches.append(batch), torch.zeros(5))[1])
        train(sac, sac.env, sac.env.reset()[0], 2)
    assert len(batches) == 8
    flipped = torch.where(torch.arange(32) % 2 == 0, -1.0, 1.0)[:, None]
    for plain, own in zip(batches[:4], batches[4:], strict=True):
        assert torch.equal(own.action, plain.action * flipped)
        for name in ("observation", "next_observation"):
            mine, its = getattr(own, name), getattr(plain, name)
            assert torch.equal(mine[:, :1], its[:, :1] * flipped) and torch.equal(mine[:, 1], its[:, 1])
        for name in ("reward", "discount", "terminated", "active"):
            assert torch.equal(getattr(own, name), getattr(plain, name))
    memory = learner.replay
    assert torch.equal(
        memory.observation[1, :, 0, 0],
        memory._take(
            torch.ones(4, dtype=torch.int64), torch.arange(4), torch.zeros(4, dtype=torch.int64), 0.9
        ).observation[:, 0],
    ), "the memory keeps what happened"
    with pytest.raises(RookeryError, match="declares their left-right symmetry"):
        SAC(ToyEnv(), replace(SMALL, mirror=True))


KERNEL = [
    {"critics": 3}, {"critics": 1, "target_critics": 1}, {"target_critics": 1}, {"critic_layer_norm": True},
    {"critic_dropout": 0.1}, {"policy_every": 2}, {"policy_value": "mean"}, {"n_step": 3}, {},
]  # fmt: skip
TORCH: list[dict[str, Any]] = [
    {"mirror": True}, {"atoms": 11}, {"weight_decay": 0.1}, {"critic_batch_norm": True}, {"critic_unit_weights": True},
    {"critic_hypersphere": True}, {"return_limit": 5.0}, {"priority_alpha": 0.5},
]  # fmt: skip


@pytest.mark.parametrize(("change", "compiled"), [*((c, True) for c in KERNEL), *((c, False) for c in TORCH)], ids=str)
def test_which_critics_are_compiled(change, compiled):
    learner = SAC(MirroredEnv(), replace(SMALL, compiled=True, **change)).learners["point"]
    assert (learner.compiled is not None) == compiled


@pytest.mark.parametrize("name", ["droq", "redq", "rlpd"])
def test_the_variants_of_few_worlds_are_compiled(name):
    config = SACConfig(**VARIANTS[name].config, buffer_size=400)
    assert SAC(ToyEnv(), config).learners["point"].compiled is not None


def test_misfits_are_refused():
    with pytest.raises(RookeryError, match=r"target_critics is 3, of 2 critics: give at most 2\."):
        SACConfig(target_critics=3)
    with pytest.raises(RookeryError, match="critic_dropout"):
        SACConfig(critic_dropout=0.95)
    with pytest.raises(RookeryError, match="needs the state of the environment, and this one has none"):
        SAC(ToyEnv(), replace(SMALL, critic="central"))
    with pytest.raises(RookeryError, match="mirror is for critics that see observations alone"):
        SACConfig(critic="central", mirror=True)
    with pytest.raises(RookeryError, match="policy_value"):
        SACConfig(policy_value="max")
