"""A convolutional encoder in C (see export/stages.py): pictures of the normalised observation to features, without malloc."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rookery.policies.nn.pictures import EncoderSpec

Array = NDArray[np.float32]


def tables(spec: EncoderSpec, arrays: Mapping[str, Array]) -> list[tuple[str, Array]]:
    """Weights and biases by the names that they have in C."""
    return [
        (f"encoder_{kind}_{k}_{i}", arrays[f"encoder.convolutions.{k}.{i}.{kind}"])
        for k in range(len(spec.pictures))
        for i in range(len(spec.channels))
        for kind in ("weight", "bias")
    ]


def shapes(spec: EncoderSpec, inputs: int) -> dict[str, tuple[int, ...]]:
    """Shapes of the weights of an encoder with so many inputs, by their names in the policy."""
    out: dict[str, tuple[int, ...]] = {}
    for k, picture in enumerate(spec.pictures):
        for i, layer in enumerate(spec.layers(picture, spec.frames(inputs))):
            out[f"encoder.convolutions.{k}.{i}.weight"] = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
            out[f"encoder.convolutions.{k}.{i}.bias"] = (layer.outputs,)
    return out


def scratch(spec: EncoderSpec, inputs: int) -> tuple[int, int]:
    """Lengths of the two arrays that hold pictures, and outputs of all convolutions but the last, by turns."""
    lengths = [0, 0]
    for picture in spec.pictures:
        frames = spec.frames(inputs)
        sizes = [frames * picture.size, *(layer.size for layer in spec.layers(picture, frames)[:-1])]
        for i, size in enumerate(sizes):
            lengths[i % 2] = max(lengths[i % 2], size)
    return lengths[0], lengths[1]


def function(spec: EncoderSpec, inputs: int) -> str:
    """C of ``encode``, from whole frames to numbers and features."""
    frames = spec.frames(inputs)
    outputs = spec.outputs(inputs)
    lengths = scratch(spec, inputs)
    body = [f"    float {name}[{length}];" for name, length in zip("xy", lengths, strict=True) if length]
    body.append("")
    at = 0
    for k in range(frames):
        for a, b in spec.numbers:
            body.append(f"    copy(&in[{k * spec.frame + a}], &out[{at}], {b - a});")
            at += b - a
    for k, p in enumerate(spec.pictures):
        pixels = p.rows * p.columns
        body.append(f"    unpack(&in[{p.start}], x, {frames}, {spec.frame}, {pixels}, {p.channels});")
        layers = spec.layers(p, frames)
        for i, n in enumerate(layers):
            here = "xy"[i % 2]
            there = f"&out[{at}]" if i == len(layers) - 1 else "xy"[(i + 1) % 2]
            sizes = f"{n.inputs}, {n.rows}, {n.columns}, {n.outputs}, {n.kernel}, {n.stride}"
            body.append(f"    convolve(encoder_weight_{k}_{i}, encoder_bias_{k}_{i}, {here}, {there}, {sizes});")
            body.append(f"    activate({there}, {n.size});")
        at += layers[-1].size
    steps = "\n".join(body)
    helpers = (_COPY if spec.numbers else "") + "\n" + _HELPERS
    return f"{helpers}\nstatic void encode(const float in[{inputs}], float out[{outputs}])\n{{\n{steps}\n}}"


_COPY = """
static void copy(const float in[], float out[], int n)
{
    int i;

    for (i = 0; i < n; i++) {
        out[i] = in[i];
    }
}"""

# Partial sums of each row of the kernel keep rounding chains short.
_HELPERS = """
/* A picture of each frame, the channels of a pixel side by side, to all channels one after the other. */
static void unpack(const float in[], float out[], int frames, int frame, int pixels, int channels)
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
static void convolve(const float weight[], const float bias[], const float in[], float out[], int inputs, int rows,
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
}
"""
