"""Actors as ONNX: what is read acts as ONNX Runtime does, and what is no perceptron is refused by its name."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from rookery.policies.imports.actor import as_policy
from rookery.policies.imports.reading import read_actor
from rookery.sim.errors import RookeryError

INPUTS, HIDDEN, OUTPUTS = 6, 8, 2
Node = tuple[str, list[str], dict[str, Any]]
RNG = np.random.default_rng(0)
ARRAYS = {
    "w": RNG.standard_normal((HIDDEN, INPUTS)), "b": RNG.standard_normal(HIDDEN), "v": RNG.standard_normal((HIDDEN, OUTPUTS)),
    "c": RNG.standard_normal(OUTPUTS), "mean": RNG.standard_normal((1, INPUTS)), "var": RNG.random(INPUTS) + 0.5,
    "eps": np.array(1e-2), "low": np.array(-1.5), "high": np.array(1.5), "one": np.array(1.0), "minus": np.array(-1.0),
    "half": np.array([0.5]),
}  # fmt: skip
FIRST: Node = ("Gemm", ["x", "w", "b"], {"transB": 1})
LAST: list[Node] = [("MatMul", ["x", "v"], {}), ("Add", ["x", "c"], {})]


def written(folder: Path, *nodes: Node, inputs: tuple[str, ...] = ("obs",)) -> Path:
    """A graph whose nodes follow each other: "x" is what the one before gives, "k<n>" what node n gives."""
    made = []
    x = "obs"
    for i, (kind, given, how) in enumerate(nodes):
        made.append(helper.make_node(kind, [x if name == "x" else name for name in given], [f"k{i}"], **how))
        x = f"k{i}" if "x" in given else x
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", INPUTS]) for name in inputs]
    out = [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["n", OUTPUTS])]
    arrays = [numpy_helper.from_array(a.astype(np.float32), name) for name, a in ARRAYS.items()]
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(helper.make_graph(made, "actor", ends, out, arrays), opset_imports=opset, ir_version=8),
        folder / "a.onnx",
    )
    return folder / "a.onnx"


def run(file: Path, obs: torch.Tensor) -> torch.Tensor:
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {session.get_inputs()[0].name: obs.numpy()})[0]).clamp(-1.0, 1.0)


NORMALIZED: list[Node] = [
    ("Add", ["var", "eps"], {}), ("Sqrt", ["k0"], {}), ("Sub", ["x", "mean"], {}), ("Div", ["x", "k1"], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    "nodes",
    [
        [FIRST, ("Elu", ["x"], {"alpha": 1.0}), *LAST],
        [FIRST, ("Relu", ["x"], {}), *LAST, ("Tanh", ["x"], {})],
        [*NORMALIZED, FIRST, ("Tanh", ["x"], {}), *LAST, ("Clip", ["x", "minus", "one"], {})],
        [*NORMALIZED, ("Clip", ["x", "low", "high"], {}), FIRST, ("Tanh", ["x"], {}), *LAST],
        [
            ("Identity", ["x"], {}),
            ("Flatten", ["x"], {}),
            FIRST,
            ("Relu", ["x"], {}),
            *LAST,
            ("Mul", ["half", "x"], {}),
        ],
        [("Sub", ["one", "x"], {}), FIRST, ("Relu", ["x"], {}), *LAST],
        [("Mul", ["x", "minus"], {}), FIRST, ("Relu", ["x"], {}), *LAST],
    ],
)
def test_acts_as_onnx_runtime_does(nodes, tmp_path):
    file = written(tmp_path, *nodes)
    policy = as_policy(read_actor(file))
    obs = torch.randn(256, INPUTS)
    wanted = run(file, obs)
    torch.testing.assert_close(policy(obs), wanted, rtol=1e-5, atol=1e-5)
    assert wanted.std() > 0.01


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_torch_exports(tmp_path):
    module = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ELU(), nn.Linear(HIDDEN, OUTPUTS), nn.Tanh()).eval()
    file = tmp_path / "policy.onnx"
    with warnings.catch_warnings(action="ignore"):
        torch.onnx.export(module, (torch.zeros(1, INPUTS),), str(file), dynamo=True, external_data=False, verbose=False)
    obs = torch.randn(1, INPUTS)
    torch.testing.assert_close(as_policy(read_actor(file))(obs), run(file, obs), rtol=1e-5, atol=1e-5)


ELU: Node = ("Elu", ["x"], {"alpha": 1.0})


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([FIRST, ("Elu", ["x"], {"alpha": 0.5}), *LAST], "has the operator 'Elu'"),
        ([FIRST, ("Sigmoid", ["x"], {}), *LAST], "has the operator 'Sigmoid'"),
        ([FIRST, ELU, *LAST, ("Clip", ["x", "minus", "eps"], {})], "goes on with clip"),
        ([("Gemm", ["x", "w", "b"], {"transB": 1, "alpha": 0.5}), ELU, *LAST], "product has factors"),
        ([("Div", ["one", "x"], {}), FIRST, ELU, *LAST], "divides by a row"),
        ([("Mul", ["x", "x"], {}), FIRST, ELU, *LAST], "joins several values"),
        ([("Clip", ["x", "minus", "high"], {}), FIRST, ELU, *LAST], "which are not opposite"),
        ([FIRST, ELU, ("MatMul", ["w", "x"], {})], "takes a row where it takes constants"),
        ([("Mul", ["x", "w"], {}), FIRST, ELU, *LAST], "an array of shape"),
        ([("Concat", ["x", "x"], {"axis": 1}), FIRST, ELU, *LAST], "joins several values"),
        ([FIRST, ELU, ("LSTM", ["x", "w", "v"], {"hidden_size": 2})], "has the operator 'LSTM'"),
    ],
)
def test_what_is_no_perceptron_is_refused_by_its_name(nodes, said, tmp_path):
    with pytest.raises(RookeryError, match=f"holds no perceptron .*{said}"):
        read_actor(written(tmp_path, *nodes))


def test_two_inputs_and_weights_elsewhere_are_refused(tmp_path):
    with pytest.raises(RookeryError, match="it has 2 inputs, 1 outputs"):
        read_actor(written(tmp_path, FIRST, ELU, *LAST, inputs=("obs", "state")))
    file = written(tmp_path, FIRST, ELU, *LAST)
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    with pytest.raises(RookeryError, match=r"keeps its weights in another file: put all into one with onnx.save"):
        read_actor(file)


def test_a_graph_that_is_read_wrongly_is_refused(tmp_path, monkeypatch):
    """Onnx's own reference implementation judges, as another library's code does."""
    from rookery.policies.imports import steps

    file = written(tmp_path, FIRST, ELU, *LAST)
    as_policy(read_actor(file))
    inner = steps.linear
    monkeypatch.setattr(steps, "linear", lambda weight, bias: inner(weight, None))
    with pytest.raises(RookeryError, match="would act otherwise than onnx does, by up to"):
        as_policy(read_actor(file))
