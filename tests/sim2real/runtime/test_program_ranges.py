"""The operator's own ranges of commands: the C++ program takes, refuses and flies them as `rookery fly --controls` does."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.controls import read_controls
from rookery.sim2real.runtime.pilot import commanded
from rookery.sim2real.runtime.steering import CommandSteering, Ranges
from tests.sim2real.runtime.programs import NativeWalk
from tests.sim2real.runtime.test_program import begin_alike, steps
from tests.sim2real.runtime.test_steering import VELOCITY, stub
from tests.sim2real.runtime.walks import Walk

WIDE = "[ranges]\nvelocity = [[-1.0, -1.0, -1], [1.5, 1.0, 1]]\n"
CASES = {
    "wide": WIDE,
    "narrow": "[ranges]\nvelocity = [[-0.3, -0.2, -0.5], [0.3, 0.2, 0.5]]\n",
    "several lines and other tables": (
        "dead_zone = 0.2\n[buttons]\nstop = 3  # [ranges]\n[ranges]  # of commands\n"
        '"commanded velocity" = [  # least\n  [-1.0, -1e0, -1,],\n  [1.5, 1.0, 1.0],\n]\n[axes]\n'
        "forward = { axis = 1, reversed = true }\n"
    ),
    "twice": WIDE + "velocity = [[0, 0, 0], [1, 1, 1]]\n",
    "the first that fits counts": WIDE + '"velocity forward" = [[0, 0, 0], [0.1, 0.1, 0.1]]\n',
    "of two values": "[ranges]\nvelocity = [[-1, -1], [1, 1]]\n",
    "the wrong way round": "[ranges]\nvelocity = [[1.5, 1, 1], [-1, -1, -1]]\n",
    "without an end": "[ranges]\nvelocity = [[-1, -1, -1], [inf, 1, 1]]\n",
    "no such command": WIDE + "height = [[0], [1]]\n",
    "no pair": "[ranges]\nvelocity = [-1, 1]\n",
    "open": "[ranges]\nvelocity = [[-1, -1, -1], [1, 1, 1]\n",
    "none": "",
}
ASKED = (0.5, -0.6, 0.0)  # m/s, m/s, rad/s; the training knew 0.4 to the side
QUICK = ("wide", "no such command")


def in_python(file: Path) -> bool:
    """Whether `rookery fly` takes the file and the command."""
    try:
        CommandSteering([stub("go2-velocity", {VELOCITY: ASKED})], read_controls(file).ranges).learn()
    except RookeryError:
        return False
    return True


def native(bundle: Path, file: Path) -> NativeWalk:
    """A walk of the program with a file of controls."""

    class Asked(NativeWalk):
        words = ("--command", "velocity=" + ",".join(map(str, ASKED)), "--controls", str(file))

    return Asked(bundle, seed=3)


@pytest.mark.parametrize("case", slow_but(QUICK, CASES))
def test_the_program_takes_and_refuses_what_fly_does(walk_program: Path, tmp_path: Path, case: str) -> None:
    file = tmp_path / "controls.toml"
    file.write_text(CASES[case])
    with closing(native(walk_program, file)) as walk:
        if in_python(file):
            walk.pilot.check()
            return
        with pytest.raises(AssertionError):
            walk.pilot.check()
        assert walk.pilot.process.wait(10) == 2
        (said,) = walk.pilot.said.splitlines()  # one sentence, and nothing moved
        assert said.endswith(".") and "range" in said
        assert not walk.vehicle.stiff


def test_fly_takes_some_and_refuses_others(tmp_path: Path) -> None:
    """So that the test above compares answers of both kinds."""
    verdicts = {}
    for case, text in CASES.items():
        (tmp_path / "controls.toml").write_text(text)
        verdicts[case] = in_python(tmp_path / "controls.toml")
    taken = {"wide", "several lines and other tables", "the first that fits counts"}
    assert {case for case, fits in verdicts.items() if fits} == taken


class AskedWalk(Walk):
    """A walk of the runtime in Python with the command, and with ranges that the operator gives."""

    def __init__(self, bundle: Path, ranges: Ranges, **options: Any) -> None:
        super().__init__(bundle, **options)
        self.pilot = self.pilot_of(math.inf, commands=commanded({"velocity": ASKED}))
        check = self.pilot.check
        steering = CommandSteering([self.pilot], ranges)
        self.pilot.check = lambda: (check(), steering.learn())  # as `fly` does


@pytest.mark.slow
def test_both_walk_alike_beyond_the_training(walk_program: Path, tmp_path: Path) -> None:
    """Neither holds within the contract what the operator's range allows."""
    file = tmp_path / "controls.toml"
    file.write_text(WIDE)
    with (
        closing(AskedWalk(walk_program, read_controls(file).ranges, seed=3)) as ours,
        closing(native(walk_program, file)) as theirs,
    ):
        begin_alike(ours, theirs)
        told_to: list[Any] = []
        step = ours.pilot.controller.step
        ours.pilot.controller.step = lambda values: (told_to.append(values[VELOCITY].copy()), step(values))[1]
        try:
            for (phase, command), (other, theirs_command) in zip(steps(ours, 400), steps(theirs, 400), strict=True):
                assert phase is other
                if command is not None:
                    np.testing.assert_allclose(theirs_command, command, atol=1e-5)
        finally:
            ours.pilot.controller.step = step
        assert len(told_to) > 100
        np.testing.assert_array_equal(told_to, np.tile(np.float32(ASKED), (len(told_to), 1)))
        assert not any("is held within" in text for text in ours.said)
        assert "is held within" not in theirs.pilot.said
