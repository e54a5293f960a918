"""Devices of torch, by the names that users give. Names are checked without torch, which takes a second to load."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    import torch

__all__ = ["check_device_name", "find_device", "nth_device"]

NAMES = re.compile(r"cpu(:0)?|cuda(:[0-9]{1,3})?")


def check_device_name(name: object) -> str:
    """The name of a device, whether or not this machine has it.

    Raises:
        RookeryError: it is neither the CPU's nor a GPU's.
    """
    text = str(name)
    if NAMES.fullmatch(text) is None:
        raise RookeryError(f"a device is cpu, cuda or one of several GPUs, such as cuda:1, got {text:.200}.")
    return text


def find_device(name: object) -> torch.device:
    """A device of this machine; "cuda" is the first GPU.

    Raises:
        RookeryError: the name of none, or a GPU that cannot be used here.
    """
    kind, _, number = check_device_name(name).partition(":")
    import torch

    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.backends.cuda.is_built()
        why = (
            "no GPU was found: look at `nvidia-smi`"
            if built
            else f"this PyTorch ({torch.__version__}) has no CUDA: install one that has, see pytorch.org/get-started/locally"
        )
        raise RookeryError(f"device {name} cannot be used, {why}, or take the device cpu.")
    count, index = torch.cuda.device_count(), int(number or 0)
    if index >= count:
        have = "cuda:0 alone" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise RookeryError(f"there is no device {name}: this machine has {have}.")
    return torch.device("cuda", index)


def nth_device(name: object, rank: int) -> torch.device:
    """The device of one of several processes: "cuda" deals the GPUs of a machine out in turn, all else is as it says.

    Args:
        name: of a device.
        rank: of the process; LOCAL_RANK, which torch.distributed's launchers set, counts those of this machine alone.

    Raises:
        RookeryError: see `find_device`.
    """
    import torch

    device = find_device(name)
    if str(name) != "cuda":
        return device
    rank = int(os.environ.get("LOCAL_RANK", rank))
    return torch.device("cuda", rank % torch.cuda.device_count())
