"""Strain of motors over an episode, by closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from rookery.tasks.strain import STRAIN_METRICS, Strain


def test_a_sine_of_torque_and_speed():
    """Torque a sin, speed b sin: rms a / sqrt 2, power a b / 2; opposed ones brake, and give nothing back."""
    limits = torch.tensor([10.0, 40.0])
    strain = Strain(2, limits)
    steps = 1000
    for i in range(steps):
        s = math.sin(2 * math.pi * (i + 0.5) / 100)
        torque = torch.tensor([[6.0 * s, 8.0 * s]] * 2)
        speed = torch.tensor([[2.0 * s, 0.0], [-2.0 * s, 0.0]])
        strain.add(torque, 1.5 * torque.abs(), speed, torch.tensor([i % 4 == 0, 0]), torch.tensor([0, i % 10 == 0]))
    got = strain.metrics(torch.full((2,), steps))
    assert set(got) == set(STRAIN_METRICS)
    assert got["torque_rms_share"].tolist() == pytest.approx([6 / math.sqrt(2) / 10] * 2, rel=1e-3)
    assert got["torque_peak_share"].tolist() == pytest.approx([1.5 * 6 / 10] * 2, rel=1e-2)
    assert got["power"].tolist() == pytest.approx([6.0, 0.0], rel=1e-3)
    assert got["undesired_contact"].tolist() == pytest.approx([0.25, 0.0])
    assert got["self_collision"].tolist() == pytest.approx([0.0, 0.1])


def test_a_new_episode_begins_at_nothing():
    strain = Strain(2, torch.ones(3))
    ones = torch.ones(2, 3)
    strain.add(ones, ones, ones, torch.ones(2), torch.ones(2))
    strain.reset(torch.tensor([1]))
    got = strain.metrics(torch.ones(2))
    assert all(float(value[0]) > 0 and float(value[1]) == 0 for value in got.values())
