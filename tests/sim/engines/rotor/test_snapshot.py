"""Snapshots of the `rotor` engine: what is restored continues bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from rotor_scenes import RACKET, REALISTIC, bare_ground, exacts, scene

from rookery.sim.engines.rotor.world import RotorWorld
from rookery.sim.errors import RookeryError

N = 19
DRONES = ((0, 0, 0.4), (0.5, 0, 1.2))
BALLS = ((0, 0, 1.0),)
NAMES = ["drone_0/base", "drone_1/base", "ball_0/base"]


def make(n: int = N) -> RotorWorld:
    fx = replace(REALISTIC, wind_speed=5.0)
    w = RotorWorld(scene(drone=RACKET, drones=DRONES, balls=BALLS, base=bare_ground, fx=fx), n, 1)
    w.contact_sensor("ball_0/ball", ["ground"])
    return w


def states(w: RotorWorld) -> np.ndarray:
    return np.stack([exacts(w, name) for name in NAMES], axis=1)


def eventful(w: RotorWorld) -> None:
    """Bring everything that a snapshot must hold away from where it begins."""
    g = torch.Generator().manual_seed(1)
    w.seed(5)
    w.reset()
    w.params.set("mass", NAMES, w.params.nominal("mass", NAMES) * (0.8 + 0.4 * torch.rand(N, 3, generator=g)))
    w.params.set("gravity", [], torch.tensor([0.5, 0.0, -9.0]).expand(N, 3))
    m = w.multirotors(["drone_0"])
    m.vary(None, lag=torch.full((N,), 2.0), drag=torch.full((N,), 3.0))
    m.start(None, torch.full((N, 1, 4), 0.6))
    w.bodies(["ball_0/base"]).set_wrench(0.01 * torch.randn(N, 1, 6, generator=g))
    m.command(2, torch.randn(N, 1, 4, generator=g) * 0.1 + torch.tensor([0, 0, 0, 0.3]))
    w.multirotors(["drone_1"]).command(3, torch.randn(N, 4, 1, 4, generator=g))
    w.step(4)
    w.step(5)


@pytest.mark.parametrize("fresh", [True, False])
def test_a_restored_world_continues_bit_for_bit(fresh):
    w = make()
    eventful(w)
    kept = {k: v.clone() for k, v in w.snapshot().items()}
    start = states(w)
    w.step(20)
    end = states(w)
    if fresh:
        w = make()
    else:  # with other commands, levels and numbers of rows
        w.multirotors(["drone_0", "drone_1"]).command(0, torch.full((N, 3, 2, 4), 0.05))
        w.step(3)
    w.restore(kept)
    np.testing.assert_array_equal(states(w), start)
    assert torch.equal(w.bodies(NAMES).state.double(), torch.from_numpy(start).float().double())
    w.step(20)
    np.testing.assert_array_equal(states(w), end)


def test_rows_that_wait_for_their_step_are_kept():
    w = make()
    out = []
    eventful(w)
    rows = torch.rand(N, 7, 2, 4, generator=torch.Generator().manual_seed(2)) * 0.1
    w.multirotors(["drone_0", "drone_1"]).command(0, rows)
    kept = w.snapshot()
    for _ in range(2):
        w.step(7)
        out.append(states(w))
        w.restore(kept)
    np.testing.assert_array_equal(*out)


def test_a_snapshot_is_a_copy_and_views_follow_a_restore():
    w = make()
    kept = w.snapshot()
    view = w.bodies(["ball_0/base"])
    speeds = w.multirotors(["drone_0"])
    before = view.state.clone()
    turning = speeds.rotor_speed.clone()
    speeds.command(0, torch.full((N, 1, 4), 0.1))
    w.step(50)
    assert not torch.equal(view.state, before)
    assert not torch.equal(speeds.rotor_speed, turning)
    w.restore(kept)
    assert torch.equal(view.state, before)
    assert torch.equal(speeds.rotor_speed, turning)
    assert float(w.contact_sensor("ball_0/ball", ["ground"]).impulse.sum()) == 0.0


def test_failures_are_counted_through_a_snapshot():
    w = make()
    w.bodies(["ball_0/base"]).set_state(torch.tensor([2]), torch.full((1, 1, 13), torch.nan))
    w.step(1)
    kept = w.snapshot()
    other = make()
    other.restore(kept)
    assert other.failures == 1


def test_a_snapshot_of_another_size_is_refused():
    with pytest.raises(RookeryError, match="the snapshot holds 19 worlds of 3 bodies, this world has 20 of 3"):
        make(20).restore(make().snapshot())
