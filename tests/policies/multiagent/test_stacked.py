"""Policies of one shape in one pass: each world gets what its own policy would do."""

from __future__ import annotations

import pytest
import torch
from policies_fake import FakeEnv

from rookery.policies.multiagent.population import Population
from rookery.policies.multiagent.stacked import Layout, stacked
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import PolicyAct, act_with


class Told(FakeEnv):
    @property
    def episode_start(self) -> torch.Tensor:
        return self.clock == 0


def policy(seed: int, hidden: tuple[int, ...] = (8, 6), memory: int = 0, **more: str) -> Policy:
    out = Policy(standard(3, 2, hidden, memory_size=memory, **more)).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in out.parameters():
            x.normal_(0.0, 0.7, generator=g)
        out.get_buffer("normalize.mean").normal_(generator=g)
        out.get_buffer("normalize.std").uniform_(0.5, 2.0, generator=g)
    return out


def acts(env: FakeEnv, policies: list[Policy]) -> list[PolicyAct]:
    return [act_with({"point": p}, env) for p in policies]


@pytest.mark.parametrize("kind", [{}, {"activation": "relu", "squash": "tanh"}])
def test_each_world_gets_the_actions_of_its_policy(kind: dict[str, str]) -> None:
    env = Told(40, agents=2, act=2)
    policies = [policy(k, **kind) for k in range(5)]
    population = Population(env, acts(env, policies), seed=3)
    obs, g = env.reset()[0], torch.Generator().manual_seed(0)
    passes = set()
    for t in range(20):
        got = population(obs)["point"]
        passes.add(population._layout is not None)
        for world, k in enumerate(population.assignment.tolist()):
            torch.testing.assert_close(got[world], policies[k](obs["point"][world]), rtol=1e-5, atol=1e-6)
        obs = env.step({"point": torch.randn(40, 2, 2, generator=g)})[0]
        if t == 10:  # one of them plays almost everywhere: the padding would be most of it
            population.set_weights([1.0, 0.0, 0.0, 0.0, 0.02])
        population.draw(torch.arange(40) if t == 10 else torch.arange(t))
    assert passes == {True, False}


def test_worlds_by_policy() -> None:
    layout = Layout(torch.tensor([2, 0, 0, 1, 2, 0]), 4)
    assert layout.worlds.tolist() == [[1, 2, 5], [3, 0, 0], [0, 4, 0], [0, 0, 0]]
    assert layout.worlds.flatten()[layout.place].tolist() == [0, 1, 2, 3, 4, 5]
    assert layout.padding == 2.0


def test_others_go_one_by_one() -> None:
    env = Told(6, agents=2, act=2)
    plain, other, wide = policy(0), policy(1, memory=3), policy(2, (9, 6))
    assert stacked(acts(env, [plain])) is None
    assert stacked(acts(env, [plain, policy(3)])) is not None
    assert stacked(acts(env, [plain, other])) is None
    assert stacked(acts(env, [plain, wide])) is None
    assert stacked([*acts(env, [plain, plain]), lambda obs: obs]) is None
