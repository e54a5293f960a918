"""Pictures in bytes come back with the same bits, in a replay memory as well."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.replay import Replay
from rookery.policies.storage.sequences import take_sequences
from rookery.sim.errors import RookeryError

SCALES = torch.tensor([0.0, 1 / 255, 1 / 255, 0.0, 1 / 7, 1.0])


@given(st.floats(2.0**-20, 128.0, width=32))
def test_every_byte_comes_back_to_the_bit(scale: float) -> None:
    """The product is the observation pipeline's: of float32 numbers."""
    codec = Pixels(torch.tensor([scale, 0.0]))
    bytes_ = np.arange(256, dtype=np.uint8)
    seen = torch.from_numpy(bytes_.astype(np.float32) * np.float32(scale))
    x = torch.stack((seen, torch.randn(256)), 1)
    numbers, pixels = codec.split(x)
    assert pixels.dtype == torch.uint8 and torch.equal(pixels[:, 0], torch.from_numpy(bytes_))
    assert torch.equal(codec.join(numbers, pixels).view(torch.int32), x.view(torch.int32))


@pytest.mark.parametrize("value", [0.5 / 255, 256 / 255, -1 / 255, float("nan")])
def test_values_between_bytes_are_refused(value: float) -> None:
    x = torch.zeros(2, 6)
    x[1, 1] = value
    with pytest.raises(RookeryError, match="no whole numbers from 0 to 255"):
        Pixels(SCALES).split(x)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(3, 9), st.integers(1, 3), st.integers(1, 2), st.integers(1, 40), st.integers(0, 10**6), st.booleans()
)
def test_a_memory_with_bytes_gives_what_one_without_gives(
    capacity: int, worlds: int, agents: int, steps: int, seed: int, saved: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    whole = Replay(capacity, worlds, agents, 6, 1, "cpu", memories=2)
    small = Replay(capacity, worlds, agents, 6, 1, "cpu", memories=2, codec=Pixels(SCALES))

    def frame() -> torch.Tensor:
        bytes_ = torch.randint(256, (worlds, agents, 6), generator=generator).float()
        return torch.where(SCALES > 0.0, bytes_ * SCALES, torch.randn(worlds, agents, 6, generator=generator))

    def chance() -> torch.Tensor:
        return torch.rand(worlds, generator=generator) < 0.3

    obs = frame()
    for _ in range(steps):
        following = frame()
        step = (obs, torch.zeros(worlds, agents, 1), torch.randn(worlds, agents, generator=generator), following)
        ends = (chance(), chance(), frame())
        memory = torch.randn(worlds, agents, 2, generator=generator)
        for replay in (whole, small):
            replay.add(*step, *ends, memory=memory)
        obs = following
    if saved:
        state = {name: value.clone() for name, value in small.state_dict().items()}
        small = Replay(capacity, worlds, agents, 6, 1, "cpu", memories=2, codec=Pixels(SCALES))
        small.load_state_dict(state)
    number = whole.draw(50, generator)
    for a, b in zip(vars(whole.take(number, 0.9, 2)).values(), vars(small.take(number, 0.9, 2)).values(), strict=True):
        assert a is b is None or torch.equal(a, b)
    for a, b in zip(whole.latest(3), small.latest(3), strict=True):
        assert torch.equal(a, b)
    if steps >= 3:
        number = whole.draw(5, generator, 3)
        a, b = (take_sequences(replay, number, 0.9, 2, 1) for replay in (whole, small))
        assert torch.equal(a.observation, b.observation)
        assert torch.equal(a.sequences.before, b.sequences.before)
    assert small.observation.shape[-1] == 2 and small.pixels.shape[-1] == 4
    with pytest.raises(RookeryError, match="pixels"):
        small.check_state(whole.state_dict())
