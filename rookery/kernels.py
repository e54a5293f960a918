"""The compiled kernels of all tasks: compiles those that this machine's caches lack, and says when that happens.

Numba compiles a kernel at its first call and keeps it beside its source file, or in the user's cache where that folder
cannot be written. Which kernels there are and with which arguments they are called is known only to the tasks, so each one
is made small and run for some steps.
"""

from __future__ import annotations

import functools
import io
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rookery.sim.compiling import Compilations
from rookery.tasks.registry import OWN_TASKS, find

NOTICE = (
    "rookery: compiling kernels for this machine, once, in a minute or two (`rookery doctor --compile` does all) ..."
)
LEARNING_NOTICE = (
    "rookery: compiling the kernels of the gradient steps for this machine, once, in less than a minute (`rookery doctor "
    "--compile` does all) ..."
)
PROGRESS_S = 10.0
"""s between lines that say how many functions have been compiled since a notice."""
ABOVE = "ppo above skills"
"""A learning job: PPO of decisions among these skills."""
SKILLS = 'every = 5\n[skills.lead]\npolicy = "drone-hover"\nshift.position_error = 0.5\n[skills.stay]\npolicy = "drone-hover"\n'
STEPS = 3
"""Control steps of each environment: the first ends no episode, the last ones have an action to delay."""

MOST_PROCESSES = 8
"""Processes that compile at the same time: each takes half a gigabyte, and more have nothing left to share."""


@dataclass(frozen=True)
class KernelCase:
    """One environment that calls kernels which the others do not, or with other arguments."""

    task: str
    engine: str | None = None
    randomize: str = "default"
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """A few words for a progress line."""
        values = [f"{name}={value}" for name, value in self.config.items()]
        return " ".join([self.task, *([self.engine] if self.engine else []), *values])


def cases() -> Iterator[KernelCase]:
    """Every task of this package on its first engine, and what else has kernels: engines, actions, sensors, wind, pushes."""
    from rookery.robots.drones.drone import LEVELS
    from rookery.robots.manipulators.action_kinds import action_kinds
    from rookery.sim.sensors.cameras import KINDS

    yield KernelCase("drone-hover", randomize="none")
    for task in sorted(OWN_TASKS):
        if not find(task).members:
            yield KernelCase(task)
    for engine in find("drone-hover").engines[1:]:
        yield KernelCase("drone-hover", engine)
    yield KernelCase("volley-3v3", "mujoco")
    yield KernelCase("drone-hover", "mujoco", config={"wind": (1.0, 0.0, 0.0)})
    for task in ("drone-hover", "go2-velocity"):  # lost actions, pushes
        yield KernelCase(task, randomize="all")
    for action in LEVELS:
        yield KernelCase("drone-hover", config={"action": action})
        yield KernelCase("drone-hover", "mujoco", config={"action": action})
    for action in action_kinds():
        yield KernelCase("panda-lift", config={"action": action})
    for obs in KINDS:
        yield KernelCase("drone-hover", config={"obs": obs})
    yield KernelCase("table-push", config={"obs": "points"})


def compile_all(progress: Callable[[str], None] = print) -> int:
    """Compile every kernel that is not in the caches yet; see `compile_for`."""
    return compile_for([*cases(), "ppo", ABOVE, "sac"], progress)


def compile_for(jobs: Sequence[KernelCase | str], progress: Callable[[str], None] = print) -> int:
    """Compile the kernels of some environments and algorithms that are not in the caches yet, in as many processes as there
    are cores.

    Args:
        jobs: environments, and names of algorithms. The first is compiled before the others, which share its kernels.
        progress: takes one line for each of them that had kernels to compile, and a last one.

    Returns:
        The number of compiled functions.
    """
    begin = time.perf_counter()
    first, others = jobs[0], _from_both_ends(list(jobs[1:]))
    done = 0

    def report(i: int, job: KernelCase | str, count: int, spent: float) -> None:
        nonlocal done
        done += count
        if count:
            title = job.title if isinstance(job, KernelCase) else f"learning by {job}"
            progress(f"[{i}/{len(others) + 1}] {title}: {count} functions compiled in {spent:.0f} s")

    report(1, first, *_compile(first))  # what all share
    with ProcessPoolExecutor(min(os.cpu_count() or 1, MOST_PROCESSES), multiprocessing.get_context("spawn")) as pool:
        for i, (job, found) in enumerate(zip(others, pool.map(_compile, others), strict=True)):
            report(i + 2, job, *found)
    what = f"{done} functions compiled" if done else "all kernels were compiled before"
    progress(f"kernels: {what}, {time.perf_counter() - begin:.0f} s")
    return done


def _from_both_ends(jobs: list[KernelCase | str]) -> list[KernelCase | str]:
    """The first, the last, the second, ...: neighbours call the same kernels, which two processes would both compile."""
    half = (len(jobs) + 1) // 2
    pairs = itertools.zip_longest(jobs[:half], jobs[: half - 1 : -1])
    return [job for pair in pairs for job in pair if job is not None]


def _compile(job: KernelCase | str) -> tuple[int, float]:
    """Run an environment, or the learning by an algorithm: how many functions were compiled, and the time, s."""
    count = Compilations()
    start = time.perf_counter()
    if isinstance(job, KernelCase):
        _step(job)
    else:
        _learn(job)
    count.stop()
    return count.done, time.perf_counter() - start


@functools.cache
def announce_compiling() -> None:
    """Print `NOTICE` on standard error when this process begins to compile a kernel, once; and `LEARNING_NOTICE` likewise when
    it is one of the gradient steps, minutes after the first perhaps, since these come after a rollout or more. Where it takes
    long, a line every `PROGRESS_S` says how far it is."""
    said: set[str] = set()
    last = time.monotonic()

    def announce(module: str) -> None:
        nonlocal last
        now = time.monotonic()
        notice = LEARNING_NOTICE if module.startswith("rookery.policies.") else NOTICE
        if notice not in said:
            said.add(notice)
            last = now
            print(notice, file=sys.stderr, flush=True)
        elif now - last >= PROGRESS_S:
            last = now
            print(f"rookery: functions compiled so far: {counter.done}", file=sys.stderr, flush=True)

    counter = Compilations(announce)


def _step(case: KernelCase) -> None:
    """Some steps of an environment, under its classical controller where there is one."""
    import torch

    from rookery.making import make

    env = make(case.task, 2, engine=case.engine, randomize=case.randomize, config=case.config)
    observation, _ = env.reset(0)
    act = env.controller()
    for _ in range(STEPS):
        env.step({name: torch.zeros(2, g.count, g.action.size) for name, g in env.groups.items()})
    if act is not None:
        env.step(act(observation))
    env.close()


def _learn(job: str) -> None:
    """Some iterations of an algorithm, or of `ABOVE`, with its settings for drone-hover and networks that are small enough for
    kernels, in a folder that is thrown away."""
    from rookery.experiments.recipes import preset
    from rookery.experiments.training import start

    settings = preset("drone-hover", "ppo" if job == ABOVE else job)
    small = replace(settings.algorithm_config, hidden=(64, 64))
    runner = replace(settings.runner, total_steps=8192)
    settings = replace(settings, num_envs=64, runner=runner, algorithm_config=small)
    quiet = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(quiet), redirect_stderr(quiet):
        if job == ABOVE:
            (Path(folder) / "skills.toml").write_text(SKILLS)
            settings = replace(settings, skills=str(Path(folder) / "skills.toml"))
        start(settings, Path(folder) / "run").run()
