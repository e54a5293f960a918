"""Reports of identification: as JSON, which `--apply` reads again, and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, read_json
from rookery.sim2real.sysid.identifiability import Tradeoff
from rookery.sim2real.sysid.identify import Identified
from rookery.sim2real.sysid.problem import FitParameter

Array = NDArray[np.float64]
SCHEMA = 1
KIND = "rookery.sysid"


@dataclass(frozen=True)
class FitReport:
    """Result of an identification.

    Args:
        robot: by name or file. family: "quadruped", "arm" or "multirotor".
        log: the file. seconds, samples: of it; a sample has a value of each signal.
        identified: parameters.
        errors: root mean square errors by log and model: ``{"log": {"nominal": {...}, "identified": {...}}}``, SI.
        notes: on the log.
    """

    robot: str
    family: str
    log: str
    seconds: float
    samples: int
    identified: Identified
    errors: Mapping[str, Mapping[str, Mapping[str, float]]]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        shows, weights = self.identified.shows, self.identified.fit.weights
        return {
            "kind": KIND,
            "schema": SCHEMA,
            "robot": self.robot,
            "family": self.family,
            "log": {"file": self.log, "seconds": self.seconds, "samples": self.samples, "signals": weights.signals,
                    "values": weights.values, "independent_values": weights.effective},
            "notes": list(self.notes),
            "parameters": [
                {
                    "name": e.parameter.name, "quantity": e.parameter.quantity, "group": e.parameter.group,
                    "members": list(e.parameter.members), "unit": e.parameter.unit, "nominal": e.parameter.nominal,
                    "value": e.value, "low": _finite(e.interval.low), "high": _finite(e.interval.high),
                    "interval": e.interval.by, "from_log": e.interval.share, "identified": e.identified,
                    "notes": list(e.notes),
                }
                for e in self.identified.parameters
            ],
            "errors": {name: {model: dict(of) for model, of in models.items()} for name, models in self.errors.items()},
            "singular_values": list(shows.singular),
            "condition": _finite(shows.condition),
            "tradeoffs": [
                {"parameters": list(t.names), "changes": list(t.changes), "correlation": t.correlation} for t in shows.tradeoffs
            ],
            "unseen": list(shows.unseen),
        }  # fmt: skip

    def text(self) -> list[str]:
        """Lines for a terminal."""
        weights = self.identified.fit.weights
        out = [
            f"{self.robot}: {self.seconds:.1f} s, {self.samples} samples; fitted to {weights.values} values of "
            f"{weights.signals} signals, worth {weights.effective:.0f} independent ones"
        ]
        out += [f"  note: {note}" for note in self.notes]
        rows = [("parameter", "nominal", "value", "95 % interval", "")]
        for e in self.identified.parameters:
            p = e.parameter
            unit = "" if p.unit == "1" else f" {p.unit}"
            if e.interval.by == "unseen":
                rows.append((p.name, f"{p.nominal:.4g}{unit}", "", "", e.notes[0]))
                continue
            interval = f"{e.interval.low:.4g} to {e.interval.high:.4g}"
            by = ("profile",) if e.interval.by == "profile" else ()
            rows.append((p.name, f"{p.nominal:.4g}{unit}", f"{e.value:.4g}", interval, "; ".join((*by, *e.notes))))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        out += ["  " + "  ".join(c.ljust(w) for c, w in zip(row, (*widths, 0), strict=True)).rstrip() for row in rows]
        shows = self.identified.shows
        out.append(
            f"  singular values {', '.join(f'{s:.3g}' for s in shows.singular)}; condition {shows.condition:.3g}"
        )
        out += [f"  {_told(t)}" for t in shows.tradeoffs]
        for name, models in self.errors.items():
            out.append(f"  error on {name}: " + "; ".join(errors_text(model, of) for model, of in models.items()))
        return out


UNITS = {"position": "mm", "velocity": "mm/s", "attitude": "mrad", "rate": "mrad/s"}
"""Of a flight's errors; those of joints are in mrad."""


def errors_text(model: str, of: Mapping[str, float]) -> str:
    """Errors of one model as words."""
    return f"{model} " + ", ".join(f"{name} {1e3 * value:.2f} {UNITS.get(name, 'mrad')}" for name, value in of.items())


def _told(tradeoff: Tradeoff) -> str:
    names = ", ".join(tradeoff.names)
    if tradeoff.correlation == 1.0:
        return f"collinear, the log shows only their combination: {names}"
    return f"trade off: {names} (correlation {tradeoff.correlation:.2f})"


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def write_json(path: Path, report: FitReport) -> None:
    """Write a report.

    Raises:
        RookeryError: the file cannot be written.
    """
    write_text(path, json.dumps(report.to_json(), indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file, and the folder that it is in.

    Raises:
        RookeryError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise RookeryError(f"cannot write {path}: {error.strerror}.") from error


def read_values(path: Path) -> dict[str, float]:
    """Values by parameter of a report that was written.

    Raises:
        RookeryError: it is none.
    """
    try:
        report = read_json(path)
    except OSError as error:
        raise RookeryError(f"cannot read the report {path}: {error.strerror}.") from error
    except Damaged as error:
        raise RookeryError(f"{path} is no report of rookery sysid: {error}.") from error
    listed = report.get("parameters") if isinstance(report, dict) and report.get("kind") == KIND else None
    if not isinstance(listed, list):
        raise RookeryError(f"{path} is no report of rookery sysid: give the JSON file that --report wrote.")
    out = {}
    for entry in listed:
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or isinstance(value, bool):
            raise RookeryError(f"{path} is a damaged report: a parameter in it has no name or value.")
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RookeryError(f"{path} is a damaged report: the value of {entry['name']} is {value!r}.")
        out[entry["name"]] = float(value)
    return out


def reported(path: Path, offered: Sequence[FitParameter]) -> tuple[tuple[FitParameter, ...], Array]:
    """Parameters of a report, among those that a robot has, and their values.

    Args:
        path: of the report.
        offered: all that the robot has, by kind and by joint.

    Raises:
        RookeryError: the report is of another robot.
    """
    values = read_values(path)
    known = {p.name: p for p in offered}
    strange = [name for name in values if name not in known]
    if strange:
        raise RookeryError(f"{path} is of another robot: {', '.join(strange[:6])} are no parameters of this one.")
    chosen = tuple(known[name] for name in values)
    for p in chosen:
        if not p.low <= values[p.name] <= p.high:
            raise RookeryError(f"{path}: {p.name} is {values[p.name]:g}, outside of {p.low:g} to {p.high:g}.")
    return chosen, np.array([values[p.name] for p in chosen])
