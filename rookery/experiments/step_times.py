"""Time of an environment's step by its stages: physics, task, observation, resets with randomization, and the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rookery.sim.envs.vec_env import VecEnv

STAGES = ("physics", "task", "observation", "reset", "rest")
"""physics: `World.step`. task: controls, events, rewards and ends. observation: terms, scaling, noise, delay and history.
reset: new episodes with randomization. rest: action check and delay, reward sums, episode statistics, Python."""


class StageClock:
    """Wall time by stage, s; a stage inside another counts for itself alone.

    Attributes:
        seconds: by stage, "rest" not among them.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES[:-1], 0.0)
        self._inside: list[float] = []

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, its time counted for `stage`."""

        def run(*args: Any, **kwargs: Any) -> Any:
            self._inside.append(0.0)
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.perf_counter() - start
                self.seconds[stage] += spent - self._inside.pop()
                if self._inside:
                    self._inside[-1] += spent

        return run

    def shares(self, total: float) -> dict[str, float]:
        """Each stage's share of `total` s, of all `STAGES`; the sum is 1."""
        out = {stage: seconds / total for stage, seconds in self.seconds.items()}
        return out | {"rest": 1.0 - sum(out.values())}


@contextmanager
def stage_clock(env: VecEnv) -> Iterator[StageClock]:
    """Time the stages of an environment's steps until the context ends; after that it is as it was before."""
    from rookery.sim.envs.observation import CleanPipeline, ObservationPipeline

    clock = StageClock()
    task: tuple[str, ...] = ("apply", "advance", "rewards", "terminated", "truncated", "events")
    places: list[tuple[Any, str, str]] = [
        (env.world, "physics", "step"),
        *((env.world, "reset", name) for name in ("reset", "forward")),
        *((env.task, "task", name) for name in task),
        (env, "observation", "observe_terms"),
        (env.task, "reset", "reset"),
        (env.randomization, "reset", "draw"),
        *((kind, "observation", name) for kind in (ObservationPipeline, CleanPipeline) for name in ("push", "restart")),
    ]
    replaced: list[tuple[Any, str, Any]] = []
    missing = object()
    try:
        for owner, stage, name in places:
            replaced.append((owner, name, vars(owner).get(name, missing)))
            setattr(owner, name, clock.timed(stage, getattr(owner, name)))
        yield clock
    finally:
        for owner, name, own in reversed(replaced):
            if own is missing:
                delattr(owner, name)
            else:
                setattr(owner, name, own)
