"""Run folders: where they lie, what is in them, and the environment that a stored policy was trained for."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import TASKS, find, is_task

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim.env import Act, Env
    from rookery.sim2real.contract import Contract

LATEST = "latest"
"""Link beside the runs of a task to the one begun last."""


def zoo() -> dict[str, Path]:
    """Policies that come with the package, by task."""
    import rookery.policies

    folder = Path(rookery.policies.__file__).parent / "zoo"
    return {f.parent.name: f.parent for f in sorted(folder.glob("*/contract.json"))}


def find_run(run: Path) -> Path:
    """The folder that holds a policy: a run, a folder of the zoo, or the zoo's policy for a task's name.

    Raises:
        RookeryError: there is no such folder, with the nearest match; or it holds no policy.
    """
    if not run.exists():
        if str(run) in zoo():
            return zoo()[str(run)]
        beside = [f.parent.name for f in run.parent.glob("*/contract.json")]
        if str(run.parent) != "." and beside:
            raise unknown(f"run in {run.parent}", run.name, beside)
        raise RookeryError(
            f"there is no folder {str(run)!r}: give one that `rookery train` made, such as runs/drone-hover/{LATEST}, "
            f"or a policy of the zoo ({', '.join(zoo()) or 'which is empty'})."
        )
    if not (run / "contract.json").is_file():
        raise RookeryError(
            f"{run} holds no policy yet: give a run folder with a checkpoint, or a folder of policies/zoo."
        )
    return run


def open_run(run: Path) -> tuple[dict[str, Policy], Contract]:
    """The policies of a run or zoo folder, by group, and their contract.

    Raises:
        RookeryError: the folder is missing, incomplete, damaged or of a newer version.
    """
    from rookery.policies.training.store import load_policy
    from rookery.sim2real.contract import Contract

    policies, contract = load_policy(find_run(run))
    return policies, Contract.from_json(contract)


def make_env(
    contract: Contract,
    num_envs: int,
    config: dict[str, Any] | None = None,
    *,
    task: str | None = None,
    **options: Any,
) -> Env:
    """The environment of a contract, with its task config.

    Args:
        contract: of a stored policy.
        num_envs: worlds.
        config: changes to the contract's task config; to the defaults of another `task`.
        task: another one in place of the contract's, with the same observations and actions, such as "ML10-test" for a
            policy of "ML10-train". What the contract's set of tasks fixes, such as a hidden goal, holds in it too.
        options: `engine`, `seed`, `randomize` and `fixed` of `rookery.make`.

    Raises:
        RookeryError: a task or config this version lacks, or an interface that the policy was not trained for.
    """
    from rookery.making import changes_of, make
    from rookery.sim2real.compatibility import check_compatible

    own = contract.task_id
    if task is None or task == own:
        changes = changes_of(own, config or {})
        env = make(own, num_envs, config=merge(dict(contract.task_config), changes), **options)
        check_compatible(contract, env)
        return env
    env = make(task, num_envs, config=merge(_fixed_by_set(own, task), config or {}), **options)
    try:
        check_compatible(dataclasses.replace(contract, task_id=task), env)
    except RookeryError as e:
        env.close()
        raise RookeryError(
            f"{task} (with its own config, which --config changes) cannot take a policy of {own}: {e}"
        ) from e
    return env


def _fixed_by_set(of: str, task: str) -> dict[str, Any]:
    """What the set `of` fixes in the configs of all its tasks, as far as another task has it."""
    entry = find(task)
    kind = find(entry.members[0] if entry.members else task).load().Config
    names = {f.name for f in dataclasses.fields(kind)}
    return {k: v for k, v in TASKS[of].config.items() if k in names} if of in TASKS else {}


def open_env(
    run: Path,
    num_envs: int,
    *,
    controller: str = "policy",
    task: str | None = None,
    config: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[Env, Act]:
    """The environment of a run and what acts in it.

    Args:
        run: run or zoo folder; also a task's name where its classical controller acts.
        num_envs: worlds.
        controller: "policy" or "pid", the task's classical controller.
        task: another one for the policy to act in, see `make_env`; None for the one that it was trained for.
        config: changes to the task config.
        options: `engine`, `seed`, `randomize` and `fixed` of `rookery.make`.

    Raises:
        RookeryError: as `open_run` and `make_env`; or there is no such controller.
    """
    from rookery import make
    from rookery.policies.training.evaluate import act_with

    if controller not in ("policy", "pid"):
        raise unknown("controller", controller, ["policy", "pid"])
    if controller == "pid" and task is not None:
        raise RookeryError(f"--task is for a policy: write {task} in place of the run with --controller pid.")
    if controller == "pid" and is_task(str(run)) and not run.exists():
        env = make(str(run), num_envs, config=config, **options)
    else:
        policies, contract = open_run(run)
        env = make_env(contract, num_envs, config, task=task, **options)
        if controller == "policy":
            return env, act_with(policies, env)
    pilot = env.controller()
    if pilot is None:
        env.close()
        raise RookeryError(
            f"{env.task_id} has no classical controller: give a run, or a policy of the zoo, without --controller pid."
        )
    return env, pilot


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`values` with `changes` in their place, also inside nested values such as reward weights."""
    nested = {
        k: merge(values[k], v) for k, v in changes.items() if isinstance(v, dict) and isinstance(values.get(k), dict)
    }
    return values | changes | nested


def new_run(task: str, out: Path | None) -> Path:
    """An empty folder for a run: `out`, or ``runs/<task>/<time>`` with the link ``latest`` to it.

    Raises:
        RookeryError: `out` holds something already, or the place cannot be written.
    """
    time = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    folder = out or _free(Path("runs") / task.rpartition(":")[2] / time)  # of my_task.py:Land, the class
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RookeryError(
            f"{folder} is not empty: choose another --out, or go on with the run in it by "
            f"`rookery train --resume {folder}`."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
        if out is None:
            link = folder.parent / LATEST
            if link.is_symlink() or not link.exists():
                fresh = folder.parent / f".{LATEST}-{os.getpid()}"
                fresh.symlink_to(folder.name)
                fresh.replace(link)
    except OSError as e:
        raise RookeryError(f"cannot write to {folder} ({e.strerror}): choose another folder with --out.") from e
    return folder


def _free(folder: Path) -> Path:
    """`folder`, or the first of ``folder-2``, ... that is not there, for runs begun in the same second."""
    candidate = folder
    i = 1
    while candidate.exists():
        i += 1
        candidate = folder.with_name(f"{folder.name}-{i}")
    return candidate


def write_json(file: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all.

    Raises:
        RookeryError: the place cannot be written or the disk is full.
    """
    from rookery.policies.training.store import replace, unwritable

    try:
        replace(file, (json.dumps(value, indent=2) + "\n").encode())
    except OSError as e:
        raise unwritable(file.parent, e) from e
