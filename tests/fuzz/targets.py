"""Every file format that Rookery reads: a good example, how it is changed, and who reads it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import safetensors.torch
import torch
import trimesh

from rookery.assets.objects import load_object
from rookery.experiments.settings import RunSettings, read_settings, save_settings
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.lerobot import INFO, OWN, export_lerobot
from rookery.policies.datasets.lerobot_import import import_lerobot
from rookery.policies.datasets.robomimic_import import import_robomimic
from rookery.policies.datasets.schema import Episode, Facts
from rookery.policies.datasets.writer import Writer
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training import checkpoint, store
from rookery.policies.training.logging import RunLog
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import DrawLog
from rookery.sim.randomization.ranges import load as load_ranges
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import describe_json
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.check import check_header, open_onnx, read_golden, read_weights
from rookery.sim2real.export.cpp_header import cpp_header
from rookery.sim2real.export.golden import write_golden
from rookery.sim2real.export.onnx import CONTRACT_KEY, GROUP_KEY
from rookery.sim2real.gate.profile import load_profile, profiles
from rookery.tasks.locomanip.trajectories import Trajectory
from rookery.tasks.locomanip.trajectories import load as load_trajectories
from rookery.tasks.locomanip.trajectories import save as save_trajectories
from tests.fuzz import flights, robots
from tests.fuzz import other_libraries as others
from tests.fuzz.mutate import (
    either,
    json_text,
    mutate_bytes,
    mutate_counts,
    mutate_json,
    mutate_json_text,
    mutate_npz,
    mutate_safetensors,
)

Mutate = Callable[[bytes, random.Random], bytes]


@dataclasses.dataclass(frozen=True)
class Target:
    """One format.

    Args:
        name: for people.
        make: writes the good files into a folder.
        file: which of them is changed.
        mutate: how.
        read: reads the folder.
        errors: what it may raise.
        seal: puts checksums right after a change, so that it is not they alone that notice.
        cost: of so many mutations one is made, because each starts processes.
    """

    name: str
    make: Callable[[Path], None]
    file: str
    mutate: Mutate
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...] = (RookeryError,)
    seal: Callable[[Path], None] = lambda folder: None
    cost: int = 1


def contract_of(policy: Policy) -> Contract:
    """Of a small drone."""
    terms = (Term("position_error", 3, "m", "world"), Term("velocity", 3, "m/s", "body", scale=0.3, clip=4.0))
    action = ActionSpec("ctbr", ("thrust", "roll"), (0.0, -6.0), (0.6, 6.0), ("N", "rad/s"), (-0.1, 0.0))
    group = ContractGroup(Group(1, terms, action), policy.chain)
    return Contract("drone-hover", 0.01, 0.002, {"drone": group}, {"episode_s": 5.0})


def make_policy(memory_size: int = 0) -> Policy:
    torch.manual_seed(0)
    return Policy(standard(6, 2, (8,), "tanh", memory_size=memory_size))


def write_policy(folder: Path, memory_size: int = 0) -> None:
    policy = make_policy(memory_size)
    store.save_policy(folder, {"drone": policy}, contract_of(policy).to_json())


def seal_policy(folder: Path) -> None:
    """The right checksum, and the contract's stages as the file has them."""
    file = folder / "policy.safetensors"
    try:
        tensors = safetensors.torch.load(file.read_bytes())
        with safetensors.safe_open(file, "pt") as opened:
            metadata = opened.metadata() or {}
        stages = json.loads(metadata["stages"])
    except Exception:  # beyond repair, and so it stays
        return
    safetensors.torch.save_file(tensors, file, metadata | {"sha256": store._digest(tensors)})
    contract = json.loads((folder / "contract.json").read_text())
    contract["groups"]["drone"]["stages"] = stages
    (folder / "contract.json").write_text(json.dumps(contract))


def mutate_stages(data: bytes, rng: random.Random) -> bytes:
    """The stages' own JSON in the metadata of a policy, or a tensor's shape."""
    tensors = safetensors.torch.load(data)
    length = int.from_bytes(data[:8], "little")
    metadata = json.loads(data[8 : 8 + length])["__metadata__"]
    if rng.random() < 0.3:
        name = rng.choice(list(tensors))
        tensors[name] = torch.zeros(rng.choice(((), (0,), (1,), (3, 3), (0, 1 << 40))))
    metadata["stages"] = json_text(mutate_json(json.loads(metadata["stages"]), rng), rng).decode()
    return bytes(safetensors.torch.save(tensors, metadata))


def write_checkpoint(folder: Path) -> None:
    tensors = {part: {"weights": torch.randn(3, 4), "count": torch.tensor(7)} for part in checkpoint.PARTS}
    state = {"steps": 100, "contract": contract_of(make_policy()).to_json(), "settings": {"task": "x"}, "seed": 3}
    made = checkpoint.write(folder, 100, tensors, state)
    (folder / "at").write_text(str(made.relative_to(folder)))


def read_checkpoint(folder: Path) -> None:
    at = folder / "checkpoints" / "000000000100"
    checkpoint.read_tensors(at, checkpoint.read_state(at))


def seal_checkpoint(folder: Path) -> None:
    at = folder / "checkpoints" / "000000000100"
    try:
        state = json.loads((at / "state.json").read_bytes())
        for part in checkpoint.PARTS:
            data = (at / f"{part}.safetensors").read_bytes()
            if f"{part}.safetensors" in state["files"]:
                state["files"][f"{part}.safetensors"] = hashlib.sha256(data).hexdigest()
        (at / "state.json").write_bytes(checkpoint._seal({k: v for k, v in state.items() if k != "sha256"}))
    except Exception:
        return


def write_bundle(folder: Path, memory_size: int = 0) -> None:
    policy = make_policy(memory_size)
    contract = contract_of(policy)
    contract.write(folder / "contract.json")
    code, header = c_source(contract, "drone", policy_arrays(policy), "rookery", "policy.h")
    (folder / "policy.c").write_text(code)
    (folder / "policy.h").write_text(header)
    (folder / "policy.hpp").write_text(cpp_header(contract, "drone", "rookery", "policy.h"))
    write_golden(policy, contract.fingerprint, folder / "golden.npz")
    kinds = [("obs", "action", 6, 2), *[("h_in", "h_out", memory_size, memory_size)] * (memory_size > 0)]
    ends = [
        [onnx.helper.make_tensor_value_info(kind[end], onnx.TensorProto.FLOAT, [1, kind[end + 2]]) for kind in kinds]
        for end in range(2)
    ]
    nodes = [onnx.helper.make_node("Identity", [kind[0]], [kind[1]]) for kind in kinds]
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in policy_arrays(policy).items()]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "policy", *ends, weights))
    onnx.helper.set_model_props(model, {CONTRACT_KEY: contract.dumps(), GROUP_KEY: "drone"})
    onnx.save(model, folder / "policy.onnx")


def write_recurrent_policy(folder: Path) -> None:
    write_policy(folder, 4)


def read_recurrent_policy(folder: Path) -> None:
    """Load it, and act twice: its state has the size that the weights have."""
    policy = store.load_policy(folder)[0]["drone"]
    state = policy.initial_state()
    for _ in range(2):
        action, state = policy.step(torch.zeros(policy.observation_size), state)
    assert action.shape == (policy.action_size,)


def write_recurrent_bundle(folder: Path) -> None:
    write_bundle(folder, 4)


def read_bundle(folder: Path) -> None:
    contract = Contract.read(folder)
    group = next(iter(contract.groups))
    check_header(folder / "policy.h", contract, group)
    read_golden(folder / "golden.npz", contract, group)
    read_weights(open_onnx(folder / "policy.onnx", contract, group), folder / "policy.onnx")


def mutate_onnx(data: bytes, rng: random.Random) -> bytes:
    """Shapes, types and data of weights, sizes of the ends, and the contract in the metadata."""
    model = onnx.load_model_from_string(data)
    tensor = rng.choice(model.graph.initializer)
    kind = rng.randrange(6)
    if kind == 0:
        tensor.dims.append(rng.choice((0, 2, 1 << 40, -1, 2**62)))
    elif kind == 1:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    elif kind == 2:
        tensor.data_type = rng.randrange(-1, 30)
    elif kind == 3:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = rng.choice((-1, 0, 2**62))
    elif kind == 4:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="../contract.json")
    else:
        line = next(p for p in model.metadata_props if p.key == CONTRACT_KEY)
        line.value = json_text(mutate_json(json.loads(line.value), rng), rng).decode()
    return bytes(model.SerializeToString())


def write_dataset(folder: Path) -> None:
    contract = contract_of(make_policy()).to_json()
    with Writer(folder / "demos", contract, {"engine": "rotor"}) as writer:
        for i in range(2):
            columns = {
                "observation.drone": torch.randn(6, 1, 6),
                "action.drone": torch.rand(5, 1, 2),
                "reward.drone": torch.rand(5, 1),
                "terminated": torch.zeros(5, dtype=torch.bool),
                "truncated": torch.zeros(5, dtype=torch.bool),
            }
            facts = Facts(0, i, 5, True, "time limit", {"drone": 1.0}, {"success": 1.0})
            writer.add(Episode(facts, columns))


def read_dataset(folder: Path) -> None:
    data = Dataset(folder / "demos")
    for batch in data.transitions(4):
        assert len(batch)


def seal_dataset(folder: Path) -> None:
    meta = json.loads((folder / "demos" / "meta.json").read_bytes())
    file = folder / "demos" / meta["episodes"][0]["file"]
    meta["episodes"][0]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "demos" / "meta.json").write_text(json.dumps(meta))


def write_trajectories(folder: Path) -> None:
    t = np.arange(20) * 0.02
    pos = np.tile([0.45, 0.0, 0.5], (20, 1))
    quat = np.tile([1.0, 0.0, 0.0, 0.0], (20, 1))
    given = Trajectory(t, pos, quat, 0.03 + 0.0 * t, np.zeros((20, 3)), "start", family="a", name="b", seed=1)
    save_trajectories(folder / "library.npz", [given, given])


def write_toml(folder: Path) -> None:
    (folder / "ranges.toml").write_text(
        '[mass]\nlow = 0.8\nhigh = 1.2\n\n[wind]\nlow = 0\nhigh = 2.0\non = "startup"\n'
    )
    save_settings(folder / "settings.toml", RunSettings.from_values({"task": "drone-hover", "algorithm": "ppo"}))


def write_draws(folder: Path) -> None:
    log = DrawLog(
        "drone-hover", 3, 2, ("mass", "wind"), np.array([0, 1, 0]), np.array([0, 0, 1]), np.ones((3, 2), np.float32)
    )
    log.write(folder / "draws.json")
    log.write(folder / "draws.npz")


def write_profile(folder: Path) -> None:
    shutil.copyfile(profiles()["panda-bench"], folder / "profile.toml")


def write_mesh(folder: Path) -> None:
    box = trimesh.creation.box((0.1, 0.2, 0.3))
    for suffix in ("obj", "stl", "ply", "glb"):
        box.export(folder / f"box.{suffix}")
    box.export(folder / "text.ply", encoding="ascii")
    box.export(folder / "text.stl", file_type="stl_ascii")


def mutate_glb(data: bytes, rng: random.Random) -> bytes:
    """The JSON of a .glb file, of the right length again."""
    length = int.from_bytes(data[12:16], "little")
    text = json_text(mutate_json(json.loads(data[20 : 20 + length]), rng), rng)
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    sizes = [n.to_bytes(4, "little") for n in (2, 20 + len(text) + len(rest), len(text))]
    return data[:4] + sizes[0] + sizes[1] + sizes[2] + data[16:20] + text + rest


def write_lerobot(folder: Path) -> None:
    write_dataset(folder)
    export_lerobot(Dataset(folder / "demos"), folder / "lerobot")


def read_lerobot(folder: Path) -> None:
    shutil.rmtree(folder / "back", ignore_errors=True)
    import_lerobot(folder / "lerobot", folder / "back")


def write_hdf5(folder: Path) -> None:
    import h5py  # the extra `datasets`

    with h5py.File(folder / "demos.hdf5", "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "env_kwargs": {"control_freq": 20}})
        for i in range(2):
            t = np.arange(5.0)
            for name, values in (("actions", np.sin([t, t])), ("obs/object", np.cos([t, t, t])), ("dones", t == 4)):
                packed = {"compression": "gzip"} if name == "actions" else {}
                data.create_dataset(f"demo_{i}/{name}", data=np.asarray(values, float).T, **packed)


def mutate_hdf5(data: bytes, rng: random.Random) -> bytes:
    """Bytes, of the objects' headers at the beginning above all, or lengths and addresses of eight bytes."""
    if rng.random() < 0.5:
        return mutate_bytes(data, rng)
    at = 8 * rng.randrange(len(data) // 8)
    value = rng.choice(
        (0, 1, 8, 96, len(data), 1 << 31, (1 << 32) - 1, 1 << 40, (1 << 64) - 1, rng.randrange(len(data)))
    )
    return data[:at] + value.to_bytes(8, "little") + data[at + 8 :]


def read_demos_hdf5(folder: Path) -> None:
    shutil.rmtree(folder / "back", ignore_errors=True)
    import_robomimic(folder / "demos.hdf5", folder / "back", describe_json)


def write_log(folder: Path) -> None:
    (folder / "progress.csv").write_text("steps,a,b\n10,1,2\n20,3,\n30,5,6\n")


def read_log(folder: Path) -> None:
    with RunLog(folder, 20, 100, lambda row: None) as log:
        log.resume(20)
        log.write({"steps": 30, "a": 1.0, "new": 2.0})
    shutil.rmtree(folder / "events", ignore_errors=True)


STATE = "checkpoints/000000000100/state.json"
TENSORS = "checkpoints/000000000100/algorithm.safetensors"
EPISODE = "demos/episodes/000000.safetensors"
POLICY = "policy.safetensors"
MESH = (RookeryError, ValueError)  # assets stand below sim, and raise ValueError with a sentence
TARGETS = [
    Target("contract", write_policy, "contract.json", mutate_json_text, Contract.read),
    Target("contract of a policy", write_policy, "contract.json", mutate_json_text, store.load_policy),
    Target("policy", write_policy, POLICY, mutate_safetensors, store.load_policy),
    Target("sealed policy", write_policy, POLICY, mutate_safetensors, store.load_policy, seal=seal_policy),
    Target("stages of a policy", write_policy, POLICY, mutate_stages, store.load_policy, seal=seal_policy),
    Target("checkpoint state", write_checkpoint, STATE, mutate_json_text, read_checkpoint),
    Target("sealed checkpoint state", write_checkpoint, STATE, mutate_json_text, read_checkpoint, seal=seal_checkpoint),
    Target("sealed checkpoint", write_checkpoint, TENSORS, mutate_safetensors, read_checkpoint, seal=seal_checkpoint),
    Target("bundle contract", write_bundle, "contract.json", mutate_json_text, read_bundle),
    Target("recurrent policy", write_recurrent_policy, POLICY, mutate_safetensors, read_recurrent_policy, seal=seal_policy),
    Target(
        "stages of a recurrent policy", write_recurrent_policy, POLICY, mutate_stages, read_recurrent_policy,
        seal=seal_policy,
    ),
    Target("recurrent bundle", write_recurrent_bundle, "contract.json", mutate_json_text, read_bundle),
    Target("recurrent golden vectors", write_recurrent_bundle, "golden.npz", mutate_npz, read_bundle),
    Target("recurrent onnx", write_recurrent_bundle, "policy.onnx", either(mutate_bytes, mutate_onnx), read_bundle),
    Target("header", write_bundle, "policy.h", mutate_bytes, read_bundle),
    Target("golden vectors", write_bundle, "golden.npz", mutate_npz, read_bundle),
    Target("onnx", write_bundle, "policy.onnx", either(mutate_bytes, mutate_onnx), read_bundle),
    Target("dataset", write_dataset, "demos/meta.json", mutate_json_text, read_dataset),
    Target("episode", write_dataset, EPISODE, mutate_safetensors, read_dataset),
    Target("sealed episode", write_dataset, EPISODE, mutate_safetensors, read_dataset, seal=seal_dataset),
    Target("trajectories", write_trajectories, "library.npz", mutate_npz, lambda f: load_trajectories(f / "library.npz")),
    Target("ranges", write_toml, "ranges.toml", mutate_bytes, lambda f: load_ranges(str(f / "ranges.toml"))),
    Target("draws", write_draws, "draws.json", mutate_json_text, lambda f: DrawLog.read(f / "draws.json")),
    Target("packed draws", write_draws, "draws.npz", mutate_npz, lambda f: DrawLog.read(f / "draws.npz")),
    Target("profile", write_profile, "profile.toml", mutate_bytes, lambda f: load_profile(str(f / "profile.toml"))),
    Target(
        "settings", write_toml, "settings.toml", mutate_bytes,
        lambda f: RunSettings.from_values(read_settings(f / "settings.toml")),
    ),
    *(
        Target(f"{name} {kind}", make, file, mutate, lambda f, file=file: others.read(f / file))
        for name, make, file, kind, mutate in (
            ("rsl_rl", others.write_rsl_rl, others.FILE, "checkpoint", mutate_bytes),
            ("rsl_rl", others.write_rsl_rl, others.FILE, "tensors", others.mutate_tensors),
            ("older rsl_rl", others.write_older_rsl_rl, others.FILE, "tensors", others.mutate_tensors),
            ("rl_games", others.write_rl_games, others.FILE, "tensors", others.mutate_tensors),
            ("rl_games_sac", others.write_rl_games_sac, others.FILE, "tensors", others.mutate_tensors),
            ("torchrl", others.write_torchrl, others.FILE, "tensors", others.mutate_tensors),
            ("sb3", others.write_sb3, others.ARCHIVE, "archive", mutate_bytes),
            ("sb3", others.write_sb3, others.ARCHIVE, "data", others.mutate_data),
            ("torchscript", others.write_script, others.FILE, "archive", mutate_bytes),
            ("torchscript", others.write_script, others.FILE, "code", others.mutate_script),
            ("onnx actor", others.write_onnx, others.GRAPH, "bytes", mutate_bytes),
            ("onnx actor", others.write_onnx, others.GRAPH, "graph", others.mutate_graph),
        )
    ),
    *(
        Target(f"{name} {kind}", robots.write_robots, file, mutate, lambda f, file=file: robots.read_robot(f / file), cost=2)
        for name, file in (("urdf", robots.URDF), ("mjcf", robots.MJCF), ("sdf", robots.SDF))
        for kind, mutate in (("bytes", mutate_bytes), ("elements", robots.mutate_xml))
    ),
    Target("short contract", flights.write, flights.SHORT, mutate_json_text, flights.read_short),
    Target("safety settings", flights.write, flights.SAFETY, mutate_bytes, flights.read_safety),
    Target("log", write_log, "progress.csv", mutate_bytes, read_log),
    *(
        Target(f"mesh {s}", write_mesh, f"box.{s}", mutate_bytes, lambda f, s=s: load_object(f / f"box.{s}"), MESH)
        for s in ("obj", "stl", "ply", "glb")
    ),
    *(
        Target(f"counts of {name}", write_mesh, name, mutate_counts, lambda f, name=name: load_object(f / name), MESH)
        for name in ("box.obj", "box.stl", "box.ply", "text.ply", "text.stl")
    ),
    Target("mesh glb json", write_mesh, "box.glb", mutate_glb, lambda f: load_object(f / "box.glb"), MESH),
    Target("robomimic", write_hdf5, "demos.hdf5", mutate_hdf5, read_demos_hdf5, cost=12),
    *(
        Target(f"lerobot {name}", write_lerobot, f"lerobot/{file}", mutate, read_lerobot, cost=12)
        for name, file, mutate in (
            ("info", INFO, mutate_json_text),
            ("metadata", OWN, mutate_json_text),
            ("rows", "data/chunk-000/file-000.parquet", mutate_bytes),
            ("episodes", "meta/episodes/chunk-000/file-000.parquet", mutate_bytes),
        )
    ),
]  # fmt: skip
