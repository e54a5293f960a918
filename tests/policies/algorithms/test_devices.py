"""Learning on another device than the CPU: nothing is mixed up, and the results are those of the CPU."""

from __future__ import annotations

import pytest
import torch
from policies_device import CASES, learned
from pretend_gpu import There, pretended_gpu


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
