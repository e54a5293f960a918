"""State that is saved and put back: exactly, and wholly or not at all."""

from __future__ import annotations

import pytest
import torch

from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError


def family() -> Buffers:
    parent = Buffers()
    parent.buffer("first", 3)
    child = Buffers()
    child.buffer("second", 2, 2, dtype=torch.int64)
    parent.child("child", child)
    return parent


def filled() -> dict[str, torch.Tensor]:
    return {"first": torch.tensor([1.0, 2.0, 3.0]), "child.second": torch.tensor([[1, 2], [3, 4]])}


def test_round_trip():
    parent = family()
    parent.load_state_dict(filled())
    assert {name: value.tolist() for name, value in parent.state_dict().items()} == {
        "first": [1.0, 2.0, 3.0],
        "child.second": [[1, 2], [3, 4]],
    }


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("first", torch.ones(1), r"saved 'first' is \(1,\) torch.float32, needed \(3,\)"),  # would broadcast
        ("child.second", torch.ones(1, 2, dtype=torch.int64), r"saved 'second' is \(1, 2\)"),
        ("child.second", torch.ones(2, 2), "torch.float32, needed .* torch.int64"),
        ("child.second", None, "lacks 'second'"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(name, value, sentence):
    parent = family()
    state = filled()
    if value is None:
        del state[name]
    else:
        state[name] = value
    with pytest.raises(ValueError, match=sentence):
        parent.load_state_dict(state)
    assert all((value == 0).all() for value in parent.state_dict().values())


def test_another_tensor_in_the_place_of_a_saved_one_is_refused():
    parent = family()
    with pytest.raises(RookeryError, match=r"Buffers.first is part of the state that is saved.*self\.first\.copy_"):
        parent.first = torch.ones(3)
    with pytest.raises(RookeryError, match="part of the state"):
        parent.first = parent.first + 1.0
    parent.first += 1.0
    parent.first[:] = parent.first * 2.0
    parent.second = torch.ones(2)  # the child's
    assert parent.state_dict()["first"].tolist() == [2.0, 2.0, 2.0]
