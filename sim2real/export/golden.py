"""Golden vectors: observations and what the torch policy answers, so that any other implementation can be proved."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rookery.policies.stages.choose import Choose
from rookery.sim.errors import RookeryError
from rookery.sim2real.export.exporter import GOLDEN, Export, Exporter

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.policies.stages.chain import Leaf

Array = NDArray[np.float32]
EPISODE = 47
"""Golden observations in a row that a policy with memory takes before it begins anew."""
MOST_STEPS = 400
"""The most of them, of a hierarchy whose decisions stand for long."""
EVENT_RATE = 0.15
"""Share of the golden observations with an event, of a policy that decides at some."""


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
    With choices also `logits` [n, C] and `known_logits`, and with a mask `action_mask` [n, C] bool. With decisions at events
    `events` [n, E] bool, those that happen before each observation.

    Raises:
        RookeryError: an action is NaN.
    """
    import torch

    plain = copy.deepcopy(policy).to("cpu", torch.float32).eval()
    observations = golden_observations(plain, seed)
    with torch.no_grad():
        given: dict[str, NDArray[Any]] = {"observations": observations}
        if plain.state_size:
            given["start"] = np.arange(len(observations)) % _episode(plain) == 0
        if plain.events:
            given["events"] = golden_events(plain, len(observations), seed)
        if plain.mask_size:
            choose = plain.chain.find(Choose)
            assert choose is not None
            given["action_mask"] = choose.golden_masks(len(observations), np.random.default_rng(seed))
        arrays = given | _answers(plain, given)
        if plain.targets:
            leaf = next(leaf for leaf in plain.chain.leaves if leaf.stage.targets)
            rng = np.random.default_rng(seed)
            given["known_targets"] = leaf.stage.golden_known(stage_arrays(plain, leaf), len(observations), rng)
            arrays |= given | {f"known_{name}": x for name, x in _answers(plain, given).items()}
    for name in ("actions", "known_actions", "logits", "known_logits"):
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise RookeryError(
                "the policy acts by NaN at observations that its normalizer lets through, as its large weights overflow: "
                "export an earlier checkpoint or another run."
            )
    np.savez(path, fingerprint=np.array(fingerprint), **arrays)  # type: ignore[arg-type]  # its stubs take the names for options


def golden_events(policy: Policy, rows: int, seed: int = 0) -> NDArray[np.bool_]:
    """Events [rows, E] at random, at times two at once."""
    return np.random.default_rng(seed).random((rows, len(policy.events))) < EVENT_RATE / len(policy.events)


def _episode(policy: Policy) -> int:
    """Golden observations in a row: enough for two decisions of each high level, so that they run over switches."""
    longest = max((max(node.link.rules.steps) for node in policy.chain.decisions), default=0)
    return max(EPISODE, min(2 * longest + 1, MOST_STEPS))


def act_golden(policy: Policy, observations: Array) -> Array:
    """Actions [n, D] for observations [n, O], which come one after the other from an episode's start, without an event; without
    gradients."""
    return _answers(policy, {"observations": observations, "start": np.arange(len(observations)) == 0})["actions"]


def answers_on(policy: Policy, observations: Array) -> Array:
    """Actions and logits [n, D + C] for observations [n, O] in a row from an episode's start, all options allowed, with golden
    events."""
    import torch

    given: dict[str, NDArray[Any]] = {
        "observations": observations,
        "start": np.arange(len(observations)) % EPISODE == 0,
    }
    if policy.mask_size:
        given["action_mask"] = np.ones((len(observations), policy.mask_size), dtype=bool)
    if policy.events:
        given["events"] = golden_events(policy, len(observations))
    with torch.no_grad():
        out = _answers(copy.deepcopy(policy).to("cpu", torch.float32).eval(), given)
    return np.concatenate([out[name] for name in ("actions", "logits") if name in out], axis=1)


def _answers(policy: Policy, given: Mapping[str, NDArray[Any]]) -> dict[str, Array]:
    """`actions` [n, D] of a policy, step by step where it has memory, and of one that chooses `logits` [n, C]."""
    import torch

    obs, *more = (
        torch.from_numpy(given[name]) if name in given else None
        for name in ("observations", "known_targets", "action_mask", "events")
    )
    assert obs is not None
    steps = []
    if not policy.state_size:
        steps.append(policy.step_with_logits(obs, policy.initial_state(len(obs)), *more))
    else:
        state = policy.initial_state(1)
        for i in range(len(obs)):
            rows = [None if x is None else x[i : i + 1] for x in more]
            state = policy.initial_state(1) if given["start"][i] else state
            steps.append(policy.step_with_logits(obs[i : i + 1], state, *rows))
            state = steps[-1][1]
    actions, _, logits = (torch.cat(parts).numpy() for parts in zip(*steps, strict=True))
    return {"actions": actions} | ({"logits": logits} if policy.options else {})
