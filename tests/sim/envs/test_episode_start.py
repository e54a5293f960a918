"""`Env.episode_start` is true where an episode has just begun, in every kind of environment."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sampled import slow_but

import rookery
from rookery.sim.adapters.gymnasium_source import make_gymnasium
from rookery.sim.env import Env
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError


def drones(episode_s: float) -> VecEnv:
    env = rookery.make("drone-hover", 3, config={"episode_s": episode_s})
    assert isinstance(env, VecEnv)
    return env


ENVS: dict[str, Callable[[], Env]] = {
    "one task": lambda: drones(0.08),
    "wrapped": lambda: EnvWrapper(drones(0.08)),
    "side by side": lambda: ConcatEnv([("short", drones(0.05)), ("long", drones(0.08))]),
    "in processes": lambda: rookery.make("table-reach", 4, shards=2, config={"episode_s": 0.5}),
    "gymnasium": lambda: make_gymnasium("Pendulum-v1", 2),
}


@pytest.mark.parametrize("kind", slow_but([kind for kind in ENVS if kind != "in processes"], ENVS))
def test_it_is_true_where_an_episode_has_just_begun(kind: str) -> None:
    env = ENVS[kind]()
    env.reset(0)
    assert env.episode_start.shape == (env.num_envs,) and env.episode_start.all()
    ends = 0
    for _ in range(2 * env.max_episode_steps + 3):
        actions = {g: torch.zeros(env.num_envs, s.count, s.action.size) for g, s in env.groups.items()}
        _, _, terminated, truncated, _ = env.step(actions)
        assert torch.equal(env.episode_start, terminated | truncated)
        ends += int((terminated | truncated).sum())
    assert ends >= 2 * env.num_envs
    env.close()


def test_an_environment_that_does_not_say_so_is_a_sentence() -> None:
    class Silent(EnvWrapper):
        episode_start = Env.episode_start

    env = Silent(drones(0.08))
    with pytest.raises(RookeryError, match="drone-hover does not say where episodes begin"):
        _ = env.episode_start
    env.close()
