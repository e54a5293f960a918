"""Golden vectors: observations and what the torch policy answers, so that any other implementation can be proved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError
from rookery.sim2real.export.exporter import GOLDEN, Export, Exporter

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.policies.stages.chain import Leaf

Array = NDArray[np.float32]
EPISODE = 47
"""Golden observations in a row that a policy with memory takes before it begins anew."""


class GoldenVectors(Exporter):
    """Golden vectors: observations and the policy's answers."""

    name = "golden"
    files = (GOLDEN,)

    def write(self, export: Export, folder: Path) -> None:
        for _, policy, (path,) in export.parts(folder, *self.files):
            write_golden(policy, export.contract.fingerprint, path)


def golden_observations(policy: Policy, seed: int = 0) -> Array:
    """Observations [n, O] float32, n >= 1000, on which the limits of the policy's first stage show.

    Args:
        policy: on the CPU.
        seed: of the random part.
    """
    rng = np.random.default_rng(seed)
    first = policy.chain.leaves[0]
    rows = first.stage.golden(stage_arrays(policy, first), rng)
    if rows is None:
        rows = 2.0 * rng.standard_normal((1200, policy.observation_size))
    return rows.astype(np.float32)


def stage_arrays(policy: Policy, leaf: Leaf) -> dict[str, Array]:
    """The weights of one stage by name."""
    state = policy.state_dict()
    return {name: state[f"{leaf.name}.{name}"].numpy() for name in leaf.stage.weights()}


def write_golden(policy: Policy, fingerprint: str, path: Path, seed: int = 0) -> None:
    """Write `observations` [n, O], `actions` [n, D] (torch, float32, CPU) and the contract's `fingerprint` as .npz.

    With a state estimator also `known_targets` [n, M], half of it NaN, and `known_actions` [n, D], the actions for these.
    With a memory the observations are steps one after the other, and `start` [n] bool says before which it begins anew.

    Raises:
        RookeryError: an action is NaN.
    """
    import torch

    plain = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    observations = golden_observations(plain, seed)
    with torch.no_grad():
        start = np.arange(len(observations)) % EPISODE == 0
        actions = _actions(plain, observations, start)
        arrays = {"observations": observations, "actions": actions} | ({"start": start} if plain.state_size else {})
        if plain.targets:
            leaf = next(leaf for leaf in plain.chain.leaves if leaf.stage.targets)
            rng = np.random.default_rng(seed)
            known = leaf.stage.golden_known(stage_arrays(plain, leaf), len(observations), rng)
            arrays |= {"known_targets": known, "known_actions": _actions(plain, observations, start, known)}
    for name in ("actions", "known_actions"):
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise RookeryError(
                "the policy acts by NaN at observations that its normalizer lets through, as its large weights overflow: "
                "export an earlier checkpoint or another run."
            )
    np.savez(path, fingerprint=np.array(fingerprint), **arrays)


def act_golden(policy: Policy, observations: Array) -> Array:
    """Actions [n, D] for observations [n, O], which come one after the other from an episode's start; without gradients."""
    return _actions(policy, observations, np.arange(len(observations)) == 0)


def _actions(policy: Policy, observations: Array, start: NDArray[np.bool_], known: Array | None = None) -> Array:
    """Actions [n, D] of a policy, step by step where it has memory."""
    import torch

    obs = torch.from_numpy(observations)
    targets = None if known is None else torch.from_numpy(known)
    if not policy.state_size:
        return policy(obs, targets).numpy()
    state = policy.initial_state(1)
    out = []
    for i in range(len(obs)):
        state = policy.initial_state(1) if start[i] else state
        action, state = policy.step(obs[i : i + 1], state, None if targets is None else targets[i : i + 1])
        out.append(action)
    return torch.cat(out).numpy()
