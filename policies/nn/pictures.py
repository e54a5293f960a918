"""Which parts of an observation are pictures, and what sizes a convolutional encoder makes of them. It needs no torch.

    frames of the network's input --+--> numbers that are no pictures ----------------------------+--> memory, hidden layers
                                    +--> each camera's picture --> its convolutions --> features --+

Every camera has convolutions of its own, since a wrist does not see what a wall sees. The frames of a history are channels of
one picture, the oldest first, so that the first convolution sees what moves (Mnih et al. 2013, arXiv 1312.5602, section 4.1).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rookery.sim.errors import RookeryError

__all__ = ["Convolution", "EncoderSpec", "Picture", "pictures_of"]


@dataclass(frozen=True)
class Picture:
    """One camera's picture in a frame of the observation.

    Args:
        start: place of its first value in the frame.
        rows, columns, channels: its sizes; values stand row by row, the channels of a pixel side by side.
    """

    start: int
    rows: int
    columns: int
    channels: int

    @property
    def size(self) -> int:
        """Number of values."""
        return self.rows * self.columns * self.channels


class Convolution(NamedTuple):
    """Sizes of one convolution, whose kernel is a square and which pads nothing.

    Args:
        inputs, outputs: channels.
        rows, columns: of its input.
        kernel, stride: in values of its input.
    """

    inputs: int
    outputs: int
    rows: int
    columns: int
    kernel: int
    stride: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of its output."""
        down = (self.rows - self.kernel) // self.stride + 1
        across = (self.columns - self.kernel) // self.stride + 1
        return self.outputs, down, across

    @property
    def size(self) -> int:
        """Number of values of its output."""
        channels, down, across = self.shape
        return channels * down * across


@dataclass(frozen=True)
class EncoderSpec:
    """What a convolutional encoder is built from, as contracts name it.

    Args:
        frame: F, components of one frame of the observation.
        pictures: what of a frame goes through convolutions, each its own.
        channels, kernels, strides: of the convolutions, from the first to the last.

    Raises:
        RookeryError: no picture, no convolution, lists of different length, or a picture that is smaller than a kernel.
    """

    frame: int
    pictures: tuple[Picture, ...]
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]

    def __post_init__(self) -> None:
        lists = (self.channels, self.kernels, self.strides)
        if len({len(x) for x in lists}) != 1 or min((n for x in lists for n in x), default=0) < 1:
            raise RookeryError(
                "an encoder has as many channels as kernels and strides, all of at least 1, and this one "
                f"{list(self.channels)}, {list(self.kernels)} and {list(self.strides)}."
            )
        if not self.pictures:
            raise RookeryError("an encoder needs a picture among the observations, and there is none.")
        for picture in self.pictures:
            for i, layer in enumerate(self.layers(picture, 1)):
                if min(layer.rows, layer.columns) < layer.kernel:
                    raise RookeryError(
                        f"a picture of {picture.rows} rows and {picture.columns} columns is too small for the encoder: "
                        f"convolution {i + 1} gets {layer.rows} x {layer.columns} values, and its kernel is {layer.kernel} x "
                        f"{layer.kernel}. Give larger pictures, or smaller kernels or strides."
                    )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> EncoderSpec:
        """From what `to_json` gives."""
        lists = {name: tuple(values[name]) for name in ("channels", "kernels", "strides")}
        return cls(values["frame"], tuple(Picture(**p) for p in values["pictures"]), **lists)

    def to_json(self) -> dict[str, Any]:
        """As it stands in a contract."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def frames(self, inputs: int, before: int = 0) -> int:
        """Frames in a network's input of that size, before which so many other numbers stand."""
        return (inputs - before) // self.frame

    def layers(self, picture: Picture, frames: int) -> list[Convolution]:
        """The convolutions that a picture goes through."""
        out = []
        shape = (frames * picture.channels, picture.rows, picture.columns)
        for outputs, kernel, stride in zip(self.channels, self.kernels, self.strides, strict=True):
            layer = Convolution(shape[0], outputs, shape[1], shape[2], kernel, stride)
            out.append(layer)
            shape = layer.shape
        return out

    @property
    def features(self) -> int:
        """Outputs of the last convolutions of all pictures."""
        return sum(self.layers(picture, 1)[-1].size for picture in self.pictures)

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """Where the numbers of a frame stand that are no pictures: first and one after the last, in order."""
        ends = [0, *(p.start + p.size for p in self.pictures)]
        starts = [*(p.start for p in self.pictures), self.frame]
        return [(a, b) for a, b in zip(ends, starts, strict=True) if a < b]

    def outputs(self, inputs: int, before: int = 0) -> int:
        """What is left of a network's input of that size: numbers, then features."""
        numbers = sum(b - a for a, b in self.numbers)
        return before + self.frames(inputs, before) * numbers + self.features

    def parameter_count(self, inputs: int, before: int = 0) -> int:
        """Number of weights and biases."""
        frames = self.frames(inputs, before)
        layers = [layer for picture in self.pictures for layer in self.layers(picture, frames)]
        return sum(x.outputs * (x.inputs * x.kernel**2 + 1) for x in layers)

    def kept(self, inputs: int) -> list[int]:
        """Places of the numbers in a network's input, in the order in which they come out."""
        frames = range(self.frames(inputs))
        return [k * self.frame + i for k in frames for a, b in self.numbers for i in range(a, b)]

    def pools(self, inputs: int) -> list[int]:
        """For each component of an observation a number, which the pixels of one channel of a picture have in common, in all
        frames: they are normalised by one mean and one standard deviation, so that a picture keeps its contours and a pixel
        that hardly changes is not blown up."""
        pool = list(range(self.frame))
        for p in self.pictures:
            pool[p.start : p.start + p.size] = [p.start + i % p.channels for i in range(p.size)]
        whole = [*range(inputs)]
        pictured = {i for p in self.pictures for i in range(p.start, p.start + p.size)}
        return [pool[i % self.frame] if i % self.frame in pictured else i for i in whole]


def pictures_of(terms: Iterable[tuple[int, Sequence[int]]]) -> list[Picture]:
    """The pictures of terms that follow each other, given their sizes and shapes (see `rookery.sim.specs.Term`)."""
    out = []
    start = 0
    for size, shape in terms:
        if shape:
            cameras, rows, columns, channels = shape
            each = rows * columns * channels
            out += [Picture(start + k * each, rows, columns, channels) for k in range(cameras)]
        start += size
    return out
