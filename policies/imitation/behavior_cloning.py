"""Behavior cloning (Pomerleau 1988): supervised regression of recorded actions on recorded observations.

It steps no environment, and so learns from recordings of any origin, but never in the states that its own mistakes lead to.
Where the expert can be asked again, DAgger is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.policies.algorithms.base import Algorithm
from rookery.policies.algorithms.chains import check_encoder
from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.imitation.regression import ActionRegression, RegressionConfig
from rookery.policies.policy import Policy
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.training.starting import Starting
from rookery.sim.actions import require_numbers
from rookery.sim.buffers import under
from rookery.sim.env import Env, StepResult
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import torch_generator
from rookery.sim.threads import one_thread_each

__all__ = ["BehaviorCloning", "BehaviorCloningConfig", "mean_squared_error"]


@dataclass(frozen=True)
class BehaviorCloningConfig(RegressionConfig):
    """Settings of `BehaviorCloning`."""

    validation_share: float = 0.1
    """Share of the episodes on which the error is measured and nothing is learnt; with fewer than two episodes, none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bounds(self, ("validation_share",), 0.0, 1.0)
        if self.validation_share == 1.0:
            raise RookeryError("validation_share is 1.0: give a number below 1, or there is nothing to learn from.")


class BehaviorCloning(Algorithm):
    """Learns one policy for each group of an environment from demonstrations; each update is one pass over them.

    Args:
        env: declares the groups; it is not stepped.
        config: settings.
        seed: of initial weights, shuffles and the choice of validation episodes.
        inputs: {"dataset": Dataset}, recorded in such an environment.

    Attributes:
        epoch: passes made so far.
        networks: by group.

    Raises:
        RookeryError: no dataset, or one of other groups or sizes; an encoder without a picture.
    """

    Config: ClassVar[type] = BehaviorCloningConfig
    rollout_steps = 0

    def __init__(
        self,
        env: Env,
        config: BehaviorCloningConfig | None = None,
        seed: int = 0,
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        self.env = env
        self.config: BehaviorCloningConfig = config or BehaviorCloningConfig()
        check_encoder(self.config, env.groups.values())
        require_numbers(env.groups, "behavior cloning learns")
        data = (inputs or {}).get("dataset")
        if not isinstance(data, Dataset):
            raise RookeryError('behavior cloning needs demonstrations: give inputs={"dataset": Dataset(folder)}.')
        self.data = data
        self.seed = seed
        self.epoch = 0
        for name, group in env.groups.items():
            data.check_group(name, group)
        self.training_episodes, self.validation_episodes = self._split()
        initial = torch_generator(seed)
        self.networks = {
            name: ActionRegression(group, self.config, initial, env.device) for name, group in env.groups.items()
        }
        self._record_statistics()

    def _record_statistics(self) -> None:
        """Those of the training episodes' observations."""
        for name, network in self.networks.items():
            for batch in self.data.transitions(
                self.config.batch, group=name, episodes=self.training_episodes, shuffle=False
            ):
                network.observations.record(batch.observation.to(self.env.device))
            network.observations.commit()

    def _split(self) -> tuple[list[int], list[int]]:
        """Episodes to learn from and episodes to measure on."""
        count = len(self.data)
        share = self.config.validation_share
        order = torch.randperm(count, generator=torch_generator(self.seed)).tolist()
        validation = min(count - 1, round(share * count) or int(share > 0.0))
        return sorted(order[validation:]), sorted(order[:validation])

    @property
    def steps_per_update(self) -> int:
        return sum(self.data.episodes[i].length for i in self.training_episodes)

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The policies' actions {group: [N, A, D]}; training does not call it."""
        return {name: network.act(obs[name]) for name, network in self.networks.items()}

    def observe(self, obs: dict[str, Tensor], actions: dict[str, Tensor], result: StepResult) -> None:
        """Nothing: no environment is stepped."""

    @torch.no_grad()
    @one_thread_each
    def update(self, progress: float) -> dict[str, float]:
        """One pass over the training episodes.

        Args:
            progress: share of the training before this pass; the learning rate depends on it.

        Returns:
            by "<group>/<name>": "loss", mean loss of the actions while learning, and "error", their mean squared error after
            the pass on the validation episodes (on the training episodes where there are none).
        """
        figures = {}
        for name, network in self.networks.items():
            losses = []
            sizes = []
            for batch in self.data.transitions(
                self.config.batch, group=name, episodes=self.training_episodes, seed=self.seed + self.epoch
            ):
                observation = batch.observation.to(self.env.device)
                losses.append(network.learn(observation, batch.action.to(self.env.device), progress))
                sizes.append(len(batch))
            share = torch.tensor(sizes, device=self.env.device) / sum(sizes)
            figures[f"{name}/loss"] = (torch.stack(losses) * share).sum().item()
            episodes = self.validation_episodes or self.training_episodes
            figures[f"{name}/error"] = mean_squared_error(network.policy(), self.data, name, episodes)
        self.epoch += 1
        return figures

    def starting(self) -> Mapping[str, Starting]:
        return self.networks

    def close(self) -> None:
        for network in self.networks.values():
            network.close()

    def policies(self) -> dict[str, Policy]:
        """Policies as learnt so far, by group."""
        return {name: network.policy() for name, network in self.networks.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Networks, optimizers, normalizers and the number of passes, of which the order of samples follows."""
        out = {"epoch": torch.tensor(self.epoch)}
        for name, network in self.networks.items():
            out |= prefixed(name, network.state_dict())
        return out

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state, see `Algorithm.load_state_dict`."""
        check_state(self.state_dict(), state)
        for name, network in self.networks.items():
            network.load_state_dict(under(name, state))
        self.epoch = int(state["epoch"])


@torch.no_grad()
def mean_squared_error(
    policy: Policy, data: Dataset, group: str | None = None, episodes: Sequence[int] | None = None
) -> float:
    """Mean squared difference between a policy's actions and the recorded ones.

    Args:
        policy: on the CPU.
        data: demonstrations.
        group: whose; None for the only one.
        episodes: which; None for all.
    """
    total = 0.0
    count = 0
    for batch in data.transitions(8192, group=group, episodes=episodes, shuffle=False):
        total += (policy(batch.observation) - batch.action).square().mean(-1).sum().item()
        count += len(batch)
    return total / max(1, count)
