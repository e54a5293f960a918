"""Files of actors as other libraries save them, and changes of what is in them."""

from __future__ import annotations

import io
import json
import random
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

from rookery.policies.imports.actor import as_policy
from rookery.policies.imports.reading import read_actor
from tests.fuzz.mutate import mutate_bytes

FILE = "model.pt"
ARCHIVE = "model.zip"
GRAPH = "model.onnx"
KINDS = ("Add", "Mul", "Div", "Tanh", "Clip", "Gemm", "MatMul", "Loop", "Sqrt", "Constant", "Flatten")
ODD: tuple[Any, ...] = (
    None, 3, "text", [], {}, torch.zeros(()), torch.zeros(0, 3), torch.zeros(2, 3, 4), torch.zeros(4, dtype=torch.int64),
    torch.zeros(4, 4, dtype=torch.complex64), torch.full((8, 6), float("nan")), torch.zeros(4, 4).to_sparse(),
    torch.zeros(4, 4, device="meta"), torch.zeros(1).expand(1 << 20, 1 << 12),
)  # fmt: skip
"""What stands in a checkpoint in place of a tensor."""
WORDS = (
    "self", "torch.linear", "torch.elu", "torch.add", "torch.save", "torch.relu_", "getattr", "__torch__", "1e999",
    "-", "not ", "(", ")", ",", "[" * 300, "lambda: 0", "while True: pass", "\n", "\x00", "True", "None", "9" * 5000, "forward",
)  # fmt: skip
"""What stands in code in place of another word."""


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


def write_older_rsl_rl(folder: Path) -> None:
    norm = {"_mean": torch.ones(1, 6), "_std": torch.ones(1, 6)}
    weights = _weights("actor.0", "actor.2") | {"std": torch.ones(2)}
    torch.save({"model_state_dict": weights, "obs_norm_state_dict": norm}, folder / FILE)


def write_rl_games(folder: Path) -> None:
    norm = {f"running_mean_std.{name}": torch.ones(6, dtype=torch.float64) for name in ("running_mean", "running_var")}
    weights = _weights("a2c_network.actor_mlp.0", "a2c_network.mu") | {"a2c_network.sigma": torch.zeros(2)}
    torch.save({"model": weights | norm, "frame": 3}, folder / FILE)


def write_rl_games_sac(folder: Path) -> None:
    norm = {name: torch.ones(6, dtype=torch.float64) for name in ("running_mean", "running_var")}
    saved = {"actor": _weights("trunk.0", "trunk.2"), "critic": {}, "critic_target": {}, "running_mean_std": norm}
    torch.save(saved | {"frame": 3}, folder / FILE)


def write_torchrl(folder: Path) -> None:
    torch.save(_weights("module.0.module.0.0", "module.0.module.0.2"), folder / FILE)


def write_sb3(folder: Path) -> None:
    policy = io.BytesIO()
    torch.save(_weights("mlp_extractor.policy_net.0", "action_net"), policy)
    about = {
        "policy_class": {
            "__module__": "stable_baselines3.common.policies", "__init__": "<function ActorCriticPolicy.__init__ "},
        "policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.ELU'>", "squash_output": True},
        "action_space": {"low": "[-1. -1.]", "high": "[1. 1.]"}, "use_sde": True, "num_timesteps": 100,
    }  # fmt: skip
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        archive.writestr("policy.pth", policy.getvalue())
        archive.writestr("data", json.dumps(about))


class _Normalized(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(6))
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ELU(), nn.Linear(8, 2), nn.Tanh())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net((obs - self.mean).clamp(-5.0, 5.0))


def write_script(folder: Path) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):
        torch.jit.script(_Normalized().eval()).save(str(folder / FILE))


def write_onnx(folder: Path) -> None:
    torch.manual_seed(0)
    weights = {"w": torch.randn(8, 6), "b": torch.randn(8), "v": torch.randn(8, 2), "m": torch.ones(6)}
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", size])
        for name, size in (("obs", 6), ("actions", 2))
    ]
    nodes = [
        onnx.helper.make_node(kind, inputs, [output], **how)
        for kind, inputs, output, how in (
            ("Sub", ["obs", "m"], "x", {}),
            ("Gemm", ["x", "w", "b"], "y", {"transB": 1}),
            ("Elu", ["y"], "z", {"alpha": 1.0}),
            ("MatMul", ["z", "v"], "actions", {}),
        )
    ]
    arrays = [onnx.numpy_helper.from_array(x.numpy(), name) for name, x in weights.items()]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "actor", ends[:1], ends[1:], arrays))
    onnx.save(model, folder / GRAPH)


def mutate_tensors(data: bytes, rng: random.Random) -> bytes:
    """A tensor for another, or something that is none; a name for another."""
    saved = torch.load(io.BytesIO(data), weights_only=True)
    whole = next((key for key in ("actor_state_dict", "model_state_dict", "model") if key in saved), "")
    actor = saved[whole] if whole else saved
    name = rng.choice(list(actor))
    value = actor.pop(name)
    names = (name, name + "x", "mlp.00.weight", "mlp.7.bias", "a2c_network.mu.weight", 5)
    actor[rng.choice(names)] = rng.choice((*ODD, value))
    if whole and rng.random() < 0.1:
        saved[rng.choice((whole, "obs_norm_state_dict"))] = rng.choice(ODD)
    out = io.BytesIO()
    torch.save(saved, out)
    return out.getvalue()


def mutate_data(data: bytes, rng: random.Random) -> bytes:
    """Other JSON beside the weights, or none."""
    files = _entries(data)
    values = json.loads(files["data"])
    changed = rng.choice(list(values))
    values[changed] = rng.choice(
        (None, 3, [], {}, "x" * 1000, {"low": "[-2. nan ...]", "squash_output": 7, "clip_mean": "x"})
    )
    files["data"] = rng.choice(
        (
            b"",
            b"[]",
            b"3",
            b"{}",
            b"[" * 100_000,
            b'{"num_timesteps": 1e999}',
            b"\xff",
            *[json.dumps(values).encode()] * 9,
        )
    )
    if rng.random() < 0.2:
        del files[rng.choice(list(files))]
    return _zipped(files)


def mutate_script(data: bytes, rng: random.Random) -> bytes:
    """Another word in the code, other bytes in a pickle, an entry more or less; with right checksums."""
    files = _entries(data)
    code = sorted(name for name in files if name.endswith(".py"))
    kind = rng.randrange(5)
    if kind <= 1:
        name = rng.choice(code)
        words = re.split(r"(\W)", files[name].decode())
        words[rng.randrange(len(words))] = rng.choice(WORDS)
        files[name] = "".join(words).encode()
    elif kind == 2:
        name = next(name for name in files if name.endswith("data.pkl"))
        files[name] = mutate_bytes(files[name], rng)
    elif kind == 3:
        name = rng.choice(sorted(files))
        files[name] = mutate_bytes(files[name], rng)
    else:
        del files[rng.choice(sorted(files))]
    return _zipped(files)


def mutate_graph(data: bytes, rng: random.Random) -> bytes:
    """An operator, its inputs, an attribute, or an array of an ONNX graph."""
    model = onnx.load_model_from_string(data)
    node = rng.choice(model.graph.node)
    tensor = rng.choice(model.graph.initializer)
    kind = rng.randrange(7)
    if kind == 0:
        node.op_type = rng.choice(KINDS)
    elif kind == 1:
        node.input[rng.randrange(len(node.input))] = rng.choice(("obs", "w", "b", "", "nothing", "actions"))
    elif kind == 2:
        del node.input[:]
    elif kind == 3:
        node.attribute.append(
            onnx.helper.make_attribute(rng.choice(("alpha", "transA", "axis", "max")), rng.choice((2, 0.5, "x")))
        )
    elif kind == 4:
        tensor.dims.append(rng.choice((0, 1, 2, 1 << 40, -1)))
    elif kind == 5:
        tensor.data_type = rng.randrange(-1, 30)
    else:
        tensor.raw_data = rng.randbytes(len(tensor.raw_data))
    return bytes(model.SerializeToString())


def read(file: Path) -> Any:
    actor = read_actor(file)
    return as_policy(actor, None if actor.activation else "elu", None if actor.squash else "clip", 2)(torch.zeros(1, 6))


def _entries(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return out.getvalue()
