"""Decisions taken by the kernel against those taken in torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import collect
from random_policy import random_policy
from skilled import skilled
from torch import Tensor

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_options import OptionLearner
from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.sim.specs import Term

WORLDS = 150  # more rows than go through the network at once
SHIFTED = {"policy": "one", "shift": {"state": 0.5}}
ALLOWED = {"policy": "one", "every": 3, "allowed": "state[0] > 0.2"}
SKILLS: dict[str, dict[str, Any]] = {
    "numbers": {"shifted": SHIFTED},
    "choices and numbers": {"shifted": SHIFTED, "left": {"policy": "one", "every": 3}},
    "masked choices": {"left": {"policy": "one"}, "other": ALLOWED},
}


def above(skills: dict[str, Any], compiled: bool, **more: Any) -> tuple[HierarchicalEnv, PPO]:
    base = FakeEnv(WORLDS, agents=2, horizon=17)
    env = skilled(base, {"one": random_policy(base.groups["point"], 1)}, every=2, skills=skills)
    return env, PPO(env, PPOConfig(rollout_steps=8, minibatches=2, hidden=(16, 8), compiled=compiled, **more))


@pytest.mark.parametrize("activation", ["tanh", "elu"])
@pytest.mark.parametrize("name", SKILLS)
def test_two_rollouts_and_the_update_between(name: str, activation: str) -> None:
    """Both act by what torch decides, so that all see the same; the second rollout begins with decisions under way."""
    both = [above(SKILLS[name], compiled, activation=activation) for compiled in (True, False)]
    obs = both[0][0].reset(0)[0]
    torch.testing.assert_close(both[1][0].reset(0)[0], obs)
    for _ in range(2):
        for _ in range(8):
            acts = [ppo.act(obs) for _, ppo in both]
            due = both[0][0].deciding
            assert due is not None
            ours, theirs = (act["point"][due["point"]] for act in acts)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
            results = [env.step({k: v.clone() for k, v in acts[1].items()}) for env, _ in both]
            for (_, ppo), result in zip(both, results, strict=True):
                ppo.observe(obs, acts[1], result)
            obs = results[1][0]
        ours, theirs = (ppo.learners["point"] for _, ppo in both)
        assert isinstance(ours, OptionLearner) and isinstance(theirs, OptionLearner)
        assert ours._kernel is not None and theirs._kernel is None
        assert ours.decisions.end == theirs.decisions.end > WORLDS
        kept = theirs.decisions.rows()
        for field, x in ours.decisions.rows().items():
            torch.testing.assert_close(x, kept[field], rtol=1e-5, atol=1e-5, msg=lambda m, f=field: f"{f}: {m}")
        for _, ppo in both:
            ppo.update(0.0)
        for field, value in ours.observations.state_dict().items():
            torch.testing.assert_close(value, theirs.observations.state_dict()[field], rtol=1e-6, atol=1e-6)
        ours.parameters.copy_(theirs.parameters)  # gradients of kernels and of torch have tests of their own


def test_a_decision_of_the_second_rollout_is_by_the_weights_that_were_learned() -> None:
    env, ppo = above(SKILLS["numbers"], True)
    obs = env.reset(0)[0]
    acts = []
    for changed in (0.0, 1.0):
        learner = ppo.learners["point"]
        learner.parameters += changed
        ppo.begin_rollout()
        action = ppo.act(obs)["point"]
        learner.decisions.begin()
        rows = learner.observations.normalize(obs["point"]).flatten(0, 1)
        mean = learner.actor.forward_agents(rows.unsqueeze(1))[:, 0].clone()
        noise = learner.decisions.drawn.noise[0, : len(mean), 0]
        torch.testing.assert_close(action.flatten(0, 1), mean + learner.log_std.exp()[0] * noise, rtol=1e-5, atol=1e-5)
        acts.append(mean)
    assert float((acts[1] - acts[0]).abs().min()) > 0.1


class Amid(FakeEnv):
    """Agents decide every third step of an episode; the second half of it the first agent is alone."""

    def __init__(self, frames: int = 1, **more: Any) -> None:
        super().__init__(8, agents=2, obs=3 * frames, horizon=11, drop_out=True, **more)
        self.groups = {"point": replace(self.groups["point"], observation=(Term("state", 3),), history=frames)}

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return {"point": (self.clock % 3 == 0).unsqueeze(1).expand(-1, self.x.shape[1])}


@pytest.mark.parametrize("compiled", [True, False])
def test_the_policy_sees_the_newest_frames_alone(compiled: bool) -> None:
    def act(changed: slice | None) -> Tensor:
        env = Amid(frames=3)
        config = PPOConfig(rollout_steps=4, minibatches=1, hidden=(8,), actor_frames=2, compiled=compiled)
        ppo = PPO(env, config)
        obs = env.reset(0)[0]
        if changed is not None:
            obs["point"][..., changed] += 1.0
        assert (ppo.learners["point"]._kernel is not None) == compiled
        return ppo.act(obs)["point"]

    seen = act(None)
    assert torch.equal(act(slice(0, 3)), seen)
    for frame in (slice(3, 6), slice(6, 9)):
        assert bool((act(frame) != seen).all())


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("compiled", [True, False])
def test_statistics_are_those_of_the_decisions_of_who_takes_part(compiled: bool, normalize: bool) -> None:
    env = Amid()
    more = {"compiled": compiled, "normalize_observations": normalize, "critic": "central"}
    ppo = PPO(env, PPOConfig(rollout_steps=15, minibatches=2, hidden=(8,), **more))
    learner = ppo.learners["point"]
    expected = ObservationNorm(3, 10.0), ObservationNorm(6, 10.0)
    obs = env.reset(0)[0]
    for _ in range(15):
        assert env.deciding is not None and env.active is not None
        who = env.deciding["point"] & env.active["point"]
        if normalize:
            for norm, rows in zip(expected, (obs["point"], env.state.unsqueeze(1).expand(-1, 2, -1)), strict=True):
                norm.record(rows[who])
        actions = ppo.act(obs)
        result = env.step(actions)
        ppo.observe(obs, actions, result)
        obs = result[0]
    ppo.update(0.0)
    assert learner.states is not None
    for norm, found in zip(expected, (learner.observations, learner.states), strict=True):
        norm.commit()
        for field, x in norm.state_dict().items():
            torch.testing.assert_close(found.state_dict()[field], x, rtol=1e-5, atol=1e-5, msg=field)


@pytest.mark.parametrize("name", SKILLS)
def test_a_decision_under_way_goes_on_as_it_was_taken(name: str) -> None:
    """With every field, into the rollout after the next one too."""
    env, ppo = above(SKILLS[name], True, critic="central")
    learner = ppo.learners["point"]
    assert isinstance(learner, OptionLearner)
    obs = env.reset(0)[0]
    for _ in range(3):
        obs = collect(ppo, env, obs, 8)
        before = {f: x.clone() for f, x in learner.decisions.rows().items()}
        latest = {int(who): row for row, who in enumerate(before["index"])}
        ppo.update(0.0)
        assert env.deciding is not None
        under = (~env.deciding["point"]).flatten().nonzero().squeeze(1)
        learner.start(ppo._generator)
        after = learner.decisions.rows()
        assert len(under) > 0 and torch.equal(after["index"], under)
        for f, x in after.items():
            assert torch.equal(x, before[f][[latest[int(who)] for who in under]]), f


def test_the_entropy_is_that_of_the_decisions_that_are_learned_from() -> None:
    env, ppo = above(SKILLS["masked choices"], True)
    learner = ppo.learners["point"]
    assert isinstance(learner, OptionLearner)
    obs = env.reset(0)[0]
    obs = collect(ppo, env, obs, 8)
    assert env.deciding is not None
    samples = learner.samples(obs["point"], None, None, env.deciding["point"])
    assert samples.choice_log_probs is not None and samples.action.shape[1] < learner.decisions.end
    p = samples.choice_log_probs[0].exp()
    assert float(learner.entropy()) == pytest.approx(float(torch.special.entr(p).sum(-1).mean()), rel=1e-5)


def test_a_high_level_is_held_near_the_policy_that_it_began_as() -> None:
    """The divergence that is told is that of Gaussians from the reference, and a large weight keeps it small."""
    found = {}
    for weight in (1e-6, 1e3):
        env, ppo = above(SKILLS["numbers"], True, reference_kl_coef=weight, learning_rate=0.01)
        learner = ppo.learners["point"]
        before = learner.parameters.clone()
        obs = env.reset(0)[0]
        for _ in range(4):
            obs = collect(ppo, env, obs, 8)
            figures = ppo.update(0.0)
        assert learner.reference is not None and torch.equal(learner.reference.parameters, before)
        found[weight] = figures["point/reference_kl"]
    assert 0.0 < found[1e3] < 0.2 * found[1e-6]
