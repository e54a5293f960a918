"""Generated meshes are closed, small, and of the size asked for."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from rookery.assets import airframes, meshes
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.iris import IRIS

DRONES = pytest.mark.parametrize("drone", [CRAZYFLIE_21, IRIS], ids=lambda d: d.name)


def check_closed(mesh: trimesh.Trimesh) -> None:
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert mesh.volume > 0  # outward faces


@pytest.mark.parametrize("spin", ["ccw", "cw"])
@pytest.mark.parametrize("radius", [0.0231348, 0.127])
def test_propeller(spin, radius):
    mesh = meshes.propeller(radius, spin)
    check_closed(mesh)
    assert len(mesh.faces) < 2000
    assert np.linalg.norm(mesh.vertices[:, :2], axis=1).max() == pytest.approx(radius, rel=0.01)
    assert np.abs(mesh.vertices[:, 2]).max() < 0.2 * radius
    assert np.allclose(mesh.centroid, 0, atol=1e-3 * radius)


@pytest.mark.parametrize(("spin", "sense"), [("ccw", 1.0), ("cw", -1.0)])
def test_propeller_blows_downwards(spin, sense):
    """Turning as named, the upper faces meet the air with their leading edge high: they push it down."""
    mesh = meshes.propeller(1.0, spin)
    out = np.linalg.norm(mesh.triangles_center[:, :2], axis=1)
    upper = (out > 0.3) & (out < 0.9) & (mesh.face_normals[:, 2] > 0.3)
    centre = mesh.triangles_center[upper]
    normal = mesh.face_normals[upper]
    velocity = sense * np.cross([0.0, 0.0, 1.0], centre)
    weight = mesh.area_faces[upper] * np.linalg.norm(velocity, axis=1)
    # Upper faces lean backwards, away from the motion.
    assert (weight * (normal * velocity).sum(1)).sum() < 0


def test_mirrored_propellers_are_different():
    ccw = meshes.propeller(0.1, "ccw")
    cw = meshes.propeller(0.1, "cw")
    assert np.allclose(ccw.vertices * [1, -1, 1], cw.vertices)
    assert not np.allclose(ccw.vertices, cw.vertices)


@DRONES
def test_airframe_parts(drone):
    parts = getattr(airframes, drone.look)(drone.rotor_positions, drone.propeller_radius, drone.body_height)
    assert len({p.name for p in parts}) == len(parts)
    for part in parts:
        check_closed(part.mesh)
        assert len(part.mesh.faces) < 2000
    assert sum(len(p.mesh.faces) for p in parts) < 4000
    every = np.concatenate([p.mesh.vertices for p in parts])
    arm = np.linalg.norm(np.asarray(drone.rotor_positions)[:, :2], axis=1).max()
    reach = np.linalg.norm(every[:, :2], axis=1).max()
    assert arm < reach < 1.3 * arm  # motors stand at the arms' ends, in m
    assert every[:, 2].min() == pytest.approx(-0.5 * drone.body_height, rel=0.1)  # it stands on its feet
    assert abs(every[:, 1].max() + every[:, 1].min()) < 0.02 * arm  # left and right alike


@DRONES
def test_front_is_in_front(drone):
    parts = getattr(airframes, drone.look)(drone.rotor_positions, drone.propeller_radius, drone.body_height)
    front = next(p for p in parts if p.rgba == airframes.FRONT)
    assert front.mesh.vertices[:, 0].mean() > 0


def test_loft_and_extrude_have_the_volume_of_their_solids():
    circle = meshes.superellipse(1.0, 1.0, power=2.0, points=200)
    check_closed(meshes.extrude(circle, -1.0, 2.0))
    assert meshes.extrude(circle, -1.0, 2.0).volume == pytest.approx(3 * np.pi, rel=1e-3)
    cone = meshes.tube((1, 2, 3), (1, 2, 6), (1.0, 0.5), sides=200)
    check_closed(cone)
    assert cone.volume == pytest.approx(np.pi * 3 / 3 * (1 + 0.5 + 0.25), rel=1e-3)
    check_closed(meshes.tube((0, 0, 0), (0.3, -2.0, 0.1), (0.2, 0.1, 0.2)))
