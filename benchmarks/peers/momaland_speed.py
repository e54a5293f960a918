"""Speed of MOMAland's Surround with its four drones (point masses that jump to where they want) in its own environment.

    benchmarks/peers/.venv-momaland/bin/python benchmarks/peers/momaland_speed.py

Random actions; resets are inside the clock, since our figure includes them too. Drone steps: environment steps times 4.
"""

from __future__ import annotations

import numpy as np
from momaland.envs.crazyrl.surround import surround_v0
from slices import Slice, alone, timed

NAMES = ["surround"]
STEPS = 200


def build(name: str) -> Slice:
    """A slice of runs of STEPS environment steps."""
    if name not in NAMES:
        raise ValueError(f"no case {name!r}: there are {', '.join(NAMES)}")
    env = surround_v0.parallel_env()
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    actions = [
        {agent: generator.uniform(-0.1, 0.1, 3).astype(np.float32) for agent in env.possible_agents}
        for _ in range(STEPS)
    ]

    def run() -> int:
        for action in actions:
            env.step(action)
            if not env.agents:
                env.reset()
        return STEPS

    return timed(len(env.possible_agents), lambda: None, run)


if __name__ == "__main__":
    alone(__doc__, NAMES, build)
