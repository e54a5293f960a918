"""Runs that are killed, interrupted or damaged."""

from __future__ import annotations

import csv
import dataclasses
import errno
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import safetensors.torch
import torch
from policies_fake import FakeEnv
from sampled import slow_but

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training import checkpoint, store
from rookery.policies.training.interruption import Interrupted, Interruption
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.sim.values import from_values

CONFIG = PPOConfig(rollout_steps=8, epochs=2, minibatches=2, hidden=(8,))
WORLDS = 6
ITERATION = CONFIG.rollout_steps * WORLDS
RUNNER = RunnerConfig(total_steps=6 * ITERATION, checkpoint_every=1)


def trainer(
    folder: Path | str, config: PPOConfig = CONFIG, worlds: int = WORLDS, total: int = 0, every: int = 1
) -> Runner:
    """PPO on the fake environment; `total` control steps, by default six iterations."""
    ppo = PPO(FakeEnv(worlds, agents=2, horizon=7, drop_out=True), config)
    stop = dataclasses.replace(RUNNER, total_steps=total or RUNNER.total_steps, checkpoint_every=every)
    return Runner(ppo, stop, folder, name="ppo", contract={"groups": {}}, settings={"note": "kept"})


def quiet(row: dict) -> None:
    pass


def everything(ppo: Runner) -> dict[str, torch.Tensor]:
    return {f"{part}/{k}": v.clone() for part, d in ppo._tensors().items() for k, v in d.items()}


def assert_same(a: Runner, b: Runner) -> None:
    one = everything(a)
    two = everything(b)
    assert one.keys() == two.keys()
    for name in one:
        assert torch.equal(one[name], two[name]), name
    assert (a.steps, a.iteration, a.episodes.state_dict()) == (b.steps, b.iteration, b.episodes.state_dict())


@pytest.fixture
def uninterrupted(tmp_path: Path) -> Runner:
    ppo = trainer(tmp_path / "straight")
    ppo.run(quiet)
    return ppo


@pytest.mark.parametrize(
    ("memory", "share", "critic"),
    slow_but(
        [("none", True, "central"), ("none", False, "own"), ("gru", True, "own"), ("gru", False, "central")],
        itertools.product(("none", "gru"), (True, False), ("own", "central")),
    ),
)
def test_a_resumed_run_is_bit_equal(tmp_path, critic, share, memory):
    size = 5 if memory == "gru" else CONFIG.memory_size
    config = dataclasses.replace(CONFIG, critic=critic, share=share, schedule="linear", memory=memory, memory_size=size)
    straight = trainer(tmp_path / "a", config, total=5 * ITERATION)
    first = trainer(tmp_path / "b", config, total=5 * ITERATION)
    second = trainer(tmp_path / "b", config, total=5 * ITERATION)
    straight.run(quiet)
    for _ in range(3):
        first.iterate()
    first.save()
    second.load(tmp_path / "b")
    second.run(quiet)
    assert_same(straight, second)


def test_the_number_of_threads_travels_so_that_results_do_not_depend_on_the_machine(tmp_path):
    config = dataclasses.replace(CONFIG, minibatches=1)
    torch.set_num_threads(3)  # put back by the fixture
    straight = trainer(tmp_path / "a", config, 130, total=3 * 8 * 130)
    first = trainer(tmp_path / "b", config, 130, total=3 * 8 * 130)
    assert len(straight.algorithm.learners["point"].workers) == 3
    straight.run(quiet)
    assert torch.get_num_threads() == 3
    first.iterate()
    first.save()
    torch.set_num_threads(1)
    second = trainer(tmp_path / "b", config, 130, total=3 * 8 * 130)
    assert len(second.algorithm.learners["point"].workers) == 1
    second.load(tmp_path / "b")
    second.run(quiet)
    assert_same(straight, second)


# Runs in a process of its own and kills itself at the given event: the k-th call of a function that touches the disk.
KILLED = """
import os, signal, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/training", sys.argv[1] + "/../shared"]
import torch
torch.set_num_threads(1)
from pathlib import Path
from test_checkpoint import trainer, quiet, ITERATION
from rookery.policies.training.checkpoint import complete

def run(folder, name, at):
    ppo = trainer(folder)
    if complete(folder):
        ppo.load(folder)
    real, calls = getattr(os, name), 0
    def deadly(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    setattr(os, name, deadly)
    ppo.run(quiet)

DEADLY = "fsync 3, fsync 5, rename 2, rename 1, replace 6, fsync 17, rmdir 1, fsync 0"
for name, at in ((word.split()[0], int(word.split()[1])) for word in DEADLY.split(", ")):
    child = os.fork()
    if child == 0:
        run(Path(sys.argv[2]), name, at)
        os._exit(0)
    print(name, at, os.waitpid(child, 0)[1], flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_point_of_a_save_it_resumes_bit_equal(tmp_path, uninterrupted):
    command = [sys.executable, "-c", KILLED, str(Path(__file__).parents[1]), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ends = [int(line.split()[2]) for line in done.stdout.splitlines()]
    assert ends[-1] == 0 and ends.count(signal.SIGKILL) >= 5, done.stdout + done.stderr
    resumed = trainer(tmp_path / "run")
    resumed.load(tmp_path / "run")
    assert_same(uninterrupted, resumed)
    with open(tmp_path / "run" / "progress.csv") as f:
        assert [int(r["iteration"]) for r in csv.DictReader(f)] == [1, 2, 3, 4, 5, 6]


ENDLESS = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/training", sys.argv[1] + "/../shared"]
import torch
torch.set_num_threads(1)
from test_checkpoint import trainer, quiet
trainer(sys.argv[2], total=10**9).run(quiet)
"""


@pytest.mark.slow
def test_killed_from_outside_it_resumes_bit_equal(tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(Path(__file__).parents[1]), str(run)])
    deadline = time.monotonic() + 60
    while not checkpoint.complete(run) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.137)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = trainer(run)
    resumed.load(run)
    assert 0 < resumed.iteration < 2000
    total = resumed.steps + 2 * ITERATION
    straight = trainer(tmp_path / "straight")
    for runner in (resumed, straight):
        runner.config = dataclasses.replace(RUNNER, total_steps=total)
        runner.run(quiet)
    assert_same(straight, resumed)


def test_only_the_newest_are_kept_and_the_policy_is_current(tmp_path, uninterrupted):
    run = tmp_path / "straight"
    names = [f.name for f in sorted((run / "checkpoints").iterdir())]
    assert names == [f"{k * ITERATION:012d}" for k in (4, 5, 6)]
    policies, contract = store.load_policy(run)
    mine = uninterrupted.algorithm.policies()["point"]
    assert contract["groups"]["point"]["stages"] == mine.to_json()
    for name, tensor in mine.state_dict().items():
        assert torch.equal(policies["point"].state_dict()[name], tensor)
    state = checkpoint.read_state(run)
    assert state["settings"]["note"] == "kept" and from_values(PPOConfig, state["config"]) == CONFIG
    assert state["algorithm"] == "ppo"
    assert list(tmp_path.glob("**/*.pt")) == list(tmp_path.glob("**/*.pkl")) == []


def edit_json(file: Path, **changes) -> None:
    state = json.loads(file.read_text())
    file.write_text(json.dumps(state | changes, indent=1, sort_keys=True))


def reseal(file: Path, **changes) -> None:
    state = {k: v for k, v in json.loads(file.read_text()).items() if k != "sha256"}
    file.write_bytes(checkpoint._seal(state | changes))


DAMAGE = {
    "truncated weights": (
        lambda f: os.truncate(f / "algorithm.safetensors", 200),
        "algorithm.safetensors is cut short",
    ),
    "edited observations": (
        lambda f: flip(f / "env.safetensors"),
        "env.safetensors is cut short or was edited",
    ),
    "no environment": (lambda f: (f / "env.safetensors").unlink(), "env.safetensors cannot be read"),
    "truncated state": (lambda f: os.truncate(f / "state.json", 100), "state.json is cut short"),
    "edited state": (lambda f: edit_json(f / "state.json", steps=5), "state.json was edited"),
    "no state": (lambda f: (f / "state.json").unlink(), "state.json cannot be read"),
    "nested state": (lambda f: (f / "state.json").write_text("[" * 100_000), "state.json is cut short"),
    "newer version": (lambda f: reseal(f / "state.json", version=99), "newer Rookery.*upgrade"),
    "another task": (lambda f: reseal(f / "state.json", task="drone-hover"), "task 'drone-hover', not 'fake'"),
}


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_checkpoints_are_refused_with_a_way_out(tmp_path, damage):
    trainer(tmp_path, total=2 * ITERATION).run(quiet)
    newest = checkpoint.newest(tmp_path)
    act, words = DAMAGE[damage]
    act(newest)
    with pytest.raises(RookeryError, match=words) as error:
        trainer(tmp_path).load(tmp_path)
    assert "\n" not in str(error.value)
    if "is damaged:" in str(error.value):
        older = tmp_path / "checkpoints" / f"{ITERATION:012d}"
        assert f"use {older} instead" in str(error.value)
        trainer(tmp_path).load(older)


def test_checkpoints_that_do_not_fit_are_refused(tmp_path):
    trainer(tmp_path, total=ITERATION).run(quiet)
    with pytest.raises(RookeryError, match="num_envs 6, not 7"):
        trainer(tmp_path, worlds=7).load(tmp_path)
    with pytest.raises(RookeryError, match=r"made with config .*'hidden': \[8\].* not .*'hidden': \[9\]"):
        trainer(tmp_path, dataclasses.replace(CONFIG, hidden=(9,))).load(tmp_path)
    with pytest.raises(RookeryError, match="holds no checkpoint"):
        trainer(tmp_path).load(tmp_path / "nowhere")


def test_later_checkpoints_than_the_one_that_a_run_went_on_from_are_removed(tmp_path):
    for steps in (1, 2, 3, 4):
        checkpoint.write(tmp_path, steps, {part: {"x": torch.ones(1)} for part in checkpoint.PARTS}, {"steps": steps})
    checkpoint.remove_old(tmp_path, keep=2, steps=3)
    assert [int(f.name) for f in checkpoint.complete(tmp_path)] == [2, 3]


def test_everything_is_on_the_disk_before_a_checkpoint_has_its_name(tmp_path, monkeypatch):
    """Files and their folder are flushed, then renamed, then the folder of all checkpoints is flushed: by their inodes."""
    events: list[tuple[str, object]] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor):
        events.append(("flushed", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def noted_rename(old, new, **rest):
        rename(old, new, **rest)
        events.append(("named", Path(new).name))

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    made = checkpoint.write(tmp_path, 7, {part: {"x": torch.ones(3)} for part in checkpoint.PARTS}, {"steps": 7})
    named = events.index(("named", made.name))
    parts = [made, *made.iterdir()]
    assert len(parts) == 4
    assert {("flushed", part.stat().st_ino) for part in parts} <= set(events[:named])
    assert ("flushed", made.parent.stat().st_ino) in events[named:]


def test_a_full_disk_leaves_the_older_checkpoint_the_newest(tmp_path, monkeypatch):
    ppo = trainer(tmp_path, total=ITERATION)
    ppo.run(quiet)
    before = checkpoint.newest(tmp_path)
    ppo.iterate()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RookeryError, match=r"disk.*is full: make room and resume"):
        ppo.save()
    monkeypatch.undo()
    assert checkpoint.newest(tmp_path) == before
    assert [f.name for f in (tmp_path / "checkpoints").iterdir()] == [before.name]
    trainer(tmp_path).load(tmp_path)
    assert ppo.save() == checkpoint.newest(tmp_path) != before


def test_a_write_cut_short_by_the_system_leaves_nothing_behind(tmp_path):
    ppo = trainer(tmp_path)
    ppo.save()
    ppo.iterate()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # real, partial writes
    try:
        with pytest.raises(RookeryError, match="cannot be written"):
            ppo.save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [f.name for f in (tmp_path / "checkpoints").iterdir()] == [f"{0:012d}"]


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RookeryError, match="cannot be written"):
        trainer(tmp_path / "file" / "run").run(quiet)
    with pytest.raises(RookeryError, match="cannot be written"):
        trainer(tmp_path / "file").save()


def test_ctrl_c_saves_and_says_where(tmp_path, uninterrupted):
    run = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)  # a job in the background begins with SIGINT ignored

    def press(row: dict) -> None:
        if row["iteration"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted) as stop:
        trainer(run, every=100).run(press)
    assert stop.value.folder == checkpoint.newest(run) and stop.value.folder.name == f"{3 * ITERATION:012d}"
    assert signal.getsignal(signal.SIGINT) is before
    resumed = trainer(run, every=100)
    resumed.load(run)
    resumed.run(quiet)
    assert_same(uninterrupted, resumed)


def test_a_second_ctrl_c_stops_at_once(capfd):
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.wanted
        assert "stopping after this iteration" in capfd.readouterr().err
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_one_that_comes_twice_at_once_still_saves(number, monkeypatch):
    """`timeout` sends SIGTERM to the process, and to its group."""
    with Interruption() as interruption:
        for _ in range(2):
            os.kill(os.getpid(), number)
        assert interruption.wanted
        monkeypatch.setattr(Interruption, "SAME_S", 0.0)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)


def test_hidden_files_beside_checkpoints_are_no_obstacle(tmp_path):
    """Only what an interrupted write left is removed; .DS_Store and the like stay."""
    folder = tmp_path / "checkpoints"
    (folder / ".writing-000000000001").mkdir(parents=True)
    (folder / ".removing-000000000001").mkdir()
    (folder / ".DS_Store").write_text("x")
    trainer(tmp_path, total=2 * ITERATION).run(quiet)
    assert sorted(f.name for f in folder.iterdir() if f.name.startswith(".")) == [".DS_Store"]


def test_tensors_are_written_as_they_are_and_without_a_copy(tmp_path):
    """A replay memory may take most of the machine's memory; the file is one that safetensors reads."""
    g = torch.Generator().manual_seed(0)
    kinds = [torch.rand(5, 7, generator=g).to(dtype) for dtype in checkpoint.DTYPES]
    odd = {
        "strided": torch.rand(4, 6, generator=g).T,
        "one": torch.tensor(3),
        "none": torch.zeros(0, 4, dtype=torch.bool),
    }
    large = {"replay": torch.rand(1 << 22, generator=g)}
    given = {str(x.dtype): x for x in kinds} | odd | large
    tracemalloc.start()
    path = checkpoint.write(tmp_path, 1, {"algorithm": given, "env": {}}, {})
    read = checkpoint.read_tensors(path, checkpoint.read_state(path))["algorithm"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < large["replay"].nbytes / 4
    for back in (read, safetensors.torch.load_file(path / "algorithm.safetensors")):
        assert back.keys() == given.keys()
        assert all(torch.equal(back[k], x) and back[k].dtype == x.dtype for k, x in given.items())


def test_a_replaced_checkpoint_counts_until_its_successor_is_there(tmp_path):
    """Under its number of steps; with both there, the successor alone."""
    folder = tmp_path / "checkpoints"
    for name in (
        "000000000008",
        ".replaced-000000000016",
        "000000000024",
        ".replaced-000000000024",
        ".writing-1",
        "notes",
    ):
        (folder / name).mkdir(parents=True)
    assert [path.name for path in checkpoint.complete(tmp_path)] == [
        "000000000008", ".replaced-000000000016", "000000000024"
    ]  # fmt: skip
    assert checkpoint.newest(tmp_path) == folder / "000000000024"


def test_a_checkpoint_of_the_very_next_version_is_refused_and_one_of_this_is_read(tmp_path):
    trainer(tmp_path, total=ITERATION).run(quiet)
    state = checkpoint.newest(tmp_path) / "state.json"
    version = json.loads(state.read_text())["version"]
    trainer(tmp_path).load(tmp_path)
    reseal(state, version=version + 1)
    with pytest.raises(RookeryError, match=f"checkpoint version {version + 1}, this one reads {version}"):
        trainer(tmp_path).load(tmp_path)


@pytest.mark.parametrize("read", ["run", "older checkpoint"])
def test_what_another_process_has_trained_since_is_not_removed(tmp_path, read):
    """It may hold the folder when a checkpoint is read here, and be done when the training begins."""
    first = trainer(tmp_path)
    for _ in range(2):
        first.iterate()
        first.save()
    late = trainer(tmp_path)
    late.load(tmp_path if read == "run" else checkpoint.complete(tmp_path)[0])
    first.iterate()
    first.save()
    before = checkpoint.complete(tmp_path)
    with pytest.raises(RookeryError, match=r"another process has trained in .* since .*: resume it once more"):
        late.run(quiet)
    assert checkpoint.complete(tmp_path) == before and len(before) == 3
    again = trainer(tmp_path)
    again.load(tmp_path)
    again.save()  # a checkpoint of its own is nobody else's
    again.run(quiet)
    assert again.steps == RUNNER.total_steps
