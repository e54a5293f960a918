"""go2-velocity in minutes: what the options of the physics cost, and what a training with the preset gives.

    python benchmarks/legged_fast.py physics
    python benchmarks/legged_fast.py training runs/go2-velocity/latest --policy policies/zoo/go2-velocity

`physics` lets models with other options take turns, on one thread, from states and with the controls of the zoo's walking
policy, and counts processor time; the state after two seconds at rest stands beside each, since a fast model that stands
elsewhere is another model. `training` evaluates runs and policies under full physics. Both write benchmarks/results.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
from evaluation import eval_figures
from machine import commit, machine
from mujoco.batch import Batch

from rookery.assets.scenery import ground
from rookery.experiments.run_env import make_env
from rookery.experiments.runs import open_run
from rookery.policies.training.evaluate import act_with
from rookery.robots.quadrupeds.go2 import HOME_LEGS, add_go2
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.scene import Scene
from rookery.tasks.locomanip.base import IMPRATIO, NO_WARM_START

RESULTS = Path(__file__).parent / "results"
WORLDS = 256
CONTROL_DT = 0.02  # s
STARTS = (0, 12, 24, 36)
"""Control steps of the recording from which replays begin."""
LENGTH = 8
"""Control steps of a replay that are timed, after one that is not."""


@dataclass(frozen=True)
class Options:
    """One model's options; the defaults are the task's."""

    dt: float = 0.005  # s
    disable: int = int(NO_WARM_START)
    solver: mujoco.mjtSolver = mujoco.mjtSolver.mjSOL_NEWTON
    iterations: int = 100
    impratio: float = IMPRATIO
    integrator: str = "implicitfast"
    cone: mujoco.mjtCone = mujoco.mjtCone.mjCONE_PYRAMIDAL
    feet_only: bool = False

    def model(self) -> mujoco.MjModel:
        """The Go2 on a plane."""

        def floor() -> mujoco.MjSpec:
            spec = ground(visual=False)
            spec.option.impratio = self.impratio
            spec.option.disableflags |= self.disable | int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
            return spec

        model = add_go2(Scene(floor, dt=self.dt, integrator=self.integrator)).compile()
        model.opt.solver = self.solver
        model.opt.cone = self.cone
        model.opt.iterations = self.iterations
        for i in range(model.ngeom):
            name = model.geom(i).name
            if self.feet_only and name.startswith("go2/") and not name.endswith("_foot"):
                model.geom_conaffinity[i] = 0
        return model


PGS = mujoco.mjtSolver.mjSOL_PGS
ELLIPTIC = mujoco.mjtCone.mjCONE_ELLIPTIC
CASES = {
    "warm start and islands, MuJoCo's defaults": Options(disable=0),
    "the task's: neither": Options(),
    "feet alone touch": Options(feet_only=True),
    "elliptic cones": Options(cone=ELLIPTIC),
    "elliptic cones, impratio 100": Options(cone=ELLIPTIC, impratio=100.0),
    "at most 3 iterations": Options(iterations=3),
    "semi-implicit Euler": Options(integrator="euler"),
    "PGS, 4 iterations": Options(solver=PGS, iterations=4),
    "steps of 10 ms": Options(dt=0.01),
    "steps of 10 ms, warm start and islands": Options(dt=0.01, disable=0),
    "steps of 10 ms, feet alone, at most 3 iterations": Options(dt=0.01, feet_only=True, iterations=3),
    "steps of 10 ms, PGS, 4 iterations": Options(dt=0.01, solver=PGS, iterations=4),
    "steps of 10 ms, no constraints (falls through the floor)": Options(
        dt=0.01, disable=int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    ),
    "steps of 20 ms": Options(dt=0.02),
}


@torch.no_grad()
def record() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and controls [T, N, ...] of the zoo's policy walking."""
    policies, contract = open_run(Path("go2-velocity"))
    env = make_env(contract, WORLDS, {}, seed=0)
    assert isinstance(env, VecEnv)
    act = act_with(policies, env)
    obs, _ = env.reset()
    batch = env.world.batch  # type: ignore[attr-defined]
    frames = []
    for step in range(100 + STARTS[-1] + LENGTH + 2):
        frame = [batch.bind(name).copy() for name in ("qpos", "qvel")]
        obs = env.step(act(obs))[0]
        if step >= 100:
            frames.append([*frame, batch.bind("ctrl").copy()])
    env.close()
    qpos, qvel, ctrl = (np.array(x) for x in zip(*frames, strict=True))
    return qpos, qvel, ctrl


def at_rest(model: mujoco.MjModel) -> tuple[float, float]:
    """Height in m and front knee in rad after two seconds at home."""
    data = mujoco.MjData(model)
    data.qpos[7:] = HOME_LEGS
    data.ctrl[:] = HOME_LEGS
    for _ in range(round(2.0 / model.opt.timestep)):
        mujoco.mj_step(model, data)
    return float(data.qpos[2]), float(data.qpos[9])


def physics(repeats: int) -> None:
    """Write legged-fast.json."""
    start = time.time()
    qpos, qvel, ctrl = record()
    models = {name: options.model() for name, options in CASES.items()}
    batches = {name: Batch(model, WORLDS, 1) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for begin in STARTS * repeats:
        for name, batch in batches.items():
            steps = round(CONTROL_DT / CASES[name].dt)
            batch.bind("qpos")[:] = qpos[begin]
            batch.bind("qvel")[:] = qvel[begin]
            batch.bind("ctrl")[:] = ctrl[begin]
            batch.step(nstep=steps)
            clock = time.process_time()
            for t in range(begin + 1, begin + 1 + LENGTH):
                batch.bind("ctrl")[:] = ctrl[t]
                batch.step(nstep=steps)
            times[name].append((time.process_time() - clock) / (LENGTH * WORLDS))
    reference = np.array(times[next(iter(CASES))])
    rows = []
    for name, model in models.items():
        height, knee = at_rest(model)
        row = {"case": name, "us": 1e6 * float(np.median(times[name])), "height": height, "knee": knee}
        rows.append(row | {"ratio": float(np.median(reference / np.array(times[name])))})
    columns = [
        {"key": "case", "title": "Go2 on a plane, walking"},
        {"key": "us", "title": "us of one core for 20 ms", "format": ".1f"},
        {"key": "ratio", "title": "times as fast", "format": ".2f"},
        {"key": "height", "title": "height at rest, m", "format": ".4f"},
        {"key": "knee", "title": "knee, rad", "format": ".3f"},
    ]
    write("legged-fast", columns, rows, time.time() - start)


def training(runs: list[Path], policies: list[Path], episodes: int) -> None:
    """Write legged-fast-training.json: a row for each run, and one for each policy without its log."""
    start = time.time()
    rows = []
    for run in [*runs, *policies]:
        row: dict[str, Any] = {"run": run.name}
        row["steps"] = json.loads((run / "contract.json").read_text())["provenance"]["steps"]
        if run in runs:
            with (run / "progress.csv").open() as file:
                row["seconds"] = float(list(csv.DictReader(file))[-1]["seconds"])
        count = ["--episodes", str(episodes), "--num-envs", "250"]
        for name, options in {
            "": count,
            "_default": [*count, "--randomize", "default"],
            "_late": [*count, "--set", "action_delay=0.02"],
            "_pybullet": ["--engine", "pybullet", "--episodes", "32"],
        }.items():
            metrics = eval_figures(run, *options)["metrics"]
            row |= {f"error{name}": metrics["velocity_error"], f"fell{name}": 100.0 * metrics["fell"]}
            if not name:
                row |= {"turn": metrics["turn_error"], "action_change": metrics["action_change"]}
                row |= {"torque": metrics["torque_peak"]}
            print(row, flush=True)
        rows.append(row)
    columns = [
        {"key": "run", "title": "policy"},
        {"key": "steps", "title": "steps", "format": ",.0f"},
        {"key": "seconds", "title": "training, s", "format": ",.0f"},
        {"key": "error", "title": "error, m/s", "format": ".4f"},
        {"key": "fell", "title": "falls, %", "format": ".1f"},
        {"key": "error_default", "title": "error, default randomization", "format": ".4f"},
        {"key": "fell_default", "title": "falls, %", "format": ".1f"},
        {"key": "error_late", "title": "error, actions 20 ms late", "format": ".4f"},
        {"key": "error_pybullet", "title": "error, pybullet", "format": ".4f"},
        {"key": "fell_pybullet", "title": "falls, %", "format": ".1f"},
    ]
    write("legged-fast-training", columns, rows, time.time() - start)


def write(name: str, columns: list[dict[str, str]], rows: list[dict[str, Any]], wall_s: float) -> None:
    """A results file as tables.py reads it."""
    values = {
        "name": name,
        "command": "python " + " ".join(sys.argv),
        "commit": commit(),
        "machine": machine(),
        "date": time.strftime("%Y-%m-%d"),
        "wall_s": round(wall_s, 1),
        "metrics": {},
        "columns": columns,
        "rows": rows,
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(values, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    timed = commands.add_parser("physics")
    timed.add_argument("--repeats", type=int, default=3)
    learnt = commands.add_parser("training")
    learnt.add_argument("runs", nargs="*", type=Path)
    learnt.add_argument(
        "--policy", action="append", default=[], type=Path, help="a policy without a log, such as the zoo's"
    )
    learnt.add_argument("--episodes", type=int, default=1000)
    args = parser.parse_args()
    mujoco.set_mju_user_warning(lambda message: None)
    if args.command == "physics":
        physics(args.repeats)
    else:
        training(args.runs, args.policy, args.episodes)


if __name__ == "__main__":
    main()
