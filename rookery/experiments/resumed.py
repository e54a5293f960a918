"""Settings, contract and folder of a run that is to be continued."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

from rookery.experiments.runs import find_run
from rookery.experiments.settings import FILE, RunSettings
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.stages.module import refuse_untrusted
from rookery.policies.tracking.trackers import check_trackers
from rookery.policies.training import checkpoint
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.devices import find_device
from rookery.sim.errors import RookeryError
from rookery.sim.trust import refuse_untrusted as refuse_untrusted_task
from rookery.sim.untrusted import read_json
from rookery.sim2real.upgrade import upgraded


def read_resumed(
    run: Path,
    changes: dict[str, Any] | None = None,
    task: str | None = None,
    device: str | None = None,
    shards: str | None = None,
) -> tuple[RunSettings, dict[str, Any], Path]:
    """Settings, contract and folder of a run that is to be continued from its newest checkpoint.

    Args:
        run: its folder, or one of its checkpoints.
        changes: values of RunnerConfig in place of the run's own, such as ``{"total_steps": 2_000_000}``.
        task: the task that the caller expects; None takes the run's.
        device: where it learns from now on; None leaves the run's.
        shards: processes that step its worlds from now on, which gives the same bits; None leaves the run's.

    Raises:
        RookeryError: no checkpoint, a damaged one, one of another task or a newer version, or a device that is not here.
    """
    folder = run.parent.parent if run.parent.name == "checkpoints" else run
    # A kill within the first save leaves a policy without a checkpoint.
    complete = folder != run or bool(checkpoint.complete(run))
    if not complete and (run / FILE).is_file() and not (run / "contract.json").exists():
        raise RookeryError(
            f"{run} was stopped before its first checkpoint: begin anew with `rookery train --config {run / FILE} --out DIR`."
        )
    state = checkpoint.read_state(run if complete else find_run(run))
    if not state["settings"]:
        raise RookeryError(f"{run} was not made by `rookery train`: resume it from the program that made it.")
    refuse_untrusted_task(state["settings"].get("task"))
    settings = RunSettings.from_values(state["settings"])
    there, own = _task_of_policy(folder), state["contract"].get("task_id")
    if there not in (None, own):
        raise RookeryError(
            f"{run} goes on with a checkpoint of {own!s:.200}, and the policy in {folder} is of {there:.200}: put the "
            "checkpoint back into its own run, or give a folder that has all of one run."
        )
    if task is not None and task != settings.task:
        raise RookeryError(
            f"{run} is a run of {settings.task!r}, not of {task!r}: write {settings.task} or leave it out."
        )
    if isinstance(settings.algorithm_config, PPOConfig) and settings.algorithm_config.network:
        refuse_untrusted(settings.algorithm_config.network, run)
    runner_config: RunnerConfig = dataclasses.replace(settings.runner, **(changes or {}))
    if "trackers" not in (changes or {}):
        for tracker in runner_config.trackers:
            refuse_untrusted_task(tracker, "tracker")
    check_trackers(runner_config.trackers)
    settings = dataclasses.replace(settings, runner=runner_config, device=device or settings.device)
    settings = dataclasses.replace(settings, shards=shards or settings.shards)
    find_device(settings.device)
    _refuse_done(run, state, runner_config)
    return settings, upgraded(state["contract"]), folder


def _refuse_done(run: Path, state: dict[str, Any], runner: RunnerConfig) -> None:
    """Refuse to go on for less than what was trained already."""
    if state["steps"] >= runner.total_steps:
        raise RookeryError(
            f"{run} has made {state['steps']} steps, of {runner.total_steps} in all: give a larger --steps, such as "
            f"{2 * state['steps']}."
        )
    limit = runner.time_limit_s
    if limit is not None and state["seconds"] >= limit:
        raise RookeryError(
            f"{run} has trained for {state['seconds']:.0f} s, and its time limit is {limit:g} s in all: give a larger "
            f"--time-limit-s, such as {longer_limit(state['seconds'])}."
        )


def _task_of_policy(folder: Path) -> str | None:
    """The task of the policy that a run has; None where it has none, or its contract cannot be read: a resume makes it anew."""
    try:
        return str(read_json(folder / "contract.json")["task_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def longer_limit(seconds: float) -> int:
    """s, a time limit under which a run that has trained for `seconds` may go on for as long again."""
    return 2 * math.ceil(seconds)
