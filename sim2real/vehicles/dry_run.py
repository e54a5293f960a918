"""Simulated vehicles for a bundle, in this process: what `rookery fly --dry-run` flies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract, ContractGroup
from rookery.sim2real.links.arm_drive import check_arm
from rookery.sim2real.links.joints import JointTargets
from rookery.sim2real.links.simulated import SimulatedDrone, SimulatedJoints
from rookery.sim2real.links.simulated_arm import SimulatedArm
from rookery.sim2real.runtime.clock import TimeSource
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.settings import family_of
from rookery.sim2real.vehicles.arm import PERIOD_S, ArmVehicle
from rookery.sim2real.vehicles.drone import DroneVehicle
from rookery.sim2real.vehicles.joints import DRIVE_DT, JointVehicle

TIMEOUT_S = 0.06  # s without a set-point after which a vehicle's own fail-safe begins
DRONE_DT = 0.01  # s, control step of the simulated drones


def period_of(contract: Contract, group: ContractGroup) -> float:
    """s, of `advance` of the simulated vehicle for a group."""
    return PERIOD_S if family_of(group) == "arm" else contract.control_dt


def simulated(
    controller: Controller, clock: TimeSource, make: Callable[..., Any]
) -> SimulatedDrone | SimulatedJoints | SimulatedArm:
    """A link to a new vehicle of the family that the contract is for.

    Args:
        controller: the policy.
        clock: of the runtime.
        make: `rookery.make`, of the worlds of simulated vehicles.

    Raises:
        RookeryError: no simulated vehicle can be flown at the policy's rate, or takes its commands.
    """
    given = controller.contract.task_config
    if family_of(controller.spec) == "arm":
        check_arm(controller.spec)  # refuses before a world is made
        env = make(controller.contract.task_id, num_envs=1, config=dict(given))
        return SimulatedArm(ArmVehicle(env), clock, controller.spec)
    if family_of(controller.spec) != "multirotor":
        JointTargets(controller.spec)  # refuses before a world is made
        config: dict[str, Any] = {k: given[k] for k in ("robot",) if k in given}
        config |= {"dt": DRIVE_DT, "control_dt": controller.control_dt}
        env = make("go2-velocity", num_envs=1, config=config)
        return SimulatedJoints(JointVehicle(env, timeout_s=TIMEOUT_S), clock, controller.spec)
    if abs(controller.control_dt - DRONE_DT) > 1e-9:
        raise RookeryError(
            f"--dry-run flies policies of {1 / DRONE_DT:g} Hz, and this one has {1 / controller.control_dt:g} Hz."
        )
    config = {k: given[k] for k in ("drone",) if k in given}
    env = make("drone-hover", num_envs=1, config=config)
    return SimulatedDrone(DroneVehicle(env, timeout_s=TIMEOUT_S), clock)
