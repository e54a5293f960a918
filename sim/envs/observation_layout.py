"""The row of int64 that describes a group to the kernels of observations."""

from __future__ import annotations

from enum import IntEnum


class ObservationLayout(IntEnum):
    """Columns of a group's description."""

    WORLDS = 0  # N
    AGENTS = 1  # A
    FRAME = 2  # F
    HISTORY = 3  # H
    ROWS = 4  # of the delay line
    DELAYED = 5  # whether a term has a delay of its own
    NOISY_PAIRS = 6  # how many of a world's pairs of normals reach a component with noise
    # addresses of state
    NOISE = 7  # [N] factors on noise
    BIAS = 8  # [N] factors on bias
    OFFSET = 9  # [N, A F] bias of the episode, 0 where its factor is
    EXTRA = 10  # [N] int64 delay beside the terms' own, physics steps
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
    JITTER = 27  # [N] int64 physics steps, the most that is added to the delay
    AGE = 28  # [N] int64 of the newest frame that has arrived, physics steps
    DROPOUT = 29  # [N] how likely it is that nothing arrives
    HELD = 30  # [N, A F] what arrived last
    # constants of these
    DRIFTS = 31  # whether a term drifts
    WALKS_WITH = 32  # [A F] int64 the component whose walk is added to this one
    ARRIVES = 33  # [A F] int64 0 for components that never leave the policy's computer: they are neither late nor lost
    PHYSICS_STEPS = 34  # K
    REST = 35  # [N] int64 physics steps of this step's age that are less than a control step
