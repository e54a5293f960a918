"""The networks of one group's off-policy learner: policy, critics, their targets, and what all of them learn from.

    normalized observation --> encoder --+--> the policy's memory -----------------------> policy
                                         +--> the critics' memory --> state, action --> critics

Encoder and memories are there where the settings ask for them. The critics' loss alone moves the encoder, and the policy's
memory stands behind it (SAC-AE, Yarats et al. 2021, arXiv 1910.01741, section 5): through a moving policy an encoder learns
little, and the critics' value of it would move as well. Policy and critics have a memory each (Ni et al. 2022, arXiv
2110.05038).
"""

from __future__ import annotations

import abc
from itertools import islice
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rookery.policies.algorithms.chains import encoder_links, observation_norm, policy_chains
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.algorithms.off_policy_memory import LiveStates
from rookery.policies.nn.build import parts_of
from rookery.policies.nn.categorical import Categorical
from rookery.policies.nn.ensemble import Ensemble
from rookery.policies.nn.features import Features
from rookery.policies.policy import Policy
from rookery.policies.stages.torch_chain import ChainModule
from rookery.policies.storage.normalizers import ObservationNorm, put_statistics
from rookery.policies.storage.transitions import Sequences, Transitions
from rookery.policies.training.reduction import draw_own
from rookery.policies.training.roles import Roles
from rookery.sim.specs import Group

__all__ = ["OffPolicyNetworks", "descend_with"]


class OffPolicyNetworks(abc.ABC):
    """The networks of `OffPolicyLearner`; see there.

    Attributes:
        NETWORKS: names of the attributes with weights.
        chains: stages of the policy.
        encoder: those that an observation goes through first; empty without.
        features, target_features: of the critics and their targets, the encoder among them.
        actor_features: of the policy, behind the encoder.
        next_features: of the policy whose next actions have the target values.
        optimizers: Adam by the name of what it moves.
        categorical: the values of the critics' distributions; None where they give one value.
        live: states of the memories while transitions are collected; None without.
        roles: of the process, which explores in its part of the worlds.
    """

    NETWORKS: ClassVar[tuple[str, ...]]

    def __init__(
        self, group: Group, worlds: int, config: OffPolicyConfig, initial: torch.Generator, device: torch.device,
        state_size: int, outputs: int, roles: Roles,
    ) -> None:  # fmt: skip
        self.config = config
        self.roles = roles
        obs = group.observation_size
        act = group.action.size
        self.action_size = act
        self.chains = policy_chains(config, group, outputs=outputs)
        self.encoder = encoder_links(config, group, group.history)
        self._encoded = self.encoder[-1].outputs if self.encoder else obs
        memory = parts_of(self.chains.actor)[1]
        self._memory = 0 if memory is None else memory.size
        own = self._memory if config.critic_memory else 0
        self.features, self.target_features = (self._features(own, initial, device) for _ in range(2))
        self.target_features.requires_grad_(False).load_state_dict(self.features.state_dict())
        self.actor_features = self.policy_features(initial, device)
        self.next_features = self.actor_features
        self.actor = Ensemble(1, (self.actor_features.size, *config.hidden, outputs), config.activation, initial).to(
            device
        )
        # The policy begins around the neutral action: tanh(atanh(neutral)) = neutral.
        neutral = torch.tensor(group.action.neutral, device=device).clamp(-0.99, 0.99)
        self.actor.biases[-1].data[0, 0, :act] += neutral.atanh()
        span = (config.value_low, config.value_high, config.atoms)
        self.categorical = Categorical(*span, device) if config.atoms > 1 else None
        inputs = state_size + self.features.size + act
        self.critics, self.targets = (self._critics(inputs, initial).to(device) for _ in range(2))
        # In evaluation mode a network keeps its running statistics, which targets have no use for.
        self.targets.requires_grad_(False).eval().load_state_dict(self.critics.state_dict())
        self.optimizers = {
            "actor": self.adam(self.actor, self.actor_features),
            "critics": self.adam(self.critics, self.features),
        }
        self.norm = observation_norm(config, group, device)
        self.states = ObservationNorm(state_size, config.obs_clip, device) if state_size else None
        sizes = (self._memory, own)
        self.live = LiveStates(worlds, group.count, *sizes, device) if self._memory else None

    def _critics(self, inputs: int, initial: torch.Generator) -> Ensemble:
        c = self.config
        sizes = (inputs, *c.hidden, c.atoms)
        return Ensemble(
            c.critics, sizes, c.activation, initial, c.critic_layer_norm, c.critic_dropout, c.critic_batch_norm,
            c.critic_unit_weights, c.critic_hypersphere,
        )  # fmt: skip

    def _features(self, state_size: int, initial: torch.Generator, device: torch.device) -> Features:
        """Those of critics."""
        encoder = ChainModule(self.encoder) if self.encoder else None
        if encoder is not None:
            encoder.initialize(initial)
        return Features(encoder, self._encoded, state_size, initial, device)

    def policy_features(self, initial: torch.Generator, device: torch.device) -> Features:
        """Those of a policy, behind the encoder."""
        return Features(None, self._encoded, self._memory, initial, device)

    def adam(self, *networks: nn.Module | Tensor) -> torch.optim.Adam:
        """An optimizer of networks, or of one tensor, with the state that Adam otherwise makes in its first step. AdamW
        without weight decay is Adam."""
        whole = isinstance(networks[0], nn.Module)
        parameters = [p for n in networks for p in (n.parameters() if isinstance(n, nn.Module) else (n,))]
        decay = self.config.weight_decay if whole else 0.0
        out = torch.optim.AdamW(parameters, self.config.learning_rate, weight_decay=decay, fused=whole)
        for parameter in parameters:
            out.state[parameter] = {
                "step": torch.zeros((), device=parameter.device if whole else "cpu"),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
        return out

    @abc.abstractmethod
    def explore(self, obs: Tensor, noise: Tensor) -> Tensor:
        """Actions [N, A, D] with exploration for observations [N, A, O] and normal noise [N A, D]."""

    @abc.abstractmethod
    def next_action(self, next_features: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | float]:
        """Actions [B, D] whose values the targets have, and their bonus [B], see `OffPolicyLearner.backup`, for the policy's
        features [B, F] and normal noise [B, D]."""

    @abc.abstractmethod
    def policy_step(
        self, features: Tensor, seen: Tensor, weight: Tensor, noise: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Move the policy, for its features [B, F], what critics see, shares of the rows in the loss [B] and normal noise
        [NOISES, B, D]; returns its figures."""

    @abc.abstractmethod
    def move_targets(self, policy: bool) -> None:
        """Let the targets follow after a gradient step, with or without one of the policy."""

    def act(self, obs: Tensor, generator: torch.Generator, random: bool) -> Tensor:
        """Actions with exploration [N, A, D] for observations [N, A, O] of the process's worlds; uniformly random ones on
        request. Memories make a step."""
        draw = obs.new_empty(*obs.shape[:-1], self.action_size)
        place = self.roles.index, self.roles.actors
        if random:
            if self.live is not None:
                self.features_now(obs)
            draw_own(draw, 0, lambda x: x.uniform_(generator=generator), *place)
            return 2.0 * draw - 1.0
        draw_own(draw, 0, lambda x: x.normal_(generator=generator), *place)
        return self.explore(obs, draw.flatten(0, 1))

    def acting(self) -> list[Tensor]:
        """Tensors on which `act` depends and that learning changes, to be written in place: the policy, what goes before it,
        and the critics' memory, whose states are stored with transitions."""
        networks = (self.actor, self.actor_features, self.features)
        return [*(x for network in networks for x in network.parameters()), self.norm.mean, self.norm.std]

    # What networks learn from

    @torch.no_grad()
    def encoded(self, obs: Tensor) -> Tensor:
        """Features of the policy for normalized observations [R, O], without gradients."""
        out: Tensor = self.features.encoder(obs)
        return out

    def features_now(self, obs: Tensor) -> Tensor:
        """The policy's features [N A, F] at observations [N, A, O] of now; memories make a step."""
        x = self.encoded(self.norm.normalize(obs.flatten(0, 1)))
        if self.live is None:
            return x
        return self.live.step(x, self.actor_features, self.features)

    def policy_features_at(self, features: Features, batch: Transitions, obs: Tensor) -> Tensor:
        """A policy's features [B, F] at the normalized observations [B, O] of a batch."""
        x = self.encoded(obs)
        sequences = batch.sequences
        if sequences is None:
            return x
        before = self.encoded(self.norm.normalize(sequences.before))
        return _unrolled(features, x, before, sequences, sequences.state[:, : features.size])

    def critic_features_at(self, features: Features, batch: Transitions, obs: Tensor) -> Tensor:
        """The critics' features [B, F] at the normalized observations [B, O] of a batch."""
        sequences = batch.sequences
        if features.memory is None or sequences is None:
            out: Tensor = features(obs)
            return out
        state = sequences.state[:, self.actor_features.size :]
        return _unrolled(features, obs, self.norm.normalize(sequences.before), sequences, state)

    def next_features_at(self, batch: Transitions, next_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Features of the next policy and of the target critics, [B, F] each, at the normalized observations [B, O] after a
        batch's transitions: with memories one step behind those of the batch, at an end of an episode as inside of it."""
        policy, critics = self.next_features, self.target_features
        own, theirs = next_obs, next_obs  # not read without memories
        if batch.sequences is not None:
            obs = self.norm.normalize(batch.observation)
            own = self.policy_features_at(policy, batch, obs)
            theirs = self.critic_features_at(critics, batch, obs)
        return policy.following(self.encoded(next_obs), own), critics.following(next_obs, theirs)

    def seen(self, state: Tensor, features: Tensor) -> Tensor:
        """Inputs of the critics [B, S + F] of states [B, S] and features [B, F]."""
        return features if self.states is None else torch.cat((self.states.normalize(state), features), -1)

    # Values

    def outputs(self, critics: Ensemble, seen: Tensor, action: Tensor, generator: torch.Generator | None) -> Tensor:
        """Outputs of all critics [C, B, K] for their inputs, see `seen`, and actions [B, D]: values, K being 1, or logits of
        their distributions."""
        out: Tensor = critics(torch.cat((seen, action), -1), generator)
        return out

    def q_values(self, outputs: Tensor) -> Tensor:
        """The critics' values [C, B] of their outputs [C, B, K]."""
        return outputs.squeeze(-1) if self.categorical is None else self.categorical.mean(outputs)

    def policy_value(self, seen: Tensor, action: Tensor, generator: torch.Generator | None) -> Tensor:
        """Values [B] that the policy climbs."""
        q = self.q_values(self.outputs(self.critics, seen, action, generator))
        kind = self.config.policy_value
        return q.amin(0) if kind == "min" else q.mean(0) if kind == "mean" else q[0]

    # Weights

    @torch.no_grad()
    def follow(self, targets: nn.Module, networks: nn.Module) -> None:
        """Let target networks take over their share."""
        for slow, fast in zip(targets.parameters(), networks.parameters(), strict=True):
            slow.lerp_(fast, self.config.tau)

    def set_learning_rate(self, rate: float) -> None:
        """The learning rate of the next gradient steps."""
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = rate

    def policy(self) -> Policy:
        """The policy as learnt so far: ``tanh`` of the network's first outputs."""
        out = Policy(self.chains.policy)
        put_statistics(out, "normalize", self.norm)
        parameters = iter(out.parameters())
        with torch.no_grad():
            for own in self.features.encoder.parameters():
                next(parameters).copy_(own)
            if self.actor_features.memory is not None:
                self.actor_features.memory.unit.write_to(list(islice(parameters, 4)), 0)
            for weight, bias in zip(self.actor.weights, self.actor.biases, strict=True):
                rows = next(parameters)
                rows.copy_(weight[0, :, : len(rows)].T)
                next(parameters).copy_(bias[0, 0, : len(rows)])
        return out.eval()


def _unrolled(features: Features, x: Tensor, before: Tensor, sequences: Sequences, state: Tensor) -> Tensor:
    """Features [T S, F] of inputs [T S, in] of sequences, after their burn-in [K S, in] from states [S, H]."""
    if len(before):
        with torch.no_grad():
            state = features(before, sequences.before_first, state)[-len(state) :]
    out: Tensor = features(x, sequences.first, state)
    return out


def descend_with(optimizer: torch.optim.Adam, loss: Tensor) -> None:
    """One step of an optimizer down the gradient of a loss by its own parameters alone."""
    parameters: list[Any] = optimizer.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient.contiguous()
    optimizer.step()
