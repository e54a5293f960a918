"""DAgger (Ross et al. 2011, arXiv 1011.0686): a student learns the actions of a teacher in the states that it reaches itself.

The student acts, the teacher gives at every control step the action that it would have taken, and the student regresses it.
The teacher is a classical controller, or a policy with privileged observations (see teacher.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.chains import check_encoder
from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.imitation.regression import ActionRegression, RegressionConfig
from rookery.policies.imitation.teacher import Teacher
from rookery.policies.policy import Policy
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.training.starting import Starting
from rookery.sim.actions import require_numbers
from rookery.sim.buffers import under
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import restore_generator, torch_generator
from rookery.sim.specs import Group
from rookery.sim.threads import one_thread_each

__all__ = ["DAgger", "DAggerConfig"]


@dataclass(frozen=True)
class DAggerConfig(RegressionConfig):
    """Settings of `DAgger`."""

    rollout_steps: int = 32
    """Control steps that every world makes between two updates."""
    teacher_share: float = 0.25
    """Share of the training in which the teacher still acts: in all worlds at first, in linearly fewer until none."""
    keep_rollouts: int = 4
    """Latest rollouts that the student learns from."""
    epochs: int = 2
    """Passes over their samples in an update."""
    classical: tuple[str, ...] = ()
    """Patterns of the actions that the task's classical controller teaches, where a policy (--teacher) teaches the others."""
    corrected: bool = False
    """Let the task correct what a policy (--teacher) teaches by the true state: where an arm sags, for instance, its tool is
    brought closer to its goal (`Task.correction`)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self, ("rollout_steps", "keep_rollouts", "epochs"), 1)
        check_bounds(self, ("teacher_share",), 0.0, 1.0)


class DAgger(Algorithm):
    """Learns one policy for each group of an environment from a teacher.

    Args:
        env: the student's environment; its groups declare what the student observes, history included.
        config: settings.
        seed: of initial weights, of the worlds in which the teacher acts, and of shuffles.
        inputs: {"teacher": Teacher}.

    Attributes:
        students: by group.

    Raises:
        RookeryError: no teacher, or an encoder without a picture.
    """

    Config: ClassVar[type] = DAggerConfig

    def __init__(
        self, env: Env, config: DAggerConfig | None = None, seed: int = 0, inputs: Mapping[str, Any] | None = None
    ) -> None:
        self.env = env
        self.config: DAggerConfig = config or DAggerConfig()
        check_encoder(self.config, env.groups.values())
        require_numbers(env.groups, "DAgger learns")
        self.rollout_steps = self.config.rollout_steps
        teacher = (inputs or {}).get("teacher")
        if not isinstance(teacher, Teacher):
            raise RookeryError('DAgger needs a teacher: give inputs={"teacher": ...}.')
        self.teacher = teacher
        self.updates = 0
        self._progress = 0.0
        self._generator = torch_generator(seed)
        initial = torch_generator(seed)
        self.students = {name: Student(group, env, self.config, initial) for name, group in env.groups.items()}
        self._step = 0  # control steps of the rollout so far
        self._teacher_acts = torch.zeros(env.num_envs, dtype=torch.bool)
        self._error = torch.zeros((), device=env.device)
        self._reward = torch.zeros((), device=env.device)

    @torch.no_grad()
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The teacher's actions in some worlds, the student's in the others {group: [N, A, D]}."""
        if self._step == 0:
            self._start_rollout()
        row = self.updates % self.config.keep_rollouts
        active = self.env.active or {}
        expert_actions = self.teacher.act(obs)
        mask = self._teacher_acts.to(self.env.device)[:, None, None]
        actions = {}
        for name, student in self.students.items():
            expert = student.check(name, expert_actions.get(name))
            own = student.network.act(obs[name])
            student.store(row, self._step, obs[name], expert, active.get(name))
            self._error += (own - expert).square().mean() / len(self.students)
            actions[name] = torch.where(mask, expert, own)
        return actions

    def _start_rollout(self) -> None:
        """Draw the worlds in which the teacher acts."""
        share = self.config.teacher_share
        probability = 1.0 - self._progress / share if share > 0.0 else 0.0
        self._teacher_acts = torch.rand(self.env.num_envs, generator=self._generator) < probability
        self._error.zero_()
        self._reward.zero_()

    @torch.no_grad()
    def observe(self, obs: dict[str, Tensor], actions: dict[str, Tensor], result: StepResult) -> None:
        """Note the end of a control step, see `Algorithm.observe`; samples are stored by `act`."""
        _, reward, terminated, truncated, _ = result
        self.teacher.observe_ends(terminated | truncated)
        for name in self.students:
            self._reward += reward[name].mean() / len(self.students)
        self._step += 1

    @torch.no_grad()
    @one_thread_each
    def update(self, progress: float) -> dict[str, float]:
        """Regress the expert actions of the latest rollouts.

        Args:
            progress: share of the training before this update's samples; the learning rate and the teacher's share depend
                on it.

        Returns:
            "<group>/loss", mean loss of the actions while learning; "error", mean squared error of the actions in the
            rollout; "reward", mean of the rollout.
        """
        stored = min(self.updates + 1, self.config.keep_rollouts)
        losses = {
            f"{name}/loss": student.learn(stored, progress, self._generator) for name, student in self.students.items()
        }
        figures = losses | {"error": self._error / self._step, "reward": self._reward / self._step}
        self.updates += 1
        self._progress = progress
        self._step = 0
        values = torch.stack(list(figures.values())).tolist()  # the one wait for the device
        return dict(zip(figures, values, strict=True))

    def starting(self) -> Mapping[str, Starting]:
        return {name: student.network for name, student in self.students.items()}

    def close(self) -> None:
        for student in self.students.values():
            student.network.close()

    def policies(self) -> dict[str, Policy]:
        """The students by group."""
        return {name: student.network.policy() for name, student in self.students.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Networks, optimizers, normalizers, samples, the teacher's history, the generator and the counters."""
        out = prefixed("teacher", self.teacher.state_dict())
        for name, student in self.students.items():
            out |= prefixed(name, student.state_dict())
        return out | {
            "updates": torch.tensor(self.updates),
            "progress": torch.tensor(self._progress, dtype=torch.float64),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state, see `Algorithm.load_state_dict`."""
        check_state(self.state_dict(), state)
        for name, student in self.students.items():
            student.load_state_dict(under(name, state))
        self.teacher.load_state_dict(under("teacher", state))
        self.updates = int(state["updates"])
        self._progress = float(state["progress"])
        restore_generator(self._generator, state["generator"])
        self._step = 0


class Student:
    """Network and samples of one group.

    Args:
        group: its declaration.
        env: the student's environment.
        config: settings.
        initial: source of the initial weights.

    Attributes:
        observation: [K, T, N, A, O] of the K latest rollouts of T control steps.
        expert_actions: [K, T, N, A, D].
        weights: [K, T, N, A], 0 where an agent took no part.
    """

    def __init__(self, group: Group, env: Env, config: DAggerConfig, initial: torch.Generator) -> None:
        self.config = config
        self.network = ActionRegression(group, config, initial, env.device)
        self.shape = (env.num_envs, group.count, group.action.size)
        rows = (config.keep_rollouts, config.rollout_steps, env.num_envs, group.count)
        self.observation = torch.zeros(*rows, group.observation_size, device=env.device)
        self.expert_actions = torch.zeros(*rows, group.action.size, device=env.device)
        self.weights = torch.zeros(rows, device=env.device)

    def check(self, name: str, expert_actions: Tensor | None) -> Tensor:
        """The same actions; raises RookeryError where their shape is not this group's."""
        if expert_actions is None or tuple(expert_actions.shape) != self.shape:
            found = "none" if expert_actions is None else tuple(expert_actions.shape)
            raise RookeryError(
                f"the teacher gives actions {found}, and group {name!r} takes {self.shape}: take a teacher of the same "
                "control mode."
            )
        return expert_actions

    def store(self, row: int, t: int, obs: Tensor, expert_actions: Tensor, active: Tensor | None) -> None:
        """Keep one control step of rollout `row`."""
        self.network.observations.record(obs, active)
        self.observation[row, t] = obs
        self.expert_actions[row, t] = expert_actions
        self.weights[row, t] = 1.0 if active is None else active.float()

    def learn(self, stored: int, progress: float, generator: torch.Generator) -> Tensor:
        """Regress the samples of the `stored` rollouts; the mean loss, a scalar."""
        self.network.observations.commit()
        observation = self.observation[:stored].flatten(0, -2)
        expert_actions = self.expert_actions[:stored].flatten(0, -2)
        weights = self.weights[:stored].flatten()
        losses = []
        for _ in range(self.config.epochs):
            order = torch.randperm(len(observation), generator=generator).to(observation.device)
            for rows in order.split(self.config.batch):
                losses.append(self.network.learn(observation, expert_actions, progress, weights, rows))
        return torch.stack(losses).mean()

    def _samples(self) -> dict[str, Tensor]:
        return {"observation": self.observation, "expert_actions": self.expert_actions, "weights": self.weights}

    def state_dict(self) -> dict[str, Tensor]:
        """Network, optimizer, normalizer and samples."""
        return self._samples() | prefixed("network", self.network.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a checked state."""
        for name, tensor in self._samples().items():
            tensor.copy_(state[name])
        self.network.load_state_dict(under("network", state))
