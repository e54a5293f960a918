"""Teachers by name: the classical controller of a task, or a stored policy.

`rookery train TASK --algorithm dagger [--teacher RUN [--classical ACTION ...]]`
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor

from rookery.experiments.runs import open_run
from rookery.policies.imitation.teacher import (
    ControllerTeacher,
    CorrectedTeacher,
    JoinedTeacher,
    PolicyTeacher,
    Teacher,
    TeacherGroup,
)
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.specs import ActionSpec, ObservationSet

__all__ = ["make_teacher"]


def make_teacher(run: str | Path | None, env: Env, classical: Sequence[str] = (), corrected: bool = False) -> Teacher:
    """The teacher of a student's environment.

    Args:
        run: run or zoo folder of a policy, or a task's name for the zoo's policy; None takes the task's classical controller.
            It may be of another task whose terms are all there under the same names.
        env: of the student.
        classical: patterns of the actions that the task's classical controller teaches, where `run` teaches the others.
        corrected: whether the task corrects what `run` teaches by the true state, see `Task.correction`.

    Raises:
        RookeryError: no classical controller, or no correction; no such run, or one of other groups or actions, or one that
            observed what these worlds do not have; a pattern without an action, or patterns without a run.
    """
    if run is None:
        if corrected:
            raise RookeryError("--corrected is for the actions of a policy: give one by --teacher, or leave it out.")
        if classical:
            raise RookeryError(
                "--classical names actions of the classical controller beside a policy's: give the policy by --teacher, or "
                "leave --classical out, and the controller teaches all."
            )
        return _controller_teacher(env)
    teacher: Teacher = _policy_teacher(Path(run), env)
    if corrected:
        correction = env.correction()
        if correction is None:
            raise RookeryError(f"{env.task_id} knows no correction of a teacher's actions: leave --corrected out.")
        teacher = CorrectedTeacher(teacher, correction)
    if not classical:
        return teacher
    return JoinedTeacher(teacher, _controller_teacher(env), _chosen(env, classical))


def _controller_teacher(env: Env) -> ControllerTeacher:
    controller = env.controller()
    if controller is None:
        raise RookeryError(
            f"{env.task_id} has no classical controller to imitate: name a policy by --teacher, or train it with "
            "--algorithm ppo."
        )
    return ControllerTeacher(controller)


def _chosen(env: Env, patterns: Sequence[str]) -> dict[str, Tensor]:
    """By group, [D] bool, which actions the patterns name."""
    names = {group: spec.action.names for group, spec in env.groups.items()}
    known = [name for own in names.values() for name in own]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise unknown("action", pattern, known)
    return {
        group: torch.tensor([any(fnmatchcase(name, p) for p in patterns) for name in own], device=env.device)
        for group, own in names.items()
    }


def _policy_teacher(run: Path, env: Env) -> PolicyTeacher:
    policies, contract = open_run(run)
    if policies.keys() != env.groups.keys():
        raise RookeryError(
            f"{run}, of {contract.task_id}, has policies {list(policies)}, and the student's groups in {env.task_id} are "
            f"{list(env.groups)}: take a run with one policy for each of them."
        )
    if not math.isclose(contract.control_dt, env.control_dt, rel_tol=1e-6):
        raise RookeryError(
            f"{run} acts every {contract.control_dt:g} s, and the student every {env.control_dt:g} s: give the student the "
            "teacher's control_dt by --task-config."
        )
    groups = {}
    for name, group in env.groups.items():
        spec = contract.groups[name].spec
        if not _same_action(spec.action, group.action):
            raise RookeryError(
                f"{run} acts by {spec.action.kind!r}, and the student by {group.action.kind!r}, or within other limits: "
                "give the student the teacher's --action and --task-config."
            )
        # A task offers targets to policies that predict nothing, too.
        targets = spec.targets if policies[name].targets else ()
        groups[name] = TeacherGroup(policies[name], ObservationSet(spec.observation, spec.history), targets)
    return PolicyTeacher(env, groups, str(run))


def _same_action(one: ActionSpec, other: ActionSpec) -> bool:
    """True where two declarations mean the same command within the same limits."""
    if (one.kind, one.names) != (other.kind, other.names):
        return False
    pairs = zip((*one.low, *one.high), (*other.low, *other.high), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs)
