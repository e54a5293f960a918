"""From a task's raw terms to what agents observe, compiled: one call for all terms of a group.

A group is described by a row of int64 (`ObservationLayout`): sizes, and addresses of buffers and of constants. Columns of
constants have one number for each of the A F components of a world, agent by agent.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import numpy as np

from rookery.sim.envs.observation_layout import ObservationLayout
from rookery.sim.pointers import ADDRESS, STRIDES, copy, floats, integers, load, matrix
from rookery.sim.random_kernels import compiled, inlined, kernel, normal_pair, normals_of, uniform01, word

PAIRS_AT_ONCE = 512
COMPONENTS_AT_ONCE = 4096
"""Worlds are handled some at a time: enough normals for vector code, few enough components for the cache."""


L = ObservationLayout
_ZERO = np.float32(0.0)


@inlined
def _follows(rows, t, u, size):
    """True where the components of term u lie next to the `size` ones from term t on, in one tensor."""
    same = rows[u, ADDRESS] == rows[t, ADDRESS] + 4 * size and rows[t, STRIDES + 2] == 1
    for k in range(3):
        same &= rows[u, STRIDES + k] == rows[t, STRIDES + k]
    return same


@compiled
def _gather(at, rows, ids, x):
    """Raw terms of the worlds `ids` [n] into x [n, A F]; those that are parts of one tensor are copied together."""
    starts = integers(at[L.STARTS], len(rows))
    sizes = integers(at[L.SIZES], len(rows))
    agents, frame = at[L.AGENTS], at[L.FRAME]
    u = 0
    while u < len(rows):
        t = u
        first, size = starts[t], sizes[t]
        u += 1
        while u < len(rows) and _follows(rows, t, u, size):
            size += sizes[u]
            u += 1
        address, s0, s1, s2 = rows[t, ADDRESS], rows[t, STRIDES], rows[t, STRIDES + 1], rows[t, STRIDES + 2]
        for r in range(len(ids)):
            for a in range(agents):
                source = ids[r] * s0 + a * s1
                target = a * frame + first
                if s2 == 1:
                    side_by_side = floats(address + 4 * source, size)
                    for d in range(size):
                        x[r, target + d] = side_by_side[d]
                else:
                    for d in range(size):
                        x[r, target + d] = load(address, source + d * s2)


@compiled
def _scale(at, x):
    n, size = x.shape
    scale = floats(at[L.SCALE], size)
    clip = floats(at[L.CLIP], size)
    for r in range(n):
        for j in range(size):
            v = x[r, j] * scale[j]
            v = clip[j] if v > clip[j] else v
            x[r, j] = -clip[j] if v < -clip[j] else v


@compiled
def _add_noise(at, ids, x):
    """Noise on x [n, A F], a block of worlds, each by its factor and from its own stream."""
    n, size = x.shape
    pairs = (size + 1) // 2
    m = at[L.NOISY_PAIRS]
    noise = floats(at[L.NOISE], at[L.WORLDS])
    keys = integers(at[L.KEYS], at[L.WORLDS])
    counters = integers(at[L.COUNTERS], at[L.WORLDS])
    sigma = floats(at[L.SIGMA], size)
    noisy = integers(at[L.PAIRS], m)
    drawing = 0
    for r in range(n):
        drawing += noise[ids[r]] > _ZERO
    if drawing == 0:
        return
    words = np.empty(n * m, np.uint64)
    cosines = np.empty(n * m, np.float32)
    sines = np.empty(n * m, np.float32)
    for r in range(n):
        i = ids[r]
        for k in range(m):
            words[r * m + k] = word(keys[i], counters[i] + noisy[k] + 1)
        if noise[i] > _ZERO:
            counters[i] += pairs
    normals_of(words, cosines, sines, n * m)
    for r in range(n):
        factor = noise[ids[r]]
        if factor > _ZERO and m == pairs:  # the same, for vector code
            for k in range(pairs):
                x[r, k] += cosines[r * m + k] * (factor * sigma[k])
            for k in range(size - pairs):
                x[r, pairs + k] += sines[r * m + k] * (factor * sigma[pairs + k])
        elif factor > _ZERO:
            for k in range(m):
                j = noisy[k]
                x[r, j] += cosines[r * m + k] * (factor * sigma[j])
                if j + pairs < size:
                    x[r, j + pairs] += sines[r * m + k] * (factor * sigma[j + pairs])


@compiled
def _add_bias(at, ids, begins, x):
    """The offsets of the episodes on x [n, A F], drawn anew where they begin."""
    n, size = x.shape
    factors = floats(at[L.BIAS], at[L.WORLDS])
    offset = floats(at[L.OFFSET], at[L.WORLDS] * size)
    keys = integers(at[L.KEYS], at[L.WORLDS])
    counters = integers(at[L.COUNTERS], at[L.WORLDS])
    width = floats(at[L.HALF_WIDTH], size)
    biased = 0
    for r in range(n):
        i = ids[r]
        factor = factors[i]
        biased += factor > _ZERO
        if begins and factor > _ZERO:
            for j in range(size):
                u = uniform01(keys[i], counters[i] + j + 1) * np.float32(2.0) - np.float32(1.0)
                offset[i * size + j] = u * factor * width[j]
            counters[i] += size
        elif begins:
            offset[i * size : (i + 1) * size] = _ZERO
    if biased == 0:
        return
    if begins:
        for r in range(n):
            for j in range(size):
                x[r, j] += offset[ids[r] * size + j]
        return
    flat = x.reshape(n * size)  # worlds side by side
    first = ids[0] * size
    for k in range(n * size):
        flat[k] += offset[first + k]


@compiled
def _add_drift(at, ids, begins, x):
    """The random walks on x [n, A F], one step further, or from 0 where episodes begin."""
    n, size = x.shape
    factors = floats(at[L.DRIFTING], at[L.WORLDS])
    walk = floats(at[L.WALK], at[L.WORLDS] * size)
    keys = integers(at[L.KEYS], at[L.WORLDS])
    counters = integers(at[L.COUNTERS], at[L.WORLDS])
    drift = floats(at[L.DRIFT], size)
    walks_with = integers(at[L.WALKS_WITH], size)
    for r in range(n):
        i = ids[r]
        factor = factors[i]
        if factor > _ZERO:
            own = walk[i * size : (i + 1) * size]
            for j in range(size):
                if begins:
                    own[j] = _ZERO
                elif drift[j] > _ZERO:
                    counters[i] += 1
                    c, _ = normal_pair(word(keys[i], counters[i]))
                    own[j] += factor * drift[j] * c
            for j in range(size):
                x[r, j] += own[walks_with[j]]


@compiled
def _late_now(at, ids, begins, late):
    """Delays [n] of this step, whole control steps, and what is left of them to `REST`: those of the worlds and a random part,
    at most a control step more than the step before, since what has arrived once is not forgotten."""
    steps = at[L.PHYSICS_STEPS]
    rest = integers(at[L.REST], at[L.WORLDS])
    extra = integers(at[L.EXTRA], at[L.WORLDS])
    jitter = integers(at[L.JITTER], at[L.WORLDS])
    age = integers(at[L.AGE], at[L.WORLDS])
    keys = integers(at[L.KEYS], at[L.WORLDS])
    counters = integers(at[L.COUNTERS], at[L.WORLDS])
    for r in range(len(ids)):
        i = ids[r]
        now = extra[i]
        if jitter[i] > 0:
            counters[i] += 1
            now += np.int64(uniform01(keys[i], counters[i]) * np.float32(jitter[i] + 1))
            if not begins:
                now = min(now, age[i] + steps)
            age[i] = now
        late[r] = now // steps if now >= steps else 0  # a division takes longer than all the rest
        rest[i] = now - late[r] * steps


@inlined
def _take(arrives, x, source, first):
    """Put what comes from `source`, from its index `first` on, into x [A F]; components of the policy's computer stay."""
    for j in range(len(x)):
        if arrives[j] != 0:
            x[j] = source[first + j]


@compiled
def _drop(at, ids, begins, x):
    """Keep what arrived last in the place of x [n, A F] where nothing arrives."""
    n, size = x.shape
    lost = floats(at[L.DROPOUT], at[L.WORLDS])
    held = floats(at[L.HELD], at[L.WORLDS] * size)
    keys = integers(at[L.KEYS], at[L.WORLDS])
    counters = integers(at[L.COUNTERS], at[L.WORLDS])
    arrives = integers(at[L.ARRIVES], size)
    for r in range(n):
        i = ids[r]
        if lost[i] > _ZERO:
            counters[i] += not begins
            if not begins and uniform01(keys[i], counters[i]) < lost[i]:
                _take(arrives, x[r], held, i * size)
            else:
                copy(held, i * size, x[r], 0, size)


@compiled
def _delay(at, ids, begins, x):
    """Put x [n, A F] into the delay lines of the worlds `ids` and take out what arrives now."""
    n, size = x.shape
    worlds, rows, delayed = at[L.WORLDS], at[L.ROWS], at[L.DELAYED]
    late = np.empty(n, np.int64)
    _late_now(at, ids, begins, late)
    jitter = integers(at[L.JITTER], worlds)
    # a world has a delay line or not, whatever the others beside it have: the state is the same in any division into shards
    needs = np.empty(n, np.bool_)
    needing = 0
    for r in range(n):
        needs[r] = delayed | late[r] | jitter[ids[r]] != 0
        needing += needs[r]
    if needing == 0:
        return
    past = floats(at[L.PAST], rows * worlds * size)
    head = integers(at[L.PUSHED], 1)[0] % rows
    if begins:  # nothing older exists
        for r in range(n):
            for k in range(rows if needs[r] else 0):
                copy(past, (k * worlds + ids[r]) * size, x[r], 0, size)
        return
    if needing == n:
        flat = x.reshape(n * size)  # worlds side by side
        first = (head * worlds + ids[0]) * size
        for k in range(n * size):
            past[first + k] = flat[k]
    else:
        for r in range(n):
            if needs[r]:
                copy(past, (head * worlds + ids[r]) * size, x[r], 0, size)
    if delayed:
        _delay_each(at, ids, late, x)
        return
    arrives = integers(at[L.ARRIVES], size)
    for r in range(n):
        if late[r] > 0:
            row = head - late[r] if head >= late[r] else head - late[r] + rows
            _take(arrives, x[r], past, (row * worlds + ids[r]) * size)


@compiled
def _delay_each(at, ids, late, x):
    """Take from the delay lines of the worlds `ids` what arrives now, where terms have delays of their own."""
    n, size = x.shape
    worlds, rows = at[L.WORLDS], at[L.ROWS]
    past = floats(at[L.PAST], rows * worlds * size)
    own = integers(at[L.OWN], size)
    arrives = integers(at[L.ARRIVES], size)
    head = integers(at[L.PUSHED], 1)[0] % rows
    for r in range(n):
        for j in range(size):
            if arrives[j] != 0:
                row = head - late[r] - own[j]
                x[r, j] = past[((row if row >= 0 else row + rows) * worlds + ids[r]) * size + j]


@compiled
def _frames(at, ids, begins, x, out):
    """Put x [n, A F] into the histories of the worlds `ids` and write all of these, the newest frame last, to their rows of
    out [N A H F]."""
    n, size = x.shape
    agents, f, h = at[L.AGENTS], at[L.FRAME], at[L.HISTORY]
    frames = floats(at[L.FRAMES], at[L.WORLDS] * h * size)
    head = integers(at[L.PUSHED], 1)[0] % h
    for r in range(n):
        ring = ids[r] * h * size
        for k in range(h):
            if begins or k == head:
                for j in range(size):
                    frames[ring + k * size + j] = x[r, j]
        for a in range(agents):
            for k in range(h):
                source = ring + (head + 1 + k) % h * size + a * f
                target = ring + (a * h + k) * f
                for j in range(f):
                    out[target + j] = frames[source + j]


@kernel
def observe(at, rows, ids, begins, address):
    """Observations of the worlds `ids` [n] into their rows of the float32 [N, A, H F] at `address`.

    Args:
        at: the group's description, see ObservationLayout.
        rows: see TensorTable, one for each term.
        ids: worlds, int64; all of them, in order, unless `begins`.
        begins: whether these are the first observations of episodes.
    """
    size = at[L.AGENTS] * at[L.FRAME]
    out = floats(address, at[L.WORLDS] * at[L.HISTORY] * size)
    if not begins:
        integers(at[L.PUSHED], 1)[0] += 1
    step = max(1, min(PAIRS_AT_ONCE // (at[L.NOISY_PAIRS] + 1), COMPONENTS_AT_ONCE // size))
    block = np.empty((min(step, len(ids)), size), np.float32)
    rows_out = matrix(address, at[L.WORLDS], size)
    for first in range(0, len(ids), step):
        some = ids[first : first + step]
        in_place = at[L.HISTORY] == 1 and not begins
        x = rows_out[some[0] : some[0] + len(some)] if in_place else block[: len(some)]
        _gather(at, rows, some, x)
        if at[L.OFFSET] != 0:  # sets that are free of it have no memory for it
            _add_bias(at, some, begins, x)
        if at[L.DRIFTS] != 0:
            _add_drift(at, some, begins, x)
        _add_noise(at, some, x)
        _scale(at, x)
        if at[L.DRIFTING] != 0:
            _delay(at, some, begins, x)
            _drop(at, some, begins, x)
        if at[L.HISTORY] > 1:
            _frames(at, some, begins, x, out)
        elif not in_place:
            for r in range(len(some)):
                for j in range(size):
                    out[some[r] * size + j] = x[r, j]


@kernel
def assemble(at, rows, ids, address, stride):
    """Scaled and clipped terms of the worlds `ids` [n], without noise, bias, delay and history: float32 [A F] of world i at
    `address`, i * stride numbers on."""
    size = at[L.AGENTS] * at[L.FRAME]
    out = floats(address, at[L.WORLDS] * stride)
    block = np.empty((min(64, len(ids)), size), np.float32)
    for first in range(0, len(ids), 64):
        some = ids[first : first + 64]
        x = block[: len(some)]
        _gather(at, rows, some, x)
        _scale(at, x)
        for r in range(len(some)):
            for j in range(size):
                out[some[r] * stride + j] = x[r, j]
