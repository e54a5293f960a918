"""SAC's actions and gradient steps in compiled kernels, on the very tensors that torch uses.

Weights, Adam's moments and the replay memory are seen as arrays; nothing is copied, so that checkpoints, policies and the
torch path go on from whatever the kernel did.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from rookery.policies.algorithms import sac_arrays as arrays
from rookery.policies.algorithms import sac_kernels as kernels
from rookery.policies.nn.compiled_adam import Optimized
from rookery.policies.nn.compiled_mlp import OUTPUT, WORKING, Arena, layer_table
from rookery.policies.nn.elementwise import ACTIVATIONS

if TYPE_CHECKING:
    from rookery.policies.algorithms.sac_learner import SACLearner
    from rookery.policies.nn.ensemble import Ensemble
    from rookery.policies.storage.replay import Replay


class CompiledSteps:
    """Actions and gradient steps of one group's learner.

    Args:
        learner: whose weights and moments become views of flat vectors; neither may be replaced from here on.
        acting: agents in all worlds that act here.
        log_std_limits: least and greatest log standard deviation of the policy.
    """

    def __init__(self, learner: SACLearner, acting: int, log_std_limits: tuple[float, float]) -> None:
        config = learner.config
        rows = config.batch
        self._replay = learner.replay
        self._demonstrations: Replay | None = None
        self._own = rows
        optimizers = learner.optimizers
        self._rate = optimizers["actor"].param_groups[0]  # the same for all
        self._steps = {name: [slots["step"] for slots in o.state.values()] for name, o in optimizers.items()}
        self._actor, self._critics, self._temperature = (
            _optimized(optimizers[name]) for name in ("actor", "critics", "temperature")
        )
        self._targets = _flatten(list(learner.targets.parameters()))
        arena = Arena()
        (actor,) = _tables(learner.actor, rows, arena)
        critics = _tables(learner.critics, rows, arena)
        targets = _tables(learner.targets, rows, arena, like=critics[0])
        # They give their values before the critics work, and borrow the memory of these: so it stays in the cache.
        targets[..., list(WORKING)] = critics[:1, :, list(WORKING)]
        targets[:, -1, OUTPUT] = critics[:, -1, OUTPUT]
        activation = ACTIVATIONS[config.activation]
        self._networks = arrays.SacNetworks(actor, critics, targets, activation)
        self._arena = arena.allocate()
        floats = np.zeros((4, rows), np.float32)
        self._batch = arrays.BatchArrays(
            np.zeros((4, rows), np.int64), np.zeros((config.critics, rows), np.int64), *floats
        )
        norm = learner.norm
        self._settings = arrays.SacSettings(
            config.gamma, config.n_step, config.tau, config.learning_rate, learner.target_entropy, *log_std_limits,
            config.obs_clip, config.critic_dropout, arrays.POLICY_VALUES[config.policy_value], norm.mean.numpy(),
            norm.std.numpy(),
        )  # fmt: skip
        arena = Arena()
        (self._acting,) = _tables(learner.actor, acting, arena)
        self._acting_arena = arena.allocate()

    def act(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions [R, D] with exploration for observations [R, O] of all worlds and agents and normal noise [R, D], see
        sac_kernels.act."""
        out = torch.empty_like(noise)
        kernels.act(
            self._acting, self._actor.parameters, self._networks.activation, self._settings, self._acting_arena,
            obs.numpy(), noise.numpy(), out.numpy(),
        )  # fmt: skip
        return out

    def learn_from(self, demonstrations: Replay, share: int) -> None:
        """Take the last `share` transitions of every batch from demonstrations from now on."""
        self._demonstrations = demonstrations
        self._own -= share

    def learn(self, index: Tensor, noise: Tensor, draws: arrays.Draws) -> Tensor:
        """Gradient steps on transitions [U, B] drawn from their sources, see sac_kernels.learn; returns the sums of their
        figures, [5]."""
        critics, actor = (int(self._steps[name][0]) for name in ("critics", "actor"))
        sums = kernels.learn(
            self._networks, self._actor, self._critics, self._targets, self._temperature, self._sources(),
            self._settings._replace(learning_rate=self._rate["lr"]), self._batch, self._arena, index.numpy(),
            noise.numpy(), draws, critics + 1, actor + 1,
        )  # fmt: skip
        for name, counters in self._steps.items():
            made = len(index) if name == "critics" else int(draws.policy.sum())
            for counter in counters:
                counter += made
        return torch.from_numpy(sums)

    def _sources(self) -> arrays.Sources:
        memory = _memory(self._replay)
        others = memory if self._demonstrations is None else _memory(self._demonstrations)
        return arrays.Sources(memory, others, self._own)


def _memory(replay: Replay) -> arrays.ReplayArrays:
    r = replay
    return arrays.ReplayArrays(
        r.observation.numpy(), r.action.numpy(), r.reward.numpy(), r.active.numpy(), r.left.numpy(),
        r.elapsed.numpy(), r.terminated.numpy(), r.truncated.numpy(), r.final_index.numpy(), r.finals.numpy(), r.head,
    )  # fmt: skip


def _tables(networks: Ensemble, rows: int, arena: Arena, like: np.ndarray | None = None) -> np.ndarray:
    """Tables [G, layers, COLUMNS] of networks whose parameters were flattened in their order; all share one input."""
    sizes = [p.numel() for p in networks.parameters()]
    starts = list(accumulate(sizes, initial=0))
    layers = len(networks.weights)
    count = networks.weights[0].shape[0]
    tables: list[np.ndarray] = []
    for g in range(count):
        at = [start + g * size // count for start, size in zip(starts, sizes, strict=False)]
        shared = tables[0] if tables else like
        hidden = 2 * layers, 2 * layers + len(networks.gains)
        norms = list(zip(at[slice(*hidden)], at[hidden[1] :], strict=False)) if networks.layer_norm else None
        tables.append(layer_table(networks.sizes, at[:layers], at[layers : 2 * layers], rows, arena, shared, norms))
    return np.stack(tables)


def _optimized(optimizer: torch.optim.Adam) -> Optimized:
    parameters = optimizer.param_groups[0]["params"]
    slots = [optimizer.state[p] for p in parameters]
    flat = _flatten(parameters)
    moments = (_flatten([s[name] for s in slots]) for name in ("exp_avg", "exp_avg_sq"))
    return Optimized(flat, np.zeros_like(flat), *moments)


def _flatten(tensors: list[Tensor]) -> np.ndarray:
    """One vector of which these tensors become views."""
    flat = torch.cat([t.detach().reshape(-1) for t in tensors])
    for tensor, piece in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        tensor.data = piece.view(tensor.shape)
    return flat.numpy()
