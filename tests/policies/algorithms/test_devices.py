"""Learning on another device than the CPU: nothing is mixed up, and the results are those of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from policies_device import CASES, learned
from policies_drive import Drive
from pretend_gpu import There, pretended_gpu

import rookery
from rookery.experiments.demonstrations import record
from rookery.experiments.teacher import make_teacher
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.sac import SAC, SACConfig
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.behavior_cloning import BehaviorCloning, BehaviorCloningConfig
from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.sim.env import Env
from rookery.sim.envs.device_env import DeviceEnv, on_device
from rookery.sim.errors import RookeryError

SHORT = {"episode_s": 0.1, "settled_s": 0.1}


def alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        its = other[name].cpu()
        assert its.shape == value.shape and its.dtype == value.dtype, name
        if name.rpartition("/")[2] != "threads":
            close = torch.isclose(its.double(), value.double(), tolerance, tolerance, equal_nan=True)
            assert close.all(), (name, value[~close], its[~close])


QUICK = ("ppo-central", "ppo-choices", "sac-agents", "fasttd3", "dagger")
"""Cases that `make test` runs; `make test-all` runs all."""


@pytest.mark.parametrize("name", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_what_is_learned_on_a_device_is_what_the_cpu_learns(name: str, monkeypatch) -> None:
    cpu, wanted = learned(name, torch.device("cpu"))
    with pretended_gpu(monkeypatch) as gpu:
        there, figures = learned(name, gpu)
        state = there.state_dict()
        policies = there.policies()
        assert any(isinstance(x, There) for x in state.values())
        for policy in policies.values():
            assert all(type(x.data) is torch.Tensor for x in (*policy.parameters(), *policy.buffers()))
        kept = {k: x.cpu() for k, x in state.items()}
    for mine, its in zip(wanted, figures, strict=True):
        assert its == pytest.approx(mine, rel=1e-4, abs=1e-5, nan_ok=True)
    alike(cpu.state_dict(), kept, 1e-4)
    for group, policy in cpu.policies().items():
        alike(policy.state_dict(), policies[group].state_dict(), 1e-4)


@pytest.mark.parametrize("name", ["ppo", "ppo-estimator", "ppo-skills", "sac", "dagger"])
def test_the_copies_alone_change_no_bit(name: str) -> None:
    """What is learned through copies of the CPU is what is learned without."""
    ends = []
    for place in (lambda env: env, lambda env: DeviceEnv(env, torch.device("cpu"))):
        algorithm = CASES[name](place)
        figures = Drive(algorithm).iterate(3)
        ends.append((figures, algorithm.state_dict()))
    assert ends[0][0] == ends[1][0]
    assert all(torch.equal(x, ends[1][1][k]) for k, x in ends[0][1].items())


def test_a_state_of_another_device_is_taken_over() -> None:
    """A generator of a GPU gives a seed, the same from the same state; what is no generator's state is refused."""
    states = []
    for last in (1, 1, 2):
        ppo = CASES["ppo"](lambda env: env)
        state = {k: v.clone() for k, v in ppo.state_dict().items()}
        state["generator"] = torch.tensor([7] * 15 + [last], dtype=torch.uint8)
        state["point/threads"] = torch.tensor(0)
        ppo.load_state_dict(state)
        states.append(ppo.state_dict())
    assert torch.equal(states[0]["generator"], states[1]["generator"])
    assert not torch.equal(states[0]["generator"], states[2]["generator"])
    assert int(states[0]["point/threads"]) >= 1
    state["generator"] = torch.zeros(20, dtype=torch.uint8)
    with pytest.raises(RookeryError, match="generator has shape"):
        ppo.load_state_dict(state)


def test_a_mixture_is_found(monkeypatch) -> None:
    """The checks above can fail: the pretended GPU refuses what a GPU refuses."""
    with pretended_gpu(monkeypatch) as gpu:
        x = torch.ones(3, device=gpu)
        assert (x * torch.tensor(2.0) + 1).sum().item() == 9.0
        mixtures = (
            lambda: x + torch.ones(3), lambda: x[torch.tensor([0])], lambda: torch.ones(3).add_(x), lambda: x.numpy(),
            lambda: torch.cat((x, torch.ones(1))), lambda: torch.randn(3, generator=torch.Generator(gpu)),
            lambda: torch.nn.Linear(3, 1)(x),
        )  # fmt: skip
        for mixture in mixtures:
            with pytest.raises((RuntimeError, TypeError)):
                mixture()


def hover(device: torch.device) -> Env:
    return on_device(rookery.make("drone-hover", 4, seed=1, config=SHORT), device)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Dataset:
    out = tmp_path_factory.mktemp("demos") / "hover"
    record(Path("drone-hover"), out, 3, num_envs=3, config=SHORT)
    return Dataset(out)


def from_demonstrations(device: torch.device, data: Dataset) -> list[Algorithm]:
    """Behavior cloning, and SAC whose batches are half of demonstrations, after updates."""
    settings = {"rollout_steps": 2, "learning_starts": 2, "batch": 16, "hidden": (4,), "buffer_size": 100}
    bc = BehaviorCloning(hover(device), BehaviorCloningConfig(batch=16, hidden=(4,)), 3, {"dataset": data})
    sac = SAC(hover(device), SACConfig(**settings, compiled=False), 3, {"dataset": data})
    for _ in range(2):
        bc.update(0.0)
    Drive(sac).iterate(3)
    return [bc, sac]


@pytest.mark.slow
def test_demonstrations_teach_on_a_device(data, monkeypatch) -> None:
    wanted = from_demonstrations(torch.device("cpu"), data)
    with pretended_gpu(monkeypatch) as gpu:
        found = from_demonstrations(gpu, data)
        states = [{k: x.cpu() for k, x in algorithm.state_dict().items()} for algorithm in found]
        assert all(isinstance(x.norm.mean, There) for x in found[0].networks.values())
    for mine, its in zip(wanted, states, strict=True):
        alike(mine.state_dict(), its, 1e-4)


def imitated(device: torch.device) -> tuple[Algorithm, dict[str, float]]:
    """DAgger after an update, with a policy of the zoo for a teacher."""
    env = hover(device)
    config = DAggerConfig(rollout_steps=12, hidden=(4,), batch=16)
    dagger = DAgger(env, config, 3, {"teacher": make_teacher("drone-hover", env)})
    return dagger, Drive(dagger).iterate(1)


@pytest.mark.slow
def test_a_policy_teaches_and_is_judged_on_a_device(monkeypatch) -> None:
    """The teacher acts on the device, and so does what it taught when it is evaluated there."""
    cpu, wanted = imitated(torch.device("cpu"))
    score = evaluate(cpu.env, act_with(cpu.policies(), cpu.env), 8)
    with pretended_gpu(monkeypatch) as gpu:
        there, figures = imitated(gpu)
        assert all(isinstance(x, There) for x in there.teacher.frames.values())
        its = evaluate(there.env, act_with(there.policies(), there.env), 8)
    assert figures == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    assert its["metrics"] == pytest.approx(score["metrics"], rel=1e-3) and its["causes"] == score["causes"]
    assert its["return_mean"] == pytest.approx(score["return_mean"], rel=1e-3)
