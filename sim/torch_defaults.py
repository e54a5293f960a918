"""Refusal of torch's global defaults under which tensors are not what kernels and engines read.

Kernels are given the addresses of float32 tensors in this process's memory: of another type, they would read other numbers.
"""

from __future__ import annotations

import torch

from rookery.sim.errors import RookeryError


def check_default_dtype() -> None:
    """Refuse a default type other than float32.

    Raises:
        RookeryError: `torch.set_default_dtype` was called with another one.
    """
    dtype = torch.get_default_dtype()
    if dtype is not torch.float32:
        raise RookeryError(
            f"torch's default dtype is {dtype} and Rookery computes in float32: call torch.set_default_dtype(torch.float32), "
            "and give your own tensors their dtype."
        )


def check_default_device() -> None:
    """Refuse a default device other than the CPU, where all physics is; a learner's own device is an argument of `make`.

    Raises:
        RookeryError: `torch.set_default_device`, or a ``with torch.device(...)`` around the call, names another one.
    """
    device = torch.get_default_device()
    if device.type != "cpu":
        raise RookeryError(
            f"torch's default device is {device} and physics is on the CPU: call torch.set_default_device('cpu'), leave out "
            "`with torch.device(...)`, and name the device where you make tensors."
        )
