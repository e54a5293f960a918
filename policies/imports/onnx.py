"""Actors in ONNX files: a graph of one chain from one input to one output."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rookery.policies.imports import steps
from rookery.policies.imports.actor import Actor, Predict
from rookery.policies.imports.steps import Activation, Clip, Step
from rookery.policies.imports.weights import MOST_NUMBERS
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged, onnx_tensor, read_onnx

if TYPE_CHECKING:
    import onnx

ACTIVATIONS = {"Relu": "relu", "Tanh": "tanh", "Elu": "elu"}
SAME = ("Identity", "Dropout")
"""Operators that give a row back; dropout does nothing outside of training."""
MOST_NODES = 1000
Row = tuple[Step, ...]


def read_onnx_actor(file: Path) -> Actor:
    """The actor of an ONNX file.

    Raises:
        RookeryError: it is damaged, or computes anything but a perceptron.
    """
    try:
        model = read_onnx(file)
        actor = steps.actor_of("onnx", _chain(model.graph))
    except OSError as error:
        raise RookeryError(f"{file} cannot be read ({error.strerror}): give an ONNX file.") from error
    except Damaged as error:
        if "in another file" in str(error):
            raise RookeryError(
                f"{file} keeps its weights in another file: put all into one with onnx.save(onnx.load({file.name!r}), "
                "'whole.onnx')."
            ) from error
        raise RookeryError(
            f"{file} holds no perceptron ({error}): actors of other kinds are not taken over."
        ) from error

    def reference(activation: str, squash: str) -> Predict:
        return _prediction(model)

    return Actor(actor.library, actor.layers, actor.activation, actor.squash, actor.normalizer, reference=reference)


def _chain(graph: onnx.GraphProto) -> Row:
    """The steps from the input to the output.

    Raises:
        Damaged: an operator or a shape that no perceptron has.
    """
    values: dict[str, Tensor | Row] = {tensor.name: _tensor(tensor) for tensor in graph.initializer}
    inputs = [x.name for x in graph.input if x.name not in values]
    if len(inputs) != 1 or len(graph.output) != 1 or len(graph.node) > MOST_NODES:
        raise Damaged(f"it has {len(inputs)} inputs, {len(graph.output)} outputs and {len(graph.node)} operators")
    values[inputs[0]] = ()
    for node in graph.node:
        if any(name and name not in values for name in node.input):
            raise Damaged(f"its operator {node.op_type!r:.60} takes a value that nothing gives")
        given = [values[name] if name else None for name in node.input]
        values[node.output[0] if node.output else ""] = _node(node, given)
    found = values.get(graph.output[0].name)
    if not isinstance(found, tuple):
        raise Damaged("its output does not depend on its input")
    return found


def _tensor(tensor: onnx.TensorProto) -> Tensor:
    """An array of float32, as it is."""
    if math.prod(tensor.dims) > MOST_NUMBERS:
        raise Damaged(f"its array {tensor.name!r:.60} is larger than any layer's")
    values = onnx_tensor(tensor)
    return torch.zeros(0) if values is None else torch.from_numpy(np.array(values, np.float32))


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    from onnx import AttributeProto

    out: dict[str, Any] = {}
    for a in node.attribute:
        if a.type == AttributeProto.FLOAT:
            out[a.name] = a.f
        elif a.type == AttributeProto.INT:
            out[a.name] = a.i
        elif a.type == AttributeProto.TENSOR:
            out[a.name] = _tensor(a.t)
        else:
            out[a.name] = None
    return out


def _node(node: onnx.NodeProto, given: list[Any]) -> Tensor | Row:
    """Result of an operator."""
    kind, how = node.op_type, _attributes(node)
    if kind == "Constant" and isinstance(how.get("value"), Tensor):
        constant: Tensor = how["value"]
        return constant
    if kind == "Constant" and isinstance(how.get("value_float"), float):
        return torch.tensor(how["value_float"])
    rows = [x for x in given if isinstance(x, tuple)]
    if not rows:
        return _constant(kind, given, how)
    if len(rows) > 1 or not given:
        raise Damaged(f"its operator {kind!r:.60} joins several values")
    row = rows[0]
    if kind in ("Add", "Sub", "Mul", "Div") and len(given) == 2:
        return (*row, _arithmetic(kind, given))
    if given[0] is not row:
        raise Damaged(f"its operator {kind!r:.60} takes a row where it takes constants in a perceptron")
    if kind in SAME and (kind != "Dropout" or len(given) < 3):
        return row
    if kind == "Flatten" and how.get("axis", 1) == 1:
        return row
    if kind in ACTIVATIONS and (kind != "Elu" or how.get("alpha", 1.0) == 1.0):
        return (*row, Activation(ACTIVATIONS[kind]))
    if kind == "Clip":
        return (*row, _clip(given, how))
    if kind == "MatMul" and len(given) == 2 and isinstance(given[1], Tensor) and given[1].dim() == 2:
        return (*row, steps.linear(given[1].T, None))
    if kind == "Gemm" and len(given) >= 2 and isinstance(given[1], Tensor):
        return (*row, _gemm(given, how))
    raise Damaged(f"it has the operator {kind!r:.60}")


def _arithmetic(kind: str, given: list[Any]) -> Step:
    """Addition and its kin of a row and a constant."""
    first = isinstance(given[0], tuple)
    x = given[1] if first else given[0]
    if not isinstance(x, Tensor) or (kind == "Div" and not first):
        raise Damaged("it divides by a row")
    if kind == "Add":
        return steps.added(x)
    if kind == "Sub":
        return steps.added(-x) if first else steps.Affine(-torch.ones_like(steps.vector(x)), steps.vector(x))
    return steps.multiplied(x if kind == "Mul" else 1.0 / x)


def _clip(given: list[Any], how: dict[str, Any]) -> Clip:
    """Limits, as inputs or, in old files, as attributes."""
    limits = []
    for i, (name, default) in enumerate((("min", -math.inf), ("max", math.inf)), 1):
        x = given[i] if len(given) > i else how.get(name)
        if isinstance(x, Tensor) and x.numel() != 1:
            raise Damaged("its limits are no numbers")
        limits.append(default if x is None else float(x))
    return Clip(*limits)


def _gemm(given: list[Any], how: dict[str, Any]) -> Step:
    """A layer of a matrix product."""
    if how.get("transA", 0) or how.get("alpha", 1.0) != 1.0 or how.get("beta", 1.0) != 1.0 or given[1].dim() != 2:
        raise Damaged("a layer's product has factors or a transposed row")
    weight = given[1] if how.get("transB", 0) else given[1].T
    bias = given[2] if len(given) > 2 else None
    if isinstance(bias, tuple):
        raise Damaged("a layer's biases depend on the input")
    return steps.linear(weight, bias)


def _constant(kind: str, given: list[Any], how: dict[str, Any]) -> Tensor:
    """Arithmetic of constants, of the kinds that normalizers have."""
    x = given[0] if given else None
    if isinstance(x, Tensor) and len(given) == 1:
        if kind == "Sqrt":
            return x.sqrt()
        if kind == "Reciprocal":
            return 1.0 / x
        if kind == "Identity":
            return x
        if kind == "Transpose" and x.dim() == 2:
            return x.T
    if len(given) == 2 and isinstance(x, Tensor) and isinstance(given[1], Tensor):
        y = given[1]
        if x.shape == y.shape or 1 in (x.numel(), y.numel()):
            operations: dict[str, Any] = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div}
            if kind in operations:
                out: Tensor = operations[kind](x, y)
                return out
    raise Damaged(f"it computes constants with the operator {kind!r:.60}")


def _prediction(model: onnx.ModelProto) -> Predict:
    """Prediction of onnx's own reference implementation; the operators are those that were understood."""
    from onnx.reference import ReferenceEvaluator

    def predict(obs: Tensor) -> Tensor:
        try:
            run: Any = ReferenceEvaluator(model)
            name = run.input_names[0] if len(run.input_names) == 1 else None
            names = {t.name for t in model.graph.initializer}
            name = name or next(n for n in run.input_names if n not in names)
            out = run.run(None, {name: obs.numpy()})[0]
            return torch.from_numpy(np.asarray(out, np.float32))
        except Exception as error:  # it raises what the model happens to cause
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise RookeryError(f"the ONNX file does not run ({first:.120}): export it again.") from error

    return predict
