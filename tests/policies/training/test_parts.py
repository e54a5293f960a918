"""Workers' states joined are those of one process with all worlds, and are taken apart again; gusts are those of the world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from together import at_once, together

from rookery.experiments.algorithm import begin
from rookery.experiments.settings import RunSettings
from rookery.experiments.training import runner_of
from rookery.making import WorkerPart, make_part, make_shard
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import checkpoint
from rookery.policies.training.parts import join_parts, split_parts
from rookery.policies.training.roles import Roles
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError

WORLDS = 40  # a block of lanes and a half, twice
SIZE = 2


@pytest.mark.parametrize(
    ("task", "engine"), [("drone-hover", "rotor"), ("drone-hover", "mujoco"), ("table-reach", "mujoco")]
)
def test_parts_are_the_whole(task: str, engine: str) -> None:
    """Through episodes that end, in gusts where there is air."""
    arguments: dict[str, Any] = {"task": task, "engine": engine, "seed": 5, "randomize": "default"}
    arguments |= {"fixed": {"wind_speed": 2.0} if task == "drone-hover" else None, "config": {"episode_s": 0.4}}
    whole = make_shard(num_envs=WORLDS, **arguments)
    options = {k: arguments[k] for k in ("engine", "seed", "randomize", "fixed", "config")}
    made = [make_part(task, WORLDS, WorkerPart(rank, SIZE), **options) for rank in range(SIZE)]
    parts, worlds = [env for env, _ in made], made[0][1]
    for env in (whole, *parts):
        env.reset()
        env.stagger()
    group = next(iter(whole.groups))
    shape = (WORLDS, whole.groups[group].count, whole.groups[group].action.size)
    generator = torch.Generator().manual_seed(0)
    rows = [slice(0, WORLDS // 2), slice(WORLDS // 2, WORLDS)]
    for _ in range(12):
        action = torch.rand(shape, generator=generator) * 0.4 - 0.2
        obs = whole.step({group: action})[0][group]
        for env, at in zip(parts, rows, strict=True):
            torch.testing.assert_close(env.step({group: action[at]})[0][group], obs[at], rtol=1e-5, atol=1e-6)
    want, joined = whole.state_dict(), worlds.join([env.state_dict() for env in parts])
    assert {k: v.shape for k, v in joined.items()} == {k: v.shape for k, v in want.items()}
    other = make_shard(num_envs=WORLDS, **arguments | {"seed": 9})
    others = [make_part(task, WORLDS, WorkerPart(rank, SIZE), **options | {"seed": 9})[0] for rank in range(SIZE)]
    for env, state in zip((other, *others), (joined, *worlds.split(want)), strict=True):
        env.reset()
        env.load_state_dict(state)
    for _ in range(9):  # episodes end and begin meanwhile
        action = torch.rand(shape, generator=generator) * 0.4 - 0.2
        obs = whole.step({group: action})[0][group]
        for env, at in zip((other, *others), (slice(None), *rows), strict=True):
            torch.testing.assert_close(env.step({group: action[at]})[0][group], obs[at], rtol=1e-5, atol=1e-6)


SETTINGS = RunSettings(
    task="drone-hover",
    num_envs=WORLDS,
    randomize="default",
    runner=RunnerConfig(total_steps=WORLDS * 8 * 6, checkpoint_every=2),
    algorithm_config=PPOConfig(rollout_steps=8, minibatches=2, epochs=2, hidden=(16,), memory="gru", memory_size=8),
)


def _run(folder: Path, size: int, resumed: bool = False) -> dict[str, torch.Tensor]:
    """Train by so many threads; the algorithm's tensors of the last checkpoint."""
    made = []
    for rank, reduction in enumerate(together(size)):
        settings, algorithm, worlds = begin(
            SETTINGS, SETTINGS.randomize, worker=Roles(rank, size) if size > 1 else None
        )
        runner = runner_of(settings, algorithm, folder, {}, reduction=reduction, worlds=worlds)
        if resumed:
            runner.load(folder)
        made.append(runner)
    at_once(*(lambda r=r: r.run(lambda row: None) for r in made))
    for runner in made:
        runner.algorithm.close()
        runner.env.close()
    path = checkpoint.newest(folder)
    return checkpoint.read_tensors(path, checkpoint.read_state(path))["algorithm"]


def test_a_run_continues_with_another_number_of_workers(tmp_path: Path) -> None:
    """One process throughout; two workers; and one that takes over from two, and two from one."""
    want = _run(tmp_path / "one", 1)
    ends = {"two": _run(tmp_path / "two", 2)}
    for name, source, size in (("one after two", "two", 1), ("two after one", "one", 2)):
        folder = tmp_path / name
        kept = checkpoint.complete(tmp_path / source)[0]
        (folder / "checkpoints").mkdir(parents=True)
        kept_copy = folder / "checkpoints" / kept.name
        kept_copy.mkdir()
        for file in kept.iterdir():
            (kept_copy / file.name).write_bytes(file.read_bytes())
        ends[name] = _run(folder, size, resumed=True)
    for name, end in ends.items():
        assert end.keys() == want.keys()
        for key, value in want.items():
            if not key.endswith("threads"):
                torch.testing.assert_close(
                    end[key], value, rtol=2e-3, atol=2e-5, msg=lambda m, k=key, n=name: f"{n}, {k}: {m}"
                )


def test_a_state_of_another_number_of_worlds_is_refused() -> None:
    _, worlds = make_part("drone-hover", 8, WorkerPart(0, 2))
    env, _ = make_part("drone-hover", 12, WorkerPart(0, 2))
    env.reset()
    tensors = {"algorithm": {}, "env": {f"env/{k}": v for k, v in env.state_dict().items()}}
    with pytest.raises(ValueError, match="is of 6 worlds, needed 8"):
        split_parts(tensors, worlds, lambda name: None)


def test_what_all_have_alike_is_kept_once() -> None:
    _, worlds = make_part("drone-hover", 8, WorkerPart(0, 2))
    parts = [
        {"algorithm": {"w": torch.ones(3), "context/x": torch.full((4, 2), float(i))}, "env": {}} for i in range(2)
    ]
    axis = lambda name: 0 if name.startswith("context/") else None  # noqa: E731
    joined = join_parts(parts, worlds, axis)
    assert joined["algorithm"]["w"].shape == (3,)
    assert joined["algorithm"]["context/x"][:, 0].tolist() == [0.0] * 4 + [1.0] * 4
    back = split_parts(joined, worlds, axis)
    assert [p["algorithm"]["context/x"][0, 0].item() for p in back] == [0.0, 1.0]


@pytest.mark.parametrize(
    ("task", "worlds", "size", "said"),
    [
        (
            "drone-hover",
            10,
            3,
            "10 worlds cannot be divided evenly among 3 workers that step at least 2 each: give --num-envs 9",
        ),
        ("drone-hover", 2, 2, "2 worlds cannot be divided evenly"),
        ("MT10", 40, 2, "MT10 is a set of tasks, whose worlds stay in one process: leave out --workers"),
        ("hand-reorient", 40, 2, "the worlds of hand-reorient with this config cannot be divided"),
    ],
)
def test_what_cannot_be_divided_is_refused(task: str, worlds: int, size: int, said: str) -> None:
    with pytest.raises(RookeryError, match=said):
        make_part(task, worlds, WorkerPart(0, size))
