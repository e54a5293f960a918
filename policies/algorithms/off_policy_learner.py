"""The base of the learners of off-policy algorithms: critics and their targets, normalizer, replay memory, state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.policies.algorithms.chains import pictures_in
from rookery.policies.algorithms.off_policy_config import OffPolicyConfig
from rookery.policies.algorithms.off_policy_goals import hindsight_of
from rookery.policies.algorithms.off_policy_mirror import BatchMirror
from rookery.policies.algorithms.off_policy_networks import OffPolicyNetworks, descend_with
from rookery.policies.algorithms.picture_shift import PictureShift
from rookery.policies.nn.ensemble import Ensemble
from rookery.policies.storage.normalizers import ReturnScale
from rookery.policies.storage.pixels import Pixels
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.storage.replay import Replay
from rookery.policies.storage.rollout_messages import Row
from rookery.policies.storage.sequences import take_sequences
from rookery.policies.storage.transitions import Transitions
from rookery.policies.training.roles import ONE, Roles
from rookery.sim.buffers import under
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

__all__ = ["OffPolicyLearner", "subset"]


class OffPolicyLearner(OffPolicyNetworks):
    """Networks and replay memory of one group; a subclass adds the policy, and how it learns.

    Args:
        group: its declaration.
        worlds: N, of this process.
        steps: T, control steps in the replay memory.
        config: settings.
        initial: source of the initial weights, on the CPU.
        device: where everything lives.
        state_size: S, of the environment's state where the critics see it, else 0.
        outputs: numbers that the policy's network gives.
        codec: what of the observations the replay memory has in bytes; None for nothing.
        roles: of this process. The memory of the one that learns has the worlds of all, and that of others stays empty.

    Attributes:
        FIGURES: names of what `descend` returns; those from `POLICY_FIGURES` on are of the policy.
        NOISES: normal draws [B, D] that a gradient step takes.
        made: gradient steps made, a tensor of one number.
        hindsight: other goals for transitions; None without.
        demonstrations: a memory that gives a share of every batch, see `learn_from`; None without.
        returns: what rewards are divided by; None where they are taken as they are.
        beta: power of the importance weights of prioritised draws, see `Priorities.weights`.
        errors: [B] temporal-difference errors in the latest gradient step, means over the critics, where draws are prioritised.
    """

    FIGURES: ClassVar[tuple[str, ...]]
    POLICY_FIGURES: ClassVar[int] = 1
    NOISES: ClassVar[int]

    def __init__(
        self, group: Group, worlds: int, steps: int, config: OffPolicyConfig, initial: torch.Generator,
        device: torch.device, state_size: int, outputs: int, codec: Pixels | None = None, roles: Roles = ONE,
    ) -> None:  # fmt: skip
        super().__init__(group, worlds, config, initial, device, state_size, outputs, roles)
        remembered = 0 if self.live is None else self.live.now.shape[2]
        worlds *= roles.actors
        steps = steps if roles.learns else 1
        self.replay = Replay(
            steps, worlds, group.count, group.observation_size, self.action_size, device, state_size, config.priority_alpha,
            remembered, codec,
        )  # fmt: skip
        self.hindsight = hindsight_of(config, group, self.replay)
        limit = config.return_limit
        self.returns = None if limit is None else ReturnScale(worlds, group.count, config.gamma, limit, device)
        self.beta = config.priority_beta
        self.errors = torch.zeros(0, device=device)
        self.made = torch.zeros((), dtype=torch.int64)
        self.demonstrations: Replay | None = None
        self._mirror = BatchMirror(group, device) if config.mirror else None
        self._shift: PictureShift | None = None
        pictures = pictures_in(self.encoder)
        if pictures is not None and config.picture_shift > 0:
            self._shift = PictureShift(pictures, config.picture_shift)

    def store(self, row: Row) -> None:
        """Store a control step of all worlds."""
        self.replay.add(**row)  # type: ignore[arg-type]
        if self.hindsight is not None:
            self.hindsight.note()

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
        """Take a share of every batch from demonstrations.

        Raises:
            RookeryError: the networks have memory, whose states demonstrations lack.
        """
        if self.live is not None:
            raise RookeryError("demonstrations hold no states of memories: give memory=none, or leave the data out.")
        self.demonstrations = demonstrations
        if self.config.normalize_observations:
            self.norm.record(*demonstrations.latest(demonstrations.size))
            self.norm.commit()

    @torch.no_grad()
    def target_values(
        self, batch: Transitions, noise: Tensor, generator: torch.Generator | None = None
    ) -> tuple[Tensor, Tensor]:
        """Targets of the critics for transitions, see `backup`, for normal noise [B, D] on the next actions; and the critics'
        inputs [B, S + O + D] at those."""
        own, theirs = self.next_features_at(batch, self.norm.normalize(batch.next_observation))
        action, bonus = self.next_action(own, noise)
        following = torch.cat((self.seen(batch.next_state, theirs), action), -1)
        return self.backup(batch, theirs, action, generator, bonus), following

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
        weight = batch.active / batch.active.sum().clamp(min=1)  # those of inactive agents are 0
        target, following = self.target_values(batch, noise[0], generator)
        figures = torch.zeros(len(self.FIGURES), device=obs.device)
        seen = self.seen(batch.state, self.critic_features_at(self.features, batch, obs))
        figures[0] = self.critic_step(batch, torch.cat((seen, batch.action), -1), following, target, weight, generator)
        if policy:
            if self.features.trained:  # they have moved
                with torch.no_grad():
                    seen = self.seen(batch.state, self.critic_features_at(self.features, batch, obs))
            own = self.policy_features_at(self.actor_features, batch, obs)
            figures[1:] = self.policy_step(own, seen, weight, noise, generator)
        self.move_targets(policy)
        return figures

    def backup(
        self, batch: Transitions, next_features: Tensor, next_action: Tensor, generator: torch.Generator | None,
        bonus: Tensor | float = 0.0,
    ) -> Tensor:  # fmt: skip
        """Targets of the critics for transitions: ``reward + discount * (next value + bonus)``, [B], or its distribution [B,
        K].

        The next value is the least of the target critics, or of a random subset of them; of distributions that with the least
        mean (FastTD3, Seo et al. 2025, arXiv 2505.22642). A terminated episode has no next value; a truncated one has that of
        its last observation.

        Args:
            batch: the transitions.
            next_features: the critics' features [B, F] after them.
            next_action: [B, D], taken there.
            generator: of dropout and of the subset.
            bonus: [B], of the next action, such as its entropy.
        """
        c = self.config
        seen = self.seen(batch.next_state, next_features)
        if c.critic_batch_norm:
            now = torch.cat((self.seen(batch.state, self.norm.normalize(batch.observation)), batch.action), -1)
            out = self._together(self.targets, batch, now, torch.cat((seen, next_action), -1), generator)[1]
        else:
            out = self.outputs(self.targets, seen, next_action, generator)
        if c.target_critics < c.critics:
            out = out[subset(c.critics, c.target_critics, generator, out.device)]
        q = self.q_values(out)
        if self.categorical is None:
            return batch.reward + batch.discount * torch.where(batch.terminated, 0.0, q.amin(0) + bonus)
        least = out[q.argmin(0), torch.arange(out.shape[1], device=out.device)].softmax(-1)
        discount = torch.where(batch.terminated, 0.0, batch.discount)
        return self.categorical.project(least, batch.reward + discount * bonus, discount)

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
        """Outputs of critics with batch normalization at transitions and after them, [C, B, K] each, of one batch: present and
        next actions then have the same statistics (CrossQ, Bhatt et al. 2024, arXiv 1902.05605, section 3)."""
        counted = torch.cat((batch.active, batch.active & ~batch.terminated))
        out = critics(torch.cat((now, following)), generator, counted)
        first, second = out.chunk(2, 1)
        return first, second

    def draw(self, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random numbers for gradient steps: those of the transitions, see `Replay.draw`, [U, B], or of the windows of
        sequences, [U, S]; and normal noise for `descend`, [U, NOISES, B, D]."""
        c = self.config
        rows = c.batch
        index = self.replay.draw(steps * rows // c.sequence, generator, c.window).view(steps, -1)
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
            number = self.replay.place(i)[: len(i) - self.shown]
            sums += self.descend(self._batch(number, generator), n, generator, policy)
            if self.replay.priorities is not None:
                self.replay.priorities.update(number, self.errors[: len(number)])
            counts[: self.POLICY_FIGURES] += 1
            counts[self.POLICY_FIGURES :] += policy
        return sums / counts.clamp(min=1).to(sums.device)

    @property
    def shown(self) -> int:
        """Transitions of a batch that are drawn from the demonstrations."""
        return 0 if self.demonstrations is None else round(self.config.demonstration_share * self.config.batch)

    def _batch(self, number: Tensor, generator: torch.Generator) -> Transitions:
        """The transitions with these numbers, behind them the demonstrations' share, every other one mirrored and pictures
        shifted where that is asked for."""
        out = self._drawn(number, generator)
        if self._mirror is not None:
            self._mirror.turn(out)
        if self._shift is not None:
            self._shift.turn(out, generator)
        return out

    def _drawn(self, number: Tensor, generator: torch.Generator) -> Transitions:
        c = self.config
        if self.live is not None:
            out = take_sequences(self.replay, number, c.gamma, c.memory_steps, c.memory_burn_in)
        else:
            out = self.replay.take(number, c.gamma, c.n_step)
        if self.hindsight is not None:
            out = self.hindsight.relabel(number, out, generator)
        if self.demonstrations is not None:
            out = out.joined(self.demonstrations.sample(self.shown, generator, c.gamma, c.n_step))
        if self.returns is not None:
            out = replace(out, reward=out.reward / self.returns.scale)
        if self.replay.priorities is None:
            return out
        importance = self.replay.priorities.weights(number, self.beta)
        # Demonstrations are drawn uniformly: their weight is 1 before all are divided by the largest.
        importance = torch.cat((importance, importance.new_ones(len(out.reward) - len(number))))
        return replace(out, importance=importance / importance.amax().clamp_min(1e-6))

    def parts(self) -> dict[str, Tensor]:
        """All tensors that keep their shape, by name."""
        out = {"made": self.made} | prefixed("norm", self.norm.state_dict())
        if self.states is not None:
            out |= prefixed("states", self.states.state_dict())
        if self.returns is not None:
            out |= prefixed("returns", self.returns.state_dict())
        if self.live is not None:
            out["memory"] = self.live.now
        for name in self.NETWORKS:
            network: Any = getattr(self, name)
            out |= prefixed(name, network.state_dict())
        for name, optimizer in self.optimizers.items():
            for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
                out |= prefixed(f"adam.{name}.{i}", optimizer.state[parameter])
        return out

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimizers, normalizer and replay memory."""
        goals = {} if self.hindsight is None else prefixed("hindsight", self.hindsight.state_dict())
        return self.parts() | prefixed("replay", self.replay.state_dict()) | goals

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Raises RookeryError where a saved state does not fit."""
        check_state(self.parts(), state)
        self.replay.check_state(under("replay", state))
        if self.hindsight is not None:
            self.hindsight.check_state(under("hindsight", state), under("replay", state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a checked state."""
        for name, own in self.parts().items():
            own.copy_(state[name])
        self.replay.load_state_dict(under("replay", state))
        if self.hindsight is not None:
            self.hindsight.load_state_dict(under("hindsight", state))


def subset(count: int, size: int, generator: torch.Generator | None, device: torch.device | str = "cpu") -> Tensor:
    """`size` different numbers below `count`."""
    return torch.randperm(count, generator=generator, device=device)[:size]
