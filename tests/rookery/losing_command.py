"""`rookery train` in which something is lost at a moment that the first word names; the others are the command's.

python losing_command.py PHASE train ...
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from rookery.cli.main import main
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.training import checkpoint
from rookery.sim.envs.sharded_env import ShardedEnv


def once_before(owner: Any, name: str, count: int, act: Callable[..., None]) -> None:
    """Call `act` with a function's arguments before its call number `count`."""
    real = getattr(owner, name)
    calls = 0

    def hooked(*args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            act(*args)
        return real(*args, **more)

    setattr(owner, name, hooked)


def lose(env: ShardedEnv, number: int = signal.SIGKILL) -> None:
    print("LOST", *env._pool.pids, flush=True)
    os.kill(env._pool.pids[1], number)


def broken(*args: Any) -> None:
    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


PHASES: dict[str, Callable[[], None]] = {
    "update": lambda: once_before(PPO, "update", 3, lambda self, *_: lose(self.env)),
    "stopped": lambda: once_before(PPO, "update", 3, lambda self, *_: lose(self.env, signal.SIGSTOP)),
    "writing": lambda: once_before(checkpoint, "write", 2, lambda *_: lose(envs[0])),
    "broken pipe": lambda: once_before(PPO, "update", 3, broken),
}
envs: list[ShardedEnv] = []

if __name__ == "__main__":
    once_before(ShardedEnv, "survive_loss", 1, envs.append)
    PHASES[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
