"""Teacher and student: a classical controller, or a policy that sees what no robot measures, teaches a policy that sees
what a robot does.

DAgger (Ross et al. 2011, arXiv 1011.0686): the student acts, the teacher says at every step what it would have done, and
the student regresses that. So it learns in the states that it gets into itself, those after its own mistakes included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from rookery.policies.networks import MLP, Adam, parameter_count
from rookery.policies.normalizers import ObservationNorm
from rookery.policies.policy import ACTIVATIONS, Policy
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.threads import one_thread_each

if TYPE_CHECKING:
    from rookery.sim.vec_env import VecEnv

__all__ = ["DistillConfig", "Teacher", "distill", "privileged"]

Teacher = Callable[["VecEnv", Tensor], Tensor]
"""What the teacher would do now, [N, A, D] in [-1, 1], in an environment whose student sees [N, A, O]."""


@dataclass(frozen=True)
class DistillConfig:
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
    batch: int = 2048
    """Samples of one optimiser step."""
    hidden: tuple[int, ...] = (128, 64)
    """Widths of the student's hidden layers."""
    activation: Literal["tanh", "elu", "relu"] = "tanh"
    """Activation after every hidden layer."""
    obs_clip: float = 10.0
    """Limit of the normalised observations."""
    learning_rate: float = 1e-3
    """Learning rate of Adam at the start; it falls linearly to a tenth."""
    max_grad_norm: float = 1.0
    """Limit of the gradient's norm."""
    seed: int = 0
    """Seed of initial weights, shuffles and of who acts where."""

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        for name in ("iterations", "steps", "keep", "epochs", "batch"):
            if getattr(self, name) < 1:
                raise RookeryError(f"{name} is {getattr(self, name)}: give at least 1.")


@torch.no_grad()
@one_thread_each
def distill(
    env: VecEnv,
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
        error, reward = 0.0, 0.0
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
        loss = student.learn(i)
        if progress is not None:
            progress({"iteration": i + 1, "loss": loss, "error": error, "reward": reward})
    return student.policy()


def privileged(policy: Policy, seen: Callable[[VecEnv], Tensor]) -> Teacher:
    """A policy as a teacher.

    Args:
        policy: acts on what `seen` gives.
        seen: what it sees of the environment as it stands now, [N, A, its observation size], with its scales and clips.

    Raises:
        RookeryError: when asked, `seen` gives something of another size.
    """
    policy = policy.eval()

    def act(env: VecEnv, obs: Tensor) -> Tensor:
        x = seen(env)
        if x.dim() != 3 or x.shape[-1] != policy.observation_size:
            raise RookeryError(
                f"the teacher takes {policy.observation_size} observations, and is given {tuple(x.shape)}."
            )
        return policy.to(env.device)(x)

    return act


class _Student:
    """Network, optimiser, normaliser, and the samples of the latest iterations."""

    def __init__(self, env: VecEnv, config: DistillConfig) -> None:
        self.config, device = config, torch.device(env.device)
        self.name, self.spec = next(iter(env.groups.items()))
        c, size, act = config, self.spec.observation_size, self.spec.action.size
        self.generator = torch.Generator().manual_seed(c.seed)
        sizes = (size, *c.hidden, act)
        parameters = torch.zeros(1, parameter_count(sizes), device=device)
        self.gradients = torch.zeros_like(parameters)
        self.network = MLP(parameters, self.gradients, sizes, c.activation)
        self.network.initialize(self.generator, 0.01, torch.tensor(self.spec.action.neutral))
        self.adam = Adam(parameters, self.gradients, c.max_grad_norm)
        self.norm = ObservationNorm(size, c.obs_clip, device)
        rows = (c.keep, c.steps, env.num_envs, self.spec.count)
        self.seen, self.wanted = (torch.zeros(*rows, k, device=device) for k in (size, act))
        self.counts = torch.zeros(rows, device=device)

    def act(self, obs: Tensor) -> Tensor:
        return self.network.forward_agents(self.norm.normalize(obs)).clamp(-1.0, 1.0)

    def note(self, i: int, t: int, obs: Tensor, wanted: Tensor, active: Tensor | None) -> None:
        row = i % self.config.keep
        self.norm.record(obs, active)
        self.seen[row, t], self.wanted[row, t] = obs, wanted
        self.counts[row, t] = 1.0 if active is None else active.float()

    def learn(self, i: int) -> float:
        """Regress what the teacher wanted in the latest iterations; returns the mean squared error."""
        c, full = self.config, min(i + 1, self.config.keep)
        self.norm.commit()
        seen, wanted = (x[:full].flatten(0, -2) for x in (self.seen, self.wanted))
        counts = self.counts[:full].flatten()
        rate = torch.full((1, 1), c.learning_rate * (1.0 - 0.9 * i / c.iterations), device=seen.device)
        losses = []
        for _ in range(c.epochs):
            for rows in torch.randperm(len(seen), generator=self.generator).to(seen.device).split(c.batch):
                error = self.network.forward(self.norm.normalize(seen[rows]).unsqueeze(0)).sub_(wanted[rows])
                w = (counts[rows] / counts[rows].sum().clamp(min=1.0)).unsqueeze(1)
                losses.append((error.square() * w).sum() / error.shape[-1])
                self.gradients.zero_()
                self.network.backward(error.mul_(2.0 / error.shape[-1] * w))
                self.adam.step(rate)
        return torch.stack(losses).mean().item()

    def policy(self) -> Policy:
        c, spec = self.config, self.spec
        out = Policy(spec.observation_size, spec.action.size, c.hidden, c.activation, c.obs_clip)
        out.mean.copy_(self.norm.mean)
        out.std.copy_(self.norm.std)
        self.network.write_to(out.layers, 0)
        return out.eval()
