"""Speed of the Go2's tasks: the environment against its engine, and our model of Go2 and Airbot Play against other settings.

    python benchmarks/legged.py --seconds 6

The models take turns, in slices of half a second on one thread, in one process, with the same commands; the state after two
seconds at rest is shown beside each, since a fast model that stands elsewhere is another model.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable

import mujoco
import numpy as np
from machine import machine
from mujoco.batch import Batch

from rookery.assets.scenery import ground
from rookery.robots.arms.models import find_arm
from rookery.robots.quadrupeds.go2 import HOME_LEGS, add_go2
from rookery.sim.scene import Scene
from rookery.tasks.locomanip.base import IMPRATIO

WORLDS = 256
CALL = 4


def model(integrator: str, grip: float, dry: bool) -> mujoco.MjModel:
    """Go2 with Airbot Play on a plane."""

    def floor() -> mujoco.MjSpec:
        spec = ground(visual=False)
        spec.option.impratio = grip
        return spec

    arm = find_arm("airbot_play")
    scene = add_go2(Scene(floor, dt=0.005, integrator=integrator), arm, dry_friction=dry)
    if dry:
        assert arm is not None
        scene.placements[1] = type(scene.placements[1])(
            **{**vars(scene.placements[1]), "make": lambda: arm.spec(dry_friction=True)}
        )
    return scene.compile()


MODELS: dict[str, Callable[[], mujoco.MjModel]] = {
    "ours": lambda: model("implicitfast", IMPRATIO, False),
    "ours, MuJoCo's default options": lambda: model("euler", 1.0, False),
    "dry friction as published, MuJoCo's default options": lambda: model("euler", 1.0, True),
    "dry friction as published, our options": lambda: model("implicitfast", IMPRATIO, True),
}


class Case:
    """One model in a batch, its arm and legs told to move a little."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = MODELS[name]()
        self.batch = Batch(self.model, WORLDS, 1)
        arm = find_arm("airbot_play")
        assert arm is not None
        self.home = np.concatenate((HOME_LEGS, arm.ready, [0.0]))
        self.batch.bind("qpos")[:, 7:25] = self.home[:18]
        self.control = self.batch.bind("ctrl")
        self.control[:] = self.home
        self.batch.step(nstep=400)
        q = self.batch.bind("qpos")[0]
        self.rest = f"{q[2]:.3f} m, knee {q[9]:.3f} rad, elbow {q[21]:.3f} rad"
        self.rng, self.rates = np.random.default_rng(0), []  # type: ignore[var-annotated]

    def slice(self, seconds: float) -> None:
        steps = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            self.control[:] = self.home + 0.1 * self.rng.standard_normal(self.control.shape)
            self.batch.step(nstep=CALL)
            steps += CALL * WORLDS
        self.rates.append(steps / (time.perf_counter() - start))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0)
    args = parser.parse_args()
    print(machine(), flush=True)
    print(
        "\n| task, 1,024 worlds | env steps/s | physics steps/s | raw physics steps/s | efficiency |\n|---|---|---|---|---|"
    )
    for task in ("go2-velocity", "go2arm-reach"):
        command = [sys.executable, "-m", "rookery", "bench", "env", task, "--num-envs", "1024", "--json"]
        done = subprocess.run([*command, "--seconds", str(args.seconds)], capture_output=True, text=True, check=True)
        r = json.loads(done.stdout)
        print(
            f"| {task} | {r['env_steps_per_s']:,.0f} | {r['physics_steps_per_s']:,.0f} "
            f"| {r['raw_physics_steps_per_s']:,.0f} | {r['efficiency']:.2f} |",
            flush=True,
        )
    cases = [Case(name) for name in MODELS]
    for _ in range(max(3, round(args.seconds))):
        for case in cases:
            case.slice(0.5)
    base = np.array(cases[0].rates)
    print("\n| model, one thread | physics steps/s | ours over it | at rest |\n|---|---|---|---|")
    for case in cases:
        rates = np.array(case.rates)
        print(f"| {case.name} | {np.median(rates):,.0f} | {np.median(base / rates):.2f} | {case.rest} |")


if __name__ == "__main__":
    main()
