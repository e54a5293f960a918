"""An environment whose tensors are on another device than its worlds: learning on a GPU, physics on the processors.

>>> env = rookery.make("go2-velocity", 4096, device="cuda")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor

from rookery.sim.actions import check_shapes
from rookery.sim.env import Act, Env, StepResult
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.envs.staging import Staging, tensors_of, with_tensors

__all__ = ["DeviceEnv", "on_device"]

Tree = TypeVar("Tree")


class DeviceEnv(EnvWrapper):
    """An Env that takes and gives its tensors on a device of its own.

    Each step makes one copy of the actions to the CPU and one of all its results to the device. Two things stay on the CPU,
    for those who read them are there: ``info["episode"]``, the figures of episodes that ended, and what `record_terms`,
    `before_restart` and `state_dict` give.

    Args:
        env: on the CPU; the wrapper steps and closes it from now on.
        device: of the tensors.
    """

    def __init__(self, env: Env, device: torch.device) -> None:
        super().__init__(env)
        self.device = torch.device(device)
        self._staging = Staging(self.device)

    def _sent(self, tree: Tree) -> Tree:
        """Nested dicts with their tensors on the device."""
        moved: Tree = with_tensors(tree, self._staging.send(tensors_of(tree)))
        return moved

    def reset(self, seed: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
        obs, info = self.env.reset(seed)
        return self._sent(obs), self._sent(info)

    def step(self, actions: dict[str, Tensor] | Tensor) -> StepResult:
        given = self._staging.receive(check_shapes(self, actions))
        obs, reward, terminated, truncated, info = self.env.step(given)
        rest = {k: v for k, v in info.items() if k not in ("episode", "final_observation", "final_state")}
        tree: dict[str, Any] = {"obs": obs, "reward": reward, "terminated": terminated, "truncated": truncated}
        tree["info"] = rest
        if "final_observation" in info:  # of the worlds whose episode ended alone: the others' are the observations
            ids = (terminated | truncated).nonzero().squeeze(1)
            tree["ids"] = ids
            tree["final"] = {g: x[ids] for g, x in info["final_observation"].items()}
            if "final_state" in info:
                tree["final_state"] = info["final_state"][ids]
        moved = self._sent(tree)
        told: dict[str, Any] = moved["info"]
        if "final" in moved:
            ids = moved["ids"]
            told["final_observation"] = {g: moved["obs"][g].index_copy(0, ids, x) for g, x in moved["final"].items()}
            if "final_state" in moved:
                rows = moved["final_state"]
                told["final_state"] = rows.new_zeros(self.num_envs, *rows.shape[1:]).index_copy_(0, ids, rows)
        if "episode" in info:
            told["episode"] = info["episode"]
        return moved["obs"], moved["reward"], moved["terminated"], moved["truncated"], told

    @property
    def task_index(self) -> Tensor:
        return self._sent(self.env.task_index)

    @property
    def episode_start(self) -> Tensor:
        return self._sent(self.env.episode_start)

    @property
    def state(self) -> Tensor:
        return self._sent(self.env.state)

    @property
    def active(self) -> dict[str, Tensor] | None:
        return self._sent(self.env.active)

    @property
    def deciding(self) -> dict[str, Tensor] | None:
        return self._sent(self.env.deciding)

    @property
    def latest_events(self) -> Mapping[str, Tensor]:  # type: ignore[override]
        return self._sent(dict(self.env.latest_events))

    @property
    def action_mask(self) -> dict[str, Tensor] | None:
        return self._sent(self.env.action_mask)

    @property
    def privileged_targets(self) -> dict[str, Tensor] | None:
        return self._sent(self.env.privileged_targets)

    @property
    def reveal_future_mask(self) -> Tensor | None:
        return self._sent(self.env.reveal_future_mask)

    def observation_set(self, name: str) -> dict[str, Tensor]:
        return self._sent(self.env.observation_set(name))

    def metrics(self) -> dict[str, Tensor]:
        return self._sent(self.env.metrics())

    def controller(self) -> Act | None:
        return self._across(self.env.controller())

    def correction(self) -> Act | None:
        return self._across(self.env.correction())

    def _across(self, act: Act | None) -> Act | None:
        """A function of the CPU for tensors of the device."""
        if act is None:
            return None
        return lambda given: self._sent(act({g: x.detach().to("cpu") for g, x in given.items()}))


def on_device(env: Env, device: torch.device) -> Env:
    """The environment with its tensors on a device: itself where they are."""
    return env if env.device == device else DeviceEnv(env, device)
