"""Onboard controllers inside the `rotor` engine: the same as those that run between the steps of other engines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rotor_scenes import NONE, angle, exacts, put, scene, world

from rookery.robots.drones.crazyflie import CRAZYFLIE_21 as C
from rookery.robots.drones.drone import Drones
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.engines.rotor.world import RotorWorld

N = 5


@pytest.mark.parametrize("kind", ["ctbr", "attitude", "velocity"])
def test_the_integrated_yaw_is_that_of_other_engines(kind):
    out = []
    for w in (RotorWorld(scene(drones=((0, 0, 1),)), N, 1), MujocoWorld(scene(drones=((0, 0, 1),)), N, 1)):
        drones = Drones(w, ["drone_0"], C, kind, integrated_yaw=True)
        state = torch.zeros(N, 1, 13)
        state[..., 3] = 1.0
        drones.reset(torch.arange(N), state)
        g = torch.Generator().manual_seed(0)
        for _ in range(50):
            drones.apply(0.3 * (torch.rand(N, 1, 4, generator=g) * 2 - 1) + torch.tensor([0, 0, 0.5, 0.5]))
            w.step(5)
        out.append(drones.bodies.state.double().numpy().copy())
    assert np.abs(out[0] - out[1])[..., :3].max() < 1e-3
    assert angle(out[0][..., 3:7], out[1][..., 3:7]).max() < 0.1
    assert np.abs(out[0][..., 6]).min() > 0.05  # they have turned


def test_the_integrated_yaw_is_not_the_plain_one():
    out = []
    for on in (False, True):
        w = world(1, drones=((0, 0, 1),))
        m = w.multirotors(["drone_0"])
        m.integrate_yaw(on)
        m.start(None, torch.full((1, 1, 4), C.hover_speed))
        m.command(1, torch.tensor([[[0.0, 0.0, 1.0, C.mass * 9.81]]]))
        w.step(250)
        out.append(exacts(w, "drone_0/base")[0, 6])
    assert out[0] != out[1]
    assert min(out) > 0.05


def test_drones_of_one_world_are_commanded_at_different_levels():
    drones = ((0, 0, 1), (5, 0, 1), (10, 0, 1))
    w = world(2, drones=drones)
    levels = {0: (0, [0.06, 0.07, 0.06, 0.07]), 1: (2, [0.1, -0.1, 0.2, 0.3]), 2: (4, [10.5, 0.0, 1.2, 0.3])}
    for d, (level, row) in levels.items():
        w.multirotors([f"drone_{d}"]).command(level, torch.tensor(row).expand(2, 1, 4))
    for d, (level, row) in levels.items():
        alone = world(2, drones=(drones[d],))
        alone.multirotors(["drone_0"]).command(level, torch.tensor(row).expand(2, 1, 4))
        alone.step(40)
        levels[d] = exacts(alone, "drone_0/base")
    w.step(40)
    for d, expected in levels.items():
        np.testing.assert_array_equal(exacts(w, f"drone_{d}/base"), expected)


def test_a_new_start_forgets_what_the_controller_has_summed_up():
    w = world(2, fx=NONE, drones=((0, 0, 1),))
    m = w.multirotors(["drone_0"])
    row = torch.tensor([0.3, -0.2, 0.5, 0.3]).expand(2, 1, 4)

    def fly(ids: torch.Tensor | None) -> np.ndarray:
        put(w, "drone_0/base", pos=(0, 0, 1))
        m.start(ids, torch.full((2 if ids is None else 1, 1, 4), C.hover_speed))
        m.command(2, row)
        w.step(100)
        return exacts(w, "drone_0/base")

    first = fly(None)
    again = fly(torch.tensor([1]))
    np.testing.assert_array_equal(again[1], first[1])
    assert (again[0] != first[0]).any()  # this one goes on with its integrals and rotor speeds
