"""The `rotor` engine on Numba's simulator of a GPU beside the CPU's; prints how far their numbers are apart, by case.

    NUMBA_ENABLE_CUDASIM=1 python tests/sim/rotor/cuda_twin.py CASE ...

The simulator runs each CUDA thread as Python, some milliseconds for a physics step of a drone: worlds and steps are few.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from rotor_scenes import RACKET, REALISTIC, bare_ground, put, scene, with_boxes

from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.sim.rotor import layout as at
from rookery.sim.rotor.cuda_world import CudaWorld
from rookery.sim.rotor.world import RotorWorld
from rookery.sim.scene import Scene

SAGGING = replace(CRAZYFLIE_21, body_drag=(0.01, 0.01, 0.02))


def numbers(w: RotorWorld, extra: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Everything that a world holds, and what its views tell."""
    views = {"state": w.bodies(w.parts.bodies).state.clone(), "force": w.actuators(list(actuators(w))).force}
    return w.snapshot() | views | extra


def actuators(w: RotorWorld) -> list[str]:
    return [w.model.actuator(u).name for u in w.parts.actuators]


def commands(n: int, rows: int, middle: list[float], spread: float) -> torch.Tensor:
    """[n, rows, 1, 4], all different."""
    i = torch.arange(n * rows * 4, dtype=torch.float32).view(n, rows, 1, 4)
    return torch.tensor(middle) + spread * torch.sin(1.7 * i)


def free(w: RotorWorld) -> dict[str, torch.Tensor]:
    """A drone at each level of the cascade, one at its thrusts, with rotor lag, drag, battery and gusts."""
    n = w.num_envs
    w.seed(3)
    w.reset()
    w.multirotors([f"drone_{i}" for i in range(6)]).start(None, torch.full((n, 6, 4), 0.6))
    w.multirotors(["drone_3"]).integrate_yaw(True)
    levels = {
        4: ([1.0, 0.0, 50.0, 0.3], 0.2), 3: ([0.5, 0.0, 0.0, 0.2], 0.3), 2: ([0.1, -0.1, 0.3, 0.27], 0.05),
        1: ([0.5, 0.5, 0.2, 0.27], 0.05), 0: ([0.07] * 4, 0.01),
    }  # fmt: skip
    for i, (level, (middle, spread)) in enumerate(levels.items()):
        rows = 3 if level < 2 else 1
        w.multirotors([f"drone_{i}"]).command(level, commands(n, rows, middle, spread))
    direct = [name for name in actuators(w) if name.startswith("drone_5/")]
    w.actuators(direct).set_control(torch.cat((commands(n, 1, [0.07] * 4, 0.01)[:, 0, 0], torch.full((n, 1), 1e-4)), 1))
    w.multirotors(["drone_1"]).vary(torch.arange(0, n, 2), thrust=torch.linspace(0.9, 1.1, (n + 1) // 2))
    w.params.set("mass", ["drone_2/base"], torch.linspace(0.02, 0.03, n)[:, None])
    w.params.set("gravity", [], torch.tensor([0.1, 0.0, -9.0]), torch.tensor([1]))
    w.bodies(["drone_0/base"]).set_wrench(commands(n, 1, [0.0] * 4, 1e-3)[:, 0, :, [0, 1, 2, 3, 0, 1]] * 1e-2)
    for _ in range(2):
        w.step(3)
    mass, gravity = w.params.get("mass", ["drone_2/base"]), w.params.get("gravity")
    moments = w.params.get("inertia", ["drone_2/base"])
    return {"mass": mass, "gravity": gravity, "moments": moments, "control": w.actuators(direct).control}


def wakes(w: RotorWorld) -> dict[str, torch.Tensor]:
    """Two drones above each other over ground, which they then meet."""
    n = w.num_envs
    both = w.multirotors(["drone_0", "drone_1"])
    both.start(None, torch.full((n, 2, 4), 0.7))
    both.command(0, commands(n, 1, [0.07] * 4, 0.005).expand(n, 1, 2, 4))
    w.step(4)
    wake = torch.zeros(n, 1, 3)
    w.ops.gather(w.bodies_lanes, np.array(w.members(["drone_1/base"])), at.WAKE, w.array(wake))
    put(w, "drone_1/base", (0.02, 0.0, 0.014), vel=(0.3, 0.0, -1.0), rate=(1.0, 2.0, 0.5))
    touch = w.touches("ground", ["drone_1/collision"])
    w.step(3)
    assert (touch.impulse > 0).all()
    return {"impulse": touch.impulse, "when": touch.when, "speed": both.rotor_speed, "wake": wake}


def ball(w: RotorWorld) -> dict[str, torch.Tensor]:
    """A ball bounces off a racket and another off a box; one world diverges and starts anew; snapshots go to and fro."""
    n = w.num_envs
    state = w.bodies(["ball_0/base"]).state.clone()
    state[..., 2], state[..., 9], state[..., 10] = 0.1, -3.0 - 0.1 * torch.arange(n)[:, None], 20.0
    w.bodies(["drone_0/base"]).set_state(None, at_rest(n, 0.0))
    w.bodies(["ball_0/base"]).set_state(None, state)
    put(w, "ball_1/base", (2.0, 0.0, 0.255), vel=(1.0, 0.0, -2.0), rate=(5.0, 0.0, 1.0))
    kept = w.snapshot()
    w.restore(kept)
    touch = w.touches("drone_0/racket", ["ball_0/ball"]), w.touches("ball_1/ball", ["box", "ball_0/ball"])
    w.step(4)
    assert (touch[0].impulse > 0).all() and (touch[1].impulse[:, 0] > 0).all()
    out = {"impulse": torch.cat([t.impulse for t in touch], 1), "when": torch.cat([t.when for t in touch], 1)}
    w.bodies(["ball_1/base"]).set_state(torch.tensor([1]), torch.full((1, 1, 13), 1e8))
    w.step(1)
    assert w.failed.tolist() == [1] and w.failures == 1
    return out


def at_rest(n: int, height: float) -> torch.Tensor:
    return torch.tensor([0.0, 0.0, height, 1.0] + [0.0] * 9).expand(n, 1, 13)


def cases(case: str) -> tuple[Scene, int]:
    """Scene and number of worlds."""
    windy = replace(REALISTIC, wind_speed=4.0, downwash="none")
    if case == "free":
        return scene(SAGGING, [(3.0 * i, 0.0, 50.0) for i in range(6)], fx=windy), 3
    if case == "ball":
        base = with_boxes(("box", "box", (0.5, 0.5, 0.1), (2.0, 0.0, 0.1)), floor=False)
        return scene(
            RACKET, [(0.0, 0.0, 0.0)], [(0.0, 0.0, 5.0), (2.0, 0.0, 5.0)], base=base, fx=REALISTIC, friction=0.3
        ), 2
    places = [(0.0, 0.0, 0.6), (0.02, 0.0, 0.1)]
    return scene(SAGGING, places, base=bare_ground, fx=replace(REALISTIC, downwash=case)), 2


def compare(case: str) -> dict[str, dict[str, float]]:
    run = {"free": free, "ball": ball}.get(case, wakes)
    found = []
    for make in (RotorWorld, CudaWorld):
        w = make(*cases(case))
        found.append(numbers(w, run(w)))
    one, other = found
    assert one.keys() == other.keys()
    apart, largest = {}, {}
    for name in one:
        a, b = one[name].double().numpy(), other[name].double().numpy()
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        with np.errstate(invalid="ignore"):
            apart[name] = float(np.where(same, 0.0, np.abs(a - b) / (1.0 + np.abs(a))).max(initial=0.0))
        largest[name] = float(np.abs(np.where(np.isfinite(a), a, 0.0)).max(initial=0.0))
    return {"apart": apart, "largest": largest}


if __name__ == "__main__":
    print(json.dumps({case: compare(case) for case in sys.argv[1:]}))
