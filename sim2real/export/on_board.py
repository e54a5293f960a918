"""Checks of exports that run a policy on a flight controller."""

from __future__ import annotations

from collections.abc import Container

from rookery.sim.errors import RookeryError
from rookery.sim2real.export.exporter import Export
from rookery.sim2real.export.functions import Functions
from rookery.sim2real.export.state_c import StateC


def only_group(export: Export, flier: str) -> str:
    """The agent group of a policy for a flight controller.

    Raises:
        RookeryError: there are several.
    """
    if len(export.contract.groups) != 1:
        raise RookeryError(f"{flier} flies by the policy of one group: train one policy for all drones.")
    return next(iter(export.contract.groups))


def check_on_board(export: Export, group: str, host: str, given: Container[str], task: str, most_stack: int) -> StateC:
    """The C of a group, of which a flight controller measures all and has room for a control step.

    Args:
        export: of one group.
        group: its name.
        host: the program on board, for messages.
        given: names of the quantities that it gives.
        task: what calls the policy there, for messages.
        most_stack: bytes of its stack that a control step may take.

    Raises:
        RookeryError: a quantity is not given, or the network is too large.
    """
    prefix = export.c_prefix(group)
    state = StateC(export.contract, group, prefix)
    unknown = next((q.name for q in state.members.values() if q.name not in given), None)
    if unknown is not None:
        raise RookeryError(
            f"{host} does not give the quantity {unknown!r}: --target c has the code from state to command for a program of "
            "your own."
        )
    stack = state.stack(Functions(export.contract.groups[group], prefix).stack)
    if stack > most_stack:
        raise RookeryError(
            f"a control step takes about {stack} bytes of stack, and {task} has room for {most_stack}: train a smaller "
            "network, such as --hidden 64 64."
        )
    return state
