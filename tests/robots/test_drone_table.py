"""The table of drones: one declaration serves every task, and a drone that cannot fly is refused before anything is made."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import rookery
from rookery.robots.drones import table
from rookery.robots.drones.drone import action_spec
from rookery.robots.drones.iris import IRIS
from rookery.robots.drones.model import add_drone
from rookery.robots.drones.table import DRONES, find_drone, register_drone
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene


@pytest.fixture(autouse=True)
def _restore_table():
    before = dict(table._TABLE)
    yield
    table._TABLE.clear()
    table._TABLE.update(before)


def drone(name: str = "mine", **changes):
    return dataclasses.replace(IRIS, name=name, **changes)


@pytest.mark.parametrize("task", ["drone-track", "volley-solo-bump"])
@pytest.mark.parametrize("engine", ["rotor", "mujoco"])
def test_a_registered_drone_flies_in_every_task(task, engine):
    register_drone(drone(mass=1.7, max_velocity=3.0))
    env = rookery.make(task, num_envs=2, engine=engine, config={"drone": "mine"})
    assert env.task.drone.name == "mine"
    names = [f"{n}/base" for n in env.task.names]
    assert env.world.params.nominal("mass", names).tolist() == pytest.approx([1.7] * len(names))
    inertia = env.world.params.nominal("inertia", names)[0].tolist()
    assert inertia == pytest.approx(IRIS.inertia)  # the published one, which no rigid body has
    env.close()


def test_a_scene_takes_a_drone_that_is_in_no_table():
    scene = add_drone(Scene(dt=0.002), "scout", drone(mass=1.25), pos=(0.0, 0.0, 1.0))
    model = scene.compile()
    assert model.body("scout/base").mass[0] == pytest.approx(1.25)
    assert "mine" not in DRONES


def test_names_are_unique_unless_replaced():
    register_drone(drone())
    register_drone(drone())  # the same constants again: nothing to decide
    with pytest.raises(RookeryError, match="already a drone 'mine'"):
        register_drone(drone(mass=1.6))
    register_drone(drone(mass=1.6), replace=True)
    assert find_drone("mine").mass == 1.6
    with pytest.raises(RookeryError, match="unknown drone 'mime': did you mean 'mine'"):
        find_drone("mime")
    with pytest.raises(RookeryError, match="look"):
        register_drone(drone("plane", look="biplane"))


def test_a_drone_too_heavy_to_fly_is_refused_with_its_ratio():
    """4 rotors of 6.003 N carry 2.448 kg: above that no task, table or action declaration takes the drone."""
    limit = 4 * IRIS.max_thrust / 9.81
    register_drone(drone("just", mass=0.999 * limit))
    heavy = drone("heavy", mass=1.001 * limit)
    with pytest.raises(RookeryError, match=r"'heavy' is too heavy to fly: .* 24\.01 N, 1\.00 times the weight"):
        register_drone(heavy)
    with pytest.raises(RookeryError, match="too heavy to fly"):
        action_spec(heavy, "ctbr")
    table._TABLE["heavy"] = heavy
    for task in ("drone-hover", "volley-hit", "uav-coverage"):
        with pytest.raises(RookeryError, match="too heavy to fly"):
            rookery.make(task, config={"drone": "heavy"})


def test_randomized_mass_ends_where_the_rotors_carry_it():
    with pytest.raises(RookeryError, match=r"mass.*1\.61"):
        rookery.make("drone-hover", config={"drone": "iris"}, fixed={"mass": 1.7})
    env = rookery.make("drone-hover", num_envs=2, config={"drone": "iris"}, fixed={"mass": 1.6})
    env.reset(seed=0)
    assert torch.allclose(env.world.params.get("mass", ["drone_0/base"]), torch.tensor(1.6 * IRIS.mass))
    env.close()
