"""Record of what a ShardedEnv's processes did since their states were last taken, so that a new one can do it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from rookery.sim.envs.shard_pool import Request, ShardPool

MOST_CALLS = 64
"""Calls after which states are taken anew: what a new process has to repeat."""
MOST_BYTES = 64 << 20
"""Bytes of remembered actions after which states are taken anew."""

Actions = dict[str, Tensor]


@dataclass
class History:
    """States of all processes at one moment, and the calls since then that changed them.

    Attributes:
        states: of each process.
        calls: each process's request, and the shared actions of a step.
    """

    states: list[dict[str, Tensor]]
    calls: list[tuple[list[Request], Actions | None]] = field(default_factory=list)
    _bytes: int = 0

    def add(self, requests: list[Request], actions: Actions | None) -> None:
        """Remember a call that was made, with copies of the actions that it read."""
        copies = None if actions is None else {g: a.clone() for g, a in actions.items()}
        self.calls.append((requests, copies))
        self._bytes += sum(a.nbytes for a in (copies or {}).values())

    @property
    def is_long(self) -> bool:
        """True where the states should be taken anew."""
        return len(self.calls) >= MOST_CALLS or self._bytes >= MOST_BYTES

    def begin(self, states: list[dict[str, Tensor]]) -> None:
        """Go on from states that were just taken."""
        self.states = states
        self.calls.clear()
        self._bytes = 0

    def repeat(self, pool: ShardPool, shared: Actions) -> None:
        """Bring processes to where they were after the latest call: a new one, and those that may have gone on.

        Args:
            pool: of processes that have made their environments.
            shared: actions in shared memory, which are overwritten.
        """
        pool.call([("load_state_dict", state) for state in self.states])
        for requests, actions in self.calls:
            for g, a in (actions or {}).items():
                shared[g].copy_(a)
            pool.call(requests)
