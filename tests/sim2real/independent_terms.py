"""Expressions of contracts evaluated by NumPy, by somebody who has docs/contract.md and not Rookery."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Values = dict[str, Any]
Vector = np.ndarray


def rotation(quat: Vector) -> Vector:
    """[3, 3] body to world from a quaternion w, x, y, z."""
    w, x, y, z = quat
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def turn(quat: Vector, vectors: Vector, back: bool) -> Vector:
    """Vectors [3 k] in other axes."""
    matrix = rotation(quat)
    return ((matrix.T if back else matrix) @ vectors.reshape(-1, 3).T).T.reshape(-1)


def spread(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """The shorter one repeated."""
    size = max(len(a), len(b))
    return np.tile(a, size // len(a)), np.tile(b, size // len(b))


def yaw(quat: Vector) -> float:
    """rad, about the vertical."""
    return math.atan2(rotation(quat)[1, 0], rotation(quat)[0, 0])


def vector_of(matrix: Vector) -> Vector:
    """The axis of a rotation times its angle."""
    w, *axis = quaternion(matrix)
    sine = float(np.linalg.norm(axis))
    return np.array(axis) * (2.0 * math.atan2(sine, w) / sine if sine > 1e-9 else 2.0)


def quaternion(matrix: Vector) -> Vector:
    """w, x, y, z with w >= 0, the eigenvector of Bar-Itzhack's matrix (2000)."""
    m = matrix
    k = np.array(
        [
            [m[0, 0] + m[1, 1] + m[2, 2], m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 0] - m[1, 1] - m[2, 2], m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]],
            [m[0, 2] - m[2, 0], m[0, 1] + m[1, 0], m[1, 1] - m[0, 0] - m[2, 2], m[1, 2] + m[2, 1]],
            [m[1, 0] - m[0, 1], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1], m[2, 2] - m[0, 0] - m[1, 1]],
        ]
    )
    q = np.linalg.eigh(k)[1][:, -1]
    return q if q[0] >= 0.0 else -q


def is_rotation(e: Values) -> bool:
    """Whether the value is a quaternion."""
    return bool(e.get("axes")) or (e["kind"] in ("heading", "turned") and is_rotation(e["of"]))


def frame_of(e: Values) -> str:
    """Axes in which an expression is given."""
    if e["kind"] == "turned":
        outer = frame_of(e["by"])
        return e["by"].get("axes", "heading") if frame_of(e["of"]) == outer else outer
    inner = e.get("of", e.get("a", {}))
    return e.get("frame", "") or ("" if isinstance(inner, list) or not inner else frame_of(inner))


def evaluate(e: Values, now: Values, before: Values) -> Vector:  # noqa: C901 - one line a kind
    """The value of an expression of measured quantities, given by name."""

    def part(name: str) -> Vector:
        return evaluate(e[name], now, before)

    match e["kind"]:
        case "quantity" | "clock" | "sensor" | "ground_scan":
            out = np.asarray(now[e["name"]], float).reshape(-1)
            assert out.shape == (e["count"],), f"{e['name']} has {out.shape}"
            return out
        case "constant":
            return np.array(e["values"], float)
        case "sum" | "difference" as kind:
            a, b = spread(part("a"), part("b"))
            return a + b if kind == "sum" else a - b
        case "scaled":
            return e["factor"] * part("of")
        case "divided":
            return part("of") / e["by"]
        case "clipped":
            return np.clip(part("of"), e["low"], e["high"])
        case "components":
            return part("of")[list(e["which"])]
        case "joined":
            return np.concatenate([evaluate(one, now, before) for one in e["of"]])
        case "below":
            return (part("of") < e["limit"]).astype(float)
        case "above":
            return (part("of") > e["limit"]).astype(float)
        case "largest":
            return np.array([np.max(np.abs(part("of")) / e["over"])])
        case "where":
            mask = part("mask") != 0.0
            value = part("of")
            return np.where(np.repeat(mask, len(value) // len(mask)), value, 0.0)
        case "previous":
            return evaluate(e["of"], before, before)
        case "sines":
            (angle,) = part("of")
            return np.array(
                [{"sin": math.sin, "cos": math.cos}[name](angle) for name in e.get("order", ("sin", "cos"))]
            )
        case "norm":
            return np.linalg.norm(part("of").reshape(-1, 3), axis=1)
        case "upright":
            return part("of") * (-1.0 if part("of")[0] < 0.0 else 1.0)
        case "yaw":
            return np.array([yaw(part("of"))])
        case "heading":
            half = 0.5 * yaw(part("of"))
            return np.array([math.cos(half), 0.0, 0.0, math.sin(half)])
        case "axes":
            return np.concatenate([rotation(part("of"))[:, "xyz".index(axis)] for axis in e["which"]])
        case "rotation_vector":
            return vector_of(rotation(part("end")) @ rotation(part("start")).T)
        case "turned" if is_rotation(e["of"]):
            matrix = rotation(part("by"))
            back = frame_of(e["of"]) == frame_of(e["by"])
            return quaternion((matrix.T if back else matrix) @ rotation(part("of")))
        case "turned":
            return turn(part("by"), part("of"), back=frame_of(e["of"]) == frame_of(e["by"]))
    raise ValueError(f"an unknown expression, {e['kind']}")
