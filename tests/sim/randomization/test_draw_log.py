"""The log of draws: written, read, and played again bit by bit."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import DrawLog

N = 5
CONFIG = {"episode_s": 0.1, "settled_s": 0.05}


def play(randomize: str, steps: int = 23, seed: int = 3, gain: float = 0.3):
    """Observations of all steps, and the log, of random actions that are the same whenever this is called."""
    env = rookery.make("drone-hover", num_envs=N, randomize=randomize, seed=seed, config=CONFIG)
    log = DrawLog("drone-hover", seed, N)
    obs, _ = env.reset(seed)
    seen = [obs["drone"]]
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        obs, *_, info = env.step(gain * torch.randn(N, 1, 4, generator=generator).clamp(-3, 3))
        seen.append(obs["drone"])
        if "episode" in info:
            log.add(info["episode"])
    env.close()
    return torch.stack(seen), log


@pytest.mark.parametrize("suffix", ["npz", "json"])
def test_a_written_log_plays_the_same_episodes_again(tmp_path, suffix):
    first, log = play("default")
    path = tmp_path / f"draws.{suffix}"
    log.write(path)
    again, same = play(str(path))
    whole = 20  # steps of two episodes: the third has not finished, so it is not in the log
    assert torch.equal(first[:whole], again[:whole])
    assert not torch.equal(first[whole:], again[whole:])
    assert same.names == log.names
    assert np.array_equal(same.values, log.values)
    assert (log.values.std(0) > 0).any()


def test_starts_and_draws_do_not_depend_on_what_is_done(tmp_path):
    _, log = play("default")
    log.write(tmp_path / "draws.npz")
    _, other = play(str(tmp_path / "draws.npz"), gain=0.0)
    assert np.array_equal(other.values, log.values)


def test_the_log_has_each_episode_once_with_what_was_in_force():
    _, log = play("default", steps=20)
    assert sorted(zip(log.world.tolist(), log.episode.tolist(), strict=True)) == [
        (w, k) for w in range(N) for k in range(2)
    ]
    env = rookery.make("drone-hover", num_envs=N, randomize="default", seed=3, config=CONFIG)
    env.reset(3)
    for w in range(N):
        row = log.values[(log.world == w) & (log.episode == 0)][0]
        assert np.array_equal(row, env.randomization.values[w].numpy())


def test_episodes_beyond_the_log_take_its_values_again(tmp_path):
    _, log = play("default", steps=12)
    log.write(tmp_path / "draws.npz")
    _, longer = play(str(tmp_path / "draws.npz"), steps=23)
    for w in range(N):
        mine = longer.values[longer.world == w]
        assert np.array_equal(mine[1], mine[0])


def test_another_task_number_of_worlds_or_seed_is_refused(tmp_path):
    _, log = play("default", steps=12)
    path = tmp_path / "draws.npz"
    log.write(path)
    for changes in ({"task": "drone-track"}, {"num_envs": 4}, {"seed": 1}):
        made = {"task": "drone-hover", "num_envs": N, "seed": 3} | changes
        with pytest.raises(RookeryError, match="holds draws of drone-hover with num_envs 5 and seed 3"):
            rookery.make(made.pop("task"), randomize=str(path), **made)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"task": 1}', '{"task":"t","seed":0,"num_envs":2,"names":[],"world":[0],"episode":[1],"values":[[]]}',
     '{"task":"t","seed":0,"num_envs":2,"names":["a"],"world":[5],"episode":[0],"values":[[1]]}',
     '{"task":"t","seed":0,"num_envs":2,"names":["a"],"world":[0],"episode":[0],"values":[["x"]]}',
     '{"task":"t","seed":0,"num_envs":2,"names":["a"],"world":[],"episode":[],"values":[]}',
     '{"task":"t","seed":0,"num_envs":2,"names":["a"],"world":[0.5],"episode":[0],"values":[[1]]}',
     '{"task":"t","seed":0,"num_envs":2,"names":["a"],"world":[1' + 30 * "0" + '],"episode":[0],"values":[[1]]}',
     '{"task":"t","seed":0,"num_envs":1000000000000,"names":["a"],"world":[0],"episode":[0],"values":[[1]]}',
     '{"task":"t","seed":-1,"num_envs":2,"names":["a"],"world":[0],"episode":[0],"values":[[1]]}',
     '{"task":"t","seed":1' + 40 * "0" + ',"num_envs":2,"names":["a"],"world":[0],"episode":[0],"values":[[1]]}'],
)  # fmt: skip
def test_damaged_logs(tmp_path, text):
    path = tmp_path / "draws.json"
    path.write_text(text)
    with pytest.raises(RookeryError, match="no log of draws"):
        DrawLog.read(path)


@pytest.mark.parametrize(
    "changes",
    [{"values": [[math.nan], [1.0]]}, {"values": [[math.inf], [1.0]]}, {"world": [-1, 0]}, {"world": [0, 2]},
     {"num_envs": 0}, {"seed": -1}, {"episode": [0, 1]}, {"episode": [1, 1]}, {"world": [0, 0]}],
)  # fmt: skip
def test_each_fault_alone_is_refused(changes):
    """Of two worlds' first episodes, one value each."""
    good: dict = {"seed": 0, "num_envs": 2, "world": [0, 1], "episode": [0, 0], "values": [[0.5], [1.0]]}

    def made(**numbers) -> DrawLog:
        n = good | numbers
        world, episode = (np.array(n[k], np.int64) for k in ("world", "episode"))
        return DrawLog("t", n["seed"], n["num_envs"], ("a",), world, episode, np.array(n["values"], np.float32))

    made().check(Path("good.json"))
    made(world=[0, 0], episode=[1, 0]).check(Path("good.json"))
    with pytest.raises(RookeryError, match="can be played again"):
        made(**changes).check(Path("bad.json"))


def test_a_packed_log_nested_without_end_is_refused(tmp_path):
    zero = np.zeros(1, np.int64)
    about = np.frombuffer(b"[" * 100_000 + b"]" * 100_000, np.uint8)
    np.savez(tmp_path / "deep.npz", about=about, world=zero, episode=zero, values=np.zeros((1, 1), np.float32))
    with pytest.raises(RookeryError, match="no log of draws"):
        DrawLog.read(tmp_path / "deep.npz")


def test_files_that_cannot_be_logs(tmp_path):
    with pytest.raises(RookeryError, match="cannot read the log"):
        DrawLog.read(tmp_path / "missing.npz")
    with pytest.raises(RookeryError, match=re.escape("is a file .npz or .json")):
        DrawLog.read(tmp_path / "draws.csv")


def test_the_command_writes_and_plays_a_log(tmp_path, capsys):
    common = ["eval", "drone-hover", "--controller", "classical", "--json", "--episodes", "6"]
    common += ["--task-config", "episode_s=2.5"]
    path = tmp_path / "draws.npz"
    assert main([*common, "--randomize", "default", "--log-draws", str(path), "--num-envs", "3", "--seed", "7"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*common, "--replay-draws", str(path)]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["seed"] == 7
    assert again["metrics"] == first["metrics"]
    assert again["return_mean"] == first["return_mean"]
    assert main([*common, "--replay-draws", str(path), "--randomize", "default"]) == 2
    assert "leave out --randomize" in capsys.readouterr().err
