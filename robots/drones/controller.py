"""The classical controller of drones: the PID cascade as a policy, for every action kind."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.robots.drones import kernels
from rookery.robots.drones.drone import Drones
from rookery.robots.drones.kernels import MEMORY_SIZE, MOTORS, POSITION, VELOCITY
from rookery.sim.buffers import Buffers


class CascadeController(Buffers):
    """Flies drones to target positions by the PID cascade, at the control rate, commanding the drones' action kind.

    It knows the true state and the nominal constants. What lies below the action kind runs onboard, in `Drones`.

    Args:
        drones: the drones to control.
        control_dt: s between calls.
    """

    memory: Tensor

    def __init__(self, drones: Drones, control_dt: float) -> None:
        super().__init__()
        self.drones = drones
        self.control_dt = control_dt
        n, a = drones.rotor_speed.shape[:2]
        self.buffer("memory", n, a, MEMORY_SIZE)

    def reset(self, ids: Tensor) -> None:
        """Clear the integrals in the worlds `ids`."""
        self.memory[ids] = 0.0

    def act(self, position: Tensor, velocity: Tensor | None = None, yaw: Tensor | None = None) -> Tensor:
        """Normalized actions [N, A, 4].

        Args:
            position: [N, A, 3] m, world, target.
            velocity: [N, A, 3] m/s, world, of the moving target; fed forward where the action kind allows it.
            yaw: [N, A] rad, wanted heading; 0 if None.
        """
        d = self.drones
        heading = torch.zeros_like(position[..., :1]) if yaw is None else yaw[..., None]
        setpoint = torch.cat((position, heading), dim=-1)
        if d.level == POSITION and velocity is not None:  # led by as much as the onboard position loop lags behind
            setpoint[..., :3] += velocity / torch.tensor(d.drone.gains.position_kp)
        if d.level < POSITION:
            self._run(POSITION, VELOCITY, setpoint)
            if velocity is not None:
                setpoint[..., :3] += velocity
            self._run(VELOCITY, d.level, setpoint)
        if d.level == MOTORS:  # motor speeds to the thrusts that give them
            t0, t1, t2 = d.drone.thrust_curve
            setpoint = t0 + setpoint * (t1 + setpoint * t2)
        return d.normalized(setpoint)

    def _run(self, level: int, to: int, setpoint: Tensor) -> None:
        d = self.drones
        kernels.cascade(
            level, to, d.bodies.state.view(-1, 13).numpy(), setpoint.view(-1, 4).numpy(),
            self.memory.view(-1, MEMORY_SIZE).numpy(), d.constants, self.control_dt,
        )  # fmt: skip
