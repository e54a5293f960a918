"""Environment steps per second against the engine's own limit, for the action kinds of drone-hover.

    python benchmarks/env_efficiency.py --seconds 10

Every row is one `rookery bench env` run in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from machine import machine

ROWS = (
    ("rotor_thrust", "none"),
    ("rotor_thrust", "default"),
    ("ctbr", "none"),
    ("ctbr", "default"),
    ("attitude", "none"),
    ("velocity", "none"),
    ("position", "none"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--num-envs", type=int, default=1024)
    args = parser.parse_args()
    print(machine(), flush=True)
    print("| action | randomization | env steps/s | physics steps/s | raw physics steps/s | efficiency |")
    print("|---|---|---|---|---|---|", flush=True)
    for action, randomize in ROWS:
        command = [sys.executable, "-m", "rookery", "bench", "env", "drone-hover", "--action", action, "--json"]
        command += ["--engine", "mujoco", "--task-config", "effects=none"]
        command += ["--randomize", randomize, "--num-envs", str(args.num_envs), "--seconds", str(args.seconds)]
        r = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(
            f"| {action} | {randomize} | {r['env_steps_per_s']:,.0f} | {r['physics_steps_per_s']:,.0f} "
            f"| {r['raw_physics_steps_per_s']:,.0f} | {r['efficiency']:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
