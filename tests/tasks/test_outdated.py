"""Which worlds are observed anew, in the orders in which the environment calls a task."""

from __future__ import annotations

import torch

from rookery.tasks.outdated import OutdatedWorlds

ALL = [0, 1, 2, 3]
SOME = torch.tensor([1, 3])


def test_only_worlds_that_began_anew_are_observed_twice_in_a_step():
    o = OutdatedWorlds(4)
    assert o.take().tolist() == ALL
    o.begin(SOME)
    assert o.take().tolist() == [1, 3]
    assert o.take().tolist() == ALL
    o.begin(SOME)
    o.move()
    assert o.take().tolist() == ALL  # the others have moved since they were observed


def test_nothing_is_left_out_after_several_resets():
    o = OutdatedWorlds(4)
    o.take()
    o.begin(SOME)
    o.begin(torch.tensor([0]))
    assert o.take().tolist() == ALL
    o.move()
    o.begin(SOME)
    assert o.take().tolist() == ALL
