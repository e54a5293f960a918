"""A fault at many moments of one flight: each in a fork of this process, so that the flight begins once."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from rookery.sim2real.runtime.pilot import Phase
from tests.sim2real.runtime.test_faults import SAFE_S

PATIENCE_S = 120  # s, that a fork may take on a busy machine


def strike(flight: Any, begin: Callable[[Any], None], name: str, steps: int) -> None:
    """A fault after some control steps of the policy.

    Args:
        flight: that has begun.
        begin: the fault.
        name: of what the filter finds; "" where nothing is left to find it.
        steps: before it.

    Raises:
        AssertionError: there is no safe state within 80 ms, or the filter finds something else.
    """
    flight.run(steps)
    assert flight.pilot.phase is Phase.POLICY, flight.said
    assert not flight.safe, "it was safe before"
    begin(flight)
    seconds = flight.seconds_to_safety()
    assert seconds <= SAFE_S + 1e-9, f"{1e3 * seconds:.0f} ms"
    if name:
        flight.run(8)
        found = flight.pilot.fault
        assert found is not None and found.name == name, (found, flight.said)


def in_a_fork(work: Callable[[], None]) -> str:
    """What went wrong; "" for nothing."""
    there, here = os.pipe()
    child = os.fork()
    if child == 0:
        said = "it ended by itself"
        try:
            signal.alarm(PATIENCE_S)
            work()
            said = ""
        except BaseException:  # whatever it is, this process must not go on as a second run of the tests
            said = traceback.format_exc()
        finally:
            os.write(here, b"done " + said.encode()[-2000:])
            os._exit(0)
    os.close(here)
    with os.fdopen(there, "rb") as stream:
        told = stream.read()
    os.waitpid(child, 0)
    return told[5:].decode("utf-8", "replace") if told.startswith(b"done ") else "the fork was killed"


def strikes(
    fly: Callable[[int], Any], begin: Callable[[Any], None], name: str, times: int, starts: int = 5
) -> list[str]:
    """Faults at random moments of flights that begin with seeds of their own.

    Args:
        fly: makes a flight of a seed.
        begin, name: see `strike`.
        times: faults.
        starts: flights.

    Returns:
        What went wrong.
    """
    wrong = []
    for seed in range(starts):
        with closing(fly(seed)) as flight:
            flight.begin()
            for k in range(times // starts):
                steps = int(np.random.default_rng((seed, k)).integers(1, 40))
                said = in_a_fork(lambda flight=flight, steps=steps: strike(flight, begin, name, steps))  # type: ignore[misc]
                if said:
                    wrong.append(f"seed {seed}, after {steps} steps: {said}")
    return wrong
