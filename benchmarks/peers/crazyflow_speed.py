"""Speed of crazyflow in its own environment: 1024 worlds of one drone, physics at 500 Hz, on the CPU.

    benchmarks/peers/.venv-crazyflow/bin/python benchmarks/peers/crazyflow_speed.py [--cases rotor_vel-50 attitude-50]

A case is a control mode, then the physics steps of one `sim.step(n)`: rotor_vel (rotor lag and drag, no controller),
body_rate and attitude (its Mellinger controllers at 500 Hz), all on first_principles dynamics; or the name of one of its
identified closed-loop models, which take attitude commands. A case that ends in -all shards the worlds over as many JAX
devices as there are processors. Only `sim.step` is timed, not the setting of commands.
"""

from __future__ import annotations

import os

PROCESSORS = len(os.sched_getaffinity(0))
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={PROCESSORS}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from crazyflow.control import Control  # noqa: E402
from crazyflow.drones import Drone  # noqa: E402
from crazyflow.dynamics import Dynamics  # noqa: E402
from crazyflow.sim import Sim  # noqa: E402
from crazyflow.sim.sharding import world_mesh  # noqa: E402
from slices import Slice, alone, timed  # noqa: E402

WORLDS = 1024
FREQUENCY = 500
CALLS = 10
MODES = {
    "rotor_vel": (Dynamics.first_principles, Control.rotor_vel),
    "body_rate": (Dynamics.first_principles, Control.body_rate),
    "attitude": (Dynamics.first_principles, Control.attitude),
    "so_rpy": (Dynamics.so_rpy, Control.attitude),
    "so_rpy_rotor": (Dynamics.so_rpy_rotor, Control.attitude),
    "so_rpy_rotor_drag": (Dynamics.so_rpy_rotor_drag, Control.attitude),
}
NAMES = [f"{mode}-{k}" for mode in MODES for k in (4, 10, 50)] + [f"{mode}-50-all" for mode in MODES]
HOVER_RPM, HOVER_THRUST = 15_000.0, 0.32  # cf2x_L250: about its weight


def build(name: str) -> Slice:
    """A slice of CALLS calls of `sim.step(k)` from hovering."""
    if name not in NAMES:
        raise ValueError(f"no case {name!r}: there are {', '.join(NAMES)}")
    mode, k, *sharded = name.split("-")
    dynamics, control = MODES[mode]
    sim = Sim(
        n_worlds=WORLDS,
        n_drones=1,
        drone=Drone.cf2x_L250,
        dynamics=dynamics,
        control=control,
        freq=FREQUENCY,
        attitude_freq=FREQUENCY,
        body_rate_freq=FREQUENCY,
        force_torque_freq=FREQUENCY,
        mesh=world_mesh(jax.devices()) if sharded else None,
    )
    sim.data = sim.data.replace(states=sim.data.states.replace(pos=sim.data.states.pos + 10.0))  # far from the floor
    sim.build_default_data()
    noise = jax.random.uniform(jax.random.key(0), (WORLDS, 1, 4), minval=-0.1, maxval=0.1)
    set_command = {
        Control.rotor_vel: sim.rotor_vel_control,
        Control.body_rate: sim.body_rate_control,
        Control.attitude: sim.attitude_control,
    }[control]
    if control is Control.rotor_vel:
        command = HOVER_RPM * (1.0 + noise)
    else:
        command = noise.at[..., 3].set(HOVER_THRUST)
    if sharded:
        command = jax.device_put(command, sim.data.states.pos.sharding)

    def prepare() -> None:
        sim.reset()
        set_command(command)
        jax.block_until_ready(sim.data)

    def run() -> int:
        for _ in range(CALLS):
            sim.step(int(k))
        jax.block_until_ready(sim.data)
        return CALLS * int(k)

    rate = timed(WORLDS, prepare, run)
    if not bool(jnp.isfinite(sim.data.states.pos).all()):
        raise RuntimeError("the drones' positions are no longer finite")
    return rate


if __name__ == "__main__":
    alone(__doc__, NAMES, build)
