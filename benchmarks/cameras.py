"""Pictures per second of onboard cameras: 8 drones among 20 obstacles in 256 worlds, everything moved between two readings.

    python benchmarks/cameras.py --seconds 3

Every drone has one camera of 64 x 48 pixels. The processor time a pixel, over all threads, depends less on what else runs.
"""

from __future__ import annotations

import argparse
import time

import mujoco
import numpy as np
import torch
from machine import machine

from rookery.assets.drones import quadrotor_spec
from rookery.assets.scenery import ground
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.engines import make_world
from rookery.sim.multirotor.aeronautics import Aeronautics
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import KINDS, Cameras

DRONES = 8
OBSTACLES = 20
_GEOM = mujoco.mjtGeom
SHAPES = (_GEOM.mjGEOM_BOX, _GEOM.mjGEOM_CYLINDER, _GEOM.mjGEOM_CAPSULE, _GEOM.mjGEOM_SPHERE)


def forest() -> mujoco.MjSpec:
    """A ground with 20 posts, blocks and balls, on a ring around the drones."""
    spec = ground()
    rng = np.random.default_rng(0)
    for i in range(OBSTACLES):
        angle = 2 * np.pi * i / OBSTACLES
        away = rng.uniform(3.0, 9.0)
        spec.worldbody.add_geom(
            name=f"obstacle_{i}",
            type=SHAPES[i % len(SHAPES)],
            size=[*rng.uniform(0.15, 0.5, 2), rng.uniform(0.3, 1.0)],
            pos=[away * np.cos(angle), away * np.sin(angle), rng.uniform(0.5, 2.0)],
            rgba=[*rng.uniform(0.2, 0.9, 3), 1.0],
        )
    return spec


def drone() -> mujoco.MjSpec:
    d = CRAZYFLIE_21
    return quadrotor_spec(
        mass=d.mass, inertia=d.inertia, rotor_positions=d.rotor_positions, rotor_directions=d.directions, look=d.look,
        propeller_radius=d.propeller_radius, body_radius=d.body_radius, body_height=d.body_height,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--height", type=int, default=48)
    args = parser.parse_args()
    scene = Scene(forest)
    for i in range(DRONES):
        scene.add(drone, f"drone_{i}", pos=(0.4 * (i % 4), 0.4 * (i // 4), 1.5))
        scene.extension(Aeronautics).drones[f"drone_{i}"] = CRAZYFLIE_21
    world = make_world("rotor", scene, args.num_envs)
    names = [f"drone_{i}" for i in range(DRONES)]
    bodies = world.bodies([f"{name}/base" for name in names])
    poses = [scattered(bodies.state, seed) for seed in range(8)]
    print(machine(), flush=True)
    print(
        f"{args.num_envs} worlds, {DRONES} drones and {OBSTACLES} obstacles each, {args.width} x {args.height} pixels\n"
    )
    print("| picture | pictures/s | ms for all worlds | processor ns a pixel |")
    print("|---|---|---|---|", flush=True)
    for kind in KINDS:
        cameras = Cameras(world, [f"{name}/onboard" for name in names], args.width, args.height, kind)
        count = 0
        spent = 0.0
        worked = 0.0
        cameras.read()  # compiles
        while spent < args.seconds:
            bodies.set_state(None, poses[count % len(poses)])
            world.forward()
            begin = time.perf_counter()
            before = time.process_time()
            cameras.read()
            spent += time.perf_counter() - begin
            worked += time.process_time() - before
            count += 1
        pictures = count * args.num_envs * DRONES
        pixels = pictures * args.width * args.height
        print(
            f"| {kind} | {pictures / spent:,.0f} | {1e3 * spent / count:.1f} | {1e9 * worked / pixels:.1f} |",
            flush=True,
        )


def scattered(state: torch.Tensor, seed: int) -> torch.Tensor:
    """States like `state` [N, A, 13] with places and headings of chance, up to 30 degrees off the level."""
    g = torch.Generator().manual_seed(seed)
    out = state.clone()
    out[..., :3] += torch.rand(out[..., :3].shape, generator=g) - 0.5
    turn = torch.rand(out[..., 0].shape, generator=g) * 2 * torch.pi
    tilt = 0.25 * torch.randn(*out.shape[:2], 2, generator=g).clamp(-1, 1)
    out[..., 3:7] = torch.stack(((turn / 2).cos(), tilt[..., 0], tilt[..., 1], (turn / 2).sin()), -1)
    out[..., 3:7] /= out[..., 3:7].norm(dim=-1, keepdim=True)
    return out


if __name__ == "__main__":
    main()
