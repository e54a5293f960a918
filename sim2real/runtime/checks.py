"""The contract against the vehicle, before anything moves: what does not fit is refused by its line."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rookery.sim.errors import RookeryError
from rookery.sim.terms import Quantity, Sensor
from rookery.sim2real.contract import ContractGroup
from rookery.sim2real.links.link import Identity
from rookery.sim2real.runtime.controller import Controller
from rookery.sim2real.runtime.reading import Array
from rookery.sim2real.runtime.settings import family_of


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
    if spec.actuation is not None and family != "multirotor":
        names = tuple(joint.name for joint in spec.actuation.joints)
        if set(names) - set(identity.joints):
            missing = ", ".join(sorted(set(names) - set(identity.joints)))
            raise refuse(f"{line}.actuation.joints", f"also {missing}", ", ".join(identity.joints))
        for q in controller.wanted:
            if q.name in ("joint angles", "joint velocities") and q.size != len(names):
                raise refuse(f"{line}.observation", f"{q.size} {q.name}", f"{len(names)} that the policy moves")
    for q in controller.wanted:
        if q.name in identity.quantities or q.name in commands:
            if q.name in commands and commands[q.name].shape != (q.size,):
                raise RookeryError(
                    f"the command {q.name!r} has {q.size} values ({q.unit}), got {commands[q.name].size}."
                )
            continue
        if q.name == "target":  # where it takes off to, unless the operator says another one
            continue
        raise refuse(*_lacking(q, spec, line), ", ".join(identity.quantities))
    for name in commands:
        if name not in {q.name for q in controller.wanted}:
            wanted = ", ".join(repr(q.name) for q in controller.wanted if q.name not in identity.quantities)
            raise RookeryError(f"the policy takes no command {name!r}; it takes {wanted or 'none'}.")


def _lacking(q: Quantity, spec: ContractGroup, line: str) -> tuple[str, str]:
    """The line of the contract for which a quantity that nobody gives is wanted, and what it wants."""
    if q in [event.expression for event in spec.events]:
        return f"{line}.events", f"to be told of {q.name!r} ({q.doc})"
    how = (
        "which a sensor sees"
        if isinstance(q, Sensor)
        else f'a measured quantity or a command (--command "{q.name}=...")'
    )
    return f"{line}.observation", f"{q.name!r}, {how}"


def estimated(controller: Controller, identity: Identity) -> list[str]:
    """The estimator's name, with a word of each quantity that it adds; then a sentence for each quantity that the policy
    observes and the robot does not measure: how good its estimate is, and what noise the training had."""
    out = []
    if identity.estimator:
        added = "; ".join(f"{name} {good}" for name, good in identity.estimated.items())
        out.append(f"the estimator is {identity.estimator}, which adds {added or 'nothing'}")
    for name, good in identity.estimated.items():
        terms = [t for t in controller.spec.spec.observation if name in {q.name for q in t.expression.leaves()}]
        if terms:
            noise = ", ".join(f"{t.noise:g} {t.unit} in {t.name}" for t in terms)
            out.append(f"{name} is estimated, {good}; the policy was trained with a noise of {noise}")
    return out


COMMANDED = "commanded "
"""Beginning of the names of commands that say how to move, whose 0 means: stay."""


def complete(controller: Controller, commands: dict[str, Array]) -> None:
    """Write the operator's short names of commands out, in place, and set commanded motions that are not given to 0.

    "velocity" stands for "commanded velocity forward, ...": the beginning of a name, with "commanded" or without.
    """
    names = [q.name for q in controller.wanted]
    for short in [name for name in commands if name not in names]:
        meant = [n for n in names if n.startswith((short, COMMANDED + short))]
        if short and len(meant) == 1 and meant[0] not in commands:
            commands[meant[0]] = commands.pop(short)
    for q in controller.wanted:
        if q.name.startswith(COMMANDED):
            commands.setdefault(q.name, np.zeros(q.size, np.float32))
