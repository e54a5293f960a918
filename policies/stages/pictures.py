"""Convolutions that make features of the pictures in an observation.

Every camera has convolutions of its own, since a wrist does not see what a wall sees. The frames of a history are channels of
one picture, the oldest first, so that the first convolution sees what moves (Mnih et al. 2013, arXiv 1312.5602, section 4.1).
Numbers that are no pictures go beside, see `beside_numbers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rookery.policies.stages.c_text import function
from rookery.policies.stages.chain import Beside, Link
from rookery.policies.stages.encodes import Encodes
from rookery.policies.stages.perceptron import Activation
from rookery.policies.stages.select import Select
from rookery.policies.stages.stage import Tensors, Weight, check_sizes, fault
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from torch import Tensor

    from rookery.sim.specs import Group

__all__ = ["Convolution", "Convolutions", "Picture", "PictureOptions", "pictures_of"]


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
class PictureOptions:
    """Settings of the convolutions, from the first to the last."""

    channels: tuple[int, ...] = (16, 32)
    kernels: tuple[int, ...] = (8, 4)
    strides: tuple[int, ...] = (4, 2)


@dataclass(frozen=True)
class Convolutions(Encodes):
    """Features of pictures, camera after camera, each channel by channel.

    Args:
        frame: F, numbers of one frame of the observation.
        frames: of a row, the newest last.
        pictures: which parts of a frame are pictures, each with convolutions of its own.
        channels, kernels, strides: of the convolutions, from the first to the last.
        activation: after every convolution.

    Raises:
        RookeryError: no picture, no convolution, lists of different length, or a picture that is smaller than a kernel.
    """

    kind: ClassVar[str] = "pictures"
    formula: ClassVar[str] = (
        "convolutions without padding of every picture, the activation after each: weight_p_k [out, in, kernel, kernel] of "
        "picture p; the frames of a picture are channels, the oldest first; features picture by picture, channel by channel"
    )
    depends: ClassVar[tuple[str, ...]] = ("shape",)
    encoder_name: ClassVar[str] = "cnn"
    needs: ClassVar[str] = "pictures"
    way_out: ClassVar[str] = "give --obs depth, rgb or segmentation where the task has cameras"
    Options: ClassVar[type] = PictureOptions

    frame: int
    frames: int
    pictures: tuple[Picture, ...]
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    activation: Activation = "tanh"

    def __post_init__(self) -> None:
        check_sizes(self.kind, frame=self.frame, frames=self.frames)
        lists = (self.channels, self.kernels, self.strides)
        if len({len(x) for x in lists}) != 1 or min((n for x in lists for n in x), default=0) < 1:
            raise RookeryError(
                "an encoder has as many channels as kernels and strides, all of at least 1, and this one "
                f"{list(self.channels)}, {list(self.kernels)} and {list(self.strides)}."
            )
        if not self.pictures:
            raise RookeryError("an encoder needs a picture among the observations, and there is none.")
        end = 0
        for picture in self.pictures:
            if picture.start < end or min(picture.rows, picture.columns, picture.channels) < 1:
                raise RookeryError("the pictures of an encoder must stand one after the other in a frame.")
            end = picture.start + picture.size
            for i, layer in enumerate(self.layers(picture)):
                if min(layer.rows, layer.columns) < layer.kernel:
                    raise RookeryError(
                        f"a picture of {picture.rows} rows and {picture.columns} columns is too small for the encoder: "
                        f"convolution {i + 1} gets {layer.rows} x {layer.columns} values, and its kernel is {layer.kernel} x "
                        f"{layer.kernel}. Give larger pictures, or smaller kernels or strides."
                    )
        if end > self.frame:
            raise RookeryError(f"the pictures of an encoder end at {end} of a frame of {self.frame} numbers.")

    @property
    def inputs(self) -> int:
        return self.frame * self.frames

    @property
    def outputs(self) -> int:
        return sum(self.layers(picture)[-1].size for picture in self.pictures)

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """Places of the numbers of a frame that are no pictures: first and one after the last, in order."""
        ends = [0, *(p.start + p.size for p in self.pictures)]
        starts = [*(p.start for p in self.pictures), self.frame]
        return [(a, b) for a, b in zip(ends, starts, strict=True) if a < b]

    @property
    def kept(self) -> list[int]:
        """Places in a row of the numbers that are no pictures, frame after frame."""
        return [k * self.frame + i for k in range(self.frames) for a, b in self.numbers for i in range(a, b)]

    @property
    def words(self) -> str:
        pictures = " and ".join(f"{p.rows} x {p.columns} x {p.channels}" for p in self.pictures)
        return f"convolutions of pictures {pictures} to {self.outputs} features, {self.activation}"

    def layers(self, picture: Picture) -> list[Convolution]:
        """The convolutions that a picture goes through."""
        out = []
        shape = (self.frames * picture.channels, picture.rows, picture.columns)
        for outputs, kernel, stride in zip(self.channels, self.kernels, self.strides, strict=True):
            layer = Convolution(shape[0], outputs, shape[1], shape[2], kernel, stride)
            out.append(layer)
            shape = layer.shape
        return out

    def check(self, group: Group, line: str) -> None:
        pictures = tuple(pictures_of((t.size, t.shape) for t in group.observation))
        if (self.frame, self.pictures) != (group.frame_size, pictures):
            shown = f"of a frame of {group.frame_size} and of the pictures {[vars(p) for p in pictures]}"
            raise fault(line, self.to_json(), f"{shown}, as the terms have them")

    def weights(self) -> dict[str, Weight]:
        out = {}
        for p, picture in enumerate(self.pictures):
            for k, n in enumerate(self.layers(picture)):
                out[f"weight_{p}_{k}"] = Weight((n.outputs, n.inputs, n.kernel, n.kernel))
                out[f"bias_{p}_{k}"] = Weight((n.outputs,))
        return out

    def forward(self, weights: Tensors, x: Tensor) -> Tensor:
        import torch
        from torch.nn import functional

        activate = getattr(functional, self.activation)
        frames = x.unflatten(1, (self.frames, self.frame))
        out = []
        for p, picture in enumerate(self.pictures):
            values = frames[:, :, picture.start : picture.start + picture.size]
            y = values.unflatten(2, (picture.rows, picture.columns, picture.channels))
            y = y.permute(0, 1, 4, 2, 3).flatten(1, 2)  # [R, frames * channels, rows, columns]
            for k, stride in enumerate(self.strides):
                y = activate(functional.conv2d(y, weights[f"weight_{p}_{k}"], weights[f"bias_{p}_{k}"], stride))
            out.append(y.flatten(1))
        return torch.cat(out, 1)

    def pools(self) -> list[int]:
        """The pixels of one channel of a picture have one mean and one standard deviation in common, in all frames, so that a
        picture keeps its contours and a pixel that hardly changes is not blown up."""
        pool = list(range(self.inputs))
        for k in range(self.frames):
            for p in self.pictures:
                at = k * self.frame + p.start
                pool[at : at + p.size] = [p.start + i % p.channels for i in range(p.size)]
        return pool

    @property
    def helpers(self) -> tuple[str, ...]:
        return (f"activate_{self.activation}",)

    @property
    def _scratch(self) -> list[int]:
        """Lengths of the two arrays that hold pictures, and outputs of all convolutions but the last, by turns."""
        lengths = [0, 0]
        for picture in self.pictures:
            sizes = [self.frames * picture.size, *(layer.size for layer in self.layers(picture)[:-1])]
            for i, size in enumerate(sizes):
                lengths[i % 2] = max(lengths[i % 2], size)
        return lengths

    @property
    def scratch(self) -> int:
        return sum(self._scratch)

    def code(self, name: str) -> str:
        declared = [f"float {a}[{length}];" for a, length in zip("xy", self._scratch, strict=True) if length]
        steps = []
        at = 0
        for p, picture in enumerate(self.pictures):
            pixels = picture.rows * picture.columns
            places = f"{self.frames}, {self.frame}, {pixels}, {picture.channels}"
            steps.append(f"{name}_unpack(&in[{picture.start}], x, {places});")
            layers = self.layers(picture)
            for i, n in enumerate(layers):
                here = "xy"[i % 2]
                there = f"&out[{at}]" if i == len(layers) - 1 else "xy"[(i + 1) % 2]
                sizes = f"{n.inputs}, {n.rows}, {n.columns}, {n.outputs}, {n.kernel}, {n.stride}"
                steps.append(f"{name}_convolve({name}_weight_{p}_{i}, {name}_bias_{p}_{i}, {here}, {there}, {sizes});")
                steps.append(f"activate_{self.activation}({there}, {n.size});")
            at += layers[-1].size
        head = f"{name}(const float in[{self.inputs}], float out[{self.outputs}])"
        return _FUNCTIONS.replace("@", name) + "\n" + function(head, declared, steps)

    @classmethod
    def encoder(cls, group: Group, frames: int, activation: Activation, options: PictureOptions) -> list[Link]:
        """The numbers of an observation, and beside them the features of its pictures."""
        pictures = tuple(pictures_of((t.size, t.shape) for t in group.observation))
        if not pictures:
            return []
        lists = (options.channels, options.kernels, options.strides)
        return cls(group.frame_size, frames, pictures, *lists, activation).beside_numbers()

    def beside_numbers(self) -> list[Link]:
        """The stage with the numbers that are no pictures before its features, frame after frame."""
        numbers = tuple((k * self.frame + a, k * self.frame + b) for k in range(self.frames) for a, b in self.numbers)
        return [Beside(((Select(self.inputs, numbers),), (self,)))] if numbers else [self]


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


# Partial sums of each row of the kernel keep rounding chains short.
_FUNCTIONS = """
/* A picture of each frame, the channels of a pixel side by side, to all channels one after the other. */
static void @_unpack(const float in[], float out[], int frames, int frame, int pixels, int channels)
{
    int f;
    int c;
    int i;

    for (f = 0; f < frames; f++) {
        for (c = 0; c < channels; c++) {
            for (i = 0; i < pixels; i++) {
                out[(((f * channels) + c) * pixels) + i] = in[(f * frame) + (i * channels) + c];
            }
        }
    }
}

/* out[o][r][c] = bias[o] + the sum over i, a, b of weight[o][i][a][b] * in[i][stride * r + a][stride * c + b]. */
static void @_convolve(const float weight[], const float bias[], const float in[], float out[], int inputs, int rows,
                     int columns, int outputs, int kernel, int stride)
{
    const int down = ((rows - kernel) / stride) + 1;
    const int across = ((columns - kernel) / stride) + 1;
    int o;
    int r;
    int c;
    int i;
    int a;
    int b;

    for (o = 0; o < outputs; o++) {
        for (r = 0; r < down; r++) {
            for (c = 0; c < across; c++) {
                float sum = 0.0f;

                for (i = 0; i < inputs; i++) {
                    for (a = 0; a < kernel; a++) {
                        const float *w = &weight[((((o * inputs) + i) * kernel) + a) * kernel];
                        const float *x = &in[((((i * rows) + (r * stride)) + a) * columns) + (c * stride)];
                        float part = 0.0f;

                        for (b = 0; b < kernel; b++) {
                            part += w[b] * x[b];
                        }
                        sum += part;
                    }
                }
                out[(((o * down) + r) * across) + c] = bias[o] + sum;
            }
        }
    }
}"""
