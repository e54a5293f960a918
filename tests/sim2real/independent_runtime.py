"""A runtime that somebody could write who has a bundle and not Rookery: ctypes on the exported C, whose header says it all.

It imports nothing of Rookery (tested).

    runtime = Runtime(bundle)                        # a folder with policy.c and policy.h
    runtime.start()
    command = runtime.step(target=..., position=...) # once a control step; members of the state's struct by name
    motors = runtime.call("motors", runtime.loops, runtime.sensed, command, out=4)
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Vector = np.ndarray


class Runtime:
    """A policy of one group, and the loops below it.

    Attributes:
        state, controller, sensed, loops: the structs of the header, None where it has none.
        sizes: macros of the header, by their names without the prefix.
    """

    def __init__(self, folder: Path, stem: str = "policy") -> None:
        library = folder / f"{stem}.so"
        if not library.exists():
            flags = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-shared", "-fPIC"]
            subprocess.run(["gcc", *flags, "-o", library, folder / f"{stem}.c", "-lm"], check=True)
        header = (folder / f"{stem}.h").read_text()
        self.prefix = re.search(r"^void (\w+)_policy\(", header, re.M)[1]
        macros = re.findall(rf"^#define {self.prefix.upper()}_(\w+) ([0-9.e-]+)f?\b", header, re.M)
        self.sizes = {name: float(value) if re.search("[.e]", value) else int(value) for name, value in macros}
        self.types: dict[str, Any] = {"float": ctypes.c_float, "int": ctypes.c_int}
        for body, name in re.findall(r"^typedef struct \{\n(.*?)^\} (\w+);", header, re.M | re.S):
            self.types[name] = type(name, (ctypes.Structure,), {"_fields_": [*self._members(body)]})
        self.library = ctypes.CDLL(str(library))
        made = [self.types.get(f"{self.prefix}_{name}") for name in ("state", "controller", "sensed", "loops")]
        self.state, self.controller, self.sensed, self.loops = (
            None if made_of is None else made_of() for made_of in made
        )
        self.start()

    def _members(self, body: str) -> Any:
        for kind, name, size in re.findall(r"^    (\w+) (\w+)(?:\[(\w+)\])?;", body, re.M):
            count = (
                0
                if not size
                else int(size)
                if size.isdigit()
                else self.sizes[size.removeprefix(f"{self.prefix.upper()}_")]
            )
            yield name, self.types[kind] * count if count else self.types[kind]

    def call(self, name: str, *arguments: Any, out: int = 0, result: Any = None) -> Any:
        """Call a function with structs and arrays; with `out` the last argument is an array of so many floats, the result."""
        arrays = [
            np.ascontiguousarray(a, np.float32) if isinstance(a, (np.ndarray, list, tuple)) else a for a in arguments
        ]
        answer = np.full(out, np.nan, np.float32)
        function = getattr(self.library, f"{self.prefix}_{name}")
        function.restype = result
        returned = function(*(_pointer(a) for a in (*arrays, *[answer] * (out > 0))))
        return answer.astype(float) if out and result is None else (returned, answer.astype(float)) if out else returned

    def start(self) -> None:
        """Begin an episode."""
        self.call("start", self.controller)

    def step(self, **state: Any) -> Vector:
        """One control step: the command."""
        fill(self.state, state)
        fine, command = self.call(
            "step", self.controller, self.state, out=self.sizes["POLICY_ACTIONS"], result=ctypes.c_int
        )
        assert fine == 1
        return command

    def network(self, obs: Vector) -> Vector:
        """Actions of the network alone; its memory is the controller's."""
        memory = [self.controller.memory] if hasattr(self.controller, "memory") else []
        return self.call("policy", obs, *memory, out=self.sizes["POLICY_ACTIONS"])

    def kinematics(self, solve: Callable[[Vector], tuple[Vector, Vector, Vector]]) -> Any:
        """A callback of the C for a function from joint angles to a tool's place [3], matrix [3, 3] and Jacobian [6, J]."""
        joints = len(self.sensed.angle)
        pointer = ctypes.POINTER(ctypes.c_float)

        def fill_in(angle: Any, *out: Any) -> None:
            answers = solve(np.ctypeslib.as_array(angle, (joints,)).astype(float))
            for array, answer in zip(out, answers, strict=False):
                np.ctypeslib.as_array(array, (answer.size,))[:] = answer.reshape(-1)

        return ctypes.CFUNCTYPE(None, pointer, pointer, pointer, pointer, ctypes.c_void_p)(fill_in)


def fill(struct: Any, values: dict[str, Any]) -> None:
    """Write members of a struct."""
    for name, value in values.items():
        member = np.ctypeslib.as_array(getattr(struct, name))
        member[:] = np.reshape(value, member.shape)


def _pointer(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.ctypes.data_as(ctypes.c_void_p)
    return ctypes.byref(value) if isinstance(value, ctypes.Structure) else value
