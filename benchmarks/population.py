"""Cost of a population of opponents: control steps of a match against K frozen policies over those against one.

    python benchmarks/population.py [--task volley-1v1] [--num-envs 1024] [--members 8] [--seconds 4] [--out FILE]

The learner's actions are zero, so that only the match and its opponents are timed: one environment with one policy, one with K
of the same shape, stepped by turns within one process, several times; the ratio is the median of the turns'. The last column
has a learning rollout in place of that, the network of the learner included.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from result_file import write_result

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.multiagent.frozen_opponent import FrozenOpponentEnv
from rookery.policies.training.evaluate import act_with

COLUMNS = [
    {"key": "task", "title": "task"},
    {"key": "num_envs", "title": "worlds", "format": ",d"},
    {"key": "members", "title": "opponents"},
    {"key": "one", "title": "against one, steps/s", "format": ",.0f"},
    {"key": "several", "title": "against all, steps/s", "format": ",.0f"},
    {"key": "cost", "title": "cost of the match", "format": ".1%"},
    {"key": "cost_learning", "title": "cost of a rollout", "format": ".1%"},
]
METRICS = {
    "cost": "time of a control step of the match against all opponents over that against one, less 1: median of paired turns",
    "cost_learning": "the same of a training's rollout, the learner's actions included",
}


def match(task: str, num_envs: int, members: int) -> tuple[FrozenOpponentEnv, PPO]:
    """A match against so many policies of the task's preset, each of random weights, and a learner."""
    env = rookery.make(task, num_envs)
    config = preset(task).algorithm_config
    acts = [act_with(PPO(env, config, seed=k + 1).policies(), env) for k in range(members)]
    wrapped = FrozenOpponentEnv(env, acts, next(iter(env.teams)))
    wrapped.reset(seed=0)
    wrapped.stagger()
    return wrapped, PPO(wrapped, config, seed=0)


def steps_per_second(env: FrozenOpponentEnv, learner: PPO | None, seconds: float) -> float:
    """Control steps of all worlds a second."""
    zeros = {g: torch.zeros(env.num_envs, s.count, s.action.size) for g, s in env.groups.items()}
    obs = env._mine(env._obs)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        actions = zeros if learner is None else learner.act(obs)
        obs = env.step(actions)[0]
        steps += 1
    return steps * env.num_envs / (time.perf_counter() - start)


@torch.no_grad()
def row(task: str, num_envs: int, members: int, seconds: float, turns: int) -> dict[str, Any]:
    """A row of the table."""
    one, several = (match(task, num_envs, k) for k in (1, members))
    found: dict[str, list[tuple[float, float]]] = {"cost": [], "cost_learning": []}
    for env, learner in (one, several):
        steps_per_second(env, learner, 0.25 * seconds)
    for _ in range(turns):
        for key, learns in (("cost", False), ("cost_learning", True)):
            pair = [steps_per_second(e, p if learns else None, seconds / turns) for e, p in (one, several)]
            found[key].append((pair[0], pair[1]))
    for env, _ in (one, several):
        env.close()
    speeds = [statistics.median(x) for x in zip(*found["cost"], strict=True)]
    ratios = {key: statistics.median(a / b for a, b in pairs) - 1.0 for key, pairs in found.items()}
    return {"task": task, "num_envs": num_envs, "members": members, "one": speeds[0], "several": speeds[1], **ratios}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", default=["volley-1v1", "drone-tag"])
    parser.add_argument("--num-envs", type=int, default=1024)
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=6)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "population.json")
    args = parser.parse_args()
    began = time.perf_counter()
    torch.set_num_threads(1)
    rows = [row(task, args.num_envs, args.members, args.seconds, args.turns) for task in args.task]
    words = f"python benchmarks/population.py --task {' '.join(args.task)} --num-envs {args.num_envs} --members {args.members}"
    write_result(args.out, words, began, COLUMNS, rows, METRICS)
    for r in rows:
        print(r)
    return 0


if __name__ == "__main__":
    sys.exit(main())
