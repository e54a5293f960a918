"""Blocks of a log by which uncertainties are found: of one owner and one stretch of time each."""

from __future__ import annotations

import numpy as np
import pytest

from rookery.sim2real.sysid.problem import BLOCKS, make_blocks


@pytest.mark.parametrize("owners", [[0], [0, 0, 0], [3, 3, 7], [2, 0, 1, 0, 5]])
@pytest.mark.parametrize("stretches", [(97,), (160, 3, 41), (5,)])
def test_a_block_has_one_owner_and_a_piece_of_the_time(owners, stretches):
    total, count = sum(stretches), len(set(owners))
    blocks = make_blocks(np.array(owners), stretches).reshape(total, len(owners))
    pieces = min(total, -(-BLOCKS // count))  # as many as fit, rounded up
    assert len(np.unique(blocks)) == count * pieces
    for block in np.unique(blocks):
        at, channels = np.nonzero(blocks == block)
        mine = {owners[c] for c in channels}
        assert len(mine) == 1
        of_owner = [c for c, owner in enumerate(owners) if owner in mine]
        times = np.unique(at)
        assert (np.diff(times) == 1).all(), "a piece without gaps"
        assert len(at) == len(times) * len(of_owner), "of all of its owner's channels"
        assert abs(len(times) - total / pieces) < 1.0, "as long as the others"
