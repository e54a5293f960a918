"""A stored policy as the teacher of another that sees less: `rookery train TASK --algorithm imitate --teacher RUN`.

Both act in the same worlds, those of the student. The teacher sees them as its own config of the task shows them, without
noise, bias and delay, and gets the true targets where it has a state estimator; the student sees what its
config and `--randomize` leave of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rookery.runs import open_run
from rookery.sim.config import from_dict
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Term


class RunTeacher:
    """A `rookery.policies.imitation.dagger.Teacher`.

    Args:
        run: run or zoo folder of the teacher, or a task's name for the zoo's policy.
        env: of the student, with one group.

    Raises:
        RookeryError: no such run, one of another task, group or action, or one that saw what these worlds do not have.
    """

    def __init__(self, run: Path, env: VecEnv) -> None:
        policies, contract = open_run(run)
        self.group, spec = next(iter(env.groups.items()))
        if contract.task_id != env.task_id:
            raise RookeryError(f"{run} is a policy of {contract.task_id!r}, and cannot teach {env.task_id!r}.")
        if self.group not in policies:
            raise RookeryError(
                f"{run} has policies {list(policies)}, and the student is {self.group!r}: take such a run."
            )
        self.policy = policies[self.group].to(env.device).eval()
        theirs = contract.groups[self.group].spec
        same = (theirs.action.kind, theirs.action.names) == (spec.action.kind, spec.action.names)
        if not same or not _close(theirs.action, spec.action):
            raise RookeryError(
                f"{run} acts by {theirs.action.kind!r}, and the student by {spec.action.kind!r}, or within other limits: "
                "give the student the teacher's --action and --config."
            )
        self.terms = theirs.observation
        self.targets = theirs.targets
        self.history = theirs.history
        self.config = from_dict(type(env.task.cfg), dict(contract.task_config))
        self.frames: Tensor | None = None
        self._check(run, env, spec.count)

    def _check(self, run: Path, env: VecEnv, count: int) -> None:
        seen = self._seen(env)
        for kind, terms in (("sees", self.terms), ("is told", self.targets)):
            for t in terms:
                got = seen[kind].get(t.name)
                want = (env.num_envs, count, t.size)
                if got is None or tuple(got.shape) != want:
                    raise RookeryError(
                        f"{run} {kind} {t.name!r} of {list(want[1:])}, and the student's worlds have "
                        f"{'none' if got is None else list(got.shape[1:])}: give the student the teacher's --config, but "
                        "for what it shall not see."
                    )

    def __call__(self, env: VecEnv, obs: Tensor) -> Tensor:
        """[N, A, D] what the teacher would do now; to be asked once in every control step."""
        seen = self._seen(env)
        frame = _columns(seen["sees"], self.terms)
        if self.frames is None:
            self.frames = frame.unsqueeze(2).repeat(1, 1, self.history, 1)
        new = (env.steps == 0)[:, None, None, None]
        later = torch.cat((self.frames[:, :, 1:], frame.unsqueeze(2)), dim=2)
        self.frames = torch.where(new, frame.unsqueeze(2), later)
        told = _columns(seen["is told"], self.targets) if self.targets else None
        out: Tensor = self.policy(self.frames.flatten(2), told)
        return out

    def _seen(self, env: VecEnv) -> dict[str, dict[str, Tensor]]:
        with _as_configured(env.task, self.config):
            truth = env.task.observe_privileged().get(self.group, {}) if self.targets else {}
            return {"sees": env.task.observe().get(self.group, {}), "is told": truth}


@contextmanager
def _as_configured(task: Any, config: Any) -> Iterator[None]:
    """Within this, a task shows its worlds as another config of it would."""
    own = task.cfg
    task.cfg = config
    try:
        yield
    finally:
        task.cfg = own


def _columns(values: dict[str, Tensor], terms: Sequence[Term]) -> Tensor:
    """[N, A, F] terms side by side, scaled and clipped as a contract says."""
    parts = []
    for t in terms:
        parts.append((values[t.name] * t.scale).clamp(-t.clip, t.clip))
    return torch.cat(parts, dim=-1)


def _close(theirs: ActionSpec, ours: ActionSpec) -> bool:
    pairs = zip((*theirs.low, *theirs.high), (*ours.low, *ours.high), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in pairs)
