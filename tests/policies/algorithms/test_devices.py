"""Learning on another device than the CPU: nothing is mixed up, and the results are those of the CPU."""

from __future__ import annotations

import pytest
import torch
from policies_device import CASES, learned
from policies_drive import Drive
from pretend_gpu import There, pretended_gpu

from rookery.sim.envs.device_env import DeviceEnv
from rookery.sim.errors import RookeryError


def alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor], tolerance: float) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        its = other[name].cpu()
        assert its.shape == value.shape and its.dtype == value.dtype, name
        if name.rpartition("/")[2] != "threads":
            close = torch.isclose(its.double(), value.double(), tolerance, tolerance, equal_nan=True)
            assert close.all(), (name, value[~close], its[~close])


@pytest.mark.parametrize("name", CASES)
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
