"""Decisions taken by the kernel against those taken in torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from random_policy import random_policy
from skilled import skilled

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.ppo_options import OptionLearner
from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv

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
