"""Random numbers inside compiled code: the streams of rookery.sim.random, word by word.

The functions are for other kernels to call and are inlined there. Word `counter` (1, 2, ...) of a stream is
``mix(key + counter * GAMMA)``; see `rookery.sim.random` for what keys and counters are.

Normals come from Box and Muller's transform (Annals of Mathematical Statistics 29, 1958) in float32, without branches or
table look-ups, so that loops over them become vector code. The polynomials for logarithm, sine and cosine are those of
Cephes' logf.c, sinf.c and cosf.c (S. Moshier, netlib.org/cephes/single.tgz), accurate to 1e-7. There is no fastmath: the same
bits come out in vector code and in a loop's scalar remainder.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import config, njit, types
from numba.extending import intrinsic

kernel = njit(cache=True, nogil=True, error_model="numpy")
"""For functions that Python calls."""
_INSIDE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inlined = njit(forceinline=True, **_INSIDE)
"""For small functions that kernels call."""
compiled = njit(**_INSIDE)
"""For larger ones, which the compiler need not look at anew in each kernel."""

_intrinsic: Any = intrinsic  # its stubs count the typing context as an argument of the call

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_M1 = np.uint64(0xBF58476D1CE4E5B9)
_M2 = np.uint64(0x94D049BB133111EB)
_S27 = np.uint64(27)
_S30 = np.uint64(30)
_S31 = np.uint64(31)
_S32 = np.uint64(32)
_S40 = np.uint64(40)
_LAST_DRAW = np.int64((1 << 32) - 1)

_f = np.float32
_i = np.int32
_UNIT24 = _f(2.0**-24)
_UNIT32 = _f(2.0**-32)
_ONE = _f(1.0)
_HALF = _f(0.5)
_MINUS_2 = _f(-2.0)


@_intrinsic
def _compiled_bits_of(context, x):
    """int32 with the bits of a float32."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int32))

    return types.int32(types.float32), code


@_intrinsic
def _compiled_from_bits(context, x):
    """float32 of the bits of an int32."""

    def code(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), code


def _plain_bits_of(x):
    return np.float32(x).view(np.int32)


def _plain_from_bits(x):
    return np.int32(x).view(np.float32)


_config: Any = config  # its stubs do not list what it reads from the environment
_interpreted = bool(_config.DISABLE_JIT)  # intrinsics are for compiled code alone
_bits_of: Any = _plain_bits_of if _interpreted else _compiled_bits_of
_from_bits: Any = _plain_from_bits if _interpreted else _compiled_from_bits


@inlined
def mix(z):
    """SplitMix64's output function on a uint64."""
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    return z ^ (z >> _S31)


@inlined
def word(key, counter):
    """uint64: word `counter` (1, 2, ...) of the stream of a key; both int64 or uint64."""
    return mix(np.uint64(key) + np.uint64(counter) * GAMMA)


@inlined
def unit(bits):
    """float32 in [0, 1) from the top 24 bits of a word, which float32 holds exactly."""
    return _f(_i(bits >> _S40)) * _UNIT24


@inlined
def uniform01(key, counter):
    """float32 in [0, 1): word `counter` of a stream."""
    return unit(word(key, counter))


@inlined
def next_episode(counter):
    """A world's counter at the first draw of its next episode."""
    return (counter | _LAST_DRAW) + 1


@inlined
def log(x):
    """Natural logarithm of a positive normal float32."""
    bits = _bits_of(x)
    exponent = (bits - _i(0x3F3504F3)) >> _i(23)  # of x / sqrt(1/2): the rest is in [sqrt(1/2), sqrt(2))
    m = _from_bits(_i(bits - (exponent << _i(23)))) - _ONE
    e = _f(exponent)
    z = m * m
    y = _f(7.0376836292e-2)
    y = y * m + _f(-1.1514610310e-1)
    y = y * m + _f(1.1676998740e-1)
    y = y * m + _f(-1.2420140846e-1)
    y = y * m + _f(1.4249322787e-1)
    y = y * m + _f(-1.6668057665e-1)
    y = y * m + _f(2.0000714765e-1)
    y = y * m + _f(-2.4999993993e-1)
    y = y * m + _f(3.3333331174e-1)
    y = y * m * z + e * _f(-2.12194440e-4) - _HALF * z
    return m + y + e * _f(0.693359375)


@inlined
def turn(bits):
    """(cosine, sine) of the angle that is bits / 2**32 of a full turn; bits a uint32."""
    quarter = _i((bits + np.uint32(1 << 29)) >> np.uint32(30)) & _i(3)
    rest = _i(bits - (np.uint32(quarter) << np.uint32(30)))  # within an eighth of a turn, signed
    x = _f(rest) * _f(0.5 * np.pi * 2.0**-30)
    z = x * x
    sine = ((_f(-1.9515295891e-4) * z + _f(8.3321608736e-3)) * z + _f(-1.6666654611e-1)) * z * x + x
    cosine = (_f(2.443315711809948e-5) * z + _f(-1.388731625493765e-3)) * z + _f(4.166664568298827e-2)
    cosine = cosine * z * z - _HALF * z + _ONE
    odd = (quarter & _i(1)) != _i(0)
    c = sine if odd else cosine
    s = cosine if odd else sine
    c = -c if ((quarter + _i(1)) & _i(2)) != _i(0) else c
    s = -s if (quarter & _i(2)) != _i(0) else s
    return c, s


@inlined
def normal_pair(bits):
    """Two independent standard normals, float32, from a word: the cosine's and the sine's.

    The top 32 bits are the radius, the low ones the angle; the first are kept away from 0 for the logarithm.
    """
    high = (_f(np.uint32(bits >> _S32)) + _ONE) * _UNIT32
    radius = np.sqrt(_MINUS_2 * log(high))
    c, s = turn(np.uint32(bits))
    return radius * c, radius * s


@inlined
def _check(ids, n):
    for i in ids:
        if i < 0 or i >= n:
            raise IndexError("random numbers were asked for a world that does not exist")


@kernel
def begin_episode(counter, ids):
    _check(ids, len(counter))
    for i in ids:
        counter[i] = next_episode(counter[i])


@kernel
def bits(key, counter, ids, out):
    """The next words of the worlds `ids` [n] into out [n, count] int64."""
    _check(ids, len(key))
    count = out.shape[1]
    for r in range(len(ids)):
        i = ids[r]
        for k in range(count):
            out[r, k] = np.int64(word(key[i], counter[i] + k + 1))
        counter[i] += count


@kernel
def uniform(key, counter, ids, low, high, out):
    """Uniform numbers in [low, high) into out [n, count]."""
    _check(ids, len(key))
    count = out.shape[1]
    span = _f(high - low)
    first = _f(low)
    for r in range(len(ids)):
        i = ids[r]
        for k in range(count):
            out[r, k] = uniform01(key[i], counter[i] + k + 1) * span + first
        counter[i] += count


@kernel
def integers(key, counter, ids, low, high, out):
    """Integers in [low, high) into out [n, count] int64."""
    _check(ids, len(key))
    count = out.shape[1]
    span = np.uint64(high - low)
    for r in range(len(ids)):
        i = ids[r]
        for k in range(count):
            w = word(key[i], counter[i] + k + 1)
            out[r, k] = np.int64(((w << np.uint64(1)) >> np.uint64(2)) % span) + low
        counter[i] += count


@inlined
def normals_of(words, cosines, sines, count):
    """Two standard normals from each of the first `count` words."""
    for k in range(count):
        cosines[k], sines[k] = normal_pair(words[k])


@kernel
def normal(key, counter, ids, out):
    """Standard normals into out [n, count]: the cosines of all pairs of a row, then the sines, without an odd last one."""
    _check(ids, len(key))
    n, count = out.shape
    pairs = (count + 1) // 2
    words = np.empty(n * pairs, np.uint64)
    for r in range(n):
        i = ids[r]
        for k in range(pairs):
            words[r * pairs + k] = word(key[i], counter[i] + k + 1)
        counter[i] += pairs
    cosines = np.empty(n * pairs, np.float32)
    sines = np.empty(n * pairs, np.float32)
    normals_of(words, cosines, sines, n * pairs)
    for r in range(n):
        for k in range(pairs):
            out[r, k] = cosines[r * pairs + k]
        for k in range(count - pairs):
            out[r, pairs + k] = sines[r * pairs + k]


@kernel
def to_unit_length(v):
    """Vectors [n, 3] by their length."""
    for r in range(len(v)):
        length = np.sqrt(v[r, 0] * v[r, 0] + v[r, 1] * v[r, 1] + v[r, 2] * v[r, 2])
        length = max(length, _f(1e-12))
        for k in range(3):
            v[r, k] /= length


@inlined
def at_place(key, counter, place):
    """float32 in [0, 1): the number that an episode keeps for a place, wherever in it the counter is."""
    return uniform01(key, (counter & ~_LAST_DRAW) + place)


@kernel
def named(key, counter, ids, places, out):
    """Uniform numbers in [0, 1) into out [n, P]: those of the places [P] in each world's episode."""
    _check(ids, len(key))
    for r in range(len(ids)):
        i = ids[r]
        for p in range(len(places)):
            out[r, p] = at_place(key[i], counter[i], places[p])
