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
import torch
from torch import Tensor

from rookery.policies.nn.spec import refuse_untrusted
from rookery.policies.policy import Policy
from rookery.sim.deployment import GRU_EQUATIONS
from rookery.sim.errors import RookeryError
from rookery.sim.files import make_folder, replace
from rookery.sim.untrusted import parse_json, read_json, read_safetensors

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Numbers of the errors of a full disk."""


def save_policy(folder: Path | str, policies: dict[str, Policy], contract: dict[str, Any]) -> None:
    """Write policies and their contract, whose ``groups[group]`` gets "network" and, of policies with memory, "memory"
    from the policies.

    Raises:
        RookeryError: the folder cannot be written or the disk is full.
    """
    folder = Path(folder)
    contract = copy.deepcopy(contract)
    groups = contract.setdefault("groups", {})
    try:
        make_folder(folder)
        for name, policy in policies.items():
            group = name if name in groups else re.sub(r"_\d+$", "", name)
            declared = groups.setdefault(group if group in groups else name, {})
            declared["network"] = policy.network()
            declared.pop("memory", None)
            if policy.memory_size:
                declared["memory"] = GRU_EQUATIONS
            tensors = {k: v.detach().cpu().contiguous() for k, v in policy.state_dict().items()}
            metadata = {"network": json.dumps(policy.network()), "sha256": _digest(tensors)}
            file = "policy.safetensors" if len(policies) == 1 else f"policy_{name}.safetensors"
            replace(folder / file, safetensors.torch.save(tensors, metadata))
        replace(folder / "contract.json", json.dumps(contract, indent=1).encode())
    except OSError as error:
        raise unwritable(folder, error) from error


def load_policy(folder: Path | str) -> tuple[dict[str, Policy], dict[str, Any]]:
    """Read what `save_policy` wrote.

    Returns:
        policies by name, and the contract.

    Raises:
        RookeryError: a file is missing or damaged, the contract is of another network, or weights are not finite.
    """
    folder = Path(folder)
    contract_file = folder / "contract.json"
    try:
        contract = read_json(contract_file)
        groups = {name: group.get("network") for name, group in contract["groups"].items()}
    except OSError as error:
        raise RookeryError(
            f"{folder} holds no policy (contract.json: {error.strerror}): give the folder of a run or of policies/zoo."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RookeryError(f"{contract_file} is damaged: take it from the run's checkpoint or export again.") from error
    policies = {}
    for group, network in groups.items():
        for name, file in _files(folder, group, alone=len(groups) == 1):
            policies[name] = _read(file, contract_file, group, network)
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


def _read(file: Path, contract_file: Path, group: str, network: dict[str, Any] | None) -> Policy:
    way = "copy it again or use another run."
    try:
        tensors, metadata = read_safetensors(file)
        own = dict(parse_json(metadata["network"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RookeryError(f"{file} is damaged or no policy of Rookery: {way}") from error
    if _digest(tensors) != metadata.get("sha256"):
        raise RookeryError(f"{file} was edited, its checksum does not fit its weights: {way}")
    if network != own:
        raise RookeryError(
            f"{contract_file} and {file.name} disagree on the network of group {group!r} ({network!s:.200} and "
            f"{own!s:.200}): "
            "take both from the same run."
        )
    if own.get("module"):
        refuse_untrusted(str(own["module"]), file)
    try:
        if not own.get("module"):
            with torch.device("meta"):  # sizes first, without memory
                declared = {name: t.shape for name, t in Policy(**own).state_dict().items()}
            if declared != {name: t.shape for name, t in tensors.items()}:
                raise ValueError("other sizes")
        policy = Policy(**own)
        policy.load_state_dict(tensors)
    except (TypeError, ValueError, RuntimeError, KeyError, OverflowError) as error:
        raise RookeryError(f"{file} does not hold the network it declares: {way}") from error
    if fault := policy.fault():
        raise RookeryError(f"{file} holds {fault}: take an earlier checkpoint or another run.")
    return policy.eval()


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
