"""`import rookery`: its names, its task list, and its environments under gymnasium's names."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import rookery
from rookery.sim.errors import RookeryError


def test_names():
    assert set(rookery.__all__) <= set(dir(rookery))
    assert "drone-hover" in rookery.list_tasks()
    assert issubclass(rookery.RookeryError, Exception)
    with pytest.raises(AttributeError, match="no attribute 'mkae'"):
        rookery.mkae  # noqa: B018


@pytest.mark.slow
def test_make_is_the_function_whoever_used_it_first():
    """A submodule of the same name takes the function's place if it is imported past the package."""
    script = (
        "import rookery, gymnasium; from rookery.listing import describe\n"
        "gymnasium.make('rookery/drone-hover-v0'); describe('drone-hover')\n"
        "assert callable(rookery.make)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_make_steps():
    env = rookery.make("drone-hover", num_envs=3)
    env.reset()
    obs, *_ = env.step({"drone": torch.zeros(3, 1, 4)})
    assert obs["drone"].shape == (3, 1, env.groups["drone"].observation_size)
    env.close()


def test_gymnasium_makes_one_world():
    env = gymnasium.make("rookery/drone-hover-v0", config={"episode_s": 0.05, "settled_s": 0.02})
    obs, _ = env.reset(seed=3)
    assert env.observation_space.contains(obs)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(5)]
    assert ends[-1] == (False, True)
    env.close()


def test_gymnasium_makes_one_agent_of_several():
    """The way out that the refusal of two agents names."""
    two = {"num_drones": 2}
    with pytest.raises(RookeryError, match="joint=True"):
        gymnasium.make("rookery/drone-hover-v0", config=two)
    single = gymnasium.make("rookery/drone-hover-v0", config=two, joint=True)
    assert single.action_space.shape == (8,)
    envs = gymnasium.make_vec("rookery/drone-hover-v0", num_envs=3, config=two, joint=True)
    assert envs.action_space.shape == (3, 8)


def test_gymnasium_makes_many_worlds():
    envs = gymnasium.make_vec("rookery/drone-hover-v0", num_envs=5, seed=1)
    obs, _ = envs.reset(seed=3)
    assert obs.shape[0] == envs.num_envs == 5
    assert envs.action_space.contains(envs.action_space.sample())
    envs.step(envs.action_space.sample())
    envs.close()


@pytest.mark.parametrize("code", ["import rookery, gymnasium", "import gymnasium, rookery"])
def test_every_task_is_registered_whatever_is_imported_first(code):
    script = f"{code}\nassert all(f'rookery/{{t}}-v0' in gymnasium.registry for t in rookery.list_tasks())"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.slow
def test_gymnasium_finds_the_module_by_itself():
    script = "import gymnasium; gymnasium.make('rookery:rookery/drone-hover-v0').reset(seed=0)"
    subprocess.run([sys.executable, "-W", "error::DeprecationWarning:gymnasium", "-c", script], check=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"seed": "a"}, "seed must be from -9223372036854775808 to 18446744073709551615, a whole number, got 'a'"),
        ({"seed": 2**64}, "seed must be from .* got 18446744073709551616"),
        ({"seed": 1.5}, "seed must be from .* got 1.5"),
        ({"config": 3}, 'config must be a dict such as {"episode_s": 5.0}, got 3'),
        ({"fixed": 3}, 'fixed must be a dict of numbers such as {"mass": 1.2}, got 3'),
        ({"fixed": {"mass": "1"}}, r"fixed\['mass'\] must be a finite number, got '1'"),
        ({"fixed": {"mass": math.nan}}, r"fixed\['mass'\] must be a finite number, got nan"),
        (
            {"randomize": {"mass": [0.9, 1.1]}},
            'randomize must be "none", .* got .*: hold values by fixed',
        ),
        ({"weights": {"near": True}}, r"weights\['near'\] must be a finite number, got True"),
    ],
)
def test_arguments_of_a_wrong_type_are_sentences(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(rookery.RookeryError, match=sentence):
        rookery.make("drone-hover", **arguments)


def test_ranges_may_be_a_path(tmp_path: Path) -> None:
    file = tmp_path / "ranges.toml"
    file.write_text("[mass]\nlow = 0.9\nhigh = 1.1\n")
    ours, theirs = (rookery.make("drone-hover", 4, randomize=r, seed=1).reset()[0]["drone"] for r in (file, str(file)))
    assert torch.equal(ours, theirs)


def test_seeds_of_numpy_count() -> None:
    ours, theirs = (rookery.make("drone-hover", seed=s).reset()[0]["drone"] for s in (7, np.int64(7)))
    assert torch.equal(ours, theirs)
