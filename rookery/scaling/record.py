"""Measurements of tasks on this machine, in the user's cache folder, from which `--shards auto` chooses."""

from __future__ import annotations

import json
import math
import os
import platform
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from rookery.scaling.cost import StepCost, TimedStep, Way, best_way, ways_of
from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace
from rookery.sim.untrusted import read_json

__all__ = ["MeasuredTask", "record_file", "remember_task", "remembered_task"]


@dataclass(frozen=True)
class MeasuredTask:
    """Steps of a task that were measured on a machine with so many processors, and the model that was fitted to them.

    Args:
        cores: processors.
        steps: measured.
        cost: fitted to them.
    """

    cores: int
    steps: tuple[TimedStep, ...]
    cost: StepCost

    def rate(self, way: Way, num_envs: int) -> float:
        """Steps per second: as measured for this number of worlds, and carried to another one by the model.

        The nearest measurement of the same way corrects the model; a way that was not measured has the model's rate.
        """
        modeled = self.cost.rate(way, num_envs, self.cores)
        same = [step for step in self.steps if step.way == way]
        if not same:
            return modeled
        nearest = min(same, key=lambda step: abs(math.log(step.num_envs / num_envs)))
        return modeled * nearest.rate / self.cost.rate(way, nearest.num_envs, self.cores)

    def choice(self, num_envs: int, divisible: bool) -> tuple[Way, str]:
        """The way to take with so many worlds, and why; `divisible` as of `ways_of`."""
        return best_way(ways_of(self.cores, num_envs, divisible), lambda way: self.rate(way, num_envs))


def remember_task(task: str, engine: str, measured: MeasuredTask) -> Path:
    """Keep a measurement for this user and machine in place of an earlier one; returns the file.

    Raises:
        RookeryError: it cannot be written.
    """
    values = _read()
    steps = [[step.way.shards, step.way.threads, step.num_envs, step.step_s] for step in measured.steps]
    values[_key(task, engine, measured.cores)] = {"steps": steps, "cost": list(astuple(measured.cost))}
    try:
        file = record_file()
        make_folder(file.parent)
        replace(file, (json.dumps(values, indent=1) + "\n").encode())
    except (OSError, RuntimeError) as error:  # the latter from a user without a home
        raise RookeryError(
            f"cannot write the measurement ({error}): set XDG_CACHE_HOME to a folder of yours."
        ) from error
    return file


def remembered_task(task: str, engine: str) -> MeasuredTask | None:
    """The measurement of a task on this machine with as many processors as now; None without one."""
    cores = usable_cores()
    values = _read().get(_key(task, engine, cores))
    try:
        return None if values is None else _measured(values, cores)
    except (ValueError, TypeError, KeyError, ArithmeticError):
        return None


def _measured(values: dict[str, Any], cores: int) -> MeasuredTask:
    """A measurement from its JSON values.

    Raises:
        ValueError, TypeError, KeyError, ArithmeticError: they are none.
    """
    steps = tuple(TimedStep(Way(int(s), int(t)), int(n), float(time)) for s, t, n, time in values["steps"])
    cost = StepCost(*(float(x) for x in values["cost"]))
    counts = [x for step in steps for x in (step.way.shards, step.way.threads, step.num_envs)]
    ways = [(Way(1, 1), 1), *((step.way, step.num_envs) for step in steps)]
    rates = [step.rate for step in steps] + [cost.rate(way, worlds, cores) for way, worlds in ways]
    # a number of JSON may be NaN, infinite, or so large or small that a rate is
    if min(counts, default=0) < 1 or not min(astuple(cost)) >= 0.0 or not all(0.0 < rate < math.inf for rate in rates):
        raise ValueError("no measured steps")
    return MeasuredTask(cores, steps, cost)


def _key(task: str, engine: str, cores: int) -> str:
    return f"{platform.node()}, {cores} processors: {task} on {engine}"


def record_file() -> Path:
    """Path of the file with all measurements of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rookery" / "scale.json"


def _read() -> dict[str, Any]:
    """All measurements; none of a file that is damaged or not there."""
    try:
        values = read_json(record_file())
    except (OSError, ValueError, RuntimeError):
        return {}
    return values if isinstance(values, dict) else {}
