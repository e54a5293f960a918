"""`rookery gate --ray`: batches in other processes give the report of one process, to the last bit."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray_nodes import begun, two_nodes, wait_for, works

from rookery.cli.main import main
from rookery.experiments import ray_cluster
from rookery.experiments.gating import _open_sent, opener
from rookery.experiments.ray_tasks import StoredValue
from rookery.experiments.runs import open_run
from rookery.experiments.sent_policies import SentPolicies
from rookery.sim.errors import RookeryError
from rookery.sim2real.gate.batches import BatchOrder, BatchTrials, try_to_play

EPISODES = 20
OPTIONS = {"fixed": {"mass": 1.0, "observation_noise": 0.0, "wind_speed": 0.0}, "config": {"episode_s": 0.4}}
POINTS = [{"mass": 0.6 + 0.1 * i} for i in range(2)] + [{"observation_noise": 1.0}]


def profile(folder: Path) -> str:
    file = folder / "hall.toml"
    file.write_text(
        'success = 0.9\ncombinations = 0.4\nworst = 0.4\n[factors.mass]\nlow = 0.9\nhigh = 1.1\nsource = "x"\n'
    )
    return str(file)


def words(folder: Path, *more: str) -> list[str]:
    own = ["--profile", profile(folder), "--episodes", str(EPISODES), "--interval", "0.9", "--rounds", "1"]
    return ["gate", "drone-hover", *own, "--combinations", "6", "--engines", "none", *more]


def report(out: Path) -> dict[str, Any]:
    """Of the gate, without the seconds that it took."""
    found = json.loads((out / "gate.json").read_text())
    del found["seconds"]
    return found


@pytest.mark.slow
def test_batches_anew_give_the_bits_of_one_environment() -> None:
    """The environment of one process has played other batches before; those elsewhere are fresh, and open sent policies."""
    policies, contract = open_run(Path("drone-hover"))
    order = BatchOrder(opener(policies, contract), ({},), 2, EPISODES, 3, OPTIONS)
    trials = order.trials()
    mine = trials.run(POINTS)
    trials.close()
    sent = SentPolicies.of(policies, contract)
    assert sent.files.keys() == {"contract.json", "policy.safetensors"}
    played: list[BatchOrder] = []

    def mapper(work: Any, orders: Any) -> Any:
        played.extend(orders)
        return map(work, orders)

    class Stored(StoredValue[SentPolicies]):
        """As in Ray's store: of each machine, and here of this process."""

        def get(self) -> SentPolicies:
            return sent

    opened = functools.partial(_open_sent, Stored(None))
    elsewhere = BatchTrials(BatchOrder(opened, ({},), 2, EPISODES, 3, OPTIONS), mapper)
    theirs = elsewhere.run(POINTS)
    assert [len(order.points) for order in played] == [2, 1]
    assert elsewhere.episodes_run == trials.episodes_run == len(POINTS) * EPISODES
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.figures, b.figures)
        np.testing.assert_array_equal(a.success, b.success)
        assert a.means == b.means
    assert not mine[0].same(mine[1])
    assert not elsewhere.run(POINTS[:1], 4)[0].same(mine[0])


def test_what_cannot_be_opened_elsewhere_is_told_and_not_raised() -> None:
    def nowhere(num_envs: int, **options: Any) -> Any:
        raise RookeryError("no such engine here.")

    assert try_to_play(BatchOrder(nowhere, ({},), 1, 2, 0)) == "no such engine here."


def test_no_cluster_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_ray", lambda: None)  # it is imported in seconds, and not asked
    assert main(words(tmp_path, "--out", str(tmp_path / "out"), "--ray", "127.0.0.1:9")) == 2
    error = capsys.readouterr().err
    assert "no Ray cluster answers at 127.0.0.1:9" in error
    assert "Traceback" not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_ray_gives_the_same_report_also_when_a_node_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of the command is none that the nodes need."""
    assert main(words(tmp_path, "--out", str(tmp_path / "one"))) == 0
    want = report(tmp_path / "one")
    assert len(want["cases"]) == 4
    with two_nodes() as (nodes, second):
        process = begun(words(tmp_path, "--out", str(tmp_path / "two"), "--ray", nodes.address), tmp_path / "said")
        wait_for(lambda: works(second), process)
        nodes.remove_node(second, allow_graceful=False)
        assert process.wait(300) == 0
    assert report(tmp_path / "two") == want
    assert "Traceback" not in (tmp_path / "said").read_text()


@pytest.mark.slow
def test_a_cluster_that_ends_is_one_sentence(tmp_path: Path) -> None:
    with two_nodes() as (nodes, second):
        process = begun(words(tmp_path, "--out", str(tmp_path / "out"), "--ray", nodes.address), tmp_path / "said")
        wait_for(lambda: works(second), process)
        nodes.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        assert process.wait(60) == 2
    said = (tmp_path / "said").read_text()
    assert "has ended: start it again and run the command once more." in said.splitlines()[-1]
    assert "Traceback" not in said
    assert not list((tmp_path / "out").glob("*"))
