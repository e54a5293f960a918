"""Learning on a GPU: what it learns is what the CPU learns, and a run goes on from one to the other.

On a machine with a GPU and few packages, without tests/conftest.py and what it imports:

    PYTHONPATH=tests/gpu:tests/policies:tests/shared python -m pytest --noconftest -q -m cuda tests/gpu
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from policies_device import CASES, learned
from policies_drive import Drive
from same_numbers import SameNumbers

import rookery
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.envs.device_env import on_device
from rookery.sim.envs.staging import Staging
from rookery.sim.errors import RookeryError

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def exact(monkeypatch) -> None:
    """Convolutions on a GPU round to 10 bits by default."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def far(
    one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float
) -> dict[str, tuple[float, float]]:
    """By name, of tensors that differ: the share of numbers that do, and the largest difference."""
    assert one.keys() == other.keys()
    out = {}
    for name, mine in one.items():
        if name.rpartition("/")[2] in ("threads", "generator"):
            continue
        a, b = mine.double(), other[name].double().cpu()
        assert a.shape == b.shape, name
        wrong = ~torch.isclose(b, a, tolerance, tolerance, equal_nan=True)
        if wrong.any():
            out[name] = (round(wrong.double().mean().item(), 5), (a - b).abs().max().item())
    return out


@pytest.mark.parametrize("name", CASES)
def test_a_gpu_learns_what_the_cpu_learns(name: str) -> None:
    """Figures and state after an update, from the same random numbers. Adam makes whole steps where a gradient is nothing but
    rounding: a few weights may differ by as much."""
    cpu, wanted = learned(name, CPU, 2)
    with SameNumbers():
        gpu, figures = learned(name, GPU, 2)
    for group, policy in gpu.policies().items():
        assert {x.device for x in policy.state_dict().values()} == {CPU}
        assert policy.state_dict().keys() == cpu.policies()[group].state_dict().keys()
    for mine, its in zip(wanted, figures, strict=True):
        assert its == pytest.approx(mine, rel=5e-3, abs=2e-3, nan_ok=True)
    differ = far(cpu.state_dict(), gpu.state_dict(), 2e-3)
    assert all(share < 0.02 for share, _ in differ.values()), differ


@pytest.mark.parametrize("name", ["ppo", "ppo-gru", "ppo-skills", "sac", "fasttd3", "sac-priorities", "dagger"])
@pytest.mark.parametrize(("first", "second"), [(CPU, GPU), (GPU, CPU), (GPU, GPU)])
def test_a_run_goes_on_elsewhere(name: str, first: torch.device, second: torch.device, tmp_path: Path) -> None:
    """The checkpoint of one device is loaded whole on the other, and the training goes on."""
    runs = []
    for device in (first, second):
        algorithm = CASES[name](lambda env, device=device: on_device(env, device))
        runs.append(Runner(algorithm, RunnerConfig(total_steps=10**9), tmp_path, name=name))
    one, other = runs
    for _ in range(3):
        one.iterate()
    one.save()
    other.load(tmp_path)
    assert far({k: x.cpu() for k, x in one.algorithm.state_dict().items()}, other.algorithm.state_dict(), 0.0) == {}
    ends = [run.iterate() for run in runs]
    assert all(x == x for x in ends[1].values() if isinstance(x, float))
    if first == second:
        assert one.algorithm.policies().keys() == other.algorithm.policies().keys()
        assert (
            far({k: x.cpu() for k, x in one.algorithm.state_dict().items()}, other.algorithm.state_dict(), 1e-4) == {}
        )


@pytest.mark.parametrize("task", ["drone-hover", "swarm-surround", "go2-velocity"])
def test_an_environment_gives_the_same_on_a_gpu(task: str) -> None:
    """Two episodes of everything that a step gives."""
    config = {"episode_s": 0.4}
    one, other = (rookery.make(task, 16, device=d, seed=3, config=config) for d in ("cpu", "cuda"))
    assert other.device == GPU
    obs, its = one.reset()[0], other.reset()[0]
    draws = torch.Generator().manual_seed(0)
    for _ in range(45):
        actions = {
            g: torch.rand(16, x.count, x.action.size, generator=draws) * 2.0 - 1.0 for g, x in one.groups.items()
        }
        obs, reward, terminated, truncated, info = one.step(actions)
        its, r, t, u, i = other.step({g: a.to(GPU) for g, a in actions.items()})
        for mine, there in ((obs, its), (reward, r), ({"": terminated}, {"": t}), ({"": truncated}, {"": u})):
            assert all(there[g].device == GPU and torch.equal(there[g].cpu(), x) for g, x in mine.items())
        assert info.keys() == i.keys()
        if "final_observation" in info:
            assert all(torch.equal(i["final_observation"][g].cpu(), x) for g, x in info["final_observation"].items())
    one.close()
    other.close()


def test_what_is_sent_is_not_overwritten() -> None:
    """A source may change as soon as `send` returns, and copies that are under way keep what they were given."""
    staging = Staging(GPU)
    source = torch.zeros(1 << 20)
    sent = []
    for i in range(50):
        source.fill_(float(i))
        sent.append(staging.send([source, source[: 1 + i].bool()]))
    for i, (whole, part) in enumerate(sent):
        assert (whole == float(i)).all() and part.shape == (1 + i,) and bool(part.any()) == (i > 0)


def test_the_command_learns_on_a_gpu_and_goes_on_without(tmp_path: Path) -> None:
    def run(*words: str) -> dict[str, object]:
        command = [sys.executable, "-m", "rookery", "train", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    first = run("drone-hover", "--device", "cuda", "--num-envs", "64", "--steps", "20000", "--out", "run")
    settings = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    assert settings["device"] == "cuda" and first["steps"] >= 20_000
    last = run("--resume", "run", "--device", "cpu", "--steps", "40000")
    assert last["steps"] >= 40_000


def test_a_gpu_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(RookeryError, match="there is no device cuda:77: this machine has cuda:0"):
        rookery.make("drone-hover", 1, device="cuda:77")


def test_nothing_waits_for_the_gpu_within_an_update() -> None:
    """But for the one transfer of log figures."""
    algorithm = CASES["ppo"](lambda env: on_device(env, GPU))
    drive = Drive(algorithm)
    drive.iterate()
    drive.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            algorithm.update(0.0)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [f"{w.filename}:{w.lineno}" for w in caught if "called a synchronizing" in str(w.message)]
    assert len(waits) == 1, waits
