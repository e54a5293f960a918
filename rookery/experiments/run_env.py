"""The environment in which a stored policy is judged, or that it was trained in, and what acts in it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.judging import Judging, judging, shown
from rookery.experiments.runs import open_run
from rookery.making import WorkerPart, changes_of, make, make_part
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.trust import refuse_untrusted
from rookery.tasks.registry import is_task

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env
    from rookery.sim2real.contract import Contract


def make_env(
    contract: Contract,
    num_envs: int,
    config: dict[str, Any] | None = None,
    *,
    task: str | None = None,
    as_trained: bool = False,
    **options: Any,
) -> Env:
    """The environment in which the policy of a contract is judged: that of the registered task, with the values of the
    contract's task config that belong to the policy (see `rookery.experiments.judging`).

    Args:
        contract: of a stored policy.
        num_envs: worlds.
        config: changes to the task config.
        task: another one in place of the contract's, with the same observations and actions, such as "ML10-test" for a
            policy of "ML10-train". What the contract's set of tasks fixes, such as a hidden goal, holds in it too.
        as_trained: the contract's whole task config, to show or to record what a run did.
        options: `engine`, `seed`, `randomize`, `fixed` and `shards` of `rookery.make`; or in place of shards `part`, which of
            how many processes has a part of the worlds.

    Raises:
        RookeryError: a task or config this version lacks, an interface that the policy was not trained for, or a task in a file
            that is not trusted (see rookery.sim.trust).
    """
    from rookery.sim2real.compatibility import check_compatible

    own = contract.task_id
    other = task is not None and task != own
    refuse_untrusted(own)
    if as_trained and not other:
        env = _make(own, num_envs, config=merge(dict(contract.task_config), changes_of(own, config or {})), **options)
        check_compatible(contract, env)
        return env
    judged = judging(contract, config, task)
    try:
        env = _make(judged.task, num_envs, config=judged.config, **options)
        try:
            check_compatible(dataclasses.replace(contract, task_id=judged.task), env)
        except RookeryError:
            env.close()
            raise
    except RookeryError as e:
        if other:
            raise RookeryError(
                f"{task} (with its own config, which --task-config changes) cannot take a policy of {own}: {e}"
            ) from e
        if judged.replaced:
            raise RookeryError(
                f"the policy was trained with {shown(judged.replaced)}, and cannot be judged by the registered {own} ({e}): "
                "`rookery eval` takes values for the task by --task-config."
            ) from e
        raise
    return env


def _make(task: str, num_envs: int, *, part: WorkerPart | None = None, shards: str | int = 1, **options: Any) -> Env:
    """The environment of a task, or the part of it that one of several processes has."""
    if part is None:
        return make(task, num_envs, shards=shards, **options)
    return make_part(task, num_envs, part, option="--ray", **options)[0]


def open_env(
    run: Path,
    num_envs: int,
    *,
    controller: str = "policy",
    task: str | None = None,
    config: dict[str, Any] | None = None,
    as_trained: bool = False,
    sample: bool = False,
    **options: Any,
) -> tuple[Env, Act]:
    """The environment in which a run is judged, and what acts in it.

    Args:
        run: run or zoo folder; also a task's name where its classical controller acts.
        num_envs: worlds.
        controller: "policy" or "classical", the task's classical controller.
        task: another one for the policy to act in, see `make_env`; None for the one that it was trained for.
        config: changes to the task config.
        as_trained: see `make_env`.
        sample: draw choices by their probabilities, from the seed; False takes the likeliest options.
        options: `engine`, `seed`, `randomize`, `fixed` and `shards` of `rookery.make`; `part`, see `make_env`.

    Raises:
        RookeryError: as `open_run` and `make_env`; or there is no such controller, or nothing to sample.
    """
    from rookery.policies.training.evaluate import act_with
    from rookery.sim.seeding import torch_generator

    if controller not in ("policy", "classical"):
        raise unknown("controller", controller, ["policy", "classical"])
    if controller == "classical" and task is not None:
        raise RookeryError(f"--task is for a policy: write {task} in place of the run with --controller classical.")
    if sample and controller == "classical":
        raise RookeryError("--sample draws the choices of a policy: leave it out with --controller classical.")
    if _is_task_alone(run, controller):
        env = _make(str(run), num_envs, config=config, **options)
    else:
        policies, contract = open_run(run)
        if sample and not any(policy.options for policy in policies.values()):
            raise RookeryError(
                f"{contract.task_id} has no choices, whose probabilities could be drawn: leave --sample out."
            )
        env = make_env(contract, num_envs, config, task=task, as_trained=as_trained, **options)
        if controller == "policy":
            return env, act_with(policies, env, sampling=torch_generator(options.get("seed", 0)) if sample else None)
    pilot = env.controller()
    if pilot is None:
        env.close()
        raise RookeryError(
            f"{env.task_id} has no classical controller: give a run, or a policy of the zoo, without --controller classical."
        )
    return env, pilot


def judging_of(
    run: Path, config: dict[str, Any] | None = None, *, controller: str = "policy", task: str | None = None
) -> Judging:
    """Terms on which `open_env` judges with the same arguments.

    Raises:
        RookeryError: as `open_run`, or a task or config value that this version lacks.
    """
    if _is_task_alone(run, controller):
        return judging(None, config, str(run))
    return judging(open_run(run)[1], config, task)


def _is_task_alone(run: Path, controller: str) -> bool:
    """True where `run` names a task whose classical controller acts, and no policy."""
    return controller == "classical" and is_task(str(run)) and not run.exists()
