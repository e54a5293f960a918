"""The finished policy of one agent group: observation normaliser, a multilayer perceptron, and a clip to [-1, 1].

This is what is stored in a run or zoo folder, played, evaluated and exported. It is deterministic, without optimiser.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}


class Policy(nn.Module):
    """``clip(mlp(clip((obs - mean) / std, -obs_clip, obs_clip)), -1, 1)``.

    Args:
        observation_size: O.
        action_size: D.
        hidden: widths of the hidden layers.
        activation: "tanh", "elu" or "relu", after every hidden layer.
        obs_clip: limit of the normalised observation.

    Attributes:
        mean, std: [O] buffers of the normaliser.
        layers: the linear layers, in order; the activation stands between them.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        observation_size: int,
        action_size: int,
        hidden: Sequence[int] = (64, 64),
        activation: str = "tanh",
        obs_clip: float = 10.0,
    ) -> None:
        super().__init__()
        self.observation_size, self.action_size = observation_size, action_size
        self.hidden, self.activation, self.obs_clip = tuple(hidden), activation, float(obs_clip)
        sizes = [observation_size, *hidden, action_size]
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:], strict=False))
        self.register_buffer("mean", torch.zeros(observation_size))
        self.register_buffer("std", torch.ones(observation_size))
        self._act = ACTIVATIONS[activation]()

    def forward(self, obs: Tensor) -> Tensor:
        """Normalised actions [..., D] for observations [..., O]."""
        x = ((obs - self.mean) / self.std).clamp(-self.obs_clip, self.obs_clip)
        for layer in self.layers[:-1]:
            x = self._act(layer(x))
        return self.layers[-1](x).clamp(-1.0, 1.0)

    def network(self) -> dict[str, object]:
        """The architecture as it stands in the contract; `Policy(**network)` rebuilds it."""
        return {
            "observation_size": self.observation_size,
            "action_size": self.action_size,
            "hidden": list(self.hidden),
            "activation": self.activation,
            "obs_clip": self.obs_clip,
        }
