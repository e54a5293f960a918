"""Looks of terrain: meshes with few triangles in place of height fields with millions.

Cells that lie in one plane become one rectangle, along y first, then along x; a patch that a coarser grid gives within
`TOLERANCE` is thinned to that grid before. So a step of stairs takes four rectangles, and noise as many as it has nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import mujoco
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Block = tuple[str, slice, slice]
"""Kind, and the nodes along x and y of one patch of a grid of heights."""

TOLERANCE = 0.01  # m, between what is drawn and what is collided with
_STEEP = 0.8  # z of a normal below which a face is drawn dark, so that stairs can be told from slopes: 37 degrees
_CHECKER_M = 0.5
_TINTS: dict[str, Sequence[float]] = {
    "border": (0.55, 0.60, 0.64),
    "flat": (0.66, 0.70, 0.74),
    "rough": (0.72, 0.62, 0.48),
    "slope_up": (0.50, 0.68, 0.57),
    "slope_down": (0.60, 0.70, 0.48),
    "stairs_up": (0.51, 0.60, 0.73),
    "stairs_down": (0.65, 0.57, 0.72),
    "obstacles": (0.74, 0.57, 0.54),
    "steep": (0.33, 0.31, 0.35),
}


def rectangles(z: NDArray[np.float32], cell: float) -> Floats:
    """A patch of heights as few rectangles, seen from above.

    Args:
        z: [n + 1, m + 1] m, first index along x.
        cell: m, between nodes.

    Returns:
        [Q, 4, 3] m, corners (low x, low y), (high x, low y), (high x, high y), (low x, high y), with z[0, 0] at x = y = 0.
    """
    stride = next((k for k in (4, 2) if _thins(z, k)), 1)
    thin: Floats = z[::stride, ::stride].astype(np.float64)
    x0, x1, y0, y1 = _merge(thin)
    corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]
    return np.stack([np.stack((cell * stride * x, cell * stride * y, thin[x, y]), axis=1) for x, y in corners], axis=1)


def _thins(z: NDArray[np.float32], k: int) -> bool:
    """True where every k-th node says it all."""
    n, m = z.shape[0] - 1, z.shape[1] - 1
    if n % k or m % k:
        return False
    coarse = z[::k, ::k]
    share = np.arange(k + 1) / k
    for i in range(k):
        for j in range(k):
            a, b = share[i], share[j]
            guess = (1 - a) * ((1 - b) * coarse[:-1, :-1] + b * coarse[:-1, 1:])
            guess = guess + a * ((1 - b) * coarse[1:, :-1] + b * coarse[1:, 1:])
            if np.abs(guess - z[i : n : k, j : m : k]).max() > TOLERANCE:  # fmt: skip
                return False
    return True


def _merge(z: Floats) -> tuple[NDArray[np.intp], ...]:
    """First and last nodes (x0, x1, y0, y1), each [Q], of rectangles that lie in one plane."""
    along_x = z[1:, :-1] - z[:-1, :-1]
    along_y = z[:-1, 1:] - z[:-1, :-1]
    plane = np.abs(z[1:, 1:] - z[:-1, 1:] - along_x) < 1e-5
    # what two neighbours must share; cells that are no plane share nothing
    key = np.rint(np.stack((along_x, along_y)) / 1e-4).astype(np.int64)
    key[0][~plane] = np.arange(1, (~plane).sum() + 1) + np.int64(1 << 40)
    begins = np.ones(plane.shape, bool)
    begins[:, 1:] = (key[:, :, 1:] != key[:, :, :-1]).any(axis=0)
    x, y0 = np.nonzero(begins)
    ends = np.ones(plane.shape, bool)
    ends[:, :-1] = begins[:, 1:]
    y1 = np.nonzero(ends)[1] + 1
    kx, ky = key[0][x, y0], key[1][x, y0]
    order = np.lexsort((x, ky, kx, y1, y0))
    run = np.stack((y0, y1, kx, ky))[:, order]
    x = x[order]
    fresh = np.ones(len(x), bool)
    fresh[1:] = (run[:, 1:] != run[:, :-1]).any(axis=0) | (x[1:] != x[:-1] + 1)
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(x) - 1)
    return x[fresh], x[last] + 1, run[0][fresh], run[1][fresh]


def faces_of(
    heights: NDArray[np.float32], cell: float, origin: Sequence[float], blocks: Iterable[Block]
) -> dict[str, Floats]:
    """Rectangles [Q, 4, 3] m, world, of a grid's blocks by kind; risers and the like are under "steep"."""
    found: dict[str, list[Floats]] = {}
    for kind, xs, ys in blocks:
        quads = rectangles(heights[xs, ys], cell)
        quads += [origin[0] + xs.start * cell, origin[1] + ys.start * cell, 0.0]
        steep = (_normals(quads) < _STEEP) & (kind != "rough")
        found.setdefault(kind, []).append(quads[~steep])
        found.setdefault("steep", []).append(quads[steep])
    out = {kind: np.concatenate(parts) for kind, parts in found.items()}
    return {kind: quads for kind, quads in out.items() if len(quads)}


def _normals(quads: Floats) -> Floats:
    """[Q]: z of the normals of the rectangles."""
    across = np.cross(quads[:, 2] - quads[:, 0], quads[:, 3] - quads[:, 1])
    return np.asarray(across[:, 2] / np.linalg.norm(across, axis=1))


def add_looks(spec: mujoco.MjSpec, faces: dict[str, Floats]) -> None:
    """Add a mesh, material and geom `ground_<kind>` for each of `faces_of`: seen, never in contact."""
    spec.add_texture(
        name="ground", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        mark=mujoco.mjtMark.mjMARK_EDGE, rgb1=[0.86, 0.86, 0.86], rgb2=[0.96, 0.96, 0.96], markrgb=[1.0, 1.0, 1.0],
        width=512, height=512,
    )  # fmt: skip
    for kind, quads in faces.items():
        name = f"ground_{kind}"
        mesh = spec.add_mesh(name=name)
        vertices = quads.reshape(-1, 3)
        first = 4 * np.arange(len(quads))[:, None]
        mesh.uservert = vertices.ravel()
        mesh.userface = (first[:, :, None] + np.array([[0, 1, 2], [0, 2, 3]])).ravel()
        mesh.usertexcoord = (vertices[:, :2] / (2.0 * _CHECKER_M)).ravel()
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        material = spec.add_material(name=name, rgba=[*_TINTS[kind], 1.0], specular=0.05, shininess=0.1)
        textures = material.textures
        textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "ground"
        material.textures = textures
        spec.worldbody.add_geom(
            name=name, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=name, material=name, group=2, contype=0, conaffinity=0,
            mass=0,
        )  # fmt: skip
