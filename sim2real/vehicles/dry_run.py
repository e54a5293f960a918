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
    controller: Controller, clock: TimeSource, make: Callable[..., Any], held: bool = False
) -> SimulatedDrone | SimulatedJoints | SimulatedArm:
    """A link to a new vehicle of the family that the contract is for.

    Args:
        controller: the policy.
        clock: of the runtime.
        make: `rookery.make`, of the worlds of simulated vehicles.
        held: whether a jointed robot hangs by its trunk, clear of the ground.

    Raises:
        RookeryError: no simulated vehicle can be flown at the policy's rate, or takes its commands.
    """
    spec = controller.spec
    family = family_of(spec)
    if family == "arm":
        check_arm(spec)  # refuses before a world is made
    elif family != "multirotor":
        JointTargets(spec)  # likewise
    elif abs(controller.control_dt - DRONE_DT) > 1e-9:
        raise RookeryError(
            f"--dry-run flies policies of {1 / DRONE_DT:g} Hz, and this one has {1 / controller.control_dt:g} Hz."
        )
    task, config = world_of(controller.contract, spec)
    env = make(task, num_envs=1, config=config)
    if family == "arm":
        return SimulatedArm(ArmVehicle(env), clock, spec)
    if family == "multirotor":
        return SimulatedDrone(DroneVehicle(env, timeout_s=TIMEOUT_S), clock)
    return SimulatedJoints(JointVehicle(env, timeout_s=TIMEOUT_S, held=held), clock, spec)


def world_of(contract: Contract, group: ContractGroup) -> tuple[str, dict[str, Any]]:
    """Name and config of a task whose world has the robot that a contract is for."""
    given = contract.task_config
    family = family_of(group)
    if family == "arm":
        return contract.task_id, dict(given)
    if family == "multirotor":
        return "drone-hover", {k: given[k] for k in ("drone",) if k in given}
    robot = {k: v for k, v in given.items() if k == "robot" or k.startswith("terrain")}
    return "go2-velocity", robot | {"dt": DRIVE_DT, "control_dt": contract.control_dt}
