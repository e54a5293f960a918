"""A GRU over the frames of an observation with history, as a user's own module for the policy's network."""

from __future__ import annotations

from torch import Tensor, nn

FRAMES = 3


class Gru(nn.Module):
    """Rows [R, FRAMES * F] to [R, outputs]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs // FRAMES, 16, batch_first=True)
        self.head = nn.Linear(16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.gru(x.unflatten(-1, (FRAMES, -1)))
        return self.head(states[:, -1])


def gru(inputs: int, outputs: int) -> nn.Module:
    return Gru(inputs, outputs)


def no_module(inputs: int, outputs: int) -> list[int]:
    return [inputs, outputs]
