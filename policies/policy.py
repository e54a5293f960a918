"""The finished policy of one agent group: observation normaliser, a multilayer perceptron, and a squash to [-1, 1].
Where it was trained with a predictor (see policies/nn/state_estimator.py), that is a part of it.

This is what is stored in a run or zoo folder, played, evaluated and exported. It is deterministic, without optimiser.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rookery.sim.errors import unknown

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}

SQUASHES = ("clip", "tanh")
"""Ways to bring the network's output to [-1, 1]: cut it off (PPO), or tanh (SAC)."""


class Policy(nn.Module):
    """``squash(mlp(x))`` with ``x = clip((obs - mean) / std, -obs_clip, obs_clip)``.

    With M targets the perceptron sees ``concat(x[-sees:], predictor(x))`` instead, without any ``x[-sees:]``.

    Args:
        observation_size: O.
        action_size: D.
        hidden: widths of the hidden layers.
        activation: "tanh", "elu" or "relu", after every hidden layer.
        obs_clip: limit of the normalised observation.
        sees: how many components at the observation's end, its newest frames, go to the perceptron; None for all.
        predictor: widths of the predictor's hidden layers; means nothing without targets.
        targets: M, length of what it predicts; 0 is no predictor.
        squash: "clip" to [-1, 1] or "tanh" of the output.

    Attributes:
        mean, std: [O] buffers of the normaliser.
        target_mean, target_std: [M] buffers: prediction = target_mean + target_std * (what the network says); only there
            with a predictor.
        predictor: its linear layers, in order.
        layers: the linear layers, in order; the activation stands between them.
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
        sees: int | None = None,
        predictor: Sequence[int] = (),
        targets: int = 0,
        squash: str = "clip",
    ) -> None:
        super().__init__()
        if squash not in SQUASHES:
            raise unknown("squash", squash, SQUASHES)
        self.observation_size = observation_size
        self.action_size = action_size
        self.hidden = tuple(hidden)
        self.activation = activation
        self.obs_clip = float(obs_clip)
        self.sees = observation_size if sees is None else sees
        self.targets = targets
        self.squash = squash
        self.predictor_hidden = tuple(predictor) if targets else ()
        self.layers = _linears(self.sees + targets, *hidden, action_size)
        self.register_buffer("mean", torch.zeros(observation_size))
        self.register_buffer("std", torch.ones(observation_size))
        if targets:
            self.predictor = _linears(observation_size, *self.predictor_hidden, targets)
            self.register_buffer("target_mean", torch.zeros(targets))
            self.register_buffer("target_std", torch.ones(targets))
        self._act = ACTIVATIONS[activation]()

    def forward(self, obs: Tensor, given: Tensor | None = None) -> Tensor:
        """Normalised actions [..., D].

        Args:
            obs: observations [..., O].
            given: [..., M] targets that the agent is told, as the task scales them, NaN where it must predict them;
                None stands for NaN everywhere.
        """
        x = self._normalize(obs)
        seen = x[..., self.observation_size - self.sees :] if self.sees < self.observation_size else x
        if self.targets:
            said = self._through(self.predictor, x)
            if given is not None:
                told = ((given - self.target_mean) / self.target_std).clamp(-self.obs_clip, self.obs_clip)
                said = torch.where(given.isnan(), said, told)
            seen = torch.cat((seen, said), -1)
        out = self._through(self.layers, seen)
        return out.tanh() if self.squash == "tanh" else out.clamp(-1.0, 1.0)

    def predict(self, obs: Tensor) -> Tensor:
        """What the predictor says of its targets [..., M], as the task scales them."""
        return self.target_mean + self.target_std * self._through(self.predictor, self._normalize(obs))

    def _normalize(self, obs: Tensor) -> Tensor:
        return ((obs - self.mean) / self.std).clamp(-self.obs_clip, self.obs_clip)

    def _through(self, layers: nn.ModuleList, x: Tensor) -> Tensor:
        for layer in layers[:-1]:
            x = self._act(layer(x))
        out: Tensor = layers[-1](x)
        return out

    def network(self) -> dict[str, object]:
        """The architecture as it stands in the contract; `Policy(**network)` rebuilds it."""
        more: dict[str, object] = {}
        if self.targets:
            more = {"sees": self.sees, "predictor": list(self.predictor_hidden), "targets": self.targets}
        elif self.sees < self.observation_size:
            more = {"sees": self.sees}
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
