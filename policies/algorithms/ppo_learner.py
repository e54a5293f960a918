"""One group's part of PPO: networks, optimizer, normalizers and rollout.

Agents of a group that share weights are stacked into the batch: G = 1 set of weights, R = T N A rows. Where each agent
learns its own, G = A sets of weights learn from R = T N rows each, side by side in the same calls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rookery.policies.algorithms.chains import observation_norm, policy_chains
from rookery.policies.algorithms.mirror import symmetry_of
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.ppo_heads import MAX_LOG_RATIO, head_of
from rookery.policies.algorithms.ppo_memory import RolloutMemory
from rookery.policies.algorithms.ppo_reference import ReferencePolicy
from rookery.policies.algorithms.ppo_targets import samples_of
from rookery.policies.algorithms.weight_sets import WeightSet
from rookery.policies.nn.actor_critic import Worker
from rookery.policies.nn.adam import Adam
from rookery.policies.nn.build import perceptron_of, weight_count
from rookery.policies.nn.compiled import serves
from rookery.policies.nn.mlp import MLP
from rookery.policies.nn.state_estimator import StateEstimator
from rookery.policies.storage.normalizers import ObservationNorm, ValueNorm
from rookery.policies.storage.prefix import prefixed
from rookery.policies.storage.rollout import Rollout, Samples
from rookery.policies.training.reduction import ALONE, Reduction, own_part
from rookery.sim.buffers import under
from rookery.sim.elapsed import elapsed
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

if TYPE_CHECKING:
    from rookery.policies.algorithms.ppo_compiled import CompiledGradients

CHUNK_ROWS, CHUNK_SEQUENCES = 2048, 256
"""Rows, or sequences with memory, that go through a network at once on a CPU: their activations stay in a core's cache."""

WORKER_ROWS = 512
"""Least rows of a minibatch that are worth a thread."""


class GroupLearner:
    """One group's learner.

    Args:
        name: of the set of weights, or of the group where that is one.
        spec: declaration of the group.
        worlds: N.
        state_size: S, of the environment's state; 0 without a central critic.
        config: settings.
        generator: source of the initial weights, on the CPU.
        device: where everything lives.
        members: the agents, A in number; None for all of the group.

    Attributes:
        spec: declaration of the group, with as many agents as learn here.
        sets: G, number of independent sets of weights.
        actor_inputs: newest components of the observation that go to the policy's network.
        parameters: [G, P], of policy, critic and log_std.
        log_std: [G, 1, D] view of the parameters.
        learning_rate: [G, 1].
        chains: stages of the policy and the critic.
        estimator: predicts what the agents do not measure, or None.
        reduction: the processes that learn together.
        memory: the states of networks with memory, or None.
        sequence: steps of the sequences that minibatches consist of: 1 without memory, T with one.
        compiled: the workers' gradients in compiled kernels, or empty where torch computes them.

    Raises:
        RookeryError: fewer samples, or sequences, than minibatches; a picture that is too small for the encoder.
    """

    def __init__(
        self, name: str, spec: Group, worlds: int, state_size: int, config: PPOConfig, generator: torch.Generator,
        device: torch.device, members: WeightSet | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.members = WeightSet(name, tuple(range(spec.count)), True) if members is None else members
        self._agents = None if self.members.whole else torch.tensor(self.members.agents, device=device)
        spec = replace(spec, count=len(self.members.agents))
        self.spec = spec
        self.config = config
        self.device = device
        named = name != self.members.group  # a set of the setting `policies`, which shares
        self.sets = 1 if named or (config.share and name not in config.separate) else spec.count
        rows = config.rollout_steps * worlds * spec.count // self.sets
        remembers = config.memory != "none"
        self.sequence = config.rollout_steps if remembers else 1
        units = rows // self.sequence
        if units < config.minibatches:
            what = "samples" if self.sequence == 1 else "sequences (one for each world and agent)"
            raise RookeryError(
                f"{units} {what} cannot make {config.minibatches} minibatches: ask for fewer or more worlds."
            )
        cpu = device.type == "cpu"
        self.chunk = (CHUNK_SEQUENCES * self.sequence if remembers else CHUNK_ROWS) if cpu else rows
        most = min(rows // config.minibatches // WORKER_ROWS, units // config.minibatches)
        threads = min(torch.get_num_threads(), most) if cpu else 1
        self._make_networks(state_size, max(1, threads), generator)
        obs = spec.observation_size
        targets = self.estimator.size if self.estimator is not None else 0
        actor_input = self.actor_inputs + targets if targets or self.actor_inputs < obs else 0
        self.rollout = Rollout(
            config.rollout_steps, worlds, spec.count, obs, spec.action, state_size, device, actor_input, targets
        )
        self.observations = observation_norm(config, spec, device)
        self.states = ObservationNorm(state_size, config.obs_clip, device) if state_size else None
        self.returns = ValueNorm(self.sets, config.value_norm_beta, device) if config.normalize_values else None
        self.memory: RolloutMemory | None = None
        if remembers:
            self.memory = RolloutMemory(
                self.rows, self.sets, units, self.actor.state_size, config.rollout_steps, device
            )
        self.reduction: Reduction = ALONE
        self.reference = None if config.reference_kl_coef == 0.0 else ReferencePolicy(self)
        self.std = self.log_std.exp()
        self._shuffled: Samples | None = None
        self.explained_variance = torch.zeros((), device=device)

    def _make_networks(self, state_size: int, threads: int, generator: torch.Generator) -> None:
        c, spec = self.config, self.spec
        chains = self.chains = policy_chains(c, spec, state_size)
        self.estimator: StateEstimator | None = None
        if chains.targets:
            self.estimator = StateEstimator(
                spec, self.sets, hidden=c.estimator_hidden, activation=c.activation, learning_rate=c.estimator_learning_rate,
                max_grad_norm=c.max_grad_norm, obs_clip=c.obs_clip, privileged=c.estimator == "privileged",
                generator=generator, device=self.device,
            )  # fmt: skip
        self.actor_inputs = chains.actor_inputs
        self.head = head_of(spec.action)
        plain = not (chains.targets or spec.action.choices)
        plain = plain and not c.reference_kl_coef
        self._compile = c.compiled and plain and all(serves(x, self.device) for x in (chains.actor, chains.critic))
        self._one_input = state_size == 0 and self.actor_inputs == spec.observation_size
        actor, critic = perceptron_of(chains.actor), perceptron_of(chains.critic)
        before = weight_count(chains.actor) + weight_count(chains.critic)
        self.parameters = torch.zeros(self.sets, before + len(spec.action.names), device=self.device)
        self.workers: list[Worker] = []
        self.compiled: list[CompiledGradients] = []
        self.divide(threads)
        first = self.workers[0]
        self.actor, self.critic, self.gradients = first.actor, first.critic, first.gradients
        self.log_std = self.parameters[:, before:].unsqueeze(1)
        # A small last layer around the neutral action: training starts from a robot that hovers or holds its pose.
        self.actor.initialize(generator, 0.01, torch.tensor((*[0.0] * spec.action.options, *spec.action.neutral)))
        self.critic.initialize(generator, 1.0)
        self.symmetry = None
        if c.mirror and actor is not None and critic is not None:
            self.symmetry = symmetry_of(spec, state_size, actor, critic, self.device)
        if self.symmetry is not None:
            self.symmetry.tie(self.parameters, [n for n in (self.actor, self.critic) if isinstance(n, MLP)])
        self.log_std.fill_(torch.tensor(c.initial_std).log())
        self.adam = Adam(self.parameters, self.gradients, c.max_grad_norm, self._compile)
        self.learning_rate = torch.full((self.sets, 1), c.learning_rate, device=self.device)

    def divide(self, parts: int) -> None:
        """Have so many threads share every minibatch; the same number gives the same bits on any machine."""
        self.workers = self.workers[:parts]
        while len(self.workers) < parts:
            self.workers.append(Worker(self.parameters, self.chains.actor, self.chains.critic))
        if self._compile:
            from rookery.policies.algorithms.ppo_compiled import CompiledGradients

            actor, critic = perceptron_of(self.chains.actor), perceptron_of(self.chains.critic)
            assert actor is not None and critic is not None
            about = (actor, critic, self._one_input, self.config, MAX_LOG_RATIO)
            self.compiled = [CompiledGradients(self.parameters, w.gradients, *about) for w in self.workers]
        if self.estimator is not None:
            self.estimator.divide(parts)
            for worker, part in zip(self.workers, self.estimator.workers, strict=True):
                worker.estimator = part

    def share(self, reduction: Reduction) -> None:
        """Learn together with other processes, see `Algorithm.share`."""
        self.reduction = reduction
        estimator = () if self.estimator is None else (self.estimator.adam, self.estimator.scale)
        for part in (self.adam, self.observations, self.states, self.returns, *estimator):
            if part is not None:
                part.reduction = reduction

    # Collecting

    def own(self, values: Tensor) -> Tensor:
        """Those of the learner's agents [N, A, ...], of all agents of the group."""
        return values if self._agents is None else values[:, self._agents]

    def put(self, own: Tensor, into: Tensor) -> None:
        """The other way round."""
        into[:, slice(None) if self._agents is None else self._agents] = own

    def start(self, generator: torch.Generator) -> None:
        """Begin an iteration: fresh noise, and the policy's standard deviation as it is now."""
        self.rollout.clear()
        self.head.start(self.rollout, generator, self.reduction)
        self.std = self.log_std.exp()
        if self.memory is not None:
            self.memory.start()

    def mean_action(self, actor_input: Tensor) -> Tensor:
        """The policy's mean action [N, A, D], before it the logits of choices, for inputs [N, A, K]; valid until the next call.
        A memory makes a step."""
        if self.memory is not None:
            return self.memory.mean_action(self.actor, actor_input)
        return self.actor.forward_agents(actor_input)

    def actor_input(self, obs: Tensor, targets: Tensor | None, reveal_future_mask: Tensor | None) -> Tensor:
        """Input of the policy's network [N, A, K] for normalized observations [N, A, O] and targets [N, A, M]; see
        StateEstimator.predict."""
        newest = obs[..., obs.shape[-1] - self.actor_inputs :]
        if self.estimator is None or targets is None:
            return newest
        return torch.cat((newest, self.estimator.predict(obs, targets, reveal_future_mask)), -1)

    def sample(
        self, t: int, obs: Tensor, state: Tensor | None, active: Tensor | None, privileged_targets: Tensor | None = None,
        reveal_future_mask: Tensor | None = None, action_mask: Tensor | None = None, deciding: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Actions [N, A, D] with exploration; everything goes to row t of the rollout.

        Args:
            t: row.
            obs: raw observations [N, A, O].
            state: [N, S], for a central critic.
            active: [N, A] bool.
            privileged_targets: [N, A, M], of the state estimator.
            reveal_future_mask: [N] bool, see StateEstimator.predict.
            action_mask: [N, A, C] bool, the options that are allowed; None for all.
            deciding: [N, A] bool, who takes a decision; of `OptionLearner`, where not everybody does at every step.
        """
        roll = self.rollout
        roll.set_active(t, active)
        if self.config.normalize_observations:
            self.observations.record(obs, active)
        actor_input = self.observations.normalize(obs, out=roll.observation[t])
        if self.states is not None and roll.state is not None:
            assert state is not None
            if self.config.normalize_observations:
                self.states.record(state)
            self.states.normalize(state, out=roll.state[t])
        targets = None
        if self.estimator is not None and privileged_targets is not None and roll.privileged_targets is not None:
            if self.config.normalize_observations:
                self.estimator.scale.record(privileged_targets, active)
            targets = self.estimator.scale.normalize(privileged_targets, out=roll.privileged_targets[t])
        if roll.actor_input is not None:
            actor_input = roll.actor_input[t].copy_(self.actor_input(actor_input, targets, reveal_future_mask))
        std = self.std if self.sets == 1 else self.std.transpose(0, 1)
        self.head.sample(roll, t, self.mean_action(actor_input), std, action_mask)
        return roll.action[t].clone()

    def record(self, t: int, reward: Tensor, terminated: Tensor, truncated: Tensor, info: dict) -> None:  # type: ignore[type-arg]
        """Store the outcome of the actions of row t; rewards [N, A] and `info` are of all agents of the group."""
        roll = self.rollout
        group = self.members.group
        reward = self.own(reward)
        if reward.shape != roll.reward.shape[1:]:
            raise RookeryError(
                f"group {group!r} has rewards of shape {tuple(reward.shape)}, and PPO takes {tuple(roll.reward.shape[1:])}: "
                "give a vector reward's weights to rookery.sim.envs.scalarize.LinearScalarization, or sum its terms."
            )
        roll.put_outcome(t, reward, terminated, truncated)
        if self.memory is not None:
            self.memory.end_episodes(roll.terminated[t] | roll.truncated[t], self.spec.count)
        spans = elapsed(info, group)
        roll.set_elapsed(t, spans if spans is None or spans.shape[1] == 1 else self.own(spans))
        if "final_active" in info and group in info["final_active"]:
            roll.final_active[t].copy_(self.own(info["final_active"][group]))
        if "final_observation" in info:
            last = self.own(info["final_observation"][group])
            ids, obs = self.observations.gather_last(last, terminated, truncated)
            state = self.states.normalize(info["final_state"][ids]) if self.states is not None else None
            roll.finals.append((t, ids, obs, state))

    # Learning

    def entropy(self) -> Tensor:
        """Entropy of the policy, nats: mean over independent sets of weights and, of choices, over the rollout."""
        roll = self.rollout
        if roll.choice_log_probs is None:
            return self.head.entropy(None, self.log_std).mean()
        out = self.head.entropy(self.rows(roll.choice_log_probs), self.log_std)
        return out.mean() if roll.active is None else out[self.rows(roll.active.unsqueeze(-1)).squeeze(-1)].mean()

    def rows(self, x: Tensor) -> Tensor:
        """[..., A, k] as rows [G, R, k]."""
        rows = math.prod(x.shape[:-1]) // self.sets  # not -1: k may be 0
        if self.sets == 1:
            return x.reshape(1, rows, x.shape[-1])
        return x.movedim(-2, 0).reshape(self.sets, rows, x.shape[-1])

    def critic_input(self, obs: Tensor, state: Tensor | None) -> Tensor:
        """Rows [G, R, C] for normalized [..., A, O] and [..., S]."""
        if state is not None:
            state = state.unsqueeze(-2).expand(*obs.shape[:-1], state.shape[-1])
            obs = torch.cat((state, obs), -1)
        return self.rows(obs)

    def values(self, x: Tensor) -> Tensor:
        """Outputs [G, R] of a critic without memory for its inputs [G, R, C]."""
        out = torch.empty(x.shape[:2], device=self.device)
        for start in range(0, x.shape[1], self.chunk):
            piece = x[:, start : start + self.chunk]
            out[:, start : start + self.chunk] = self.critic.forward(piece).squeeze(2)
        return out

    def samples(
        self, last_obs: Tensor, last_state: Tensor | None, last_active: Tensor | None, deciding: Tensor | None = None
    ) -> Samples:
        """Values, advantages and targets of the collected rollout; the arguments follow its last row (raw)."""
        return self.compared(samples_of(self, last_obs, last_state, last_active))

    def compared(self, samples: Samples) -> Samples:
        """The same samples, with what the reference policy would do where there is one."""
        if self.reference is not None:
            self.reference.compare(self, samples)
        return samples

    def begun(self) -> None:
        """Hold near to the policy that has been put in, where that is asked for, and see that it acts alike left and right."""
        if self.reference is not None:
            self.reference.take(self.parameters)
        if self.symmetry is not None and not self.symmetry.holds(self.parameters):
            raise RookeryError("the policy to start from does not act alike left and right: leave mirror out.")

    def epoch(self, samples: Samples, generator: torch.Generator) -> Iterator[tuple[Samples, slice, int | Tensor]]:
        """Shuffle, then give the minibatches, one for each sample where these are fewer: shuffled samples, the rows of each,
        and how many of all processes count in it, [G, 1] or one number."""
        units = samples.action.shape[1] // self.sequence * self.reduction.size
        number = min(self.config.minibatches, units)
        order = torch.randperm(units, generator=generator, device=self.device)
        ends = [units * i // max(1, number) for i in range(number + 1)]
        own = ends
        if self.reduction.size > 1:
            worlds, each = self.rollout.reward.shape[1], self.spec.count // self.sets
            order, own = own_part(order, ends, worlds, each, self.reduction)
        bounds = [b * self.sequence for b in own]
        rows = order if self.memory is None else self.memory.order(order, bounds, len(self.workers), self.chunk)
        if self._shuffled is not None and self._shuffled.action.shape != samples.action.shape:
            self._shuffled = None  # decisions differ in number from rollout to rollout
        self._shuffled = samples.shuffled(rows, self._shuffled, order)
        minibatches = [slice(*ends) for ends in pairwise(bounds)]
        counts: Sequence[int | Tensor] = [(stop - start) * self.sequence for start, stop in pairwise(ends)]
        if (active := self._shuffled.active) is not None:
            own_counts = torch.stack([active[:, x].sum(1, keepdim=True) for x in minibatches])
            counts = list(self.reduction.sum(own_counts).clamp(min=1))
        for part, counted in zip(minibatches, counts, strict=True):
            yield self._shuffled, part, counted

    def finish(self) -> None:
        """End an iteration: its observations count in the normalizers from now on."""
        if self.config.normalize_observations:
            self.observations.commit()
            if self.states is not None:
                self.states.commit()
            if self.estimator is not None:
                self.estimator.scale.commit()

    def grid(self, rows: Tensor, steps: int) -> Tensor:
        """Rows [G, R] back as [T, N, A]."""
        if self.sets == 1:
            return rows.view(steps, -1, self.spec.count)
        return rows.view(self.sets, steps, -1).movedim(0, -1)

    # Keeping

    def _parts(self) -> dict[str, Any]:
        """Parts with a state of their own, by the prefix of its names."""
        parts = {"adam": self.adam, "observations": self.observations, "states": self.states, "returns": self.returns}
        parts |= {"estimator": self.estimator, "memory": self.memory, "reference": self.reference}
        return {name: part for name, part in parts.items() if part is not None}

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimizer, normalizers, memories, learning rate and number of threads, 0 on a GPU, by name (not copied)."""
        state = {"parameters": self.parameters, "learning_rate": self.learning_rate}
        for name, part in self._parts().items():
            state |= prefixed(name, part.state_dict())
        return state | {"threads": torch.tensor(len(self.workers) if self.device.type == "cpu" else 0)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Put a saved state back, in place."""
        self.parameters.copy_(state["parameters"])
        self.learning_rate.copy_(state["learning_rate"])
        for name, part in self._parts().items():
            part.load_state_dict(under(name, state))
        if self.device.type == "cpu" and (threads := int(state["threads"])):  # 0: it was on a GPU
            self.divide(threads)
