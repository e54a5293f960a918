"""One hover policy with memory for every drone: those of the package, and eight random ones from 30 g to 2.5 kg.

    python benchmarks/any_drone.py --runs RUN [RUN ...] [--episodes 64] [--seed 0]

After RAPTOR (Eschmann et al. 2025, arXiv 2509.11481): one recurrent policy finds out within a flight which drone it
flies. Unlike there, it commands body rates and collective thrust (ctbr): each drone's own rate loop stands between it and
the rotors. The policy has seen one airframe only, the Hummingbird's, under the factors of
policies/zoo/drone-hover-any/randomization.toml: in normalized commands a drone is its thrust-to-weight ratio, how fast its
rates follow, its lags and its drag, whatever its mass.

Actions are shares of each drone's own limits, so a policy is handed over here without the check of its contract's limits.
The result is benchmarks/results/any-drone.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import commit, machine

import rookery
from rookery.cli.main import guarded
from rookery.experiments.runs import open_run
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.robots.drones.crazyflie import FIRMWARE_GAINS
from rookery.robots.drones.table import DRONES, register_drone
from rookery.sim.multirotor.parameters import GRAVITY, DroneParameters

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
LIGHTEST, HEAVIEST, RANDOM = 0.03, 2.5, 8  # kg, kg, drones
DRAWS = 2509_11481


def random_drone(rng: np.random.Generator, name: str, mass: float) -> DroneParameters:
    """A drone of that mass (kg) whose other constants are drawn.

    Arms grow with the cube root of the mass, as those of the package's drones do; rate loops are tuned as those are (see
    robots/drones): they cross over at 18 to 28 rad/s, or slower where the rotor lag asks for it.
    """
    u = rng.uniform
    arm = 0.04 * (mass / 0.0306) ** (1 / 3) * u(0.8, 1.25)
    radius = 0.55 * arm
    place = arm / math.sqrt(2.0)
    jx = u(0.18, 0.38) * mass * arm * arm
    jy = jx * u(0.9, 1.2)
    jz = (jx + jy) * u(0.75, 0.98)
    top = u(1.5, 4.0) * mass * GRAVITY / 4
    linear = u(0.0, 0.3)
    ratio = u(0.1, 0.2) * radius
    tau = math.exp(u(math.log(0.02), math.log(0.08)))
    curve = (0.0, linear * top, (1.0 - linear) * top)
    hover = _speed(curve, mass * GRAVITY / 4)
    slope = curve[1] + 2 * curve[2] * hover  # N, of a rotor, per unit of speed
    cross = min(u(18.0, 28.0), 0.6 / tau)
    turn = u(5.0, 9.0)
    kp = (cross * jx / (2 * place * slope), cross * jy / (2 * place * slope), turn * jz / (4 * ratio * slope))
    gains = FIRMWARE_GAINS._replace(
        rate_kp=kp,
        rate_ki=(2.0 * kp[0], 2.0 * kp[1], 0.14 * kp[2]),
        rate_kd=(0.01 * kp[0], 0.01 * kp[1], 0.0),
        rate_output_limit=(0.5, 0.5, 0.2),
    )
    drag = 0.015 * (mass / 0.0306) ** (2 / 3) * u(0.3, 1.0)
    return DroneParameters(
        name=name,
        mass=mass,
        inertia=(jx, jy, jz),
        rotor_positions=((place, -place, 0.0), (-place, -place, 0.0), (-place, place, 0.0), (place, place, 0.0)),
        directions=(-1, 1, -1, 1),
        thrust_curve=curve,
        torque_curve=(0.0, ratio * curve[1], ratio * curve[2]),
        tau_up=tau,
        tau_down=tau * u(1.0, 3.0),
        propeller_radius=radius,
        body_radius=1.5 * arm,
        body_height=0.6 * arm,
        max_rate=(math.pi, math.pi, math.pi if u() < 0.5 else 1.0),
        max_tilt=math.radians(35.0),
        max_velocity=3.0,
        gains=gains,
        look="crazyflie",
        body_drag=(drag, drag, drag),
        ground_effect_gain=5.0,
    )


def _speed(curve: tuple[float, float, float], thrust: float) -> float:
    """Normalized rotor speed for a thrust in N."""
    _, a, b = curve
    return (math.sqrt(a * a + 4 * b * thrust) - a) / (2 * b)


def drones() -> list[DroneParameters]:
    """Those of the package, then the random ones by mass: evenly spaced in the logarithm."""
    rng = np.random.default_rng(DRAWS)
    out = list(DRONES.values())
    for i in range(RANDOM):
        mass = LIGHTEST * (HEAVIEST / LIGHTEST) ** (i / (RANDOM - 1))
        out.append(register_drone(random_drone(rng, f"random_{i + 1}", mass)))
    return out


def figures(run: Path, drone: str, episodes: int, seed: int, randomize: str) -> dict[str, float]:
    """Success and position error (cm) of a policy on a drone."""
    policies, contract = open_run(run)
    config: dict[str, Any] = {**contract.task_config, "drone": drone}
    env = rookery.make(contract.task_id, episodes, seed=seed, config=config, randomize=randomize)
    metrics = evaluate(env, act_with(policies, env), episodes, seed)["metrics"]
    env.close()
    return {"success": metrics["success"], "error_cm": 100.0 * metrics["error_m"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, nargs="+", default=[ZOO / "drone-hover-any"], help="the first is tabled")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start, source = time.perf_counter(), commit()
    rows = []
    for d in drones():
        own, *others = [figures(run, d.name, args.episodes, args.seed, "none") for run in args.runs]
        varied = figures(args.runs[0], d.name, args.episodes, args.seed, "default")
        plain = figures(ZOO / "drone-hover", d.name, args.episodes, args.seed, "none")
        row: dict[str, Any] = {"drone": d.name, "mass": d.mass, "ratio": d.thrust_to_weight, **own}
        row |= {"default": varied["success"], "plain": plain["success"], "plain_error_cm": plain["error_cm"]}
        rows.append(row | {"least": min([own["success"], *(o["success"] for o in others)])})
        print(rows[-1], flush=True)
    result = {
        "name": "any-drone",
        "command": f"python benchmarks/any_drone.py --episodes {args.episodes} --seed {args.seed}",
        "commit": source,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(time.perf_counter() - start, 1),
        "metrics": {
            "success": "no crash, and a mean position error below 5 cm over the last 2 s of 10 s; nominal physics",
            "default": "the same under the default randomization",
            "plain": "of the policy drone-hover, which has no memory and was trained on the Crazyflie 2.1 alone",
            **({"least": f"least success of {len(args.runs)} training seeds"} if len(args.runs) > 1 else {}),
        },
        "columns": [
            {"key": "drone", "title": "drone"},
            {"key": "mass", "title": "mass, kg", "format": ".3f"},
            {"key": "ratio", "title": "thrust over weight", "format": ".2f"},
            {"key": "success", "title": "success rate", "format": ".3f"},
            {"key": "error_cm", "title": "position error, cm", "format": ".2f"},
            {"key": "default", "title": "success rate, randomized", "format": ".3f"},
            *([{"key": "least", "title": "least of the seeds", "format": ".3f"}] if len(args.runs) > 1 else []),
            {"key": "plain", "title": "success rate, no memory", "format": ".3f"},
        ],
        "rows": rows,
    }
    (RESULTS / "any-drone.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(guarded(main))
