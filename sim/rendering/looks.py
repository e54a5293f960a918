"""Looks of surfaces in videos: textures made from numbers, given to the materials of a scene by their names.

Only models that are drawn get them: physics, the cameras of robots and saved scenes keep the plain materials of assets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

Texture = NDArray[np.uint8]
Color = tuple[float, float, float]
_SIZE = 1024  # pixels of a texture's edge
_GROUND_TILES = 4  # along an edge of the ground's texture
_CONCRETE: Color = (0.63, 0.63, 0.61)
_WOOD: Color = (0.68, 0.53, 0.37)
_COURT: Color = (0.72, 0.42, 0.25)


@dataclass(frozen=True)
class Surface:
    """A texture and how a material wears it: `edge_m` is what the texture's edge covers, None for what the material says."""

    paint: Callable[[], Texture]
    edge_m: float | None
    specular: float
    reflectance: float = 0.0


def dress(spec: mujoco.MjSpec) -> None:
    """Give the materials of `SURFACES` their textures, and the scene finer shadows."""
    for material in spec.materials:
        surface = SURFACES.get(material.name.rsplit("/", 1)[-1])
        if surface is not None:
            _wear(spec, material, surface)
    spec.visual.quality.shadowsize = 2048
    spec.visual.quality.offsamples = 4


def _wear(spec: mujoco.MjSpec, material: mujoco.MjsMaterial, surface: Surface) -> None:
    name = f"{material.name}_look"
    picture = surface.paint()
    texture = spec.add_texture(name=name, type=mujoco.mjtTexture.mjTEXTURE_2D, nchannel=3)
    texture.height, texture.width, _ = picture.shape
    texture.data = picture.tobytes()
    textures = material.textures
    textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    material.textures = textures
    if surface.edge_m is not None:
        material.rgba = [1.0, 1.0, 1.0, 1.0]  # the texture has the color
        material.texuniform = True
        material.texrepeat = [1.0 / surface.edge_m, 1.0 / surface.edge_m]
    else:  # the plain ground's texture has two tiles along its edge
        material.texrepeat = [2.0 / _GROUND_TILES * v for v in material.texrepeat]
    material.specular = surface.specular
    material.reflectance = surface.reflectance


def noise(size: int, cells: tuple[int, int], seed: int) -> NDArray[np.float64]:
    """[size, size] in [-1, 1]: smooth value noise of so many cells along y and x, which goes on over the edges."""
    values = np.random.default_rng(seed).uniform(-1.0, 1.0, cells)
    places = [np.arange(size) * n / size for n in cells]
    (y, fy), (x, fx) = ((p.astype(int), p % 1.0) for p in places)
    fy = (fy * fy * (3.0 - 2.0 * fy))[:, None]
    fx = (fx * fx * (3.0 - 2.0 * fx))[None]
    below = (y + 1) % cells[0]
    right = (x + 1) % cells[1]
    rows = values[:, x] * (1 - fx) + values[:, right] * fx  # along x first, since there are few rows
    out: NDArray[np.float64] = rows[y] * (1 - fy) + rows[below] * fy
    return out


def _octaves(seed: int, first: int, count: int) -> NDArray[np.float64]:
    """Noise of `count` scales, each half as large and half as strong as the one before."""
    layers = [0.5**i * noise(_SIZE, (first << i, first << i), seed + i) for i in range(count)]
    out: NDArray[np.float64] = np.sum(layers, axis=0) / (2.0 - 0.5 ** (count - 1))
    return out


def _tint(color: Color, light: NDArray[np.float64]) -> Texture:
    """The color, made lighter or darker by [H, W] factors."""
    return np.clip(255.0 * np.asarray(color) * light[..., None], 0, 255).astype(np.uint8)


@functools.cache
def concrete() -> Texture:
    """Slabs of concrete with narrow joints, four by four; each slab has a shade of its own."""
    n = _SIZE // _GROUND_TILES
    row, column = np.indices((_SIZE, _SIZE)) // n
    shades = np.random.default_rng(3).uniform(-1.0, 1.0, (_GROUND_TILES, _GROUND_TILES))
    light = 1.0 + 0.035 * shades[row, column] + 0.05 * ((row + column) % 2 - 0.5)
    light += 0.07 * _octaves(11, 8, 4) + 0.05 * noise(_SIZE, (512, 512), 29)
    to_joint = np.minimum(np.arange(_SIZE) % n, n - 1 - np.arange(_SIZE) % n)
    joint = np.minimum(to_joint[:, None], to_joint[None])
    light *= np.select([joint < 2, joint < 4], [0.66, 0.90], 1.0)
    return _tint(_CONCRETE, light)


def _planks(color: Color, rows: int, contrast: float) -> Texture:
    """Boards along x, a power of two of them, each with its own shade, grain and end."""
    height = _SIZE // rows
    row = np.arange(_SIZE) // height
    rng = np.random.default_rng(5)
    shade = rng.uniform(-1.0, 1.0, rows)[row][:, None]
    grain = 0.6 * noise(_SIZE, (256, 6), 7) + 0.4 * noise(_SIZE, (128, 16), 8)
    shifts = rng.integers(0, _SIZE, rows)
    grain = np.stack([np.roll(line, shifts[r]) for line, r in zip(grain, row, strict=True)])
    light = 1.0 + contrast * (0.5 * shade + 0.6 * grain) + 0.02 * noise(_SIZE, (512, 512), 9)
    light[np.arange(_SIZE) % height < 2] *= 0.72
    for r in range(rows):
        light[r * height : (r + 1) * height, shifts[r] : shifts[r] + 2] *= 0.72
    return _tint(color, light)


@functools.cache
def wood() -> Texture:
    """The boards of a table."""
    return _planks(_WOOD, 8, 0.12)


@functools.cache
def court_floor() -> Texture:
    """The parquet of a sports hall."""
    return _planks(_COURT, 16, 0.07)


SURFACES: Mapping[str, Surface] = {
    "ground": Surface(concrete, None, 0.05),
    "wood": Surface(wood, 0.9, 0.15),
    "court": Surface(court_floor, 2.0, 0.15),
}
"""By the names of materials."""
