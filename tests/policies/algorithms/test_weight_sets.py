"""Sets of agents that learn weights of their own: by name, team and group."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from policies_fake import FakeEnv
from policies_toy import ToyEnv, assert_resumes

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.algorithms.weight_sets import weight_sets
from rookery.policies.training.evaluate import act_with
from rookery.sim.errors import RookeryError

BASE = PPOConfig(rollout_steps=8, epochs=2, minibatches=2, hidden=(8,))


class Match(FakeEnv):
    """Five points, two against three."""

    teams = {"near": {"point": (0, 3)}, "far": {"point": (1, 2, 4)}}  # noqa: RUF012

    def __init__(self, num_envs: int = 6, horizon: int = 5, drop_out: bool = False) -> None:
        super().__init__(num_envs, agents=5, horizon=horizon, drop_out=drop_out)


def test_names_of_agents_groups_and_teams():
    env = Match()
    sets = {name: (s.agents, s.whole) for name, s in weight_sets(env, ("a=near", "b=point_4, point_1")).items()}
    assert sets == {"a": ((0, 3), False), "b": ((1, 4), False), "point": ((2,), False)}
    assert [s.whole for s in weight_sets(env, ()).values()] == [True]
    everyone = weight_sets(env, ("all=point",))
    assert list(everyone) == ["all"] and everyone["all"].whole
    assert {n: s.agents for n, s in weight_sets(env, ("a=near", "b=far")).items()} == {"a": (0, 3), "b": (1, 2, 4)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("near",), "NAME=AGENTS"),
        (("a=",), "NAME=AGENTS"),
        (("a=naer",), "did you mean 'near'"),
        (("a=point_7",), "unknown agent, group or team of fake"),
        (("a=near", "b=point_3"), "point_3 is in the sets 'a' and 'b'"),
        (("a=near", "a=far"), "names the set 'a' twice"),
        (("point=near",), "has the name of a group whose other agents learn too"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(RookeryError, match=said):
        PPO(Match(), replace(BASE, policies=given))


@pytest.mark.parametrize("drop_out", [False, True])
def test_each_set_sees_its_own_agents_and_acts_for_them(drop_out):
    env = Match(drop_out=drop_out)
    ppo = PPO(env, replace(BASE, policies=("a=near", "b=point_4,point_1"), normalize_observations=False))
    obs, _ = env.reset()
    rewards, finals, seen, on = [], {}, [], []
    for t in range(BASE.rollout_steps):
        actions = ppo.act(obs)
        seen.append(obs["point"].clone())
        on.append(torch.ones(6, 5, dtype=torch.bool) if env.active is None else env.active["point"].clone())
        for name, agents in (("a", [0, 3]), ("b", [1, 4]), ("point", [2])):
            assert torch.equal(actions["point"][:, agents], ppo.learners[name].rollout.action[t])
        result = env.step(actions)
        rewards.append(result[1]["point"])
        if "final_observation" in result[4]:
            finals[t] = result[4]["final_observation"]["point"]
        ppo.observe(obs, actions, result)
        obs = result[0]
    assert finals
    for name, agents in (("a", [0, 3]), ("b", [1, 4]), ("point", [2])):
        roll = ppo.learners[name].rollout
        torch.testing.assert_close(roll.observation, torch.stack(seen)[:, :, agents].clamp(-10.0, 10.0))
        assert torch.equal(roll.reward, torch.stack(rewards)[:, :, agents])
        assert torch.equal(roll.active if drop_out else torch.stack(on)[:, :, agents], torch.stack(on)[:, :, agents])
        for t, ids, final, _ in roll.finals:
            torch.testing.assert_close(final, finals[t][ids][:, agents])
    before = {name: learner.parameters.clone() for name, learner in ppo.learners.items()}
    figures = ppo.update(0.0)
    assert all(f"{name}/policy_loss" in figures for name in ppo.learners)
    assert all((learner.parameters != before[name]).any() for name, learner in ppo.learners.items())


def test_policies_are_deployed_by_agent():
    env = Match()
    ppo = PPO(env, replace(BASE, policies=("a=near",)))
    for learner in ppo.learners.values():
        learner.parameters += 0.3 * torch.randn(learner.parameters.shape)
    policies = ppo.policies()
    assert sorted(policies) == [f"point_{i}" for i in range(5)]
    assert policies["point_0"] is policies["point_3"] and policies["point_1"] is policies["point_4"]
    obs, _ = env.reset()
    got = act_with(policies, env)(obs)["point"]
    for name, agents in (("a", [0, 3]), ("point", [1, 2, 4])):
        learner = ppo.learners[name]
        want = learner.mean_action(learner.observations.normalize(obs["point"][:, agents])).clamp(-1.0, 1.0)
        torch.testing.assert_close(got[:, agents], want)
    assert list(PPO(env, replace(BASE, policies=("all=point",))).policies()) == ["point"]


def test_they_resume_with_the_same_bits():
    config = replace(BASE, policies=("pair=point_0,point_2",), memory="gru", memory_size=4, minibatches=1)
    assert_resumes(lambda: PPO(ToyEnv(4, agents=3, drop_out=True), config, seed=1), 2)
