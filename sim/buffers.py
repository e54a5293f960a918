"""Named tensors that make up a state which can be saved and put back exactly."""

from __future__ import annotations

from types import MappingProxyType

import torch
from torch import Tensor

from rookery.sim.errors import RookeryError


class Buffers:
    """Base of everything that carries state between control steps (tasks, controllers, delays, random streams).

    ``self.buffer("target", n, 3)`` makes a zero tensor ``self.target`` and remembers it, so that `state_dict` and
    `load_state_dict` cover it. Children registered with ``self.child(name, obj)`` are saved under ``name.``.
    A registered tensor is only ever written in place; to put another one in its place is refused.
    """

    _buffers: dict[str, Tensor] = MappingProxyType({})  # type: ignore[assignment]  # before __init__

    def __init__(self) -> None:
        self._buffers = {}
        self._children: dict[str, Buffers] = {}

    def __setattr__(self, name: str, value: object) -> None:
        # tasks and environments set attributes in every step: no call more than is needed
        if name in self._buffers and value is not self._buffers[name]:
            raise RookeryError(
                f"{type(self).__name__}.{name} is part of the state that is saved, and another tensor in its place would not "
                f"be: write into it, by `self.{name}[:] = ...` or `self.{name}.copy_(...)`."
            )
        object.__setattr__(self, name, value)

    def buffer(self, name: str, *shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
        """Make, register and return a zero tensor of that shape, also reachable as an attribute."""
        tensor = torch.zeros(shape, dtype=dtype, device=device)
        self._buffers[name] = tensor
        setattr(self, name, tensor)
        return tensor

    def child(self, name: str, obj: Buffers) -> None:
        """Save and restore `obj` along with this one."""
        self._children[name] = obj

    def state_dict(self) -> dict[str, Tensor]:
        """Copies of all registered tensors by dotted name."""
        out = {name: t.detach().cpu().clone() for name, t in self._buffers.items()}
        for prefix, obj in self._children.items():
            out.update({f"{prefix}.{k}": v for k, v in obj.state_dict().items()})
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put a saved state back, in place; a state that does not fit changes nothing.

        Raises:
            ValueError: names, shapes or types differ from this object's.
        """
        self.check_state_dict(state)
        for name, t in self._buffers.items():
            t.copy_(state[name])
        for prefix, obj in self._children.items():
            obj.load_state_dict(under(prefix, state))

    def check_state_dict(self, state: dict[str, Tensor]) -> None:
        """Refuse a saved state that does not fit, see `load_state_dict`."""
        check_tensors(self._buffers, state)
        for prefix, obj in self._children.items():
            obj.check_state_dict(under(prefix, state))


def check_tensors(own: dict[str, Tensor], saved: dict[str, Tensor]) -> None:
    """Compare saved tensors with those that they are to replace; nothing broadcasts and no type is converted.

    Raises:
        ValueError: one is missing, or of another shape or type.
    """
    for name, t in own.items():
        if name not in saved:
            raise ValueError(f"the saved state lacks {name!r}: it is of another task or version.")
        if saved[name].shape != t.shape or saved[name].dtype != t.dtype:
            raise ValueError(
                f"saved {name!r} is {tuple(saved[name].shape)} {saved[name].dtype}, "
                f"needed {tuple(t.shape)} {t.dtype}: it is of another task or number of worlds."
            )


def under(prefix: str, state: dict[str, Tensor], separator: str = ".") -> dict[str, Tensor]:
    """The part of a state whose names begin with a prefix and the separator, without these."""
    start = f"{prefix}{separator}"
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}
