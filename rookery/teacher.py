"""Teachers by name: the classical controller of a task, or a stored policy.

`rookery train TASK --algorithm dagger [--teacher RUN]`
"""

from __future__ import annotations

import math
from pathlib import Path

from rookery.policies.imitation.teacher import ControllerTeacher, PolicyTeacher, Teacher, TeacherGroup
from rookery.runs import open_run
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, ObservationSet

__all__ = ["make_teacher"]


def make_teacher(run: str | Path | None, env: Env) -> Teacher:
    """The teacher of a student's environment.

    Args:
        run: run or zoo folder of a policy, or a task's name for the zoo's policy; None takes the task's classical controller.
        env: of the student.

    Raises:
        RookeryError: no classical controller; no such run, or one of another task, other groups or actions, or one that
            observed what these worlds do not have.
    """
    if run is not None:
        return _policy_teacher(Path(run), env)
    controller = env.controller()
    if controller is None:
        raise RookeryError(
            f"{env.task_id} has no classical controller to imitate: name a policy by --teacher, or train it with "
            "--algorithm ppo."
        )
    return ControllerTeacher(controller)


def _policy_teacher(run: Path, env: Env) -> PolicyTeacher:
    policies, contract = open_run(run)
    if contract.task_id != env.task_id:
        raise RookeryError(f"{run} is a policy of {contract.task_id!r}, and cannot teach {env.task_id!r}.")
    if policies.keys() != env.groups.keys():
        raise RookeryError(
            f"{run} has policies {list(policies)}, and the student's groups are {list(env.groups)}: take a run with one "
            "policy for each of them."
        )
    groups = {}
    for name, group in env.groups.items():
        spec = contract.groups[name].spec
        if not _same_action(spec.action, group.action):
            raise RookeryError(
                f"{run} acts by {spec.action.kind!r}, and the student by {group.action.kind!r}, or within other limits: "
                "give the student the teacher's --action and --task-config."
            )
        groups[name] = TeacherGroup(policies[name], ObservationSet(spec.observation, spec.history), spec.targets)
    return PolicyTeacher(env, groups, str(run))


def _same_action(one: ActionSpec, other: ActionSpec) -> bool:
    """Whether two declarations mean the same command within the same limits."""
    if (one.kind, one.names) != (other.kind, other.names):
        return False
    pairs = zip((*one.low, *one.high), (*other.low, *other.high), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs)
