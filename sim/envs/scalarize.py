"""One number out of a vector reward: the wrapper that lets trainers of a single reward learn a task of several objectives.

>>> env = LinearScalarization(rookery.make("swarm-surround", 64), {"closeness": 1.0, "spread": 0.5})  # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rookery.sim.env import Env, StepResult
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError, unknown


class LinearScalarization(EnvWrapper):
    """An Env with the reward ``sum_m weights[m] * objective[m]``, [N, A], in place of the vector [N, A, M].

    Everything else is the wrapped environment's. At an episode's end ``info["episode"]["return"]`` is that of the sum, by
    group, and ``info["episode"]["objectives"]`` has those of the objectives, {"group/objective": [m]}.

    Args:
        env: with a vector reward.
        weights: by objective, in the units of the reward; an objective that is left out counts nothing.

    Attributes:
        env: the wrapped environment.
        weights: the weight of every objective.
        objectives: empty: the reward is one number.

    Raises:
        RookeryError: the environment has no vector reward, or weights that are unknown, not finite, or none but 0.
    """

    def __init__(self, env: Env, weights: Mapping[str, float]) -> None:
        if not env.objectives:
            raise RookeryError(f"{env.task_id!r} has a reward of one number: leave the weights of objectives out.")
        for name, value in weights.items():
            if name not in env.objectives:
                raise unknown("objective", name, env.objectives)
            if isinstance(value, (str, bool)) or not math.isfinite(value):
                raise RookeryError(f"the weight of objective {name!r} must be a finite number, got {value!r}.")
        super().__init__(env)
        self.weights = {name: float(weights.get(name, 0.0)) for name in env.objectives}
        if not any(self.weights.values()):
            raise RookeryError(f"no objective has a weight: give at least one of {', '.join(env.objectives)}.")
        self.objectives = ()
        self._row = torch.tensor(list(self.weights.values()), device=env.device)

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        """As `Env.step`, with rewards {group: [N, A]}."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        if "episode" in info:
            episode = info["episode"]
            info["episode"] = {**episode, "return": self._returns(episode["return"]), "objectives": episode["return"]}
        return obs, {g: r @ self._row for g, r in reward.items()}, terminated, truncated, info

    def _returns(self, by_objective: dict[str, Tensor]) -> dict[str, Tensor]:
        return {
            g: torch.stack([w * by_objective[f"{g}/{name}"] for name, w in self.weights.items()]).sum(0)
            for g in self.env.groups
        }
