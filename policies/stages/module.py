"""A module of the user's own, named by its factory: the policy's network where a perceptron is not enough."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rookery.policies.stages.stage import Stage, Tensors, check_sizes
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file, object_in_file
from rookery.sim.trust import refuse_untrusted as refuse_untrusted_file

if TYPE_CHECKING:
    import torch
    from torch import nn

__all__ = ["TRUSTED", "Module", "make_module", "refuse_untrusted"]

TRUSTED = "ROOKERY_TRUST_MODULES"
"""Environment variable: packages, separated by commas, whose networks may be imported because a file names them."""


@dataclass(frozen=True)
class Module(Stage):
    """A torch.nn.Module that maps rows to rows.

    Args:
        inputs, outputs: sizes of a row.
        factory: "package.module:function" or "my_file.py:function", see `make_module`.

    Raises:
        RookeryError: a size below 1.
    """

    kind: ClassVar[str] = "module"
    formula: ClassVar[str] = "the torch.nn.Module that the factory makes for (inputs, outputs)"

    inputs: int
    outputs: int
    factory: str

    def __post_init__(self) -> None:
        check_sizes(self.kind, inputs=self.inputs, outputs=self.outputs)
        if not self.factory:
            raise RookeryError('a module stage needs its factory: give "package.module:function".')

    @property
    def words(self) -> str:
        return f"module {self.factory} {self.inputs} -> {self.outputs}"

    @property
    def c_refused(self) -> str:
        return (
            f"the policy's network is the module {self.factory!r}, and C export knows the stages of Rookery: `rookery "
            "export RUN --target onnx` writes it"
        )

    @property
    def weight_count(self) -> int:
        return sum(p.numel() for p in self.own_module().parameters())

    def own_module(self) -> nn.Module:
        return make_module(self.factory, self.inputs, self.outputs)

    def initialize(self, weights: Tensors, generator: torch.Generator | None = None) -> None:
        """Nothing: the module draws its weights itself."""


def make_module(path: str, inputs: int, outputs: int) -> nn.Module:
    """A module by the name of its factory.

    Args:
        path: "package.module:function", importable, or "path/to/my_file.py:function"; called with (inputs, outputs).
        inputs, outputs: sizes of a row.

    Raises:
        RookeryError: there is no such function, or it gives no torch.nn.Module.
    """
    from torch import nn

    module = _factory(path)(inputs, outputs)
    if not isinstance(module, nn.Module):
        raise RookeryError(f"network {path!r} gives {type(module).__name__}, not a torch.nn.Module.")
    return module


def _factory(path: str) -> Callable[[int, int], object]:
    if is_in_file(path):
        return object_in_file(path)  # type: ignore[return-value]
    name, _, function = path.partition(":")
    try:
        return getattr(importlib.import_module(name), function)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, ValueError) as error:
        raise RookeryError(
            f"network {path!r} cannot be imported ({error}): give package.module:function of an installed package, or "
            "my_file.py:function."
        ) from error


def refuse_untrusted(path: str, file: object) -> None:
    """Refuse a factory that a stored file names, unless it is Rookery's own or of a package in ROOKERY_TRUST_MODULES.

    To import a module is to run it: a file from elsewhere must not choose which.

    Args:
        path: as in `make_module`.
        file: which names it.

    Raises:
        RookeryError: it is not trusted.
    """
    if is_in_file(path):
        refuse_untrusted_file(path, "network")
        return
    name = path.partition(":")[0]
    trusted = ["rookery", *(t.strip() for t in os.environ.get(TRUSTED, "").split(","))]
    if not any(t and (name == t or name.startswith(f"{t}.")) for t in trusted):
        raise RookeryError(
            f"{file} asks for code of the module {name!r}, which is not imported because a file says so: if you trust it, set "
            f"{TRUSTED}={name.partition('.')[0]}."
        )
