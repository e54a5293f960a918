"""Microseconds of a gradient step of SAC and of PPO, by torch and compiled, for batch and width.

    python benchmarks/updates.py [--out benchmarks/results/updates.json]
    python benchmarks/updates.py --variants [--out benchmarks/results/updates-variants.json]    # of DroQ, REDQ and RLPD

One group with 16 observations and 4 actions, two hidden layers, one thread; each figure is the least of several
repetitions, and torch and the kernel take turns. Time is that of the process: what others do on the core does not count.
Widths above nn/compiled.MAX_WIDTH are measured with that limit lifted. RLPD takes half of each batch from episodes of
drone-hover's classical controller, as `rookery demos record drone-hover` writes them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from result_file import RESULTS, write_result

import rookery
from rookery.experiments.demonstrations import record
from rookery.policies.algorithms import VARIANTS
from rookery.policies.algorithms.ppo import PPO
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.algorithms.sac_learner import SACLearner
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.nn import compiled as limits
from rookery.policies.storage.demonstrations import replay_of
from rookery.policies.storage.rollout import Samples

TASK = "drone-hover"
STEPS = 20  # gradient steps of one repetition, of which variants make one of the policy
WIDTHS = (64, 128, 256)
SAC_BATCHES = (64, 128, 256, 512)
PPO_BATCHES = (256, 512, 2048)
SETTINGS = ("droq", "redq", "rlpd")
SETTINGS_WIDTHS = (64, 256)
SETTINGS_BATCH = 256
EPISODES = 10

Case = tuple[dict[str, Any], Callable[[bool], Callable[[], Any]]]
"""What a row is of, and what makes its gradient steps, by torch or compiled."""


def sac_steps(
    group: Any, width: int, batch: int, compiled: bool, data: Dataset | None = None, **settings: Any
) -> Callable[[], Any]:
    """A function that makes STEPS gradient steps on a full memory, and on demonstrations where there are some."""
    g = torch.Generator().manual_seed(0)
    config = SACConfig(**{"activation": "tanh", **settings}, hidden=(width, width), batch=batch, compiled=compiled)
    learner = SACLearner(group, 8, 2000, config, g, torch.device("cpu"))
    assert (learner.compiled is not None) == compiled
    if data is not None:
        learner.learn_from(replay_of(data, next(iter(data.groups)), {}, torch.device("cpu")))
    replay = learner.replay
    replay.size = replay.steps
    for tensor in (replay.observation, replay.action, replay.reward):
        tensor.uniform_(-1.0, 1.0, generator=g)
    return lambda: learner.learn(*learner.draw(STEPS, g), g)


def ppo_steps(env: Any, width: int, batch: int, compiled: bool) -> Callable[[], Any]:
    """A function that makes STEPS optimizer steps on one minibatch."""
    g = torch.Generator().manual_seed(0)
    config = PPOConfig(hidden=(width, width), compiled=compiled, rollout_steps=1, minibatches=1)
    ppo = PPO(env, config)
    (learner,) = ppo.learners.values()
    learner.divide(1)
    obs = torch.rand(1, batch, learner.actor.inputs, generator=g)
    action = torch.rand(1, batch, learner.actor.outputs, generator=g)
    log_prob, advantage, target, value = torch.rand(4, 1, batch, generator=g)
    samples = Samples(obs, obs, action, log_prob, advantage, target, value, None)

    def run() -> None:
        with torch.no_grad():
            for _ in range(STEPS):
                ppo.learn(learner, samples, slice(0, batch), batch)

    return run


def compare(make_steps: Callable[[bool], Callable[[], Any]], repetitions: int) -> dict[str, float]:
    """us per gradient step of both, and their ratio."""
    kinds = {"torch": make_steps(False), "compiled": make_steps(True)}
    best = dict.fromkeys(kinds, float("inf"))
    for run in kinds.values():
        run()
    for _ in range(repetitions):
        for name, run in kinds.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], (time.process_time() - start) / STEPS * 1e6)
    return best | {"ratio": best["torch"] / best["compiled"]}


def measure(cases: list[Case], repetitions: int) -> list[dict[str, Any]]:
    """Rows of the table."""
    rows = []
    for what, make_steps in cases:
        rows.append(what | compare(make_steps, repetitions))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def sizes(env: Any, repetitions: int, out: Path, start: float) -> None:
    """SAC and PPO with networks and batches of several sizes."""
    (group,) = env.groups.values()
    cases: list[Case] = []
    for n in WIDTHS:
        for b in SAC_BATCHES:
            cases.append(({"algorithm": "SAC", "width": n, "batch": b}, partial(sac_steps, group, n, b)))
    for n in WIDTHS:
        for b in PPO_BATCHES:
            cases.append(({"algorithm": "PPO", "width": n, "batch": b}, partial(ppo_steps, env, n, b)))
    rows = measure(cases, repetitions)
    columns = [
        {"key": "algorithm", "title": "algorithm"},
        {"key": "width", "title": "units of two layers", "format": "d"},
        {"key": "batch", "title": "batch", "format": "d"},
        {"key": "torch", "title": "torch, us", "format": ",.0f"},
        {"key": "compiled", "title": "compiled, us", "format": ",.0f"},
        {"key": "ratio", "title": "ratio", "format": ".1f"},
    ]
    metrics = {"torch, compiled": "time of a gradient step on one thread, the least of several repetitions"}
    write_result(out, "python benchmarks/updates.py", start, columns, rows, metrics)


def variants(env: Any, repetitions: int, out: Path, start: float) -> None:
    """SAC with the settings of its variants of few worlds, and RLPD with demonstrations."""
    (group,) = env.groups.values()
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder:
        record(Path(TASK), Path(folder) / "demos", EPISODES, num_envs=EPISODES)
        data = Dataset(Path(folder) / "demos")
        for name in SETTINGS:
            for n in SETTINGS_WIDTHS:
                shown = {"data": data} if name == "rlpd" else {}
                settings = {"activation": "relu", **VARIANTS[name].config, **shown}
                cases.append(({"variant": name, "width": n}, partial(sac_steps, group, n, SETTINGS_BATCH, **settings)))
        rows = measure(cases, repetitions)
    for row in rows:
        row |= {f"{name}_rate": 1e6 / row[name] for name in ("torch", "compiled")}
    columns = [
        {"key": "variant", "title": "`--algorithm`"},
        {"key": "width", "title": "units of two layers", "format": "d"},
        {"key": "torch_rate", "title": "gradient steps a second by torch", "format": ",.0f"},
        {"key": "compiled_rate", "title": "compiled", "format": ",.0f"},
        {"key": "ratio", "title": "ratio", "format": ".1f"},
    ]
    metrics = {
        "gradient steps a second": f"on batches of {SETTINGS_BATCH}, one thread, by the time of the process, the most of "
        "several repetitions; one of the policy in 20 of the critics"
    }
    write_result(out, "python benchmarks/updates.py --variants", start, columns, rows, metrics)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    limits.MAX_WIDTH = max(WIDTHS)
    start = time.perf_counter()
    env = rookery.make(TASK, num_envs=64)
    if args.variants:
        variants(env, args.repetitions, args.out or RESULTS / "updates-variants.json", start)
    else:
        sizes(env, args.repetitions, args.out or RESULTS / "updates.json", start)


if __name__ == "__main__":
    main()
