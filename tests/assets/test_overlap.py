"""Meshes that are no solids, and solids whose common space would count twice."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh

from rookery.assets.errors import RookeryError
from rookery.assets.objects import load_object
from rookery.assets.objects.overlap import overlapping, solids, winding


def box(size: float, at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> trimesh.Trimesh:
    return trimesh.creation.box((size, size, size)).apply_translation(at)


def both(*parts: trimesh.Trimesh) -> trimesh.Trimesh:
    return trimesh.util.concatenate(parts)


def test_winding_tells_inside_from_outside() -> None:
    """Against the ball's own equation, where its polyhedron and it agree."""
    ball = np.asarray(trimesh.creation.icosphere(subdivisions=3, radius=1.0).triangles)
    points = np.random.default_rng(0).uniform(-1.5, 1.5, (500, 3))
    radius = np.linalg.norm(points, axis=1)
    clear = np.abs(radius - 1.0) > 0.05
    assert np.abs(winding(points, ball) - (radius < 1.0))[clear].max() < 1e-6
    assert np.abs(winding(points, ball[:, ::-1]) + (radius < 1.0))[clear].max() < 1e-6


def cavity(size: float) -> trimesh.Trimesh:
    """A cube whose faces look inwards."""
    out = box(size)
    out.invert()
    return out


def test_a_hollow_box_weighs_what_its_wall_does(tmp_path: Path) -> None:
    both(box(0.2), cavity(0.1)).export(tmp_path / "hollow.stl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hollow, report = load_object(tmp_path / "hollow.stl", density=1000.0)
    assert hollow.mass == pytest.approx(1000.0 * (0.2**3 - 0.1**3))
    moment = 1000.0 * (0.2**5 - 0.1**5) / 6.0  # of a cube: m a^2 / 6
    np.testing.assert_allclose(hollow.inertia, [moment] * 3 + [0.0] * 3, rtol=1e-6, atol=1e-9)
    assert "twice" not in str(report)


def test_solids_are_found() -> None:
    mesh = both(
        box(1.0), box(1.0, (3.0, 0.0, 0.0)), trimesh.creation.icosphere(subdivisions=4).apply_translation((9, 0, 0))
    )
    labels = solids(np.asarray(mesh.faces), len(mesh.vertices))
    assert sorted(np.unique(labels, return_counts=True)[1].tolist()) == [12, 12, 5120]


@pytest.mark.parametrize(
    ("parts", "pairs"),
    [
        ((box(1.0),), 0),
        ((box(1.0), box(1.0, (1.5, 0.0, 0.0))), 0),
        ((box(1.0), box(1.0, (1.0, 0.0, 0.0))), 0),  # they touch
        ((box(1.0), box(1.0, (0.9, 0.0, 0.0))), 1),
        ((box(1.0), box(0.5)), 1),  # one inside the other
        ((box(1.0), box(0.5), box(0.2)), 3),
        ((box(1.0), cavity(0.5)), 0),
        ((box(1.0), cavity(0.5), box(0.2)), 0),  # a rattle
        ((box(1.0), cavity(0.5), box(0.7)), 1),  # what fills the cavity reaches into its wall
        # crossed bars: no corner of one lies in the other
        ((box(1.0).apply_scale((4, 1, 1)), box(0.8).apply_scale((1, 4, 1))), 1),
        # an L's box contains a cube that it does not touch
        ((both(box(1.0)), box(1.0, (0.0, 2.0, 0.0)), box(1.0, (2.0, 0.0, 0.0))), 0),
    ],
)
def test_pairs_that_share_space(parts: tuple[trimesh.Trimesh, ...], pairs: int) -> None:
    assert overlapping(both(*parts)) == pairs


def test_a_loaded_mesh_warns_of_mass_that_counts_twice(tmp_path: Path) -> None:
    both(box(0.2), box(0.1)).export(tmp_path / "nested.stl")
    with pytest.warns(UserWarning, match="1 pairs of its solids overlap or contain"):
        _, report = load_object(tmp_path / "nested.stl")
    assert "counts twice" in str(report)
    both(box(0.2), box(0.1, (0.4, 0.0, 0.0))).export(tmp_path / "apart.stl")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_object(tmp_path / "apart.stl")


@pytest.mark.parametrize("suffix", ["stl", "obj", "ply"])
@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([[0, 0, 0]] * 3, "no faces|cannot be read"),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], "no faces|cannot be read"),
        ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], "plane or a line|no faces"),
        ([[0, 0, 0], [1e-8, 0, 0], [0, 1e-8, 0], [0, 0, 1e-8]], "m large|no faces"),
        ([[0, 0, 0], [1e30, 0, 0], [0, 1e30, 0], [0, 0, 1e30]], "m large"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, None, "auto"])
def test_what_is_no_solid_is_a_sentence(tmp_path: Path, suffix: str, points, words: str, scale) -> None:
    faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]] if len(points) == 4 else [[0, 1, 2]]
    trimesh.Trimesh(points, faces, process=False).export(tmp_path / f"a.{suffix}")
    with pytest.raises(RookeryError, match=words):
        load_object(tmp_path / f"a.{suffix}", scale=scale)
    with pytest.raises(RookeryError, match=words):
        load_object(tmp_path / f"a.{suffix}", scale=scale, open="hull")
