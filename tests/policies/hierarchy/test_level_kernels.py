"""Compiled parts of a hierarchy's control step against their torch forms, bit by bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from policies_fake import FakeEnv
from random_policy import random_policy
from skilled import constant, skilled
from torch import Tensor

from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv, Level
from rookery.policies.hierarchy.level_kernels import CompiledCommands, see
from rookery.policies.stages.command import CommandPart, CommandStage
from rookery.policies.stages.decide import Switch
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.select import Select
from rookery.policies.stages.torch_chain import ChainModule
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.sim.arrays import indices
from rookery.sim.errors import RookeryError

SIZE = 6
PLAIN = CommandStage(SIZE, (CommandPart(0, 4),))
LATER = CommandStage(SIZE, (CommandPart(1, 1), CommandPart(2, 3, clip=1.5)))
APART = CommandStage(SIZE, (CommandPart(0, 1), CommandPart(2, 1), CommandPart(3, 2, True, 0, (0.7, -1.1))))
SHIFT = CommandStage(
    SIZE, (CommandPart(0, 1), CommandPart(1, 2, True, 4, (0.3, -2.0), clip=1.5), CommandPart(3, 1, offset=(0.0,)))
)
COMMAND = CommandStage(
    SIZE, (CommandPart(0, 2, False, 4, (0.7, 1.1), (0.1, -0.2), 0.9), CommandPart(0, 1, False), CommandPart(2, 1))
)


def bits(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.int32)


@pytest.mark.parametrize(
    "link",
    [
        PLAIN,
        LATER,
        APART,
        SHIFT,
        COMMAND,
        Switch(5, ((2, 0), (1,), (3,)), ((PLAIN,), (SHIFT,), (COMMAND,))),
        Switch(5, ((2, 0), (1, 3)), ((PLAIN,), (LATER,))),
    ],
)
def test_commands(link: Any) -> None:
    g = torch.Generator().manual_seed(0)
    rows = 2.0 * torch.randn(200, SIZE, generator=g)
    rows[:, 5] = torch.randint(0, 5, (200,), generator=g).float()  # 4 is no case
    rows[::7, 3], rows[::11, 2], rows[::13, 1] = -0.0, torch.nan, torch.inf
    for more in ((), (Normalize(4, 1.1),), (Normalize(4, 1.1), Select(4, ((0, 2),)))):
        policy = ChainModule((link, *more))
        if more:
            part = policy.part("normalize")
            part.mean.copy_(torch.randn(4, generator=g))
            part.std.copy_(torch.rand(4, generator=g) + 0.1)
        made = CompiledCommands.of(policy)
        assert made is not None and made.links == min(1 + len(more), 2)
        wanted = ChainModule(policy.chain.links[: made.links])
        wanted.load_state_dict(policy.state_dict())
        expected = wanted(rows)
        assert torch.equal(bits(made(rows)), bits(expected)) and expected.isnan().any()


def test_commands_that_are_all_of_a_policy_are_not_written_over() -> None:
    made = CompiledCommands.of(ChainModule((PLAIN,)))
    assert made is not None
    first = made(torch.ones(3, SIZE))
    made(torch.zeros(3, SIZE))
    assert torch.equal(first, torch.ones(3, 4))


def test_commands_follow_the_statistics_of_a_normalizer_that_learns() -> None:
    policy = ChainModule((PLAIN, Normalize(4)))
    made = CompiledCommands.of(policy)
    assert made is not None
    before = made(torch.ones(3, SIZE)).clone()
    policy.part("normalize").load_state_dict({"mean": torch.full((4,), 0.5), "std": torch.full((4,), 2.0)})
    assert torch.equal(before, torch.ones(3, 4)) and torch.equal(made(torch.ones(3, SIZE)), torch.full((3, 4), 0.25))


def test_other_beginnings_have_none() -> None:
    policy = random_policy(FakeEnv(1).groups["point"], 0)
    switch = Switch(5, ((0,), (1,)), ((PLAIN,), (SHIFT, CommandStage(4, (CommandPart(0, 4),)))))
    assert CompiledCommands.of(policy) is None and CompiledCommands.of(ChainModule((switch,))) is None


def one_policy(horizon: int = 11) -> HierarchicalEnv:
    env = FakeEnv(6, agents=2, horizon=horizon)
    skills = {
        "shifted": {"policy": "one", "shift": {"state": 0.5}, "every": 3},
        "sent": {"policy": "one", "command": {"state": [[-1.0, 1.0], 0.25, [0.0, 2.0]]}, "finished": "state[0] > 0.5"},
        "left": {"policy": "one"},
    }
    return skilled(env, {"one": random_policy(env.groups["point"], 1)}, every=5, skills=skills)


def team() -> HierarchicalEnv:
    env = FakeEnv(6, agents=2, horizon=11)
    policies = {"a": constant(env.groups["point"], 0.3), "b": constant(env.groups["point"], -0.4)}
    return skilled(
        env, policies, central=True, skills={"a": {"policy": "a", "every": 4}, "b": {"policy": "b", "every": 7}}
    )


def decisions(env: HierarchicalEnv, g: torch.Generator) -> Tensor:
    group = env.groups["point"]
    out = 1.5 * torch.randn(env.num_envs, group.count, group.action.size, generator=g)
    for k, choice in enumerate(group.action.choices):
        out[..., k] = torch.randint(0, len(choice.options), out.shape[:2], generator=g).float()
    return out


def in_torch(level: Level) -> None:
    """Have a level take decisions and give commands by the torch forms."""
    level._commands = None
    level.put = lambda action: level.take(action.flatten(0, 1))  # type: ignore[method-assign]


def test_observations_are_taken_and_whose_time_is_over() -> None:
    g = torch.Generator().manual_seed(4)
    level = one_policy().levels["point"]
    left = torch.randint(-1, 3, level.left.shape, generator=g).float()
    ended = torch.rand(6, generator=g) < 0.3
    found = []
    obs = torch.randn(level.obs.shape, generator=g)
    level.decided.fill_(0.25)
    arrays = [x.numpy() for x in (level.rows, level.left, level.due)]
    for form in (level.see, lambda obs, ended: see(obs.numpy(), ended.numpy(), *arrays)):
        level.left.copy_(left)
        level.obs.zero_()
        form(obs, ended)
        assert torch.equal(level.obs, obs) and bool((level.decided == 0.25).all())
        found.append((level.left.clone(), level.due.clone()))
    for ours, theirs in zip(*found, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(found[0][1], (left <= 0.0) | ended[:, None]) and 0 < int(found[0][1].sum()) < 12


@pytest.mark.parametrize("make", [one_policy, team])
def test_a_rollout(make: Any) -> None:
    ours, theirs = make(), make()
    in_torch(theirs.levels["point"])
    obs = [env.reset(0)[0]["point"] for env in (ours, theirs)]
    g = torch.Generator().manual_seed(1)
    waited = 0
    for _ in range(40):
        action = decisions(ours, g)
        results = [env.step({"point": action.clone()}) for env in (ours, theirs)]
        a, b = (env.levels["point"] for env in (ours, theirs))
        for name, value in a.state().items():
            assert torch.equal(value, b.state()[name]), name
        obs = [result[0]["point"] for result in results]
        assert torch.equal(bits(obs[0]), bits(obs[1]))
        waited += int((~a.due).sum())
    assert waited > 50


@pytest.mark.parametrize(
    ("value", "message"),
    [(torch.nan, "NaN or infinity, first in world 4"), (3.0, "0 to 2"), (0.5, "got 0.5"), (-1.0, "got -1")],
)
def test_a_wrong_decision_changes_nothing(value: float, message: str) -> None:
    env = one_policy()
    env.reset(0)
    action = decisions(env, torch.Generator().manual_seed(2))
    env.step(action)
    level = env.levels["point"]
    level.due.fill_(True)
    level.due[2, 0] = False
    before = {name: value.clone() for name, value in level.state().items()}
    action[4, 1, 0] = value
    action[2, 0] = torch.nan  # not read
    with pytest.raises(RookeryError, match=message):
        env.step(action)
    for name, now in level.state().items():
        assert torch.equal(now, before[name]), name


def test_normalizing_what_is_recorded() -> None:
    g = torch.Generator().manual_seed(3)
    ours, theirs = ObservationNorm(5, 2.0), ObservationNorm(5, 2.0)
    for _ in range(3):
        for _ in range(4):
            x = 3.0 * torch.randn(7, 1, 5, generator=g) + 1.0
            theirs.record(x)
            assert torch.equal(ours.record_normalized(x, torch.empty_like(x)), theirs.normalize(x))
        ours.commit()
        theirs.commit()
        for name, value in ours.state_dict().items():
            assert torch.equal(value, theirs.state_dict()[name]), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])  # compiled, and by torch
def test_rows_are_gathered_counted_and_normalized(dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(4)
    ours, theirs = ObservationNorm(5, 1.5), ObservationNorm(5, 1.5)
    for share in (0.4, 1.0, 0.0):
        x = 3.0 * torch.randn(300, 5, generator=g, dtype=dtype) + 1.0
        x[3, 2] = torch.nan if share == 1.0 else 0.0
        which = torch.rand(300, generator=g) < share
        index = indices(which)
        assert torch.equal(index, which.nonzero().squeeze(1))
        rows = ours.gather(x, index, record=share != 1.0)
        torch.testing.assert_close(rows, theirs.normalize(x[which]), rtol=1e-6, atol=1e-6, equal_nan=True)
        if share != 1.0:
            theirs.record(x[which])
        ours.commit()
        theirs.commit()
        for name, value in ours.state_dict().items():
            torch.testing.assert_close(value, theirs.state_dict()[name], rtol=1e-6, atol=1e-6)
