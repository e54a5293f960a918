"""The exported ONNX: one file, batch 1, contract inside, parity with torch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from sampled import slow_but

from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.golden import golden_observations
from rookery.sim2real.export.onnx import export_onnx
from tests.sim2real.conftest import make_env, make_policy


def test_one_file_with_everything_inside(shared_bundle: Path, contract: Contract) -> None:
    assert sorted(p.name for p in shared_bundle.iterdir()) == [
        "README.md",
        "contract.json",
        "golden.npz",
        "policy.c",
        "policy.h",
        "policy.hpp",
        "policy.onnx",
    ]
    model = onnx.load(shared_bundle / "policy.onnx", load_external_data=False)
    onnx.checker.check_model(model, full_check=True)
    assert all(t.data_location == onnx.TensorProto.DEFAULT for t in model.graph.initializer)
    assert all(t.data_type in (onnx.TensorProto.FLOAT, onnx.TensorProto.INT64) for t in model.graph.initializer)
    meta = {p.key: p.value for p in model.metadata_props}
    assert json.loads(meta["rookery_contract"]) == contract.to_json()
    assert meta["rookery_group"] == "drone"
    shapes = {
        t.name: [d.dim_value for d in t.type.tensor_type.shape.dim] for t in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {"obs": [1, 15], "action": [1, 3]}


def test_no_paths_of_this_machine_inside(shared_bundle: Path) -> None:
    data = (shared_bundle / "policy.onnx").read_bytes()
    assert b"stack_trace" not in data
    assert str(Path(torch.__file__).parent).encode() not in data


@pytest.mark.parametrize(
    ("hidden", "activation"), slow_but([((48, 24), "elu")], [((48, 24), "elu"), ((), "relu"), ((40,), "relu")])
)
def test_parity_with_torch(hidden: tuple[int, ...], activation: str, tmp_path: Path) -> None:
    policy = make_policy(hidden, activation)
    policy.train()
    export_onnx(policy, build_contract(make_env(), {"drone": policy}), "drone", tmp_path / "policy.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["policy.onnx"]
    assert policy.training, "the policy given is not touched"
    session = ort.InferenceSession(tmp_path / "policy.onnx", providers=["CPUExecutionProvider"])
    obs = golden_observations(policy)
    given = np.concatenate([session.run(["action"], {"obs": row[None]})[0] for row in obs])
    with torch.no_grad():
        assert np.abs(given - policy(torch.from_numpy(obs)).numpy()).max() <= 1e-5
