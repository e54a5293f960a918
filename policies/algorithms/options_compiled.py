"""Decisions by the kernel, on the very tensors that torch uses."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from rookery.policies.algorithms.option_kernels import DrawnRows, NormalizerArrays, PolicyArrays, decide
from rookery.policies.algorithms.ppo_compiled import network_table
from rookery.policies.algorithms.ppo_kernels import CHUNK_ROWS
from rookery.policies.nn.compiled_mlp import Arena, pack
from rookery.policies.nn.elementwise import ACTIVATIONS
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.storage.decisions import Decisions
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.policies.storage.rollout import ActionDraws
from rookery.sim.specs import ActionSpec

__all__ = ["CompiledDecisions"]


class CompiledDecisions:
    """One policy's decisions.

    Args:
        parameters: [1, P], the policy's first.
        actor: its only link.
        spec: of its action.
    """

    def __init__(self, parameters: Tensor, actor: Perceptron, spec: ActionSpec) -> None:
        arena = Arena()
        self._table = network_table(actor, 0, CHUNK_ROWS, arena, None)
        self._arena = arena.allocate()
        self._parameters = parameters[0].numpy()
        self._activation = ACTIVATIONS[actor.activation]
        self._sizes = np.array([len(choice.options) for choice in spec.choices], np.int64)
        self._nothing = np.empty((0, spec.options), np.bool_)
        self._of: ActionDraws | None = None

    def start(self, std: Tensor, norm: ObservationNorm, record: bool) -> None:
        """Take the present weights, of which `std` [1, 1, D_c] is no view, and statistics; `record` adds to those."""
        pack(self._table, self._parameters, self._arena, False)
        own = self._table, self._arena, self._activation
        self._policy = PolicyArrays(*own, std.flatten(0, 1).numpy(), self._sizes)
        self._norm = NormalizerArrays(*norm.arrays(record))

    def _rows(self, to: Decisions) -> DrawnRows:
        """Views of the storage; the same ones as long as it has not grown."""
        if self._of is not to.drawn:
            drawn = to.drawn
            empty = np.empty((0, 0), np.float32)
            fields = drawn.observation, drawn.noise, drawn.gumbel, drawn.choice_log_probs, drawn.action
            rows = [empty if x is None else x[0, :, 0].numpy() for x in fields]
            self._seen = DrawnRows(to.index.numpy(), *rows)
            self._of = drawn
        return self._seen

    def __call__(self, to: Decisions, index: Tensor, obs: Tensor, allowed: Tensor | None, out: Tensor) -> None:
        """Append decisions.

        Args:
            to: storage, with room and noise for them.
            index: [r] int64, whose, of M.
            obs: [M, O].
            allowed: [M, C] bool, None for all.
            out: [M, D], gets their actions.
        """
        mask = self._nothing if allowed is None else allowed.contiguous().numpy()
        given = index.numpy(), obs.contiguous().numpy(), mask, self._norm, self._policy, self._rows(to)
        decide(*given, to.end, out.numpy())
        to.end += len(index)
