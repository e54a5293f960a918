"""Random numbers on a GPU that are those of the CPU, so that both can be compared step by step."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map


class SameNumbers(TorchDispatchMode):
    """Within it, whatever draws from a generator of a GPU gets what one of the CPU with the same seed gives."""

    def __init__(self) -> None:
        super().__init__()
        self._twins: dict[int, torch.Generator] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = tree_flatten((args, kwargs))[0]
        own = [x for x in given if isinstance(x, torch.Generator) and x.device.type == "cuda"]
        if not own:
            return func(*args, **kwargs)
        twin = self._twins.get(own[0]._cdata)
        if twin is None:
            twin = self._twins[own[0]._cdata] = torch.Generator().manual_seed(own[0].initial_seed())

        def down(x: Any) -> Any:
            if isinstance(x, torch.device):
                return torch.device("cpu")
            return twin if isinstance(x, torch.Generator) else x.cpu() if isinstance(x, Tensor) else x

        out = func(*tree_map(down, args), **tree_map(down, kwargs))
        if func._schema.arguments and func._schema.arguments[0].is_write:  # in place
            return args[0].copy_(out)
        return out.to(own[0].device)
