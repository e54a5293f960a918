"""Golden vectors: observations and what the torch policy answers, so that any other implementation can be proved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rookery.sim.errors import RookeryError

Array = NDArray[np.float32]
EPISODE = 47
"""Golden observations in a row that a policy with memory takes before it begins anew."""


def golden_observations(mean: Array, std: Array, obs_clip: float, seed: int = 0) -> Array:
    """Observations [n, O] float32, n >= 1000: everyday ones, unlikely ones, and ones beyond the normaliser's clip.

    Args:
        mean, std: [O] normaliser.
        obs_clip: its limit, in standard deviations.
        seed: of the random part.
    """
    rng = np.random.default_rng(seed)
    size = mean.size
    far = 1.5 * obs_clip
    z = [
        rng.standard_normal((800, size)),
        4.0 * rng.standard_normal((200, size)),
        far * rng.choice([-1.0, 1.0], (64, size)),  # every component beyond its clip
        far * rng.choice([-1.0, 0.0, 0.0, 1.0], (64, size)),  # some of them
        obs_clip * rng.choice([-1.0, 1.0], (16, size)),  # on the limit
        np.zeros((1, size)),  # the mean
        np.full((1, size), far),
        np.full((1, size), -far),
    ]
    rows = np.concatenate(z) * std.astype(np.float64) + mean
    return np.concatenate([rows, np.zeros((1, size))]).astype(np.float32)


def write_golden(policy: Any, fingerprint: str, path: Path, seed: int = 0) -> None:
    """Write `observations` [n, O], `actions` [n, D] (torch, float32, CPU) and the contract's `fingerprint` as .npz.

    With a state estimator also `known_targets` [n, M], half of it NaN, and `known_actions` [n, D], the actions for these.
    With a memory the observations are steps one after the other, and `start` [n] bool says before which it begins anew.

    Raises:
        RookeryError: an action is NaN.
    """
    import torch

    plain = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    observations = golden_observations(plain.mean.numpy(), plain.std.numpy(), plain.obs_clip, seed)
    with torch.no_grad():
        start = np.arange(len(observations)) % EPISODE == 0
        actions = _actions(plain, observations, start)
        arrays = {"observations": observations, "actions": actions} | ({"start": start} if plain.memory_size else {})
        if plain.targets:
            rng = np.random.default_rng(seed)
            shape = (len(observations), plain.targets)
            z = np.where(rng.random(shape) < 0.5, np.nan, 2.0 * rng.standard_normal(shape))
            known = (z * plain.target_std.double().numpy() + plain.target_mean.numpy()).astype(np.float32)
            arrays |= {"known_targets": known, "known_actions": _actions(plain, observations, start, known)}
    for name in ("actions", "known_actions"):
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise RookeryError(
                "the policy acts by NaN at observations that its normaliser lets through, as its large weights overflow: "
                "export an earlier checkpoint or another run."
            )
    np.savez(path, fingerprint=np.array(fingerprint), **arrays)


def _actions(policy: Any, observations: Array, start: NDArray[np.bool_], known: Array | None = None) -> Array:
    """Actions [n, D] of a policy, step by step where it has memory."""
    import torch

    obs = torch.from_numpy(observations)
    targets = None if known is None else torch.from_numpy(known)
    if not policy.memory_size:
        return policy(obs, targets).numpy()  # type: ignore[no-any-return]
    state = policy.initial_state(1)
    out = []
    for i in range(len(obs)):
        state = policy.initial_state(1) if start[i] else state
        action, state = policy.step(obs[i : i + 1], state, None if targets is None else targets[i : i + 1])
        out.append(action)
    return torch.cat(out).numpy()
