"""Convex decomposition: ours (assets/objects/decompose.py) beside CoACD (arXiv 2205.02961), on the same meshes.

    pip install --target coacd coacd==1.0.14
    PYTHONPATH=coacd python benchmarks/decompose.py [MESH ...] [--out benchmarks/results/decompose.json]

CoACD cuts closed meshes without its preprocessing, into 32 hulls at most, as ours does by default. Rows of meshes and methods
that are not named stay in the file; `--methods ours` needs no CoACD.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from result_file import RESULTS, write_result
from scipy.spatial import ConvexHull, cKDTree

from rookery.assets.objects import find_object
from rookery.assets.objects.decompose import decompose
from rookery.cli.main import guarded
from rookery.sim.errors import RookeryError

MOST_PARTS = 32
INSIDE = 20_000
"""Points drawn in the box around a mesh and its hulls, of which volumes are shares."""
SURFACE, QUERIES = 200_000, 20_000
"""Points drawn on each surface, and of them those whose distance from the other surface is asked for."""


def revolved(profile: Sequence[tuple[float, float]], sections: int = 32) -> trimesh.Trimesh:
    """A solid of revolution about z from (radius, height) m."""
    return trimesh.creation.revolve(np.array(profile), sections=sections)


def blocks(*boxes: Sequence[Sequence[float]]) -> trimesh.Trimesh:
    """The union of boxes ((x, y, z), (x, y, z)) m, closed, without faces inside."""
    ends = np.array(boxes)
    lines = [np.unique(ends[:, :, k]) for k in range(3)]
    middles = np.stack(np.meshgrid(*((x[1:] + x[:-1]) / 2 for x in lines), indexing="ij"), -1)
    full = np.zeros(middles.shape[:3], bool)
    for low, high in ends:
        full |= ((middles > low) & (middles < high)).all(-1)
    padded = np.pad(full, 1)
    triangles = []
    for axis in range(3):
        for side in (0, 1):
            beside = np.roll(padded, 1 - 2 * side, axis)[1:-1, 1:-1, 1:-1]
            for cell in np.argwhere(full & ~beside):
                a, b = (axis + 1) % 3, (axis + 2) % 3
                corners = []
                for da, db in ((0, 0), (1, 0), (1, 1), (0, 1)):
                    at = cell.copy()
                    at[axis] += side
                    at[a] += da
                    at[b] += db
                    corners.append([lines[k][at[k]] for k in range(3)])
                order = corners if side else corners[::-1]
                triangles += [[order[0], order[1], order[2]], [order[0], order[2], order[3]]]
    vertices = np.array(triangles).reshape(-1, 3)
    return trimesh.Trimesh(vertices, np.arange(len(vertices)).reshape(-1, 3), process=True)


def bunny() -> trimesh.Trimesh:
    """A smooth body with two ears, a snout and a tail: a ball whose radius has bumps."""
    ball = trimesh.creation.icosphere(4)
    out = np.full(len(ball.vertices), 0.04)
    for way, high, width in (
        ((0.35, 0.25, 1.0), 0.05, 0.16), ((0.35, -0.25, 1.0), 0.05, 0.16), ((1.0, 0.0, 0.3), 0.015, 0.3),
        ((-1.0, 0.0, -0.4), 0.015, 0.25), ((0.3, 0.5, -1.0), 0.02, 0.3), ((0.3, -0.5, -1.0), 0.02, 0.3),
    ):  # fmt: skip
        angle = np.arccos(np.clip(ball.vertices @ (np.array(way) / np.linalg.norm(way)), -1.0, 1.0))
        out += high * np.exp(-((angle / width) ** 2))
    return trimesh.Trimesh(ball.vertices * out[:, None], ball.faces)


MESHES: dict[str, Callable[[], trimesh.Trimesh]] = {
    "l shape": lambda: blocks(((0, 0, 0), (0.1, 0.03, 0.04)), ((0, 0, 0), (0.03, 0.1, 0.04))),
    "cup": lambda: revolved([(0, 0), (0.04, 0), (0.04, 0.08), (0.03, 0.08), (0.03, 0.01), (0, 0.01)]),
    "torus": lambda: trimesh.creation.torus(0.05, 0.015, major_sections=48, minor_sections=24),
    "bracket": lambda: blocks(
        ((0, 0, 0), (0.08, 0.06, 0.008)), ((0, 0, 0), (0.008, 0.06, 0.07)), ((0, 0.02, 0), (0.05, 0.028, 0.03)),
        ((0.05, 0.05, 0), (0.06, 0.06, 0.03)),
    ),
    "bunny": bunny,
    "table": lambda: blocks(
        ((0, 0, 0.7), (1.2, 0.7, 0.74)), ((0, 0, 0), (0.05, 0.05, 0.74)), ((1.15, 0, 0), (1.2, 0.05, 0.74)),
        ((0, 0.65, 0), (0.05, 0.7, 0.74)), ((1.15, 0.65, 0), (1.2, 0.7, 0.74)),
    ),
    **{name: (lambda name=name: find_object(name).mesh) for name in ("mug", "bowl")},
}  # fmt: skip


def ours(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
    return decompose(mesh, max_parts=MOST_PARTS)[0]


def coacd_at(threshold: float) -> Callable[[trimesh.Trimesh], list[trimesh.Trimesh]]:
    def run(mesh: trimesh.Trimesh) -> list[trimesh.Trimesh]:
        import coacd

        coacd.set_log_level("error")
        given = coacd.Mesh(np.asarray(mesh.vertices), np.asarray(mesh.faces))
        parts = coacd.run_coacd(given, threshold, max_convex_hull=MOST_PARTS, preprocess_mode="off")
        return [trimesh.Trimesh(vertices, faces, process=False) for vertices, faces in parts]

    return run


METHODS = {"ours": ours, "CoACD 0.05": coacd_at(0.05), "CoACD 0.02": coacd_at(0.02)}


def inside_mesh(mesh: trimesh.Trimesh, points: np.ndarray) -> np.ndarray:
    """[N] bool, by winding numbers (Van Oosterom and Strackee 1983)."""
    wound = np.zeros(len(points))
    for some in np.array_split(np.arange(len(points)), max(1, len(points) * len(mesh.faces) // 4_000_000)):
        a, b, c = np.moveaxis(mesh.triangles[None] - points[some, None, None], 2, 0)
        x, y, z = (np.linalg.norm(v, axis=-1) for v in (a, b, c))
        over = np.einsum("ijk,ijk->ij", a, np.cross(b, c))
        under = x * y * z + (a * b).sum(-1) * z + (b * c).sum(-1) * x + (c * a).sum(-1) * y
        wound[some] = np.arctan2(over, under).sum(1) / (2.0 * np.pi)
    return np.abs(wound) > 0.5


def drawn(mesh: trimesh.Trimesh) -> tuple[np.ndarray, np.ndarray, float]:
    """Points [INSIDE, 3] m of the box around a mesh, which of them are in it, and the share of its volume for each."""
    low, high = mesh.bounds + 0.02 * mesh.scale * np.array([[-1.0], [1.0]])
    points = np.random.default_rng(0).uniform(low, high, (INSIDE, 3))
    return points, inside_mesh(mesh, points), float(np.prod(high - low) / INSIDE / mesh.volume)


def figures(
    mesh: trimesh.Trimesh, parts: list[trimesh.Trimesh], points: np.ndarray, of_mesh: np.ndarray, each: float
) -> dict[str, Any]:
    """How well convex parts are the mesh; points of `drawn`."""
    rng = np.random.default_rng(0)
    planes = [ConvexHull(part.vertices).equations for part in parts]

    def within(points: np.ndarray) -> np.ndarray:
        """Number of parts that each point is in."""
        return sum(((points @ p[:, :3].T + p[:, 3]) < 0.0).all(1).astype(int) for p in planes)

    count = within(points)
    outer = []
    for part in parts:
        own, face = trimesh.sample.sample_surface(part, SURFACE // len(parts), seed=0)
        normal = part.face_normals[face]
        outward = normal * np.sign(((own - part.vertices.mean(0)) * normal).sum(1, keepdims=True))
        beyond = own + 2e-3 * mesh.scale * outward
        outer.append(own[within(beyond) == 0])  # not where it lies in another part, or beside one
    hull_points = np.concatenate(outer)
    mesh_points = trimesh.sample.sample_surface(mesh, SURFACE, seed=0)[0]
    apart = [
        cKDTree(others).query(rng.permutation(own)[:QUERIES])[0].max()
        for own, others in ((hull_points, mesh_points), (mesh_points, hull_points))
    ]
    return {
        "parts": len(parts),
        "excess": float(((count > 0) & ~of_mesh).sum() * each),
        "missing": float(((count == 0) & of_mesh).sum() * each),
        "overlap": float(np.maximum(count - 1, 0).sum() * each),
        "hausdorff": float(max(apart) / mesh.scale),
    }


COLUMNS = (
    {"key": "mesh", "title": "mesh", "format": ""},
    {"key": "method", "title": "by", "format": ""},
    {"key": "parts", "title": "hulls", "format": ""},
    {"key": "excess", "title": "too much", "format": ".1%"},
    {"key": "missing", "title": "missing", "format": ".1%"},
    {"key": "overlap", "title": "overlap", "format": ".1%"},
    {"key": "hausdorff", "title": "Hausdorff", "format": ".1%"},
    {"key": "seconds", "title": "s", "format": ".1f"},
)
METRICS = {
    "too much, missing, overlap": "shares of the mesh's volume that the hulls fill and it does not, that it fills and they do "
    f"not, and that several of them fill, of {INSIDE:,} points",
    "Hausdorff": f"greatest distance of the surfaces of the mesh and of the hulls' union from each other, of {QUERIES:,} "
    "points, as a share of the box's diagonal",
    "s": "seconds of the processor",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("meshes", nargs="*", metavar="MESH")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--out", type=Path, default=RESULTS / "decompose.json")
    args = parser.parse_args()
    for name in args.meshes:
        if name not in MESHES:
            raise RookeryError(f"unknown mesh {name!r}: give some of {', '.join(MESHES)}.")
    start = time.perf_counter()
    stored = json.loads(args.out.read_text())["rows"] if args.out.is_file() else []
    rows = {(row["mesh"], row["method"]): row for row in stored}
    decompose(MESHES["cup"](), max_parts=2)  # compiles
    for name in args.meshes or MESHES:
        mesh = MESHES[name]()
        if not mesh.is_watertight:
            raise RookeryError(f"the mesh {name} is not closed.")
        given = drawn(mesh)
        for method in args.methods:
            began = time.process_time()
            parts = METHODS[method](mesh)
            seconds = time.process_time() - began
            row = {"mesh": name, "method": method, "faces": len(mesh.faces), **figures(mesh, parts, *given)}
            rows[name, method] = row | {"seconds": seconds}
            print(rows[name, method], flush=True)
        order = [rows[m, k] for m in MESHES for k in METHODS if (m, k) in rows]
        write_result(args.out, "python benchmarks/decompose.py", start, COLUMNS, order, METRICS)
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
