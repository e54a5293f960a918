"""The exported C from measured state to command, called through ctypes: what the header's controller does, for one robot.

controller = NativeController(library, contract, group, prefix)
controller.start()
controller.fill({"position": ..., "rotation": ...})   # quantities by the names that the contract has
action = controller.act()
controller.acted(filtered)
command = controller.command(filtered)
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.terms import Quantity
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.state_c import StateC

Array = NDArray[np.float32]
FUNCTIONS = {"start": 1, "observe_state": 3, "act": 3, "acted": 3, "command": 2}
"""Functions of the C and how many pointers they take."""


class NativeController:
    """The C of one group.

    Args:
        library: shared object of `native.compile_library`.
        contract: of the bundle.
        group: agent group.
        prefix: of the C names, as `native.read_header` finds it.

    Attributes:
        wanted: quantities that must be given, by the name of the struct's member: measured, or told.
        clocks: phases in [0, 1) that the controller runs, by member, each a view [1]; `start` puts them at their least.
        last_action: view [D] of the action of the step before; None where the policy does not observe it.

    Raises:
        RookeryError: the library lacks a function.
    """

    def __init__(self, library: Path, contract: Contract, group: str, prefix: str) -> None:
        layout = StateC(contract, group, prefix)
        self.wanted: dict[str, Quantity] = dict(layout.members)
        self._state = np.zeros(max(1, sum(q.size for q in self.wanted.values())), np.float32)
        self._kept = np.zeros(sum(layout.kept.values()), np.float32)
        self._places = _slices({name: q.size for name, q in self.wanted.items()})
        kept = _slices(layout.kept)
        self.clocks = {name: self._kept[kept[name]] for name in layout.clocks}
        self.last_action = self._kept[kept["last_action"]] if "last_action" in kept else None
        self._inputs, self._outputs = layout.inputs, layout.outputs
        try:
            loaded = ctypes.CDLL(str(library))
            self._calls = {name: getattr(loaded, f"{prefix}_{name}") for name in FUNCTIONS}
        except (OSError, AttributeError) as e:
            raise RookeryError(f"cannot load {library} ({e}): export the bundle again.") from e
        for name, call in self._calls.items():
            call.argtypes = [ctypes.c_void_p] * FUNCTIONS[name]
            call.restype = None
        self.start()

    def start(self) -> None:
        """Begin an episode."""
        self._calls["start"](self._kept.ctypes.data)

    def fill(self, values: Mapping[str, Any]) -> None:
        """Write the measured state: by the quantities' names, each of its size; others are not read.

        Raises:
            RookeryError: a quantity is missing or of another size.
        """
        for name, q in self.wanted.items():
            try:
                self._state[self._places[name]] = np.reshape(values[q.name], q.size)
            except (KeyError, ValueError, TypeError):
                given = np.shape(values[q.name]) if q.name in values else "nothing"
                raise RookeryError(f"the policy needs {q.name!r} ({q.size} values, {q.unit}), got {given}.") from None

    def observe(self) -> Array:
        """The network's input [O], once a control step."""
        return self._call("observe_state", self._inputs)

    def act(self) -> Array:
        """Observation and network: the action [D], once a control step. NaN where a number of the state was none: then
        `start`."""
        return self._call("act", self._outputs)

    def acted(self, action: Array) -> None:
        """Say which action is carried out."""
        given = np.ascontiguousarray(action, np.float32)
        self._calls["acted"](self._kept.ctypes.data, self._state.ctypes.data, given.ctypes.data)

    def command(self, action: Array) -> Array:
        """The command [D] of an action, in physical units."""
        given, out = np.ascontiguousarray(action, np.float32), np.empty(self._outputs, np.float32)
        self._calls["command"](given.ctypes.data, out.ctypes.data)
        return out

    def _call(self, name: str, size: int) -> Array:
        out = np.empty(size, np.float32)
        self._calls[name](self._kept.ctypes.data, self._state.ctypes.data, out.ctypes.data)
        return out


def _slices(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Places of values that stand one after the other."""
    out = {}
    at = 0
    for name, size in sizes.items():
        out[name] = slice(at, at + size)
        at += size
    return out
