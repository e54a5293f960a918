"""Logs too slow to tell inertia from dry friction are told apart from those that are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rookery.sim2real.sysid.jointed.slowness import accelerations, slow_note
from tests.sim2real.sysid.simulated import Motion, Truth, log_of


@pytest.mark.slow
def test_the_same_legs_are_told_where_they_move_slowly() -> None:
    rng = np.random.default_rng(0)
    truth = Truth(armature=tuple(rng.uniform(0.005, 0.02, 3)), friction=tuple(rng.uniform(0.1, 0.8, 3)))
    found = (np.array(truth.armature), np.array(truth.friction))
    assert slow_note(log_of(truth, Motion(3.0, 0)), "damping", *found) is None
    slow = log_of(truth, Motion(6.0, 0, frequencies=(0.1, 0.2, 0.3)))
    said = slow_note(slow, "damping", *found)
    assert said is not None and "damping may be wrong" in said
    stuck = found[0] * accelerations(slow) < 0.04 * found[1]
    assert stuck.any() and [name in said for name in slow.joints] == stuck.tolist()
    assert slow_note(slow, "damping", found[0], 0.0 * found[1]) is None  # nothing to confuse inertia with


def test_accelerations_are_those_of_a_sine_and_gaps_are_left_out() -> None:
    log = log_of(Truth(), Motion(0.5, 0))
    time = np.arange(0.0, 20.0, 0.002)
    wave = np.repeat(np.sin(time)[:, None], len(log.joints), axis=1)
    sine = dataclasses.replace(log, time=time, position=wave)
    np.testing.assert_allclose(accelerations(sine), np.sqrt(np.mean(np.sin(time[50:-50]) ** 2)), rtol=2e-3)
    kept = (time < 8.0) | (time > 9.0)
    gap = dataclasses.replace(log, time=time[kept], position=wave[kept])
    np.testing.assert_allclose(accelerations(gap), accelerations(sine), rtol=0.1)
