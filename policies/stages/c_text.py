"""C99 that the functions of several stages call: without malloc, stdio, arrays of variable length or writable static data.

Comparisons are written so that a NaN passes through, as it does in torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError, unknown

LIMIT = float(np.finfo(np.float32).max)
"""Stands for "no clip"."""

ACTIVATIONS = ("tanh", "elu", "relu")


def literal(value: float) -> str:
    """A C float literal that gives the same float32 back.

    Raises:
        RookeryError: when the value does not fit into a float32.
    """
    if not abs(value) <= LIMIT:
        raise RookeryError(f"{value:g} does not fit into a 32-bit float: correct that limit or scale in the task.")
    word = f"{np.float32(value):.9g}"
    return word + ("f" if "." in word or "e" in word else ".0f")


def table(name: str, values: Any) -> str:
    """A constant array, which stays in flash."""
    words = [literal(float(v)) for v in np.asarray(values).ravel()]
    lines = [", ".join(words[i : i + 8]) for i in range(0, len(words), 8)]
    return f"static const float {name}[{len(words)}] = {{\n    " + ",\n    ".join(lines) + "\n};"


def helpers(names: Iterable[str]) -> list[str]:
    """The texts of functions by name, each once, in an order in which each finds those that it calls.

    Raises:
        RookeryError: there is no such function.
    """
    wanted = set(names)
    for name in wanted - _HELPERS.keys():
        raise unknown("helper of a stage's C", name, _HELPERS)
    return [text for name, text in _HELPERS.items() if name in wanted]


def layers(name: str, sizes: Sequence[int], activation: str, out: str = "out") -> tuple[list[str], list[str]]:
    """Dense layers from `in` to `out` with an activation between them, by turns in two arrays.

    Args:
        name: beginning of the names of the tables, see `stage.dense_weights`.
        sizes: widths, input and output included.
        activation: one of ACTIVATIONS.
        out: where the last layer goes.

    Returns:
        declarations and statements, without indent.
    """
    declared = [f"float {a}[{size}];" for a, size in zip("xy", layer_scratch(sizes), strict=True) if size]
    steps = []
    here = "in"
    for i, (n, m) in enumerate(pairwise(sizes)):
        there = out if i == len(sizes) - 2 else "xy"[i % 2]
        steps.append(f"dense({name}_weight_{i}, {name}_bias_{i}, {here}, {there}, {n}, {m});")
        if there != out:
            steps.append(f"activate_{activation}({there}, {m});")
        here = there
    return declared, steps


def layer_scratch(sizes: Sequence[int]) -> tuple[int, int]:
    """Lengths of the two arrays that hold hidden layers by turns."""
    hidden = sizes[1:-1]
    return max(hidden[::2], default=0), max(hidden[1::2], default=0)


def function(head: str, declared: Sequence[str], steps: Sequence[str]) -> str:
    """A static function with its declarations and statements."""
    body = [f"    {line}" for line in declared] + [""] * bool(declared) + [f"    {line}" for line in steps]
    return "\n".join(["", f"static void {head}", "{", *body, "}"])


def public(head: str, steps: Sequence[str]) -> str:
    """A function for the header, of statements whose loops count by `i`; parameters that none of them reads are marked so."""
    text = "\n".join(steps)
    parameters = re.findall(r"(\w+)(?:\[\w*\])*[,)]", head)
    unread = [f"(void){name};" for name in parameters if name != "void" and not re.search(rf"\b{name}\b", text)]
    counter = ["int i;"] * ("(i = 0;" in text)
    body = [f"    {line}" for step in (*counter, *unread, *steps) for line in step.split("\n")]
    return "\n".join(["", head, "{", *body, "}"])


def _activation(name: str, body: str) -> str:
    return f"""
static void activate_{name}(float x[], int n)
{{
    int i;

    for (i = 0; i < n; i++) {{
        {body}
    }}
}}"""


_HELPERS = {
    "clamp": """
static float clamp(float x, float limit)
{
    float y = x;

    if (x > limit) {
        y = limit;
    } else if (x < -limit) {
        y = -limit;
    } else {
        /* within the limits, or NaN */
    }
    return y;
}""",
    "dense": """
/* y = weight * x + bias, weight stored row by row. Four sums: shorter rounding chains, and work for the pipeline. */
static void dense(const float weight[], const float bias[], const float x[], float y[], int inputs, int outputs)
{
    int i;
    int o;

    for (o = 0; o < outputs; o++) {
        const float *row = &weight[o * inputs];
        float s0 = 0.0f;
        float s1 = 0.0f;
        float s2 = 0.0f;
        float s3 = 0.0f;

        for (i = 0; (i + 3) < inputs; i += 4) {
            s0 += row[i] * x[i];
            s1 += row[i + 1] * x[i + 1];
            s2 += row[i + 2] * x[i + 2];
            s3 += row[i + 3] * x[i + 3];
        }
        for (; i < inputs; i++) {
            s0 += row[i] * x[i];
        }
        y[o] = ((s0 + s1) + (s2 + s3)) + bias[o];
    }
}""",
    "dense_int8": """
/* y = scale * (weight * x) + bias, integer weights stored row by row, a scale for each row. */
static void dense_int8(const signed char weight[], const float scale[], const float bias[], const float x[], float y[],
                       int inputs, int outputs)
{
    int i;
    int o;

    for (o = 0; o < outputs; o++) {
        const signed char *row = &weight[o * inputs];
        float s0 = 0.0f;
        float s1 = 0.0f;
        float s2 = 0.0f;
        float s3 = 0.0f;

        for (i = 0; (i + 3) < inputs; i += 4) {
            s0 += (float)row[i] * x[i];
            s1 += (float)row[i + 1] * x[i + 1];
            s2 += (float)row[i + 2] * x[i + 2];
            s3 += (float)row[i + 3] * x[i + 3];
        }
        for (; i < inputs; i++) {
            s0 += (float)row[i] * x[i];
        }
        y[o] = (scale[o] * ((s0 + s1) + (s2 + s3))) + bias[o];
    }
}""",
    "activate_tanh": _activation("tanh", "x[i] = tanhf(x[i]);"),
    "activate_elu": _activation("elu", "x[i] = (x[i] > 0.0f) ? x[i] : expm1f(x[i]);"),
    "activate_relu": _activation("relu", "x[i] = (x[i] < 0.0f) ? 0.0f : x[i];"),
    "copy": """
static void copy(const float in[], float out[], int n)
{
    int i;

    for (i = 0; i < n; i++) {
        out[i] = in[i];
    }
}""",
    "fill": """
static void fill(float x[], float value, int n)
{
    int i;

    for (i = 0; i < n; i++) {
        x[i] = value;
    }
}""",
    "sigmoid": """
static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}""",
    "softmax": """
/* Weights of n scores, in place; the largest is taken off first, so that nothing overflows. */
static void softmax(float x[], int n)
{
    float top = x[0];
    float sum = 0.0f;
    int i;

    for (i = 1; i < n; i++) {
        top = (x[i] > top) ? x[i] : top;
    }
    for (i = 0; i < n; i++) {
        x[i] = expf(x[i] - top);
        sum += x[i];
    }
    for (i = 0; i < n; i++) {
        x[i] /= sum;
    }
}""",
}
