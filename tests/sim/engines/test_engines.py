"""Engines register themselves, and are loaded when their worlds are made."""

from __future__ import annotations

import mujoco
import pytest

from rookery.sim.engines import find_engine, make_world
from rookery.sim.engines.entry import ENGINES, Engine, register
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene


def scene() -> Scene:
    return Scene(lambda: mujoco.MjSpec.from_string("<mujoco/>"))


def test_every_folder_of_an_engine_registers_it():
    assert sorted(ENGINES) == ["mujoco", "pybullet", "rotor"]
    for name, engine in ENGINES.items():
        assert engine.load().engine == name


def test_an_engine_of_ones_own_makes_worlds(monkeypatch):
    monkeypatch.setitem(ENGINES, "mine", Engine("mine", "a test", "rookery.sim.engines.mujoco.world:MujocoWorld"))
    world = make_world("mine", scene(), 2)
    assert world.num_envs == 2
    world.close()


def test_names_are_unique_and_unknown_ones_are_refused():
    with pytest.raises(RookeryError, match="there is an engine 'mujoco' already"):
        register(Engine("mujoco", "another", "nowhere:World"))
    with pytest.raises(RookeryError, match="did you mean 'rotor'"):
        find_engine("roter")
