"""How well a policy of go2arm-reach tracks while it stands and while it walks at one speed.

    python benchmarks/reach.py [policies/zoo/go2arm-reach] --episodes 256

Nominal physics, the task's own pushes, deterministic policy; the means run over whole episodes but their first second.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from machine import machine

import rookery
from rookery.runs import open_run

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=ZOO / "go2arm-reach")
    parser.add_argument("--episodes", type=int, default=256)
    args = parser.parse_args()
    policies, contract = open_run(args.run)
    print(machine())
    print(
        "\n| command | position, cm | orientation, rad | fell | speed reached, m/s | action change | torque peak, N m |"
    )
    print("|---|---|---|---|---|---|---|")
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
        print(
            f"| {speed} m/s | {100 * m['position_error']:.2f} | {m['rotation_error']:.3f} | {m['fell']:.3f} "
            f"| {float(reached[whole].mean()) / env.max_episode_steps:.2f} | {m['action_change']:.3f} "
            f"| {m['torque_peak']:.1f} |"
        )


if __name__ == "__main__":
    main()
