"""A gated recurrent unit for training: one flat vector of parameters, and backpropagation through time by hand.

The equations are those of torch.nn.GRUCell (Cho et al. 2014, arXiv 1406.1078, with the reset gate after the matrix product):

    r = sigmoid(W_r x + b_r + U_r h + c_r)      z = sigmoid(W_z x + b_z + U_z h + c_z)
    n = tanh(W_n x + b_n + r (U_n h + c_n))     h' = (1 - z) n + z h

torch.nn.GRU runs over whole sequences, but cannot put the state back inside of one, where an episode ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor


def parameter_count(inputs: int, size: int) -> int:
    """Number of weights and biases of a GRU with that many inputs and numbers in its state."""
    return 3 * size * (inputs + size + 2)


class TrainedGRU:
    """G recurrent units of one shape over views into flat vectors.

    Args:
        parameters: [G, P] view that holds the weights: W [in, 3H], U [H, 3H], b and c [3H], the gates in the order r, z, n.
        gradients: [G, P] view that `backward` adds to.
        inputs: size of an input.
        size: H, size of the state.
    """

    def __init__(self, parameters: Tensor, gradients: Tensor, inputs: int, size: int) -> None:
        self.inputs = inputs
        self.size = size
        self._w, self._u, self._b, self._c = _views(parameters, inputs, size)
        self._gw, self._gu, self._gb, self._gc = _views(gradients, inputs, size)
        self._after = parameters.new_empty(0, 0, 0, size)
        self._steps: list[_Step] = []

    def initialize(self, generator: torch.Generator) -> None:
        """Orthogonal weights of gain 1 for every gate, and zero biases, as CleanRL's recurrent PPO has them.

        Args:
            generator: on the CPU.
        """
        for weights in (self._w, self._u):
            for network in weights:
                for gate in network.split(self.size, 1):
                    fresh = torch.empty(gate.shape[1], gate.shape[0])
                    torch.nn.init.orthogonal_(fresh, generator=generator)
                    gate.copy_(fresh.T)
        self._b.zero_()
        self._c.zero_()

    def step(self, x: Tensor, state: Tensor) -> Tensor:
        """The next state [G, S, H] for inputs [G, S, in] and the state [G, S, H]."""
        h = self.size
        inputs = torch.baddbmm(self._b, x, self._w)
        hidden = torch.baddbmm(self._c, state, self._u)
        gates = (inputs[..., : 2 * h] + hidden[..., : 2 * h]).sigmoid_()
        new = torch.addcmul(inputs[..., 2 * h :], gates[..., :h], hidden[..., 2 * h :]).tanh_()
        return torch.lerp(new, state, gates[..., h:])

    def forward(self, x: Tensor, first: Tensor, state: Tensor) -> Tensor:
        """States [G, T S, H] after each input of S sequences of T steps, which stand step by step: rows 0 to S - 1 are the
        first step of all sequences. The result, and what `backward` needs, stay valid until the next call.

        Args:
            x: inputs [G, T S, in].
            first: [G, T S] bool: the input is the first of an episode, and the state before it zero.
            state: [G, S, H] before the first step.
        """
        self._reserve(x.shape[1] // state.shape[1], state.shape[1], x)
        self._x = x
        torch.baddbmm(self._b, x, self._w, out=self._gates.flatten(1, 2))
        torch.logical_not(first.view(self._keep.shape), out=self._keep)
        for m in self._steps:
            torch.mul(state, m.keep, out=m.before)
            torch.baddbmm(self._c, m.before, self._u, out=m.hidden)
            m.rz.add_(m.hidden_rz).sigmoid_()
            m.n.addcmul_(m.r, m.hidden_n).tanh_()
            state = torch.lerp(m.n, m.before, m.z, out=m.after)
        return self._after.flatten(1, 2)

    def backward(self, state_grad: Tensor, input_grad: bool = False) -> Tensor | None:
        """Add d loss / d weights of the latest `forward` to the gradients; the states before the first step are given numbers.

        Args:
            state_grad: d loss / d states [G, T S, H], without what goes through later steps.
            input_grad: whether to return d loss / d inputs.

        Returns:
            d loss / d inputs [G, T S, in], or None.
        """
        aten = torch.ops.aten
        grad = state_grad.view(self._after.shape)
        carry = torch.zeros_like(self._after[:, 0])
        back = self._u.mT.contiguous()
        for t in range(len(self._steps) - 1, -1, -1):
            m = self._steps[t]
            carry += grad[:, t]
            torch.sub(m.before, m.n, out=m.dz).mul_(carry)
            torch.addcmul(carry, carry, m.z, value=-1.0, out=m.dn)
            aten.tanh_backward.grad_input(m.dn, m.n, grad_input=m.dn)
            torch.mul(m.dn, m.hidden_n, out=m.dr)
            aten.sigmoid_backward.grad_input(m.drz, m.rz, grad_input=m.drz)
            m.hidden_rz.copy_(m.drz)
            torch.mul(m.dn, m.r, out=m.hidden_n)
            carry = torch.baddbmm(carry.mul_(m.z), m.hidden, back).mul_(m.keep)
        inputs, hidden = self._gate_grads.flatten(1, 2), self._hidden.flatten(1, 2)
        self._gw.baddbmm_(self._x.mT, inputs)
        self._gu.baddbmm_(self._before.flatten(1, 2).mT, hidden)
        self._gb += inputs.sum(1, keepdim=True)
        self._gc += hidden.sum(1, keepdim=True)
        return torch.bmm(inputs, self._w.mT) if input_grad else None

    def stage_weights(self, g: int) -> list[Tensor]:
        """The weights of unit g as the stage GRU and torch.nn.GRUCell have them."""
        return [self._w[g].T, self._u[g].T, self._b[g, 0], self._c[g, 0]]

    def write_to(self, parameters: Iterable[Tensor], g: int) -> None:
        """Copy the weights of unit g into the parameters of such a stage or cell."""
        with torch.no_grad():
            for own, theirs in zip(self.stage_weights(g), parameters, strict=True):
                theirs.copy_(own)

    def _reserve(self, steps: int, sequences: int, like: Tensor) -> None:
        """Memory for a forward and a backward pass, kept as long as the sizes are the same."""
        shape = (len(self._w), steps, sequences)
        if self._after.shape[:3] == shape:
            return
        self._keep = torch.empty(*shape, 1, dtype=torch.bool, device=like.device)
        self._before, self._after = (like.new_empty(*shape, self.size) for _ in range(2))
        self._gates, self._hidden, self._gate_grads = (like.new_empty(*shape, 3 * self.size) for _ in range(3))
        self._steps = [self._step_views(t) for t in range(steps)]

    def _step_views(self, t: int) -> _Step:
        gates, hidden, grads = (x[:, t] for x in (self._gates, self._hidden, self._gate_grads))
        h = self.size
        return _Step(
            self._keep[:, t], self._before[:, t], self._after[:, t],
            gates[..., : 2 * h], gates[..., :h], gates[..., h : 2 * h], gates[..., 2 * h :],
            hidden, hidden[..., : 2 * h], hidden[..., 2 * h :],
            grads[..., : 2 * h], grads[..., :h], grads[..., h : 2 * h], grads[..., 2 * h :],
        )  # fmt: skip


@dataclass(frozen=True)
class _Step:
    """One step's part of the memory, [G, S, ...]: made once, since slicing costs as much as arithmetic on few rows.

    Args:
        keep: whether the state before is kept.
        before, after: states.
        rz, r, z, n: gates, and what `n` is computed from at first.
        hidden, hidden_rz, hidden_n: U h + c; of the backward pass, the loss's gradient by it.
        drz, dr, dz, dn: gradients by W x + b.
    """

    keep: Tensor
    before: Tensor
    after: Tensor
    rz: Tensor
    r: Tensor
    z: Tensor
    n: Tensor
    hidden: Tensor
    hidden_rz: Tensor
    hidden_n: Tensor
    drz: Tensor
    dr: Tensor
    dz: Tensor
    dn: Tensor


def _views(flat: Tensor, inputs: int, size: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """W [G, in, 3H], U [G, H, 3H], b and c [G, 1, 3H] as views into flat [G, P]."""
    wide = 3 * size
    w, u, b, c = flat.split((inputs * wide, size * wide, wide, wide), 1)
    return w.view(-1, inputs, wide), u.view(-1, size, wide), b.view(-1, 1, wide), c.view(-1, 1, wide)
