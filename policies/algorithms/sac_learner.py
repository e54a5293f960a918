"""SAC's learner of one group: policy, critics, temperature, their gradient steps, and the replay memory."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.nn.compiled import fits
from rookery.policies.policy import ACTIVATIONS, Policy
from rookery.policies.storage.normalizers import ObservationNorm
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.policies.storage.replay import Replay, Transitions
from rookery.sim.buffers import under
from rookery.sim.specs import Group

if TYPE_CHECKING:
    from rookery.policies.algorithms.sac_compiled import CompiledSteps

__all__ = ["FIGURES", "Learner", "squashed_sample"]

FIGURES = ("critic_loss", "policy_loss", "entropy", "value", "temperature")
"""What `Learner.descend` returns, in this order."""

LOG_STD_MIN = -20.0
LOG_STD_MAX = 2.0
"""Limits of the policy's log standard deviation, as in the authors' code (github.com/rail-berkeley/softlearning)."""


class Learner:
    """Policy, critics, temperature and replay memory of one group.

    Args:
        group: its declaration.
        worlds: N.
        steps: T, control steps in the replay memory.
        config: settings.
        initial: source of the initial weights, on the CPU.
        device: where everything lives.
    """

    def __init__(
        self, group: Group, worlds: int, steps: int, config: SACConfig, initial: torch.Generator, device: torch.device
    ) -> None:
        self.config = config
        obs = group.observation_size
        act = group.action.size
        self.target_entropy = -float(act) if config.target_entropy is None else config.target_entropy
        self.actor = MLP(1, (obs, *config.hidden, 2 * act), config.activation, initial).to(device)
        # The policy begins around the neutral action: tanh(atanh(neutral)) = neutral.
        neutral = torch.tensor(group.action.neutral, device=device).clamp(-0.99, 0.99)
        self.actor.biases[-1].data[0, 0, :act] += neutral.atanh()
        self.actor.biases[-1].data[0, 0, act:] += math.log(config.initial_std)
        sizes = (obs + act, *config.hidden, 1)
        self.critics = MLP(2, sizes, config.activation, initial).to(device)
        self.targets = MLP(2, sizes, config.activation, initial).to(device).requires_grad_(False)
        self.targets.load_state_dict(self.critics.state_dict())
        self.log_temperature = torch.tensor(math.log(config.initial_temperature), device=device, requires_grad=True)
        self.optimizers = {
            "actor": torch.optim.Adam(self.actor.parameters(), config.learning_rate, fused=True),
            "critics": torch.optim.Adam(self.critics.parameters(), config.learning_rate, fused=True),
            "temperature": torch.optim.Adam([self.log_temperature], config.learning_rate),
        }
        for optimizer in self.optimizers.values():
            _allocate_moments(optimizer)
        self.norm = ObservationNorm(obs, config.obs_clip, device)
        self.replay = Replay(steps, worlds, group.count, obs, act, device)
        self.action_size = act
        small = config.compiled and fits(config.hidden, device)
        self.compiled = self._compile() if small else None

    def _compile(self) -> CompiledSteps:
        from rookery.policies.algorithms.sac_compiled import CompiledSteps

        return CompiledSteps(self, (LOG_STD_MIN, LOG_STD_MAX))

    def act(self, obs: Tensor, generator: torch.Generator, random: bool) -> Tensor:
        """Actions with exploration [N, A, D] for observations [N, A, O]; uniformly random ones on request."""
        if random:
            draw = torch.rand(*obs.shape[:-1], self.action_size, generator=generator, device=obs.device)
            return 2.0 * draw - 1.0
        rows = obs.flatten(0, 1)
        noise = torch.randn(len(rows), self.action_size, generator=generator, device=obs.device)
        if self.compiled is not None:
            actions = self.compiled.act(rows, noise)
        else:
            actions = self.sample(self.norm.normalize(rows), noise)[0]
        return actions.view(*obs.shape[:-1], -1)

    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions [B, D] of the policy, and their log-probabilities [B], for normalised observations [B, O] and normal
        noise [B, D]."""
        mean, log_std = self.actor(obs)[0].chunk(2, -1)
        return squashed_sample(mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX), noise)

    def q_values(self, critics: MLP, obs: Tensor, action: Tensor) -> Tensor:
        """Both critics' values [2, B] of normalised observations [B, O] and actions [B, D]."""
        out: Tensor = critics(torch.cat((obs, action), -1)).squeeze(-1)
        return out

    @torch.no_grad()
    def target_values(self, batch: Transitions, noise: Tensor) -> Tensor:
        """Value targets [B]: reward + discount (min Q'(s', a') - temperature log pi(a'|s')), equations 2, 3 and 5 of the paper.

        A terminated episode has no next value; a truncated one has that of its last observation. Over several steps the
        entropies on the way are left out.
        """
        next_obs = self.norm.normalize(batch.next_observation)
        next_action, next_log_prob = self.sample(next_obs, noise)
        next_q = self.q_values(self.targets, next_obs, next_action).amin(0)
        soft_value = next_q - self.log_temperature.exp() * next_log_prob
        return batch.reward + batch.discount * torch.where(batch.terminated, 0.0, soft_value)

    def set_learning_rate(self, rate: float) -> None:
        """The learning rate of the next gradient steps."""
        for optimizer in self.optimizers.values():
            optimizer.param_groups[0]["lr"] = rate

    def draw(self, steps: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Random numbers for gradient steps: those of the transitions, [U, B], and normal noise for `descend`,
        [U, 2, B, D]."""
        rows = self.config.batch
        index = self.replay.draw(steps * rows, generator).view(steps, rows)
        return index, torch.randn(steps, 2, rows, self.action_size, generator=generator, device=index.device)

    def learn(self, index: Tensor, noise: Tensor) -> Tensor:
        """Gradient steps on drawn transitions, see `draw`; returns the sums of `descend`'s figures, [5]."""
        if self.compiled is not None:
            return self.compiled.learn(index, noise)
        sums = torch.zeros(len(FIGURES), device=index.device)
        for i, n in zip(index, noise, strict=True):
            sums += self.descend(self.replay.take(i, self.config.gamma, self.config.n_step), n)
        return sums

    @torch.enable_grad()
    def descend(self, batch: Transitions, noise: Tensor) -> Tensor:
        """One gradient step.

        Args:
            batch: what to learn from.
            noise: standard normal, [2, B, D], for the next and the present action.

        Returns:
            critic loss, policy loss, entropy, mean value and temperature, [5].
        """
        obs = self.norm.normalize(batch.observation)
        weight = batch.active / batch.active.sum().clamp(min=1)
        target = self.target_values(batch, noise[0])

        q = self.q_values(self.critics, obs, batch.action)
        critic_loss = 0.5 * ((q - target).square() * weight).sum()
        _descend(self.optimizers["critics"], critic_loss)

        action, log_prob = self.sample(obs, noise[1])
        temperature = self.log_temperature.detach().exp()
        value = self.q_values(self.critics, obs, action).amin(0)
        policy_loss = ((temperature * log_prob - value) * weight).sum()
        _descend(self.optimizers["actor"], policy_loss)

        entropy = -(log_prob.detach() * weight).sum()
        _descend(self.optimizers["temperature"], self.log_temperature.exp() * (entropy - self.target_entropy))

        with torch.no_grad():
            for slow, fast in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                slow.lerp_(fast, self.config.tau)
            return torch.stack((critic_loss, policy_loss, entropy, (value * weight).sum(), temperature))

    def policy(self) -> Policy:
        """What has been learnt so far."""
        c = self.config
        sizes = self.actor.sizes
        out = Policy(sizes[0], self.action_size, c.hidden, c.activation, c.obs_clip, squash="tanh")
        out.mean.copy_(self.norm.mean)
        out.std.copy_(self.norm.std)
        for layer, weight, bias in zip(out.layers, self.actor.weights, self.actor.biases, strict=True):
            assert isinstance(layer, nn.Linear)
            layer.weight.data.copy_(weight[0, :, : layer.out_features].T)  # of the last layer, the means alone
            layer.bias.data.copy_(bias[0, 0, : layer.out_features])
        return out.eval()

    def _parts(self) -> dict[str, Tensor]:
        """All tensors that keep their shape, by name."""
        out = {"log_temperature": self.log_temperature.detach()}
        out |= prefixed("norm", self.norm.state_dict())
        for part in ("actor", "critics", "targets"):
            out |= prefixed(part, getattr(self, part).state_dict())
        for part, optimizer in self.optimizers.items():
            for i, parameter in enumerate(optimizer.param_groups[0]["params"]):
                out |= prefixed(f"adam.{part}.{i}", optimizer.state[parameter])
        return out

    def state_dict(self) -> dict[str, Tensor]:
        """Weights, optimisers, normaliser and replay memory."""
        return self._parts() | prefixed("replay", self.replay.state_dict())

    def check_state(self, state: dict[str, Tensor]) -> None:
        """Raises RookeryError where a saved state does not fit."""
        check_state(self._parts(), state)
        self.replay.check_state(under("replay", state))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a checked state."""
        for name, own in self._parts().items():
            own.copy_(state[name])
        self.replay.load_state_dict(under("replay", state))


class MLP(nn.Module):
    """G perceptrons of one shape, multiplied in one call: inputs [R, in] to outputs [G, R, out].

    Args:
        networks: G.
        sizes: layer widths, input and output included.
        activation: "tanh", "elu" or "relu", after every layer but the last.
        generator: source of the initial weights and biases, uniform within +-1 / sqrt(inputs) as in torch.nn.Linear.

    Attributes:
        weights, biases: of each layer, [G, in, out] and [G, 1, out].
    """

    def __init__(self, networks: int, sizes: tuple[int, ...], activation: str, generator: torch.Generator) -> None:
        super().__init__()
        self.sizes = sizes
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for i, o in pairwise(sizes):
            bound = 1.0 / math.sqrt(i)
            for parameters, rows in ((self.weights, i), (self.biases, 1)):
                draw = torch.rand(networks, rows, o, generator=generator)
                parameters.append(nn.Parameter((2.0 * draw - 1.0) * bound))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        x = x.expand(self.weights[0].shape[0], *x.shape)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            x = self.activation(x) if k < last else x
        return x


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """A tanh-squashed Gaussian's sample and its log-probability (appendix C of the paper).

    With u = mean + std * noise: a = tanh(u), log p(a) = log N(u) - sum log(1 - tanh(u)^2), where the last logarithm is
    written as 2 (log 2 - u - softplus(-2 u)), which is finite for every u.

    Args:
        mean, log_std, noise: [..., D]; noise is standard normal.

    Returns:
        actions [..., D] in [-1, 1] and log-probabilities [...].
    """
    u = mean + log_std.exp() * noise
    gaussian = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    log_slope = 2.0 * (math.log(2.0) - u - functional.softplus(-2.0 * u))
    return u.tanh(), (gaussian - log_slope).sum(-1)


def _allocate_moments(optimizer: torch.optim.Adam) -> None:
    """Make the state that Adam otherwise makes in its first step."""
    for parameter in optimizer.param_groups[0]["params"]:
        optimizer.state[parameter] = {
            "step": torch.zeros((), device=parameter.device if optimizer.defaults["fused"] else "cpu"),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }


def _descend(optimizer: torch.optim.Adam, loss: Tensor) -> None:
    """One step of an optimiser down the gradient of a loss by its own parameters alone."""
    parameters = optimizer.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()
