"""What a step gives may be kept: no environment and no adapter writes to it in later steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery import isaacgym
from rookery.sim.adapters.gymnasium_source import make_gymnasium
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.adapters.isaacgym.rookery_task import RookeryVecTask
from rookery.sim.env import Env

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "examples"))

import isaacgym_cartpole  # noqa: F401 - registers Cartpole

WORLDS, STEPS = 3, 25
SHORT = {"episode_s": 0.2}  # 20 control steps


def hover() -> Env:
    env = rookery.make("drone-hover", WORLDS, config=SHORT, seed=5)
    env.reset(seed=5)
    return env


def cartpole() -> isaacgym.VecTask:
    made = isaacgym.make(seed=1, task="Cartpole", num_envs=WORLDS, cfg={"env": {"maxEpisodeLength": 6}})
    assert isinstance(made, isaacgym.VecTask)
    return made


Step = Callable[[torch.Tensor], Any]


def vector(tensors: bool) -> Step:
    env = VectorEnv(hover(), tensors=tensors)
    return lambda action: env.step(action if tensors else action.numpy())


def vec_task() -> Step:
    return RookeryVecTask(hover(), {"env": {"asymmetric_observations": True}}, rl_device="cpu", sim_device="cpu").step


def own_vec_task() -> Step:
    task = cartpole()
    return lambda action: task.step(action[:, :1])


def rsl_rl() -> Step:
    pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
    from rookery.sim.adapters.rsl_rl_env import RslRlEnv

    return RslRlEnv(hover(), reward_scale=0.5).step


def sb3() -> Step:
    pytest.importorskip("stable_baselines3", reason="the extra `trainers` is not installed")
    from rookery.sim.adapters.sb3_env import Sb3VecEnv

    env = Sb3VecEnv(hover())
    return lambda action: env.step(action.numpy())


def skrl() -> Step:
    pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
    from rookery.sim.adapters.skrl_env import SkrlEnv

    env = SkrlEnv(hover(), states=True)
    env.reset()
    return lambda action: (env.step(action), env.state())


def torchrl() -> Step:
    pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")
    from rookery.sim.adapters.torchrl_env import TorchRLEnv

    env = TorchRLEnv(hover())
    data = [env.reset()]

    def step(action: torch.Tensor) -> Any:
        done, following = env.step_and_maybe_reset(data[0].set("action", action))
        data[0] = following
        return done.to_dict()

    return step


ADAPTERS = {
    "gymnasium, NumPy": lambda: vector(False),
    "gymnasium, tensors": lambda: vector(True),
    "VecTask": vec_task,
    "VecTask of the user's": own_vec_task,
    "rsl_rl": rsl_rl,
    "sb3": sb3,
    "skrl": skrl,
    "torchrl": torchrl,
}


def leaves(value: Any) -> Iterator[np.ndarray]:
    """All arrays in nested containers, as they lie in memory."""
    if isinstance(value, torch.Tensor):
        yield value.numpy()
    elif isinstance(value, np.ndarray):
        if value.dtype != object:
            yield value
        else:
            yield from (leaf for item in value if item is not None for leaf in leaves(item))
    elif hasattr(value, "items"):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)


@pytest.mark.parametrize("name", ADAPTERS)
def test_what_a_step_gives_never_changes(name):
    step = ADAPTERS[name]()
    torch.manual_seed(0)
    kept = []
    ended = 0
    for _ in range(STEPS):
        action = torch.rand(WORLDS, 4) * 2 - 1
        given = step(action)
        action.fill_(0.5)  # a trainer may use its buffer of actions again
        arrays = list(leaves(given))
        kept += [(a, a.copy()) for a in arrays]
        ended += any(a.dtype in (bool, np.int64) and a.any() for a in arrays)
    assert ended and len(kept) > 3 * STEPS
    for i, (now, then) in enumerate(kept):
        assert np.array_equal(now, then, equal_nan=True), i


ENVS: dict[str, Callable[[], Env]] = {
    "one task": hover,
    "several agents": lambda: rookery.make("drone-swap", WORLDS, config=SHORT),
    "scalarised": lambda: rookery.make("swarm-surround", WORLDS, config=SHORT, weights={"closeness": 1.0}),
    "articulated": lambda: rookery.make("table-reach", WORLDS, config={"episode_s": 0.4}),
    "several tasks": lambda: rookery.make("MT10", 10),
    "VecTask": lambda: isaacgym.as_env(cartpole(), seed=1),
    "gymnasium": lambda: make_gymnasium("Pendulum-v1", WORLDS),
}


@pytest.mark.parametrize("name", ENVS)
def test_an_env_gives_new_tensors_and_last_observations_of_all_worlds(name):
    """See `Env.step`: adapters hand them on as they are."""
    env = ENVS[name]()
    env.reset(seed=0)
    env.stagger()
    torch.manual_seed(0)
    kept = []
    ended = 0
    for _ in range(STEPS if name != "gymnasium" else 201):
        actions = {g: torch.rand(env.num_envs, s.count, s.action.size) * 2 - 1 for g, s in env.groups.items()}
        obs, reward, terminated, truncated, info = env.step(actions)
        final = info.get("final_observation", {})
        kept += [(a, a.copy()) for a in leaves((obs, reward, terminated, truncated, final))]
        done = terminated | truncated
        assert bool(final) == bool(done.any())
        for g, last in final.items():
            assert torch.equal(last[~done], obs[g][~done])
            assert not torch.equal(last[done], obs[g][done])
        ended += int(done.sum())
    assert ended or name == "several tasks"
    assert all(np.array_equal(now, then) for now, then in kept)
    env.close()
