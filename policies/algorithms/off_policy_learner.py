"""What the learners of off-policy algorithms share: critics and their targets, normaliser, replay memory, state."""

from __future__ import annotations

import abc
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.algorithms.off_policy_mirror import BatchMirror
from rookery.policies.nn.categorical import Categorical
from rookery.policies.nn.ensemble import Ensemble
from rookery.policies.policy import Policy
from rookery.policies.storage.normalizers import ObservationNorm, ReturnScale
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.storage.replay import Replay, Transitions
from rookery.sim.buffers import under
from rookery.sim.specs import Group

__all__ = ["OffPolicyLearner", "descend_with", "weights_of"]


class OffPolicyLearner(abc.ABC):
    """Networks and replay memory of one group; a subclass adds the policy, and how it learns.

    Args:
        group: its declaration.
        worlds: N.
        steps: T, control steps in the replay memory.
        config: settings.
        initial: source of the initial weights, on the CPU.
        device: where everything lives.
        state_size: S, of the environment's state where the critics see it, else 0.
        outputs: numbers that the policy's network gives.

    Attributes:
        FIGURES: names of what `descend` returns; those from `POLICY_FIGURES` on are of the policy.
        NOISES: normal draws [B, D] that a gradient step takes.
        NETWORKS: names of the attributes with weights.
        optimizers: Adam by the name of what it moves.
        categorical: the values of the critics' distributions; None where they give one value.
        made: gradient steps made, a tensor of one number.
        demonstrations: a memory that gives a share of every batch, see `learn_from`; None without.
        returns: what rewards are divided by; None where they are taken as they are.
        beta: power of the importance weights of prioritised draws, see `Priorities.weights`.
        errors: [B] temporal-difference errors in the latest gradient step, means over the critics, where draws are prioritised.
    """

    FIGURES: ClassVar[tuple[str, ...]]
    POLICY_FIGURES: ClassVar[int] = 1
    NOISES: ClassVar[int]
    NETWORKS: ClassVar[tuple[str, ...]]

    def __init__(
        self, group: Group, worlds: int, steps: int, config: OffPolicyConfig, initial: torch.Generator,
        device: torch.device, state_size: int, outputs: int,
    ) -> None:  # fmt: skip
        self.config = config
        obs = group.observation_size
        act = group.action.size
        self.action_size = act
        self.actor = Ensemble(1, (obs, *config.hidden, outputs), config.activation, initial).to(device)
        # The policy begins around the neutral action: tanh(atanh(neutral)) = neutral.
        neutral = torch.tensor(group.action.neutral, device=device).clamp(-0.99, 0.99)
        self.actor.biases[-1].data[0, 0, :act] += neutral.atanh()
        span = (config.value_low, config.value_high, config.atoms)
        self.categorical = Categorical(*span, device) if config.atoms > 1 else None
        self.critics, self.targets = (self._critics(state_size + obs + act, initial).to(device) for _ in range(2))
        # In evaluation mode a network keeps its running statistics, which targets have no use for.
        self.targets.requires_grad_(False).eval().load_state_dict(self.critics.state_dict())
        self.optimizers = {"actor": self.adam(self.actor), "critics": self.adam(self.critics)}
        self.norm = ObservationNorm(obs, config.obs_clip, device)
        self.states = ObservationNorm(state_size, config.obs_clip, device) if state_size else None
        self.replay = Replay(steps, worlds, group.count, obs, act, device, state_size, config.priority_alpha)
        limit = config.return_limit
        self.returns = None if limit is None else ReturnScale(worlds, group.count, config.gamma, limit, device)
        self.beta = config.priority_beta
        self.errors = torch.zeros(0, device=device)
        self.made = torch.zeros((), dtype=torch.int64)
        self.demonstrations: Replay | None = None
        self._mirror = BatchMirror(group, device) if config.mirror else None

    def record_statistics(self, steps: int) -> None:
        """Take the latest control steps into the statistics of rewards and, where they are asked for, of observations."""
        if self.returns is not None:
            self.returns.record(*self.replay.latest_rewards(steps))
        if not self.config.normalize_observations:
            return
        self.norm.record(*self.replay.latest(steps))
        self.norm.commit()
        if self.states is not None:
            self.states.record(self.replay.latest_states(steps))
            self.states.commit()

    def learn_from(self, demonstrations: Replay) -> None:
        """Take a share of every batch from demonstrations."""
        self.demonstrations = demonstrations
        if self.config.normalize_observations:
            self.norm.record(*demonstrations.latest(demonstrations.size))
            self.norm.commit()

    def _critics(self, inputs: int, initial: torch.Generator) -> Ensemble:
        c = self.config
        sizes = (inputs, *c.hidden, c.atoms)
        return Ensemble(
            c.critics, sizes, c.activation, initial, c.critic_layer_norm, c.critic_dropout, c.critic_batch_norm,
            c.critic_unit_weights, c.critic_hypersphere,
        )  # fmt: skip

    def adam(self, network: nn.Module | Tensor) -> torch.optim.Adam:
        """An optimiser of a network, or of one tensor, with the state that Adam otherwise makes in its first step. AdamW
        without weight decay is Adam."""
        whole = isinstance(network, nn.Module)
        parameters = list(network.parameters()) if isinstance(network, nn.Module) else [network]
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
    def next_action(self, next_obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | float]:
        """Actions [B, D] whose values the targets have, and their bonus [B], see `backup`, for normalised observations [B, O]
        and normal noise [B, D]."""

    @torch.no_grad()
    def target_values(
        self, batch: Transitions, noise: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """What the critics learn of transitions, see `backup`, for normal noise [B, D] on the next actions; and the critics'
        inputs [B, S + O + D] at those."""
        next_obs = self.norm.normalize(batch.next_observation)
        action, bonus = self.next_action(next_obs, noise)
        following = torch.cat((self.seen(batch.next_state, next_obs), action), -1)
        return self.backup(batch, next_obs, action, generator, bonus), following

    @abc.abstractmethod
    def policy_step(
        self, obs: Tensor, seen: Tensor, weight: Tensor, noise: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Move the policy, for normalised observations [B, O], what critics see of them, shares of the rows in the loss [B] and
        normal noise [NOISES, B, D]; returns its figures."""

    @abc.abstractmethod
    def move_targets(self, policy: bool) -> None:
        """Let the targets follow after a gradient step, with or without one of the policy."""

    @torch.enable_grad()
    def descend(
        self, batch: Transitions, noise: Tensor, generator: torch.Generator | None = None, policy: bool = True
    ) -> Tensor:
        """One gradient step.

        Args:
            batch: what to learn from.
            noise: standard normal, [NOISES, B, D], the first for the next actions.
            generator: of the critics' dropout and of subsets of them.
            policy: whether the policy takes a step too.

        Returns:
            one number for each of FIGURES; those of the policy are 0 where it takes none.
        """
        obs = self.norm.normalize(batch.observation)
        seen = self.seen(batch.state, obs)
        weight = weights_of(batch.active)
        target, following = self.target_values(batch, noise[0], generator)
        figures = torch.zeros(len(self.FIGURES), device=obs.device)
        figures[0] = self.critic_step(batch, torch.cat((seen, batch.action), -1), following, target, weight, generator)
        if policy:
            figures[1:] = self.policy_step(obs, seen, weight, noise, generator)
        self.move_targets(policy)
        return figures

    def act(self, obs: Tensor, generator: torch.Generator, random: bool) -> Tensor:
        """Actions with exploration [N, A, D] for observations [N, A, O]; uniformly random ones on request."""
        if random:
            draw = torch.rand(*obs.shape[:-1], self.action_size, generator=generator, device=obs.device)
            return 2.0 * draw - 1.0
        rows = obs.shape[:-1].numel()
        return self.explore(obs, torch.randn(rows, self.action_size, generator=generator, device=obs.device))

    def seen(self, state: Tensor, obs: Tensor) -> Tensor:
        """What critics see [B, S + O] of states [B, S] and normalised observations [B, O]."""
        return obs if self.states is None else torch.cat((self.states.normalize(state), obs), -1)

    def outputs(self, critics: Ensemble, obs: Tensor, action: Tensor, generator: torch.Generator | None) -> Tensor:
        """What all critics give [C, B, K] for what they see, see `seen`, and actions [B, D]: values, K being 1, or logits of
        their distributions."""
        out: Tensor = critics(torch.cat((obs, action), -1), generator)
        return out

    def q_values(self, outputs: Tensor) -> Tensor:
        """The critics' values [C, B] of their outputs [C, B, K]."""
        return outputs.squeeze(-1) if self.categorical is None else self.categorical.mean(outputs)

    def backup(
        self, batch: Transitions, next_obs: Tensor, next_action: Tensor, generator: torch.Generator | None,
        bonus: Tensor | float = 0.0,
    ) -> Tensor:  # fmt: skip
        """What the critics learn of transitions: ``reward + discount * (next value + bonus)``, [B], or its distribution [B, K].

        The next value is the least of the target critics, or of a random subset of them; of distributions that with the least
        mean (FastTD3, Seo et al. 2025, arXiv 2505.22642). A terminated episode has no next value; a truncated one has that of
        its last observation.

        Args:
            batch: the transitions.
            next_obs: normalised observations [B, O] after them.
            next_action: [B, D], taken there.
            generator: of dropout and of the subset.
            bonus: [B], of the next action, such as its entropy.
        """
        c = self.config
        seen = self.seen(batch.next_state, next_obs)
        if c.critic_batch_norm:
            now = torch.cat((self.seen(batch.state, self.norm.normalize(batch.observation)), batch.action), -1)
            out = self._together(self.targets, batch, now, torch.cat((seen, next_action), -1), generator)[1]
        else:
            out = self.outputs(self.targets, seen, next_action, generator)
        if c.target_critics < c.critics:
            chosen = torch.randperm(c.critics, generator=generator, device=out.device)[: c.target_critics]
            out = out[chosen]
        q = self.q_values(out)
        if self.categorical is None:
            return batch.reward + batch.discount * torch.where(batch.terminated, 0.0, q.amin(0) + bonus)
        least = out[q.argmin(0), torch.arange(out.shape[1], device=out.device)].softmax(-1)
        discount = torch.where(batch.terminated, 0.0, batch.discount)
        return self.categorical.project(least, batch.reward + discount * bonus, discount)

    def policy_value(self, obs: Tensor, action: Tensor, generator: torch.Generator | None) -> Tensor:
        """Values [B] that the policy climbs."""
        q = self.q_values(self.outputs(self.critics, obs, action, generator))
        kind = self.config.policy_value
        return q.amin(0) if kind == "min" else q.mean(0) if kind == "mean" else q[0]

    def critic_step(
        self, batch: Transitions, now: Tensor, following: Tensor, target: Tensor, weight: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:  # fmt: skip
        """Move the critics towards targets, see `backup`, of their inputs at transitions, `now`, and after them, `following`,
        [B, S + O + D]; returns the loss."""
        if self.config.critic_batch_norm:
            out = self._together(self.critics, batch, now, following, generator)[0]
        else:
            out = self.critics(now, generator)
        if self.categorical is None:
            faults = 0.5 * (out.squeeze(-1) - target).square()
        else:
            faults = self.categorical.loss(out, target)
        if self.replay.priorities is not None:
            wanted = target if self.categorical is None else target @ self.categorical.values
            self.errors = (self.q_values(out.detach()) - wanted).abs().mean(0)
        if batch.importance is not None:
            weight = weight * batch.importance
        loss = (faults * weight).sum()
        descend_with(self.optimizers["critics"], loss)
        if self.critics.unit_weights:
            self.critics.project()
        return loss.detach()

    def _together(
        self, critics: Ensemble, batch: Transitions, now: Tensor, following: Tensor, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor]:
        """What critics with batch normalisation give at transitions and after them, [C, B, K] each, of one batch: present and
        next actions then have the same statistics (CrossQ, Bhatt et al. 2024, arXiv 1902.05605, section 3)."""
        counted = torch.cat((batch.active, batch.active & ~batch.terminated))
        out = critics(torch.cat((now, following)), generator, counted)
        first, second = out.chunk(2, 1)
        return first, second

    @torch.no_grad()
    def follow(self, targets: Ensemble, networks: Ensemble) -> None:
        """Let target networks take over their share."""
        for slow, fast in zip(targets.parameters(), networks.parameters(), strict=True):
            slow.lerp_(fast, self.config.tau)

    def set_learning_rate(self, rate: float) -> None:
        """The learning rate of the next gradient steps."""
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = rate

    def draw(self, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random numbers for gradient steps: those of the transitions, see `Replay.draw`, [U, B], and normal noise for
        `descend`, [U, NOISES, B, D]."""
        rows = self.config.batch
        index = self.replay.draw(steps * rows, generator).view(steps, rows)
        return index, torch.randn(steps, self.NOISES, rows, self.action_size, generator=generator, device=index.device)

    def set_progress(self, progress: float) -> None:
        """Let the importance weights make up for more of the priorities, wholly at a progress of 1."""
        self.beta = self.config.priority_beta + (1.0 - self.config.priority_beta) * progress

    def learn(self, index: Tensor, noise: Tensor, generator: torch.Generator) -> Tensor:
        """Gradient steps on drawn transitions, see `draw`; returns the means of `descend`'s figures over the steps made."""
        c = self.config
        sums = torch.zeros(len(self.FIGURES), device=index.device)
        counts = torch.zeros(len(self.FIGURES))
        for i, n in zip(index, noise, strict=True):
            self.made += 1
            policy = int(self.made) % c.policy_every == 0
            number = self.replay.place(i)[: len(i) - self._shown]
            sums += self.descend(self._batch(number, generator), n, generator, policy)
            if self.replay.priorities is not None:
                self.replay.priorities.update(number, self.errors[: len(number)])
            counts[: self.POLICY_FIGURES] += 1
            counts[self.POLICY_FIGURES :] += policy
        return sums / counts.clamp(min=1).to(sums.device)

    @property
    def _shown(self) -> int:
        """Transitions of a batch that are drawn from the demonstrations."""
        return 0 if self.demonstrations is None else round(self.config.demonstration_share * self.config.batch)

    def _batch(self, number: Tensor, generator: torch.Generator) -> Transitions:
        """The transitions with these numbers, behind them the demonstrations' share, and every other one mirrored where that is
        asked for."""
        out = self._drawn(number, generator)
        if self._mirror is not None:
            self._mirror.turn(out)
        return out

    def _drawn(self, number: Tensor, generator: torch.Generator) -> Transitions:
        c = self.config
        out = self.replay.take(number, c.gamma, c.n_step)
        if self.demonstrations is not None:
            out = out.joined(self.demonstrations.sample(self._shown, generator, c.gamma, c.n_step))
        if self.returns is not None:
            out = replace(out, reward=out.reward / self.returns.scale)
        if self.replay.priorities is None:
            return out
        importance = self.replay.priorities.weights(number, self.beta)
        # Demonstrations are drawn uniformly: their weight is 1 before all are divided by the largest.
        importance = torch.cat((importance, importance.new_ones(len(out.reward) - len(number))))
        return replace(out, importance=importance / importance.amax().clamp_min(1e-6))

    def policy(self) -> Policy:
        """What has been learnt so far: ``tanh`` of the network's first outputs."""
        c = self.config
        out = Policy(self.actor.sizes[0], self.action_size, c.hidden, c.activation, c.obs_clip, squash="tanh")
        out.mean.copy_(self.norm.mean)
        out.std.copy_(self.norm.std)
        for layer, weight, bias in zip(out.layers, self.actor.weights, self.actor.biases, strict=True):
            assert isinstance(layer, nn.Linear)
            layer.weight.data.copy_(weight[0, :, : layer.out_features].T)
            layer.bias.data.copy_(bias[0, 0, : layer.out_features])
        return out.eval()

    def parts(self) -> dict[str, Tensor]:
        """All tensors that keep their shape, by name."""
        out = {"made": self.made} | prefixed("norm", self.norm.state_dict())
        if self.states is not None:
            out |= prefixed("states", self.states.state_dict())
        if self.returns is not None:
            out |= prefixed("returns", self.returns.state_dict())
        for name in self.NETWORKS:
            network: Any = getattr(self, name)
            out |= prefixed(name, network.state_dict())
        for name, optimizer in self.optimizers.items():
            for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
                out |= prefixed(f"adam.{name}.{i}", optimizer.state[parameter])
        return out

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimisers, normaliser and replay memory."""
        return self.parts() | prefixed("replay", self.replay.state_dict())

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Raises RookeryError where a saved state does not fit."""
        check_state(self.parts(), state)
        self.replay.check_state(under("replay", state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a checked state."""
        for name, own in self.parts().items():
            own.copy_(state[name])
        self.replay.load_state_dict(under("replay", state))


def weights_of(active: Tensor) -> Tensor:
    """[B] shares of the rows in a loss: those of inactive agents are 0."""
    return active / active.sum().clamp(min=1)


def descend_with(optimizer: torch.optim.Adam, loss: Tensor) -> None:
    """One step of an optimiser down the gradient of a loss by its own parameters alone."""
    parameters = optimizer.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
