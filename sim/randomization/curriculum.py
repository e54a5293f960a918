"""Widths of randomization, by the success of recent episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError

GOOD = 0.8
BAD = 0.5
"""Success rates above which distributions widen, and below which they narrow."""
STEP = 0.2
"""Share of the full width by which they do: drone-hover's preset has 12 turns of episodes, of which 6 come before success."""


class Curriculum(Buffers):
    """The share of the distributions' width that is drawn: from nominal values alone to all of it, by turns of some episodes.

    After each `window` episodes the share grows where more than GOOD of them were a success, and shrinks below BAD.

    Args:
        window: episodes; at least as many as worlds, so that all of them have a say.

    Attributes:
        on: whether it is in use; otherwise all of the width is drawn.
        share: [1] of 0 to 1.
        episodes, successes: [1] of the running window.
    """

    share: Tensor
    episodes: Tensor
    successes: Tensor

    def __init__(self, window: int) -> None:
        super().__init__()
        self.on = False
        self.window = window
        self.buffer("share", 1).fill_(1.0)
        self.buffer("episodes", 1)
        self.buffer("successes", 1)

    def begin(self) -> None:
        """Use it, beginning with nominal values."""
        self.on = True
        self.share.zero_()

    def learn(self, episode: Mapping[str, Any]) -> None:
        """Take the ``info["episode"]`` of a step; episodes that are `cut` do not count.

        Raises:
            RookeryError: the task does not measure success.
        """
        if not self.on:
            return
        if "success" not in episode["metrics"]:
            raise RookeryError(
                "the curriculum of randomization follows the metric 'success', which this task does not have: leave it out."
            )
        success = episode["metrics"]["success"][~episode["cut"]]
        self.episodes += len(success)
        self.successes += success.sum()
        if self.episodes >= self.window:
            rate = self.successes / self.episodes
            change = STEP * (rate > GOOD).float() - STEP * (rate < BAD).float()
            self.share.add_(change).clamp_(0.0, 1.0)
            self.episodes.zero_()
            self.successes.zero_()
