"""Observations and actions of agents: the declarations that all other packages read.

A `Term` is written once, in the task. From it come the observation tensor, the randomized noise and delay, the generated
docs and the contract that travels with a trained policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING

from rookery.sim.action_spec import ActionSpec as ActionSpec
from rookery.sim.action_spec import Discrete as Discrete
from rookery.sim.terms import Clock, Expression, Quantity, Recorded, Sensor, clocks_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Command:
    """Something that a task asks of its agents and that a person may set while it runs, as in the viewer.

    Args:
        name: identifier, unique in its task.
        values: [N, d] in each world, the task's own: it acts on what is written here from the next control step on, until it
            chooses anew.
        low, high: least and greatest of each of the d values; () of a place.
        labels: of each of the d values, with its unit; () of a place.
        place: whether it is a point [3] m in the world.
    """

    name: str
    values: Tensor
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    place: bool = False


@dataclass(frozen=True)
class CommandRange:
    """Range of a commanded quantity that a policy meets in training.

    Args:
        low, high: least and greatest of each of its d values, in its unit; of a commanded place, m along the axes of its frame.
        relative_to: of a place, the measured place of which it is the difference, such as "position" for one that is wherever
            the robot is; such a range has 0 in it. "" for the value itself.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    relative_to: str = ""

    @staticmethod
    def common(told: Sequence[Mapping[str, CommandRange]]) -> dict[str, CommandRange]:
        """Ranges of a set of tasks: of each command that has one in all of them. A goal that one of them has as a part of its
        scene has none in the set."""
        shared = [name for name in told[0] if all(name in ranges for ranges in told)]
        return {name: CommandRange.hull([ranges[name] for ranges in told]) for name in shared}

    @classmethod
    def hull(cls, ranges: Sequence[CommandRange]) -> CommandRange:
        """The least range that has all of the given ones in it."""
        low = tuple(min(values) for values in zip(*(r.low for r in ranges), strict=True))
        high = tuple(max(values) for values in zip(*(r.high for r in ranges), strict=True))
        return cls(low, high, ranges[0].relative_to)


@dataclass(frozen=True)
class Term:
    """One named part of an observation.

    The policy sees ``clip((raw + noise * n + bias * b + drift * w) * scale, -clip, clip)``, where n is drawn anew at every
    control step (standard normal), b once an episode (uniform in [-1, 1]), and w is a random walk from 0 of variance 1 a
    second; all only while randomization asks for them.

    Args:
        name: identifier, unique in its group.
        value: the expression that the raw value [N, A, d] is, see rookery.sim.terms. A number d stands for a quantity of d
            values that nobody else has, by the term's own name, `unit` and `frame`.
        unit: SI unit of the raw value, "1" when it has none; that of the expression.
        frame: axes that the raw value is given in ("world", "body"), "" when that has no meaning; that of the expression.
        scale: factor from the raw value to what the network sees.
        clip: symmetric limit after scaling.
        noise: standard deviation of measurement noise, in `unit`.
        bias: half-width of the constant offset of an episode, in `unit`.
        drift: standard deviation of what a random walk adds within a second, in `unit`: of odometry and of gyroscopes' offsets.
        drift_of: the term of the same size whose random walk is added to this one, both being of one estimate; "" for its own.
        delay: age of the measurement in s, rounded to whole control steps; adds to the randomized observation delay.
        hidden: the network gets zeros in its place, so that it has the interface of one that gets the values.
        initial: what it is at an episode's first step, where that is not what the expression says of it: "0".
        estimated: the quantity that no sensor of the robot gives, such as "position", and that the robot must estimate or be
            told; "" for what is measured or known. `noise` and `bias` say how accurate it was in training.
        shape: of pictures: (cameras, rows, columns, channels), whose product is `size`; rows from the top, columns from the
            left, the channels of a pixel side by side. () for what is no picture.
        neighbors: K, of a term that has values of K neighbors side by side, size / K of each; 0 for the agent's own.
        present: of a term of neighbors with one value each, which is above 0 where there is such a neighbor, and 0 for none.

    Raises:
        ValueError: it is `local` and has a delay, unit or frame are not those of the expression, or what is to be a number is
            none.
    """

    name: str
    value: Expression | int
    unit: str = ""
    frame: str = ""
    scale: float = 1.0
    clip: float = math.inf
    noise: float = 0.0
    bias: float = 0.0
    delay: float = 0.0
    hidden: bool = False
    initial: str = ""
    estimated: str = ""
    drift: float = 0.0
    drift_of: str = ""
    shape: tuple[int, ...] = ()
    neighbors: int = 0
    present: bool = False

    def __post_init__(self) -> None:
        for what in ("scale", "clip", "noise", "bias", "delay", "drift"):
            given = getattr(self, what)
            if not isinstance(given, Real) or math.isnan(given) or (what == "scale" and given == 0.0):
                sort = "a number other than 0: hidden=True shows zeros" if what == "scale" else "a number"
                raise ValueError(f"{what} of the term {self.name!r} is {given!r}: give {sort}.")
        if isinstance(self.value, int):
            object.__setattr__(self, "value", Quantity(self.name, self.value, self.unit or "1", self.frame))
        for what in ("unit", "frame"):
            own = getattr(self.expression, what)
            if getattr(self, what) not in ("", own):
                raise ValueError(f"{self.name!r} has the {what} {getattr(self, what)!r}, its expression {own!r}.")
            object.__setattr__(self, what, own)
        object.__setattr__(self, "initial", self.initial or self.expression.initial)
        if self.delay > 0.0 and self.local:
            raise ValueError(f"{self.name!r} never leaves the policy's computer: it has no delay.")

    @property
    def expression(self) -> Expression:
        """The raw value as an expression."""
        assert isinstance(self.value, Expression)
        return self.value

    @property
    def size(self) -> int:
        """Number of values d."""
        return self.expression.size

    @property
    def formula(self) -> str:
        """The expression in words."""
        return self.expression.formula

    @property
    def local(self) -> bool:
        """True where it never leaves the policy's computer: last action, clock, command. It is never delayed or lost."""
        return self.expression.local

    @property
    def recorded(self) -> bool:
        """True where it comes from a contract that says in words alone what it is."""
        return isinstance(self.expression, Recorded)

    def same_frame(self, other: Term) -> bool:
        """True where another term is given in the same axes, as far as both say so."""
        return self.recorded or other.recorded or self.frame == other.frame

    @property
    def sensed(self) -> bool:
        """True where a sensor gives it, which the environment reads."""
        return any(isinstance(q, Sensor) for q in self.expression.leaves())

    @property
    def clock(self) -> Clock | None:
        """The clock that it shows."""
        return next(iter(clocks_of([self.expression])), None)

    @property
    def effective_scale(self) -> float:
        """Factor from the raw value to what the network gets: 0 for a hidden term."""
        return 0.0 if self.hidden else self.scale


@dataclass(frozen=True)
class ObservationSet:
    """Observations of another network than the policy: a critic or a teacher. It is free of noise, bias and delay.

    Args:
        terms: in order, as in `Group.observation`. A term of the policy's set with the same name is the same quantity; scale
            and clip may differ.
        history: H, frames of these terms, the newest one last.
    """

    terms: tuple[Term, ...]
    history: int = 1

    def __post_init__(self) -> None:
        _check_terms("terms of an observation set", self.terms, self.history)

    @property
    def frame_size(self) -> int:
        """Length F of one frame: all terms once."""
        return sum(t.size for t in self.terms)

    @property
    def size(self) -> int:
        """Length O = H F of one agent's vector."""
        return self.history * self.frame_size


Signed = tuple[int, ...]
"""What becomes of a vector in a mirror: entry i is the number, from 1, of the component that stands at place i in the mirrored
vector, with its sign: (-1, 3, 2) takes (a, b, c) to (-a, c, b)."""


def joined(parts: Sequence[Signed]) -> Signed:
    """The mirror of vectors side by side."""
    out: list[int] = []
    for part in parts:
        at = len(out)
        out += [i + at if i > 0 else i - at for i in part]
    return tuple(out)


@dataclass(frozen=True)
class Mirror:
    """Exchange in the vectors of a robot with a left and a right side when both are exchanged. Components that are exchanged
    must have the same scale and clip.

    Args:
        observation: [F], one frame of the policy's terms.
        action: [D].
        state: [S], the environment's `state`; empty where nobody reads it.
    """

    observation: Signed
    action: Signed
    state: Signed = ()

    def __post_init__(self) -> None:
        for what, vector in vars(self).items():
            if sorted(abs(i) for i in vector) != list(range(1, len(vector) + 1)):
                raise ValueError(f"the mirrored {what} must hold each of its components once, got {vector}.")
            signed = dict(enumerate(vector, 1))
            twice = [signed[abs(i)] * (1 if i > 0 else -1) for i in vector]
            if twice != list(signed):
                raise ValueError(f"the mirror of the mirrored {what} must be itself, got {vector}.")


@dataclass(frozen=True)
class Group:
    """Agents that share one observation and one action declaration.

    Args:
        count: number of agents A in each world.
        observation: terms, in the order in which the policy observes them: the set "policy".
        action: the control mode.
        history: H, frames of these terms that an observation holds, one a control step, the newest one last. An
            episode's first frame stands for those before it.
        targets: what a state estimator learns to predict (see rookery.policies.nn.state_estimator); the task gives the
            true values in `Task.observe_privileged`. Their scale and clip count, not their noise, bias and delay.
        future: names of the targets that somebody may tell the agent; in the worlds of `Task.reveal_future_mask` the truth
            stands in for their prediction.
        observation_sets: further sets by name, such as "critic" and "teacher"; `Task.observe_privileged` gives their terms
            that are not in `observation`. A group that declares no "teacher" has one of the terms of `observation`, nothing
            hidden (see `sets`).
        mirror: what left-right symmetry does to these vectors; None for a robot without it.
    """

    count: int
    observation: tuple[Term, ...]
    action: ActionSpec
    history: int = 1
    targets: tuple[Term, ...] = ()
    future: tuple[str, ...] = ()
    observation_sets: Mapping[str, ObservationSet] = field(default_factory=dict)
    mirror: Mirror | None = None

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a group has at least one agent in each world, got {self.count}.")
        _check_terms("observation terms", self.observation, self.history)
        _check_terms("targets", self.targets)
        sizes = {t.name: t.size for t in (*self.observation, *self.targets)}
        for name, declared in self.observation_sets.items():
            if name == "policy":
                raise ValueError('the set "policy" is `observation`: leave it out of observation_sets.')
            for term in declared.terms:
                if sizes.setdefault(term.name, term.size) != term.size:
                    raise ValueError(f"{term.name!r} has two sizes, {sizes[term.name]} and {term.size}.")
        mirror = self.mirror
        if mirror is not None and (len(mirror.observation), len(mirror.action)) != (self.frame_size, self.action.size):
            raise ValueError(
                f"the mirror has {len(mirror.observation)} observed and {len(mirror.action)} commanded components, the group "
                f"{self.frame_size} and {self.action.size}: give a mirror of those sizes, or mirror=None."
            )
        strange = [name for name in self.future if name not in self.target_slices()]
        if strange:
            raise ValueError(f"future names {strange}, which are no targets: those are {list(self.target_slices())}.")

    @property
    def frame_size(self) -> int:
        """Length F of one frame: all terms once."""
        return sum(t.size for t in self.observation)

    @property
    def observation_size(self) -> int:
        """Length O = H F of one agent's observation vector."""
        return self.history * self.frame_size

    @property
    def target_size(self) -> int:
        """Length M of all targets together."""
        return sum(t.size for t in self.targets)

    def privileged(self) -> dict[str, Term]:
        """Terms and targets that the policy does not observe, by name: what `Task.observe_privileged` gives."""
        own = {t.name for t in self.observation}
        terms = [*self.targets, *(t for s in self.observation_sets.values() for t in s.terms)]
        return {t.name: t for t in terms if t.name not in own}

    def sets(self) -> dict[str, ObservationSet]:
        """All sets but "policy", by name: those declared, and "teacher" in any case."""
        plain = ObservationSet(tuple(replace(t, hidden=False) for t in self.observation))
        return {"teacher": plain, **self.observation_sets}

    def slices(self) -> dict[str, slice]:
        """Places of each term's newest value in the observation vector."""
        return _places(self.observation, self.observation_size - self.frame_size)

    def target_slices(self) -> dict[str, slice]:
        """Place of each target in the vector of targets."""
        return _places(self.targets, 0)


def _check_terms(what: str, terms: tuple[Term, ...], history: int = 1) -> None:
    names = [t.name for t in terms]
    if len(set(names)) != len(names):
        raise ValueError(f"{what} must have different names, got {names}")
    if history < 1:
        raise ValueError(f"history is {history}: an observation has at least 1 frame.")
    for t in terms:
        if t.shape and (len(t.shape) != 4 or min(t.shape) < 1 or math.prod(t.shape) != t.size):
            raise ValueError(
                f"{t.name!r} of size {t.size} cannot have the shape {t.shape}: cameras, rows, columns, channels."
            )
        if (t.neighbors and t.size % t.neighbors) or (t.present and t.size != t.neighbors):
            raise ValueError(
                f"{t.name!r} of size {t.size} cannot have values of {t.neighbors} neighbors, as many of each."
            )


def _places(terms: tuple[Term, ...], at: int) -> dict[str, slice]:
    """Places of terms that follow each other from `at` on."""
    out = {}
    for t in terms:
        out[t.name] = slice(at, at + t.size)
        at += t.size
    return out


@dataclass(frozen=True)
class Weights(Mapping[str, float]):
    """Reward weights by term name, read like a dict and shown in full in configs and checkpoints.

    ``Weights(distance=-0.5, close=1.0)``
    """

    values_by_name: dict[str, float] = field(default_factory=dict)

    def __init__(self, **weights: float) -> None:
        found = {k: float(v) for k, v in weights.items()}
        for name, weight in found.items():
            if not math.isfinite(weight):
                raise ValueError(f"the weight of the reward term {name!r} must be a finite number, got {weight}.")
        object.__setattr__(self, "values_by_name", found)

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.values_by_name.items())))
