"""The torch policies of a bundle, from its contract and the weights in its ONNX files; its C is neither read nor run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.exporter import CONTRACT, ONNX, file_name
from rookery.sim2real.export.trust import MOST_NUMBERS

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

__all__ = ["is_bundle", "open_bundle"]


def is_bundle(folder: Path) -> bool:
    """True where a folder holds a contract and ONNX, but no weights of a run."""
    return (folder / CONTRACT).is_file() and any(folder.glob("policy*.onnx")) and not any(folder.glob("*.safetensors"))


def open_bundle(folder: Path) -> tuple[dict[str, Policy], Contract]:
    """The policies of a bundle by group, and their contract.

    Raises:
        RookeryError: a file is missing or damaged, or ONNX and contract are of different stages.
    """
    import torch

    from rookery.policies.policy import Policy
    from rookery.policies.stages.module import Module
    from rookery.sim2real.export.check import open_onnx, read_weights

    contract = Contract.read(folder)
    policies = {}
    for group, declared in contract.groups.items():
        path = folder / file_name(ONNX, contract, group)
        if any(isinstance(leaf.stage, Module) for leaf in declared.trained.leaves):  # its code would be run
            raise RookeryError(f"{folder} holds a network of somebody's own: give the run that it was exported from.")
        if sum(math.prod(w.shape) for w in declared.trained.weights().values()) > MOST_NUMBERS:
            raise RookeryError(
                f"the contract of {folder} asks for more weights than any policy here has: use another bundle."
            )
        weights = read_weights(open_onnx(path, contract, group), path)
        policy = Policy(declared.trained.links)
        # the exporter leaves out what is zero
        state = {name: weights.get(name, np.zeros(x.shape, np.float32)) for name, x in policy.state_dict().items()}
        absent = [name for name, x in policy.state_dict().items() if ".bias" not in name and name not in weights]
        if absent or any(state[name].shape != tuple(x.shape) for name, x in policy.state_dict().items()):
            raise RookeryError(f"{path} lacks weights of its contract's stages: export the bundle again.")
        policy.load_state_dict({name: torch.from_numpy(x.copy()) for name, x in state.items()})
        if fault := policy.fault():
            raise RookeryError(f"{path} holds {fault}: export the bundle again.")
        policies[group] = policy.eval()
    return policies, contract
