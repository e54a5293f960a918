"""Finished policies on disk: policy.safetensors and contract.json, each replaced in one step.

A run folder has them beside its checkpoints, a zoo folder has nothing else. One policy is `policy.safetensors`; several
are `policy_<name>.safetensors`, the name being the group's, or "<group>_<i>" where each agent has its own weights.
"""

from __future__ import annotations

import copy
import errno
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.earlier import chain_of_network, renamed
from rookery.policies.stages.module import Module, refuse_untrusted
from rookery.sim.errors import Diverged, RookeryError
from rookery.sim.files import make_folder, replace
from rookery.sim.untrusted import parse_json, read_json, read_safetensors

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""


def save_policy(folder: Path | str, policies: dict[str, Policy], contract: dict[str, Any]) -> None:
    """Write policies and their contract, whose ``groups[group]`` gets "stages" from the policies.

    Raises:
        RookeryError: the folder cannot be written or the disk is full.
    """
    folder = Path(folder)
    contract = declared_with(policies, contract)
    try:
        make_folder(folder)
        for name, policy in policies.items():
            tensors = {k: v.detach().cpu().contiguous() for k, v in policy.state_dict().items()}
            metadata = {"stages": json.dumps(policy.to_json()), "sha256": _digest(tensors)}
            file = "policy.safetensors" if len(policies) == 1 else f"policy_{name}.safetensors"
            replace(folder / file, _in_order(safetensors.torch.save(tensors, metadata)))
        replace(folder / "contract.json", json.dumps(contract, indent=1).encode())
    except OSError as error:
        raise unwritable(folder, error) from error


def _in_order(data: bytes) -> bytes:
    """A safetensors file with its metadata sorted: `save` writes them in an order that is drawn anew each time, and the same
    policy would be another file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors stand at whole words
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def declared_with(policies: dict[str, Policy], contract: dict[str, Any]) -> dict[str, Any]:
    """A copy of a contract whose ``groups[group]`` have the stages of the policies, by group or "<group>_<i>", and of the
    task's events those at which they decide."""
    contract = copy.deepcopy(contract)
    groups = contract.setdefault("groups", {})
    for name, policy in policies.items():
        group = name if name in groups else re.sub(r"_\d+$", "", name)
        declared = groups.setdefault(group if group in groups else name, {})
        declared["stages"] = policy.to_json()
        known = {event["name"]: event for event in declared.pop("events", ())}
        if policy.events and known.keys() >= set(policy.events):
            declared["events"] = [known[event] for event in policy.events]
    return contract


def sound(policies: dict[str, Policy]) -> dict[str, Policy]:
    """The same policies, none of which holds NaN: the last gradient step before a checkpoint shows in no figure.

    Raises:
        Diverged: one does.
    """
    for name, policy in policies.items():
        if fault := policy.fault():
            raise Diverged(
                f"training diverged: the policy of {name!r} holds {fault}, and is not saved: begin from what was saved "
                "before with --init and a lower learning rate, or look for rewards or observations without bounds."
            )
    return policies


def load_policy(folder: Path | str) -> tuple[dict[str, Policy], dict[str, Any]]:
    """Read what `save_policy` wrote, today or when contracts were of version 2 or 1.

    Returns:
        policies by name, and the contract as it stands there.

    Raises:
        RookeryError: a file is missing or damaged, the contract is of other stages, or weights are not finite.
    """
    folder = Path(folder)
    contract_file = folder / "contract.json"
    try:
        contract = read_json(contract_file)
        groups = {name: group.get("stages", group.get("network")) for name, group in contract["groups"].items()}
    except OSError as error:
        raise RookeryError(
            f"{folder} holds no policy (contract.json: {error.strerror}): give the folder of a run or of policies/zoo."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RookeryError(f"{contract_file} is damaged: take it from the run's checkpoint or export again.") from error
    policies = {}
    for group, declared in groups.items():
        for name, file in _files(folder, group, alone=len(groups) == 1):
            policies[name] = _read(file, contract_file, group, declared)
    return policies, contract


def _files(folder: Path, group: str, alone: bool) -> list[tuple[str, Path]]:
    """Names and files of a group's policies: one, or one for each agent."""
    one = folder / ("policy.safetensors" if alone else f"policy_{group}.safetensors")
    if one.exists():
        return [(group, one)]
    out: list[tuple[str, Path]] = []
    while (file := folder / f"policy_{group}_{len(out)}.safetensors").exists():
        out.append((f"{group}_{len(out)}", file))
    if not out:
        raise RookeryError(f"{one} is missing: the folder is incomplete, train or copy it again.")
    return out


def _read(file: Path, contract_file: Path, group: str, declared: Any) -> Policy:
    way = "copy it again or use another run."
    try:
        tensors, metadata = read_safetensors(file)
        own = parse_json(metadata["stages"] if "stages" in metadata else metadata["network"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RookeryError(f"{file} is damaged or no policy of Rookery: {way}") from error
    if _digest(tensors) != metadata.get("sha256"):
        raise RookeryError(f"{file} was edited, its checksum does not fit its weights: {way}")
    try:
        chain, wanted = _chain(own), None if declared is None else _chain(declared)
        if wanted != chain:
            raise RookeryError(
                f"{contract_file} and {file.name} disagree on the stages of group {group!r} ({declared!s:.200} and "
                f"{own!s:.200}): take both from the same run."
            )
        for leaf in chain.leaves:
            if isinstance(leaf.stage, Module):
                refuse_untrusted(leaf.stage.factory, file)
        policy = Policy(_checked(chain, tensors).links)
        policy.load_state_dict(tensors)
    except (TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
        raise RookeryError(f"{file} does not hold the stages it declares: {way}") from error
    if fault := policy.fault():
        raise RookeryError(f"{file} holds {fault}: take an earlier checkpoint or another run.")
    return policy.eval()


def _chain(values: Any) -> StageChain:
    """The stages of JSON values, of today or as version 2 named networks."""
    return chain_of_network(values) if isinstance(values, dict) else StageChain.from_json(values)


def _checked(chain: StageChain, tensors: dict[str, Tensor]) -> StageChain:
    """The chain, after its tensors were given today's names and compared with its sizes, before memory is taken for it.

    Raises:
        ValueError: tensors of other names or sizes.
    """
    for old, new in renamed(tensors).items():
        tensors[new] = tensors.pop(old)
    sizes = {name: weight.shape for name, weight in chain.weights().items()}
    modules = tuple(f"{x.name}." for x in chain.leaves if isinstance(x.stage, Module))
    if sizes != {name: tuple(x.shape) for name, x in tensors.items() if not (modules and name.startswith(modules))}:
        raise ValueError("other sizes")
    return chain


def _digest(tensors: dict[str, Tensor]) -> str:
    """SHA-256 over names, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name].contiguous()
        digest.update(f"{name}{tuple(t.shape)}{t.dtype}".encode())
        digest.update(t.numpy().tobytes())
    return digest.hexdigest()


def unwritable(folder: Path, error: OSError) -> RookeryError:
    """The error for a folder that cannot be written."""
    if error.errno in FULL:
        return RookeryError(
            f"the disk of {folder} is full: make room and resume from the newest checkpoint, which is intact; without one, "
            "train again."
        )
    return RookeryError(
        f"{folder} cannot be written ({error.strerror}): choose another folder with --out or its rights."
    )
