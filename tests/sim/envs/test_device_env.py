"""DeviceEnv gives what the environment below gives, on its device; nothing that was given is written to again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from pretend_gpu import There, pretended_gpu
from sampled import slow_but
from torch import Tensor

import rookery
from rookery.sim.env import Env
from rookery.sim.envs.device_env import DeviceEnv, on_device
from rookery.sim.envs.staging import Staging
from rookery.sim.errors import RookeryError

CPU = torch.device("cpu")
N = 6
TASKS: dict[str, dict[str, Any]] = {
    "drone-hover": {"episode_s": 0.05},
    "swarm-surround": {"episode_s": 0.2},
    "volley-1v1": {"episode_s": 0.2},
    "drone-tag": {"episode_s": 0.2},
}
BESIDE = (
    "state", "active", "deciding", "action_mask", "privileged_targets", "reveal_future_mask", "episode_start", "task_index",
    "latest_events",
)  # fmt: skip


def same(mine: Any, its: Any, where: str = "") -> None:
    """Nested dicts of tensors are equal; those of the device are on it, but for the figures of episodes."""
    if isinstance(mine, Mapping):
        assert list(mine) == list(its), where
        for key in mine:
            same(mine[key], its[key], f"{where}/{key}")
    elif isinstance(mine, Tensor):
        assert isinstance(its, There) == (not where.startswith("info/episode")), where
        its = its.cpu()
        assert its.dtype == mine.dtype, where
        torch.testing.assert_close(its, mine, rtol=0.0, atol=0.0, equal_nan=True, msg=where)
    else:
        assert mine is None and its is None, where


@pytest.mark.parametrize("task", slow_but(["drone-hover", "volley-1v1"], TASKS))
def test_it_gives_what_the_environment_gives(task: str, monkeypatch) -> None:
    one = rookery.make(task, N, seed=2, config=TASKS[task])
    below = rookery.make(task, N, seed=2, config=TASKS[task])
    draws = torch.Generator().manual_seed(0)
    ends = 0
    with pretended_gpu(monkeypatch) as gpu:
        other = DeviceEnv(below, gpu)
        same(one.reset()[0], other.reset()[0], "obs")
        for _ in range(25):
            actions = {
                g: torch.rand(N, x.count, x.action.size, generator=draws) * 2.0 - 1.0 for g, x in one.groups.items()
            }
            got, its = one.step(actions), other.step({g: a.to(gpu) for g, a in actions.items()})
            for what, a, b in zip(("obs", "reward", "terminated", "truncated"), got, its, strict=False):
                same(a, b, what)
            info = dict(got[4])
            if "final_state" in info:  # valid in the worlds that ended
                ends += 1
                ended = (got[2] | got[3]).view(-1, *[1] * (info["final_state"].dim() - 1))
                info["final_state"] = torch.where(ended, info["final_state"], 0.0)
            same({k: info[k] for k in sorted(info)}, {k: its[4][k] for k in sorted(its[4])}, "info")
            for name in BESIDE:
                if name != "state" or one.state_size:
                    same(getattr(one, name), getattr(other, name), name)
            same(one.metrics(), other.metrics(), "metrics")
    assert ends > 1
    one.close()
    other.close()


def test_actions_of_the_wrong_device_are_a_sentence(monkeypatch) -> None:
    env = rookery.make("drone-hover", 2)
    with pretended_gpu(monkeypatch) as gpu:
        other = DeviceEnv(env, gpu)
        other.reset()
        with pytest.raises(RookeryError, match="must be an ordinary tensor on 'lazy', got one on 'cpu'"):
            other.step(torch.zeros(2, 1, 4))
        act = other.controller()
        assert act is not None
        actions = act(other.reset()[0])
        assert all(isinstance(a, There) for a in actions.values())
        other.step(actions)


def test_what_it_gave_is_not_written_to_again() -> None:
    """Also where the device is the CPU, and where tensors of one call have many sizes and types, or none."""
    staging = Staging(CPU)
    source = torch.zeros(1000)
    given = []
    for i in range(4):
        source.fill_(float(i))
        given.append(staging.send([source, source[: 3 + i] > 0.0, torch.tensor(i), source[:0].view(0, 5)]))
    assert staging.send([]) == [] and staging.send([source[:0]])[0].shape == (0,)
    for i, (whole, flags, number, empty) in enumerate(given):
        assert (whole == float(i)).all() and flags.tolist() == [i > 0] * (3 + i) and int(number) == i
        assert empty.shape == (0, 5)


def test_copies_and_states() -> None:
    """A copy goes on alike, and states are those of the environment below."""
    env: Env = DeviceEnv(rookery.make("drone-hover", 3, seed=1), CPU)
    env.reset()
    env.step({g: torch.zeros(3, x.count, x.action.size) for g, x in env.groups.items()})
    twin = copy.deepcopy(env)
    assert isinstance(twin, DeviceEnv)
    plain = rookery.make("drone-hover", 3, seed=1)
    plain.reset()
    plain.load_state_dict(env.state_dict())
    ends = [
        e.step({g: torch.ones(3, x.count, x.action.size) for g, x in env.groups.items()}) for e in (env, twin, plain)
    ]
    for its in ends[1:]:
        assert all(torch.equal(ends[0][0][g], its[0][g]) for g in env.groups)
    assert on_device(env, CPU) is env and env.unwrapped is not env and env.locate(2) == (env.unwrapped, 2)
