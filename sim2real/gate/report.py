"""Findings of the gate, its verdict and its score, as JSON values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from rookery.sim2real.gate.combinations import Combinations, Wider
from rookery.sim2real.gate.sweep import Tried

FORMAT = "rookery-gate"
VERSION = 4
ENGINE = "engine "
"""Beginning of the names of cases on other engines."""
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Case:
    """A policy under one condition.

    Args:
        name: of the condition, such as "engine mujoco".
        verdict: "pass", "fail", "skipped" where it could not be run here, or "not applicable" where there is no such case.
        success: success rate; None where it was not run.
        low, high: its 95 % interval.
        required: the least success rate.
        note: why it was not run, or what else was measured.
    """

    name: str
    verdict: str
    success: float | None = None
    low: float | None = None
    high: float | None = None
    required: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Margin:
    """Reach of one factor in one direction.

    Args:
        factor: its name.
        direction: "down" or "up".
        unit: of the values; "1" for a factor on the nominal value.
        nominal: where the sweep began.
        required: what the profile requires; None where it requires nothing in this direction.
        value: the farthest value up to which every value tried succeeds; nominal where none does, or nominal fails.
        beyond: the first value that fails; None where the limit of the search succeeds.
        success, low, high: success rate at `value` and its 95 % interval.
        coverage: the share of the required distance that succeeds, 0 to 1, see `Side.coverage`.
        verdict: "pass", "fail", "no effect", or "" where nothing is required.
        source: of the requirement.
        tried: all values, from nominal outward.
    """

    factor: str
    direction: str
    unit: str
    nominal: float
    required: float | None
    value: float
    beyond: float | None
    success: float
    low: float
    high: float
    coverage: float
    verdict: str
    source: str
    tried: list[Tried]


@dataclass(frozen=True)
class Figure:
    """A figure beside success, its mean over the nominal episodes.

    Args:
        name: of the metric.
        value: the mean; None where no nominal episode has the figure.
        least, most: what the profile asks for; None where it asks for nothing on that side.
        meaning: what it is, with its unit.
        source: of what is asked for.
        missing: nominal episodes that have none and are left out.
    """

    name: str
    value: float | None
    least: float | None
    most: float | None
    meaning: str
    source: str
    missing: int = 0

    @property
    def passes(self) -> bool:
        """True where the value lies within; none does where no episode has the figure."""
        if self.value is None:
            return False
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)


@dataclass(frozen=True)
class Report:
    """The whole of it.

    Args:
        task, run, engine, profile, summary: what was tested against what.
        episodes: at each point.
        interval: half-width of the 95 % interval at the required success, as asked for.
        seed: of the episodes.
        required: least success of every point.
        cases: nominal physics first.
        margins: of all factors.
        combinations: within the profile's ranges; None where the task has none of the factors.
        required_combinations, required_worst: least success of those.
        lacking: factors of the profile that the task lacks: skipped.
        without_effect: factors that changed nothing.
        wider: success over combinations from wider ranges, which nothing requires; empty where none were drawn.
        episodes_run: of the sweeps and combinations together.
        seconds: the whole took.
        figures: beside success, see `Figure`.
        left_out: parts of the gate that were not run on request, such as "combinations"; without any but other engines nothing
            passes.
        not_as_registered: what people should know of what judged, one line each: values that belong to the policy, values of
            the training in whose place the registered ones stand, a task's file.
        judged_by: the same as JSON values, with the task's code.
        profile_sha256: of the profile's file.
        opponents: teams of a game that the task's controller played.
    """

    task: str
    run: str
    engine: str
    profile: str
    summary: str
    episodes: int
    interval: float
    seed: int
    required: float
    cases: list[Case]
    margins: list[Margin]
    combinations: Combinations | None
    required_combinations: float
    required_worst: float
    lacking: list[str]
    without_effect: list[str]
    wider: list[Wider] = field(default_factory=list)
    episodes_run: int = 0
    seconds: float = 0.0
    figures: list[Figure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    not_as_registered: list[str] = field(default_factory=list)
    judged_by: dict[str, Any] = field(default_factory=dict)
    profile_sha256: str = ""
    opponents: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """Parts that do not pass, one short line each."""
        out = [c.name for c in self.cases if c.verdict == "fail"]
        out += [
            f"{m.factor} {m.direction}{'' if m.verdict == 'fail' else ' (no effect)'}"
            for m in self.margins
            if m.verdict in ("fail", "no effect")
        ]
        out += [f.name for f in self.figures if not f.passes]
        if self.combinations is not None:
            out += ["combinations"] * (self.combinations.success < self.required_combinations)
            out += ["worst combination"] * (self.combinations.worst_success < self.required_worst)
        return out

    @property
    def skipped(self) -> list[str]:
        """Cases that could not be run here."""
        return [c.name for c in self.cases if c.verdict == "skipped"]

    @property
    def verdict(self) -> str:
        """ "fail" where anything fails, or else "incomplete" where a case was skipped or a part left out, or else "pass"."""
        missing = self.skipped or any(not part.startswith(ENGINE) for part in self.left_out)
        return "fail" if self.failures else "incomplete" if missing else "pass"

    @property
    def passed(self) -> bool:
        """True where the gate was run, and everything that the profile requires is met."""
        return self.verdict == "pass"

    @property
    def score(self) -> float:
        """0 to 1: the mean of three: the mean coverage of the required directions, where a factor that has no effect and must
        have one covers nothing; the mean success over random combinations; that over combinations from wider ranges, by which
        policies differ that have all that is required. What was not drawn is left out of the mean. Without requirements it is
        the nominal success."""
        required = [m for m in self.margins if m.required is not None and (m.verdict or m.coverage < 1.0)]
        if not required:
            return self.cases[0].success or 0.0
        parts = [sum(0.0 if m.verdict == "no effect" else m.coverage for m in required) / len(required)]
        if self.combinations is not None:
            parts.append(self.combinations.success)
        if self.wider:
            parts.append(sum(w.success for w in self.wider) / len(self.wider))
        return sum(parts) / len(parts)

    def to_json(self) -> dict[str, Any]:
        """JSON values: the fields, with format, version, verdict, score, failures and skipped cases."""
        head = {"format": FORMAT, "version": VERSION, "verdict": self.verdict, "score": self.score}
        return {**head, "failures": self.failures, "skipped": self.skipped, **dataclasses.asdict(self)}
