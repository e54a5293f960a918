"""Demands of hardware on a policy: a range for each factor, with where it comes from."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_toml
from rookery.sim2real.gate.factors import KNOWN

FOLDER = Path(__file__).parent / "profiles"
BY_TASK = {
    "drone-": "crazyflie-indoor", "swarm-": "crazyflie-indoor", "volley-": "crazyflie-indoor", "go2": "go2-lab",
    "table-": "panda-bench", "panda-": "panda-bench", "dual-panda-": "panda-bench",
}  # fmt: skip
"""The profile of a task by the beginning of its name."""
RATES = ("success", "combinations", "worst")
ENTRIES = ("summary", *RATES, "factors", "figures")


@dataclass(frozen=True)
class Requirement:
    """The range of one factor that a policy must stand.

    Args:
        low, high: in the factor's unit.
        source: where the range comes from.
        idle: the factor may change nothing, such as the mass of an object that nobody touches.
    """

    low: float
    high: float
    source: str
    idle: bool = False


@dataclass(frozen=True)
class Bound:
    """The range in which the mean of a figure must lie at nominal physics, beside success.

    Args:
        least, most: in the figure's unit; -inf and inf where there is none.
        source: why.
    """

    least: float
    most: float
    source: str


@dataclass(frozen=True)
class Profile:
    """The ranges of a piece of hardware and its surroundings.

    Args:
        name: of a profile of the package, or the path of a file.
        summary: one line.
        success: least success rate at every value of a factor's range, the other factors nominal, and in every case.
        combinations: least success rate over combinations drawn from the ranges.
        worst: least success rate at the worst combination found.
        factors: by name.
        figures: bounds of metrics that a task may have, and of `action_change`, by name.
    """

    name: str
    summary: str
    success: float
    combinations: float
    worst: float
    factors: Mapping[str, Requirement]
    figures: Mapping[str, Bound] = field(default_factory=dict)


def profiles() -> dict[str, Path]:
    """Files of the package's profiles by name."""
    return {f.stem: f for f in sorted(FOLDER.glob("*.toml"))}


def profile_of(task: str) -> str:
    """The name of the profile for a task.

    Raises:
        RookeryError: the package has none for it.
    """
    for beginning, name in BY_TASK.items():
        if task.startswith(beginning):
            return name
    raise RookeryError(
        f"no profile belongs to {task}: give --profile with a TOML file, or one of {', '.join(profiles())}."
    )


def load_profile(choice: str, also: Collection[str] = ()) -> Profile:
    """A profile by name, or from a TOML file.

    Args:
        choice: name of one of the package, or path of a file.
        also: names of factors besides those of the package's tasks.

    Raises:
        RookeryError: no such profile, or a file that does not say what it should, such as an unknown factor.
    """
    known = profiles()  # a file is named by its path, since its last part may be the name of one of these
    if choice in known:
        path = known[choice]
    elif choice.endswith(".toml"):
        path = Path(choice)
    else:
        raise unknown("profile", choice, [*known, "FILE.toml"])
    try:
        table = read_toml(path)
    except OSError as e:
        raise RookeryError(f"cannot read the profile {choice}: {e.strerror}.") from e
    except ValueError as e:
        raise RookeryError(f"{choice} is not valid TOML: {e}.") from e
    return _from_table(choice, table, KNOWN | set(also))


def _from_table(choice: str, table: dict[str, Any], known: Collection[str]) -> Profile:
    for key in table:
        if key not in ENTRIES:
            raise unknown(f"entry of the profile {choice}", key, ENTRIES)
    rates = {key: _number(f"{choice}: {key}", table.get(key)) for key in RATES}
    for key, rate in rates.items():
        if not 0.0 < rate < 1.0:
            raise RookeryError(f"{choice}: {key} must lie between 0 and 1, got {rate:g}.")
    entries = table.get("factors")
    if not isinstance(entries, dict) or not entries:
        raise RookeryError(f"{choice} names no factors: give at least one table such as [factors.mass].")
    wrong = [factor for factor in entries if factor not in known]
    if wrong:
        more = f" (and also {', '.join(wrong[1:])})" if wrong[1:] else ""
        raise unknown(f"factor of the profile {choice}{more}", wrong[0], known)
    factors = {factor: _requirement(f"{choice}: [factors.{factor}]", entry) for factor, entry in entries.items()}
    asked = table.get("figures", {})
    if not isinstance(asked, dict):
        raise RookeryError(f"{choice}: figures takes tables such as [figures.yaw_drift].")
    figures = {figure: _bound(f"{choice}: [figures.{figure}]", entry) for figure, entry in asked.items()}
    return Profile(choice, str(table.get("summary", "")), **rates, factors=factors, figures=figures)


def _bound(where: str, entry: object) -> Bound:
    if not isinstance(entry, dict) or not {"source"} < entry.keys() <= {"least", "most", "source"}:
        raise RookeryError(f"{where} takes least or most, or both, and source.")
    given = {key: _number(f"{where} {key}", entry[key]) for key in ("least", "most") if key in entry}
    bound = Bound(given.get("least", -math.inf), given.get("most", math.inf), _source(where, entry["source"]))
    if bound.least > bound.most:
        raise RookeryError(f"{where} least must be at most most, got {bound.least:g} and {bound.most:g}.")
    return bound


def _source(where: str, text: object) -> str:
    if not isinstance(text, str) or not text.strip():
        raise RookeryError(f"{where} source must say where the range comes from.")
    return text


def _requirement(where: str, entry: object) -> Requirement:
    if not isinstance(entry, dict) or not {"low", "high", "source"} <= entry.keys() <= {
        "low",
        "high",
        "source",
        "idle",
    }:
        raise RookeryError(f"{where} takes low, high and source, and may have idle = true.")
    low, high = (_number(f"{where} {key}", entry[key]) for key in ("low", "high"))
    if low > high:
        raise RookeryError(f"{where} low must be at most high, got {low:g} and {high:g}.")
    source = _source(where, entry["source"])
    if not isinstance(entry.get("idle", False), bool):
        raise RookeryError(f"{where} idle must be true or false, got {entry['idle']!r}.")
    return Requirement(low, high, source, entry.get("idle", False))


def _number(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise RookeryError(f"{where} must be a finite number, got {value!r}.")
    return float(value)
