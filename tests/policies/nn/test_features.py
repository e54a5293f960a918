"""The memory of off-policy networks against torch's cell, unrolled step by step, and what comes out of encoder and memory."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rookery.policies.nn.features import Features, Memory

INPUTS, SIZE, STEPS, SEQUENCES = 4, 6, 7, 5
CPU = torch.device("cpu")


def made() -> tuple[Memory, nn.GRUCell]:
    """A memory with weights that all differ, biases included, and torch's cell with the same."""
    generator = torch.Generator().manual_seed(1)
    memory = Memory(INPUTS, SIZE, generator, CPU)
    memory.weights.data.normal_(generator=generator)
    cell = nn.GRUCell(INPUTS, SIZE)
    memory.unit.write_to(cell.parameters(), 0)
    return memory, cell


def sequences() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs [T, S, in], starts of episodes at many places [T, S], and states [S, H]."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(STEPS, SEQUENCES, INPUTS, generator=generator)
    first = torch.rand(STEPS, SEQUENCES, generator=generator) < 0.25
    assert first[0].any() and not first[0].all() and first[1:].any()
    return x, first, torch.randn(SEQUENCES, SIZE, generator=generator)


def unrolled(cell: nn.GRUCell, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
    """States [T, S, H] after each step."""
    out = []
    for now, new in zip(x, first, strict=True):
        state = cell(now, torch.where(new[:, None], torch.zeros_like(state), state))
        out.append(state)
    return torch.stack(out)


def test_states_and_gradients_are_those_of_a_cell_unrolled() -> None:
    memory, cell = made()
    x, first, state = sequences()
    pull = torch.randn(STEPS, SEQUENCES, SIZE, generator=torch.Generator().manual_seed(3))
    mine, theirs = (x.clone().requires_grad_() for _ in range(2))
    out = memory(mine.flatten(0, 1), first.flatten(), state)
    wanted = unrolled(cell, theirs, first, state)
    torch.testing.assert_close(out, wanted.flatten(0, 1))
    (out * pull.flatten(0, 1)).sum().backward()
    (wanted * pull).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad)
    gradients = [cell.weight_ih.grad.T, cell.weight_hh.grad.T, cell.bias_ih.grad, cell.bias_hh.grad]
    torch.testing.assert_close(
        memory.weights.grad[0], torch.cat([g.flatten() for g in gradients]), rtol=1e-4, atol=1e-5
    )


def test_what_comes_after_a_start_does_not_depend_on_what_came_before() -> None:
    """Neither does its gradient go to there."""
    memory, _ = made()
    x, first, state = sequences()
    first[:] = False
    first[3] = True
    results = []
    for before in (x[:3], 5.0 * x[:3] - 1.0):
        rows = torch.cat((before, x[3:])).requires_grad_()
        out = memory(rows.flatten(0, 1), first.flatten(), state + len(results)).view(STEPS, SEQUENCES, SIZE)
        out[3:].square().sum().backward()
        assert not rows.grad[:3].any() and rows.grad[3:].any()
        results.append((out[3:].detach(), memory.weights.grad.clone()))
        memory.weights.grad = None
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_one_step_is_that_of_a_sequence() -> None:
    memory, _ = made()
    x, first, state = sequences()
    first[:] = False
    out = memory(x.flatten(0, 1), first.flatten(), state).view(STEPS, SEQUENCES, SIZE)
    torch.testing.assert_close(memory.step(x[1], out[0]), out[1])


def test_weights_that_are_loaded_are_those_it_computes_with() -> None:
    memory, _ = made()
    other = Memory(INPUTS, SIZE, torch.Generator().manual_seed(9), CPU)
    other.load_state_dict(memory.state_dict())
    x, first, state = sequences()
    assert torch.equal(*(m(x.flatten(0, 1), first.flatten(), state) for m in (memory, other)))


def test_gradients_of_an_earlier_call_are_refused() -> None:
    memory, _ = made()
    x, first, state = sequences()
    early = memory(x.flatten(0, 1), first.flatten(), state)
    memory(x.flatten(0, 1), first.flatten(), state)
    with pytest.raises(AssertionError, match="called again"):
        early.sum().backward()


def test_without_encoder_and_memory_rows_stay_as_they_are() -> None:
    features = Features(None, INPUTS, 0, torch.Generator(), CPU)
    x = torch.randn(3, INPUTS)
    assert features(x) is x and features.following(x, x) is x
    assert not features.trained and not list(features.parameters()) and features.size == INPUTS
