"""Demonstrations: recorded, checked on loading, replayed to the bit, given in batches, cloned."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import json
import shutil
from copy import deepcopy as copied
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

import rookery
from rookery.experiments.demonstrations import record, recorded_env
from rookery.policies.datasets import recorder
from rookery.policies.datasets import writer as writer_module
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.replay import player, replay
from rookery.policies.datasets.schema import mark
from rookery.policies.datasets.writer import Writer
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig, mean_squared_error
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.storage.normalizers import STD_FLOOR
from rookery.policies.training.warm_start import warm_start
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract

SHORT = {"episode_s": 0.4, "settled_s": 0.1, "start_box_m": 0.3, "success_m": 0.4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Five episodes in three rounds of two worlds, one of which ends early by a crash into its limits."""
    out = tmp_path_factory.mktemp("demos") / "hover"
    made = record(Path("drone-hover"), out, 5, num_envs=2, config=SHORT, engine="mujoco", seed=3, randomize="default")
    assert (made.episodes, made.attempts) == (5, 6)
    return out


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_rows_are_what_the_environment_said(folder):
    """A second environment, stepped by hand with the recorded actions, gives every column."""
    data = Dataset(folder)
    env = recorded_env(data)
    obs, _ = env.reset(3)
    episodes = [data.episode(0), data.episode(1)]
    weights = data.contract["task_config"]["reward"]
    for t in range(episodes[0].facts.length):
        for world, e in enumerate(episodes):
            assert torch.equal(e.columns["observation.drone"][t], obs["drone"][world])
            error = env.task.observe()["drone"]["position_error"][world]
            assert torch.equal(e.columns["term.drone.position_error"][t], error)
        obs, reward, terminated, truncated, info = env.step(
            torch.stack([e.columns["action.drone"][t] for e in episodes])
        )
        for world, e in enumerate(episodes):
            assert torch.equal(e.columns["reward.drone"][t], reward["drone"][world])
            assert e.columns["truncated"][t] == truncated[world]
            assert e.columns["terminated"][t] == terminated[world]
            terms = {k.rsplit(".", 1)[1]: v[t] for k, v in e.columns.items() if k.startswith("reward_term.")}
            total = sum(weights[name] * v for name, v in terms.items())
            assert torch.allclose(total, reward["drone"][world], atol=1e-5)
    for world, e in enumerate(episodes):
        assert torch.equal(e.columns["observation.drone"][-1], info["final_observation"]["drone"][world])
        assert e.facts.returns["drone"] == pytest.approx(e.columns["reward.drone"].sum().item(), rel=1e-5)
        row = info["episode"]["ids"].tolist().index(world)
        metrics = {name: values[row].item() for name, values in info["episode"]["metrics"].items()}
        assert e.facts.metrics == pytest.approx(metrics) and e.facts.success == (metrics["success"] > 0.5)
    assert episodes[0].facts.metrics != episodes[1].facts.metrics
    env.close()


def test_facts_say_where_an_episode_comes_from(folder):
    data = Dataset(folder)
    assert [(e.seed, e.world) for e in data.episodes] == [(3, 0), (3, 1), (4, 0), (4, 1), (5, 0)]
    assert data.frames == sum(e.length for e in data.episodes) <= 200
    assert {e.cause for e in data.episodes} <= {"time limit", "crash"}
    assert data.recording["engine"] == "mujoco" and data.recording["num_envs"] == 2
    assert data.columns["term.drone.position_error"].unit == "m"
    starts = {tuple(data.read(i, ["observation.drone"])["observation.drone"][0].flatten().tolist()) for i in range(5)}
    assert len(starts) == 5, "every episode starts elsewhere"


@pytest.mark.parametrize("engine", ["mujoco", "rotor"])
def test_replay_gives_the_same_bits(engine, tmp_path):
    record(Path("drone-hover"), tmp_path / "d", 4, num_envs=3, config=SHORT, engine=engine, randomize="default")
    data = Dataset(tmp_path / "d")
    env = recorded_env(data)
    results = replay(env, data)
    assert [r.episode for r in results] == [0, 1, 2, 3]
    assert all(r.exact and r.error == 0.0 and r.reward_error == 0.0 for r in results)
    assert replay(env, data, [3]) == results[3:], "alone, without the others of its round"
    env.close()


def test_replay_notices_other_physics(folder):
    data = Dataset(folder)
    data.recording["fixed"] = {"mass": 1.05}
    env = recorded_env(data)
    result = replay(env, data, [1])[0]
    assert not result.exact and 0 < result.error < 10 and result.step is not None
    env.close()


def test_player_acts_in_its_world_alone(folder):
    data = Dataset(folder)
    env = recorded_env(data)
    act = player(env, data, 1)
    recorded = data.episode(1).columns["action.drone"]
    obs, _ = env.reset(data.episodes[1].seed)
    first = act(obs)["drone"]
    second = act(obs)["drone"]
    assert torch.equal(first[1], recorded[0]) and torch.equal(second[1], recorded[1])
    assert not first[0].any()
    with pytest.raises(RookeryError, match="no episode 9"):
        player(env, data, 9)
    env.close()


def test_actions_are_recorded_as_the_robot_gets_them_and_diverged_worlds_dropped(tmp_path, monkeypatch):
    env = rookery.make("drone-hover", 2, config=SHORT)
    contract = json.loads(json.dumps(build_contract(env).to_json()))
    facts = recorder._facts

    def one_diverged(*given):
        return {w: dataclasses.replace(f, cause="diverged") if w == 0 else f for w, f in facts(*given).items()}

    monkeypatch.setattr(recorder, "_facts", one_diverged)
    with Writer(tmp_path / "d", contract, {}) as writer:
        recorder.record(env, lambda obs: {"drone": torch.full((2, 1, 4), 3.0)}, writer, 2)
    data = Dataset(tmp_path / "d")
    assert [e.world for e in data.episodes] == [1, 1]
    assert all((data.episode(i).columns["action.drone"] == 1.0).all() for i in range(2))
    env.close()


def test_only_success_keeps_successes_and_gives_up(tmp_path):
    half = SHORT | {"success_m": 0.17}
    made = record(Path("drone-hover"), tmp_path / "d", 3, num_envs=4, config=half, engine="mujoco", only_success=True)
    data = Dataset(tmp_path / "d")
    assert len(data) == 3 and all(e.success for e in data.episodes)
    assert made.successes is not None and made.successes < made.attempts
    hopeless = SHORT | {"success_m": 1e-9}
    with pytest.raises(RookeryError, match="none of 20 episodes succeeded"):
        record(Path("drone-hover"), tmp_path / "e", 2, num_envs=2, config=hopeless, engine="mujoco", only_success=True)
    assert not (tmp_path / "e" / "meta.json").exists()


def test_transitions_come_once_each_and_fit_together(folder):
    data = Dataset(folder)
    batches = list(data.transitions(32, seed=1, window=2))
    assert [len(b) for b in batches[:-1]] == [32] * (len(batches) - 1)
    assert sum(len(b) for b in batches) == data.frames
    parts = [data.episode(i).columns for i in range(len(data))]
    wanted = torch.cat([torch.cat((c["observation.drone"][:-1, 0], c["observation.drone"][1:, 0]), 1) for c in parts])
    got = torch.cat([torch.cat((b.observation, b.next_observation), 1) for b in batches])
    assert {tuple(r) for r in got.tolist()} == {tuple(r) for r in wanted.tolist()}
    assert not torch.equal(got, wanted)
    plain = torch.cat([b.action for b in data.transitions(64, shuffle=False)])
    assert torch.equal(plain, torch.cat([c["action.drone"][:, 0] for c in parts]))
    ends = torch.cat([b.terminated | b.truncated for b in data.transitions(64, episodes=[2, 4])])
    assert int(ends.sum()) == 2
    again = next(data.transitions(32, seed=1, window=2))
    assert torch.equal(again.observation, batches[0].observation)


@pytest.fixture(scope="module")
def lawful(folder, tmp_path_factory) -> Dataset:
    """Actions are replaced by a known linear law of the observation, which behavior cloning must find."""
    data = Dataset(folder)
    law = 0.3 * torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
    out = tmp_path_factory.mktemp("demos") / "law"
    with Writer(out, data.contract, data.recording) as writer:
        for i in range(len(data)):
            e = data.episode(i)
            observation = e.columns["observation.drone"][:-1]
            writer.add(dataclasses.replace(e, columns=e.columns | {"action.drone": (observation @ law).clamp(-1, 1)}))
    return Dataset(out)


def cloning(data: Dataset, **settings: object) -> BehaviorCloning:
    config = BehaviorCloningConfig(**{"batch": 64, "hidden": (32,), "learning_rate": 5e-3, **settings})
    return BehaviorCloning(recorded_env(data), config, 0, {"dataset": data})


def test_behavior_cloning_finds_the_law_of_actions(lawful):
    whole = cloning(lawful, validation_share=0.0)
    assert whole.rollout_steps == 0 and whole.steps_per_update == lawful.frames
    figures = [whole.update(epoch / 80) for epoch in range(80)]
    policy = whole.policies()["drone"]
    idle = mean_squared_error(Policy(standard(16, 4, (4,))), lawful)
    assert figures[-1].keys() == {"drone/loss", "drone/error"}
    assert figures[-1]["drone/error"] == pytest.approx(mean_squared_error(policy, lawful), rel=1e-5)
    assert mean_squared_error(policy, lawful) < 0.02 * idle


def test_behavior_cloning_normalizes_as_its_training_episodes_are(lawful):
    one = cloning(lawful, validation_share=0.4)
    batches = lawful.transitions(64, group="drone", episodes=one.training_episodes, shuffle=False)
    seen = torch.cat([batch.observation for batch in batches])
    normalizer = one.policies()["drone"]
    torch.testing.assert_close(normalizer.get_buffer("normalize.mean"), seen.mean(0), rtol=1e-4, atol=1e-5)
    wanted = seen.std(0, correction=0).clamp(min=STD_FLOOR)
    torch.testing.assert_close(normalizer.get_buffer("normalize.std"), wanted, rtol=1e-3, atol=1e-4)


def test_behavior_cloning_goes_on_from_a_policy_and_its_normalizer_is_kept(lawful):
    old = cloning(lawful, validation_share=0.0)
    for epoch in range(10):
        old.update(epoch / 80)
    stored = old.policies()["drone"]
    stored.get_buffer("normalize.mean").add_(0.01)  # not the statistics that it would have of the same data
    new = cloning(lawful, validation_share=0.4)
    warm_start(new, {"drone": stored}, recorded_env(lawful).groups)
    assert mean_squared_error(new.policies()["drone"], lawful) == pytest.approx(
        mean_squared_error(stored, lawful), rel=1e-4
    )
    new.update(0.0)
    kept = new.policies()["drone"]
    for name in ("normalize.mean", "normalize.std"):
        assert torch.equal(kept.get_buffer(name), stored.get_buffer(name))


def test_behavior_cloning_holds_validation_episodes_out(lawful):
    one = cloning(lawful, validation_share=0.4)
    assert len(one.validation_episodes) == 2 and len(one.training_episodes) == 3
    assert sorted(one.validation_episodes + one.training_episodes) == list(range(5))
    error = one.update(0.0)["drone/error"]
    policy = one.policies()["drone"]
    assert error == pytest.approx(mean_squared_error(policy, lawful, episodes=one.validation_episodes), rel=1e-5)


def test_behavior_cloning_shuffles_each_pass_anew(lawful):
    one = cloning(lawful)
    network = one.networks["drone"]
    learn = network.learn
    rows = []

    def noting(observation, actions, progress):
        rows.append(observation.clone())
        return learn(observation, actions, progress)

    network.learn = noting
    passes = []
    for _ in range(2):
        rows.clear()
        one.update(0.0)
        passes.append(torch.cat(rows))
    first, second = passes
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sum(0), second.sum(0), rtol=1e-4, atol=1e-3)


def test_a_pass_of_behavior_cloning_is_over_the_training_episodes_alone(lawful):
    """Rows, normalizer, learning rate and the loss, a mean over all rows though the last batch is smaller."""
    one = cloning(lawful, validation_share=0.4, batch=48)
    network = one.networks["drone"]
    columns = [lawful.episode(i).columns for i in one.training_episodes]
    rows = torch.cat([c["observation.drone"][:-1, 0] for c in columns])
    policy = one.policies()["drone"]
    torch.testing.assert_close(policy.get_buffer("normalize.mean"), rows.mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        policy.get_buffer("normalize.std"), rows.std(0, correction=0).clamp(min=1e-2), rtol=1e-4, atol=1e-5
    )
    learn, calls = network.learn, []

    def noting(observation, actions, progress):
        calls.append((observation, actions, progress, learn(observation, actions, progress)))
        return calls[-1][-1]

    network.learn = noting
    loss = one.update(0.25)["drone/loss"]
    observations, actions, progress, losses = zip(*calls, strict=True)
    wanted = torch.cat((rows, torch.cat([c["action.drone"][:, 0] for c in columns])), 1)
    got = torch.cat((torch.cat(observations), torch.cat(actions)), 1)
    assert sorted(map(tuple, got.tolist())) == sorted(map(tuple, wanted.tolist()))
    assert set(progress) == {0.25} and len(observations[-1]) < 48
    assert loss == pytest.approx(sum(x.item() * len(o) for x, o in zip(losses, observations, strict=True)) / len(rows))


def test_a_validation_episode_is_there_where_two_are(lawful, tmp_path):
    """However small the share is; it depends on the seed which one."""
    splits = []
    for seed in range(5):
        config = BehaviorCloningConfig(hidden=(4,), validation_share=1e-6)
        splits.append(BehaviorCloning(recorded_env(lawful), config, seed, {"dataset": lawful}).validation_episodes)
    assert all(len(split) == 1 for split in splits) and len({split[0] for split in splits}) > 1
    with Writer(tmp_path / "one", lawful.contract, lawful.recording) as writer:
        writer.add(lawful.episode(0))
    alone = cloning(Dataset(tmp_path / "one"), validation_share=0.9)
    assert alone.training_episodes == [0] and alone.validation_episodes == []


@pytest.mark.parametrize("before", [0, 1, 4])
def test_a_resumed_behavior_cloning_is_bit_equal(lawful, before):
    one = cloning(lawful)
    for epoch in range(before):
        one.update(epoch / 10)
    other = cloning(lawful)
    other.load_state_dict({k: v.clone() for k, v in one.state_dict().items()})
    ends = [[c.update(0.5), c.update(0.6)] for c in (one, other)]
    assert ends[0] == ends[1]
    mine = one.state_dict()
    its = other.state_dict()
    assert mine.keys() == its.keys() and all(torch.equal(mine[k], its[k]) for k in mine)


# What can be wrong with a folder


def rewrite(file: Path, change: dict[str, torch.Tensor | None], **said: object) -> None:
    """An episode file with some columns and marks changed, and its checksum in meta.json put right."""
    tensors = safetensors.torch.load_file(file)
    with safetensors.safe_open(file, framework="pt") as opened:
        mark = json.loads(opened.metadata()["rookery"])
    tensors = {k: v for k, v in (tensors | change).items() if v is not None}
    safetensors.torch.save_file(tensors, file, {"rookery": json.dumps(mark | said)})
    meta = json.loads((file.parent.parent / "meta.json").read_text())
    meta["episodes"][int(file.stem)]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (file.parent.parent / "meta.json").write_text(json.dumps(meta))


def test_damage_is_told_in_a_sentence(copy):
    file = copy / "episodes" / "000001.safetensors"
    whole = file.read_bytes()
    columns = Dataset(copy).episode(1).columns
    action = columns["action.drone"]
    broken = action.clone()
    broken[7, 0, 2] = torch.nan
    cases: list[tuple[object, str]] = [
        ({"action.drone": None}, "lacks the column 'action.drone'"),
        ({"action.drone": action[:-1].clone()}, r"'action.drone' is \(39, 1, 4\) and must be \(40, 1, 4\)"),
        ({"action.drone": broken}, "'action.drone' has NaN or infinity, first in row 7"),
        ({"action.drone": action.double()}, "'action.drone' is float64 and must be float32"),
        ({"control_dt": "0.02"}, "control period of 0.02 s and the dataset with 0.01 s"),
        ({"task_id": "drone-track"}, "is of task 'drone-track' or of other observations"),
    ]
    for change, sentence in cases:
        file.write_bytes(whole)
        assert isinstance(change, dict)
        said = {k: v for k, v in change.items() if isinstance(v, str)}
        rewrite(file, {k: v for k, v in change.items() if k not in said}, **said)
        with pytest.raises(RookeryError, match=sentence):
            Dataset(copy)
    file.write_bytes(whole)
    rewrite(file, {})
    file.write_bytes(whole[:-100])
    with pytest.raises(RookeryError, match="is cut short or damaged"):
        Dataset(copy, check=False)
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(RookeryError, match="was changed after it was recorded"):
        Dataset(copy)
    file.unlink()
    with pytest.raises(RookeryError, match="is missing"):
        Dataset(copy)


def test_wrong_meta_is_told_in_a_sentence(copy, tmp_path):
    meta = copy / "meta.json"
    good = json.loads(meta.read_text())
    without = {k: v for k, v in good["columns"].items() if k != "action.drone"}
    for change, sentence in (
        ({"version": 99}, "up to version 1: upgrade Rookery"),
        ({"format": "other"}, "is other version 1"),
        ({"columns": without}, "lacks the column 'action.drone'"),
        ({"episodes": [{}]}, "is damaged"),
    ):
        meta.write_text(json.dumps(good | change))
        with pytest.raises(RookeryError, match=sentence):
            Dataset(copy)
    meta.write_text("{")
    with pytest.raises(RookeryError, match="is damaged"):
        Dataset(copy)
    meta.unlink()
    with pytest.raises(RookeryError, match="the recording was cut off"):
        Dataset(copy)
    with pytest.raises(RookeryError, match="holds no demonstrations"):
        Dataset(tmp_path / "nowhere")


def test_another_task_is_refused(folder):
    data = Dataset(folder)
    data.require(data.contract)
    for task, config, sentence in (
        ("drone-track", {}, "the task is"),
        ("drone-hover", {"action": "rotor_thrust"}, "the action of drone is"),
        ("drone-hover", {"num_drones": 2}, "the agents of drone is 1 in them and 2 there"),
        ("drone-hover", {"control_dt": 0.02}, "the control period is 0.01 in them and 0.02 there"),
    ):
        env = rookery.make(task, 1, config=config)
        with pytest.raises(RookeryError, match=sentence):
            data.require(build_contract(env).to_json())
        env.close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "other"),
        ("size", 2),
        ("unit", "cm"),
        ("frame", "elsewhere"),
        ("scale", 7.0),
        ("clip", 0.3),
        ("history", 2),
    ],
)
def test_whatever_changes_the_meaning_of_an_observation_is_refused(folder, key, value):
    data = Dataset(folder)
    other = copied(data.contract)
    other["groups"]["drone"]["observation"][0][key] = value
    with pytest.raises(RookeryError, match="the demonstrations do not fit the environment: the "):
        data.require(other)
    assert mark(other) != mark(data.contract), "a file from there is noticed"


def test_observations_in_another_order_are_refused(folder):
    data = Dataset(folder)
    other = copied(data.contract)
    other["groups"]["drone"]["observation"].reverse()
    with pytest.raises(RookeryError, match="the order of observations of drone is"):
        data.require(other)


def test_full_disk_and_interruption(folder, tmp_path, monkeypatch):
    data = Dataset(folder)

    def full(file: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, Writer(tmp_path / "full", data.contract, data.recording) as writer:
        patch.setattr(writer_module, "replace", full)
        with pytest.raises(RookeryError, match=r"the disk of .* is full: make room"):
            writer.add(data.episode(0))
    assert not list((tmp_path / "full").rglob("*.safetensors"))
    for signal in (KeyboardInterrupt, SystemExit(143)):
        shutil.rmtree(tmp_path / "cut", ignore_errors=True)
        ends = contextlib.suppress(KeyboardInterrupt, SystemExit)
        with ends, Writer(tmp_path / "cut", data.contract, data.recording) as writer:
            writer.add(data.episode(0))
            raise signal
        assert len(Dataset(tmp_path / "cut")) == 1, "Ctrl-C and SIGTERM keep what was recorded"
    with pytest.raises(RookeryError, match="is not empty"):
        Writer(tmp_path / "cut", data.contract, data.recording)
    with Writer(tmp_path / "odd", data.contract, {}) as writer:
        writer.add(data.episode(0))
        odd = {k: v for k, v in data.episode(1).columns.items() if k != "terminated"}
        with pytest.raises(RookeryError, match="has other columns"):
            writer.add(dataclasses.replace(data.episode(1), columns=odd))


def test_agents_that_take_no_part_give_no_transitions(folder, tmp_path):
    data = Dataset(folder)
    with Writer(tmp_path / "d", data.contract, data.recording) as writer:
        e = data.episode(0)
        active = torch.arange(e.facts.length).unsqueeze(1) < 7
        writer.add(dataclasses.replace(e, columns=e.columns | {"active.drone": active}))
    (batch,) = Dataset(tmp_path / "d").transitions(100, shuffle=False)
    assert torch.equal(batch.action, e.columns["action.drone"][:7, 0])


def test_settings_and_sizes_are_checked(folder, tmp_path):
    data = Dataset(folder)
    with pytest.raises(RookeryError, match="did you mean 'drone'"):
        next(data.transitions(8, group="dron"))
    with pytest.raises(RookeryError, match="validation_share is 1"):
        BehaviorCloningConfig(validation_share=1.0)
    with pytest.raises(RookeryError, match="batch is 0"):
        BehaviorCloningConfig(batch=0)
    with pytest.raises(RookeryError, match="none, default or all, got"):
        record(Path("drone-hover"), tmp_path / "d", 1, num_envs=1, randomize="ranges.toml")
    with pytest.raises(RookeryError, match="episodes is 0"):
        record(Path("drone-hover"), tmp_path / "e", 0, num_envs=1)
    long = {"episode_s": 1e6, "settled_s": 1.0}
    with pytest.raises(RookeryError, match="need more than 4 GB: record with fewer --num-envs"):
        record(Path("drone-hover"), tmp_path / "f", 1, num_envs=8, config=long)


@pytest.mark.parametrize("episodes", [0, -1, 1_000_001, 10**30])
def test_absurd_numbers_of_episodes_are_refused_at_once(episodes, tmp_path):
    with pytest.raises(RookeryError, match=r"give 1 to 1000000\."):
        record(Path("drone-hover"), tmp_path / "d", episodes, num_envs=2, config=SHORT)


def test_more_episodes_than_the_disk_has_room_for_are_refused_before_the_first(tmp_path, monkeypatch):
    """Of 40 control steps at 100 bytes and more."""
    usage = shutil.disk_usage(tmp_path)._replace(free=20_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        RookeryError, match=r"5 episodes of .* MB do not fit on the disk of .*: record fewer with --episodes"
    ):
        record(Path("drone-hover"), tmp_path / "d", 5, num_envs=2, config=SHORT)
    assert not list((tmp_path / "d").rglob("*.safetensors"))


def test_a_figure_that_an_episode_lacks_is_not_among_its_facts():
    """JSON has no NaN: the folder could not be read any more."""
    ended = {name: torch.tensor([x]) for name, x in {"ids": 0, "length": 3, "cause": 0}.items()}
    ended |= {
        "return": {"drone": torch.ones(1)},
        "metrics": {"success": torch.ones(1), "time": torch.tensor([torch.nan])},
    }
    facts = recorder._facts(SimpleNamespace(causes=()), ended, 0, torch.tensor([True]))[0]
    assert facts.metrics == {"success": 1.0} and facts.success
