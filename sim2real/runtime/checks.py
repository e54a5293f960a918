"""The contract against the vehicle, before anything moves: what does not fit is refused by its line."""

from __future__ import annotations

from collections.abc import Mapping

from rookery.sim.errors import RookeryError
from rookery.sim2real.links.link import Identity
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.runtime.settings import family_of

DRY_RUN_DT = 0.01  # s, control step of the simulated drones


def check_vehicle(controller: Controller, identity: Identity, url: str, commands: Mapping[str, Array]) -> None:
    """Refuse a vehicle that the contract does not fit.

    Args:
        controller: the policy.
        identity: what the vehicle told.
        url: of the link, for the message.
        commands: what the operator gives.

    Raises:
        RookeryError: naming the contract's line.
    """
    line = f"groups.{controller.group}"
    spec = controller.spec

    def refuse(where: str, wants: str, has: str) -> RookeryError:
        return RookeryError(f"{url} does not fit the contract's {where}: it wants {wants}, and the vehicle has {has}.")

    family = family_of(spec)
    if identity.family != family:
        raise refuse(f"{line}.actuation", f"a robot of the family {family}", f"one of the family {identity.family}")
    kind = spec.spec.action.kind
    if kind not in identity.kinds:
        raise refuse(f"{line}.action.kind", kind, ", ".join(identity.kinds) or "none")
    rate = 1.0 / controller.control_dt
    if rate > identity.rate * (1 + 1e-6):
        raise refuse("control_dt", f"commands at {rate:g} Hz", f"at most {identity.rate:g} Hz")
    if spec.actuation is not None and family == "joints":
        names = tuple(joint.name for joint in spec.actuation.joints)
        if set(names) - set(identity.joints):
            missing = ", ".join(sorted(set(names) - set(identity.joints)))
            raise refuse(f"{line}.actuation.joints", f"also {missing}", ", ".join(identity.joints))
    for q in controller.wanted:
        if q.name in identity.quantities or q.name in commands:
            if q.name in commands and commands[q.name].shape != (q.size,):
                raise RookeryError(
                    f"the command {q.name!r} has {q.size} values ({q.unit}), got {commands[q.name].size}."
                )
            continue
        if q.name == "target":  # where it takes off to, unless the operator says another one
            continue
        raise refuse(
            f"{line}.observation", f"{q.name!r}, a measured quantity or a command (--command \"{q.name}=...\")",
            ", ".join(identity.quantities),
        )  # fmt: skip
    for name in commands:
        if name not in {q.name for q in controller.wanted}:
            wanted = ", ".join(repr(q.name) for q in controller.wanted if q.name not in identity.quantities)
            raise RookeryError(f"the policy takes no command {name!r}; it takes {wanted or 'none'}.")


def check_simulated(controller: Controller) -> None:
    """Refuse a policy that no simulated vehicle of this process can fly.

    Raises:
        RookeryError: it is for jointed robots, or of another rate.
    """
    if family_of(controller.spec) != "multirotor":
        raise RookeryError("--dry-run has no vehicle for jointed robots yet: serve one with `rookery vehicle`.")
    if abs(controller.control_dt - DRY_RUN_DT) > 1e-9:
        raise RookeryError(
            f"--dry-run flies policies of {1 / DRY_RUN_DT:g} Hz, and this one has {1 / controller.control_dt:g} Hz."
        )
