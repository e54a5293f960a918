"""What the trajectory library and the state estimator bring to loco-manipulation: one table.

    python benchmarks/ablation.py --steps 1500000 --seeds 2 --out /tmp/ablation

All begin with a policy of the zoo and go on with PPO for as many control steps each, so that rows of a block may be compared:

- library: from `go2arm-reach`, which has learned random goals only. "random goals" goes on with those; the others go on along
  the library's trajectories, every task as often as the others, or drawn by their errors (adaptive sampling).
- estimator: from `go2arm-loco-manipulation`, with nobody telling the future, as in teleoperation. The policy is told nothing in
  its place, what a network predicts of velocity and future from the last observations, or the truth, which no robot knows.

All are then judged in go2arm-loco-manipulation, nominal physics, every task as often as the others. What was trained before is
taken from the folder: an interrupted table goes on.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from machine import machine

import rookery
from rookery.experiments.runs import open_run
from rookery.policies.policy import layers_of
from rookery.policies.training.evaluate import act_with, evaluate

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
TASK = "go2arm-loco-manipulation"
REACH = "go2arm-reach"
PPO = {"initial_std": 0.1, "learning_rate": 2e-4, "minibatches": 8}
WARMUP = 8  # updates in which only the critic learns
LIBRARY: dict[str, tuple[str, dict[str, object]]] = {
    "random goals": (REACH, {}),
    "library, all tasks alike": (TASK, {"adaptive": False}),
    "library, adaptive sampling": (TASK, {"adaptive": True}),
}
INPUTS = {"nothing": "off", "predictions": "predict", "true values": "privileged"}
FIGURES = ("success", "position_error", "rotation_error", "fell")


def words(value: object) -> list[str]:
    """A setting's value as the command line takes it."""
    return [str(x) for x in value] if isinstance(value, (list, tuple)) else [str(value)]


def train(task: str, init: Path, out: Path, steps: int, *options: str, **ppo: object) -> Path:
    """Train in a process of its own, unless `out` is there already; returns `out`."""
    if not (out / "policy.safetensors").exists():
        policies, contract = open_run(init)
        (policy,) = policies.values()
        settings = {
            **PPO,
            "hidden": [len(layer.bias) for layer in layers_of(policy)[:-1]],
            "critic_warmup": WARMUP,
            "actor_frames": contract.task_config["history"],
            **ppo,
        }
        command = [
            sys.executable, "-m", "rookery", "train", task, "--init", str(init), "--out", str(out), "--steps", str(steps),
            "--task-config", f"history={contract.task_config['history']}", *options,
            *(x for k, v in settings.items() for x in (f"--{k.replace('_', '-')}", *words(v))),
        ]  # fmt: skip
        print(" ".join(command[2:]), flush=True)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return out


def judge(run: Path, episodes: int, seed: int, privileged: bool = False) -> dict[str, float]:
    """Figures of a run's policy in the whole task."""
    policies, contract = open_run(run)
    config = {**contract.task_config, "adaptive": False}
    env = rookery.make(TASK, min(episodes, 256), seed=seed, config=config)
    figures = evaluate(env, act_with(policies, env, privileged), episodes, seed)
    env.close()
    return {name: figures["metrics"][name] for name in FIGURES}


def row(name: str, steps: int, seeds: list[dict[str, float]]) -> str:
    """Means over seeds, and their least and greatest in brackets."""
    cells = []
    for figure in FIGURES:
        v = torch.tensor([s[figure] for s in seeds]) * (100.0 if figure == "position_error" else 1.0)
        digits = 1 if figure == "position_error" else 3
        spread = f" ({v.min():.{digits}f} to {v.max():.{digits}f})" if len(seeds) > 1 else ""
        cells.append(f"{v.mean():.{digits}f}{spread}")
    return f"| {name} | {steps:,} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_500_000, help="control steps of each training")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=512)
    parser.add_argument("--only", nargs="+", default=[*LIBRARY, *INPUTS], choices=[*LIBRARY, *INPUTS])
    parser.add_argument("--num-envs", type=int, default=None, help="of each training; the preset's if left out")
    parser.add_argument("--out", type=Path, default=Path("runs/ablation"))
    args = parser.parse_args()
    worlds = () if args.num_envs is None else ("--num-envs", str(args.num_envs))
    seeds = range(args.seeds)
    out = args.out
    n = args.episodes
    head = "| {} | steps | success | position, cm | orientation, rad | fell |\n|---|---|---|---|---|---|"

    def as_library_task(run: Path, name: str) -> Path:
        """A policy of random goals as one of the whole task: one update in which only the critic moves."""
        count = args.num_envs or 64
        options = ("--num-envs", str(count), "--task-config", "adaptive=false")
        return train(TASK, run, out / f"{name}-converted", count * 32, *options, critic_warmup=1000)

    print(machine(), "\n", head.format("trained on"), sep="\n", flush=True)
    print(row("random goals, as in the zoo", 0, [judge(as_library_task(ZOO / REACH, "start"), n, 1)]), flush=True)
    for name, (task, config) in LIBRARY.items():
        if name not in args.only:
            continue
        found = []
        for seed in seeds:
            key = f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
            options = [x for k, v in config.items() for x in ("--task-config", f"{k}={str(v).lower()}")]
            run = train(task, ZOO / REACH, out / key, args.steps, "--seed", str(seed), *worlds, *options)
            found.append(judge(run if task == TASK else as_library_task(run, key), n, 1 + seed))
        print(row(name, args.steps, found), flush=True)

    print(head.format("\nthe future is not told; the policy is told"), flush=True)
    for name, mode in INPUTS.items():
        if name not in args.only:
            continue
        found = []
        for seed in seeds:
            options = ("--seed", str(seed), *worlds, "--task-config", "future=false", "--randomize", "none")
            run = train(TASK, ZOO / TASK, out / f"estimator-{mode}-{seed}", args.steps, *options, estimator=mode)
            found.append(judge(run, n, 1 + seed, privileged=mode == "privileged"))
        print(row(name, args.steps, found), flush=True)


if __name__ == "__main__":
    main()
