"""The hand-written recurrent unit against torch's, unrolled cell by cell."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rookery.policies.nn.build import build, weight_count
from rookery.policies.nn.gru import TrainedGRU, parameter_count
from rookery.policies.nn.recurrent import Recurrent
from rookery.policies.stages.standard import trunk

INPUTS, SIZE, STEPS, SEQUENCES = 4, 6, 7, 5


def made(networks: int) -> tuple[TrainedGRU, torch.Tensor, torch.Tensor, list[nn.GRUCell]]:
    """Units with weights that all differ, biases included; their gradients; and torch's cells with the same weights."""
    generator = torch.Generator().manual_seed(1)
    # Wider rows than the unit needs, as in the trainer, where the network follows it.
    wide = parameter_count(INPUTS, SIZE) + 7
    flat = torch.randn(networks, wide, generator=generator)
    gradients = torch.full_like(flat, 0.25)
    n = parameter_count(INPUTS, SIZE)
    gru = TrainedGRU(flat[:, :n], gradients[:, :n], INPUTS, SIZE)
    cells = [nn.GRUCell(INPUTS, SIZE) for _ in range(networks)]
    for g, cell in enumerate(cells):
        gru.write_to(cell.parameters(), g)
    return gru, flat, gradients, cells


def unrolled(cell: nn.GRUCell, x: torch.Tensor, first: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    """States [T, S, H] after each step; x [T, S, in], first [T, S]."""
    out = []
    for now, new in zip(x, first, strict=True):
        state = cell(now, torch.where(new[:, None], torch.zeros_like(state), state))
        out.append(state)
    return torch.stack(out)


def sequences(networks: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs [G, T, S, in], starts of episodes at many places [G, T, S], the first step among them, and states [G, S, H]."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(networks, STEPS, SEQUENCES, INPUTS, generator=generator)
    first = torch.rand(networks, STEPS, SEQUENCES, generator=generator) < 0.25
    first[:, -1, 1] = True
    state = torch.randn(networks, SEQUENCES, SIZE, generator=generator)
    assert first[:, 0].any() and not first[:, 0].all() and first[:, -1].any() and not first[:, 1:].all()
    return x, first, state


@pytest.mark.parametrize("networks", [1, 3])
def test_states_and_gradients_equal_those_of_torchs_cell_unrolled(networks: int) -> None:
    gru, _, gradients, cells = made(networks)
    x, first, state = sequences(networks)
    pull = torch.randn(networks, STEPS, SEQUENCES, SIZE, generator=torch.Generator().manual_seed(3))
    out = gru.forward(x.flatten(1, 2), first.flatten(1, 2), state).clone()
    input_grad = gru.backward(pull.flatten(1, 2), input_grad=True)
    assert input_grad is not None
    for g, cell in enumerate(cells):
        rows = x[g].clone().requires_grad_()
        want = unrolled(cell, rows, first[g], state[g])
        torch.testing.assert_close(out[g], want.flatten(0, 1), rtol=1e-4, atol=1e-5)
        (want * pull[g]).sum().backward()
        torch.testing.assert_close(input_grad[g], rows.grad.flatten(0, 1), rtol=1e-4, atol=1e-5)
        wanted = [cell.weight_ih.grad.T, cell.weight_hh.grad.T, cell.bias_ih.grad, cell.bias_hh.grad]
        flat = torch.cat([w.flatten() for w in wanted])
        torch.testing.assert_close(gradients[g, : len(flat)] - 0.25, flat, rtol=1e-4, atol=2e-5)
        assert torch.equal(gradients[g, len(flat) :], torch.full((7,), 0.25))


def test_steps_equal_a_sequence() -> None:
    gru, _, _, _ = made(2)
    x, first, state = sequences(2)
    want = gru.forward(x.flatten(1, 2), first.flatten(1, 2), state).view(2, STEPS, SEQUENCES, SIZE)
    for t in range(STEPS):
        state = gru.step(x[:, t], state.masked_fill(first[:, t, :, None], 0.0))
        torch.testing.assert_close(state, want[:, t], rtol=1e-5, atol=1e-6)


def test_other_sizes_after_another_use_no_memory_of_before() -> None:
    gru, _, gradients, _ = made(1)
    x, first, state = sequences(1)
    pull = torch.ones(1, STEPS * SEQUENCES, SIZE)

    def pass_both(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        gradients.zero_()
        inputs, new = x[:, :, :count].flatten(1, 2), first[:, :, :count].flatten(1, 2)
        out = gru.forward(inputs, new, state[:, :count]).clone()
        gru.backward(pull[:, : STEPS * count])
        return out, gradients.clone()

    whole = pass_both(SEQUENCES)
    small = pass_both(2)
    torch.testing.assert_close(small[0].view(STEPS, 2, SIZE), whole[0].view(STEPS, SEQUENCES, SIZE)[:, :2])
    again = pass_both(SEQUENCES)
    assert torch.equal(again[0], whole[0]) and torch.equal(again[1], whole[1])


def test_initial_gates_are_orthogonal_without_bias() -> None:
    gru, _, _, cells = made(1)
    gru.initialize(torch.Generator().manual_seed(0))
    gru.write_to(cells[0].parameters(), 0)
    for gate in cells[0].weight_hh.detach().split(SIZE):
        torch.testing.assert_close(gate @ gate.T, torch.eye(SIZE), atol=1e-5, rtol=1e-5)
    for gate in cells[0].weight_ih.detach().split(SIZE):
        torch.testing.assert_close(gate.T @ gate, torch.eye(INPUTS), atol=1e-5, rtol=1e-5)
    assert not cells[0].bias_ih.any() and not cells[0].bias_hh.any()


def test_without_a_state_every_row_is_an_episode_of_its_own() -> None:
    links = trunk(INPUTS, 2, (5,), "tanh", SIZE)
    parameters = torch.zeros(2, weight_count(links))
    network = build(links, parameters, torch.zeros_like(parameters))
    network.initialize(torch.Generator().manual_seed(0), 1.0)
    assert isinstance(network, Recurrent)
    x = torch.randn(2, 9, INPUTS, generator=torch.Generator().manual_seed(1))
    rows = [network.step(x[:, i : i + 1], torch.zeros(2, 1, SIZE))[0].clone() for i in range(9)]
    torch.testing.assert_close(network.forward(x), torch.cat(rows, 1))
