"""OffPolicy: what SAC and TD3 have in common. `act` and `observe` collect transitions in a replay memory, `update` makes
gradient steps on draws from it. All agents of a group share one policy and one set of critics. Of several processes one learns,
see off_policy_exchange.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.chains import check_encoder
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.algorithms.off_policy_exchange import Exchange
from rookery.policies.algorithms.off_policy_learner import OffPolicyLearner
from rookery.policies.algorithms.off_policy_storage import check_memory, codec_of
from rookery.policies.policy import Policy
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.storage.rollout_messages import Row
from rookery.policies.training.reduction import Reduction
from rookery.policies.training.roles import ONE, Roles
from rookery.sim.actions import require_numbers
from rookery.sim.buffers import under
from rookery.sim.elapsed import elapsed
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import restore_generator, torch_generator

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset

__all__ = ["OffPolicy"]

MEMORY = "memory"
"""Of a learner's `parts`: the states of its worlds' memories."""


class OffPolicy(Algorithm):
    """Learns one policy for each group of an environment.

    Args:
        env: the environment; learning happens on its device.
        config: settings.
        seed: of initial weights, exploration and minibatches.
        inputs: {"dataset": Dataset} gives a share of every batch; may be left out.
        roles: of this process, whose worlds are in `env`; `share` is then called with as many processes.

    Attributes:
        Learner: what learns for one group.
        learners: by group.
        steps: control steps that every world has made.
        worlds: number of those of all processes.
        exchange: messages between processes; None for one.

    Raises:
        RookeryError: a vector reward, a replay memory shorter than a rollout or a sequence, or larger than the device's memory,
            an encoder without a picture, or demonstrations without rewards or of other groups or sizes.
    """

    Learner: ClassVar[Any]
    together = "actors"

    def __init__(
        self,
        env: Env,
        config: OffPolicyConfig | None = None,
        seed: int = 0,
        inputs: Mapping[str, Any] | None = None,
        roles: Roles = ONE,
    ) -> None:
        self.env = env
        self.roles = roles
        self.worlds = env.num_envs * roles.actors
        self.config: OffPolicyConfig = config or self.Config()
        if env.objectives:
            raise RookeryError(
                f"{type(self).__name__} learns from a reward of one number, this one is a vector of "
                f"{', '.join(env.objectives)}: give weights (--weights {env.objectives[0]}=1)."
            )
        require_numbers(env.groups, f"{type(self).__name__} learns")
        if env.deciding is not None:
            raise RookeryError(
                f"{type(self).__name__} learns from every control step, and here decisions last: PPO learns them."
            )
        self.rollout_steps = self.config.rollout_steps
        kept = self._kept()
        check_encoder(self.config, env.groups.values())
        state_size = env.state_size if self.config.critic == "central" else 0
        data = (inputs or {}).get("dataset")
        if roles.learns:
            check_memory(env, self.config, kept * roles.actors, state_size, data)
        if self.config.critic == "central" and not state_size:
            raise RookeryError('critic="central" needs the state of the environment, and this one has none: use "own".')
        self.steps = 0
        self._generator = torch_generator(seed, env.device)
        initial = torch_generator(seed)
        self.learners: dict[str, OffPolicyLearner] = {
            name: self.Learner(
                group,
                env.num_envs,
                kept,
                self.config,
                initial,
                env.device,
                state_size,
                codec_of(env, self.config, group),
                roles,
            )
            for name, group in env.groups.items()
        }
        self.exchange: Exchange | None = None
        self._active: dict[str, Tensor] = {}
        self._state: Tensor | None = None
        if data is not None and roles.learns:
            self._learn_from(data)

    def _kept(self) -> int:
        """Control steps of every world that the replay memory holds.

        Raises:
            RookeryError: fewer than a rollout or a sequence.
        """
        kept = self.config.buffer_size // self.worlds
        if kept < self.rollout_steps:
            raise RookeryError(
                f"buffer_size {self.config.buffer_size} holds {kept} control steps of {self.worlds} worlds, fewer than "
                f"rollout_steps {self.rollout_steps}: give at least {self.rollout_steps * self.worlds}."
            )
        if kept < self.config.window:
            raise RookeryError(
                f"buffer_size {self.config.buffer_size} holds {kept} control steps of {self.worlds} worlds, fewer than "
                f"memory_burn_in and memory_steps, {self.config.window}: give at least {self.config.window * self.worlds}."
            )
        return kept

    def _learn_from(self, data: Dataset) -> None:
        from rookery.policies.storage.demonstrations import replay_of

        if self.config.critic == "central":
            raise RookeryError('demonstrations hold no state of the environment: use critic="own" with them.')
        weights = self.env.deployment().config.get("reward", {})
        for name, group in self.env.groups.items():
            data.check_group(name, group)
            self.learners[name].learn_from(replay_of(data, name, weights, self.env.device))

    def check_length(self, total_steps: int) -> None:
        """Refuse a training without a gradient step, see `Algorithm.check_length`."""
        c, rollout = self.config, self.rollout_steps * self.worlds
        begun = max(c.learning_starts // rollout + 1, math.ceil(c.window / c.rollout_steps))  # rollouts before it
        each = c.updates_per_step * c.rollout_steps
        due = math.ceil((math.floor((begun - 1) * each) + 1) / each)
        first = max(begun, due) * rollout
        if math.ceil(total_steps / rollout) * rollout < first:
            raise RookeryError(
                f"{total_steps:,} steps end before the first gradient step, which is after {first:,}: give --steps {first} or "
                f"more, or change --learning-starts ({c.learning_starts}) or --updates-per-step ({c.updates_per_step:g})."
            )

    @torch.no_grad()
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Actions with exploration {group: [N, A, D]} for observations {group: [N, A, O]}."""
        self._active = {name: mask.clone() for name, mask in (self.env.active or {}).items()}
        self._state = self._state_now()
        random = self.steps * self.worlds < self.config.learning_starts
        return {name: learner.act(obs[name], self._generator, random) for name, learner in self.learners.items()}

    @torch.no_grad()
    def observe(self, obs: dict[str, Tensor], actions: dict[str, Tensor], result: StepResult) -> None:
        """Store one control step, see `Algorithm.observe`."""
        next_obs, reward, terminated, truncated, info = result
        next_active = self.env.active or {}
        next_state = self._state_now()
        final_state = None if next_state is None else info.get("final_state")
        final_active = info.get("final_active", {})
        for name, learner in self.learners.items():
            live = learner.live
            row: Row = {
                "observation": obs[name], "action": actions[name], "reward": reward[name], "next_observation": next_obs[name],
                "terminated": terminated, "truncated": truncated,
                "final_observation": info["final_observation"][name] if "final_observation" in info else None,
                "active": self._active.get(name), "next_active": next_active.get(name), "state": self._state,
                "next_state": next_state, "final_state": final_state, "memory": None if live is None else live.before,
                "final_active": final_active.get(name), "elapsed": elapsed(info, name),
            }  # fmt: skip
            if self.exchange is None:
                learner.store(row)
            else:
                self.exchange.note(name, row)
            if live is not None:
                live.end_episodes(terminated | truncated)
        self.steps += 1

    def _state_now(self) -> Tensor | None:
        """The environment's state [N, S] where the critics see it."""
        return self.env.state.clone() if self.config.critic == "central" else None

    def update(self, progress: float) -> dict[str, float]:
        """Make the gradient steps that are due for the latest rollout.

        Args:
            progress: for the schedules of the learning rate and of importance weights.

        Returns:
            figures by "<group>/<name>", means over the gradient steps made; none where there was none. Of several processes
            also "staleness", the updates that lay between the weights that acted and the learner's.
        """
        shared = {} if self.exchange is None else self._exchange_rollouts(self.exchange)
        if not self.roles.learns:
            return shared
        for learner in self.learners.values():
            learner.record_statistics(self.rollout_steps)
        ratio = self.config.updates_per_step
        due = math.floor(self.steps * ratio) - math.floor((self.steps - self.rollout_steps) * ratio)
        begun = self.steps * self.worlds > self.config.learning_starts and self.steps >= self.config.window
        if due == 0 or not begun:
            return shared
        rate = self.config.learning_rate * (1.0 - progress if self.config.schedule == "linear" else 1.0)
        means = []
        for learner in self.learners.values():
            learner.set_learning_rate(rate)
            learner.set_progress(progress)
            means.append(learner.learn(*learner.draw(due, self._generator), self._generator))
        rows = zip(self.learners.items(), torch.stack(means).tolist(), strict=True)  # the one wait for the device
        return shared | {
            f"{name}/{key}": x for (name, own), row in rows for key, x in zip(own.FIGURES, row, strict=True)
        }

    def _exchange_rollouts(self, exchange: Exchange) -> dict[str, float]:
        """Give the learner what all did; and those that act its weights, where they do not wait until it has learned."""
        if not self.roles.acts:
            self.steps += self.rollout_steps
        updates = self.steps // self.rollout_steps - 1
        transitions, staleness = exchange.transitions(updates)
        for name, rows in transitions.items():
            for row in rows:
                self.learners[name].store(row)
        if self.others_wait:
            exchange.due = True
        elif updates + 1 - exchange.version > self.roles.staleness:
            exchange.send_weights(updates)
        return {"staleness": float(staleness)}

    def begin_rollout(self) -> None:
        """Bring the learner's weights to all processes, where these have waited for it."""
        if self.exchange is not None and self.exchange.due:
            self.exchange.send_weights(self.steps // self.rollout_steps)

    def share(self, reduction: Reduction) -> None:
        """Learn together with other processes, see `Algorithm.share`.

        Raises:
            ValueError: they are not those that `roles` says.
        """
        self.reduction = reduction
        if reduction.size == 1:  # where a training is only looked at, whatever its roles
            return
        if (reduction.rank, reduction.size) != (self.roles.rank, self.roles.size):
            raise ValueError(f"made as {self.roles}, and shared as {reduction.rank} of {reduction.size}.")
        self.exchange = Exchange(self.learners, self._generator, self.roles, reduction)

    def policies(self) -> dict[str, Policy]:
        """The deterministic policies by group."""
        return {name: learner.policy() for name, learner in self.learners.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimizers, normalizers, replay memories, the generator and the step counter; in a process that does not
        learn, the states of its worlds' memories alone."""
        if not self.roles.learns:
            return {f"{name}.{MEMORY}": own.live.now for name, own in self.learners.items() if own.live is not None}
        out = {"steps": torch.tensor(self.steps), "generator": self._generator.get_state()}
        for name, learner in self.learners.items():
            out |= prefixed(name, learner.state_dict())
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state, see `Algorithm.load_state_dict`; where another process learns, weights come from it."""
        mine = {"steps": torch.tensor(0), "generator": self._generator.get_state()}
        check_state(mine if self.roles.learns else self.state_dict(), state)
        if not self.roles.learns:
            for name, own in self.state_dict().items():
                own.copy_(state[name])
            self.steps = int(state["steps"])
            return
        for name, learner in self.learners.items():
            learner.check_state(under(name, state))
        for name, learner in self.learners.items():
            learner.load_state_dict(under(name, state))
        self.steps = int(state["steps"])
        restore_generator(self._generator, state["generator"])

    def world_axis(self, name: str) -> int | None:
        """Axis of the worlds in what each process keeps of its own, see `Algorithm.world_axis`: states of memories."""
        return 0 if name in {f"{group}.{MEMORY}" for group in self.learners} else None
