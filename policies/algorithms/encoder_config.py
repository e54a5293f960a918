"""The settings of convolutional encoders, for every algorithm that has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.nn.pictures import EncoderSpec, pictures_of
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group


@dataclass(frozen=True)
class EncoderConfig:
    """What pictures go through; the defaults are the convolutions of Mnih et al. 2013 (arXiv 1312.5602, section 4.1), which
    IMPALA's small network has too (Espeholt et al. 2018, arXiv 1802.01561, figure 3)."""

    encoder: Literal["none", "cnn"] = "none"
    """What the pictures in an observation go through before the memory or the hidden layers: nothing, or convolutions of each
    camera's own, with `activation` after each."""
    encoder_channels: tuple[int, ...] = (16, 32)
    """Channels of each convolution (16 and 32 in arXiv 1312.5602, section 4.1)."""
    encoder_kernels: tuple[int, ...] = (8, 4)
    """Rows and columns of each convolution's kernel, in values of the layer before (8 and 4 in arXiv 1312.5602)."""
    encoder_strides: tuple[int, ...] = (4, 2)
    """Steps by which each convolution's kernel moves, in values of the layer before (4 and 2 in arXiv 1312.5602)."""

    def __post_init__(self) -> None:
        lists = (self.encoder_channels, self.encoder_kernels, self.encoder_strides)
        check_bounds(self, ("encoder_channels", "encoder_kernels", "encoder_strides"), 1)
        if len({len(x) for x in lists}) != 1 or not lists[0]:
            raise RookeryError(
                "encoder_channels, encoder_kernels and encoder_strides have one number for each convolution, got "
                f"{list(lists[0])}, {list(lists[1])} and {list(lists[2])}."
            )


def encoder_of(config: EncoderConfig, group: Group) -> EncoderSpec | None:
    """The encoder of a group's pictures; None where the settings ask for none, or the group has no picture.

    Raises:
        RookeryError: a picture is too small for it.
    """
    pictures = pictures_of((t.size, t.shape) for t in group.observation)
    if config.encoder == "none" or not pictures:
        return None
    lists = (config.encoder_channels, config.encoder_kernels, config.encoder_strides)
    return EncoderSpec(group.frame_size, tuple(pictures), *lists)


def check_pictures(config: EncoderConfig, groups: Iterable[Group]) -> None:
    """Refuse an encoder where no group observes a picture.

    Raises:
        RookeryError: there is none, with the terms that there are.
    """
    terms = [t for group in groups for t in group.observation]
    if config.encoder != "none" and not any(t.shape for t in terms):
        names = ", ".join(dict.fromkeys(t.name for t in terms))
        raise RookeryError(
            f"encoder={config.encoder} needs pictures, and this task observes none ({names:.200}): give --obs depth, rgb or "
            "segmentation where the task has cameras, or encoder=none."
        )
