"""Cost of a step of an environment by worlds, processes and threads: a model that is fitted to measured steps.

A step of N worlds in one process with T threads takes

    c + v N + p N / T

c being Python's constant part, v what no thread shares (terms, observations, rewards, episodes that begin), p the physics
on one processor. In S processes of one thread each, on C processors, it takes

    c S / min(S, C) + (v + p) N / min(S, C) + h S + g N

h being a process's message and reply, g the copies of all worlds' tensors in the process that asks. The model assumes that
processors are alike and do not slow each other (no shared memory bandwidth, no clock that falls, no two threads on one core),
that worlds cost the same, and that nothing else computes. docs/scaling.md has it beside 16 processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass

__all__ = ["DEFAULT_COST", "EQUAL", "StepCost", "TimedStep", "Way", "best_way", "ways_of"]

EQUAL = 0.05
"""Speeds within this share of the fastest count as equal: fewer processors are taken then, and fewer processes."""


@dataclass(frozen=True, order=True)
class Way:
    """One way to step the worlds of an environment.

    Args:
        shards: processes among which the worlds are divided; 1 is the process that asks.
        threads: of the engine and of compiled kernels in each.
    """

    shards: int
    threads: int

    @property
    def processors(self) -> int:
        """Processors that compute at once."""
        return self.shards * self.threads

    def __str__(self) -> str:
        if self.shards > 1:
            return f"{self.shards} shards"
        return f"1 process with {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class TimedStep:
    """A measured control step of all worlds.

    Args:
        way: how they were stepped.
        num_envs: worlds.
        step_s: wall time, s.
    """

    way: Way
    num_envs: int
    step_s: float

    @property
    def rate(self) -> float:
        """Control steps of a world per second, over all worlds."""
        return self.num_envs / self.step_s


@dataclass(frozen=True)
class StepCost:
    """Constants of the model.

    Args:
        fixed_s: c, s.
        world_s: v, s for each world.
        physics_s: p, s for each world on one processor.
        message_s: h, s for each process.
        gather_s: g, s for each world.
    """

    fixed_s: float
    world_s: float
    physics_s: float
    message_s: float
    gather_s: float

    def step_s(self, way: Way, num_envs: int, cores: int) -> float:
        """Wall time of a control step of all worlds on a machine with so many processors, s."""
        parts = _multiples(way, num_envs, cores)
        return sum(m * constant for m, constant in zip(parts, astuple(self), strict=True))

    def rate(self, way: Way, num_envs: int, cores: int) -> float:
        """Control steps of a world per second, over all worlds."""
        return num_envs / self.step_s(way, num_envs, cores)

    def limit(self, way: Way, num_envs: int, cores: int) -> str:
        """Name of the largest part of a step."""
        names = ("Python", "Python by world", "physics", "messages", "copies")
        parts = [m * k for m, k in zip(_multiples(way, num_envs, cores), astuple(self), strict=True)]
        return names[parts.index(max(parts))]

    @classmethod
    def fitted(cls, steps: Sequence[TimedStep], cores: int) -> StepCost:
        """The constants, none below 0, with the least squares of relative errors.

        Args:
            steps: measured, of at least two numbers of worlds and of threads; without several processes h and g are 0.
            cores: processors of the machine.
        """
        import numpy as np
        from scipy.optimize import nnls

        multiples = np.array([_multiples(s.way, s.num_envs, cores) for s in steps])
        times = np.array([s.step_s for s in steps])
        rows = multiples / times[:, None]
        scale = np.maximum(rows.max(axis=0), 1e-300)  # constants differ by a factor of 10,000
        found, _ = nnls(rows / scale, np.ones(len(steps)))
        if not found[:3].any():  # on a busy machine, where processes took next to no time: one process would take none
            single = rows[multiples[:, 3] == 0.0]
            found[:3], _ = nnls(single[:, :3] / scale[:3], np.ones(len(single)))
        return cls(*(float(x) for x in found / scale))


def _multiples(way: Way, num_envs: int, cores: int) -> tuple[float, float, float, float, float]:
    """Multiples of the constants in a step."""
    divided = way.shards > 1
    at_once = min(way.shards, cores)
    physics = num_envs / min(way.processors, cores)
    return way.shards / at_once, num_envs / at_once, physics, way.shards * divided, num_envs * divided


def ways_of(cores: int, num_envs: int, divisible: bool) -> list[Way]:
    """The ways that are worth a measurement: one process with threads, and processes, by powers of two up to all processors.

    Args:
        cores: processors.
        num_envs: worlds; each process has at least 2.
        divisible: worlds can be divided among processes.
    """
    counts = sorted({1 << k for k in range(cores.bit_length())} | {cores})
    threads = [Way(1, count) for count in counts]
    return threads + [Way(count, 1) for count in counts if divisible and count > 1 and num_envs >= 2 * count]


def best_way(ways: Iterable[Way], rate: Callable[[Way], float]) -> tuple[Way, str]:
    """The way to take, and why.

    Args:
        ways: at least one.
        rate: steps per second of each.
    """
    rates = {way: rate(way) for way in ways}
    fastest = max(rates, key=lambda way: rates[way])
    enough = [way for way in rates if rates[way] >= (1.0 - EQUAL) * rates[fastest]]
    taken = min(enough, key=lambda way: (way.processors, way.shards))
    others = [way for way in rates if (way.shards > 1) != (taken.shards > 1)]
    if taken != fastest:
        return taken, f"{fastest} would be faster by {rates[fastest] / rates[taken] - 1.0:.0%}, which is not worth it"
    if not others:
        return taken, f"{rates[taken]:,.0f} steps/s is the most"
    other = max(others, key=lambda way: rates[way])
    return taken, f"{rates[taken]:,.0f} steps/s, {rates[taken] / rates[other]:.2f} times those of {other}"


DEFAULT_COST = StepCost(fixed_s=3.4e-3, world_s=3.8e-6, physics_s=36e-6, message_s=350e-6, gather_s=1.7e-6)
"""Constants of go2-velocity on 16 processors (docs/scaling.md), for tasks that were not measured."""
