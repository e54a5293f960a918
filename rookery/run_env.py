"""The environment that a stored policy was trained for, and what acts in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.making import changes_of, make
from rookery.runs import open_run
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError, unknown
from rookery.tasks.registry import TASKS, find, is_task
from rookery.tasks.trust import refuse_untrusted

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env
    from rookery.sim2real.contract import Contract


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
        options: `engine`, `seed`, `randomize`, `fixed` and `shards` of `rookery.make`.

    Raises:
        RookeryError: a task or config this version lacks, an interface that the policy was not trained for, or a task in a file
            that is not trusted (see rookery.tasks.trust).
    """
    from rookery.sim2real.compatibility import check_compatible

    own = contract.task_id
    refuse_untrusted(own)
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
            f"{task} (with its own config, which --task-config changes) cannot take a policy of {own}: {e}"
        ) from e
    return env


def _fixed_by_set(of: str, task: str) -> dict[str, Any]:
    """What the set `of` fixes in the configs of all its tasks, as far as another task has it."""
    entry = find(task)
    kind = find(entry.task_of(entry.members[0]) if entry.members else task).load().Config
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
        controller: "policy" or "classical", the task's classical controller.
        task: another one for the policy to act in, see `make_env`; None for the one that it was trained for.
        config: changes to the task config.
        options: `engine`, `seed`, `randomize`, `fixed` and `shards` of `rookery.make`.

    Raises:
        RookeryError: as `open_run` and `make_env`; or there is no such controller.
    """
    from rookery.policies.training.evaluate import act_with

    if controller not in ("policy", "classical"):
        raise unknown("controller", controller, ["policy", "classical"])
    if controller == "classical" and task is not None:
        raise RookeryError(f"--task is for a policy: write {task} in place of the run with --controller classical.")
    if controller == "classical" and is_task(str(run)) and not run.exists():
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
            f"{env.task_id} has no classical controller: give a run, or a policy of the zoo, without --controller classical."
        )
    return env, pilot
