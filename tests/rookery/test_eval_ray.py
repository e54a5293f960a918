"""`rookery eval --ray`: parts of the worlds give the figures of one process, to the last bit."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampled import slow_but

from rookery.cli.main import main
from rookery.experiments import remote_evaluation, sent_policies
from rookery.experiments.remote_evaluation import evaluate_on, in_order, parts_of, play_part
from rookery.experiments.run_env import open_env
from rookery.experiments.runs import find_run
from rookery.experiments.sent_policies import SentPolicies
from rookery.policies.training.evaluate import evaluate, play_episodes, quota_of, report
from rookery.sim.errors import RookeryError


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
    quota = quota_of(env, episodes)
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


def test_parts_of_a_controllers_worlds_give_the_bits_of_one_process() -> None:
    options = _options(controller="classical")
    env, act = open_env(Path("drone-track"), 32, **options)
    quota = torch.ones(32, dtype=torch.long)
    want = play_episodes(env, act, quota, 3)
    order = options | {"run": "drone-track", "worlds": 32, "ranges": None, "policies": None, "quota": [1] * 16}
    found = [play_part(order | {"part": (i, 2)}) for i in range(2)]
    for i, columns in enumerate(found):
        assert isinstance(columns, dict), columns
        columns["world"] += 16 * i
    merged = in_order([columns for columns in found if isinstance(columns, dict)])
    torch.testing.assert_close(merged, want, rtol=0.0, atol=0.0, equal_nan=True)
    env.close()


class OneProcessor:
    """A cluster that keeps the orders."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []

    def __enter__(self) -> OneProcessor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def processors(self) -> float:
        return 1.0

    def each(self, work: object, orders: list[dict[str, Any]]) -> list[Any]:
        self.orders = orders
        return [(0, "no episodes here")]


@pytest.mark.parametrize("episodes", [4, 10, 21])
def test_the_tasks_of_a_set_have_as_many_episodes_as_in_one_process(
    episodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six worlds of a first task, two of a second."""
    cluster = OneProcessor()
    monkeypatch.setattr(remote_evaluation.Cluster, "of_processes", lambda address: cluster)
    tasks = torch.tensor([0] * 6 + [1] * 2)
    env: Any = SimpleNamespace(task_names=("a", "b"), task_index=tasks, num_envs=8, task_id="a set")
    with pytest.raises(RookeryError, match="no episodes here"):
        evaluate_on("local", env, Path("nowhere"), 8, episodes, **_options())
    (order,) = cluster.orders
    played = torch.tensor(order["quota"])
    assert played.sum() == episodes
    assert all(played[tasks == task].sum() > 0 for task in (0, 1))
    assert played.max() - played.min() <= 1
    assert abs(played[6:].sum() - played[[0, 1]].sum()) == 0  # the first two of either take turns
    with pytest.raises(RookeryError, match="at least as many episodes"):
        evaluate_on("local", env, Path("nowhere"), 8, 1, **_options())


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


@pytest.fixture(scope="module")
def token_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Address of a cluster that `ray start` has begun where there is a token, and the token's file."""
    folder = tmp_path_factory.mktemp("ray")
    (folder / "token").write_text("6308f4107d6bd8b6eb9c37fc2be5ca89477ad190d8a0a6d1de7c4aa7606c55c3")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    command = [
        str(Path(sys.executable).with_name("ray")),
        "start",
        "--head",
        "--port",
        str(port),
        "--num-cpus",
        "2",
        "--block",
    ]
    command += ["--include-dashboard=false", "--disable-usage-stats", "--temp-dir", f"/tmp/rookery-ray-{port}"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    head = subprocess.Popen(
        command, env=environment | {"RAY_AUTH_TOKEN_PATH": str(folder / "token")}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield f"127.0.0.1:{port}", folder / "token"
    finally:
        family = psutil.Process(head.pid).children(recursive=True)
        for process in (head, *family):
            process.kill()
        shutil.rmtree(f"/tmp/rookery-ray-{port}", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False])
def test_a_cluster_with_a_token(same: bool, token_cluster: tuple[str, Path], tmp_path: Path) -> None:
    """As the documentation has it started; Ray gives a token to no address of itself."""
    address, token = token_cluster
    if not same:
        token = tmp_path / "token"
        token.write_text("0" * 64)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    words = ["-m", "rookery", "eval", "drone-hover", "--episodes", "32", "--num-envs", "32", "--ray", address]
    deadline = time.monotonic() + 60.0
    while True:
        done = subprocess.run(
            [sys.executable, *words], env=environment | {"RAY_AUTH_TOKEN_PATH": str(token)}, capture_output=True, text=True,
            timeout=200,
        )  # fmt: skip
        if "no Ray cluster answers" not in done.stderr or time.monotonic() > deadline:  # it takes some seconds to begin
            break
        time.sleep(1.0)
    assert done.returncode == (0 if same else 2), done.stderr
    assert "Traceback" not in done.stderr
    assert ("the head's token" in done.stderr) is not same


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
