"""Whatever runs a policy with memory hands its state on, and begins anew where an episode begins."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_cue import CueEnv
from skilled import skilled
from torch import Tensor, nn

import rookery
from rookery.policies.fuse import fuse_policies
from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
from rookery.policies.imitation.teacher import PolicyTeacher, TeacherGroup
from rookery.policies.low_pass import low_pass
from rookery.policies.multiagent.frozen_opponent import frozen_opponent
from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ObservationSet

MEMORY = 5


def made(env: Env, group: str, seed: int = 0) -> Policy:
    """A policy of a group whose actions depend much on its state."""
    spec = env.groups[group]
    policy = Policy(standard(spec.observation_size, spec.action.size, (8,), memory_size=MEMORY)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, x in policy.named_parameters():
            x.normal_(0.0, 0.5 if "weight" in name else 0.3, generator=generator)
    return policy


class Oracle:
    """A policy unrolled cell by cell, its state put back by the ends that `step` returned."""

    def __init__(self, policy: Policy, lead: tuple[int, ...]) -> None:
        self.policy = policy
        self.state = torch.zeros(*lead, MEMORY)

    @torch.no_grad()
    def act(self, obs: Tensor) -> Tensor:
        p = self.policy
        cell = nn.GRUCell(p.observation_size, MEMORY)
        cell.load_state_dict(p.part("gru").state_dict())
        x = (obs - p.get_buffer("normalize.mean")) / p.get_buffer("normalize.std")
        self.state = cell(x.flatten(0, -2), self.state.flatten(0, -2)).view_as(self.state)
        first, last = layers_of(p)
        hidden = nn.functional.linear(self.state, *first).tanh()
        return nn.functional.linear(hidden, *last).clamp(-1.0, 1.0)

    def end(self, ended: Tensor) -> None:
        self.state[ended] = 0.0


def test_evaluation_begins_anew_where_an_episode_begins() -> None:
    env = CueEnv(6, horizon=4)
    env.clock.copy_(torch.arange(6) % 4)
    policy = made(env, "player")
    oracle = Oracle(policy, (6, 1))
    act = act_with({"player": policy}, env)
    begin = env.reset

    def reset_at_different_times(seed: int | None = None) -> Any:
        begin(seed)
        env.clock.copy_(torch.arange(6) % 4)
        return env._obs(), {}

    env.reset = reset_at_different_times  # type: ignore[method-assign]
    differences = []
    step = env.step

    def compared(actions: Any) -> Any:
        seen = env._obs()["player"]
        differences.append((actions["player"] - oracle.act(seen)).abs().max().item())
        result = step(actions)
        oracle.end(result[2] | result[3])
        return result

    env.step = compared  # type: ignore[method-assign]
    evaluate(env, act, 24)
    assert len(differences) > 12 and max(differences) < 1e-6


def test_a_second_evaluation_does_not_remember_the_first() -> None:
    env = CueEnv(6)
    act = act_with({"player": made(env, "player")}, env)
    first = evaluate(env, act, 9, seed=3)
    assert evaluate(env, act, 9, seed=3) == first


def test_agents_have_their_own_memory_with_common_and_with_own_weights() -> None:
    env = rookery.make("volley-3v3", 2)
    (name,) = env.groups
    count = env.groups[name].count
    common = made(env, name)
    own = {f"{name}_{i}": made(env, name, seed=i) for i in range(count)}
    for policies in ({name: common}, own):
        act = act_with(policies, env)
        oracles = [Oracle(own[f"{name}_{i}"] if len(policies) > 1 else common, (2,)) for i in range(count)]
        obs, _ = env.reset(0)
        for _ in range(6):
            actions = act(obs)
            wanted = torch.stack([o.act(obs[name][:, i]) for i, o in enumerate(oracles)], 1)
            torch.testing.assert_close(actions[name], wanted, rtol=1e-5, atol=1e-6)
            obs, _, terminated, truncated, _ = env.step(actions)
            for oracle in oracles:
                oracle.end(terminated | truncated)
    env.close()


# A skill below the actions, an opponent, a teacher


def continues_exactly(make: Any) -> None:
    """An environment that is saved and loaded goes on bit for bit."""
    one, other = make(), make()
    (name,) = one.groups
    group = one.groups[name]
    generator = torch.Generator().manual_seed(0)
    actions = 0.3 * torch.randn(30, one.num_envs, group.count, group.action.size, generator=generator)
    one.reset(0)
    for a in actions[:12]:
        one.step({name: a})
    other.reset(5)
    other.step({name: actions[20]})
    other.load_state_dict(one.state_dict())
    for a in actions[12:]:
        mine, theirs = (env.step({name: a})[0][name] for env in (one, other))
        assert torch.equal(mine, theirs)
    one.close()
    other.close()


def hover_skill() -> HierarchicalEnv:
    env = rookery.make("drone-hover", 3, config={"episode_s": 0.1})
    skills = {"hover": {"policy": "hover", "shift": {"position_error": 0.5}}}
    return skilled(env, {"hover": made(env, "drone")}, skills=skills)


def test_a_skill_with_memory() -> None:
    env = hover_skill()
    oracle = Oracle(made(env.acting, "drone"), (3, 1))
    command = torch.zeros(3, 1, 3)
    given = []
    step = env.env.step
    env.env.step = lambda actions: given.append(actions["drone"].clone()) or step(actions)  # type: ignore[func-returns-value, method-assign]
    obs, _ = env.reset(0)
    for _ in range(25):
        wanted = oracle.act(obs["drone"])
        obs, _, terminated, truncated, _ = env.step({"drone": command})
        torch.testing.assert_close(given[-1], wanted, rtol=1e-5, atol=1e-6)
        oracle.end(terminated | truncated)
    env.close()
    continues_exactly(hover_skill)


def test_an_opponent_with_memory() -> None:
    def make() -> Env:
        env = rookery.make("volley-1v1", 2)
        (name,) = env.groups
        return frozen_opponent(env, {name: made(env, name)}, None, next(iter(env.teams)))

    env = make()
    (name,) = env.groups
    assert any(k.startswith("opponent.memory") for k in env.state_dict())
    env.reset(0)
    env.step({name: torch.zeros(2, env.groups[name].count, env.groups[name].action.size)})
    memory = f"opponent.memory.0.{name}"
    assert env.state_dict()[memory].any()
    env.reset(0)
    assert not env.state_dict()[memory].any()
    env.close()
    continues_exactly(make)


def test_a_teacher_with_memory() -> None:
    env = rookery.make("drone-hover", 3, config={"episode_s": 0.1})
    spec = env.groups["drone"]
    policy = made(env, "drone")
    teacher = PolicyTeacher(env, {"drone": TeacherGroup(policy, ObservationSet(spec.observation, spec.history))})
    oracle = Oracle(policy, (3, 1))
    obs, _ = env.reset(0)
    for t in range(25):
        wanted = oracle.act(env.observation_set("teacher")["drone"])
        actions = teacher.act(obs)
        torch.testing.assert_close(actions["drone"], wanted, rtol=1e-5, atol=1e-6)
        if t == 12:
            state = {k: v.clone() for k, v in teacher.state_dict().items()}
            assert state["memory/drone"].any()
            teacher.memory["drone"].zero_()
            teacher.load_state_dict(state)
        obs, _, terminated, truncated, _ = env.step(actions)
        teacher.observe_ends(terminated | truncated)
        oracle.end(terminated | truncated)
    env.close()


def test_what_makes_no_sense_with_memory_is_refused() -> None:
    env = rookery.make("drone-hover", 2)
    group = env.groups["drone"]
    policy = made(env, "drone")
    with pytest.raises(RookeryError, match=r"its stages are .* GRU 16 -> 5"):
        low_pass(policy, group, 0.5)
    with pytest.raises(RookeryError, match=r"only perceptrons on a single frame are fused, .* GRU 16 -> 5"):
        fuse_policies(
            (policy, group), (Policy(standard(group.observation_size, group.action.size, (8,))), group), group
        )
    env.close()
