"""Numbers of reference runs: how they are condensed, written to a file beside a test, and compared with it.

A tensor becomes one number, a sum of its elements with unequal weights, each on a scale that is linear below 0.01 and
logarithmic above: a factor in one small component shows beside large ones, and so do a sign and two that change places.

A run is recorded three times, twice with a jolt a thousand times larger than what rounds differently on another processor.
What a jolt moves is compared as closely as that allows, and not at all where it moves by much, as after a collision.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

RTOL, ATOL = 3e-4, 1e-4
LOOSEST = 0.03  # of the scale: what the jolts move by more than a third of it is left out
Rows = dict[str, list[Any]]


def condense(x: Tensor, first: int = 0) -> tuple[float, float]:
    """One number for a tensor, and its scale: what it would be if all elements were positive. `first` elements came before."""
    v = torch.asinh(torch.nan_to_num(x.detach().double().flatten(), nan=-7.0, posinf=1e6, neginf=-1e6) / 0.01)
    weights = 1.0 + 0.5 * torch.cos(1.0 + 2.4 * torch.arange(first, first + len(v), dtype=torch.float64))
    return (weights * v).sum().item(), (weights * v.abs()).sum().item()


class Recording:
    """Numbers by name, one for each section of a run: all that was noted under the name in the section."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[float, float]]] = {}
        self._sections: dict[str, list[str]] = {}
        self._noted: dict[tuple[str, str], int] = {}

    def take(self, section: str, name: str, value: Any) -> None:
        """Note a tensor, a number, or each one in nested dicts; nothing else."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self.take(section, f"{name} {key}", inner)
            return
        if isinstance(value, float):
            value = torch.tensor([value], dtype=torch.float64)
        if not isinstance(value, Tensor) or not value.numel():
            return
        sections = self._sections.setdefault(name, [])
        numbers = self.rows.setdefault(name, [])
        if section not in sections:
            sections.append(section)
            numbers.append((0.0, 0.0))
        at = sections.index(section)
        before = self._noted.get((name, section), 0)
        number, scale = condense(value, before)
        self._noted[name, section] = before + value.numel()
        numbers[at] = (numbers[at][0] + number, numbers[at][1] + scale)

    def take_exactly(self, name: str, numbers: Tensor) -> None:
        """Note numbers that no rounding touches, such as declared limits: a checksum of their first six digits."""
        text = ",".join(f"{x:.6g}" for x in numbers.tolist())
        self.rows[name] = [(float(zlib.crc32(text.encode()) % 100_000), 0.0)]


def differences(found: Recording, written: Rows) -> list[str]:
    """What a run gave otherwise than is written; empty where it agrees."""
    out = [f"{name}: only {where}" for where, a, b in (("here", found.rows, written), ("in the file", written, found.rows))
           for name in a if name not in b]  # fmt: skip
    for name, numbers in found.rows.items():
        wanted = written.get(name, [])
        if wanted == [0]:
            wanted = [0] * len(numbers)
        if name in written and len(wanted) != len(numbers):
            out.append(f"{name}: {len(numbers)} numbers, {len(wanted)} in the file")
            continue
        for i, ((value, scale), entry) in enumerate(zip(numbers, wanted, strict=False)):
            if entry is None:
                continue
            number, tolerance = entry if isinstance(entry, list) else (entry, 0.0)
            if not abs(value - number) <= max(tolerance, RTOL * scale + ATOL):
                out.append(f"{name} [{i}]: {value:.6g}, {number:.6g} in the file")
    return out


def rows(exact: Recording, jolted: list[Recording]) -> Rows:
    """What goes to the file: numbers, ``[number, tolerance]`` where a jolt moves one, None where it moves by much."""
    out: Rows = {}
    for name, numbers in exact.rows.items():
        entries: list[Any] = []
        for i, (value, scale) in enumerate(numbers):
            others = [r.rows[name][i][0] if i < len(r.rows.get(name, [])) else math.inf for r in jolted]
            moved = 3.0 * max(abs(value - other) for other in others)
            short = float(f"{value:.6g}")
            if moved > max(LOOSEST * scale, 3.0 * ATOL):
                entries.append(None)
            elif moved > RTOL * scale + ATOL:
                entries.append([short, float(f"{moved:.2g}")])
            else:
                entries.append(int(short) if short == int(short) else short)
        out[name] = [0] if all(e == 0 for e in entries) else entries
    return out


class Reference:
    """The numbers of some runs in a file beside a test.

    Args:
        file: JSON, rows by case.
        runs: by case; each is given the size of its jolt.
    """

    def __init__(self, file: Path, runs: dict[str, Callable[[float], Recording]]) -> None:
        self.file = file
        self.runs = runs

    @cached_property
    def written(self) -> dict[str, Rows]:
        return dict(json.loads(self.file.read_text()))

    @property
    def entries(self) -> list[Any]:
        """All numbers of the file; None stands for one that is left out, since it depends on rounding."""
        return [entry for case in self.written.values() for numbers in case.values() for entry in numbers]

    def share_left_out(self) -> float:
        """Of the entries."""
        return sum(entry is None for entry in self.entries) / len(self.entries)

    def differences(self, case: str) -> list[str]:
        """What a run of the case gives otherwise than is written."""
        return differences(self.runs[case](0.0), self.written[case])


def write(file: Path, runs: dict[str, Callable[[float], Recording]], names: list[str]) -> None:
    """Write the rows of all runs, or of those named, beside what the file has of the others.

    Args:
        file: of a test.
        runs: by name; each is given the size of its jolt.
        names: [] for all.
    """
    if unknown := set(names) - set(runs):
        raise SystemExit(f"no case {', '.join(sorted(unknown))}; there are {', '.join(sorted(runs))}")
    kept = json.loads(file.read_text()) if names else {}
    made = {name: rows(runs[name](0.0), [runs[name](1e-5), runs[name](-1e-5)]) for name in names or runs}
    out = []
    for name in sorted(runs):
        entries = (made.get(name) or kept[name]).items()
        inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in entries)
        out.append(f" {json.dumps(name)}: {{\n{inner}\n }}")
    file.write_text("{\n" + ",\n".join(out) + "\n}\n")
