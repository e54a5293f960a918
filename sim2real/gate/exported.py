"""The exported C in place of torch: a policy's own source, compiled here, acting in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.sim.env import Act, Env
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.native import NativePolicy, compile_library, read_header

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

TOLERANCE = 1e-4
"""Largest difference of actions in [-1, 1] from torch; that of `check_bundle` with room for longer sums of float32."""


def without_c(policies: Mapping[str, Policy]) -> str:
    """Why the gate has no C of these policies to run; "" where it has."""
    if any(p.targets for p in policies.values()):
        return "a policy with a state estimator is checked by `rookery export --check`"
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

    Attributes:
        difference: the largest so far; NaN counts as infinite.
    """

    def __init__(self, acting: Act, other: Act) -> None:
        self._acting = acting
        self._other = other
        self.difference = 0.0

    def __call__(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        actions, others = self._acting(obs), self._other(obs)
        for group, a in actions.items():
            worst = float((a - others[group]).abs().max())
            self.difference = max(self.difference, float("inf") if np.isnan(worst) else worst)
        return actions


def act_native(native: Mapping[str, NativePolicy], env: Env) -> Act:
    """The function from observations of an environment now to actions of compiled policies."""
    counts = {group: env.groups[group].count for group in native}
    memories = {group: np.zeros((env.num_envs * counts[group], p.memory), np.float32) for group, p in native.items()}

    def act(obs: dict[str, Tensor]) -> dict[str, Tensor]:
        out = {}
        for group, policy in native.items():
            rows = obs[group]
            memory = memories[group]
            if policy.memory:
                for i in env.episode_start.repeat_interleave(counts[group]).nonzero().flatten().tolist():
                    policy.reset(memory[i : i + 1])
            actions = policy.policy(rows.reshape(-1, rows.shape[-1]).numpy(), memory)
            out[group] = torch.from_numpy(actions).view(*rows.shape[:-1], -1)
        return out

    return act
