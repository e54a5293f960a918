"""A policy that imitates a task's classical controller, or a policy that sees more: something to look at, one for a robot, or a
start for PPO (`rookery train --init`)."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

from torch import Tensor

from rookery.policies.imitation.dagger import DistillConfig, Teacher, distill
from rookery.policies.training.store import save_policy
from rookery.runs import new_run, write_json
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.teacher import RunTeacher
from rookery.training import Settings, contract_of, make_env, ppo_config


def imitate(settings: Settings, out: Path | None = None, teacher: Path | None = None) -> dict[str, Any]:
    """Learn from the task's own classical controller (`Task.controller`), or from a stored policy, by DAgger.

    The student's network is as wide as PPO's settings say, so that `--init` can go on from it; of those settings it also
    takes `steps` in an iteration, `learning_rate` and `seed`.

    Args:
        settings: of the run.
        out: run folder; None makes one.
        teacher: run or zoo folder of the policy to learn from (see RunTeacher); None takes the classical controller.

    Returns:
        As `Training.run`: run, task, steps, seconds, success (None), stopped, interrupted; and "error", the mean squared
        error of the student's actions at the end.

    Raises:
        RookeryError: the task has no classical controller, the teacher does not fit, or there are several groups of agents.
    """
    ppo = ppo_config(settings)
    env = make_env(settings, settings.randomize)
    if len(env.groups) != 1:
        raise RookeryError(f"{settings.task} has the groups {', '.join(env.groups)}: imitation teaches one.")
    asked = _controller(env) if teacher is None else RunTeacher(teacher, env)
    iterations = max(1, round(settings.steps / (ppo.rollout_steps * settings.num_envs)))
    config = DistillConfig(
        iterations=iterations, steps=ppo.rollout_steps, teacher_iterations=max(1, iterations // 4), hidden=tuple(ppo.hidden),
        activation=ppo.activation, learning_rate=ppo.learning_rate, seed=settings.seed,
    )  # fmt: skip
    rows = []
    start = time.perf_counter()

    def progress(row: dict[str, float]) -> None:
        rows.append(row)
        if len(rows) % max(1, iterations // 20) == 0:
            print(
                f"{len(rows)} of {iterations} iterations, error {row['error']:.4f}, reward {row['reward']:.3f}",
                file=sys.stderr,
            )

    student = distill(env, asked, config, progress)
    env.close()
    folder = new_run(settings.task, out)
    steps = iterations * ppo.rollout_steps * settings.num_envs
    contract = contract_of(settings, env).with_provenance(steps=steps)
    save_policy(folder, {next(iter(env.groups)): student}, contract.to_json())
    made = {"algorithm": "imitate", "teacher": None if teacher is None else str(teacher)}
    write_json(folder / "run.json", made | {"settings": dataclasses.asdict(settings), "log": rows})
    return {
        "run": str(folder), "task": settings.task, "steps": steps, "seconds": round(time.perf_counter() - start, 2),
        "success": None, "stopped": "steps", "interrupted": False, "error": rows[-1]["error"],
    }  # fmt: skip


def _controller(env: Env) -> Teacher:
    """The task's classical controller as a teacher."""
    controller = env.controller()
    if controller is None:
        raise RookeryError(
            f"{env.task_id} has no classical controller to imitate: name a policy by --teacher, or train it with "
            "--algorithm ppo."
        )
    group = next(iter(env.groups))

    def ask(env: Env, obs: Tensor) -> Tensor:
        return controller({group: obs})[group].clamp(-1.0, 1.0)

    return ask
