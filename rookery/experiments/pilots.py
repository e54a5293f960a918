"""Pilots of an environment that somebody watches: policies of a run, its checkpoints, the classical controller."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rookery.experiments.runs import open_run
from rookery.experiments.zoo import zoo

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim.env import Act, Env


def pilots(run: Path, controller: str, env: Env, act: Act) -> dict[str, Callable[[], Act]]:
    """Pilots of the environment of a run, by name, each made when it is called.

    Args:
        run: run or zoo folder, or a task's name, as for `rookery.experiments.run_env.open_env`.
        controller: "policy" or "classical": what `act` is, which comes first.
        env: the environment.
        act: what acts at first.
    """
    from rookery.policies.training import checkpoint
    from rookery.policies.training.evaluate import act_with

    found: dict[str, Callable[[], Act]] = {}
    if run.exists() or str(run) in zoo():
        name = run.resolve().name if run.exists() else str(run)
        found[f"policy of {name}"] = lambda: act_with(open_run(run)[0], env)
        for folder in reversed(checkpoint.complete(run) if run.is_dir() else []):
            found[f"checkpoint at {int(folder.name):,} steps"] = lambda f=folder: act_with(checkpoint_policies(f), env)  # type: ignore[misc]
    elif env.task_id in zoo():
        found[f"policy of the zoo's {env.task_id}"] = lambda: act_with(open_run(Path(env.task_id))[0], env)
    if (pilot := env.controller()) is not None:
        found["classical controller"] = lambda: env.controller() or pilot
    first = "classical controller" if controller == "classical" else next(iter(found))
    return {first: lambda: act} | {name: make for name, make in found.items() if name != first}


def task_shows(worlds: int, seed: int) -> dict[str, Callable[[], tuple[Env, dict[str, Callable[[], Act]]]]]:
    """Every task by name, and what makes its environment of so many worlds and what may act in it, as `pilots` says: the zoo's
    policy first, where there is one, else the classical controller; raises RookeryError where there is neither."""
    from rookery.experiments.run_env import open_env
    from rookery.tasks.registry import task_names

    def make(task: str) -> tuple[Env, dict[str, Callable[[], Act]]]:
        controller = "policy" if task in zoo() else "classical"
        env, act = open_env(Path(task), worlds, controller=controller, seed=seed)
        return env, pilots(Path(task), controller, env, act)

    return {task: functools.partial(make, task) for task in task_names()}


def checkpoint_policies(folder: Path) -> dict[str, Policy]:
    """The policies that a checkpoint of a run holds.

    Args:
        folder: ``RUN/checkpoints/STEPS``.

    Raises:
        RookeryError: it is damaged, or was not made by `rookery train`.
    """
    from rookery.experiments.algorithm import make_algorithm
    from rookery.experiments.settings import RunSettings
    from rookery.policies.training import checkpoint
    from rookery.sim.errors import RookeryError
    from rookery.sim.trust import refuse_untrusted

    state = checkpoint.read_state(folder)
    if not state["settings"]:
        raise RookeryError(f"{folder} was not made by `rookery train`: its policy cannot be read alone.")
    refuse_untrusted(state["settings"].get("task"))
    settings = dataclasses.replace(RunSettings.from_values(state["settings"]), shards="1")
    run = folder.parent.parent
    algorithm, _ = make_algorithm(settings, "none", run)  # with as many worlds as the training's buffers
    try:
        algorithm.load_state_dict(checkpoint.read_tensors(folder, state)["algorithm"])
        return algorithm.policies()
    finally:
        algorithm.close()
        algorithm.env.close()
