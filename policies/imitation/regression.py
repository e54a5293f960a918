"""Supervised regression of actions on observations: what DAgger and behavior cloning have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from rookery.policies.algorithms.chains import observation_norm, policy_chains
from rookery.policies.algorithms.checks import check_bounds, check_types
from rookery.policies.algorithms.encoder_config import EncoderConfig
from rookery.policies.nn.adam import Adam
from rookery.policies.nn.build import build, weight_count
from rookery.policies.nn.network import Network
from rookery.policies.nn.parallel import Threads, split
from rookery.policies.policy import Policy
from rookery.policies.storage.normalizers import put_statistics
from rookery.policies.storage.prefix import prefixed
from rookery.sim.buffers import under
from rookery.sim.specs import Group

__all__ = ["ActionRegression", "RegressionConfig"]

PART_ROWS = 1024
"""Of a batch, in each part with gradients of its own: the same parts, and so the same bits, with any number of threads."""
MAX_PARTS = 16


@dataclass(frozen=True)
class RegressionConfig(EncoderConfig):
    """Settings of the network and its optimizer."""

    normalize_observations: ClassVar[bool] = True
    memory: ClassVar[str] = "none"
    network: ClassVar[str] = ""

    batch: int = 2048
    """Samples of one optimizer step."""
    hidden: tuple[int, ...] = (128, 64)
    """Widths of the hidden layers."""
    activation: Literal["tanh", "elu", "relu"] = "tanh"
    """Activation after every hidden layer."""
    obs_clip: float = 10.0
    """Limit of the normalized observations."""
    learning_rate: float = 1e-3
    """Learning rate of Adam at the start; it falls linearly."""
    final_rate: float = 0.1
    """Share of the learning rate at the end of the training, 0 to 1."""
    max_grad_norm: float = 1.0
    """Limit of the gradient's norm."""
    loss: Literal["squared", "absolute"] = "squared"
    """Of an action, its squared or its absolute error. Where a teacher does one thing or another and the student cannot tell
    which, the squared error makes it do something between, the absolute one what is more frequent."""

    def __post_init__(self) -> None:
        check_types(self)
        super().__post_init__()
        check_bounds(self, ("batch", "hidden"), 1)
        check_bounds(self, ("learning_rate", "max_grad_norm", "obs_clip"), 0.0, exclude_low=True)
        check_bounds(self, ("final_rate",), 0.0, 1.0)


class ActionRegression:
    """The network of one group with its optimizer and observation normalizer; all agents of the group share it.

    Args:
        group: declaration of the group.
        config: settings.
        initial: source of the initial weights, on the CPU.
        device: where tensors are.

    Attributes:
        actor, chains, spec, sets: see `rookery.policies.training.starting.Starting`.
        observations: their normalizer; the caller records samples in it and commits them.

    Raises:
        RookeryError: a picture is too small for the encoder.
    """

    sets = 1

    def __init__(
        self, group: Group, config: RegressionConfig, initial: torch.Generator, device: str | torch.device = "cpu"
    ) -> None:
        self.config = config
        self.spec = group
        self.device = torch.device(device)
        self.chains = policy_chains(config, group)
        self.actor_inputs = self.chains.actor_inputs
        self._parameters = torch.zeros(1, weight_count(self.chains.actor), device=device)
        cpu = self.device.type == "cpu"
        self._parts = [BatchPart(self) for _ in range(min(-(-config.batch // PART_ROWS), MAX_PARTS) if cpu else 1)]
        self._threads = Threads()
        self._thread_count = min(torch.get_num_threads(), len(self._parts))
        self.actor, self._gradients = self._parts[0].actor, self._parts[0].gradients
        # A small last layer around the neutral action: an untrained policy keeps a robot at rest.
        self.actor.initialize(initial, 0.01, torch.tensor(group.action.neutral))
        self._adam = Adam(self._parameters, self._gradients, config.max_grad_norm)
        self.observations = observation_norm(config, group, device)

    def begun(self) -> None:
        """See `Starting`."""

    def act(self, obs: Tensor) -> Tensor:
        """Actions [N, A, D] in [-1, 1] for observations [N, A, O]."""
        return self.actor.forward_agents(self.observations.normalize(obs)).clamp(-1.0, 1.0)

    def learn(
        self,
        obs: Tensor,
        expert_actions: Tensor,
        progress: float,
        weights: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """One optimizer step.

        Args:
            obs: [S, O].
            expert_actions: [S, D].
            progress: share of the training that is over, 0 to 1.
            weights: [S] of the samples; None for equal ones.
            rows: [R] int64, the samples of the batch; None for all.

        Returns:
            mean loss before the step, a scalar.
        """
        rows = torch.arange(len(obs), device=obs.device) if rows is None else rows
        share = torch.ones(len(rows), device=obs.device) if weights is None else weights[rows]
        share = (share / share.sum().clamp(min=1.0)).unsqueeze(1) / expert_actions.shape[-1]
        count = min(-(-len(rows) // PART_ROWS), len(self._parts))
        pieces = [
            (part, rows[r], share[r]) for part, r in zip(self._parts, split(slice(0, len(rows)), count), strict=False)
        ]
        threads = min(self._thread_count, count)
        self._threads.map(_learn_pieces, [(pieces[i::threads], obs, expert_actions) for i in range(threads)])
        for part, *_ in pieces[1:]:
            self._gradients += part.gradients
        loss = torch.stack([part.loss for part, *_ in pieces]).sum()
        rate = self.config.learning_rate * (1.0 - (1.0 - self.config.final_rate) * progress)
        self._adam.step(torch.full((1, 1), rate, device=obs.device))
        return loss

    def close(self) -> None:
        """End the threads."""
        self._threads.close()

    def policy(self) -> Policy:
        """The policy as learnt so far."""
        out = Policy(self.chains.policy)
        put_statistics(out, "normalize", self.observations)
        self.actor.write_to(out.parameters(), 0)
        return out.eval()

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimizer and normalizer."""
        state = {"parameters": self._parameters}
        return state | prefixed("adam", self._adam.state_dict()) | prefixed("norm", self.observations.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a checked state."""
        self._parameters.copy_(state["parameters"])
        self._adam.load_state_dict(under("adam", state))
        self.observations.load_state_dict(under("norm", state))


class BatchPart:
    """A part of a batch: activations and gradients of its own, weights in common.

    Args:
        whole: whose.

    Attributes:
        gradients: [1, P].
        loss: of the latest rows, their share of the batch's.
    """

    loss: Tensor

    def __init__(self, whole: ActionRegression) -> None:
        self.whole = whole
        self.gradients = torch.zeros_like(whole._parameters)
        self.actor: Network = build(whole.chains.actor, whole._parameters, self.gradients)

    def learn(self, obs: Tensor, expert_actions: Tensor, share: Tensor) -> None:
        """Gradients and loss of rows.

        Args:
            obs: [R, O].
            expert_actions: [R, D].
            share: [R, 1] of each action's error in the loss.
        """
        error = self.actor.forward(self.whole.observations.normalize(obs).unsqueeze(0)).sub_(expert_actions)
        if self.whole.config.loss == "squared":
            of_action, slope = error.square(), 2.0 * error
        else:
            of_action, slope = error.abs(), error.sign()
        self.loss = (of_action * share).sum()
        self.gradients.zero_()
        self.actor.backward(slope.mul_(share))


Piece = tuple[BatchPart, Tensor, Tensor]
"""A part of a batch, its samples [R] int64, and their share [R, 1] of the loss."""


@torch.no_grad()
def _learn_pieces(pieces: Sequence[Piece], obs: Tensor, expert_actions: Tensor) -> None:
    """Learn some parts of a batch, one after the other."""
    for part, rows, share in pieces:
        part.learn(obs[rows], expert_actions[rows], share)
