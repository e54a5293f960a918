"""The deployed policy of one agent group: a chain of stages, deterministic, without optimiser.

    observation --normalise--> x --+--> newest frames ---------------+--> memory ----> network --> squash --> action in [-1, 1]
    (its history is the env's)     +--> state estimator (optional) --+   (optional)

Pictures among the newest frames may go through an encoder first (see nn/pictures.py).

This is what is stored in a run or zoo folder, played, evaluated and exported. A policy without memory is a function of the
observation (`forward`). One with memory also takes its state and gives the next one (`step`); at an episode's start the state
is `initial_state`. `step` serves both: without memory the state is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rookery.policies.nn.encoder import Encoder
from rookery.policies.nn.pictures import EncoderSpec
from rookery.policies.nn.spec import make_module
from rookery.sim.errors import RookeryError, unknown

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}

MEMORIES = ("none", "gru")
"""Kinds of memory: none, or a gated recurrent unit (Cho et al. 2014, arXiv 1406.1078; the equations of torch.nn.GRUCell)."""

SQUASHES = ("clip", "tanh", "none")
"""Ways to bring the network's output to [-1, 1]: cut it off (PPO), or tanh (SAC); none where it has logits of choices."""


class Policy(nn.Module):
    """``squash(network(x[-actor_inputs:]))`` with ``x = clip((obs - mean) / std, -obs_clip, obs_clip)``.

    With M targets the network's input is ``concat(x[-actor_inputs:], estimator(x))``; with a memory it is the memory's state h
    after ``h = GRU(that, h)``. With an encoder, `that` or the network's input is ``encoder(x[-actor_inputs:])``.

    Args:
        observation_size: O.
        action_size: D.
        hidden: widths of the hidden layers.
        activation: "tanh", "elu" or "relu", after every hidden layer.
        obs_clip: limit of the normalised observation.
        actor_inputs: how many components at the observation's end, its newest frames, go to the network; None for all.
        estimator: widths of the state estimator's hidden layers; unused without targets.
        targets: M, length of what it predicts; 0 for no state estimator.
        squash: "clip" to [-1, 1], or "tanh".
        module: "package.module:function" of a factory of the network (see `make_module`) instead of a perceptron; "" for none.
        memory: "none", or "gru" before the network.
        memory_size: H, numbers in the memory's state; 0 without memory.
        encoder: convolutions that pictures go through, or the values of `EncoderSpec.to_json`; None for none.

    Attributes:
        mean, std: [O] buffers of the normaliser.
        layers: the perceptron's linear layers, in order; the activation stands between them. Empty with a module.
        body: the module; an empty one without.
        cell: the memory, a torch.nn.GRUCell; an empty module without.
        encoder: an `Encoder`; an empty module without.
        encoder_spec: of the encoder; None without.
        estimator: the state estimator's linear layers, in order.
        target_mean, target_std: [M] buffers: prediction = target_mean + target_std * estimator(x).

    Raises:
        RookeryError: an unknown squash or memory, a module that cannot be made, a limit that is no float32 above zero, or an
            encoder beside a state estimator.
    """

    mean: Tensor
    std: Tensor
    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        obs_clip: float = 10.0,
        actor_inputs: int | None = None,
        estimator: Sequence[int] = (),
        targets: int = 0,
        squash: str = "clip",
        module: str = "",
        memory: str = "none",
        memory_size: int = 0,
        encoder: EncoderSpec | Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if squash not in SQUASHES:
            raise unknown("squash", squash, SQUASHES)
        if memory not in MEMORIES:
            raise unknown("memory", memory, MEMORIES)
        if not 0.0 < obs_clip <= torch.finfo(torch.float32).max:
            raise RookeryError(f"obs_clip must be a number above 0 that fits into 32 bits, got {obs_clip}.")
        self.observation_size = observation_size
        self.action_size = action_size
        self.hidden = tuple(hidden)
        self.activation = activation
        self.obs_clip = float(obs_clip)
        self.actor_inputs = observation_size if actor_inputs is None else actor_inputs
        self.targets = targets
        self.squash = squash
        self.module = module
        self.estimator_hidden = tuple(estimator) if targets else ()
        self.memory_size = memory_size if memory != "none" else 0
        self.memory = memory if self.memory_size else "none"
        inputs = self.actor_inputs + targets
        spec = EncoderSpec.from_json(encoder) if isinstance(encoder, Mapping) else encoder
        self.encoder_spec = spec
        self.encoder = nn.Identity() if spec is None else Encoder(spec, inputs, activation)
        if spec is not None:
            if targets:
                raise RookeryError("a policy has an encoder of pictures or a state estimator, not both.")
            inputs = spec.outputs(inputs)
        self.cell = nn.GRUCell(inputs, memory_size) if self.memory_size else nn.Identity()
        inputs = self.memory_size or inputs
        self.layers = nn.ModuleList() if module else _linears(inputs, *hidden, action_size)
        self.body = make_module(module, inputs, action_size) if module else nn.Identity()
        self.register_buffer("mean", torch.zeros(observation_size))
        self.register_buffer("std", torch.ones(observation_size))
        if targets:
            self.estimator = _linears(observation_size, *self.estimator_hidden, targets)
            self.register_buffer("target_mean", torch.zeros(targets))
            self.register_buffer("target_std", torch.ones(targets))
        self._act = ACTIVATIONS[activation]()

    def forward(self, obs: Tensor, known_targets: Tensor | None = None) -> Tensor:
        """Normalised actions [..., D] of a policy without memory.

        Args:
            obs: observations [..., O].
            known_targets: [..., M] targets as the task scales them, NaN where the state estimator predicts them; None for
                NaN everywhere.

        Raises:
            RookeryError: the policy has memory.
        """
        if self.memory_size:
            raise RookeryError(
                "this policy has memory: call step(obs, state), at an episode's start with initial_state()."
            )
        return self._action(self._input(obs, known_targets))

    def initial_state(self, *lead: int) -> Tensor:
        """The memory's state at an episode's start: zeros [*lead, H]."""
        return self.mean.new_zeros(*lead, self.memory_size)

    def step(self, obs: Tensor, state: Tensor, known_targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Normalised actions [..., D] and the next state [..., H].

        Args:
            obs, known_targets: as in `forward`.
            state: [..., H], of the step before.
        """
        x = self._input(obs, known_targets)
        if self.memory_size:
            state = self.cell(x.reshape(-1, x.shape[-1]), state.reshape(-1, self.memory_size)).view(state.shape)
            x = state
        return self._action(x), state

    def predict(self, obs: Tensor) -> Tensor:
        """The state estimator's predictions of its targets [..., M], as the task scales them."""
        return self.target_mean + self.target_std * self._through(self.estimator, self._normalize(obs))

    def _input(self, obs: Tensor, known_targets: Tensor | None) -> Tensor:
        """What goes into the memory, or without one into the network."""
        x = self._normalize(obs)
        newest = x[..., self.observation_size - self.actor_inputs :]
        if self.encoder_spec is not None:
            rows: Tensor = self.encoder(newest.reshape(-1, self.actor_inputs))
            return rows.view(*newest.shape[:-1], rows.shape[-1])
        return torch.cat((newest, self._estimate(x, known_targets)), -1) if self.targets else newest

    def _action(self, x: Tensor) -> Tensor:
        """The squashed output of the network."""
        out = self._network(x)
        if self.squash == "none":
            return out
        return out.tanh() if self.squash == "tanh" else out.clamp(-1.0, 1.0)

    def _normalize(self, obs: Tensor) -> Tensor:
        return ((obs - self.mean) / self.std).clamp(-self.obs_clip, self.obs_clip)

    def _estimate(self, x: Tensor, known_targets: Tensor | None) -> Tensor:
        """Normalised targets [..., M], predicted where they are not known."""
        prediction = self._through(self.estimator, x)
        if known_targets is None:
            return prediction
        known = ((known_targets - self.target_mean) / self.target_std).clamp(-self.obs_clip, self.obs_clip)
        return torch.where(known_targets.isnan(), prediction, known)

    def _network(self, x: Tensor) -> Tensor:
        if not self.module:
            return self._through(self.layers, x)
        rows: Tensor = self.body(x.reshape(-1, x.shape[-1]))
        return rows.view(*x.shape[:-1], self.action_size)

    def _through(self, layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers[:-1]:
            x = self._act(layer(x))
        out: Tensor = layers[-1](x)
        return out

    def fault(self) -> str:
        """The first tensor that is not finite, or whose standard deviations are not above zero, in words; "" where all is
        well."""
        for name, values in self.state_dict().items():
            if not values.isfinite().all():
                return f"NaN or infinity in {name}"
            if name in ("std", "target_std") and not (values > 0.0).all():
                return f"a standard deviation of zero or below in {name}"
        return ""

    def network(self) -> dict[str, object]:
        """The architecture as it stands in the contract; `Policy(**network)` rebuilds it."""
        more: dict[str, object] = {}
        if self.targets or self.actor_inputs < self.observation_size:
            more["actor_inputs"] = self.actor_inputs
        if self.targets:
            more |= {"estimator": list(self.estimator_hidden), "targets": self.targets}
        if self.module:
            more["module"] = self.module
        if self.memory_size:
            more |= {"memory": self.memory, "memory_size": self.memory_size}
        if self.encoder_spec is not None:
            more["encoder"] = self.encoder_spec.to_json()
        return {
            "observation_size": self.observation_size,
            "action_size": self.action_size,
            "hidden": list(self.hidden),
            "activation": self.activation,
            "obs_clip": self.obs_clip,
            "squash": self.squash,
            **more,
        }


def _linears(*sizes: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:], strict=False))
