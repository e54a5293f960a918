"""Returns of our SAC or TD3 on a gymnasium task beside those of Stable-Baselines3's with the same settings, or of a variant.

    python benchmarks/off_policy_vs_sb3.py [--algorithm td3] [--task Hopper-v5] [--steps 20000] [--hidden 64 64] [--seeds 5]
    python benchmarks/off_policy_vs_sb3.py --beside droq --task Hopper-v5 --steps 10000 --hidden 64 64 --out FILE

Both make one gradient step after every control step, on 256 transitions, with ReLU networks of `--hidden`, from 100 random
steps on. TD3 explores with a standard deviation of 0.1 and moves its policy at every second step. Every
`--every` steps the deterministic policy is evaluated in 20 episodes that are the same for both. The result says
whether our mean return at the end is within the spread of theirs over the seeds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from machine import commit, machine
from stable_baselines3.common.noise import NormalActionNoise

from rookery.policies.algorithms import VARIANTS
from rookery.policies.algorithms.sac import SAC
from rookery.policies.algorithms.td3 import TD3
from rookery.sim.adapters.gymnasium_source import make_gymnasium

OURS: dict[str, Any] = {"sac": SAC, "td3": TD3}
SB3 = "stable_baselines3"
EPISODES = 20
FIRST_EVALUATION_SEED = 10_000
SETTINGS: dict[str, Any] = {
    "learning_rate": 3e-4,
    "buffer_size": 1_000_000,
    "learning_starts": 100,
    "gamma": 0.99,
    "tau": 0.005,
}


def evaluate(task: str, act: Callable[[np.ndarray], np.ndarray]) -> float:
    """Mean return of a deterministic policy over the evaluation episodes."""
    env = gymnasium.make(task)
    total = 0.0
    for i in range(EPISODES):
        obs, _ = env.reset(seed=FIRST_EVALUATION_SEED + i)
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(act(obs))
            total += float(reward) / EPISODES
            over = terminated or truncated
    env.close()
    return total


def ours(
    kind: str, task: str, seed: int, steps: int, every: int, hidden: tuple[int, ...], variant: str = ""
) -> dict[str, Any]:
    """Train ours, or a variant of it; evaluations and seconds of training."""
    env = make_gymnasium(task, 1, seed)
    space = gymnasium.make(task).action_space
    middle = (space.high + space.low) / 2.0
    half = (space.high - space.low) / 2.0
    cls = OURS[kind]
    settings = {"rollout_steps": 1, "updates_per_step": 1.0, "batch": 256, "hidden": hidden, **SETTINGS}
    settings |= VARIANTS[variant].config if variant else {}
    config = cls.Config(normalize_observations=False, **settings)
    algorithm = cls(env, config, seed)
    returns = []
    seconds = 0.0
    obs, _ = env.reset(seed)
    for step in range(1, steps + 1):
        start = time.perf_counter()
        actions = algorithm.act(obs)
        result = env.step(actions)
        algorithm.observe(obs, actions, result)
        obs = result[0]
        algorithm.update(step / steps)
        seconds += time.perf_counter() - start
        if step % every == 0:
            policy = algorithm.policies()["agent"]

            @torch.no_grad()
            def act(x: np.ndarray, policy: Any = policy) -> np.ndarray:
                return middle + half * policy(torch.from_numpy(x.astype(np.float32))).numpy()

            returns.append(evaluate(task, act))
    return {"returns": returns, "seconds": seconds}


def theirs(kind: str, task: str, seed: int, steps: int, every: int, hidden: tuple[int, ...]) -> dict[str, Any]:
    """Train Stable-Baselines3's; evaluations and seconds of training."""
    env = gymnasium.make(task)
    size = env.action_space.shape[0]
    # SB3's TD3 has layers of 400 and 300 by default, and no noise
    own = {"action_noise": NormalActionNoise(np.zeros(size), np.full(size, 0.1))} if kind == "td3" else {}
    model = getattr(stable_baselines3, kind.upper())(
        "MlpPolicy",
        env,
        seed=seed,
        batch_size=256,
        train_freq=1,
        gradient_steps=1,
        device="cpu",
        policy_kwargs={"net_arch": list(hidden)},
        **own,
        **SETTINGS,
    )
    returns = []
    seconds = 0.0
    for _ in range(steps // every):
        start = time.perf_counter()
        model.learn(every, reset_num_timesteps=False)
        seconds += time.perf_counter() - start
        returns.append(evaluate(task, lambda x: model.predict(x, deterministic=True)[0]))
    return {"returns": returns, "seconds": seconds}


def summary(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Mean, standard deviation, least and greatest of the last returns, over the seeds."""
    last = [run["returns"][-1] for run in runs]
    spread = statistics.stdev(last) if len(last) > 1 else 0.0
    return {"mean": statistics.mean(last), "std": spread, "low": min(last), "high": max(last)}


def result(runs: dict[str, list[dict[str, Any]]], args: argparse.Namespace, name: str, wall_s: float) -> dict[str, Any]:
    """The results file, see benchmarks/tables.py.

    Args:
        runs: by trainer, one entry for each seed.
        args: of the command line.
        name: of the table.
        wall_s: seconds of everything together.
    """
    figures = {trainer: summary(done) for trainer, done in runs.items()}
    rows = [
        {"trainer": trainer, "seeds": len(runs[trainer]), **figures[trainer], "runs": runs[trainer]} for trainer in runs
    ]
    hidden = " ".join(str(width) for width in args.hidden)
    mine, other = figures.values()
    within = abs(mine["mean"] - other["mean"]) <= other["std"]  # a bad seed of ours is no excuse
    return {
        "name": name,
        "command": f"python benchmarks/off_policy_vs_sb3.py --algorithm {args.algorithm} --task {args.task} "
        f"--steps {args.steps} --every {args.every} --hidden {hidden} --seeds {len(rows[0]['runs'])}"
        + ("" if args.beside == SB3 else f" --beside {args.beside}"),
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(wall_s, 1),
        "metrics": {
            "mean": f"return of the deterministic policy after {args.steps} steps of {args.task}, {EPISODES} episodes a seed",
            "std": "standard deviation over seeds",
        },
        "columns": [
            {"key": "trainer", "title": "trainer"},
            {"key": "seeds", "title": "seeds", "format": "d"},
            {"key": "mean", "title": "mean return", "format": ".1f"},
            {"key": "std", "title": "standard deviation", "format": ".1f"},
            {"key": "low", "title": "worst", "format": ".1f"},
            {"key": "high", "title": "best", "format": ".1f"},
        ],
        "rows": rows,
        "settings": SETTINGS,
        "within_spread": within,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=OURS, default="sac")
    parser.add_argument("--task", default="Pendulum-v1")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=2_500)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--beside", choices=(SB3, *VARIANTS), default=SB3, help="the other trainer")
    parser.add_argument("--out", type=Path, help="benchmarks/results/ALGORITHM-vs-sb3.json if left out, or -vs-VARIANT")
    args = parser.parse_args()
    other = "sb3" if args.beside == SB3 else args.beside
    out = args.out or Path(__file__).parent / "results" / f"{args.algorithm}-vs-{other}.json"
    first = "rookery" if args.beside == SB3 else args.algorithm
    trainers = {first: ours, args.beside: theirs if args.beside == SB3 else partial(ours, variant=args.beside)}
    torch.set_num_threads(1)
    start = time.perf_counter()
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in trainers}
    for seed in range(args.seeds):
        for name, train in trainers.items():
            run = train(args.algorithm, args.task, seed, args.steps, args.every, tuple(args.hidden))
            runs[name].append({"seed": seed, **run})
            print(f"{name:18} seed {seed}: {[round(r, 1) for r in run['returns']]}, {run['seconds']:.0f} s", flush=True)
        made = result(runs, args, out.stem, time.perf_counter() - start)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps({row["trainer"]: row["mean"] for row in made["rows"]}, indent=1))


if __name__ == "__main__":
    main()
