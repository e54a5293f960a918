"""Speed of gym-pybullet-drones with full aerodynamics (ground effect, drag, downwash) in its own environment, at 240 Hz.

    benchmarks/peers/.venv-gym-pybullet-drones/bin/python benchmarks/peers/gym_pybullet_drones_speed.py

CtrlAviary of version 2, one physics step a control step, motor speeds near hovering. A case is the number of drones.
"""

from __future__ import annotations

import numpy as np
from gym_pybullet_drones.envs.CtrlAviary import CtrlAviary
from gym_pybullet_drones.utils.enums import DroneModel, Physics
from slices import Slice, alone, timed

NAMES = ["drones-1", "drones-8"]
STEPS = 100


def build(name: str) -> Slice:
    """A slice of runs of STEPS steps from the start."""
    if name not in NAMES:
        raise ValueError(f"no case {name!r}: there are {', '.join(NAMES)}")
    drones = int(name.split("-")[1])
    places = [[0.4 * (i % 2), 0.4 * (i // 2 % 2), 0.3 + 0.5 * (i // 4)] for i in range(drones)]
    env = CtrlAviary(
        drone_model=DroneModel.CF2X,
        num_drones=drones,
        initial_xyzs=np.array(places),
        physics=Physics.PYB_GND_DRAG_DW,
        pyb_freq=240,
        ctrl_freq=240,
        gui=False,
        user_debug_gui=False,
    )
    generator = np.random.default_rng(0)
    speeds = [env.HOVER_RPM * generator.uniform(0.95, 1.05, (drones, 4)) for _ in range(STEPS)]

    def run() -> int:
        for speed in speeds:
            env.step(speed)
        return STEPS

    return timed(drones, lambda: env.reset() and None, run)


if __name__ == "__main__":
    alone(__doc__, NAMES, build)
