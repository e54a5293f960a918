"""The settings of what observations go through before the memory or the hidden layers, for every algorithm that has them."""

from __future__ import annotations

from dataclasses import dataclass

from rookery.policies.algorithms.checks import check_bounds
from rookery.policies.stages import encoder_class, encoder_names, encoders
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file, unknown_name


@dataclass(frozen=True)
class EncoderConfig:
    """The encoder of observations; the defaults of cnn are the convolutions of Mnih et al. 2013 (arXiv 1312.5602, section 4.1),
    which IMPALA's small network has too (Espeholt et al. 2018, arXiv 1802.01561, figure 3)."""

    encoder: str = "none"
    """Stages that an observation goes through before the memory or the hidden layers, in policy and critic: none, cnn
    (convolutions of each camera's own for its pictures, with `activation` after each), another of policies/stages, or one of
    your own, as my_stage.py:Gain."""
    encoder_options: tuple[str, ...] = ()
    """Settings of another encoder than cnn, each as name=value."""
    encoder_channels: tuple[int, ...] = (16, 32)
    """Channels of each convolution (16 and 32 in arXiv 1312.5602, section 4.1)."""
    encoder_kernels: tuple[int, ...] = (8, 4)
    """Rows and columns of each convolution's kernel, in values of the layer before (8 and 4 in arXiv 1312.5602)."""
    encoder_strides: tuple[int, ...] = (4, 2)
    """Steps by which each convolution's kernel moves, in values of the layer before (4 and 2 in arXiv 1312.5602)."""

    def __post_init__(self) -> None:
        own = self.encoder in ("none", "cnn")  # installed packages are not asked for their encoders then: 15 ms
        if not own and self.encoder not in encoder_names() and not is_in_file(self.encoder):
            raise unknown_name("encoder", self.encoder, encoder_names())
        if own and self.encoder_options:
            raise RookeryError(
                f"encoder_options is for other encoders than {self.encoder}: leave it out, or give encoder={_other()}."
            )
        if not own and not is_in_file(self.encoder):  # a file runs only where a policy is made
            encoder_class(self.encoder).options_of(self.encoder_options)
        lists = (self.encoder_channels, self.encoder_kernels, self.encoder_strides)
        check_bounds(self, ("encoder_channels", "encoder_kernels", "encoder_strides"), 1)
        if len({len(x) for x in lists}) != 1 or not lists[0]:
            raise RookeryError(
                "encoder_channels, encoder_kernels and encoder_strides have one number for each convolution, got "
                f"{list(lists[0])}, {list(lists[1])} and {list(lists[2])}."
            )


def _other() -> str:
    """An encoder that has options."""
    return next((name for name in encoders() if name != "cnn"), "cnn")
