"""Demands of hardware on a policy: a range for each factor, with where it comes from."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.untrusted import read_toml
from rookery.sim.values import from_values
from rookery.sim2real.gate.factors import KNOWN

FOLDER = Path(__file__).parent / "profiles"
BY_TASK = {
    "drone-": "crazyflie-indoor", "swarm-": "crazyflie-indoor", "volley-": "crazyflie-indoor", "go2": "go2-lab",
    "table-": "panda-bench", "panda-": "panda-bench", "dual-panda-": "panda-bench",
}  # fmt: skip
"""The profile of a task by the beginning of its name."""
Rate = Annotated[float, Meta(gt=0.0, lt=1.0)]


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
        source: why.
        least, most: in the figure's unit; -inf and inf where there is none.
    """

    source: str
    least: float = -math.inf
    most: float = math.inf


@dataclass(frozen=True)
class _Table:
    """The values of a profile's file, see Profile."""

    success: Rate
    combinations: Rate
    worst: Rate
    factors: dict[str, Requirement] = field(default_factory=dict)
    figures: dict[str, Bound] = field(default_factory=dict)
    summary: str = ""


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
        sha256: of its file.
    """

    name: str
    summary: str
    success: float
    combinations: float
    worst: float
    factors: Mapping[str, Requirement]
    figures: Mapping[str, Bound] = field(default_factory=dict)
    sha256: str = ""


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
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return dataclasses.replace(_from_table(choice, table, KNOWN | set(also)), sha256=sha256)


def _from_table(choice: str, table: dict[str, Any], known: Collection[str]) -> Profile:
    found = from_values(_Table, table, f"entry of the profile {choice}", inside=f"{choice}: ")
    if not found.factors:
        raise RookeryError(f"{choice} names no factors: give at least one table such as [factors.mass].")
    wrong = [factor for factor in found.factors if factor not in known]
    if wrong:
        more = f" (and also {', '.join(wrong[1:])})" if wrong[1:] else ""
        raise unknown(f"factor of the profile {choice}{more}", wrong[0], known)
    for name, factor in found.factors.items():
        _check_range(f"{choice}: factors.{name}", factor.low, factor.high, ("low", "high"), factor.source)
    for name, bound in found.figures.items():
        if math.isinf(bound.least) and math.isinf(bound.most):
            raise RookeryError(f"{choice}: figures.{name} takes least or most, or both, and source.")
        _check_range(f"{choice}: figures.{name}", bound.least, bound.most, ("least", "most"), bound.source)
    return Profile(
        choice,
        found.summary,
        found.success,
        found.combinations,
        found.worst,
        factors=found.factors,
        figures=found.figures,
    )


def _check_range(where: str, low: float, high: float, names: tuple[str, str], source: str) -> None:
    if low > high:
        raise RookeryError(f"{where}.{names[0]} must be at most {names[1]}, got {low:g} and {high:g}.")
    if not source.strip():
        raise RookeryError(f"{where}.source must say where the range comes from.")
