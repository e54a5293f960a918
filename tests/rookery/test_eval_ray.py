"""`rookery eval --ray`: parts of the worlds give the figures of one process, to the last bit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampled import slow_but

from rookery.cli.main import main
from rookery.experiments import sent_policies
from rookery.experiments.remote_evaluation import in_order, parts_of, play_part
from rookery.experiments.run_env import open_env
from rookery.experiments.runs import find_run
from rookery.experiments.sent_policies import SentPolicies
from rookery.policies.training.evaluate import evaluate, play_episodes, quota_of, report


@given(st.integers(1, 600), st.integers(1, 64))
def test_worlds_are_divided_evenly(worlds: int, processors: int) -> None:
    parts = parts_of(worlds, processors)
    assert 1 <= parts <= processors and worlds % parts == 0
    assert parts == 1 or worlds // parts >= 16
    assert not any(worlds % n == 0 and worlds // n >= 16 for n in range(parts + 1, processors + 1))


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4))
def test_episodes_come_in_the_order_of_one_process(seed: int, count: int, parts: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    places = torch.randperm(10 * 12, generator=generator)[:count].sort().values
    whole = {"step": places // 12, "world": places % 12, "length": torch.arange(count)}
    owner = whole["world"] * parts // 12
    split = [{name: x[owner == i] for name, x in whole.items()} for i in range(parts)]
    found = in_order(split)
    assert all(torch.equal(found[name], x) for name, x in whole.items())


def _options(**changes: Any) -> dict[str, Any]:
    return {
        "engine": None,
        "seed": 3,
        "randomize": "default",
        "fixed": {"mass": 1.1},
        "config": {"episode_s": 1.0},
    } | changes


@pytest.mark.parametrize(("parts", "episodes"), slow_but([(2, 90)], [(2, 90), (3, 100), (6, 192)]))
def test_parts_give_the_bits_of_one_process(parts: int, episodes: int) -> None:
    """With gusts, noise, delays and everything else that is drawn, by a policy that comes along: its folder is not there."""
    env, act = open_env(Path("drone-hover"), 96, **_options(randomize="all"))
    quota = quota_of(96, episodes)
    whole = play_episodes(env, act, quota, 3)
    want = report(env, whole, episodes)
    each = 96 // parts
    order = _options(randomize="all") | {"run": "nowhere", "worlds": 96, "ranges": None}
    sent = SentPolicies.of_run(Path("drone-hover"))
    order["policies"] = SimpleNamespace(get=lambda: sent)
    columns = []
    for i in range(parts):
        found = play_part(order | {"part": (i, parts), "quota": quota[i * each : (i + 1) * each].tolist()})
        assert isinstance(found, dict), found
        found["world"] += i * each
        columns.append(found)
    merged = in_order(columns)
    assert merged.keys() == whole.keys()
    for name, x in whole.items():
        assert torch.equal(merged[name], x), name
    assert report(env, merged, episodes) == want
    again, act = open_env(Path("drone-hover"), 96, **_options(randomize="all"))
    assert evaluate(again, act, episodes, 3) == want
    env.close()
    again.close()


@pytest.mark.slow
def test_ray_gives_the_same_figures(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ranges.toml").write_text("[mass]\nlow = 0.9\nhigh = 1.1\n")
    shutil.copytree(find_run(Path("drone-hover")), "mine")
    words = ["eval", "mine", "--episodes", "40", "--num-envs", "32", "--randomize", "ranges.toml", "--json"]
    words += ["--task-config", "episode_s=0.5"]
    assert main(words) == 0
    want = json.loads(capsys.readouterr().out)
    assert main([*words, "--ray", "local"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out) == want
    assert "Traceback" not in error


def test_a_policy_too_large_to_be_sent_is_one_sentence(
    in_tmp: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(find_run(Path("drone-hover")), "mine")
    size = sum((Path("mine") / name).stat().st_size for name in ("contract.json", "policy.safetensors"))
    monkeypatch.setattr(sent_policies, "MOST_BYTES", size)
    assert SentPolicies.of_run(Path("mine")).files.keys() == {"contract.json", "policy.safetensors"}
    monkeypatch.setattr(sent_policies, "MOST_BYTES", size - 1)
    assert main(["eval", "mine", "--episodes", "4", "--ray", "127.0.0.1:9"]) == 2
    error = capsys.readouterr().err
    assert "MB at most to other processes: leave out --ray." in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["drone-hover", "--log-draws", "a.npz"], "leave out --log-draws"),
        (["drone-hover", "--shards", "2"], "leave out --shards"),
        (["drone-hover", "--ray", "nowhere"], "'nowhere' is no address"),
        (["drone-hover", "--ray", "127.0.0.1:9"], "no Ray cluster answers at 127.0.0.1:9"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "--episodes", "4", *([] if "--ray" in words else ["--ray", "local"]), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
