"""Who took part in the step that ended an episode, of swarms whose size is drawn for each episode and stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.envs.concat_env import ConcatEnv

OPTIONS: dict[str, Any] = {"seed": 3, "config": {"episode_s": 0.2, "num_drones": 4, "fewest_drones": 2}}


def assert_of_the_old_episode(env: Env) -> None:
    """In 40 steps of random actions."""
    env.reset()
    env.stagger()
    changed = 0
    torch.manual_seed(0)
    for _ in range(40):
        assert env.active is not None
        before = env.active["drone"].clone()
        info = env.step(2.0 * torch.rand(env.num_envs, 4, 4) - 1.0)[4]
        assert ("final_active" in info) == ("episode" in info)
        if "episode" not in info:
            assert torch.equal(env.active["drone"], before)
            continue
        ids = info["episode"]["ids"]
        final = info["final_active"]["drone"]
        assert final.shape == (env.num_envs, 4)
        assert torch.equal(final[ids], before[ids])
        kept = final.clone()
        changed += int((env.active["drone"][ids] != final[ids]).any(1).sum())
        env.step(torch.zeros(env.num_envs, 4, 4))
        assert torch.equal(final, kept), "callers may keep it"
    assert changed > 5


def test_one_process():
    env = rookery.make("swarm-surround", 6, **OPTIONS)
    assert_of_the_old_episode(env)
    env.close()


@pytest.mark.slow
def test_shards():
    env = rookery.make("swarm-surround", 6, engine="mujoco", shards=2, **OPTIONS)
    assert_of_the_old_episode(env)
    env.close()


def test_parts_of_which_one_has_everybody():
    whole = {**OPTIONS, "config": {"episode_s": 0.2, "num_drones": 4}}
    env = ConcatEnv(
        [("some", rookery.make("swarm-surround", 4, **OPTIONS)), ("all", rookery.make("swarm-surround", 3, **whole))]
    )
    assert_of_the_old_episode(env)
    env.close()


def test_everybody_always():
    env = rookery.make("drone-hover", 2, config={"episode_s": 0.1})
    env.reset()
    infos = [env.step(torch.zeros(2, 1, 4))[4] for _ in range(30)]
    assert any("episode" in i for i in infos)
    assert not any("final_active" in i for i in infos)
    env.close()
