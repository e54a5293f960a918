"""Tensors as arrays: the same memory, and never another tensor's."""

from __future__ import annotations

import torch

from rookery.sim.arrays import array


def test_an_array_is_the_memory_of_its_tensor():
    tensor = torch.zeros(3)
    array(tensor)[1] = 2.0
    tensor[2] = 5.0
    assert array(tensor).tolist() == tensor.tolist() == [0.0, 2.0, 5.0]
    assert array(tensor) is array(tensor)


def test_tensors_that_come_and_go_are_not_taken_for_each_other():
    """Python gives a freed tensor's id to the next one."""
    ids = set()
    for i in range(1000):
        tensor = torch.full((2,), i)
        assert array(tensor).tolist() == [i, i]
        ids.add(id(tensor))
    assert len(ids) < 1000
