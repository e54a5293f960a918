"""The exported C in place of torch: a policy's own source, compiled here, acting in the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.training.evaluate import allowed_options
from rookery.sim.env import Act, Env
from rookery.sim.events import events_now
from rookery.sim.teams import gathered, team_agents, teamwork
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.differences import row_differences
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

TOLERANCE = 1e-4
"""Largest difference of actions in [-1, 1] from torch; that of `check_bundle` with room for longer sums of float32."""


def without_c(policies: Mapping[str, Policy]) -> str:
    """Why the gate has no C of these policies to run; "" where it has."""
    if any(p.targets for p in policies.values()):
        return "the C of a policy with a state estimator is checked by `rookery export --check`"
    return next((p.chain.c_refused for p in policies.values() if p.chain.c_refused), "")


def compile_policies(policies: Mapping[str, Policy], contract: Contract, folder: Path) -> dict[str, NativePolicy]:
    """The C of every group's policy, compiled in a folder and loaded.

    Raises:
        RookeryError: the policy cannot be exported, or there is no compiler.
    """
    contract = with_stages(contract, policies)
    out = {}
    for group, policy in policies.items():
        code, header = c_source(contract, group, policy_arrays(policy), "gate", f"{group}.h")
        (folder / f"{group}.c").write_text(code, encoding="ascii")
        (folder / f"{group}.h").write_text(header, encoding="ascii")
        library = compile_library(folder / f"{group}.c", folder)
        out[group] = NativePolicy(library, read_header(folder / f"{group}.h"))
    return out


class Compared:
    """Acts with one policy, and notes by how much another would have acted differently at the same observations.

    Args:
        acting: whose actions are taken.
        other: from the same observations.
        env: where both act; of groups that choose they have `logits`, of the latest actions.

    Attributes:
        difference: the largest so far, see `row_differences`; NaN counts as infinite.
    """

    def __init__(self, acting: Act, other: Act, env: Env) -> None:
        self._acting = acting
        self._other = other
        self._env = env
        self.difference = 0.0

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        actions, others = self._acting(obs), self._other(obs)
        for group, action in actions.items():
            sizes = [len(choice.options) for choice in self._env.groups[group].action.choices]
            rows = [_rows(action), _rows(others[group])]
            if sizes:
                logits = [_rows(act.logits[group]) for act in (self._acting, self._other)]  # type: ignore[attr-defined]
                rows = [np.concatenate(pair, 1) for pair in zip(rows, logits, strict=True)]
            mask = allowed_options(self._env, group)
            worst = row_differences(rows[0], rows[1], sizes, None if mask is None else _rows(mask)).max()
            self.difference = max(self.difference, float("inf") if np.isnan(worst) else float(worst))
        return actions


def _rows(x: Tensor) -> NDArray[Any]:
    """[N, A, D] as [N A, D]."""
    return x.detach().cpu().flatten(0, 1).numpy()


class NativeAct:
    """The function from observations of an environment now to actions of compiled policies.

    Args:
        native: by group.
        env: where they act.
        events: by group whose policy decides at some, their names.

    Attributes:
        logits: by group that chooses, of the latest actions [N, A, C].
    """

    def __init__(
        self, native: Mapping[str, NativePolicy], env: Env, events: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> None:
        self._native = native
        self._events_of = {group: names for group, names in events.items() if names}
        self._env = env
        self._teams = {group: team_agents(env, group) for group, p in native.items() if p.agents > 1}
        self._counts = {group: env.groups[group].count // p.agents for group, p in native.items()}
        self._memories = {
            group: np.zeros((env.num_envs * self._counts[group], p.memory), np.float32) for group, p in native.items()
        }
        self.logits: dict[str, Tensor] = {}

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        out = {}
        for group, policy in self._native.items():
            team = self._teams.get(group)
            rows = obs[group] if team is None else gathered(obs[group], team)
            memory = self._memories[group]
            if policy.memory:
                for i in self._env.episode_start.repeat_interleave(self._counts[group]).nonzero().flatten().tolist():
                    policy.reset(memory[i : i + 1])
            flags = allowed_options(self._env, group), self._events(group)
            answers = policy.answers(_rows(rows), None, memory, *(None if x is None else _rows(x) for x in flags))
            found = torch.from_numpy(answers).view(*rows.shape[:-1], -1)
            action = found[..., : policy.actions]
            out[group] = action if team is None else teamwork(action, team)
            if policy.options:
                self.logits[group] = found[..., policy.actions :]
        return out

    def _events(self, group: str) -> Tensor | None:
        """[N, A, E] bool, those that have happened, of teams to one of their robots; None for a policy that decides at none."""
        if group not in self._events_of:
            return None
        found = events_now(self._env, group, self._events_of[group])
        return found[:, self._teams[group]].any(2) if group in self._teams else found
