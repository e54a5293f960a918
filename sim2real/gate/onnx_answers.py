"""The exported ONNX against torch at the observations of episodes that the policy played, where it has no C to act."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.policies.nn.state_estimator import known_targets
from rookery.policies.training.evaluate import allowed_options
from rookery.sim.env import Act, Env
from rookery.sim.events import events_now
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.answers import ask_onnx
from rookery.sim2real.export.differences import row_differences
from rookery.sim2real.export.onnx import EVENTS, INPUT, KNOWN, MASK, export_onnx

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

ROWS = 1000
"""Observations of a group that are compared, about; each is a call of ONNX Runtime."""
TAKEN = "taken"
AGAIN = "use a network that ONNX Runtime can run"


def onnx_difference(
    policies: Mapping[str, Policy], contract: Contract, env: Env, act: Act, folder: Path, seed: int = 0
) -> float:
    """Largest difference of ONNX Runtime's actions and logits from those with which torch acted, see `row_differences`.

    Args:
        policies: by group, each for one agent at a time.
        contract: of them.
        env: where `act` plays from a reset on; few worlds are enough.
        act: the policies.
        folder: for temporary files.
        seed: of the episodes.

    Raises:
        RookeryError: a policy cannot be exported, or ONNX Runtime gives no answers.
    """
    contract = with_stages(contract, policies)
    worst = 0.0
    for group, rows in _played(policies, env, act, seed).items():
        file = folder / f"{group}.onnx"
        export_onnx(policies[group], contract, group, file)
        taken, mask = rows.pop(TAKEN), rows.get(MASK)
        found = ask_onnx(file.read_bytes(), rows, file, folder, AGAIN)
        sizes = [len(choice.options) for choice in env.groups[group].action.choices]
        differences = row_differences(found, taken, sizes, mask)
        worst = max(worst, float(np.nan_to_num(differences, nan=np.inf).max()))
    return worst


def _played(policies: Mapping[str, Policy], env: Env, act: Act, seed: int) -> dict[str, dict[str, NDArray[Any]]]:
    """By group, what its agents got by the names of `ask_onnx`, and the actions and logits that were TAKEN: rows in a row,
    one agent of one world after the other."""
    steps: dict[str, list[dict[str, Tensor]]] = {group: [] for group in policies}
    obs, _ = env.reset(seed)
    agents = max(env.groups[group].count for group in policies)
    for _ in range(max(1, min(env.max_episode_steps + 1, ROWS // (env.num_envs * agents)))):
        asked = {group: _asked(policy, env, group, obs[group]) for group, policy in policies.items()}
        actions = act(obs)
        for group, got in asked.items():
            logits = [act.logits[group]] if env.groups[group].action.choices else []  # type: ignore[attr-defined]
            got[TAKEN] = torch.cat([actions[group], *logits], -1)
            steps[group].append({name: x.detach().cpu() for name, x in got.items()})
        obs = env.step(actions)[0]
    return {group: {name: _in_a_row([s[name] for s in each]) for name in each[0]} for group, each in steps.items()}


def _asked(policy: Policy, env: Env, group: str, obs: Tensor) -> dict[str, Tensor]:
    """Inputs of a policy now, [N, A, ...]."""
    got = {INPUT: obs}
    if policy.state_size:
        got["start"] = env.episode_start[:, None].expand(obs.shape[:2])
    if (mask := allowed_options(env, group)) is not None:
        got[MASK] = mask
    if policy.events:
        got[EVENTS] = events_now(env, group, policy.events)
    if policy.targets and (known := known_targets(env, group)) is not None:
        got[KNOWN] = known
    return got


def _in_a_row(steps: list[Tensor]) -> NDArray[Any]:
    """T values [N, A, ...] as rows [N A T, ...]."""
    return torch.stack(steps, 2).flatten(0, 2).numpy()
