"""Draws of all randomized parameters of the worlds that begin an episode, compiled."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from rookery.sim.random_kernels import at_place, kernel, next_episode


@kernel
def draw(key, counter, ids, places, low, span, startup, drawn, values, rows, new):
    """The worlds `ids` [n] begin an episode and get new values.

    Args:
        key, counter: [N] of the random streams.
        ids: worlds.
        places: [P] number of each parameter's draw within an episode.
        low, span: [P] float32, of each parameter's range.
        startup: [P] whether a parameter is drawn at the first episode only.
        drawn: [N] whether a world has had its first episode; set.
        values: [N, P] float32, written where drawn.
        rows: [P, n] float32, the drawn values; of startup parameters those of the new worlds, which come first.
        new: [n] int64, the new worlds.

    Returns:
        how many worlds are new.
    """
    count = 0
    for r in range(len(ids)):
        i = ids[r]
        counter[i] = next_episode(counter[i])
        for p in range(len(places)):
            if startup[p] and drawn[i]:
                continue
            value = low[p] + span[p] * at_place(key[i], counter[i], places[p])
            values[i, p] = value
            rows[p, count if startup[p] else r] = value
        if not drawn[i]:
            new[count] = i
            count += 1
            drawn[i] = True
    return count
