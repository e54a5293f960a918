"""The row of int64 that describes an observation pipeline to its kernels: sizes, and addresses of buffers and of constants.

A row, since a NamedTuple of the 27 arrays costs a step of drone-hover with 512 worlds 13 us of 270; what the addresses point to
is compared with `SHAPES` when they are written. Constants have one number for each of the A F components of a world, agent by
agent.
"""

from __future__ import annotations

from enum import IntEnum


class Layout(IntEnum):
    """Columns of a group's description."""

    WORLDS = 0  # N
    AGENTS = 1  # A
    FRAME = 2  # F
    HISTORY = 3  # H
    ROWS = 4  # of the delay line
    DELAYED = 5  # 1 where a term has a delay of its own
    NOISY_PAIRS = 6  # how many of a world's pairs of normals reach a component with noise
    # addresses of state
    NOISE = 7  # [N] factors on noise
    BIAS = 8  # [N] factors on bias
    OFFSET = 9  # [N, A F] bias of the episode, 0 where its factor is
    EXTRA = 10  # [N] int64 delay beside the terms' own, control steps
    PAST = 11  # [ROWS, N, A F] the delay line, a ring
    FRAMES = 12  # [N, H, A F] the history, a ring
    PUSHED = 13  # [1] int64 number of pushes, from which the rings go on
    KEYS = 14  # [N] int64 of the random streams
    COUNTERS = 15
    # addresses of constants
    STARTS = 16  # [terms] int64, of each term in a frame
    SIZES = 17  # [terms] int64
    SCALE = 18  # [A F]
    CLIP = 19
    SIGMA = 20  # declared noise
    HALF_WIDTH = 21  # declared bias
    OWN = 22  # int64 delay of the term, control steps
    PAIRS = 23  # [NOISY_PAIRS] int64
    DRIFT = 24  # declared drift of a control step
    # addresses of state, of pipelines with noise alone
    DRIFTING = 25  # [N] factors on drift; 0 for a pipeline that has none of what follows
    WALK = 26  # [N, A F] of the episode
    JITTER = 27  # [N] int64 control steps, the most that is added to the delay
    AGE = 28  # [N] int64 of the newest frame that has arrived, control steps
    DROPOUT = 29  # [N] how likely it is that nothing arrives
    HELD = 30  # [N, A F] what arrived last
    # constants of these
    DRIFTS = 31  # 1 where a term drifts
    WALKS_WITH = 32  # [A F] int64 the component whose walk is added to this one
    ARRIVES = 33  # [A F] int64 0 for components that never leave the policy's computer: they are neither late nor lost


SHAPES = {
    "float32": {
        "N": (Layout.NOISE, Layout.BIAS, Layout.DRIFTING, Layout.DROPOUT),
        "N S": (Layout.OFFSET, Layout.WALK, Layout.HELD),
        "R N S": (Layout.PAST,),
        "N H S": (Layout.FRAMES,),
        "S": (Layout.SCALE, Layout.CLIP, Layout.SIGMA, Layout.HALF_WIDTH, Layout.DRIFT),
    },
    "int64": {
        "N": (Layout.EXTRA, Layout.JITTER, Layout.AGE, Layout.KEYS, Layout.COUNTERS),
        "1": (Layout.PUSHED,),
        "T": (Layout.STARTS, Layout.SIZES),
        "S": (Layout.OWN, Layout.WALKS_WITH, Layout.ARRIVES),
        "P": (Layout.PAIRS,),
    },
}
"""What the addresses point to; S is A F, R the rows of the delay line, T the terms, P the noisy pairs."""
