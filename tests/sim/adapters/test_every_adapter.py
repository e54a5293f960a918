"""What users of any adapter count on: seeds, copies, infos that are plain dicts, last observations and pictures."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pickle
import pkgutil
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from driven_adapters import DRIVERS, LENGTH, LONG, Driver

import rookery.sim.adapters
from rookery import isaacgym
from rookery.sim.adapters.frames import Frames
from rookery.sim.adapters.gymnasium_source import make_gymnasium
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError

EVERY = pytest.mark.parametrize("name", DRIVERS)


def actions(count: int, seed: int = 0) -> Iterator[Any]:
    """[4] each, of a drone that stays in the air for some steps."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.uniform(-0.3, 0.3, 4).astype(np.float32)


def run(driver: Driver, count: int, seed: int = 0) -> list[Any]:
    """Observations and rewards of so many steps; where the first world's episode ends and no other begins, one is begun."""
    out = []
    for action in actions(count, seed):
        out += driver.step(action)
        if driver.ended and isinstance(
            driver, (DRIVERS["gymnasium"], DRIVERS["PettingZoo"], DRIVERS["PettingZoo AEC"])
        ):
            out.append(driver.reset())
    return out


def same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@EVERY
def test_environments_without_a_seed_differ(name):
    """Also where a script has seeded all generators, of which none is the environments'; so do the worlds of one."""
    firsts = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - as scripts do
        torch.manual_seed(0)
        driver = DRIVERS[name]()
        firsts.append(driver.reset())
        driver.env.close()
    assert np.array_equal(*firsts) == DRIVERS[name].own_generator
    rows = np.unique(firsts[0].reshape(-1, firsts[0].shape[-1]), axis=0)
    assert len(rows) == firsts[0].size // firsts[0].shape[-1]


@EVERY
def test_a_seed_gives_the_same_episodes(name):
    """Whether the maker is given it or `reset`; another seed gives others."""
    made = [DRIVERS[name](seed=3) for _ in range(2)]
    seen = [[d.reset(), *run(d, LENGTH + 2)] for d in made]
    assert same(*seen)
    other = DRIVERS[name](seed=4)
    assert not np.array_equal(other.reset(), seen[0][0])
    if DRIVERS[name].takes_seed:
        late = DRIVERS[name]()
        late.reset()
        run(late, 2)
        # gymnasium's own vector environment seeds the environment i with seed + i
        first = {"seed": 3} if name != "gymnasium's SyncVectorEnv" else {"seed": [3, 3, 3]}
        assert same([late.reset(**first), *run(late, LENGTH + 2)], seen[0])


@EVERY
def test_every_reset_begins_another_episode(name):
    """With a seed too: the second `reset` goes on with the random stream. Libraries whose `reset` only looks are left alone."""
    driver = DRIVERS[name](seed=3)
    first = driver.reset()
    again = driver.reset()
    run(driver, 1)
    assert np.array_equal(first, again) != driver.begins
    assert not np.array_equal(driver.reset(), first)


def test_neighboring_seeds_share_no_world_of_gymnasiums_environments():
    """Gymnasium gives world i the seed + i, of which all but one stand in the next seed's worlds too."""
    starts = [make_gymnasium("Pendulum-v1", 6, seed).reset()[0]["agent"][:, 0] for seed in (3, 4, 3)]
    assert torch.cdist(starts[0], starts[1]).min() > 0.0
    assert torch.equal(starts[0], starts[2])


def test_seeds_are_refused_in_one_way():
    for name in ("gymnasium", "gymnasium vector", "PettingZoo", "Stable-Baselines3", "TorchRL", "Isaac Gym"):
        driver = DRIVERS[name]()
        for wrong in (1.5, True, 2**64, "x"):
            if name == "TorchRL" and wrong == "x":
                continue  # torch's own generator refuses it before
            with pytest.raises((RookeryError, RuntimeError) if name == "TorchRL" else RookeryError, match="seed"):
                driver.reset(seed=wrong)
        assert np.array_equal(driver.reset(seed=np.int64(5)), driver.reset(seed=5)), name
        if name != "TorchRL":
            assert np.array_equal(driver.reset(seed=-2), driver.reset(seed=-2)), name


# Infos


def listed(value: Any) -> Any:
    """For JSON: what is no dict, list, string or number of Python's."""
    return value.tolist() if hasattr(value, "tolist") else value.item()


def read(value: Any) -> Any:
    """The same as plain values, found by methods of Python alone."""
    if hasattr(value, "items"):
        return {key: read(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [read(item) for item in value]
    if isinstance(value, (torch.Tensor, np.ndarray, np.generic)):
        return read(value.tolist())
    return value


def dicts(value: Any) -> Iterator[Any]:
    """All dicts in it."""
    if hasattr(value, "items"):
        yield value
        for item in value.values():
            yield from dicts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from dicts(item)


@EVERY
def test_infos_are_plain_dicts_of_each_step(name):
    """What C code reads of them (json, pickle, `dict`, `**`) is what Python reads, and no step shares one with another."""
    driver = DRIVERS[name](seed=3)
    driver.reset()
    if name.startswith("TorchRL"):
        return  # it has no infos
    kept: dict[int, Any] = {}
    ended = 0
    for action in actions(LENGTH):
        driver.step(action)
        infos = driver.infos
        ended += driver.ended
        if not name.endswith("'s"):  # of what adapts others to Rookery, whose infos are mappings of tensors
            want = json.dumps(read(infos))
            assert json.dumps(infos, default=listed) == want
            for copied in (copy.copy(infos), copy.deepcopy(infos), pickle.loads(pickle.dumps(infos))):
                assert json.dumps(read(copied)) == want
            for part in dicts(infos):
                assert type(part) is dict
        if name != "PettingZoo AEC":  # its wrapper keeps one dict of the agents
            fresh = list(dicts(infos))
            assert not any(id(part) in kept for part in fresh)
            kept |= {id(part): part for part in fresh}
    assert ended
    assert len(json.dumps(read(infos))) > 40  # the end of an episode is told


# Copies


@EVERY
@pytest.mark.parametrize(
    "how", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["deepcopy", "pickle"]
)
def test_a_copy_goes_on_as_the_original_would(name, how):
    driver = DRIVERS[name](seed=3)
    driver.reset()
    run(driver, 3)
    if not driver.copies:
        with pytest.raises(RookeryError, match="make another with the same arguments"):
            how(driver.env)
        return
    if how is not copy.deepcopy and not driver.pickles:
        return
    twin = copy.copy(driver)
    twin.env = how(driver.env)
    seen = run(twin, 2 * LENGTH, seed=1)
    assert same(run(driver, 2 * LENGTH, seed=1), seen)
    assert not same(run(driver, 2, seed=1), run(twin, 2, seed=2))


def test_what_cannot_be_copied_says_so():
    task = isaacgym.make(task="Cartpole", num_envs=2)
    with pytest.raises(RookeryError, match="worlds of an engine cannot be copied"):
        copy.deepcopy(task)


@EVERY
def test_closing_frees_worlds_and_renderers(name, monkeypatch):
    made: list[object] = []
    closed: list[object] = []

    def watch(cls: type) -> None:
        begin, end = cls.__init__, cls.close

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            made.append(self)
            begin(self, *args, **kwargs)

        def close(self: Any) -> None:
            closed.append(self)
            end(self)

        monkeypatch.setattr(cls, "__init__", init)
        monkeypatch.setattr(cls, "close", close)

    for cls in (VecEnv, Frames):
        watch(cls)
    driver = DRIVERS[name]()
    driver.reset()
    driver.env.close()
    left = [type(each).__name__ for each in made if not any(each is other for other in closed)]
    assert not left
    assert made or name in ("VecTask of the user's", "environment of gymnasium's")


# The end of an episode


@EVERY
def test_the_last_observation_is_the_one_before_the_next_episode(name):
    """That which an environment with a longer time limit gives at the same step, by the same seed and actions."""
    short, long = DRIVERS[name](seed=3), DRIVERS[name](seed=3, length=LONG)
    begins = [d.reset() for d in (short, long)]
    assert np.array_equal(*begins)
    for i, action in enumerate(actions(LENGTH)):
        (last, reward), (want, reward_there) = short.step(action), long.step(action)
        assert np.array_equal(last, want), i
        assert np.array_equal(reward, reward_there)
        assert (short.ended, long.ended) == (i == LENGTH - 1, False)


@pytest.mark.parametrize("name", ["gymnasium", "PettingZoo"])
def test_a_picture_after_the_end_shows_the_end(name):
    """That of an environment with a longer time limit at the same step; after `reset` it shows the next episode."""
    short, long = DRIVERS[name](seed=3), DRIVERS[name](seed=3, length=LONG)
    for driver in (short, long):
        driver.reset()
        run_without_reset(driver)
    assert short.ended and not long.ended
    last = short.env.render()
    assert np.array_equal(last, long.env.render())
    assert np.array_equal(copy.deepcopy(short.env).render(), last)
    short.reset()
    assert not np.array_equal(short.env.render(), last)
    for driver in (short, long):
        driver.env.close()


def run_without_reset(driver: Driver) -> None:
    for action in actions(LENGTH):
        driver.step(action)


# All of them


def test_every_adapter_is_driven():
    """Each public class in sim/adapters with `step` and without subclasses there is the environment of a driver."""
    found: set[type] = set()
    for module in pkgutil.walk_packages(rookery.sim.adapters.__path__, "rookery.sim.adapters."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = cls.__module__.startswith("rookery.sim.adapters")
            if own and callable(getattr(cls, "reset", None)) and callable(getattr(cls, "step", None)):
                found.add(cls)
    found = {cls for cls in found if not any(issubclass(other, cls) and other is not cls for other in found)}
    driven = [DRIVERS[name]().env for name in DRIVERS]
    unwrapped = [env.unwrapped if isinstance(env, gymnasium.Env) else getattr(env, "aec_env", env) for env in driven]
    seen = {type(env) for env in (*driven, *unwrapped)} | {type(getattr(env, "task", None)) for env in driven}
    missing = {cls.__name__ for cls in found if not any(issubclass(kind, cls) for kind in seen)}
    assert len(found) >= 9 and not missing - {"AgentEnds", "AgentRows"}  # parts of adapters
