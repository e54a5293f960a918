"""The `rotor` engine gives the same bits at any number of threads and worlds, and in any grouping of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rotor_scenes import RACKET, REALISTIC, bare_ground, exacts, put, scene

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.engines.rotor import world as world_module
from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.multirotor import layout as at

DRONE = replace(RACKET, battery=CRAZYFLIE_21.battery)
WINDY = replace(REALISTIC, wind_speed=5.0)
DRONES = ((0, 0, 0.4), (0.5, 0, 1.2), (0, 0.13, 0.4))
BALLS = ((0, 0, 0.51), (0.5, 0, 0.1))
NAMES = [f"drone_{i}/base" for i in range(3)] + [f"ball_{i}/base" for i in range(2)]


def flown(
    n: int, threads: int, steps: int = 60, per_call: int = 4, fx=WINDY, seed: int = 3
) -> tuple[np.ndarray, RotorWorld]:
    """Final states [N, bodies, 13] of an eventful second: all effects, contacts, gusts, attitudes and rotors commanded."""
    w = RotorWorld(scene(drone=DRONE, drones=DRONES, balls=BALLS, base=bare_ground, fx=fx), n, threads)
    w.seed(seed)
    w.reset()
    touch = w.contact_sensor("ball_0/ball", ["drone_0/racket"]), w.contact_sensor("ground", ["ball_1/ball"])
    a, b = w.multirotors(["drone_0", "drone_2"]), w.multirotors(["drone_1"])
    a.start(None, torch.full((n, 2, 4), 0.7))
    b.start(None, torch.full((n, 1, 4), 0.7))
    world = torch.arange(n, dtype=torch.float32)[:, None, None]
    a.command(2, (0.3 * torch.sin(world + torch.arange(8).view(2, 4))) + torch.tensor([0, 0, 0, 0.2]))
    b.command(0, 0.05 + 0.05 * torch.sin(3 * world + torch.arange(4)))
    total = np.zeros((n, 2))
    for _ in range(steps // per_call):
        w.step(per_call)
        total += torch.cat([t.impulse for t in touch], dim=1).numpy()
    assert steps < 60 or (total > 0).all(axis=1).mean() > 0.5
    return np.stack([exacts(w, name) for name in NAMES], axis=1), w


@pytest.fixture
def short_work(monkeypatch):
    """Let threads have even the least work."""
    monkeypatch.setattr(world_module, "WORK", 1)


@pytest.mark.parametrize("threads", [2, 4])
def test_the_bits_do_not_depend_on_threads(threads, short_work):
    one, _ = flown(75, 1)
    many, _ = flown(75, threads)
    np.testing.assert_array_equal(one, many)
    assert np.unique(one[:, 0], axis=0).shape[0] == 75  # gusts and commands differ


def test_a_world_does_not_depend_on_how_many_there_are():
    few, _ = flown(5, 1)
    many, _ = flown(50, 1)
    np.testing.assert_array_equal(few, many[:5])


@pytest.mark.parametrize("level", range(5))
def test_each_world_is_computed_alike_in_any_number_of_worlds(level):
    """Every world has its own command; world i must not depend on whether a vector or a remainder loop reached it."""
    command = torch.rand(40, 1, 1, 4, generator=torch.Generator().manual_seed(level)) * 0.2

    def states(n: int) -> np.ndarray:
        w = RotorWorld(scene(drones=((0, 0, 1),), fx=replace(REALISTIC, battery=True), drone=DRONE), n, 1)
        drone = w.multirotors(["drone_0"])
        drone.start(None, torch.full((n, 1, 4), 0.6))
        drone.command(level, command[:n])
        w.step(8)
        return exacts(w, "drone_0/base")

    full = states(40)
    for n in (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33):
        np.testing.assert_array_equal(states(n), full[:n], err_msg=f"{n} worlds")


def test_a_world_does_not_depend_on_what_happens_in_others():
    def run(disturb: bool) -> np.ndarray:
        w = RotorWorld(scene(drone=DRONE, drones=DRONES, balls=BALLS, base=bare_ground, fx=WINDY), 20, 1)
        for k in range(30):
            if disturb and k == 10:
                ids = torch.tensor([0, 3, 19])
                w.reset(ids)
                w.bodies(["drone_0/base"]).set_state(ids, torch.full((3, 1, 13), 0.3))
                w.params.set("mass", ["drone_1/base"], torch.ones(3, 1), ids)
            w.step(4)
        return np.stack([exacts(w, name) for name in NAMES], axis=1)

    a, b = run(False), run(True)
    others = np.setdiff1d(np.arange(20), [0, 3, 19])
    np.testing.assert_array_equal(a[others], b[others])
    assert (a[[0, 3, 19]] != b[[0, 3, 19]]).any(axis=(1, 2)).all()


def test_seeds_give_the_gusts():
    a, b, c = flown(20, 1, seed=3)[0], flown(20, 1, seed=3)[0], flown(20, 1, seed=4)[0]
    np.testing.assert_array_equal(a, b)
    assert (a != c).any(axis=(1, 2)).all()


def test_ten_single_steps_are_a_step_of_ten():
    steady = replace(WINDY, battery=False, gusts=False)
    np.testing.assert_array_equal(flown(20, 1, per_call=1, fx=steady)[0], flown(20, 1, per_call=10, fx=steady)[0])
    # batteries are drained once a call, by what the rotors take at its beginning
    fine, coarse = (flown(20, 1, 40, k)[1].bodies_lanes[0, :3, at.CHARGE * at.LANES] for k in (1, 20))
    assert (fine != coarse).all()
    np.testing.assert_allclose(1 - fine, 1 - coarse, rtol=0.3)


def test_rows_of_commands_are_those_of_single_steps():
    n = 18
    out = []
    rows = torch.rand(n, 6, 1, 4, generator=torch.Generator().manual_seed(0)) * 0.1
    for single in (True, False):
        w = RotorWorld(scene(drones=((0, 0, 1),), fx=replace(REALISTIC, battery=False)), n, 1)
        m = w.multirotors(["drone_0"])
        if single:
            for k in range(6):
                m.command(0, rows[:, k])
                w.step(1)
        else:
            m.command(0, rows)
            w.step(6)
        w.step(3)  # the last row is held
        out.append(exacts(w, "drone_0/base"))
    np.testing.assert_array_equal(*out)


def test_a_world_alone_in_its_block_flies_like_any():
    out = []
    for n in (1, 16, 17):
        w = RotorWorld(scene(drones=((0, 0, 1),)), n, 1)
        put(w, "drone_0/base", pos=(0, 0, 1), vel=(1, 2, 3), rate=(1, 1, 1))
        w.step(20)
        out.append(exacts(w, "drone_0/base"))
    np.testing.assert_array_equal(out[0], out[1][:1])
    np.testing.assert_array_equal(out[2], np.repeat(out[0], 17, axis=0))
