"""Actions of choices and numbers drawn in one pass; compiled. In torch it is `Choices.log_probs` and `Choices.sample`."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types of these functions from what they are given; annotations would say less.
from __future__ import annotations

import numpy as np

from rookery.sim.random_kernels import kernel

__all__ = ["draw"]


@kernel
def draw(outputs, allowed, gumbel, noise, std, sizes, log_probs, action):
    """Draw options, and numbers around their means.

    Args:
        outputs: [R, C + D_c] logits of the options of all choices, and means of the numbers.
        allowed: [R, C] bool; [0, C] for all. Where a choice has none, all of its options are open.
        gumbel: [R, C] standard Gumbel noise.
        noise: [R, D_c] standard normal.
        std: [G, D_c], of row r that of r modulo G.
        sizes: [K] options of each choice.
        log_probs: [R, C], gets their log-probabilities, minus infinity of what is not open.
        action: [R, K + D_c], gets indices and numbers.
    """
    count, numbers = noise.shape
    choices = len(sizes)
    options = outputs.shape[1] - numbers
    for r in range(count):
        first = 0
        for k in range(choices):
            last = first + sizes[k]
            some = False
            if len(allowed):
                for i in range(first, last):
                    some |= allowed[r, i]
            top = -np.float32(np.inf)
            for i in range(first, last):
                if (not some or allowed[r, i]) and not outputs[r, i] <= top:
                    top = outputs[r, i]
            total = np.float32(0.0)
            for i in range(first, last):
                if not some or allowed[r, i]:
                    total += np.exp(outputs[r, i] - top)
            total = np.log(total)
            best = first
            most = -np.float32(np.inf)
            for i in range(first, last):
                x = (outputs[r, i] - top) - total  # not top + total, which is rounded where logits are large
                log_probs[r, i] = x if not some or allowed[r, i] else -np.float32(np.inf)
                x = log_probs[r, i] + gumbel[r, i]
                if x > most:
                    best = i
                    most = x
            action[r, k] = best - first
            first = last
        spread = std[r % len(std)]
        for j in range(numbers):
            action[r, choices + j] = outputs[r, options + j] + spread[j] * noise[r, j]
