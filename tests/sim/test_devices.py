"""Devices by name: those of this machine, those that are not there, and how several processes share GPUs."""

from __future__ import annotations

import pytest
import torch

from rookery.sim.devices import check_device_name, find_device, nth_device
from rookery.sim.errors import RookeryError


@pytest.fixture
def two_gpus(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("LOCAL_RANK", raising=False)


def test_names_stand_for_devices(two_gpus) -> None:
    names = {"cpu": ("cpu", None), "cpu:0": ("cpu", None), "cuda": ("cuda", 0), "cuda:1": ("cuda", 1)}
    found = {name: find_device(name) for name in names}
    assert {name: (d.type, d.index) for name, d in found.items()} == names
    assert find_device(torch.device("cuda", 1)) == torch.device("cuda:1")


@pytest.mark.parametrize("name", ["gpu", "mps", "meta", "cuda:x", "", "xpu:0", "cuda:-1", None, 0])
def test_what_is_no_device_is_a_sentence(name) -> None:
    with pytest.raises(RookeryError, match=r"a device is cpu, cuda or one of several GPUs, such as cuda:1, got"):
        check_device_name(name)


def test_a_gpu_that_is_not_here_is_a_sentence(two_gpus, monkeypatch) -> None:
    with pytest.raises(RookeryError, match="there is no device cuda:2: this machine has cuda:0 to cuda:1"):
        find_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(RookeryError, match="this machine has cuda:0 alone"):
        find_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for built, why in ((True, "no GPU was found: look at `nvidia-smi`"), (False, "has no CUDA: install one that has")):
        monkeypatch.setattr(torch.backends.cuda, "is_built", lambda built=built: built)
        with pytest.raises(RookeryError, match=f"device cuda cannot be used, .*{why}.* take the device cpu"):
            find_device("cuda")


def test_processes_share_the_gpus_of_their_machine(two_gpus, monkeypatch) -> None:
    assert [nth_device("cuda", i).index for i in range(5)] == [0, 1, 0, 1, 0]
    assert [nth_device("cuda:1", i).index for i in range(3)] == [1, 1, 1]
    assert nth_device("cpu", 3).type == "cpu"
    monkeypatch.setenv("LOCAL_RANK", "1")  # the first process of a second machine, of rank 2
    assert nth_device("cuda", 2).index == 1
