"""Workers under Ray: they learn what one process learns; losses, Ctrl-C, resumes, and clusters that do not fit."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from forks import FORKS
from ray_nodes import two_nodes

from rookery.cli import train_options
from rookery.cli.main import main
from rookery.experiments import ray_cluster, workers
from rookery.experiments.ray_cluster import Cluster
from rookery.experiments.ray_machines import versions
from rookery.experiments.workers import Workers, _watch
from rookery.policies.training import checkpoint
from rookery.policies.training.distributed import Distributed, _is_near, distributed
from rookery.policies.training.lock import FILE as LOCK
from rookery.policies.training.logging import Terminal
from rookery.policies.training.reduction import Reduction
from rookery.sim.errors import ProcessLost, RookeryError
from rookery.sim.idle_watch import IDLE

WORDS = ["train", "drone-hover", "--num-envs", "32", "--rollout-steps", "8", "--hidden", "16", "--minibatches", "2"]
EPOCHS = 5
WORDS += ["--epochs", str(EPOCHS), "--seed", "3", "--randomize", "default", "--checkpoint-every", "10"]


def _train(folder: Path, *words: str) -> list[dict[str, float]]:
    """Rows of the log of a training by the command."""
    assert main([*WORDS, "--out", str(folder), *words]) == 0
    return _rows(folder)


def _rows(folder: Path) -> list[dict[str, float]]:
    with open(folder / "progress.csv", newline="") as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def _algorithm(folder: Path) -> dict[str, torch.Tensor]:
    path = checkpoint.newest(folder)
    return checkpoint.read_tensors(path, checkpoint.read_state(path))["algorithm"]


@pytest.mark.slow
def test_two_workers_learn_what_one_process_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = ("--steps", str(32 * 8 * 20))
    one = _train(tmp_path / "one", *steps)
    two = _train(tmp_path / "two", *steps, "--workers", "2", "--worker-cpus", "0.5")
    assert len(one) == len(two) == 20
    weights = _algorithm(tmp_path / "two")["drone/parameters"].numel()
    observed = _algorithm(tmp_path / "two")["drone/observations.mean"].numel()
    for mine, theirs in zip(one, two, strict=True):
        sent, received = (theirs.pop(name) for name in ("sent_bytes", "received_bytes"))
        assert sent == received  # two minibatches and two workers; see docs/scaling.md
        assert sent == pytest.approx(4 * weights * EPOCHS * 2 + 16 * observed, rel=0.05)
        for name in ("steps", "drone/value_loss", "drone/approx_kl", "drone/std", "drone/learning_rate"):
            assert theirs[name] == pytest.approx(mine[name], rel=1e-2, abs=1e-5), (mine["iteration"], name)
        assert theirs.keys() == mine.keys()
        assert theirs.get("return", 0.0) == pytest.approx(mine.get("return", 0.0), rel=1e-3)
    want = _algorithm(tmp_path / "one")
    for name, value in _algorithm(tmp_path / "two").items():
        if name.startswith("drone/observations."):
            torch.testing.assert_close(value, want[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "two"), "--episodes", "4", "--json"]) == 0


OFF_POLICY = ["train", "drone-hover", "--num-envs", "32", "--rollout-steps", "16", "--hidden", "16", "--batch", "64"]
OFF_POLICY += ["--learning-starts", "600", "--seed", "3", "--randomize", "default", "--checkpoint-every", "10"]
OFF_POLICY += ["--buffer-size", "8000", "--updates-per-step", "0.5"]


def _transition_bytes(folder: Path, worlds: int, steps: int) -> float:
    """Of rollouts on the wire, see docs/scaling.md."""
    tensors = _algorithm(folder)
    observed, acted = (tensors[f"drone.replay.{name}"].shape[-1] for name in ("observation", "action"))
    return worlds * 4 * ((steps + 1) * observed + steps * (acted + 1.5))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_two_workers_with_one_learner_learn_what_one_process_learns(algorithm: str, tmp_path: Path) -> None:
    words = [*OFF_POLICY, "--algorithm", algorithm, "--steps", str(32 * 16 * 20)]
    assert main([*words, "--out", str(tmp_path / "one")]) == 0
    assert main([*words, "--out", str(tmp_path / "two"), "--workers", "2", "--worker-cpus", "0.5"]) == 0
    one, two = (_rows(tmp_path / name) for name in ("one", "two"))
    assert len(one) == len(two) == 20
    rollouts = _transition_bytes(tmp_path / "two", 16, 16)
    tensors = _algorithm(tmp_path / "two")
    policy = sum(x.numel() for name, x in tensors.items() if name.startswith("drone.actor."))
    weights = 4 * (policy + 2 * tensors["drone.norm.mean"].numel()) + len(tensors["generator"])
    for mine, theirs in zip(one, two, strict=True):
        assert theirs.pop("staleness") == 0
        assert theirs.pop("received_bytes") == pytest.approx(rollouts, rel=0.05)
        assert theirs.pop("sent_bytes") == pytest.approx(weights, rel=0.05)
        assert theirs.keys() == mine.keys()
        for name in mine.keys() - {"seconds", "samples_per_s", "collect_s", "learn_s"}:
            assert theirs[name] == pytest.approx(mine[name], rel=1e-2, abs=1e-4), (mine["iteration"], name)
    assert "drone/critic_loss" in mine
    want = _algorithm(tmp_path / "one")
    for name, value in tensors.items():
        if name.startswith(("drone.norm.", "drone.replay.")):
            torch.testing.assert_close(value, want[name], rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
    # three workers, of whom one learns while two act, go on from there, and one process from them
    resumed = ["train", "--resume", str(tmp_path / "two"), "--steps"]
    more = ["--workers", "3", "--worker-cpus", "0.3", "--staleness", "1"]
    assert main([*resumed, str(32 * 16 * 26), *more]) == 0
    rows = _rows(tmp_path / "two")[20:]
    assert [row["staleness"] for row in rows] == [0, 1, 1, 1, 1, 1]
    received = [row["received_bytes"] for row in rows]
    assert received == pytest.approx([_transition_bytes(tmp_path / "two", 32, 16)] * 6, rel=0.05)
    assert main([*resumed, str(32 * 16 * 27)]) == 0
    assert _steps(tmp_path / "two") == 32 * 16 * 27


@pytest.mark.slow
@pytest.mark.parametrize(("count", "staleness"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("learner", [True, False])
def test_a_killed_learner_or_actor_is_replaced(learner: bool, count: int, staleness: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    command = [sys.executable, "-m", "rookery", *OFF_POLICY, "--algorithm", "sac", "--steps", "100000000"]
    command += ["--workers", str(count), "--worker-cpus", "0.3", "--staleness", str(staleness), "--out", str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    _wait_for(lambda: _steps(folder) > 0)
    family = _family(process)
    workers = [p for p in family if "RayTrainWorker" in " ".join(p.cmdline())]
    assert len(workers) == count
    holder = int((folder / LOCK).read_text())  # the learner holds the lock of the run
    next(p for p in workers if (p.pid == holder) is learner).kill()
    before, made = _steps(folder), int(_rows(folder)[-1]["steps"])
    assert made - before <= 10 * 32 * 16 + 32 * 16
    _wait_for(lambda: _steps(folder) > before + 32 * 16 * 20)
    made = [row["steps"] for row in _rows(folder)]
    assert made == [32 * 16 * (i + 1) for i in range(len(made))], "no iteration twice, and none left out"
    assert max(row["staleness"] for row in _rows(folder)) == staleness
    family += _family(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    assert "interrupted and saved; resume with: rookery train --resume" in process.stderr.read().decode()
    _wait_for(lambda: not any(map(_lives, family)), 30)


@pytest.mark.slow
def test_workers_go_on_where_one_process_stopped(tmp_path: Path) -> None:
    _train(tmp_path / "run", "--steps", "512")
    words = ["train", "--resume", str(tmp_path / "run"), "--steps", "1024", "--workers", "2", "--worker-cpus", "0.5"]
    assert main(words) == 0
    assert _steps(tmp_path / "run") == 1024
    assert [row["steps"] for row in _rows(tmp_path / "run")] == [256, 512, 768, 1024]


def same_everywhere(x: torch.Tensor, reduction: Reduction) -> bool:
    """True where all processes have the same bits in `x`."""
    bits = x.detach().contiguous().view(torch.uint8).to(torch.int64)
    largest, negated = reduction.max(bits.clone()), reduction.max(-bits)
    return bool((largest == -negated).all())


def _sum(rank: int, size: int, port: int, out: Any, near: bool) -> None:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    reduction = distributed() if near else Distributed()
    x = torch.arange(6.0).reshape(2, 3).t() + rank  # not contiguous
    in_place = reduction.sum(x) is x
    largest = reduction.max(torch.tensor([rank, -rank]))
    gathered = reduction.gather({"rank": rank})
    before = reduction.sent, reduction.received
    told = reduction.broadcast(torch.arange(10.0) * (rank == 0))
    messages = reduction.collect(bytes([rank]) * rank * 100)  # none at all of rank 0
    sent, received = reduction.sent - before[0], reduction.received - before[1]
    reduction.sent, reduction.received = before
    alike = same_everywhere(torch.ones(3), reduction), same_everywhere(torch.full((3,), float(rank)), reduction)
    messaged = (told.tolist(), messages, sent, received)
    out.put((rank, x.tolist() if in_place else None, largest.tolist(), gathered, alike, reduction.sent, messaged))
    dist.destroy_process_group()


@pytest.mark.parametrize("near", [False, True])
def test_sums_over_processes(near: bool) -> None:
    """By torch.distributed, and through memory that they share."""
    out = FORKS.Queue()
    port = _free_port()
    processes = [FORKS.Process(target=_sum, args=(rank, 3, port, out, near), daemon=True) for rank in range(3)]
    for process in processes:
        process.start()
    found = sorted(out.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    want = (3 * torch.arange(6.0).reshape(2, 3).t() + 3).tolist()
    for rank, x, largest, gathered, alike, sent, messaged in found:
        assert x == want
        assert largest == [2, 0]
        assert gathered == ([{"rank": 0}, {"rank": 1}, {"rank": 2}] if rank == 0 else None)
        assert alike == (True, False)
        # of each tensor 2 (S - 1) / S: 6 floats, 2 and four times 12 whole numbers
        assert sent == pytest.approx(4 / 3 * (6 * 4 + 2 * 8 + 4 * 12 * 8))
        told, messages, sent, received = messaged
        assert told == list(range(10))
        assert messages == ([b"", b"\1" * 100, b"\2" * 200] if rank == 0 else None)
        # 40 bytes to each of the two others
        assert (sent, received) == pytest.approx(((80.0, 300.0), (100.0, 40.0), (200.0, 40.0))[rank])


def test_shared_memory_is_for_numbers_of_numpy_on_the_cpu() -> None:
    for kind in (torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8):
        assert _is_near(torch.zeros(2, dtype=kind))
        assert not _is_near(torch.zeros(2, dtype=kind, device="meta")), "what a GPU has is there alone"
    assert not _is_near(torch.zeros(2, dtype=torch.bfloat16))


def _send(rank: int, size: int, port: int, out: Any) -> None:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    reduction = Distributed()
    rows = []
    for send in (
        lambda: reduction.broadcast(torch.zeros(5_000_000)),
        lambda: reduction.collect(bytes(20_000_000 * (rank > 0))),
        lambda: reduction.sum(torch.zeros(5_000_000)),
    ):
        dist.barrier()
        there, counted, came = _sent_by_interface(), reduction.sent, reduction.received
        send()
        dist.barrier()
        rows.append((_sent_by_interface() - there, reduction.sent - counted, reduction.received - came))
    out.put((rank, rows))
    dist.barrier()  # nobody leaves while another looks
    dist.destroy_process_group()


def _sent_by_interface() -> int:
    """Bytes that have gone through the interface of this machine to itself."""
    counters = psutil.net_io_counters(pernic=True)
    return int(next(c.bytes_sent for name, c in counters.items() if name.startswith("lo")))


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4])
def test_bytes_that_are_counted_are_those_on_the_wire(size: int) -> None:
    """Sums go round a ring, what is broadcast down a tree; nothing else sends as much in the meantime."""
    out = FORKS.Queue()
    port = _free_port()
    processes = [FORKS.Process(target=_send, args=(rank, size, port, out), daemon=True) for rank in range(size)]
    for process in processes:
        process.start()
    found = dict(out.get(timeout=120) for _ in processes)
    for process in processes:
        process.join(60)
    for i, what in enumerate(("broadcast", "collect", "sum")):
        for column in (1, 2):
            counted = sum(found[rank][i][column] for rank in range(size))
            assert found[0][i][0] == pytest.approx(counted, rel=0.05), what


def _free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _begun(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rookery", *WORDS, "--out", str(folder), "--steps", "100000000", *words]
    return subprocess.Popen(
        [*command, "--workers", "2", "--worker-cpus", "0.5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def _wait_for(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.2)


def _steps(folder: Path) -> int:
    found = checkpoint.complete(folder)
    return int(found[-1].name) if found else 0


def _lives(process: psutil.Process) -> bool:
    """False for one that ends while it is asked, too."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_worker_is_replaced_and_ctrl_c_saves(
    fault: signal.Signals, rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(IDLE, "10")
    folder = tmp_path / "run"
    process = _begun(folder)
    _wait_for(lambda: _steps(folder) > 0)
    family = _family(process)
    workers = sorted((p for p in family if "RayTrainWorker" in " ".join(p.cmdline())), key=lambda p: p.pid)
    assert len(workers) == 2
    workers[rank].send_signal(fault)
    before = _steps(folder)
    _wait_for(lambda: _steps(folder) > before + 32 * 8 * 20)
    rows = _rows(folder)
    made = [row["steps"] for row in rows]
    assert made == sorted(set(made)), "rows that the lost worker wrote after its last checkpoint are forgotten"
    family += _family(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    said = process.stderr.read().decode()
    assert "interrupted and saved; resume with: rookery train --resume" in said
    assert "a worker was lost, and all go on from the checkpoint of" in said
    assert "Traceback" not in said
    assert process.stdout.read() == b""  # for JSON; Ray has much to say of a lost process
    _wait_for(lambda: not any(map(_lives, family)), 30)
    last = _steps(folder)
    assert last >= made[-1]
    # one process goes on where two were
    assert main(["train", "--resume", str(folder), "--steps", str(last + 256)]) == 0
    assert _steps(folder) == last + 256


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TrainController", "ray::fit"])
def test_where_the_director_of_the_workers_is_lost_the_run_can_go_on(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = _begun(folder)
    _wait_for(lambda: _steps(folder) > 0)
    (director,) = (p for p in _family(process) if name in " ".join(p.cmdline()))
    director.kill()
    assert process.wait(120) == 2
    said = process.stderr.read().decode().strip().splitlines()[-1]
    assert said.startswith(
        "rookery: the process of Ray that directs the workers was lost: go on with `rookery train --resume"
    )
    assert main(["train", "--resume", str(folder), "--steps", str(_steps(folder) + 256)]) == 0


@pytest.mark.slow
def test_a_signal_to_the_whole_group_saves_and_says_so(tmp_path: Path) -> None:
    """That of `timeout` and of batch systems also ends Ray's own processes, which know nothing of a training."""
    folder = tmp_path / "run"
    process = _begun(folder)
    _wait_for(lambda: _steps(folder) > 0)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(120) == 130
    said = process.stderr.read().decode()
    assert f"interrupted and saved; resume with: rookery train --resume {folder}" in said
    kept = re.search(r"what came after the checkpoint of ([\d,]+) steps is lost", said)
    # without it the workers were quicker than Ray's end
    assert kept is None or int(kept[1].replace(",", "")) == _steps(folder)
    assert "Traceback" not in said and "start it again" not in said


@pytest.mark.slow
def test_the_command_killed_leaves_no_process(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = _begun(folder)
    _wait_for(lambda: _steps(folder) > 0)
    family = _family(process)
    assert family
    process.kill()
    process.wait(30)
    _wait_for(lambda: not any(map(_lives, family)), 150)
    assert _steps(folder) > 0


@pytest.mark.slow
def test_two_machines_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker on each of two nodes; a node that is lost takes its worker with it, which goes on on the other."""
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 2})
    second = nodes.add_node(num_cpus=1)
    try:
        command = [sys.executable, "-m", "rookery", *WORDS, "--out", str(tmp_path / "run"), "--steps", "100000000"]
        command += ["--workers", "2", "--ray", nodes.address]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        _wait_for(lambda: _steps(tmp_path / "run") > 0, 180)
        nodes.remove_node(second, allow_graceful=False)
        before = _steps(tmp_path / "run")
        _wait_for(lambda: _steps(tmp_path / "run") > before + 32 * 8 * 20, 180)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) in (130, 143)
        with pytest.raises(RookeryError, match=r"4 workers of 1 processors need 4, and the cluster has [23]:"):
            Cluster(nodes.address, 4, 1.0).__enter__()
        here = {**versions(), "numpy": "0.1"}  # on this machine alone: others have `versions` by its name
        monkeypatch.setattr(importlib.metadata, "version", here.__getitem__)
        with pytest.raises(RookeryError, match=r"has numpy .* and this machine 0\.1"):
            Cluster(nodes.address, 1, 1.0).__enter__()
    finally:
        nodes.shutdown()


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--workers", "2", "--worker-cpus", "1.5"], "a whole number or a share between 0 and 1"),
        (["--workers", "5000", "--num-envs", "10000"], "5000 workers of 1 processors need 5000, and this machine has"),
        (["--workers", "2", "--ray", "nowhere"], "'nowhere' is no address: give local, auto, or HOST:PORT"),
        (
            ["--workers", "2", "--ray", "127.0.0.1:9"],
            "no Ray cluster answers at 127.0.0.1:9: start one with `ray start",
        ),
        (["--staleness", "1"], "--staleness 1 is of several processes: give --workers 2 or more"),
        pytest.param(
            ["--worker-cpus", "2"], "--worker-cpus 2.0 is of several processes: give --workers 2 or more", marks=SLOW
        ),
        pytest.param(
            ["--ray", "10.0.0.4:6379"],
            "--ray 10.0.0.4:6379 is of several processes: give --workers 2 or more",
            marks=SLOW,
        ),
        (["--workers", "1", "--staleness", "1"], "one worker learns while the others act: give --workers 2 or more"),
        (["--workers", "2", "--staleness", "-1"], "--staleness must be at least 0, got -1"),
        (["--workers", "3", "--num-envs", "17"], "17 worlds cannot be divided evenly among 3 workers"),
        (["--workers", "2", "--viewer"], "--viewer shows a training in this process"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, "--out", str(tmp_path / "run"), *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not (tmp_path / "run").exists()


class OneNode:
    """In place of Ray: a cluster of one machine, whose answer is given."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.connected = False

    def init(self, **options: Any) -> None:
        self.connected = True

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0}

    def remote(self, **options: Any) -> Any:
        return lambda function: self

    def options(self, **options: Any) -> Any:
        return type("Call", (), {"remote": lambda self, *a: None})()

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "00" * 28, "NodeManagerHostname": "far", "Alive": True, "Resources": {"CPU": 4.0}}]

    def get(self, reply: None) -> Any:
        return self.answer


def test_a_machine_that_does_not_see_the_run_is_refused(tmp_path: Path) -> None:
    cluster = Cluster("10.0.0.1:6379", 2, 1.0)
    cluster._ray = OneNode(False)
    with pytest.raises(RookeryError, match=rf"far does not see {tmp_path}: give --out a folder"):
        cluster.check_folder(tmp_path)
    assert not list(tmp_path.iterdir())
    cluster._ray = OneNode(True)
    cluster.check_folder(tmp_path)
    assert not list(tmp_path.iterdir())


def test_workers_that_do_not_fit_on_the_machines_are_refused() -> None:
    cluster = Cluster("auto", 1, 3.0, advice="give less")
    cluster._ray = two = OneNode(versions())
    two.nodes = lambda: [{"NodeID": "", "Alive": True, "Resources": {"CPU": 2.0}}] * 2
    with pytest.raises(RookeryError, match="places for 0 workers of 3 processors, not for 1: give less"), cluster:
        raise AssertionError("it was entered")
    assert not two.connected


def test_a_machine_of_other_versions_is_refused_by_every_use_of_a_cluster() -> None:
    cluster = Cluster("auto", 2, 1.0)
    cluster._ray = other = OneNode(versions() | {"mujoco": "3.1"})
    with pytest.raises(RookeryError, match=r"far has mujoco 3\.1 and this machine"), cluster:
        raise AssertionError("it was entered")
    assert not other.connected
    cluster._ray = same = OneNode(versions())
    with cluster:
        assert same.connected
    assert not same.connected


class Headless:
    """In place of a cluster: its workers compute on, and its head is gone."""

    def begin_training(self, *order: Any) -> None:
        pass

    def failure(self, reply: Any) -> str | None:
        return None

    def mailbox(self) -> Any:
        return SimpleNamespace(actor=None, rows=lambda wait: [], notes=lambda wait: [], error=lambda wait: "")

    def check_head(self, then: str) -> None:
        raise RookeryError(f"the head has ended: start it again and {then}.")


@pytest.mark.parametrize(
    ("saved", "said"), [(False, "train anew"), (True, "go on with `rookery train --resume .* --workers 2`")]
)
def test_a_lost_head_is_one_sentence_with_the_way_on(saved: bool, said: str, tmp_path: Path) -> None:
    if saved:
        (tmp_path / "checkpoints" / f"{64:012d}").mkdir(parents=True)
    cluster: Any = Headless()
    with pytest.raises(RookeryError, match=rf"the head has ended: start it again and {said}"):
        _watch(cluster, Workers(2), {"folder": str(tmp_path), "backend": "gloo"}, Terminal(0, 10))


class Mailboxless(Headless):
    """In place of a cluster whose head answers, and which has lost the process that carries messages."""

    def check_head(self, then: str) -> None:
        pass

    def check_places(self, then: str) -> bool:
        return True

    def mailbox(self) -> Any:
        def rows(wait: bool) -> None:
            raise ProcessLost("the messages were lost.")

        return SimpleNamespace(actor=None, rows=rows)


def test_lost_messages_are_one_sentence_with_the_way_on(tmp_path: Path) -> None:
    cluster: Any = Mailboxless()
    with pytest.raises(RookeryError, match=r"^the messages were lost: train anew, for there is no checkpoint yet\.$"):
        _watch(cluster, Workers(2), {"folder": str(tmp_path), "backend": "gloo"}, Terminal(0, 10))


class Shrunk(Headless):
    """In place of a cluster with too few processors for its workers, whose machine does not come back."""

    def __init__(self) -> None:
        self.looks = iter([True, False, False])

    def check_head(self, then: str) -> None:
        pass

    def check_places(self, then: str) -> bool:
        for enough in self.looks:
            return enough
        raise RookeryError(f"no other machine has come: {then}.")


def test_workers_that_no_machine_is_left_for_wait_a_while(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "PLACES_S", 0.0)
    monkeypatch.setattr(workers, "LOOK_S", 0.01)
    cluster: Any = Shrunk()
    with pytest.raises(RookeryError, match="no other machine has come: train anew, for there is no checkpoint yet"):
        _watch(cluster, Workers(2), {"folder": str(tmp_path), "backend": "gloo"}, Terminal(0, 10))
    assert capsys.readouterr().err.count("the workers wait for another one, for 300 s at most") == 1


@pytest.mark.slow
def test_a_lost_node_without_which_workers_do_not_fit_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One processor is left for two workers; a run goes on from its checkpoint with one."""
    run = tmp_path / "run"
    for module in (workers, ray_cluster):
        monkeypatch.setattr(module, "RETURN_S", 10.0)
    with two_nodes() as (nodes, second):

        def lose() -> None:
            _wait_for(lambda: _steps(run) > 0, 180)
            nodes.remove_node(second, allow_graceful=False)

        loser = threading.Thread(target=lose)
        loser.start()
        own = ["--out", str(run), "--steps", "100000000"]
        assert main([*WORDS, *own, "--workers", "2", "--ray", nodes.address]) == 2
        loser.join()
        said = capsys.readouterr().err
        assert "Traceback" not in said
        assert said.splitlines()[-1].startswith(
            "rookery: since a machine was lost the cluster has places for 1 of the 2 workers, and for 10 s no other one has "
            f"come: go on with `rookery train --resume {run} --workers 2 --ray {nodes.address}`, with another machine or fewer "
            "--workers."
        )
        steps = str(_steps(run) + 32 * 8 * 10)
        assert main(["train", "--resume", str(run), "--steps", steps, "--workers", "1", "--ray", nodes.address]) == 0
    made = [row["steps"] for row in _rows(run)]
    assert made == [32 * 8 * (i + 1) for i in range(len(made))], "no iteration twice, and none left out"


def test_the_words_of_workers_are_read_as_the_same_workers() -> None:
    for asked in (Workers(2), Workers(3, 0.5), Workers(4, 2.0, "10.0.0.4:6379", 1)):
        parsed = train_options.read(["drone-hover", *asked.words.split()], "")
        assert parsed is not None
        command = parsed.command
        assert Workers(command.workers or 0, command.worker_cpus, command.ray or "local", command.staleness) == asked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--resume", "nowhere"], "nowhere"),
        (["--resume", "run/checkpoints/000000000064"], "give run, without the folders of later checkpoints"),
        pytest.param(
            ["drone-hover", "--device", "cuda"], "cuda",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)  # fmt: skip
def test_what_needs_no_cluster_is_refused_before_one_starts(
    words: list[str], said: str, in_tmp: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "Cluster", None)
    (Path("run") / "checkpoints" / "000000000064").mkdir(parents=True)
    assert main(["train", *words, "--workers", "2"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_the_newest_run_of_workers_is_the_latest(in_tmp: Path) -> None:
    words = ["train", "drone-hover", "--num-envs", "8", "--steps", "512", "--workers", "2", "--worker-cpus", "0.5"]
    assert main(words) == 0
    (run,) = (path for path in Path("runs/drone-hover").iterdir() if not path.is_symlink())
    assert Path("runs/drone-hover/latest").resolve() == run.resolve()


def test_workers_are_checked() -> None:
    for cpus in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(RookeryError, match="--worker-cpus"):
            Workers(2, cpus)
    assert Workers(2, 3.0).cpus == 3.0
    assert os.environ.get("RAY_USAGE_STATS_ENABLED", "0") == "0"


def test_what_killed_commands_left_in_the_run_folder_is_removed(tmp_path: Path) -> None:
    """Ray's own files, unless the command that has them lives, or is one of another machine."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = f".ray-{workers.socket.gethostname()}-"
    left, kept = [f"{here}{ended.pid}"], [f"{here}{os.getppid()}", f".ray-other-{ended.pid}", f"{here}of-mine"]
    for name in (*left, *kept):
        (tmp_path / name / "tune").mkdir(parents=True)
    assert workers._storage(tmp_path) == tmp_path / f"{here}{os.getpid()}"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
