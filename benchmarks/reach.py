"""How well a policy of go2arm-reach tracks while it stands and while it walks at one speed: benchmarks/results/reach.json.

    python benchmarks/reach.py [policies/zoo/go2arm-reach] --episodes 256

Nominal physics, the task's own pushes, deterministic policy; the means run over whole episodes but their first second.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from result_file import RESULTS, write_result

import rookery
from rookery.cli.main import guarded
from rookery.experiments.runs import open_run

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
OUT = RESULTS / "reach.json"
COLUMNS = [
    {"key": "speed", "title": "command, m/s", "format": ".1f"},
    {"key": "position_cm", "title": "position error, cm", "format": ".2f"},
    {"key": "rotation_error", "title": "orientation error, rad", "format": ".3f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "fell", "title": "fell", "format": ".3f"},
    {"key": "reached", "title": "speed reached, m/s", "format": ".2f"},
    {"key": "action_change", "title": "action change", "format": ".3f"},
    {"key": "torque_peak", "title": "largest torque, N m", "format": ".1f"},
]
METRICS = {
    "success": "no fall, and mean errors below 3 cm and 0.2 rad",
    "torque_peak": "the largest of any joint in any physics step, mean over episodes",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=ZOO / "go2arm-reach")
    parser.add_argument("--episodes", type=int, default=256)
    args = parser.parse_args()
    policies, contract = open_run(args.run)
    start = time.perf_counter()
    rows = []
    for speed in (0.0, 0.3):
        config = {**contract.task_config, "resample_s": 1e6}
        env = rookery.make("go2arm-reach", args.episodes, seed=1, config=config)
        obs, _ = env.reset()
        reached = torch.zeros(args.episodes)
        done = torch.zeros(args.episodes, dtype=torch.bool)
        figures: dict[str, torch.Tensor] = {}
        for _ in range(env.max_episode_steps):
            env.task.command.zero_()
            env.task.command[:, 0] = speed
            with torch.no_grad():
                obs, _, _, _, info = env.step({"robot": policies["robot"](obs["robot"])})
            reached += env.task.robot.velocity[:, 0] * ~done
            if "episode" in info:
                ids = info["episode"]["ids"]
                first = ~done[ids]
                for name, values in info["episode"]["metrics"].items():
                    figures.setdefault(name, torch.zeros(args.episodes))[ids[first]] = values[first]
                done[ids] = True
        m = {name: float(values.mean()) for name, values in figures.items()}
        whole = figures["fell"] == 0
        walked = float(reached[whole].mean()) / env.max_episode_steps
        rows.append({"speed": speed, **m, "position_cm": 100 * m["position_error"], "reached": walked})
        print(rows[-1], flush=True)
    write_result(OUT, f"python benchmarks/reach.py --episodes {args.episodes}", start, COLUMNS, rows, METRICS)


if __name__ == "__main__":
    raise SystemExit(guarded(main))
