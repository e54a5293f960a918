"""The policy of a bundle as the runtime steps it: measured quantities in, physical commands out, by the bundle's own C.

controller = Controller("bundle")
controller.begin()                            # an episode
command = controller.step(values)             # every control_dt
"""

from __future__ import annotations

import ctypes
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.terms import GroundScan, Quantity, Recorded, Sensor
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.export.bundle import bundle_files
from rookery.sim2real.export.check import open_onnx, read_bundle_contract, read_weights
from rookery.sim2real.export.native import compile_library, read_header
from rookery.sim2real.export.state_c import StateC
from rookery.sim2real.export.trust import write_source
from rookery.sim2real.runtime.reading import Array

SIZES = "runtime.c"
_POINTER = ctypes.c_void_p


def group_of(contract: Contract, group: str | None) -> str:
    """The group of a contract that one vehicle flies by.

    Raises:
        RookeryError: there are several and none is named, or there is none of that name.
    """
    names = list(contract.groups)
    if group is None and len(names) > 1:
        raise RookeryError(f"the bundle has the groups {', '.join(names)}: say which one with --group.")
    chosen = names[0] if group is None else group
    if chosen not in names:
        raise unknown("group", chosen, names)
    return chosen


def check_terms(group: ContractGroup) -> None:
    """Refuse a term that a runtime cannot compute.

    Raises:
        RookeryError: naming it.
    """
    for term in group.spec.observation:
        expression = term.expression
        if isinstance(expression, Recorded):
            raise RookeryError(
                f"the contract says the term {term.name} in words alone ({expression.formula}): export the policy again with "
                "`rookery export RUN --out DIR`."
            )
        for q in expression.leaves():
            if isinstance(q, Sensor) and not isinstance(q, GroundScan):
                raise RookeryError(f"the term {term.name} is filled by a sensor ({q.name}), which no link gives yet.")


class Controller:
    """See the module.

    Args:
        folder: a bundle.
        group: of its contract; None for the only one.
        run_c: also run C that Rookery does not generate from the bundle's contract and weights, with the user's rights.

    Attributes:
        contract, group, spec: the contract, the group's name and its entry.
        wanted: quantities that a link or a command must give.
        action: the last one, in [-1, 1].

    Raises:
        RookeryError: no bundle, damaged, of another version; there is no compiler; a term cannot be computed.
    """

    def __init__(self, folder: Path | str, group: str | None = None, run_c: bool = False) -> None:
        folder = Path(folder)
        self.contract = self._read(folder)
        self.group = group_of(self.contract, group)
        self.spec = self.contract.groups[self.group]
        self.spec.refuse_team()
        check_terms(self.spec)
        self._build = tempfile.TemporaryDirectory(prefix="rookery-fly-")
        weakref.finalize(self, self._build.cleanup)
        self._load(folder, run_c)
        size = self.spec.spec.action.size
        self.action = np.array(self.spec.spec.action.neutral, np.float32)
        self._command = np.zeros(size, np.float32)
        self.begin()

    def _read(self, folder: Path) -> Contract:
        return read_bundle_contract(folder)

    def _load(self, folder: Path, run_c: bool) -> None:
        files = bundle_files(self.contract)[self.group]
        build = Path(self._build.name)
        header = read_header(folder / files["h"])
        if header.fingerprint != self.contract.fingerprint:
            raise RookeryError(
                f"{folder / files['h']} was made with another contract than {folder / 'contract.json'}: export the bundle "
                "again."
            )
        weights = read_weights(open_onnx(folder / files["onnx"], self.contract, self.group), folder / files["onnx"])
        source = write_source(folder, files, self.contract, self.group, header, weights, build, run_c)
        self._compile(source, self.contract, header.prefix, folder / files["c"], {"act": 3})

    def _compile(self, source: Path, contract: Contract, prefix: str, shown: Path, more: Mapping[str, int]) -> None:
        """Compile the C of a contract and take its functions; `more` of them by name, with their numbers of pointers."""
        shim = source.with_name(SIZES)
        shim.write_text(
            f'#include "{source.name}"\n'
            f"const unsigned long runtime_sizes[2] = {{sizeof({prefix}_state), sizeof({prefix}_controller)}};\n"
        )
        loaded = ctypes.CDLL(str(compile_library(shim, source.parent, shown)))
        sizes = (ctypes.c_ulong * 2).in_dll(loaded, "runtime_sizes")
        self._place(StateC(contract, self.group, prefix), int(sizes[0]))
        self._memory = ctypes.create_string_buffer(int(sizes[1]))
        self._calls: dict[str, Any] = {}
        for name, count in {"start": 1, "acted": 3, "command": 2, **more}.items():
            call = getattr(loaded, f"{prefix}_{name}")
            call.argtypes = [_POINTER] * count
            call.restype = None
            self._calls[name] = call

    def _place(self, state: StateC, size: int) -> None:
        """Find the place of each quantity in the state's struct, whose members are arrays of floats one after the other."""
        self.wanted: list[Quantity] = list(state.members.values())
        self._at: list[tuple[Quantity, slice]] = []
        at = 0
        for q in self.wanted:
            self._at.append((q, slice(at, at + q.size)))
            at += q.size
        self._state = np.zeros(max(at, 1), np.float32)
        if self.wanted and self._state.nbytes != size:
            raise RookeryError(
                f"the bundle's struct has {size} bytes and its contract {self._state.nbytes}: export it again."
            )

    @property
    def control_dt(self) -> float:
        """s."""
        return self.contract.control_dt

    def begin(self) -> None:
        """Begin an episode: the next step is its first."""
        self._calls["start"](ctypes.addressof(self._memory))
        self.action[:] = self.spec.spec.action.neutral

    def _act(self, memory: int, state: int) -> None:
        """Fill `action` for the state at an address."""
        self._calls["act"](memory, state, self.action.ctypes.data)

    def step(self, values: Mapping[str, Array]) -> Array:
        """Physical commands [D] for the quantities in `wanted`, in the units of the contract's action; NaN where the policy's
        action is not finite.

        Raises:
            RookeryError: a quantity is missing or of another size.
        """
        for q, place in self._at:
            try:
                self._state[place] = values[q.name]
            except (KeyError, ValueError):
                given = np.shape(values[q.name]) if q.name in values else "nothing"
                raise RookeryError(f"the policy needs {q.name!r} ({q.size} values, {q.unit}), got {given}.") from None
        memory, state, action = ctypes.addressof(self._memory), self._state.ctypes.data, self.action.ctypes.data
        self._act(memory, state)
        if not np.isfinite(self.action).all():  # it would stay in what is kept; the safety filter takes over
            self.begin()
            return np.full_like(self._command, np.nan)
        self._calls["acted"](memory, state, action)
        self._calls["command"](action, self._command.ctypes.data)
        return self._command.copy()
