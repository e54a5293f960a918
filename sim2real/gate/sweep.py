"""Search for how far each factor can depart from its nominal value, in both directions, until a policy fails.

All sides of all factors are searched together, so that each round is one batch of worlds. The first round tries the end of the
range that a profile requires, the middle of the way there, and the limit of the search; every further round divides the stretch
between the last success and the first failure. Points share their episodes, so that the success falls with the distance up to
what the physics itself does otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from rookery.sim.randomization.parameters import Parameter
from rookery.sim2real.gate.profile import Requirement
from rookery.sim2real.gate.trials import Outcome, Point, PointRunner

REACH = 4.0
"""The search goes to this many times the distance that a profile requires, or as far as the factor goes."""
NO_STEPS: Mapping[str, float] = MappingProxyType({})
BETWEEN = 3
"""Values tried in each round between the last success and the first failure."""


@dataclass(frozen=True)
class Tried:
    """The success at one value of a factor."""

    value: float
    success: float
    low: float
    high: float


@dataclass
class Side:
    """One direction of one factor.

    Args:
        factor: its name.
        unit: of its values.
        nominal: where it begins.
        limit: the farthest value that is tried.
        required: the value that a profile requires; None for none on this side.
        outcomes: by value tried.
        step: what values are whole multiples of, as the physics applies them: a delay in physics steps; 0 for any value.
    """

    factor: str
    unit: str
    nominal: float
    limit: float
    required: float | None
    outcomes: dict[float, Outcome] = field(default_factory=dict)
    step: float = 0.0

    def place(self, value: float) -> float:
        """Distance of a value from nominal (0) to the limit (1); of positive factors in the logarithm."""
        if self._ratio:
            return math.log(value / self.nominal) / math.log(self.limit / self.nominal)
        return (value - self.nominal) / (self.limit - self.nominal)

    def at(self, place: float) -> float:
        """The value at a place."""
        if self._ratio:
            return self.nominal * math.exp(place * math.log(self.limit / self.nominal))
        return self.nominal + place * (self.limit - self.nominal)

    @property
    def _ratio(self) -> bool:
        return self.unit == "1" and self.nominal > 0.0 and self.limit > 0.0

    def bracket(self, threshold: float) -> tuple[float, float | None]:
        """The last value of those tried, from nominal outward, up to which all succeed, and the first that fails, None where
        all succeed. Nominal itself counts as a success."""
        last = self.nominal
        for value in sorted(self.outcomes, key=self.place):
            if self.outcomes[value].rate < threshold:
                return last, value
            last = value
        return last, None

    def next(self, threshold: float) -> list[float]:
        """Values for the next round; none where the limit succeeds."""
        if not self.outcomes:
            if self.required is None:
                return self._runnable([*(self.at((i + 1) / (BETWEEN + 1)) for i in range(BETWEEN)), self.limit])
            first = [self.at(0.5 * self.place(self.required)), self.required]
            return self._runnable(first if self.required == self.limit else [*first, self.limit])
        last, failed = self.bracket(threshold)
        if failed is None:
            return []
        near, far = self.place(last), self.place(failed)
        return self._runnable([self.at(near + (far - near) * (i + 1) / (BETWEEN + 1)) for i in range(BETWEEN)])

    def _runnable(self, values: Sequence[float]) -> list[float]:
        """Points that are run for values: themselves, or the untried multiples of `step` on both sides of each."""
        if not self.step:
            return list(values)
        near = {whole(value / self.step) for value in values for whole in (whole_below, whole_above)}
        run = [k * self.step for k in sorted(near)]
        return [v for v in run if v != self.nominal and v not in self.outcomes and self.place(v) <= 1.0 + 1e-6]

    def coverage(self, threshold: float, nominal_rate: float) -> float:
        """The share of the required distance that succeeds, 0 to 1; 1 where nothing is required.

        It ends where the success rate crosses the threshold on a straight line from the last value that succeeds to the first
        that fails: between few values this scatters less from seed to seed than the last value itself.
        """
        if self.required is None:
            return 1.0
        if nominal_rate < threshold:
            return 0.0
        last, failed = self.bracket(threshold)
        end = last
        if failed is not None:
            good = self.outcomes[last].rate if last in self.outcomes else nominal_rate
            end += (failed - last) * (good - threshold) / (good - self.outcomes[failed].rate)
        return min(1.0, (end - self.nominal) / (self.required - self.nominal))

    def tried(self) -> list[Tried]:
        """All values from nominal outward."""
        values = sorted(self.outcomes, key=self.place)
        return [Tried(v, self.outcomes[v].rate, *self.outcomes[v].interval) for v in values]


def whole_below(multiple: float) -> int:
    """The whole number at or below, but for rounding."""
    return math.floor(multiple + 1e-6)


def whole_above(multiple: float) -> int:
    """The whole number at or above, but for rounding."""
    return math.ceil(multiple - 1e-6)


def sides_of(
    parameters: Mapping[str, Parameter],
    required: Mapping[str, Requirement],
    beyond: bool = True,
    steps: Mapping[str, float] = NO_STEPS,
) -> list[Side]:
    """The sides to be searched.

    Args:
        parameters: factors of the task, by name.
        required: ranges of the profile, by name.
        beyond: also what is not required: other factors and directions, and farther than the required ends.
        steps: of factors whose values are whole multiples of one, by name. A required end between two of them is bracketed.
    """
    out = []
    for name, p in parameters.items():
        wanted = required.get(name)
        ends = (wanted.low, wanted.high) if wanted else p.typical or (p.low, p.high)
        reach = REACH * max(abs(end - p.nominal) for end in ends)
        low, high = (max(p.low, p.nominal - reach), min(p.high, p.nominal + reach))
        for limit, end in ((low, ends[0]), (high, ends[1])):
            outward = 1.0 if limit == high else -1.0
            if not math.isfinite(limit) or limit == p.nominal:
                continue
            need = end if wanted and (end - p.nominal) * outward > 0.0 else None
            if need is not None:
                need = max(min(need, p.high), p.low)
                limit = limit if abs(limit - p.nominal) > abs(need - p.nominal) else need
            if not beyond:
                if need is None:
                    continue
                limit = need
            step = steps.get(name, 0.0)
            if step:
                limit = min(whole_above(limit / step), whole_below(p.high / step)) * step
            out.append(Side(name, p.unit, float(p.nominal), float(limit), need, step=step))
    return out


def search(
    trials: PointRunner,
    sides: Sequence[Side],
    threshold: float,
    rounds: int,
    note: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Try values of all sides, round by round; returns the nominal outcome.

    Args:
        trials: runs the policy.
        sides: filled with outcomes.
        threshold: success rate from which a value counts as a success.
        rounds: how often stretches are divided after the first values.
        note: called with a line before each round.
    """
    nominal: Outcome | None = None
    for _ in range(rounds + 1):
        asked = [(side, value) for side in sides for value in side.next(threshold)]
        if not asked and nominal is not None:
            break
        note(f"{len(asked)} values of factors")
        points: list[Point] = [{side.factor: value} for side, value in asked]
        found = trials.run(points if nominal else [*points, {}])
        nominal = nominal or found.pop()
        for (side, value), outcome in zip(asked, found, strict=True):
            side.outcomes[value] = outcome
        if nominal.rate < threshold:
            break
    assert nominal is not None
    return nominal


def without_effect(sides: Sequence[Side], nominal: Outcome) -> list[str]:
    """Factors whose every value gave exactly the nominal episodes: they are not applied, or nothing depends on them."""
    acts = {side.factor for side in sides if any(not o.same(nominal) for o in side.outcomes.values())}
    return [name for name in dict.fromkeys(side.factor for side in sides) if name not in acts]
