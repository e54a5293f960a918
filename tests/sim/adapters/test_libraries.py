"""rsl_rl, Stable-Baselines3, skrl and TorchRL: their own checks, and values against the Env."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError

pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")

from tensordict import TensorDict
from torchrl.envs import EnvBase
from torchrl.envs.utils import check_env_specs

from rookery.sim.adapters.rows import episode_means
from rookery.sim.adapters.rsl_rl_env import RslRlEnv
from rookery.sim.adapters.sb3_env import Sb3VecEnv
from rookery.sim.adapters.skrl_env import SkrlEnv
from rookery.sim.adapters.torchrl_env import TorchRLEnv

SHORT = {"episode_s": 0.2}  # 20 control steps of drone-hover


def pairs(count: int = 25) -> Any:
    """Steps of drone-hover in three worlds that end one after the other: action, and what the Env gives for it."""
    plain = rookery.make("drone-hover", 3, config=SHORT)
    plain.reset(seed=5)
    plain.stagger()
    torch.manual_seed(0)
    for _ in range(count):
        action = torch.rand(3, 4) * 2 - 1
        yield action, plain.step(action[:, None])
    plain.close()


def hover() -> Env:
    env = rookery.make("drone-hover", 3, config=SHORT, seed=5)
    env.reset(seed=5)
    return env


def test_sb3_steps_are_those_of_the_env():
    env = Sb3VecEnv(hover())
    env.seed(5)
    env.reset()
    env.env.stagger()
    ended = 0
    for action, (obs, reward, terminated, truncated, info) in pairs():
        got, r, done, infos = env.step(action.numpy())
        assert np.array_equal(got, obs["drone"][:, 0].numpy())
        assert np.array_equal(r, reward["drone"][:, 0].numpy())
        assert np.array_equal(done, (terminated | truncated).numpy())
        for i in range(3):
            if done[i]:
                ended += 1
                assert np.array_equal(
                    infos[i]["terminal_observation"], info["final_observation"]["drone"][i, 0].numpy()
                )
                assert infos[i]["TimeLimit.truncated"] == bool(truncated[i])
                assert infos[i]["episode"]["l"] > 0
            else:
                assert infos[i] == {}
    assert ended >= 3
    assert env.get_attr("num_envs", [0, 2]) == [3, 3]
    assert env.env_is_wrapped(object) == [False] * 3
    env.close()


def test_sb3_infos_that_somebody_writes_into_are_theirs():
    env = Sb3VecEnv(hover())
    env.reset()
    action = np.zeros((3, 4), np.float32)
    infos = env.step(action)[3]
    infos[1]["note"] = 1
    assert env.step(action)[3] == [{}, {}, {}]
    assert infos == [{}, {"note": 1}, {}]
    env.close()


def test_rsl_rl_steps_are_those_of_the_env():
    inner = hover()
    env = RslRlEnv(inner)
    inner.reset(seed=5)
    env.episode_length_buf = torch.ones(3, dtype=torch.long)
    assert env.episode_length_buf.tolist() == [0, 6, 13]
    counted = 0
    with torch.inference_mode():
        for action, (obs, reward, terminated, truncated, info) in pairs():
            got, r, dones, extras = env.step(action)
            assert torch.equal(got["policy"], obs["drone"][:, 0])
            assert torch.equal(r, reward["drone"][:, 0])
            assert torch.equal(dones, terminated | truncated)
            assert torch.equal(extras["time_outs"], truncated)
            assert torch.equal(env.episode_length_buf, inner.steps)
            if dones.any():
                assert torch.equal(extras["final_observation"][dones], info["final_observation"]["drone"][dones, 0])
                whole = ~info["episode"]["cut"]
                counted += int(whole.sum())
                assert ("log" in extras) == bool(whole.any()), (
                    "no table without names, which the logger would take for all"
                )
                if whole.any():
                    assert extras["log"]["/success"] == info["episode"]["metrics"]["success"][whole].mean()
    assert counted == 1, "world 0 alone begins at its beginning, and ends at step 20"
    assert env.get_observations() is got
    env.close()


def test_means_leave_out_episodes_that_began_in_the_middle():
    episode = {
        "ids": torch.arange(3), "length": torch.tensor([5, 5, 5]), "return": {"a": torch.tensor([1.0, 2.0, 4.0])},
        "metrics": {"success": torch.tensor([1.0, 0.0, 1.0]), "time": torch.tensor([9.0, torch.nan, 3.0])},
    }  # fmt: skip
    means = {"return": 3.0, "length": 5.0, "success": 0.5, "time": 3.0}
    assert episode_means({"episode": episode | {"cut": torch.tensor([True, False, False])}}) == means
    assert episode_means({"episode": episode | {"cut": torch.ones(3, dtype=torch.bool)}}) == {}
    assert episode_means({"episode": episode})["return"] == pytest.approx(7 / 3)


def test_rsl_rl_rewards_are_scaled():
    rewards = []
    for scale in (1.0, 0.25):
        env = RslRlEnv(hover(), reward_scale=scale)
        env.env.reset(seed=5)
        rewards.append(env.step(torch.zeros(3, 4))[1])
        env.close()
    assert (rewards[0] != 0.0).all() and torch.equal(rewards[1], 0.25 * rewards[0])
    with pytest.raises(RookeryError, match="reward_scale is 0"):
        RslRlEnv(hover(), reward_scale=0.0)


def test_skrl_steps_are_those_of_the_env():
    inner = hover()
    env = SkrlEnv(inner, states=True)
    env.reset()
    inner.reset(seed=5)
    inner.stagger()
    for action, (obs, reward, terminated, truncated, info) in pairs():
        got, r, ends, late, infos = env.step(action)
        assert torch.equal(got, obs["drone"][:, 0])
        assert torch.equal(r, reward["drone"])
        assert torch.equal(ends[:, 0], terminated)
        assert torch.equal(late[:, 0], truncated)
        done = terminated | truncated
        if done.any():
            assert torch.equal(infos["final_observation"][done], info["final_observation"]["drone"][done, 0])
            assert torch.equal(infos["final_observation"][~done], got[~done])
    assert torch.equal(env.state(), inner.state)
    assert env.state_space.shape == (inner.state_size,)
    assert torch.equal(env.reset()[0], got)
    env.close()


def test_torchrl_accepts_the_env():
    env = TorchRLEnv(rookery.make("drone-hover", 3, config=SHORT))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env_specs(env)
    data = env.rollout(45, break_when_any_done=False)
    assert data["next", "done"][:, :20].any(1).all()
    first = data["observation"][:, 1:]
    last = data["next", "observation"][:, :-1]
    done = data["next", "done"][:, :-1, 0]
    assert torch.equal(first[~done], last[~done])
    assert (first[done] != last[done]).any(-1).all()
    env.set_seed(3)
    a = env.reset()["observation"].clone()
    env.set_seed(3)
    assert torch.equal(env.reset()["observation"], a)
    mask = torch.tensor([[True], [False], [False]])
    with pytest.raises(RookeryError, match="reset all worlds"):
        env.reset(env.rand_step(env.reset()).set("_reset", mask))


def test_torchrl_closes_what_it_was_given():
    inner = hover()
    env = TorchRLEnv(inner)
    env.reset()
    assert not env.is_closed
    env.close()
    assert env.is_closed
    with pytest.raises(RookeryError, match="closed"):
        inner.reset()


def test_torchrl_steps_are_those_of_its_own_method():
    """`step_and_maybe_reset` is written anew for speed; entries that others put into the TensorDict are carried on alike."""
    envs = [TorchRLEnv(hover()) for _ in range(2)]
    rows = [env.reset().set("loc", torch.arange(3.0)) for env in envs]
    ended = 0
    for action, _ in pairs():
        ours, next_ours = envs[0].step_and_maybe_reset(rows[0].set("action", action))
        theirs, next_theirs = EnvBase.step_and_maybe_reset(envs[1], rows[1].set("action", action))
        for a, b in ((ours, theirs), (next_ours, next_theirs)):
            assert set(a.keys(True, True)) == set(b.keys(True, True)) - {"_reset"}
            assert all(torch.equal(a[k], b[k]) for k in a.keys(True, True))
            assert (a.batch_size, a.device) == (b.batch_size, b.device)
        ended += int(theirs["next", "done"].sum())
        rows = [next_ours, next_theirs]
    assert ended >= 3 and "loc" in rows[0]
    memory = rows[0].set("action", action).set("next", TensorDict({"hidden": torch.ones(3, 2)}, 3))
    assert "hidden" in envs[0].step_and_maybe_reset(memory)[0]["next"]  # as a recurrent actor leaves it


def test_torchrl_accepts_the_vector_env():
    import gymnasium
    from torchrl.envs.libs.gym import GymWrapper

    env = GymWrapper(gymnasium.make_vec("rookery/drone-hover-v0", 3, config=SHORT))
    data = env.rollout(30, break_when_any_done=False)
    assert data["next", "done"].any()
    env.close()


@pytest.mark.parametrize("adapter", [RslRlEnv, Sb3VecEnv, SkrlEnv, TorchRLEnv])
def test_agents_are_rows_and_groups_are_refused(adapter):
    env = adapter(rookery.make("drone-swap", 2))
    assert (env.batch_size[0] if adapter is TorchRLEnv else env.num_envs) == 12
    env.close()
    with pytest.raises(RookeryError, match="groups"):
        adapter(rookery.make("dual-panda-handover", 1))
    with pytest.raises(RookeryError, match="weights="):
        adapter(rookery.make("swarm-surround", 1))
