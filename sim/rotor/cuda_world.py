"""The `rotor` engine on an NVIDIA GPU: the world of the CPU, with its lanes in the GPU's memory and a thread for each world."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.sim.errors import RookeryError
from rookery.sim.rotor import device_rows
from rookery.sim.rotor.layout import LANES
from rookery.sim.rotor.step import WAKES
from rookery.sim.rotor.world import RotorWorld
from rookery.sim.scene import Scene
from rookery.sim.world import Ids


def require_gpu() -> torch.device:
    """Where the tensors of such a world live: the GPU, or the CPU under Numba's simulator of a GPU.

    Raises:
        RookeryError: no GPU was found, or Numba or torch were installed without what they need for one.
    """
    try:
        from numba import config, cuda
    except ImportError:
        raise RookeryError(
            "device 'cuda' needs Numba's CUDA part, which is not installed: install numba-cuda, or use device='cpu'."
        ) from None
    if config.ENABLE_CUDASIM:  # type: ignore[attr-defined]
        return torch.device("cpu")
    if not cuda.is_available():
        raise RookeryError("no CUDA GPU was found: use device='cpu', or install NVIDIA's driver and numba-cuda.")
    if not torch.cuda.is_available():
        raise RookeryError(
            "torch was installed without CUDA: install a build of torch that has it, or use device='cpu'."
        )
    return torch.device("cuda")


class CudaWorld(RotorWorld):
    """N copies of a scene on the `rotor` engine on a GPU. All views give tensors there, and nothing of a step leaves it but
    whether a world has diverged; parameters and factors are made on the CPU and copied.

    Args:
        scene, num_envs: as in RotorWorld.

    Raises:
        RookeryError: as RotorWorld and `require_gpu`.
    """

    _LANES = ("bodies_lanes", "varied", "worlds", "memory", "commands", "_gust", "_filters", "_bad")

    def __init__(self, scene: Scene, num_envs: int) -> None:
        self._home = require_gpu()
        self._sent: dict[str, tuple[np.ndarray, Tensor]] = {}
        self._handles: dict[str, tuple[Tensor, Any]] = {}
        super().__init__(scene, num_envs, threads=1)

    def _settle(self) -> None:
        self.ops = device_rows
        for name in self._LANES:
            setattr(self, name, torch.from_numpy(getattr(self, name)).to(self.device))
        self._fixed = [torch.from_numpy(a).to(self.device) for a in self._shapes]
        blocks, count = self.bodies_lanes.shape[:2]
        new: dict[str, Any] = {"dtype": torch.float64, "device": self.device}
        self._scratch = (
            torch.ones(blocks, max(len(self.parts.drones), 1), LANES, **new),
            torch.zeros(blocks, count, 10 * LANES, **new),
            torch.zeros(blocks, LANES, dtype=torch.int64, device=self.device),
        )

    def array(self, values: Tensor) -> Any:
        return values.to(self.device)

    def rows(self, ids: Ids) -> Any:
        return torch.arange(self.num_envs, device=self.device) if ids is None else ids.to(self.device)

    def _sent_to(self, name: str, values: np.ndarray) -> Tensor:
        """A small array that the CPU keeps, on the GPU as it is now."""
        if name not in self._sent or not np.array_equal(self._sent[name][0], values):
            self._sent[name] = values.copy(), torch.from_numpy(values.copy()).to(self.device)
        return self._sent[name][1]

    def _handle(self, name: str, tensor: Tensor) -> Any:
        """A tensor as Numba takes it; both see the same memory."""
        from numba import cuda

        if tensor.device.type == "cpu":  # Numba's simulator takes NumPy arrays
            return tensor.numpy()
        kept = self._handles.get(name)
        if kept is None or kept[0] is not tensor:
            kept = self._handles[name] = tensor, cuda.as_cuda_array(tensor)
        return kept[1]

    def _advance(self, k: int) -> None:
        from rookery.sim.rotor.cuda import launch

        fx = self.effects
        sag, gusty = bool(fx.battery), bool(fx.gusts and fx.wind_speed > 0.0)
        numbers = k, self.dt, len(self.parts.drones), WAKES[fx.downwash], sag, gusty
        tensors: dict[str, Any] = {
            "bodies": self.bodies_lanes, "varied": self.varied, "worlds": self.worlds,
            "types": self._sent_to("types", self.types), "levels": self._sent_to("levels", self.levels),
            "command_rows": self._sent_to("command_rows", self.command_rows), "commands": self.commands,
            "memory": self.memory, "gust": self._gust, "filters": self._filters, "keys": self._streams.key,
            "counters": self._streams.counter, **{f"shapes.{i}": t for i, t in enumerate(self._fixed)},
            "lookup": self._sent_to("lookup", self._lookup), "impulse": self.impulse, "when": self.when,
            **{f"scratch.{i}": t for i, t in enumerate(self._scratch)},
        }  # fmt: skip
        launch(len(self.bodies_lanes), numbers, [self._handle(name, t) for name, t in tensors.items()])
