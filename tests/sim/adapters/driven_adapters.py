"""Every adapter behind one interface, so that a test can drive them all."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import isaacgym_cartpole  # noqa: F401 - registers Cartpole
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

import rookery
from rookery import isaacgym
from rookery.sim.adapters.gymnasium_source import GymnasiumSource
from rookery.sim.env import Env

WORLDS = 3
LENGTH = 8  # control steps of an episode
LONG = 50
Array = np.ndarray[Any, Any]


def hover(seed: int | None, worlds: int, length: int) -> Env:
    env = rookery.make("drone-hover", worlds, config={"episode_s": 0.01 * length}, seed=seed)
    assert env.max_episode_steps == length
    return env


def swarm(seed: int | None, worlds: int, length: int) -> Env:
    weights = {"closeness": 1.0, "spread": 0.5}
    env = rookery.make("swarm-surround", worlds, config={"episode_s": 0.05 * length}, weights=weights, seed=seed)
    assert env.max_episode_steps == length
    return env


class Driver(abc.ABC):
    """An adapter and what drives it.

    Args:
        seed: given to the adapter's maker; None for none.
        length: control steps of an episode.

    Attributes:
        env: the adapter.
        infos: of the latest step; None where the library knows none.
        ended: whether the latest step ended an episode in the first world.
    """

    begins: ClassVar[bool] = True  # `reset` begins episodes at every call
    takes_seed: ClassVar[bool] = True  # `reset` takes a seed
    copies: ClassVar[bool] = True
    pickles: ClassVar[bool] = True
    own_generator: ClassVar[bool] = False  # unseeded, it draws from a generator of its user's
    ours: ClassVar[bool] = True  # its episodes are those of the Env

    def __init__(self, seed: int | None = None, length: int = LENGTH) -> None:
        self.env: Any = self.make(seed, length)
        self.infos: Any = None
        self.ended = False

    @abc.abstractmethod
    def make(self, seed: int | None, length: int) -> Any: ...

    @abc.abstractmethod
    def reset(self, seed: int | None = None) -> Array:
        """First observations of an episode, those of the first world first."""

    @abc.abstractmethod
    def step(self, action: Array) -> tuple[Array, Array]:
        """With action [4], the same for all, or its beginning: last observations of those episodes that end and the latest
        of others; rewards."""


class Single(Driver):
    def make(self, seed: int | None, length: int) -> Any:
        config = {"episode_s": 0.01 * length}
        return gymnasium.make("rookery/drone-hover-v0", config=config, render_mode="rgb_array", seed=seed)

    def reset(self, seed: int | None = None) -> Array:
        obs, self.infos = self.env.reset(seed=seed)
        return obs

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, over, late, self.infos = self.env.step(action)
        self.ended = over or late
        return obs, np.array(reward)


class Vector(Driver):
    tensors = False

    def make(self, seed: int | None, length: int) -> Any:
        config = {"episode_s": 0.01 * length}
        return gymnasium.make_vec("rookery/drone-hover-v0", WORLDS, config=config, seed=seed, tensors=self.tensors)

    def reset(self, seed: int | None = None) -> Array:
        obs, self.infos = self.env.reset(seed=seed)
        return np.asarray(obs)

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, over, late, self.infos = self.env.step(np.tile(action, (WORLDS, 1)))
        obs = np.asarray(obs).copy()
        self.ended = bool(over[0] or late[0])
        for i, last in enumerate(self.infos.get("final_obs", ())):
            if last is not None:
                obs[i] = last
        return obs, np.asarray(reward)


class TensorVector(Vector):
    tensors = True


class SyncVector(Vector):
    """Gymnasium's own vector environment of ours."""

    pickles = False  # it holds the functions that made its environments

    def make(self, seed: int | None, length: int) -> Any:
        config = {"episode_s": 0.01 * length}
        name = "rookery/drone-hover-v0"
        makers: list[Any] = [lambda: gymnasium.make(name, config=config, seed=seed)] * WORLDS
        return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=AutoresetMode.SAME_STEP)


class PettingZoo(Driver):
    def make(self, seed: int | None, length: int) -> Any:
        return rookery.ParallelEnv(swarm(seed, 1, length), render_mode="rgb_array")

    def reset(self, seed: int | None = None) -> Array:
        obs, self.infos = self.env.reset(seed=seed)
        return np.stack(list(obs.values()))

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, over, late, self.infos = self.env.step(dict.fromkeys(self.env.agents, action))
        self.ended = any(over.values()) or any(late.values())
        return np.stack(list(obs.values())), np.array(list(reward.values()))


class PettingZooAec(Driver):
    """PettingZoo's own conversion to agents that act one after the other."""

    def make(self, seed: int | None, length: int) -> Any:
        from pettingzoo.utils import parallel_to_aec

        return parallel_to_aec(rookery.ParallelEnv(swarm(seed, 1, length)))

    def _seen(self) -> Array:
        return np.stack([self.env.observe(name) for name in self.env.possible_agents])

    def reset(self, seed: int | None = None) -> Array:
        self.env.reset(seed=seed)
        self.infos = self.env.infos
        return self._seen()

    def step(self, action: Array) -> tuple[Array, Array]:
        for _ in list(self.env.agents):
            self.env.step(action)
        self.infos = self.env.infos
        self.ended = any(self.env.truncations.values()) or any(self.env.terminations.values())
        return self._seen(), np.array(list(self.env.rewards.values()))


class Sb3(Driver):
    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("stable_baselines3", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.sb3_env import Sb3VecEnv

        return Sb3VecEnv(hover(seed, WORLDS, length))

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset()

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, done, self.infos = self.env.step(np.tile(action, (WORLDS, 1)))
        obs = obs.copy()
        self.ended = bool(done[0])
        for i, info in enumerate(self.infos):
            obs[i] = info.get("terminal_observation", obs[i])
        return obs, reward


class RslRl(Driver):
    begins = takes_seed = False

    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.rsl_rl_env import RslRlEnv

        return RslRlEnv(hover(seed, WORLDS, length))

    def reset(self, seed: int | None = None) -> Array:
        return self.env.get_observations()["policy"].numpy()

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, done, self.infos = self.env.step(torch.from_numpy(np.tile(action, (WORLDS, 1))))
        self.ended = bool(done[0])
        return self.infos.get("final_observation", obs["policy"]).numpy(), reward.numpy()


class Skrl(Driver):
    begins = takes_seed = False

    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.skrl_env import SkrlEnv

        return SkrlEnv(hover(seed, WORLDS, length), states=True)

    def reset(self, seed: int | None = None) -> Array:
        obs, self.infos = self.env.reset()
        return obs.numpy()

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, over, late, self.infos = self.env.step(torch.from_numpy(np.tile(action, (WORLDS, 1))))
        self.ended = bool(over[0] or late[0])
        return self.infos.get("final_observation", obs).numpy(), reward.numpy()


class SkrlMultiAgent(Driver):
    begins = takes_seed = False

    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("skrl", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.skrl_env import SkrlMultiAgentEnv

        return SkrlMultiAgentEnv(swarm(seed, WORLDS, length))

    def reset(self, seed: int | None = None) -> Array:
        obs, self.infos = self.env.reset()
        return np.stack(list(obs.values()), 1)

    def step(self, action: Array) -> tuple[Array, Array]:
        actions = torch.from_numpy(np.tile(action, (WORLDS, 1)))
        obs, reward, over, late, self.infos = self.env.step(dict.fromkeys(self.env.agents, actions))
        self.ended = any(bool(flag[0]) for flags in (over, late) for flag in flags.values())
        seen = self.infos.get("final_observation", obs)
        return np.stack(list(seen.values()), 1), np.stack(list(reward.values()), 1)


class TorchRL(Driver):
    group: ClassVar[str] = ""

    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.torchrl_env import TorchRLEnv

        return TorchRLEnv(hover(seed, WORLDS, length))

    def _of(self, data: Any, key: str) -> Any:
        return data[self.group, key] if self.group else data[key]

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self.env.set_seed(seed)
        return self._of(self.env.reset(), "observation").numpy()

    def step(self, action: Array) -> tuple[Array, Array]:
        data = self.env.full_action_spec.zero()
        self._of(data, "action").copy_(torch.from_numpy(action))
        after = self.env.step(data)["next"]
        self.ended = bool(after["done"][0])
        if after["done"].any():
            self.env.reset(after.select("done").set("_reset", after["done"]))
        return self._of(after, "observation").numpy(), self._of(after, "reward").numpy()


class TorchRLMultiAgent(TorchRL):
    group = "drone"

    def make(self, seed: int | None, length: int) -> Any:
        pytest.importorskip("torchrl", reason="the extra `trainers` is not installed")
        from rookery.sim.adapters.torchrl_env import TorchRLMultiAgentEnv

        return TorchRLMultiAgentEnv(swarm(seed, WORLDS, length), states=True)


class IsaacGym(Driver):
    """As isaacgymenvs' and rl_games' scripts make it."""

    begins = False

    def make(self, seed: int | None, length: int) -> Any:
        arguments = {"config": {"episode_s": 0.01 * length}}
        return isaacgym.make(task="drone-hover", num_envs=WORLDS, seed=seed, cfg={"rookery": arguments})

    def reset(self, seed: int | None = None) -> Array:
        if seed is not None:
            self.env.seed(seed)
        return self.env.reset()["obs"].numpy()

    def step(self, action: Array) -> tuple[Array, Array]:
        obs, reward, done, self.infos = self.env.step(torch.from_numpy(np.tile(action, (WORLDS, 1))))
        self.ended = bool(done[0])
        return self.infos.get("final_observation", obs["obs"]).numpy(), reward.numpy()


class OwnVecTask(Driver):
    """A task of the user's in isaacgymenvs' style, as an Env."""

    copies = False
    own_generator = True

    def make(self, seed: int | None, length: int) -> Any:
        task = isaacgym.make(task="Cartpole", num_envs=WORLDS, cfg={"env": {"maxEpisodeLength": length + 1}})
        return isaacgym.as_env(task, seed=seed)

    def reset(self, seed: int | None = None) -> Array:
        return self.env.reset(seed)[0]["agent"].numpy()

    def step(self, action: Array) -> tuple[Array, Array]:
        size = self.env.groups["agent"].action.size
        actions = torch.from_numpy(np.tile(action[:size], (WORLDS, 1, 1)))
        obs, reward, over, late, self.infos = self.env.step(actions)
        self.ended = bool(over[0] or late[0])
        return self.infos.get("final_observation", obs)["agent"].numpy(), reward["agent"].numpy()


class OwnGymnasium(OwnVecTask):
    """An environment of gymnasium's, as an Env."""

    copies = True
    pickles = False
    own_generator = False

    def make(self, seed: int | None, length: int) -> Any:
        vector = gymnasium.make_vec(
            "Pendulum-v1",
            WORLDS,
            vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
            max_episode_steps=length,
        )
        return GymnasiumSource(vector, "gym/Pendulum-v1", seed)


DRIVERS: dict[str, Callable[..., Driver]] = {
    "gymnasium": Single,
    "gymnasium vector": Vector,
    "gymnasium vector, tensors": TensorVector,
    "gymnasium's SyncVectorEnv": SyncVector,
    "PettingZoo": PettingZoo,
    "PettingZoo AEC": PettingZooAec,
    "Stable-Baselines3": Sb3,
    "rsl_rl": RslRl,
    "skrl": Skrl,
    "skrl, several agents": SkrlMultiAgent,
    "TorchRL": TorchRL,
    "TorchRL, several agents": TorchRLMultiAgent,
    "Isaac Gym": IsaacGym,
    "VecTask of the user's": OwnVecTask,
    "environment of gymnasium's": OwnGymnasium,
}
