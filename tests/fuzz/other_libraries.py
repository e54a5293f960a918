"""Checkpoints as rsl_rl and Stable-Baselines3 save them, and changes of what is in them."""

from __future__ import annotations

import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import torch

from rookery.policies.other_libraries import as_policy, read_actor

FILE = "model.pt"
ARCHIVE = "model.zip"
ODD: tuple[Any, ...] = (
    None, 3, "text", [], {}, torch.zeros(()), torch.zeros(0, 3), torch.zeros(2, 3, 4), torch.zeros(4, dtype=torch.int64),
    torch.zeros(4, 4, dtype=torch.complex64), torch.full((8, 6), float("nan")), torch.zeros(4, 4).to_sparse(),
    torch.zeros(4, 4, device="meta"), torch.zeros(1).expand(1 << 20, 1 << 12),
)  # fmt: skip
"""What stands in a checkpoint in place of a tensor."""


def _weights(*names: str) -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    sizes = (6, 8, 2)
    out = {}
    for name, i, o in zip(names, sizes, sizes[1:], strict=False):
        out |= {f"{name}.weight": torch.randn(o, i), f"{name}.bias": torch.randn(o)}
    return out


def write_rsl_rl(folder: Path) -> None:
    norm = {f"obs_normalizer.{name}": torch.ones(1, 6) for name in ("_mean", "_std")}
    torch.save({"actor_state_dict": _weights("mlp.0", "mlp.2") | norm, "iter": 3}, folder / FILE)


def write_sb3(folder: Path) -> None:
    policy = io.BytesIO()
    torch.save(_weights("mlp_extractor.policy_net.0", "action_net"), policy)
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        archive.writestr("policy.pth", policy.getvalue())
        archive.writestr(
            "data", json.dumps({"num_timesteps": 100, "policy_kwargs": {"activation_fn": "<class 'x.ELU'>"}})
        )


def mutate_tensors(data: bytes, rng: random.Random) -> bytes:
    """A tensor for another, or something that is none; a name for another."""
    saved = torch.load(io.BytesIO(data), weights_only=True)
    actor = saved["actor_state_dict"]
    name = rng.choice(list(actor))
    value = actor.pop(name)
    actor[rng.choice((name, name + "x", "mlp.00.weight", "mlp.7.bias", 5))] = rng.choice((*ODD, value))
    if rng.random() < 0.1:
        saved["actor_state_dict"] = rng.choice(ODD)
    out = io.BytesIO()
    torch.save(saved, out)
    return out.getvalue()


def mutate_data(data: bytes, rng: random.Random) -> bytes:
    """Other JSON beside the weights, or none."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["data"] = rng.choice(
        (b"", b"[]", b"3", b"{}", b"[" * 100_000, b'{"policy_kwargs": 3}', b'{"num_timesteps": 1e999}', b"\xff")
    )
    if rng.random() < 0.2:
        del files[rng.choice(list(files))]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def read(file: Path) -> Any:
    return as_policy(read_actor(file), "elu")(torch.zeros(1, 6))
