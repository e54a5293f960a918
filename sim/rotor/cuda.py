"""The compiled step of the `rotor` engine on an NVIDIA GPU: the functions of the CPU, with a thread for each world.

Nothing of the physics is written twice. `twin` takes the Python source of a function that is compiled for the CPU, and of
all that it calls, and has it compiled as a CUDA device function. Only what `_INSTEAD` names is another there: above all
`layout.TOGETHER`, the number of lanes that a thread works on. Numbers are float64 as on the CPU; results differ from it by
rounding, because the compilers contract and order operations differently.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of the kernel from the arrays that it is given; annotations would say less.
from __future__ import annotations

from types import FunctionType
from typing import Any

import torch
from numba import cuda
from numba.core.dispatcher import Dispatcher

from rookery.sim.rotor.layout import LANES
from rookery.sim.rotor.step import fly

THREADS = 64
"""Of a CUDA block: few, since each needs many registers."""


def _larger(a, b):
    return b if b > a else a


def _smaller(a, b):
    return b if b < a else a


def _copy(to, first, row, fields):
    for f in range(fields):
        to[(first + f) * LANES] = row[f * LANES]


_device = cuda.jit(device=True)

# What stands in for the globals of these names. `max` and `min` are as Python and the CPU's code have them: CUDA's own give
# the other number where one is NaN, and would hide a diverged world.
_INSTEAD = {"max": _device(_larger), "min": _device(_smaller), "copy": _device(_copy), "TOGETHER": 1}


def twin(function: Dispatcher, made: dict[Dispatcher, Any]) -> Any:
    """A function compiled for the CPU as a CUDA device function that works on one lane.

    Args:
        function: it finds the functions that it calls among the globals of its module.
        made: twins that there are; new ones are added.
    """
    if function not in made:
        source = function.py_func
        names = ("__name__", *source.__code__.co_names)
        scope = {name: source.__globals__[name] for name in names if name in source.__globals__}
        for name, value in scope.items():
            if isinstance(value, Dispatcher) and name not in _INSTEAD:
                scope[name] = twin(value, made)
        scope |= {name: _INSTEAD[name] for name in names if name in _INSTEAD}
        made[function] = _device(FunctionType(source.__code__, scope, source.__name__))
    return made[function]


_fly = twin(fly, {})


def fly_lane(
    steps, dt, drones, wake, sag, gusty, bodies, varied, worlds, types, levels, rows, commands, memory, gust, filters, keys,
    counters, fixed, carried, first, reach, own, allowed, lookup, impulse, when, limit, before, hot,
):  # fmt: skip
    """What one CUDA thread does: `steps` physics steps of one world. Arrays are those of `step.advance`, and its scratch memory
    with one more dimension for the blocks: limit [blocks, A, LANES] ones, before [blocks, bodies, 10 * LANES],
    hot [blocks, LANES] int64."""
    n = cuda.grid(1)  # type: ignore[call-arg, var-annotated]
    block, i = n // LANES, n % LANES
    if block < bodies.shape[0]:  # rows that begin at lane i: what `fly` takes for the first lane is this thread's
        _fly(
            block, block + 1, i, steps, dt, bodies[:, :, i:], varied[:, :, i:], worlds[:, i:], types, drones,
            (levels, rows, commands[:, :, :, i:], memory[:, :, i:]),
            (wake, sag, gusty, gust, filters, keys, counters),
            (fixed, carried, first, reach, own, allowed, lookup, impulse, when),
            limit[block, :, i:], before[block, :, i:], hot[block, i:],
        )  # fmt: skip


_kernel = cuda.jit(fly_lane)


def launch(blocks: int, numbers: tuple[int | float, ...], arrays: list[Any]) -> None:
    """Run `fly_lane` for all lanes of so many blocks, on torch's present stream.

    Args:
        numbers, arrays: its arguments, in order.
    """
    handle = torch.cuda.current_stream().cuda_stream if torch.cuda.is_available() else 0
    stream = cuda.external_stream(handle) if handle else 0
    _kernel[-(-blocks * LANES // THREADS), THREADS, stream](*numbers, *arrays)
