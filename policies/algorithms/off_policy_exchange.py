"""One process learns from what all of them do: transitions go to it, and weights come back.

    every process      step its worlds for a rollout, with the weights that act
                       send the rollout to the process of rank 0, and with it how old these weights are
    that of rank 0     store what all did as if it had stepped all worlds itself, learn
                       send the weights, with the state of the random generator

Where all wait for the learner (`Roles.staleness` 0, and always before a checkpoint) the weights are sent after it has learned:
the processes then do what a single one with all worlds does, since each takes its part of the same random numbers. Else they
are sent before, as soon as those that act would otherwise be more than `staleness` updates behind, and the others go on while
it learns: as the actors and the learner of IMPALA (Espeholt et al. 2018, arXiv 1802.01561) and Ape-X (Horgan et al. 2018, arXiv
1803.00933), but that which weights act does not depend on who is fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from safetensors.torch import load, save
from torch import Tensor

from rookery.policies.algorithms.off_policy_learner import OffPolicyLearner
from rookery.policies.nn.dropout import draw_seed
from rookery.policies.storage.rollout_messages import Row, pack, unpack
from rookery.policies.training.reduction import Reduction
from rookery.policies.training.roles import Roles
from rookery.sim.errors import RookeryError
from rookery.sim.seeding import torch_generator

__all__ = ["Exchange"]

VERSION = "version"
"""Name of the number of updates behind the weights that acted, in a message of transitions."""


class Exchange:
    """Messages of one process to and from the one that learns.

    Args:
        learners: by group.
        generator: of exploration; where all wait, also of what the learner draws.
        roles: who acts and who learns.
        reduction: carries the messages.

    Attributes:
        due: the weights must be sent before the next rollout begins; so at the start.
        version: updates that lie behind the weights that act in this process.
    """

    def __init__(
        self,
        learners: Mapping[str, OffPolicyLearner],
        generator: torch.Generator,
        roles: Roles,
        reduction: Reduction,
    ) -> None:
        self.due = True
        self.version = 0
        self._learners = learners
        self._generator = generator
        self._roles = roles
        self._reduction = reduction
        self._rows: dict[str, list[Row]] = {name: [] for name in learners}

    def note(self, group: str, row: Row) -> None:
        """Keep a control step of this process's worlds, see `Replay.add`."""
        cut = row["truncated"] & ~row["terminated"]  # type: ignore[operator]
        finals = {name: x[cut] for name, x in row.items() if name.startswith("final_") and x is not None}
        self._rows[group].append({name: None if x is None else x.clone() for name, x in (row | finals).items()})

    def transitions(self, updates: int) -> tuple[dict[str, Iterator[Row]], int]:
        """Send this process's rollout; at the learner, those of all worlds by group, step by step, and their staleness.

        Args:
            updates: made by the learner before it learns from them.

        Raises:
            RookeryError: weights acted that are older than is allowed.
        """
        message: dict[str, Tensor] = {}
        if self._roles.acts:
            message[VERSION] = torch.tensor(self.version)
            for name, rows in self._rows.items():
                message |= {f"{name}/{k}": v for k, v in pack(rows, self._learners[name].replay.codec).items()}
        self._rows = {name: [] for name in self._learners}
        found = self._reduction.collect(save(message) if message else b"")
        if found is None:
            return {}, 0
        parts = [load(own) for own in found if own]
        staleness = max(updates - int(part[VERSION]) for part in parts)
        if staleness > self._roles.staleness:
            raise RookeryError(
                f"a worker acted with weights that are {staleness} updates old, and {self._roles.staleness} are allowed: go "
                "on from the newest checkpoint, with the same version of Rookery everywhere."
            )
        device = self._generator.device
        parts = [{name: x.to(device) for name, x in part.items()} for part in parts]
        learners = self._learners.items()
        return {name: unpack(_under(parts, name), own.replay.codec) for name, own in learners}, staleness

    def send_weights(self, updates: int) -> None:
        """Send the weights that `updates` have made to all processes that act, and the numbers that these draw from now on."""
        tensors = [x for learner in self._learners.values() for x in learner.acting()]
        state = self._generator.get_state()
        if self._roles.learns and self._roles.staleness:  # it draws while others explore
            seed = int(draw_seed(self._generator, self._generator.device))
            state = torch_generator(seed, self._generator.device).get_state()
        parts = [x.detach().reshape(-1).cpu().view(torch.uint8) for x in tensors]
        message = self._reduction.broadcast(torch.cat((*parts, state, torch.tensor([updates]).view(torch.uint8))))
        self.due = False
        self.version = int(message[-8:].clone().view(torch.int64))
        if self._roles.learns:
            return
        *weights, state, _ = message.split([*(len(part) for part in parts), len(state), 8])
        for x, values in zip(tensors, weights, strict=True):
            x.detach().copy_(values.clone().view(x.dtype).view(x.shape))
        self._generator.set_state(state.clone())


def _under(parts: list[dict[str, Tensor]], group: str) -> list[dict[str, Tensor]]:
    """The messages' tensors of a group, by their own names."""
    prefix = f"{group}/"
    return [{k.removeprefix(prefix): v for k, v in part.items() if k.startswith(prefix)} for part in parts]
