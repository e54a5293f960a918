"""Joint set-points of a contract: from a command to targets, and from the contract's order of joints to a vehicle's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rookery.sim.actuation import Actuation
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.runtime.reading import Array

KINDS = ("leg_position", "joint_position")
"""Action kinds whose commands are angles of joints."""


def no_joints(actuation: Actuation | None) -> RookeryError:
    """The error where a link to joints gets the contract of a robot without any."""
    if actuation is not None and actuation.multirotor is not None:
        return RookeryError(
            "the policy flies a multirotor, and the link is to a robot with joints: take another bundle."
        )
    return RookeryError("the contract does not say what lies between actions and joints: export the policy again.")


class JointTargets:
    """Servo targets that a contract's commands ask for.

    Args:
        group: of the contract.

    Attributes:
        names: of the joints, in the contract's order, which all arrays have.
        home, kp, kd: [J] rad, N m/rad, N m s/rad.

    Raises:
        RookeryError: there is more between command and joints than angles and their limits.
    """

    def __init__(self, group: ContractGroup) -> None:
        actuation, action = group.actuation, group.spec.action
        if actuation is None or not actuation.joints:
            raise no_joints(actuation)
        if action.kind not in KINDS:
            raise RookeryError(
                f"the policy's action kind is {action.kind}, and a link to joints takes angles ({', '.join(KINDS)})."
            )
        joints = actuation.joints
        moved = next((j.name for j in joints if j.target_speed is not None or j.leash is not None), "")
        if moved or actuation.references is not None or set(action.names) != {j.name for j in joints}:
            raise RookeryError(
                "the contract moves targets between control steps (references, target speeds, a gripper), and this link takes "
                "angles that are held."
            )
        self.names = tuple(j.name for j in joints)
        self.home, self.kp, self.kd, self._lower, self._upper = np.array(
            [(j.home, j.kp, j.kd, j.lower, j.upper) for j in joints], np.float32
        ).T
        self._components = [action.names.index(name) for name in self.names]

    def targets(self, command: Array) -> Array:
        """[J] rad, of a policy's command."""
        return np.clip(command[self._components], self._lower, self._upper)


class JointOrder:
    """The contract's joints among a vehicle's.

    Args:
        names: the contract's.
        vehicle: the vehicle's, all of the contract's among them.
    """

    def __init__(self, names: Sequence[str], vehicle: Sequence[str]) -> None:
        self._places: NDArray[np.intp] = np.array([list(vehicle).index(name) for name in names])
        self._count = len(vehicle)

    def to_vehicle(self, values: Array) -> Array:
        """Values in the vehicle's order; 0 for joints that the contract has not."""
        out = np.zeros(self._count, np.float32)
        out[self._places] = values
        return out

    def from_vehicle(self, values: Array) -> Array:
        """Values in the contract's order."""
        return np.asarray(values, np.float32)[self._places]
