"""Times of a task's steps and of a learner's iterations by processes and threads, on this machine."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.scaling.cost import StepCost, TimedStep, Way, ways_of
from rookery.scaling.record import MeasuredTask
from rookery.sim.cores import limit_cores, usable_cores

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.experiments.settings import RunSettings
    from rookery.sim.env import Env
    from rookery.sim.specs import Group

__all__ = [
    "TimedIteration", "at_most", "divisible", "env_slice", "measure_iteration", "measure_steps", "measure_task",
    "random_actions",
]  # fmt: skip

FEW = 8
"""Of so many worlds one is in the second measurement of a way, which tells constant costs from those of a world."""
WARM_STEPS = 4
"""Steps before the clock runs, in which kernels are compiled and caches filled."""


@dataclass(frozen=True)
class TimedIteration:
    """A measured iteration of a training.

    Args:
        way: how the worlds were stepped; the learner had this way's threads, and all processors beside shards.
        collect_s: s in which steps were made, with the policy's actions.
        learn_s: s of the update.
    """

    way: Way
    collect_s: float
    learn_s: float

    @property
    def learner_share(self) -> float:
        """Share of the update in the iteration."""
        return self.learn_s / (self.collect_s + self.learn_s)


@contextmanager
def at_most(cores: int) -> Iterator[None]:
    """Let engines, compiled kernels and learners that are made in this context use no more processors than that."""
    import numba
    import torch

    before = limit_cores(cores), torch.get_num_threads(), numba.get_num_threads()
    numba.set_num_threads(min(cores, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    torch.set_num_threads(cores)  # last: with OpenMP, Numba's call sets what torch reads
    try:
        yield
    finally:
        limit_cores(before[0])
        numba.set_num_threads(before[2])
        torch.set_num_threads(before[1])


def divisible(settings: RunSettings) -> bool:
    """True where the worlds of a training can be divided among processes."""
    from rookery.making import is_divisible
    from rookery.tasks.registry import find

    entry = find(settings.task)
    alone = settings.randomize_curriculum or settings.opponents is not None
    config = settings.training_config
    return not alone and is_divisible(entry, settings.engine or entry.engines[0], config)


def measure_task(
    settings: RunSettings,
    seconds: float,
    rounds: int = 2,
    oversubscribed: bool = False,
    told: Callable[[TimedStep], None] = lambda step: None,
) -> MeasuredTask:
    """Measure a task's steps in all ways that are worth it, and fit the model.

    Ways of one and two processors are measured with an eighth of the worlds too, which tells the constants apart. Every round
    makes each environment anew, in the other order than the round before; the median step of the fastest round counts, since
    whatever else the machine does makes steps slower.

    Args:
        settings: of the training that makes the steps; its worlds, engine, randomization and values of the task's config count.
        seconds: of stepping for each way in each round, s.
        rounds: at least 1.
        oversubscribed: measure two processes a processor, too.
        told: called with each measurement.

    Raises:
        RookeryError: settings that do not exist or fit.
    """
    from rookery.tasks.registry import find

    cores = usable_cores()
    n = settings.num_envs
    can = divisible(settings)
    ways = ways_of(cores, n, can)
    if oversubscribed and can and n >= 4 * cores:
        ways.append(Way(2 * cores, 1))
    few = max(n // FEW, len(find(settings.task).members), 1)  # a set needs a world for each task
    points = [(way, n) for way in ways]
    points += [(way, few) for way in ways if way.processors <= 2 and few >= 2 * way.shards and few < n]
    best: dict[tuple[Way, int], float] = {}
    for turn in range(rounds):
        for way, worlds in points if turn % 2 == 0 else reversed(points):
            step_s = measure_steps(settings, way, worlds, seconds)
            best[way, worlds] = min(step_s, best.get((way, worlds), step_s))
            if turn == rounds - 1:
                told(TimedStep(way, worlds, best[way, worlds]))
    steps = tuple(TimedStep(way, worlds, best[way, worlds]) for way, worlds in points)
    return MeasuredTask(cores, steps, StepCost.fitted(steps, cores))


def measure_steps(settings: RunSettings, way: Way, num_envs: int, seconds: float) -> float:
    """Median wall time of a step with random actions, s.

    Args:
        settings: as of `measure_task`, but its number of worlds.
        way: how the worlds are stepped.
        num_envs: worlds.
        seconds: of stepping, s.
    """
    from rookery.making import make
    from rookery.sim.threads import one_thread_each

    options: dict[str, Any] = {"engine": settings.engine, "seed": settings.seed, "randomize": settings.randomize}
    config = settings.training_config
    with at_most(way.threads if way.shards == 1 else usable_cores()):
        env = make(settings.task, num_envs, config=config, shards=way.shards, **options)
        try:
            actions = random_actions(env)
            env.reset()
            env.stagger()
            for i in range(WARM_STEPS):
                env.step(actions[i])
            return one_thread_each(_median_step)(env, actions, seconds)
        finally:
            env.close()


def _median_step(env: Env, actions: Sequence[dict[str, Tensor]], seconds: float) -> float:
    """Median time of the steps of some seconds, s: other work of the machine seldom falls on most of them."""
    times: list[float] = []
    while sum(times) < seconds:
        start = time.perf_counter()
        env.step(actions[len(times) % len(actions)])
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure_iteration(settings: RunSettings, way: Way, warm: bool = True) -> TimedIteration:
    """Time an iteration of a training.

    Args:
        settings: of the training.
        way: how its worlds are stepped.
        warm: make an iteration before, in which kernels are compiled.

    Raises:
        RookeryError: settings that do not exist or fit.
    """
    from rookery.experiments.algorithm import begin
    from rookery.policies.training.runner import Runner

    settings = dataclasses.replace(settings, shards=str(way.shards))
    with at_most(way.threads if way.shards == 1 else usable_cores()), tempfile.TemporaryDirectory() as folder:
        settings, algorithm, _ = begin(settings, settings.randomize)
        try:
            runner = Runner(algorithm, settings.runner, Path(folder))
            rows = [runner.iterate() for _ in range(2 if warm else 1)]
        finally:
            algorithm.close()
            algorithm.env.close()
    return TimedIteration(way, rows[-1]["collect_s"], rows[-1]["learn_s"])


def random_actions(env: Env) -> list[dict[str, Tensor]]:
    """Some sets of uniform actions, whatever a mask allows, made before a clock runs."""
    import torch

    generator = torch.Generator().manual_seed(0)

    def draw(group: Group) -> Tensor:
        action = torch.rand(env.num_envs, group.count, group.action.size, generator=generator) * 2 - 1
        for k, choice in enumerate(group.action.choices):
            action[..., k] = torch.randint(len(choice.options), action.shape[:-1], generator=generator)
        return action.to(env.device)

    return [{name: draw(group) for name, group in env.groups.items()} for _ in range(16)]


def env_slice(env: Env, actions: Sequence[dict[str, Tensor]], seconds: float) -> float:
    """Control steps per second of an environment over some seconds, all worlds together counted once."""
    start = time.perf_counter()
    steps = 0
    while True:
        env.step(actions[steps % len(actions)])
        steps += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return steps / elapsed
