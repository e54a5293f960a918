"""ONNX of unknown origin: plain operators with their data in the file, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rookery.sim.untrusted import Damaged, onnx_arrays, read_onnx

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
WEIGHT = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)


def saved(folder: Path, *nodes: Any, initializers: tuple[Any, ...] = (), **more: Any) -> Path:
    graph = helper.make_graph(list(nodes), "g", [X], [Y], list(initializers))
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, **more).SerializeToString())
    return path


def linear(weight: Any) -> tuple[Any, tuple[Any, ...]]:
    return helper.make_node("MatMul", ["x", "w"], ["y"]), (weight,)


def test_a_plain_model_is_read_with_its_arrays(tmp_path):
    node, arrays = linear(numpy_helper.from_array(WEIGHT, "w"))
    model = read_onnx(saved(tmp_path, node, initializers=arrays))
    assert np.array_equal(onnx_arrays(model)["w"], WEIGHT)


def test_operators_of_other_domains_are_refused(tmp_path):
    with pytest.raises(Damaged, match=r"operator of 'com\.stranger'"):
        read_onnx(saved(tmp_path, helper.make_node("Anything", ["x"], ["y"], domain="com.stranger")))


@pytest.mark.parametrize("many", [False, True])
def test_graphs_within_operators_are_refused(tmp_path, many):
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["z"])], "inner", [], [])
    node = helper.make_node("If", ["x"], ["y"])
    value: Any = [inner] if many else inner
    node.attribute.append(helper.make_attribute("then_branch", value))
    with pytest.raises(Damaged, match="has a graph of its own"):
        read_onnx(saved(tmp_path, node))


@pytest.mark.parametrize("where", ["initializer", "attribute"])
def test_data_in_other_files_are_refused(tmp_path, where):
    tensor = numpy_helper.from_array(WEIGHT, "w")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="elsewhere.bin")
    if where == "initializer":
        node, arrays = linear(tensor)
    else:
        node, arrays = helper.make_node("Constant", [], ["y"], value=tensor), ()
    with pytest.raises(Damaged, match="in another file"):
        read_onnx(saved(tmp_path, node, initializers=arrays))


def test_functions_and_empty_graphs_are_refused(tmp_path):
    with pytest.raises(Damaged, match="no ONNX model of plain operators"):
        read_onnx(saved(tmp_path))
    inner = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Identity", ["a"], ["b"])], [])
    node = helper.make_node("Identity", ["x"], ["y"])
    with pytest.raises(Damaged, match="no ONNX model of plain operators"):
        read_onnx(saved(tmp_path, node, functions=[inner]))


@pytest.mark.parametrize("dims", [[2, 3], [2, -2], [1]])
def test_an_array_of_another_size_than_its_shape_is_refused(tmp_path, dims):
    tensor = numpy_helper.from_array(WEIGHT, "w")
    del tensor.dims[:]
    tensor.dims.extend(dims)
    model = onnx.ModelProto()
    model.graph.initializer.append(tensor)
    with pytest.raises(Damaged, match="another size than its shape"):
        onnx_arrays(model)


def test_rubbish_is_no_model(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"rubbish" * 20)
    with pytest.raises(Damaged, match="no ONNX model"):
        read_onnx(tmp_path / "model.onnx")
