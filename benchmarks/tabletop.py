"""Speed of the table-top ten on one core, as `peers/metaworld_speed.py` measures Meta-World, and on all of them.

    python benchmarks/tabletop.py --seconds 3

Every figure is a `rookery bench env` run in a process of its own, which counts resets and random actions. Efficiency is against
the raw engine on the same cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from machine import machine

TEN = (
    "reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown",
    "peg-insert-side", "window-open", "window-close",
)  # fmt: skip


def bench(task: str, cores: set[int], worlds: int, seconds: float) -> dict[str, float]:
    """Figures of `rookery bench env` on these cores."""
    command = [sys.executable, "-m", "rookery", "bench", "env", f"table-{task}", "--json"]
    command += ["--num-envs", str(worlds), "--seconds", str(seconds)]
    os.sched_setaffinity(0, cores)  # a child's are its parent's
    out: dict[str, float] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=TEN, default=list(TEN))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--num-envs", type=int, default=256)
    args = parser.parse_args()
    cores = os.sched_getaffinity(0)
    print(machine(), flush=True)
    print(
        "\n| task | one core, env steps/s | efficiency | all cores, env steps/s | efficiency |\n|---|---|---|---|---|"
    )
    for task in args.tasks:
        one, every = (bench(task, c, args.num_envs, args.seconds) for c in ({max(cores)}, cores))
        cells = " | ".join(f"{r['env_steps_per_s']:,.0f} | {r['efficiency']:.2f}" for r in (one, every))
        print(f"| {task} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
