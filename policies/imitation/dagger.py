"""Teacher and student: a classical controller, or a policy that sees what no robot measures, teaches a policy that sees
what a robot does.

DAgger (Ross et al. 2011, arXiv 1011.0686): the student acts, the teacher says at every step what it would have done, and
the student regresses that. So it learns in the states that it gets into itself, those after its own mistakes included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rookery.policies.imitation.regression import Regression, RegressionConfig
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.threads import one_thread_each

if TYPE_CHECKING:
    from rookery.sim.env import Env

__all__ = ["DistillConfig", "Teacher", "distill", "privileged"]

Teacher = Callable[["Env", Tensor], Tensor]
"""What the teacher would do now, [N, A, D] in [-1, 1], in an environment whose student sees [N, A, O]."""


@dataclass(frozen=True)
class DistillConfig(RegressionConfig):
    """Settings of `distill`."""

    iterations: int = 200
    """How often the student acts for `steps` and then learns."""
    steps: int = 32
    """Control steps that each world makes in an iteration."""
    teacher_iterations: int = 20
    """Iterations in which the teacher still acts: in all worlds at first, in linearly fewer until none."""
    keep: int = 4
    """Latest iterations whose samples the student learns from."""
    epochs: int = 2
    """How often an iteration goes through them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least_one("iterations", "steps", "keep", "epochs")


@torch.no_grad()
@one_thread_each
def distill(
    env: Env,
    teacher: Teacher,
    config: DistillConfig | None = None,
    progress: Callable[[dict[str, float]], None] | None = None,
) -> Policy:
    """Teach a student.

    Args:
        env: the student's environment: its one group declares what the student sees, history included.
        teacher: asked once in every control step: `privileged` makes one of a policy, and a classical controller is
            ``lambda env, obs: controller({group: obs})[group]``.
        config: settings.
        progress: called after each iteration with its "iteration", "loss" (mean squared error of the actions while
            learning), "error" (the same of the actions that the student took or would have taken) and "reward" (mean).

    Returns:
        The student.

    Raises:
        RookeryError: several groups, or a teacher that does not fit.
    """
    c = config or DistillConfig()
    if len(env.groups) != 1:
        raise RookeryError(f"distill teaches one group, this task has {', '.join(env.groups)}: take a task of one.")
    student = _Student(env, c)
    shape = (env.num_envs, student.spec.count, student.spec.action.size)
    obs, _ = env.reset()
    env.stagger()
    for i in range(c.iterations):
        led = torch.rand(env.num_envs, generator=student.generator) < 1.0 - i / max(1, c.teacher_iterations)
        error = 0.0
        reward = 0.0
        for t in range(c.steps):
            wanted = teacher(env, obs[student.name])
            if tuple(wanted.shape) != shape:
                raise RookeryError(
                    f"the teacher gives actions {tuple(wanted.shape)}, and group {student.name!r} takes {shape}: take a "
                    "teacher of the same control mode."
                )
            mine = student.act(obs[student.name])
            active = (env.active or {}).get(student.name)
            student.note(i, t, obs[student.name], wanted, active)
            obs, earned, *_ = env.step({student.name: torch.where(led[:, None, None].to(mine.device), wanted, mine)})
            error += (mine - wanted).square().mean().item() / c.steps
            reward += earned[student.name].mean().item() / c.steps
        loss = student.study(i)
        if progress is not None:
            progress({"iteration": i + 1, "loss": loss, "error": error, "reward": reward})
    return student.policy()


def privileged(policy: Policy, seen: Callable[[Env], Tensor]) -> Teacher:
    """A policy as a teacher.

    Args:
        policy: acts on what `seen` gives.
        seen: what it sees of the environment as it stands now, [N, A, its observation size], with its scales and clips.

    Raises:
        RookeryError: when asked, `seen` gives something of another size.
    """
    policy = policy.eval()

    def act(env: Env, obs: Tensor) -> Tensor:
        x = seen(env)
        if x.dim() != 3 or x.shape[-1] != policy.observation_size:
            raise RookeryError(
                f"the teacher takes {policy.observation_size} observations, and is given {tuple(x.shape)}."
            )
        return policy.to(env.device)(x)

    return act


class _Student(Regression):
    """With the samples of the latest iterations."""

    config: DistillConfig

    def __init__(self, env: Env, config: DistillConfig) -> None:
        device = torch.device(env.device)
        self.name, self.spec = next(iter(env.groups.items()))
        size = self.spec.observation_size
        act = self.spec.action.size
        super().__init__(size, self.spec.action.neutral, config, device)
        rows = (config.keep, config.steps, env.num_envs, self.spec.count)
        self.seen, self.wanted = (torch.zeros(*rows, k, device=device) for k in (size, act))
        self.counts = torch.zeros(rows, device=device)

    def note(self, i: int, t: int, obs: Tensor, wanted: Tensor, active: Tensor | None) -> None:
        row = i % self.config.keep
        self.norm.record(obs, active)
        self.seen[row, t] = obs
        self.wanted[row, t] = wanted
        self.counts[row, t] = 1.0 if active is None else active.float()

    def study(self, i: int) -> float:
        """Regress what the teacher wanted in the latest iterations; returns the mean squared error."""
        c = self.config
        full = min(i + 1, self.config.keep)
        self.norm.commit()
        seen, wanted = (x[:full].flatten(0, -2) for x in (self.seen, self.wanted))
        counts = self.counts[:full].flatten()
        losses = []
        for _ in range(c.epochs):
            for rows in torch.randperm(len(seen), generator=self.generator).to(seen.device).split(c.batch):
                losses.append(self.learn(seen[rows], wanted[rows], i / c.iterations, counts[rows]))
        return torch.stack(losses).mean().item()
