"""Lidar distances against MuJoCo's ray caster, and clearances against sampled surfaces."""

from __future__ import annotations

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from rookery.sim.sensors import lidar

RADII = np.array([0.1, 0.25, 0.4])
HALF, MOST, GROUND = 0.9, 5.0, 0.15
N, A, RAYS = 12, 2, 40


def scene() -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], pos=[0, 0, GROUND])
    for r in RADII:
        body = spec.worldbody.add_body(mocap=True)
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[r, HALF, 0])
    return spec.compile()


def draw(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States of carriers and of pillars."""
    rng = np.random.default_rng(seed)
    state, pillars = np.zeros((N, A, 13), np.float32), np.zeros((N, len(RADII), 13), np.float32)
    state[..., :3] = rng.uniform([-3, -3, 0.3], [3, 3, 2.6], (N, A, 3))
    state[..., 3:7] = Rotation.random(N * A, random_state=seed).as_quat(scalar_first=True).reshape(N, A, 4)
    pillars[..., :3] = rng.uniform([-2, -2, 0.8], [2, 2, 1.4], (N, len(RADII), 3))
    return state, pillars


def test_distances_are_those_of_mujocos_rays():
    model = scene()
    data = mujoco.MjData(model)
    rays = lidar.ring(RAYS)
    state, pillars = draw()
    out = np.zeros((N, A, RAYS), np.float32)
    lidar.scan(state, pillars, RADII, HALF, np.full(N, GROUND, np.float32), rays, np.float32(MOST), out)
    hits = 0
    for w in range(N):
        data.mocap_pos[:] = pillars[w, :, :3]
        mujoco.mj_kinematics(model, data)
        for a in range(A):
            turned = Rotation.from_quat(state[w, a, 3:7], scalar_first=True).apply(rays)
            for r in range(RAYS):
                start = state[w, a, :3].astype(float)
                if np.hypot(*(start[:2] - pillars[w, :, :2]).T).min() < RADII.max():
                    continue  # perhaps inside, where MuJoCo's rays see the far wall
                found = mujoco.mj_ray(model, data, start, turned[r], None, 1, -1, np.zeros(1, np.int32), None)
                found = MOST if found < 0 else min(found, MOST)
                assert abs(out[w, a, r] - found) < 1e-4  # single precision of the attitude, larger where rays graze
                hits += found < MOST
    assert hits > 200


def test_from_inside_a_pillar_all_distances_are_0():
    state, pillars = draw()
    state[:, :, :3] = pillars[:, 1:2, :3] + [0.05, 0.1, 0.2]
    out = np.ones((N, A, RAYS), np.float32)
    lidar.scan(state, pillars, RADII, HALF, np.zeros(N, np.float32), lidar.ring(RAYS), np.float32(MOST), out)
    assert (out == 0.0).all()


def test_clearances_are_distances_to_the_nearest_of_many_points_on_the_surface():
    state, pillars = draw(1)
    out = np.zeros((N, A), np.float32)
    lidar.clearances(state, pillars, RADII, HALF, out)
    angle, share = np.meshgrid(np.linspace(0, 2 * np.pi, 361), np.linspace(0, 1, 101))
    for w in range(N):
        points = []
        for p, r in enumerate(RADII):
            middle = pillars[w, p, :3]
            side = np.stack((r * np.cos(angle), r * np.sin(angle), (2 * share - 1) * HALF), -1).reshape(-1, 3)
            for z in (-HALF, HALF):
                points.append(
                    middle
                    + np.stack((r * share * np.cos(angle), r * share * np.sin(angle), 0 * angle + z), -1).reshape(-1, 3)
                )
            points.append(middle + side)
        every = np.concatenate(points)
        for a in range(A):
            least = np.linalg.norm(every - state[w, a, :3], axis=1).min()
            assert abs(abs(out[w, a]) - least) < 0.01
