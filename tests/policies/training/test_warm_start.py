"""Starting from a policy that is there: it acts as before, and stays while the critic learns."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv
from policies_toy import train

from rookery.policies.algorithms import ALGORITHMS
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.ppo_rates import schedule_learning_rate
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.teacher import ControllerTeacher
from rookery.policies.policy import layers_of
from rookery.policies.training.warm_start import warm_start, with_limit_of
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Term

BASE = PPOConfig(rollout_steps=12, hidden=(16,), minibatches=2, epochs=2, schedule="fixed")


def trained(config: PPOConfig) -> PPO:
    ppo = PPO(FakeEnv(8), config)
    Drive(ppo).iterate(3)
    return ppo


def groups_of(ppo: PPO) -> dict:
    return {"point": ppo.learners["point"].spec}


@pytest.mark.parametrize("normalize", [True, False])
def test_it_acts_as_before_and_its_normalizer_is_kept(normalize):
    old = trained(dataclasses.replace(BASE, normalize_observations=True))
    policies = old.policies()
    new = PPO(FakeEnv(8), dataclasses.replace(BASE, normalize_observations=normalize, critic_warmup=100), 5)
    warm_start(new, policies, groups_of(old))
    obs, _ = new.env.reset()
    want = policies["point"](obs["point"])
    torch.testing.assert_close(new.policies()["point"](obs["point"]), want, rtol=1e-4, atol=1e-5)
    before = new.policies()["point"](obs["point"])
    Drive(new).iterate(3)
    assert torch.equal(new.policies()["point"](obs["point"]), before)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_registry_names_the_algorithms_that_give_their_networks(name):
    entry = ALGORITHMS[name]
    assert entry.starts == ("starting" in vars(entry.load()))


@pytest.mark.parametrize("obs_clip", [10.0, 3.0])
def test_imitation_goes_on_from_a_policy_and_its_normalizer_is_kept(obs_clip):
    old = trained(dataclasses.replace(BASE, normalize_observations=True, obs_clip=obs_clip))
    stored = old.policies()
    env = FakeEnv(8)
    config = with_limit_of(
        DAggerConfig(rollout_steps=4, hidden=(16,), activation=BASE.activation, learning_rate=0.02), stored
    )
    assert config.obs_clip == obs_clip
    dagger = DAgger(
        env, config, seed=9, inputs={"teacher": ControllerTeacher(lambda obs: {"point": torch.ones(8, 1, 1)})}
    )
    warm_start(dagger, stored, groups_of(old))
    obs, _ = env.reset()
    far = {"point": 50.0 * obs["point"]}  # where the limit counts
    for x in (obs, far):
        torch.testing.assert_close(
            dagger.policies()["point"](x["point"]), stored["point"](x["point"]), rtol=1e-5, atol=1e-6
        )
    before = dagger.policies()["point"]
    train(dagger, env, obs, 30)
    after = dagger.policies()["point"]
    for name in ("normalize.mean", "normalize.std"):
        assert torch.equal(before.get_buffer(name), after.get_buffer(name))
    toward = (1.0 - after(obs["point"])).abs().mean() / (1.0 - before(obs["point"])).abs().mean()
    assert toward < 0.5, "it learns what the teacher does"


def test_imitation_of_several_groups_begins_with_the_policy_of_each():
    env = FakeEnv(4)
    (group,) = env.groups.values()
    env.groups = {"near": group, "far": group}
    config = DAggerConfig(hidden=(16,))
    old, new = (
        DAgger(env, config, seed=seed, inputs={"teacher": ControllerTeacher(lambda obs: obs)}) for seed in (1, 2)
    )
    stored = old.policies()
    warm_start(new, stored, env.groups)
    obs = torch.randn(6, 3)
    for name, policy in new.policies().items():
        torch.testing.assert_close(policy(obs), stored[name](obs))
    assert not torch.equal(stored["near"](obs), stored["far"](obs))


def test_the_policy_that_is_put_in_is_the_one_that_a_training_is_held_near_to():
    old = trained(dataclasses.replace(BASE, learning_rate=1e-2))
    new = PPO(FakeEnv(8), dataclasses.replace(BASE, reference_kl_coef=0.1), 5)
    warm_start(new, old.policies(), groups_of(old))
    learner = new.learners["point"]
    drive = Drive(new)
    drive.collect()
    learner.samples(drive.obs["point"], None, None)
    assert learner.reference is not None and learner.reference.divergence_now.item() == pytest.approx(0.0, abs=1e-6)


def test_a_term_that_imitation_has_beside_those_of_the_policy_begins_without_weight():
    old = PPO(with_terms(1, Term("a", 2)), BASE)
    env = with_terms(2, Term("b", 3), Term("a", 2))
    dagger = DAgger(
        env,
        DAggerConfig(hidden=(16,), activation=BASE.activation),
        inputs={"teacher": ControllerTeacher(lambda obs: obs)},
    )
    warm_start(dagger, old.policies(), groups_of(old))
    obs = torch.randn(6, 10)
    torch.testing.assert_close(
        dagger.policies()["point"](obs), old.policies()["point"](obs[:, 8:]), rtol=1e-5, atol=1e-6
    )
    with pytest.raises(RookeryError, match=r"has hidden layers \[16\] with .*, and this one \[8\]"):
        warm_start(
            DAgger(env, DAggerConfig(hidden=(8,)), inputs={"teacher": ControllerTeacher(lambda obs: obs)}),
            old.policies(), groups_of(old),
        )  # fmt: skip


@pytest.mark.parametrize("normalize", [True, False])
def test_a_term_of_another_scale_is_converted(normalize):
    """Trained on a quarter of what the new task gives: the new policy acts as the old one on a quarter."""
    old = trained(dataclasses.replace(BASE, normalize_observations=True))
    (term,) = old.learners["point"].spec.observation
    quarter = dataclasses.replace(old.learners["point"].spec, observation=(dataclasses.replace(term, scale=0.25),))
    new = PPO(FakeEnv(8), dataclasses.replace(BASE, normalize_observations=normalize), 5)
    warm_start(new, old.policies(), {"point": quarter})
    obs, _ = new.env.reset()
    want = old.policies()["point"](0.25 * obs["point"])
    assert (want - old.policies()["point"](obs["point"])).abs().max() > 1e-3
    torch.testing.assert_close(new.policies()["point"](obs["point"]), want, rtol=1e-4, atol=1e-5)


def with_terms(history: int, *terms: Term) -> FakeEnv:
    env = FakeEnv(8)
    env.groups = {"point": dataclasses.replace(env.groups["point"], observation=terms, history=history)}
    return env


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("more", [0, 1])
def test_frames_are_taken_over_by_their_age(normalize, more):
    """Terms in another order and one more of them, as many frames or one more: the new policy acts as the old one."""
    a, b, c = Term("a", 2), Term("b", 1), Term("c", 2)
    old = PPO(with_terms(3, a, b), dataclasses.replace(BASE, normalize_observations=True))
    stored = old.policies()["point"]
    stored.get_buffer("normalize.mean").copy_(torch.tensor([0.5, -0.3, 0.2, 0.4, -0.1, 0.3, 0.6, 0.2, -0.2]))
    stored.get_buffer("normalize.std").copy_(torch.tensor([0.7, 1.5, 2.0, 0.9, 1.2, 1.8, 0.6, 1.1, 2.2]))
    layers_of(stored)[-1].weight.data *= 20.0  # a fresh policy hardly acts
    new = PPO(with_terms(3 + more, b, c, a), dataclasses.replace(BASE, normalize_observations=normalize), 5)
    warm_start(new, {"point": stored}, groups_of(old))
    obs = torch.randn(50, 3 + more, 5, generator=torch.Generator().manual_seed(1))  # frames of b, c, a
    want = stored(torch.cat((obs[:, more:, 3:], obs[:, more:, :1]), -1).flatten(1))
    assert want.std() > 1e-2
    torch.testing.assert_close(new.policies()["point"](obs.flatten(1)), want, rtol=1e-4, atol=1e-5)


def test_fewer_frames_than_the_stored_policy_takes_are_refused():
    old = PPO(with_terms(3, Term("a", 2)), BASE)
    new = PPO(with_terms(2, Term("a", 2)), BASE)
    with pytest.raises(
        RookeryError, match=r"takes the last 3 observations, and this one the last 2: give --task-config h"
    ):
        warm_start(new, old.policies(), groups_of(old))


def test_while_the_critic_warms_up_the_policy_stays_and_then_it_moves():
    ppo = PPO(FakeEnv(8), dataclasses.replace(BASE, critic_warmup=2, entropy_coef=0.01, normalize_observations=False))
    a = ppo.learners["point"]
    drive = Drive(ppo)
    moved = []
    for _ in range(3):
        actor = [w.clone() for w in (*a.actor.weights, a.log_std)]
        critic = [w.clone() for w in a.critic.weights]
        drive.iterate()
        moved.append(
            tuple(
                any(not torch.equal(x, y) for x, y in zip(old, new, strict=True))
                for old, new in ((actor, (*a.actor.weights, a.log_std)), (critic, a.critic.weights))
            )
        )
    assert moved == [(False, True), (False, True), (True, True)]


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_after_the_warmup_the_learning_rate_rises(schedule):
    """Over as many updates again, to what was asked for; the adaptive one starts as low and finds its own way."""
    ppo = PPO(
        FakeEnv(8), dataclasses.replace(BASE, critic_warmup=3, schedule=schedule, learning_rate=1e-3, target_kl=1e-9)
    )
    drive = Drive(ppo)
    rates = []
    for _ in range(8):
        drive.collect()
        schedule_learning_rate(ppo.config, ppo.learners["point"], ppo.updates, 0.0)
        rates.append(ppo.learners["point"].learning_rate.item())
        ppo.update(0.0)
    if schedule == "fixed":
        assert rates == pytest.approx([1e-3] * 3 + [0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3])
    else:
        assert rates[3] == pytest.approx(0.25e-3) and max(rates[4:]) < 0.25e-3


def test_the_adaptive_rate_stays_while_the_policy_is_frozen():
    """A policy that does not move has no divergence: the rate would climb by half at every update of the warm-up."""
    config = dataclasses.replace(BASE, critic_warmup=8, schedule="adaptive", learning_rate=4e-4, target_kl=0.01)
    drive = Drive(PPO(FakeEnv(8), config))
    rates = [drive.iterate()["point/learning_rate"] for _ in range(8)]
    assert rates == pytest.approx([4e-4] * 8)
    assert drive.iterate()["point/learning_rate"] < 2e-4  # rises from a ninth, at most by half


def test_the_first_steps_after_the_warmup_are_no_larger_than_those_of_a_fresh_start():
    config = dataclasses.replace(BASE, normalize_observations=False, epochs=20, minibatches=1)
    moves = []
    for warmup in (0, 30):
        ppo = PPO(FakeEnv(8), dataclasses.replace(config, critic_warmup=warmup))
        a = ppo.learners["point"]
        drive = Drive(ppo)
        for _ in range(warmup + 1):
            if ppo.updates == warmup:
                before = [w.clone() for w in a.actor.weights]
            drive.iterate()
        moves.append(max((new - old).abs().max().item() for old, new in zip(before, a.actor.weights, strict=True)))
    assert moves[1] < 1.5 * moves[0]


def test_a_negative_warmup_is_refused():
    with pytest.raises(RookeryError, match="critic_warmup is -1"):
        PPOConfig(critic_warmup=-1)


class Wider(FakeEnv):
    """With exploration, components move that stood still under the stored policy."""

    def step(self, actions):
        obs, *rest = super().step(actions)
        return {"point": 100.0 * obs["point"]}, *rest


def test_exploration_does_not_change_a_frozen_policy_through_its_normalizer():
    """The statistics of a stored policy are fixed: noise in the actions once changed the frozen policy's inputs."""
    old = trained(BASE)
    policy = old.policies()["point"]
    new = PPO(Wider(8), dataclasses.replace(BASE, critic_warmup=100), 5)
    warm_start(new, {"point": policy}, groups_of(old))
    obs = torch.randn(20, 1, 3)
    Drive(new).iterate(5)
    after = new.policies()["point"]
    for name in ("normalize.mean", "normalize.std"):
        assert torch.equal(after.get_buffer(name), policy.get_buffer(name))
    torch.testing.assert_close(after(obs), policy(obs), rtol=1e-5, atol=1e-6)
    again = PPO(Wider(8), dataclasses.replace(BASE, critic_warmup=100), 5)
    again.load_state_dict(new.state_dict())
    assert torch.equal(again.learners["point"].observations.state_dict()["fixed"], torch.ones(3, dtype=torch.bool))


def test_after_the_warmup_the_optimiser_begins_afresh():
    ppo = PPO(FakeEnv(8), dataclasses.replace(BASE, critic_warmup=3))
    drive = Drive(ppo)
    drive.iterate(3)
    adam = ppo.learners["point"].adam
    assert adam.steps == 3 * BASE.epochs * BASE.minibatches
    drive.iterate()
    assert adam.steps == BASE.epochs * BASE.minibatches


def test_the_limit_of_the_normalizer_is_kept():
    """A policy whose inputs are limited to 0.5 acts as before, beyond the limit too; another limit is refused."""
    old = trained(dataclasses.replace(BASE, normalize_observations=True, obs_clip=0.5))
    policies = old.policies()
    layers_of(policies["point"])[-1].weight.data *= 20.0  # a fresh policy hardly acts
    config = with_limit_of(BASE, policies)
    new = PPO(FakeEnv(8), config, 5)
    warm_start(new, policies, groups_of(old))
    obs = 100.0 * torch.randn(50, 1, 3, generator=torch.Generator().manual_seed(0))
    want = policies["point"](obs)
    assert want.std() > 1e-2
    assert torch.equal(new.policies()["point"](obs), want)
    raw = dataclasses.replace(BASE, normalize_observations=False)
    assert with_limit_of(raw, policies) == config  # folded into the first layer, the normalizer would have no limit
    for wrong, words in ((BASE, "this one normalized ones to 10.0"), (raw, "this one raw ones to 10.0")):
        with pytest.raises(
            RookeryError, match=rf"to 0\.5, and {words}: give obs_clip=0.5 and normalize_observations=true"
        ):
            warm_start(PPO(FakeEnv(8), wrong), policies, groups_of(old))
    with pytest.raises(RookeryError, match=r"to 0\.5, and obs_clip is 3\.0: leave obs_clip out"):
        with_limit_of(dataclasses.replace(BASE, obs_clip=3.0), policies)
    usual = trained(BASE).policies()
    with pytest.raises(RookeryError, match=r"0\.5 in point, 10\.0 in other"):
        with_limit_of(BASE, policies | {"other": usual["point"]})
    assert with_limit_of(raw, usual) is raw
