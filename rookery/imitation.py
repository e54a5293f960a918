"""A policy that imitates a task's classical controller, or a policy that sees more: something to look at, one for a robot, or a
start for PPO (`rookery train --init`)."""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.training.store import save_policy
from rookery.runs import new_run, write_json
from rookery.teacher import make_teacher
from rookery.training import Settings, contract_of, make_env, ppo_config


def imitate(settings: Settings, out: Path | None = None, teacher: Path | None = None) -> dict[str, Any]:
    """Learn from the task's own classical controller (`Task.controller`), or from a stored policy, by DAgger.

    The student's network is as wide as PPO's settings say, so that `--init` can go on from it; of those settings it also
    takes `steps` in an iteration, `learning_rate` and `seed`.

    Args:
        settings: of the run.
        out: run folder; None makes one.
        teacher: run or zoo folder of the policy to learn from (see make_teacher); None takes the classical controller.

    Returns:
        As `Training.run`: run, task, steps, seconds, success (None), stopped, interrupted; and "error", the mean squared
        error of the student's actions at the end.

    Raises:
        RookeryError: the task has no classical controller, the teacher does not fit, or there are several groups of agents.
    """
    ppo = ppo_config(settings)
    env = make_env(settings, settings.randomize)
    rollout = ppo.rollout_steps * settings.num_envs
    iterations = max(1, round(settings.steps / rollout))
    config = DAggerConfig(
        rollout_steps=ppo.rollout_steps, hidden=tuple(ppo.hidden), activation=ppo.activation,
        learning_rate=ppo.learning_rate,
    )  # fmt: skip
    dagger = DAgger(env, config, settings.seed, {"teacher": make_teacher(teacher, env)})
    contract = contract_of(settings, env)
    rows: list[dict[str, float]] = []
    start = time.perf_counter()
    obs, _ = env.reset()
    env.stagger()
    for i in range(iterations):
        for _ in range(dagger.rollout_steps):
            actions = dagger.act(obs)
            result = env.step(actions)
            dagger.observe(obs, actions, result)
            obs = result[0]
        rows.append({"iteration": i + 1, **dagger.update(i / iterations)})
        if len(rows) % max(1, iterations // 20) == 0:
            row = rows[-1]
            print(
                f"{len(rows)} of {iterations} iterations, error {row['error']:.4f}, reward {row['reward']:.3f}",
                file=sys.stderr,
            )
    env.close()
    folder = new_run(settings.task, out)
    steps = iterations * rollout
    contract["provenance"]["steps"] = steps
    save_policy(folder, dagger.policies(), contract)
    made = {"algorithm": "imitate", "teacher": None if teacher is None else str(teacher)}
    write_json(folder / "run.json", made | {"settings": dataclasses.asdict(settings), "log": rows})
    return {
        "run": str(folder), "task": settings.task, "steps": steps, "seconds": round(time.perf_counter() - start, 2),
        "success": None, "stopped": "steps", "interrupted": False, "error": rows[-1]["error"],
    }  # fmt: skip
