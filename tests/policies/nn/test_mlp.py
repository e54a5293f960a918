"""Hand-written passes and optimizer against autograd and torch.optim."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rookery.policies.nn.adam import Adam
from rookery.policies.nn.mlp import MLP, parameter_count

ACTIVATIONS = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}
SIZES = (5, 16, 12, 3)


def make(networks: int, activation: str) -> tuple[MLP, torch.Tensor, torch.Tensor]:
    # Wider rows than the network needs, as in the trainer, where the critic follows the policy.
    flat = torch.zeros(networks, parameter_count(SIZES) + 7)
    grad = torch.zeros_like(flat)
    n = parameter_count(SIZES)
    mlp = MLP(flat[:, :n], grad[:, :n], SIZES, activation)
    mlp.initialize(torch.Generator().manual_seed(1), 0.5, torch.tensor([0.1, -0.2, 0.3]))
    return mlp, flat, grad


def module(mlp: MLP, g: int) -> nn.Sequential:
    parts: list[nn.Module] = []
    for k, (w, b) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
        layer = nn.Linear(w.shape[1], w.shape[2])
        layer.weight.data.copy_(w[g].T)
        layer.bias.data.copy_(b[g, 0])
        parts += [layer] if k == len(mlp.weights) - 1 else [layer, ACTIVATIONS[mlp.activation]()]
    return nn.Sequential(*parts)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("networks", [1, 3])
def test_passes_equal_autograd_in_a_loop_over_single_networks(networks, activation):
    mlp, _, grad = make(networks, activation)
    torch.manual_seed(0)
    for rows in (40, 11):  # the second, smaller batch reuses the first one's memory
        x = torch.randn(networks, rows, 5)
        delta = torch.randn(networks, rows, 3)
        grad.zero_()
        out = mlp.forward(x).clone()
        mlp.backward(delta)
        for g in range(networks):
            net = module(mlp, g)
            want = net(x[g])
            want.backward(delta[g])
            torch.testing.assert_close(out[g], want, rtol=1e-5, atol=1e-6)
            layers = [m for m in net if isinstance(m, nn.Linear)]
            flat = torch.cat([p.flatten() for m in layers for p in (m.weight.grad.T, m.bias.grad)])
            torch.testing.assert_close(grad[g, : flat.numel()], flat, rtol=1e-4, atol=1e-5)


def test_initial_output_is_the_bias_and_weights_are_orthogonal():
    mlp, _, _ = make(2, "tanh")
    w = mlp.weights[1][0]  # [16, 12]
    torch.testing.assert_close(w.T @ w, 2.0 * torch.eye(12), atol=1e-5, rtol=1e-5)
    out = mlp.forward(torch.zeros(2, 1, 5))
    torch.testing.assert_close(out[:, 0], torch.tensor([[0.1, -0.2, 0.3]] * 2))


def test_adam_equals_torch_adam_with_a_clipped_norm_for_each_row():
    torch.manual_seed(0)
    start = torch.randn(2, 30)
    mine = start.clone()
    grads = torch.zeros(2, 30)
    adam = Adam(mine, grads, max_norm=1.0)
    rows = [nn.Parameter(start[g].clone()) for g in range(2)]
    rates = (1e-2, 3e-3)
    theirs = [torch.optim.Adam([r], lr=rate, eps=Adam.EPS) for r, rate in zip(rows, rates, strict=True)]
    for k in range(20):
        g = torch.randn(2, 30) * (0.01 if k % 2 else 1.0)
        grads.copy_(g)
        adam.step(torch.tensor(rates).unsqueeze(1))
        for i in range(2):
            rows[i].grad = g[i].clone()
            nn.utils.clip_grad_norm_([rows[i]], 1.0)
            theirs[i].step()
    torch.testing.assert_close(mine, torch.stack([r.data for r in rows]), rtol=1e-5, atol=1e-6)


def test_a_reset_adam_steps_as_a_new_one():
    """Its first step after a reset is of the whole learning rate again, whatever the size of the gradient."""
    parameters, gradients = torch.zeros(2, 4), torch.zeros(2, 4)
    adam = Adam(parameters, gradients, max_norm=1e9)
    for _ in range(5):
        gradients.copy_(torch.randn(2, 4))
        adam.step(torch.full((2, 1), 0.1))
    adam.reset()
    before = parameters.clone()
    slope = torch.tensor([[3.0, -2.0, 0.5, -0.25], [1.0, 8.0, -4.0, -1.0]])
    gradients.copy_(slope)
    adam.step(torch.tensor([[0.1], [0.02]]))
    want = -torch.tensor([[0.1], [0.02]]) * slope.sign()
    torch.testing.assert_close(parameters - before, want, rtol=1e-4, atol=1e-6)
