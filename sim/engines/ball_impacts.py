"""Impacts of balls on engines with soft contacts: exact restitution at any speed and at any moment of a physics step.

A soft contact needs tens of steps for the restitution that it is given, in which a fast ball sinks in by centimeters. After
every physics step the paths of balls are therefore swept through it by the functions of the `rotor` engine (see
rookery.sim.engines.rotor.balls), and each impact changes velocities at its own time, by an impulse with restitution and
Coulomb friction. The engine's own contacts of balls are switched off. Accelerometers do not feel these impacts.

This is for scenes of bouncing balls, multirotors and static shapes only; in others, and for balls without bounce, contacts are
the engine's own.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of compiled functions from the arrays that they are given; annotations would say less.
from __future__ import annotations

from collections.abc import Sequence

import mujoco
import numpy as np

from rookery.assets.scenery import restitution
from rookery.sim.engines.contact_sensors import ContactSums, Pair
from rookery.sim.engines.rotor import build
from rookery.sim.engines.rotor.balls import balls_meet
from rookery.sim.engines.rotor.colliders import colliders, movers
from rookery.sim.engines.rotor.contacts import near_something
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor.free_bodies import FreeBodies, colliders_of, load, loop, store
from rookery.sim.multirotor.layout import LANES
from rookery.sim.scene import Scene


class BallImpacts:
    """Impacts of a scene's balls, in N worlds.

    Args:
        flying: the bodies.
        parts: the scene, as the `rotor` engine reads it.
        model: compiled; its balls stop colliding.
    """

    def __init__(self, flying: FreeBodies, parts: build.Parts, model: mujoco.MjModel) -> None:
        self._flying = flying
        self._model = model
        self._shapes = colliders(parts, model)
        self._movers = movers(parts)
        self.geoms = {colliders_of(model, b)[0] for b in flying.balls}
        for g in self.geoms:
            model.geom_contype[g] = 0
            model.geom_conaffinity[g] = 0
        self._before = np.zeros((len(flying.state), len(flying.ids), 13 * LANES))
        self._before[:, :, 3 * LANES : 4 * LANES] = 1.0
        self._hot = np.zeros(LANES, np.int64)
        self._changed = np.zeros(flying.num_envs, np.int64)
        nobody = np.zeros((flying.num_envs, 0), np.float32)
        self._touching = *self._shapes, np.full((model.ngeom, model.ngeom), -1), nobody, nobody, *self._movers

    def resolves(self, pair: Pair) -> bool:
        """True where contacts of these two geoms, by name, are impacts of balls."""
        return any(self._model.geom(name).id in self.geoms for name in pair)

    def report(self, pairs: Sequence[Pair], sums: ContactSums) -> None:
        """Add the impacts of those pairs that have a ball to `sums`, whose columns they are."""
        lookup = np.full((self._model.ngeom, self._model.ngeom), -1)
        for column, pair in enumerate(pairs):
            if self.resolves(pair):
                g, h = (self._model.geom(name).id for name in pair)
                lookup[g, h] = lookup[h, g] = column
        self._touching = *self._shapes, lookup, sums.impulse.numpy(), sums.when.numpy(), *self._movers

    def begin(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Remember the states [N, nq], [N, nv] at the beginning of a physics step."""
        load(qpos, qvel, self._flying.places, self._before)

    def resolve(self, qpos: np.ndarray, qvel: np.ndarray, step: int, dt: float) -> None:
        """Let the balls bounce in the physics step that has led to these states.

        Args:
            qpos, qvel: [N, nq], [N, nv], corrected in place.
            step: number of the step in the control step.
            dt: s.
        """
        f = self._flying
        load(qpos, qvel, f.places, f.state)
        _resolve(step, dt, self._before, f.state, f.varied, f.worlds, f.types, self._touching, self._hot, self._changed)
        store(f.state, f.places, self._changed, qpos, qvel)


def ball_impacts(scene: Scene, model: mujoco.MjModel, flying: FreeBodies) -> BallImpacts | None:
    """The impacts of a scene's balls, or None where they are the engine's own contacts."""
    geoms = [colliders_of(model, b)[0] for b in flying.balls]
    if not geoms or not all(restitution(model.geom_solref[g]) > 0.0 for g in geoms):
        return None
    try:
        parts = build.read(scene, model)
    except RookeryError:  # other bodies than these
        return None
    if parts.movers:
        return None
    return BallImpacts(flying, parts, model)


@loop
def _resolve(step, dt, before, state, varied, worlds, types, touching, hot, changed):
    drones = len(types)
    for block in range(len(before)):
        rows, p = state[block], varied[block]
        near = near_something(before[block], rows, p, worlds[block], types, drones, touching, hot)
        for i in range(LANES):
            n = block * LANES + i
            if n < len(changed):
                changed[n] = near and hot[i] != 0
                if changed[n]:
                    balls_meet(n, i, step, dt, before[block], rows, p, worlds[block], drones, touching)
