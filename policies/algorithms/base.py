"""Algorithm: what the runner calls, in this order.

    obs, _ = env.reset()
    while steps < total_steps:
        algorithm.begin_rollout()
        for _ in range(algorithm.rollout_steps):
            actions = algorithm.act(obs)
            result = env.step(actions)
            algorithm.observe(obs, actions, result)
            obs = result[0]
        figures = algorithm.update(progress)

The runner (policies/training/runner.py) owns the loop, the clock, the logs and the checkpoints; an algorithm owns networks,
buffers, optimizers and its random generator. An algorithm that learns from a dataset alone has `rollout_steps` 0.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor

from rookery.policies.policy import Policy
from rookery.policies.training.reduction import ALONE, Reduction
from rookery.policies.training.roles import ONE, Roles
from rookery.sim.env import Env, StepResult

if TYPE_CHECKING:
    from rookery.policies.training.starting import Starting

__all__ = ["Algorithm"]


class Algorithm(abc.ABC):
    """Base of all learning algorithms.

    Args:
        env: the environment to learn in; learning happens on its device.
        config: an instance of `Config`.
        seed: of initial weights, exploration and shuffles (the environment has its own).
        inputs: what else an algorithm learns from, by name: "dataset" (behavior cloning), "teacher" (DAgger).

    Attributes:
        Config: the frozen dataclass of its settings.
        rollout_steps: control steps that every world makes between two updates; 0 where no environment is stepped.
        steps_per_update: how far one collect-and-update of this process moves the counter that `total_steps` limits: control
            steps over all worlds, or samples where `rollout_steps` is 0.
        together: how several processes learn: each from its own worlds, with sums over all ("sums"); one from what all do, and
            the class then takes `roles` ("actors"); or not at all ("no"). Their states make one state, by `world_axis`.
        reduction: the processes that learn together, see `share`.
        roles: of this process.
        others_wait: whether the other processes wait for the coming update, so that all go on with its weights.

    Raises:
        RookeryError: settings that this environment cannot serve.
    """

    Config: ClassVar[type]
    rollout_steps: int

    env: Env
    config: Any
    together: ClassVar[Literal["no", "sums", "actors"]] = "no"
    reduction: Reduction = ALONE
    roles: Roles = ONE
    others_wait: bool = True

    @property
    def steps_per_update(self) -> int:
        return self.rollout_steps * self.env.num_envs

    def check_length(self, total_steps: int) -> None:
        """Refuse a training of `total_steps` in which nothing would be learnt.

        Raises:
            RookeryError: there would be no gradient step.
        """

    @abc.abstractmethod
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Actions with exploration {group: [N, A, D]} for observations {group: [N, A, O]} of this control step."""

    @abc.abstractmethod
    def observe(self, obs: dict[str, Tensor], actions: dict[str, Tensor], result: StepResult) -> None:
        """Store one control step.

        Args:
            obs: what the actions were chosen from.
            actions: as `act` returned them.
            result: of `env.step(actions)`; where an episode was truncated, the value of its last observation
                (``info["final_observation"]``) is bootstrapped.
        """

    @abc.abstractmethod
    def update(self, progress: float) -> dict[str, float]:
        """Learn from what was stored.

        Args:
            progress: share of `total_steps` made before this update's samples, 0 to 1, for schedules.

        Returns:
            figures for the log by name, such as "drone/policy_loss".
        """

    @abc.abstractmethod
    def policies(self) -> dict[str, Policy]:
        """The deterministic policies as they are now, by group, or "<group>_<i>" by agent where not all share their weights."""

    def starting(self) -> Mapping[str, Starting]:
        """Networks that stored policies can be put into before anything is learned, by group; none where it starts afresh."""
        return {}

    @abc.abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """All that the next update depends on, exactly: weights, optimizer, normalizers, buffers, generators, counters."""

    @abc.abstractmethod
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state of an algorithm made with the same arguments.

        Raises:
            RookeryError: a name or shape that does not fit; nothing is changed then.
        """

    def share(self, reduction: Reduction) -> None:
        """Learn together with other processes from now on, see `rookery.policies.training.reduction`. They have the same
        config, seed and number of worlds each, those of rank 0 being the first; called before the first step.

        Raises:
            ValueError: several, of an algorithm that learns in one.
        """
        if reduction.size > 1 and self.together == "no":
            raise ValueError(f"{type(self).__name__} learns in one process, not in {reduction.size}.")
        self.reduction = reduction
        self.roles = Roles(reduction.rank, reduction.size, self.roles.staleness)

    def begin_rollout(self) -> None:
        """Called before each rollout, in all processes that learn together."""

    def world_axis(self, name: str) -> int | None:
        """Axis of the worlds in an entry of the saved state; None for what all processes that learn together have alike."""
        return None

    def close(self) -> None:
        """Free threads and files."""
