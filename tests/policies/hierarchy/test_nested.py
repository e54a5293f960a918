"""Hierarchies as skills of other ones: the decisions within skills, at events of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from noisy import Noisy
from policies_fake import FakeEnv
from random_policy import random_policy
from skilled import constant, skilled
from torch import Tensor

from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete

EVERY = 6
"""Control steps that the inner high level decides for."""


def inner(env: Env, **settings: Any) -> Policy:
    """A hierarchy over two constant skills, left where the first number is positive, else right; it decides anew at a tap."""
    group = env.groups["point"]
    skills = {"left": constant(group, -0.5), "right": constant(group, 0.5)}
    made = skilled(env, skills, **({"every": EVERY, "events": ["tap"]} | settings))
    high = made.groups["point"]
    if not high.action.choices:
        return made.deployed({"point": random_policy(high, 1)})["point"]
    policy = Policy(standard(high.observation_size, high.action.outputs, (), choose=Choose.of(high.action))).eval()
    with torch.no_grad():
        for x in policy.parameters():
            x.zero_()
        policy.get_parameter("perceptron.weight_0")[0, 0] = 1.0
        policy.get_parameter("perceptron.weight_0")[1, 0] = -1.0
    return made.deployed({"point": policy})["point"]


def nested(env: Env, **settings: Any) -> HierarchicalEnv:
    """A high level above that hierarchy and a constant, which decides at a bell."""
    policies = {"inner": inner(env), "rest": constant(env.groups["point"], 0.0)}
    return skilled(env, policies, **({"every": 9, "events": ["bell"]} | settings))


def test_a_skill_decides_at_its_own_events_as_a_slow_reference_does() -> None:
    env = nested(Noisy(5, agents=2, horizon=17, seed=3))
    given: list[Tensor] = []
    step = env.acting.step
    env.acting.step = lambda actions: given.append(actions["point"].clone()) or step(actions)  # type: ignore[func-returns-value, method-assign]
    g = torch.Generator().manual_seed(1)
    x = env.reset(0)[0]["point"]
    outer, left, action = ([[0.0] * 2 for _ in range(5)] for _ in range(3))
    tap = fresh = torch.zeros(5, 2, dtype=torch.bool)
    counted = {"tap": 0, "time": 0, "entered": 0}
    for _ in range(80):
        chosen = torch.randint(0, 2, (5, 2, 1), generator=g).float()
        due = env.deciding["point"]
        for i in range(5):
            for j in range(2):
                before = outer[i][j]
                outer[i][j] = float(chosen[i, j, 0]) if due[i, j] else before
                if outer[i][j] == 1.0:
                    left[i][j], action[i][j] = 0.0, 0.0  # the skill that does not act forgets
                    continue
                why = (
                    "entered"
                    if before == 1.0 or fresh[i, j]
                    else "tap"
                    if tap[i, j]
                    else "time"
                    if left[i][j] <= 0
                    else ""
                )
                if fresh[i, j] or tap[i, j] or left[i][j] <= 0.0:
                    left[i][j], action[i][j] = EVERY, -0.5 if x[i, j, 0] > 0.0 else 0.5
                    counted[why] += 1
                left[i][j] -= 1.0
        obs, _, terminated, truncated, info = env.step(chosen)
        torch.testing.assert_close(given[-1][..., 0], torch.tensor(action))
        x, tap = obs["point"], info["events"]["tap"]
        fresh = (terminated | truncated).unsqueeze(1).expand(5, 2)
    assert min(counted.values()) > 10, counted


@pytest.mark.parametrize("central", [False, True])
def test_the_deployed_policy_acts_as_the_hierarchy_did(central: bool) -> None:
    envs = [Noisy(6, agents=2, horizon=19, seed=4) for _ in range(2)]
    env = nested(envs[0], central=central)
    high = random_policy(env.groups["point"], 3)
    act = act_with({"point": high}, env)
    deployed = env.deployed({"point": high})
    assert deployed["point"].events == ("bell", "tap")
    alone = act_with(deployed, envs[1])
    one, two = env.reset(5)[0], envs[1].reset(5)[0]
    for _ in range(60):
        one = env.step(act(one))[0]
        two = envs[1].step(alone(two))[0]
        torch.testing.assert_close(one["point"].flatten(1), two["point"].flatten(1), rtol=1e-5, atol=1e-5)


def test_a_saved_state_has_the_events_that_skills_have_been_told_of() -> None:
    env = nested(Noisy(5, agents=2, horizon=17, seed=3))
    env.reset(0)
    choice = torch.zeros(5, 2, 1)
    while not env.levels["point"].told.any():
        env.step(choice)
    state = {name: x.clone() for name, x in env.levels["point"].state().items()}
    actions = []
    for told in (True, False):
        for name, own in env.levels["point"].state().items():
            own.copy_(state[name])
        if not told:
            env.levels["point"].told.zero_()
        actions.append(env.levels["point"].act(choice, None))
    assert "hierarchy.point.told" in state and not torch.equal(*actions)


def test_skills_that_cannot_be_are_refused() -> None:
    deaf = FakeEnv(2, agents=2)
    deaf.event_names = ("bell",)
    policy = inner(Noisy(2, agents=2))
    with pytest.raises(
        RookeryError, match="the skill 'a' decides at the event 'tap', and fake has bell: give another skill"
    ):
        skilled(deaf, {"a": policy, "b": policy})
    noisy = Noisy(2, agents=2)
    with pytest.raises(RookeryError, match="decides for a team of 2 at once: give one that acts for one agent"):
        skilled(noisy, {"a": inner(noisy, central=True), "b": policy})
    group = noisy.groups["point"]
    action = ActionSpec("pick", choices=(Discrete("way", ("left", "right")),))
    picks = Policy(standard(group.observation_size, action.outputs, (), choose=Choose.of(action)))
    with pytest.raises(RookeryError, match="the skill 'a' chooses among options: give one that acts by numbers alone"):
        skilled(noisy, {"a": picks, "b": policy})
