"""State estimation where a robot measures less than a policy or an operator wants: velocity and place of walking robots.

    estimator = LegOdometry(GO2, joints)
    values |= estimator.update(values, measured)                    # for each reading, as fast as they come

A link calls it for every measurement that arrives. Another estimator has the same two members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from rookery.robots.quadrupeds.model import LEGS, QuadrupedModel
from rookery.sim.multirotor.parameters import GRAVITY
from rookery.sim2real.links.frames import matrix
from rookery.sim2real.runtime.reading import FOOT_FORCES, SPECIFIC_FORCE, Array

STALE_S = 0.1  # s between readings after which it begins anew
ACCELEROMETER = 0.5  # m/s per square root of a second, by which velocity may drift between steps
LEG = 0.15  # m/s, standard deviation of a standing leg's word: joint velocities' noise, slip, soft ground
LOADED = 0.4  # of a quarter of the weight, from which a foot counts as standing
LEAST = 4.0  # N, likewise at least; a Go2's sensors count in units of their own, about as large
WEIGHT_S = (
    1.0  # s, of the low-pass that makes the weight of the forces on all feet: it is their mean, whatever the unit
)
STANDING_S = 0.03  # s that a foot must be loaded: at touch-down it still moves
HEIGHT_S = 0.05  # s, of the low-pass of heights


class Estimator(Protocol):
    """Adds quantities to a robot's readings."""

    quantities: Mapping[str, str]
    """Names of what it adds, with a word of how good it is."""

    def update(self, values: Mapping[str, Array], measured: float) -> dict[str, Array]:
        """Estimates after a reading.

        Args:
            values: measured quantities, joints in the order that the estimator was made for.
            measured: s, the robot's clock.
        """
        ...


class LegOdometry:
    """Legs that stand do not move, an accelerometer tells what happens meanwhile: a Kalman filter of the trunk's velocity with
    one variance. World axes; heading and the two other angles are those of the robot's own attitude.

    A foot stands while it is loaded, by its sensor or, where all sensors say 0, by its joints' torques. The ball of a foot
    rolls over the ground: at rest is the ball's lowest point.

    Args:
        robot: whose legs they are.
        joints: their names in the readings' order.

    Attributes:
        standing: [4] True where a leg stands, in LEGS' order.
    """

    quantities: Mapping[str, str] = {
        "velocity": "within about 0.02 m/s", "position": "from where it began, drifting by about 1 % of the way",
    }  # fmt: skip

    def __init__(self, robot: QuadrupedModel, joints: tuple[str, ...]) -> None:
        self._model = robot.spec().compile()
        self._data = mujoco.MjData(self._model)
        root = self._model.body("base").id
        free = self._model.body_jntadr[root]
        self._free_q, self._free_v = self._model.jnt_qposadr[free], self._model.jnt_dofadr[free]
        found = [self._model.joint(name) for name in joints]
        self._q = np.array([j.qposadr[0] for j in found])
        self._v = np.array([j.dofadr[0] for j in found])
        self._legs = [np.array([joints.index(j) for j in joints if j.startswith(leg)]) for leg in LEGS]
        self._feet = [self._model.geom(f"{leg}_foot").id for leg in LEGS]
        self._radius = robot.foot_radius
        self._height = robot.stand_height
        self._last = -math.inf
        self._begin()

    def _begin(self) -> None:
        self._velocity = np.zeros(3)
        self._place = np.array((0.0, 0.0, self._height))
        self._variance = LEG**2
        self._share = 0.0  # of the weight, on each foot
        self._loaded_s = np.zeros(len(LEGS))
        self.standing = np.zeros(len(LEGS), bool)

    def update(self, values: Mapping[str, Array], measured: float) -> dict[str, Array]:
        """See Estimator."""
        dt = measured - self._last
        if dt == 0.0:
            return self._told()
        self._last = measured
        if not 0.0 < dt < STALE_S or not np.isfinite(self._velocity).all():
            self._begin()
            dt = 0.0
        turn = matrix(values["rotation"])
        self._pose(values)
        self._find_standing(values, turn, dt)
        self._velocity += dt * (turn @ values[SPECIFIC_FORCE] - (0.0, 0.0, GRAVITY))
        self._variance += dt * ACCELEROMETER**2
        height = self._place[2] + dt * self._velocity[2]
        if self.standing.any():
            told = np.mean([self._leg(i, turn) for i in range(len(LEGS)) if self.standing[i]], axis=0)
            gain = self._variance / (self._variance + LEG**2 / self.standing.sum())
            self._velocity += gain * (told[:3] - self._velocity)
            self._variance *= 1.0 - gain
            height += min(1.0, dt / HEIGHT_S) * (told[3] - height)
        self._place[:2] += dt * self._velocity[:2]
        self._place[2] = height
        return self._told()

    def _told(self) -> dict[str, Array]:
        return {"velocity": self._velocity.astype(np.float32), "position": self._place.astype(np.float32)}

    def _pose(self, values: Mapping[str, Array]) -> None:
        """Place the model's joints as measured, the trunk at rest in the origin but for its turning."""
        m, d = self._model, self._data
        d.qpos[self._free_q : self._free_q + 7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        d.qvel[self._free_v + 3 : self._free_v + 6] = values["angular velocity"]
        d.qpos[self._q] = values["joint angles"]
        d.qvel[self._v] = values["joint velocities"]
        mujoco.mj_kinematics(m, d)
        mujoco.mj_comPos(m, d)
        mujoco.mj_comVel(m, d)

    def _leg(self, i: int, turn: NDArray[np.float64]) -> NDArray[np.float64]:
        """[4] m/s and m: the trunk's velocity, world, and its height over the ground, if leg i stands."""
        moves = np.zeros(6)
        mujoco.mj_objectVelocity(self._model, self._data, mujoco.mjtObj.mjOBJ_GEOM, self._feet[i], moves, 0)
        a, b, c = moves[:3]
        spin = np.array(((0.0, -c, b), (c, 0.0, -a), (-b, a, 0.0)))
        down = -self._radius * turn[2]  # from the ball's center to its lowest point, trunk's axes
        height = -turn[2] @ (self._data.geom_xpos[self._feet[i]] + down)
        return np.append(-turn @ (moves[3:] + spin @ down), height)

    def _find_standing(self, values: Mapping[str, Array], turn: NDArray[np.float64], dt: float) -> None:
        forces = np.asarray(values[FOOT_FORCES], float)
        if not forces.any():
            forces = self._forces_of_torques(np.asarray(values["joint torques"], float), turn)
        self._share += min(1.0, dt / WEIGHT_S) * (float(forces.mean()) - self._share)
        loaded = forces > max(LOADED * self._share, LEAST)
        self._loaded_s = np.where(loaded, self._loaded_s + dt, 0.0)
        self.standing = self._loaded_s > STANDING_S

    def _forces_of_torques(self, torques: NDArray[np.float64], turn: NDArray[np.float64]) -> NDArray[np.float64]:
        """[4] N upwards on the feet that the joints' torques hold, inertia and the legs' weight left out."""
        out = np.zeros(len(LEGS))
        jacobian = np.zeros((3, self._model.nv))
        for i, (joints, foot) in enumerate(zip(self._legs, self._feet, strict=True)):
            mujoco.mj_jacGeom(self._model, self._data, jacobian, None, foot)
            leg = jacobian[:, self._v[joints]]
            if abs(np.linalg.det(leg)) > 1e-5:  # a stretched leg carries any load
                out[i] = -turn[2] @ np.linalg.solve(leg.T, torques[joints])
        return out
