"""Cost of a hierarchical rollout: control steps of a high level in training above a skill, over those of the skill alone.

    python benchmarks/hierarchy.py [--num-envs 1024 4096] [--seconds 6] [--turns 8] [--out FILE]

The skill alone is the zoo's policy acting in the task. Above it PPO collects decisions, every 10 control steps at most, its
network, its storage and its bookkeeping included. Both are stepped by turns within one process; the cost is the median of the
turns' ratios of processor time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from result_file import write_result

import rookery
from rookery.experiments.runs import open_run
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.training.evaluate import act_with

STEPS = 20
"""Control steps in a row, the rollout's."""
ONE = 'every = 10\n[skills.lead]\npolicy = "drone-hover"\nshift.position_error = 0.5\n'
TWO = f'{ONE}[skills.steady]\npolicy = "drone-hover"\nshift.linear_velocity = 1.0\n'
WALK = (
    'every = 10\n[skills.walk]\npolicy = "go2-velocity"\ncommand.command = [[-0.5, 1.0], [-0.3, 0.3], [-0.8, 0.8]]\n'
    '[skills.stand]\npolicy = "go2-velocity"\ncommand.command = [0.0, 0.0, 0.0]\n'
)
CASES = {
    "drone-hover, one skill": ("drone-hover", ONE, {}, 1.0),
    "drone-hover, two skills": ("drone-hover", TWO, {}, 1.0),
    "go2-velocity, two skills": ("go2-velocity", WALK, {"history": 5}, 0.25),
}
"""Task and policy, skills, config of the task, and share of the worlds."""
COLUMNS = [
    {"key": "case", "title": "case"},
    {"key": "num_envs", "title": "worlds", "format": ",d"},
    {"key": "low", "title": "skill alone, steps/s", "format": ",.0f"},
    {"key": "both", "title": "hierarchical rollout, steps/s", "format": ",.0f"},
    {"key": "cost", "title": "cost", "format": ".0%"},
]
METRICS = {
    "cost": "processor time of a control step of the hierarchical rollout over the skill's alone, less 1: median of turns"
}

Go = Callable[[], None]


def alone(task: str, worlds: int, config: dict[str, Any]) -> Go:
    """Steps of the zoo's policy."""
    env = rookery.make(task, worlds, seed=0, config=config)
    act = act_with(open_run(Path(task))[0], env)
    state = {"obs": env.reset()[0]}
    env.stagger()

    def go() -> None:
        for _ in range(STEPS):
            state["obs"] = env.step(act(state["obs"]))[0]

    return go


def above(task: str, worlds: int, config: dict[str, Any], skills: Path) -> Go:
    """A rollout of the high level."""
    env = rookery.make(task, worlds, seed=0, config=config, skills=skills)
    ppo = PPO(env, PPOConfig(rollout_steps=STEPS, minibatches=1))
    state = {"obs": env.reset()[0]}
    env.stagger()

    def go() -> None:
        ppo._step = 0  # nothing is learned: a rollout begins anew
        for _ in range(STEPS):
            actions = ppo.act(state["obs"])
            result = env.step(actions)
            ppo.observe(state["obs"], actions, result)
            state["obs"] = result[0]

    return go


@torch.no_grad()
def row(case: str, num_envs: int, seconds: float, turns: int) -> dict[str, Any]:
    """A row of the table."""
    task, text, config, share = CASES[case]
    worlds = max(2, int(share * num_envs))
    with tempfile.TemporaryDirectory() as folder:
        skills = Path(folder) / "skills.toml"
        skills.write_text(text)
        pair = alone(task, worlds, config), above(task, worlds, config, skills)
    for go in pair:
        go()
    found: list[tuple[float, float]] = []
    for _ in range(turns):
        spent = []
        for go in pair:
            began, start, rounds = time.perf_counter(), time.process_time(), 0
            while time.perf_counter() - began < 0.5 * seconds / turns or not rounds:
                go()
                rounds += 1
            spent.append((time.process_time() - start) / (rounds * STEPS))
        found.append((spent[0], spent[1]))
    low, both = (statistics.median(x) for x in zip(*found, strict=True))
    cost = statistics.median(b / a for a, b in found) - 1.0
    return {"case": case, "num_envs": worlds, "low": worlds / low, "both": worlds / both, "cost": cost}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--num-envs", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "hierarchy.json")
    args = parser.parse_args()
    began = time.perf_counter()
    torch.set_num_threads(1)
    rows = [row(case, worlds, args.seconds, args.turns) for case in args.cases for worlds in args.num_envs]
    words = f"python benchmarks/hierarchy.py --num-envs {' '.join(map(str, args.num_envs))}"
    write_result(args.out, words, began, COLUMNS, rows, METRICS)
    for r in rows:
        print(r)
    return 0


if __name__ == "__main__":
    sys.exit(main())
