"""A GPU that is not there: tensors "on" it are held on the CPU, and a mixture of devices is an error as on a real one.

Within `PretendGPU()` every torch operation of this thread goes through `_Rules`: tensors made on it are `There`, which have no
memory that could be read (`numpy()` fails), and an operation that takes tensors of both devices fails, but for copies and for
single numbers of the CPU. That is stricter than CUDA in one respect: indices must be on the device too, for others would have
every step wait. Random numbers are those of the CPU, so that both devices can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

NAME = "lazy"
"""A type of devices that every build of torch knows, nobody uses, and autograd runs without threads of its own. So code must
ask whether a device is the CPU, not whether it is cuda."""
COPIES = {"aten::copy_", "aten::_to_copy"}
ON_GPU: set[int] = set()
"""Generators on it, by address."""


class There(Tensor):
    """A tensor on the pretended GPU; `held` has its values."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> There:
        out = Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            layout=held.layout, device=torch.device(NAME, 0),
        )  # fmt: skip
        out.held = held
        return out

    def tolist(self) -> Any:
        return self.held.tolist()

    def __repr__(self, **_: Any) -> str:
        return f"There({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Rules(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class _Generator(torch._C.Generator):
    """A generator that knows its device; its numbers are those of the CPU."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        out = super().__new__(cls)
        out.on_gpu = torch.device(device).type == NAME
        (ON_GPU.add if out.on_gpu else ON_GPU.discard)(out._cdata)  # operations get another Python object for it
        return out

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device(NAME, 0) if self.on_gpu else torch.device("cpu")


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation, by the rules of a machine with a GPU."""
    name = func._schema.name
    given = list(_flat((*args, *kwargs.values())))
    there = [x for x in given if isinstance(x, There)]
    here = [x for x in given if isinstance(x, Tensor) and not isinstance(x, There)]
    if there and here and name not in COPIES:
        lists = any(isinstance(a, (list, tuple)) and any(isinstance(x, Tensor) for x in a) for a in args)
        written = [a for a, x in zip(func._schema.arguments, args, strict=False) if a.is_write and x is here[0]]
        if lists or written or any(x.dim() for x in here):
            shapes = [tuple(x.shape) for x in here]
            raise RuntimeError(f"{name} takes tensors of the device and of the cpu, {shapes}")
    target = kwargs.get("device")
    on_gpu = bool(there) if target is None else torch.device(target).type == NAME
    if name == "aten::copy_":
        on_gpu = isinstance(args[0], There)
    for x in given:
        if isinstance(x, torch._C.Generator) and (x._cdata in ON_GPU) != on_gpu:
            raise RuntimeError(
                f"{name} on {'the device' if on_gpu else 'the cpu'} takes a generator of the other device"
            )
    held = {id(x.held): x for x in there}

    def down(x: Any) -> Any:
        return x.held if isinstance(x, There) else x

    def up(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        return held[id(x)] if id(x) in held else There(x)

    own = {k: down(v) for k, v in kwargs.items() if k != "pin_memory"}
    if target is not None:
        own["device"] = torch.device("cpu")
    out = func(*tree_map(down, args), **tree_map(down, own))
    if there and not on_gpu and isinstance(out, Tensor) and any(out is x.held for x in there):
        out = out.clone()
    return tree_map(up, out) if on_gpu else out


@contextmanager
def pretended_gpu(monkeypatch: Any) -> Iterator[torch.device]:
    """Run the body as on a machine with one GPU, whose device it gets."""
    monkeypatch.setattr(torch, "Generator", _Generator)
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)
    try:
        with _Rules():
            yield torch.device(NAME, 0)
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
