"""Views read what has changed, and nothing that they give is old."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rookery


@pytest.fixture
def env():
    env = rookery.make("drone-hover", num_envs=37, config={"num_drones": 2})
    env.reset(seed=0)
    yield env
    env.close()


def test_a_view_that_was_read_before_gives_what_a_new_one_gives(env):
    world = env.world
    names = ["drone_1/base", "drone_0/base"]
    view = world.bodies(names)
    rotors = world.multirotors(["drone_1", "drone_0"])
    rng = np.random.default_rng(0)
    generator = torch.Generator().manual_seed(0)
    snapshot = world.snapshot()
    for _ in range(300):
        ids = torch.from_numpy(np.sort(rng.choice(37, rng.integers(1, 38), replace=False)))
        kind = rng.integers(0, 6)
        if kind == 0:
            world.step(2)
        elif kind == 1:
            world.reset(ids)
        elif kind == 2:
            other = world.bodies(names[:1])
            other.set_state(ids, torch.rand(len(ids), 1, 13, generator=generator))
            ids.zero_()  # the caller's own
        elif kind == 3:
            rotors.start(ids, torch.rand(len(ids), 2, 4, generator=generator))
        elif kind == 4:
            world.restore(snapshot)
        else:
            world.forward(ids)
        if rng.random() < 0.4:
            assert torch.equal(view.state, world.bodies(names).state)
            assert torch.equal(rotors.rotor_speed, world.multirotors(["drone_1", "drone_0"]).rotor_speed)
