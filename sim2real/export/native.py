"""The exported C on this machine: compiled to a shared object and called through ctypes, without torch."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.limited import run_limited
from rookery.sim.untrusted import read_text

Array = NDArray[np.float32]
Flags = NDArray[np.bool_] | None
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2")
MORE = ("FRAME", "TARGETS", "MEMORY", "CHOICES", "OPTIONS", "MASK", "EVENTS", "AGENTS")
"""Sizes in a header, fields of `Header`, that not every policy has."""
COMPILE_S = 60
"""s, most time for a compiler."""


@dataclass(frozen=True)
class Header:
    """Sizes and names from a policy's header; `frame` is the observation's length where it has no history, `mask` 0 where all
    `options` are allowed at all times, `events` how many there are at which it decides, and `agents` how many it acts for
    together."""

    prefix: str
    observations: int
    actions: int
    fingerprint: str
    frame: int
    targets: int
    memory: int
    choices: int = 0
    options: int = 0
    mask: int = 0
    events: int = 0
    agents: int = 1


def read_header(path: Path) -> Header:
    """Sizes, prefix and contract fingerprint from a `policy.h`.

    Raises:
        RookeryError: when the file is missing or lacks one of them.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as e:
        raise RookeryError(f"cannot read {path} ({e}): export the bundle again.") from e
    name = re.search(r"^void (\w+)_policy\(", text, re.M)
    found = dict(
        re.findall(rf'^#define \w+_POLICY_(ACTIONS|CONTRACT|OBSERVATIONS|{"|".join(MORE)}) "?(\w+)"?', text, re.M)
    )
    sizes = all(re.fullmatch("[0-9]{1,9}", number) for key, number in found.items() if key != "CONTRACT")
    if name is None or not {"OBSERVATIONS", "ACTIONS", "CONTRACT"} <= set(found) or not sizes:
        raise RookeryError(f"{path} is not a header that Rookery wrote: export the bundle again.")
    inputs = int(found["OBSERVATIONS"])
    other = {"FRAME": inputs, "AGENTS": 1}
    more = {name.lower(): int(found.get(name, other.get(name, 0))) for name in MORE}
    if not 1 <= more["agents"] <= inputs:
        raise RookeryError(f"{path} is not a header that Rookery wrote: export the bundle again.")
    return Header(name[1], inputs, int(found["ACTIONS"]), found["CONTRACT"], **more)


def find_compiler() -> list[str]:
    """The command of a C compiler: gcc, cc or clang from the PATH, else the `ziglang` package of this Python.

    Raises:
        RookeryError: when there is none.
    """
    for name in ("gcc", "cc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise RookeryError(
        "there is no C compiler to check policy.c with: install one (`apt-get install gcc`, or `pip install ziglang`)."
    )


def compile_c(command: list[str], source: Path, build: Path, advice: str = "export the bundle again") -> None:
    """Run a compiler, with limits on its time and memory.

    Args:
        command: compiler and arguments.
        source: what to name in an error.
        build: temporary folder.
        advice: the way out of an error.

    Raises:
        RookeryError: it fails, with the first line number it complains about. The complaint itself stays hidden, as it
            may quote any file that the source includes.
    """
    done = run_limited(command, build, COMPILE_S)
    if done.status == 0:
        return
    line = re.search(rf"^[^\n:]*{re.escape(source.name)}:(\d+):(?:\d+:)? (?:fatal )?error", done.output, re.M)
    overflow = re.search(r"region .{1,20} overflowed by \d+ bytes", done.output)
    where = f"line {line[1]}" if line else overflow[0] if overflow else done.reason
    raise RookeryError(f"{source} does not compile ({where}): {advice}.")


def compile_library(source: Path, build: Path, shown: Path | None = None) -> Path:
    """Compile a `policy.c`, with its header beside it, to a shared object in the folder `build`.

    Raises:
        RookeryError: there is no compiler, or it fails (see `compile_c`), naming the file `shown`.
    """
    library = build / f"{source.stem}.so"
    command = [*find_compiler(), *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
    compile_c(command, shown or source, build)
    return library


def _bytes(name: str, flags: Flags, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Flags as the C takes them."""
    if flags is None or flags.shape != shape or flags.dtype != np.bool_:
        raise ValueError(f"{name} must be a bool array {shape}")
    return np.ascontiguousarray(flags).view(np.uint8)


class NativePolicy:
    """A policy's C functions, called row by row. Calls release Python's lock, so threads really run side by side.

    Loading runs what the library has in its constructors.

    Args:
        library: of `compile_library`.
        header: as `read_header` gives it.
    """

    def __init__(self, library: Path, header: Header) -> None:
        self.observations = header.observations
        self.actions = header.actions
        self.agents = header.agents
        self.frame = header.frame
        self.own = header.observations // header.agents  # numbers of an agent's observation
        self.targets = header.targets
        self.memory = header.memory
        self.options = header.options
        self.mask = header.mask
        self.events = header.events
        names = ["policy", "observe", "command"]
        names += ["remember"] * (self.frame < self.own) + ["predict", "policy_known"] * (self.targets > 0)
        names += ["reset"] * (self.memory > 0)
        try:
            loaded = ctypes.CDLL(str(library))
            self._calls = {n: getattr(loaded, f"{header.prefix}_{n}") for n in names}
        except (OSError, AttributeError) as e:
            raise RookeryError(f"cannot load {library} ({e}): export the bundle again.") from e
        more = sum(size > 0 for size in (self.memory, self.mask, self.events, self.options))
        counts = {"policy": 2 + more, "policy_known": 3 + more, "reset": 1}
        for name, call in self._calls.items():
            call.argtypes = [ctypes.c_void_p] * counts.get(name, 2)
            call.restype = None

    def policy(self, obs: Array, memory: Array | None = None, allowed: Flags = None, events: Flags = None) -> Array:
        """Actions [n, D] for observations [n, O]; a policy with memory steps `memory` [n, H], a state for each row, one with a
        mask chooses among the options that are `allowed` [n, C], and one that decides at events takes the `events` [n, E] that
        happen."""
        return self.answers(obs, None, memory, allowed, events)[:, : self.actions]

    def policy_known(
        self, obs: Array, known: Array, memory: Array | None = None, allowed: Flags = None, events: Flags = None
    ) -> Array:
        """`policy` with targets [n, M], NaN where they must be predicted."""
        return self.answers(obs, known, memory, allowed, events)[:, : self.actions]

    def answers(
        self,
        obs: Array,
        known: Array | None = None,
        memory: Array | None = None,
        allowed: Flags = None,
        events: Flags = None,
    ) -> Array:
        """Actions and logits [n, D + C] side by side, for what `policy` and `policy_known` take."""
        if obs.shape[1:] != (self.observations,):
            raise ValueError(f"obs must be an array of {self.observations} columns, got {obs.shape}")
        out = np.empty((len(obs), self.actions + self.options), np.float32)
        rows: list[NDArray[Any]] = [np.ascontiguousarray(x, np.float32) for x in (obs, known) if x is not None]
        for name, flags, size in (("allowed", allowed, self.mask), ("events", events, self.events)):
            if size:
                rows.append(_bytes(name, flags, (len(obs), size)))
        rows += self._checked(memory, len(obs))
        if self.options:
            rows.append(out[:, self.actions :])
        self._call("policy" if known is None else "policy_known", [*rows, out])
        return out

    def reset(self, memory: Array) -> None:
        """Begin episodes in states [n, H]."""
        (memory,) = self._checked(memory, len(memory))
        for i in range(len(memory)):
            self._calls["reset"](memory.ctypes.data + i * memory.strides[0])

    def follow(
        self,
        obs: Array,
        start: NDArray[np.bool_],
        known: Array | None = None,
        allowed: Flags = None,
        events: Flags = None,
    ) -> Array:
        """`answers` of a policy with memory for observations [n, O] one after the other, anew at each `start` [n]."""
        memory = np.full((1, self.memory), np.nan, np.float32)
        out = np.empty((len(obs), self.actions + self.options), np.float32)
        for i in range(len(obs)):
            if start[i]:
                self.reset(memory)
            row = slice(i, i + 1)
            told = None if known is None else known[row]
            free, happened = (None if x is None else x[row] for x in (allowed, events))
            out[row] = self.answers(obs[row], told, memory, free, happened)
        return out

    def predict(self, obs: Array) -> Array:
        """Predicted targets [n, M] for observations [n, O]."""
        return self._rows("predict", obs, self.targets)

    def remember(self, frames: Array) -> Array:
        """An agent's observation after frames [n, F], n at least the history, came one after the other."""
        frames = np.ascontiguousarray(frames, np.float32)
        obs = np.zeros(self.own, np.float32)
        for i in range(len(frames)):
            self._calls["remember"](frames.ctypes.data + i * frames.strides[0], obs.ctypes.data)
        return obs

    def observe(self, raw: Array) -> Array:
        """Scaled observations, or frames of them, [n, F] for raw measurements [n, F]."""
        return self._rows("observe", raw, self.frame)

    def command(self, action: Array) -> Array:
        """Physical commands [n, D] for actions [n, D]."""
        return self._rows("command", action, self.actions)

    def _checked(self, memory: Array | None, rows: int) -> list[Array]:
        """The states that the C changes in place."""
        if not self.memory:
            return []
        fits = memory is not None and memory.shape == (rows, self.memory) and memory.dtype == np.float32
        if memory is None or not (fits and memory.flags.c_contiguous):
            raise ValueError(f"memory must be a float32 array {(rows, self.memory)}, row by row")
        return [memory]

    def _rows(self, name: str, inputs: Array, width: int) -> Array:
        """One of the functions that take a row and give one."""
        out = np.empty((len(inputs), width), np.float32)
        self._call(name, [np.ascontiguousarray(inputs, np.float32), out])
        return out

    def _call(self, name: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Call a function with row after row of all arrays."""
        call = self._calls[name]
        places = [(x.ctypes.data, x.strides[0]) for x in arrays]
        for i in range(len(arrays[0])):
            call(*(start + i * stride for start, stride in places))
