"""Checkers and wrappers of the libraries over our adapters, each from a bug report that another package got."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from pettingzoo.test import api_test, parallel_api_test
from pettingzoo.utils import parallel_to_aec

import rookery
from rookery.sim.errors import RookeryError

NAME = "rookery/drone-hover-v0"
SHORT = {"episode_s": 0.05}  # 5 control steps
ZERO = np.zeros((2, 4), np.float32)


def vector(**arguments: Any) -> gymnasium.vector.VectorEnv:
    return gymnasium.make_vec(NAME, 2, config=SHORT, **arguments)


def test_gymnasium_counts_every_episode_in_full():
    """Gymnasium 1624: from the second episode on it missed a step where episodes begin in the same step."""
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(vector())
    env.reset()
    told = []
    for _ in range(15):
        *_, info = env.step(ZERO)
        if "episode" in info:
            told.append(info)
    assert [info["episode"]["l"].tolist() for info in told] == [[5, 5]] * 3
    for info in told:
        assert np.allclose(info["episode"]["r"], info["final_info"]["return"], rtol=1e-4)


def test_infos_of_vectors_become_lists():
    env = gymnasium.wrappers.vector.DictInfoToList(vector())
    env.reset()
    for _ in range(5):
        *_, infos = env.step(ZERO)
    assert [set(info) for info in infos] == [{"final_obs", "final_info"}] * 2
    assert all(info["final_info"]["length"] == 5 for info in infos)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_every_way_of_beginning_episodes(mode):
    env = SyncVectorEnv([lambda: gymnasium.make(NAME, config=SHORT)] * 2, autoreset_mode=mode)
    env.reset()
    ended = 0
    for _ in range(18):
        *_, terminated, truncated, _ = env.step(env.action_space.sample())
        done = terminated | truncated
        ended += int(done.sum())
        if mode is AutoresetMode.DISABLED and done.any():
            env.reset(options={"reset_mask": done})
    assert ended == 6  # a step in between, by NEXT_STEP
    env.close()


def test_gymnasiums_time_limit_of_vectors_is_each_worlds_own():
    """Isaac Lab 1335: one clock for all environments, and a truncation that was no array."""
    env = gymnasium.make_vec(NAME, 3, max_episode_steps=4)
    env.reset()
    ends = [env.step(np.zeros((3, 4), np.float32))[3] for _ in range(9)]
    assert [end.tolist() for end in ends] == [[i % 4 == 3] * 3 for i in range(9)]
    wide = gymnasium.make_vec(
        "rookery/MT10-v0", 2, max_episode_steps=7, config={"tasks": ["table-reach", "table-push"]}
    )
    assert {part.max_episode_steps for part in wide.unwrapped.env.parts.values()} == {7}
    for made in (env, wide):
        made.close()
    for wrong, words in (
        ({"max_episode_steps": 0}, "at least 1"),
        ({"max_episode_steps": 4, "config": SHORT}, "two time limits"),
    ):
        with pytest.raises(RookeryError, match=words):
            gymnasium.make_vec(NAME, 2, **wrong)


def test_unknown_arguments_are_named():
    for make in (gymnasium.make, gymnasium.make_vec):
        for kind in (RookeryError, TypeError):
            with pytest.raises(kind, match=r"unexpected keyword argument 'sed': did you mean 'seed'\?"):
                make(NAME, sed=3)
    with pytest.raises(RookeryError, match=r"use gymnasium.make_vec with num_envs=4"):
        gymnasium.make(NAME, num_envs=4)


def test_pettingzoos_checkers_with_agents_that_take_no_part():
    def make() -> rookery.ParallelEnv:
        config = {"episode_s": 0.25, "fewest_drones": 2}
        return rookery.ParallelEnv(rookery.make("swarm-surround", config=config, weights={"closeness": 1.0}))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parallel_api_test(make(), num_cycles=40)
        api_test(parallel_to_aec(make()), num_cycles=40)


def test_all_agents_are_back_after_a_reset():
    """PettingZoo 1229: agents that had died stayed away in the next episode."""
    env = rookery.ParallelEnv(rookery.make("drone-swap", config={"episode_s": 3.0}))
    env.reset(seed=0)
    everyone = list(env.agents)
    for _ in range(60):
        if len(env.agents) < len(everyone):
            break
        env.step({name: np.array([1.0, -1.0, 1.0, -1.0], np.float32) for name in env.agents})
    env.reset(seed=0)
    assert env.agents == everyone == env.possible_agents


def test_stable_baselines3_takes_the_single_environment():
    pytest.importorskip("stable_baselines3", reason="the extra `trainers` is not installed")
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecMonitor

    from rookery.sim.adapters.sb3_env import Sb3VecEnv

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(NAME, config=SHORT).unwrapped)
    for seed, alike in ((None, False), (7, True)):
        firsts = [make_vec_env(NAME, n_envs=3, seed=seed, env_kwargs={"config": SHORT}).reset() for _ in range(2)]
        assert np.array_equal(*firsts) == alike
        assert len(np.unique(firsts[0], axis=0)) == 3
    env = VecMonitor(Sb3VecEnv(rookery.make("drone-hover", 2, config=SHORT)))
    env.reset()
    for _ in range(10):
        *_, infos = env.step(ZERO)
    assert [info["episode"]["l"] for info in infos] == [5, 5]


def test_torchrl_takes_every_interface():
    """PyTorch's rl 2138: no reset where PettingZoo's list of agents is empty at the end."""
    pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")
    from torchrl.envs import RewardSum, TransformedEnv
    from torchrl.envs.libs.gym import GymEnv
    from torchrl.envs.libs.pettingzoo import PettingZooWrapper

    from rookery.sim.adapters.torchrl_env import TorchRLEnv

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = rookery.make("swarm-surround", config={"episode_s": 0.25}, weights={"closeness": 1.0})
        data = PettingZooWrapper(rookery.ParallelEnv(inner)).rollout(12, break_when_any_done=False)
        assert int(data["next", "done"].sum()) == 2
        assert int(GymEnv(NAME, config=SHORT).rollout(12, break_when_any_done=False)["next", "done"].sum()) == 2
    env = TransformedEnv(TorchRLEnv(rookery.make("drone-hover", 3, config=SHORT)), RewardSum())
    data = env.rollout(12, break_when_any_done=False)
    reward, total = data["next", "reward"][..., 0], data["next", "episode_reward"][..., 0]
    for end in (4, 9):
        assert torch.allclose(total[:, end], reward[:, end - 4 : end + 1].sum(1))
