"""The start of a shard's process, see shard_process.py.

python -m rookery.sim.envs.shard_start CONNECTION MEMORY PARENT      (two inherited descriptors, and a process id or 0)
"""

from __future__ import annotations

import sys

from rookery.sim.parent import end_with


def main() -> None:
    connection, memory, parent = map(int, sys.argv[1:])
    if parent:
        end_with(parent)  # before torch is loaded, which takes seconds, in which the parent may end
    from rookery.sim.envs.shard_process import run

    run(connection, memory)


if __name__ == "__main__":
    main()
