"""All that PPO holds for one group of agents: networks, optimiser, normalisers and the samples of an iteration.

Agents of a group that share weights are stacked into the batch: G = 1 set of weights, R = T N A rows. Where each agent
learns its own, G = A sets of weights learn from R = T N rows each, side by side in the same calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from rookery.policies.buffer import Rollout, gae
from rookery.policies.config import PPOConfig
from rookery.policies.networks import MLP, Adam, parameter_count
from rookery.policies.normalizers import ObservationNorm, ValueNorm
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Group

F = TypeVar("F", bound=Callable[..., Any])

CHUNK_ROWS = 2048
"""Rows that go through a network at once on a CPU: the activations of 64-wide layers then stay in a core's cache."""


@dataclass
class Samples:
    """What one update learns from, as rows [G, R, ...] of all steps, worlds and agents.

    Attributes:
        observation: normalised [G, R, O].
        critic_input: [G, R, C], the very same tensor as `observation` unless the critic is central.
        action: [G, R, D].
        log_prob: of the action under the policy that took it, without the constant [G, R].
        advantage: [G, R].
        target: what the critic shall say, in units of its output [G, R].
        value: what it said, in the same units [G, R].
        active: [G, R] bool, or None when every row counts.
    """

    observation: Tensor
    critic_input: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    value: Tensor
    active: Tensor | None

    def shuffled(self, order: Tensor, out: Samples | None) -> Samples:
        """A copy with rows in that order [R], in `out`'s memory if given."""
        new: dict[str, Tensor | None] = {}
        for name, rows in vars(self).items():
            if rows is None or (name == "critic_input" and rows is self.observation):
                continue
            memory = getattr(out, name) if out is not None else None
            new[name] = torch.index_select(rows, 1, order, out=memory)
        new.setdefault("critic_input", new["observation"])
        new.setdefault("active", None)
        return Samples(**new)  # type: ignore[arg-type]

    def chunks(self, rows: slice, size: int) -> Iterator[Samples]:
        """Views of consecutive pieces of `rows`, each at most `size` long."""
        for start in range(rows.start, rows.stop, size):
            piece = slice(start, min(start + size, rows.stop))
            yield Samples(**{k: None if v is None else v[:, piece] for k, v in vars(self).items()})


def one_thread_each(method: F) -> F:
    """Run a method, and every torch operation in it, on the calling thread alone.

    Threads inside an operation meet several thousand times in an update, and wait for each other by spinning: beside an
    engine's own threads, or any other program, that has been seen to slow training tenfold. Workers meet 16 times.
    """

    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return method(*args, **kwargs)
        finally:
            torch.set_num_threads(threads)

    return cast(F, wrapped)


class Worker:
    """What one thread needs to learn from its part of a minibatch: gradients and memory of its own, weights in common.

    Args:
        parameters: [G, P], of policy, critic and log_std in that order.
        actor, critic: layer widths.
        activation: of both.

    Attributes:
        gradients: [G, P].
        log_std: [G, 1, D] view of them.
    """

    def __init__(self, parameters: Tensor, actor: tuple[int, ...], critic: tuple[int, ...], activation: str) -> None:
        self.gradients = torch.zeros_like(parameters)
        a, c = parameter_count(actor), parameter_count(critic)
        p, g = parameters, self.gradients
        self.actor = MLP(p[:, :a], g[:, :a], actor, activation)
        self.critic = MLP(p[:, a : a + c], g[:, a : a + c], critic, activation)
        self.log_std = g[:, a + c :].unsqueeze(1)


class Agents:
    """One group's learner.

    Args:
        name: of the group.
        spec: its declaration.
        worlds: N.
        state_size: S, of the environment's state; used only by a central critic.
        config: settings.
        generator: source of the initial weights, on the CPU.
        device: where everything lives.

    Attributes:
        sets: G, number of independent sets of weights.
        log_std: [G, 1, D] view of the parameters.
        learning_rate: [G, 1].
    """

    def __init__(
        self,
        name: str,
        spec: Group,
        worlds: int,
        state_size: int,
        config: PPOConfig,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.name, self.spec, self.config, self.device = name, spec, config, device
        shared = config.share and name not in config.separate
        obs, act = spec.observation_size, spec.action.size
        state = state_size if config.critic == "central" else 0
        self.sets = 1 if shared else spec.count
        critic_hidden = config.hidden if config.critic_hidden is None else config.critic_hidden
        actor_sizes, critic_sizes = (obs, *config.hidden, act), (obs + state, *critic_hidden, 1)
        a, c = parameter_count(actor_sizes), parameter_count(critic_sizes)
        self.parameters = torch.zeros(self.sets, a + c + act, device=device)
        p = self.parameters
        self.log_std = p[:, a + c :].unsqueeze(1)
        threads = torch.get_num_threads() if device.type == "cpu" else 1
        self.workers = [Worker(p, actor_sizes, critic_sizes, config.activation) for _ in range(threads)]
        first = self.workers[0]
        self.actor, self.critic, self.gradients = first.actor, first.critic, first.gradients
        # A small last layer around the neutral action: training starts from a robot that hovers or holds its pose.
        self.actor.initialize(generator, 0.01, torch.tensor(spec.action.neutral))
        self.critic.initialize(generator, 1.0)
        self.log_std.fill_(torch.tensor(config.initial_std).log())
        self.adam = Adam(p, self.gradients, config.max_grad_norm)
        self.learning_rate = torch.full((self.sets, 1), config.learning_rate, device=device)
        self.observations = ObservationNorm(obs, config.obs_clip, device)
        self.states = ObservationNorm(state, config.obs_clip, device) if state else None
        self.returns = ValueNorm(self.sets, config.value_norm_beta, device) if config.normalize_values else None
        self.rollout = Rollout(config.steps, worlds, spec.count, obs, act, state, device)
        self.std = self.log_std.exp()
        self._shuffled: Samples | None = None
        self.explained_variance = torch.zeros((), device=device)
        rows = config.steps * worlds * spec.count // self.sets
        self.bounds = [rows * i // config.minibatches for i in range(config.minibatches + 1)]
        if rows < config.minibatches:
            raise RookeryError(f"{rows} samples cannot make {config.minibatches} minibatches: ask for fewer or more worlds.")
        self.chunk = CHUNK_ROWS if device.type == "cpu" else rows

    # Collecting

    def start(self, generator: torch.Generator) -> None:
        """Begin an iteration: fresh noise, and the policy's spread as it stands now."""
        self.rollout.clear()
        self.rollout.noise.normal_(generator=generator)
        self.std = self.log_std.exp()

    def mean_action(self, obs: Tensor) -> Tensor:
        """The policy's mean action [N, A, D] for normalised observations [N, A, O]; valid until the next call."""
        n, count, size = obs.shape
        if self.sets == 1:
            return self.actor.forward(obs.reshape(1, n * count, size)).view(n, count, -1)
        return self.actor.forward(obs.transpose(0, 1)).transpose(0, 1)

    def sample(self, t: int, obs: Tensor, state: Tensor | None, active: Tensor | None) -> Tensor:
        """Actions [N, A, D] with exploration, for raw observations [N, A, O]; notes everything in row t."""
        roll = self.rollout
        roll.set_active(t, active)
        if self.config.normalize_observations:
            self.observations.record(obs, active)
        normalized = self.observations.normalize(obs, out=roll.observation[t])
        if self.states is not None and roll.state is not None:
            assert state is not None
            if self.config.normalize_observations:
                self.states.record(state)
            self.states.normalize(state, out=roll.state[t])
        std = self.std if self.sets == 1 else self.std.transpose(0, 1)
        torch.addcmul(self.mean_action(normalized), std, roll.noise[t], out=roll.action[t])
        return roll.action[t].clone()

    def record(self, t: int, reward: Tensor, terminated: Tensor, truncated: Tensor, info: dict) -> None:  # type: ignore[type-arg]
        """Note what came of the actions of row t."""
        roll = self.rollout
        if reward.shape != roll.reward[t].shape:
            raise RookeryError(
                f"group {self.name!r} has rewards of shape {tuple(reward.shape)}, and PPO takes "
                f"{tuple(roll.reward[t].shape)}: sum the terms with weights in the task instead of a vector reward."
            )
        roll.reward[t].copy_(reward)
        roll.terminated[t].copy_(terminated)
        roll.truncated[t].copy_(truncated)
        if "final_observation" in info:
            ids = (truncated & ~terminated).nonzero().squeeze(1)
            obs = self.observations.normalize(info["final_observation"][self.name][ids])
            state = self.states.normalize(info["final_state"][ids]) if self.states is not None else None
            roll.finals.append((t, ids, obs, state))

    # Learning

    def rows(self, x: Tensor) -> Tensor:
        """[..., A, k] as rows [G, R, k]."""
        if self.sets == 1:
            return x.reshape(1, -1, x.shape[-1])
        return x.movedim(-2, 0).reshape(self.sets, -1, x.shape[-1])

    def values(self, obs: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """The critic's input and output as rows [G, R, C] and [G, R] for normalised [..., A, O] and [..., S]."""
        if state is not None:
            state = state.unsqueeze(-2).expand(*obs.shape[:-1], state.shape[-1])
            obs = torch.cat((state, obs), -1)
        x = self.rows(obs)
        out = torch.empty(x.shape[:2], device=self.device)
        for start in range(0, x.shape[1], self.chunk):
            piece = x[:, start : start + self.chunk]
            out[:, start : start + self.chunk] = self.critic.forward(piece).squeeze(2)
        return x, out

    def samples(self, last_obs: Tensor, last_state: Tensor | None, last_active: Tensor | None) -> Samples:
        """Values, advantages and targets of the collected rollout; the arguments follow its last row (raw)."""
        c, roll = self.config, self.rollout
        if self.states is not None and last_state is not None:
            last_state = self.states.normalize(last_state)
        else:
            last_state = None
        critic_input, value = self.values(roll.observation, roll.state)
        last = self.values(self.observations.normalize(last_obs), last_state)[1]
        denormalize = self.returns.denormalize if self.returns is not None else _same
        grid = self._grid(denormalize(value), c.steps)
        last_grid = self._grid(denormalize(last), 1)[0]
        final = self._final_values(denormalize)
        terminated, truncated = roll.terminated.unsqueeze(-1), roll.truncated.unsqueeze(-1)
        if roll.active is not None:
            # An agent that drops out while the episode goes on has had its last reward.
            now = torch.ones_like(roll.active[0]) if last_active is None else last_active
            following = torch.cat((roll.active[1:], now.unsqueeze(0)))
            terminated = terminated | (~following & ~truncated)
        advantage = gae(roll.reward, grid, final, last_grid, terminated, truncated, c.gamma, c.lam)
        active = None if roll.active is None else self.rows(roll.active.unsqueeze(-1)).squeeze(2)
        returns = self.rows((advantage + grid).unsqueeze(-1)).squeeze(2)
        advantage = self.rows(advantage.unsqueeze(-1)).squeeze(2)
        mean, std = moments(advantage, active)
        self.explained_variance = 1.0 - (std / moments(returns, active)[1].clamp(min=1e-8)).square().mean()
        if c.normalize_advantages:
            advantage = (advantage - mean) / (std + 1e-8)
        if self.returns is not None:
            self.returns.update(returns, active)
            returns = self.returns.normalize(returns)
        observation = critic_input if roll.state is None else self.rows(roll.observation)
        log_prob = self.rows(roll.noise).square().sum(-1).mul_(-0.5) - self.log_std.sum(-1)
        return Samples(
            observation, critic_input, self.rows(roll.action), log_prob, advantage, returns, value, active
        )

    def epoch(self, samples: Samples, generator: torch.Generator) -> Iterator[tuple[Samples, slice]]:
        """Shuffle, then give the minibatches: the shuffled samples and the rows of each."""
        order = torch.randperm(samples.advantage.shape[1], generator=generator, device=self.device)
        reuse = self._shuffled
        if reuse is not None and (reuse.active is None) != (samples.active is None):
            reuse = None
        self._shuffled = samples.shuffled(order, reuse)
        for start, stop in zip(self.bounds, self.bounds[1:], strict=False):
            yield self._shuffled, slice(start, stop)

    def finish(self) -> None:
        """End an iteration: what was observed in it counts from now on."""
        if self.config.normalize_observations:
            self.observations.commit()
            if self.states is not None:
                self.states.commit()

    def _grid(self, rows: Tensor, steps: int) -> Tensor:
        """Rows [G, R] back as [T, N, A]."""
        if self.sets == 1:
            return rows.view(steps, -1, self.spec.count)
        return rows.view(self.sets, steps, -1).movedim(0, -1)

    def _final_values(self, denormalize) -> Tensor:  # type: ignore[no-untyped-def]
        """V of the last observations of truncated episodes, [T, N, A], zero elsewhere."""
        roll = self.rollout
        out = torch.zeros_like(roll.reward)
        finals = [f for f in roll.finals if len(f[1])]
        if not finals:
            return out
        state = None if self.states is None else torch.cat([f[3] for f in finals if f[3] is not None])
        value = denormalize(self.values(torch.cat([f[2] for f in finals]), state)[1])
        t = torch.cat([torch.full_like(f[1], f[0]) for f in finals])
        out[t, torch.cat([f[1] for f in finals])] = self._grid(value, 1)[0]
        return out

    # Keeping

    def policies(self) -> dict[str, Policy]:
        """The deterministic policies as they are now: one under the group's name, or "<group>_<i>" for each agent."""
        out = {}
        for g in range(self.sets):
            c = self.config
            policy = Policy(self.spec.observation_size, self.spec.action.size, c.hidden, c.activation, c.obs_clip)
            policy.mean.copy_(self.observations.mean)
            policy.std.copy_(self.observations.std)
            for layer, weight, bias in zip(policy.layers, self.actor.weights, self.actor.biases, strict=True):
                layer.weight.data.copy_(weight[g].T)
                layer.bias.data.copy_(bias[g, 0])
            out[self.name if self.sets == 1 else f"{self.name}_{g}"] = policy
        return out

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """All that must survive, in the two files "model" and "optimizer" (not copied)."""
        model = {"parameters": self.parameters, **_prefixed("observations", self.observations)}
        if self.states is not None:
            model |= _prefixed("states", self.states)
        if self.returns is not None:
            model |= _prefixed("returns", self.returns)
        optimizer = {"first": self.adam.first, "second": self.adam.second, "learning_rate": self.learning_rate}
        return {"model": model, "optimizer": optimizer}

    def load_state_dict(self, state: dict[str, dict[str, Tensor]], steps: int) -> None:
        """Put a saved state back, in place; `steps` counts the optimiser's steps."""
        for part, tensors in self.state_dict().items():
            for name, tensor in tensors.items():
                tensor.copy_(state[part][name])
        self.adam.steps = steps


def moments(x: Tensor, active: Tensor | None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over the active entries of each row, [G, R] -> [G, 1] each."""
    if active is None:
        return x.mean(1, keepdim=True), x.std(1, keepdim=True, correction=0)
    n = active.sum(1, keepdim=True).clamp(min=1)
    mean = torch.where(active, x, 0.0).sum(1, keepdim=True) / n
    return mean, (torch.where(active, (x - mean).square(), 0.0).sum(1, keepdim=True) / n).sqrt()


def _same(x: Tensor) -> Tensor:
    return x


def _prefixed(prefix: str, norm: ObservationNorm | ValueNorm) -> dict[str, Tensor]:
    return {f"{prefix}.{k}": v for k, v in norm.state_dict().items()}
