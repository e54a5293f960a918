"""Learning on a GPU against learning on the processors of the same machine: whole iterations of PPO, and gradient steps of the
algorithms that were made for GPUs, with the settings of their presets.

    python benchmarks/gpu_learner.py [--quick] [--device cuda] [--worlds 1024 4096 16384] [--only ppo steps]

Both learners share the worlds of a row, one after the other, so that a row tells nothing of when it was measured. Results go to
benchmarks/results/gpu-learner.json and gpu-steps.json, after every row. About four minutes on 16 processors, half with --quick.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from machine import machine
from result_file import RESULTS, write_result

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.algorithms import find_algorithm
from rookery.policies.algorithms.base import Algorithm
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.devices import find_device
from rookery.sim.env import Env
from rookery.sim.envs.device_env import DeviceEnv

TASKS = ("go2-velocity", "drone-hover")
WORLDS = (1024, 4096, 16384)
STEPS_OF = (("fastsac", "go2-velocity"), ("fasttd3", "go2-velocity"))
COMMAND = "python benchmarks/gpu_learner.py"


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def make(task: str, algorithm: str | None, worlds: int) -> tuple[Env, Any]:
    """Worlds of a task as its preset trains in them, and the preset."""
    settings = preset(task, algorithm)
    config = settings.training_config
    env = rookery.make(task, worlds, seed=0, randomize=settings.randomize, config=config, shards="auto")
    return env, settings


def iterations(env: Env, settings: Any, count: int) -> dict[str, float]:
    """Medians over iterations of a training: samples a second, and s of collecting and of learning."""
    algorithm = find_algorithm(settings.algorithm).load()(env, settings.algorithm_config, 0)  # type: ignore[call-arg]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(algorithm, RunnerConfig(total_steps=10**12, trackers=()), Path(folder))
        runner.iterate()  # the first loads kernels and reserves memory
        rows = [runner.iterate() for _ in range(count)]
    out = {key: statistics.median(row[key] for row in rows) for key in ("collect_s", "learn_s")}
    if isinstance(env, DeviceEnv):
        out["copies_s"] = copies(algorithm, env, runner.obs)
    algorithm.close()
    samples = algorithm.steps_per_update * sum(group.count for group in env.groups.values())
    return out | {"samples_per_s": samples / (out["collect_s"] + out["learn_s"])}


@torch.no_grad()
def copies(algorithm: Algorithm, env: DeviceEnv, obs: Any) -> float:
    """s that the copies of an iteration take, each waited for, in one more rollout."""
    staging, device = env._staging, env.device
    total = 0.0

    def timed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(tensors: Any) -> Any:
            nonlocal total
            wait(device)
            begin = time.perf_counter()
            out = function(tensors)
            wait(device)
            total += time.perf_counter() - begin
            return out

        return call

    staging.send, staging.receive = timed(staging.send), timed(staging.receive)  # type: ignore[method-assign]
    try:
        for _ in range(algorithm.rollout_steps):
            actions = algorithm.act(obs)
            result = env.step(actions)
            algorithm.observe(obs, actions, result)
            obs = result[0]
    finally:
        del staging.send, staging.receive
    return total


def ppo_row(task: str, worlds: int, device: torch.device, count: int) -> dict[str, Any]:
    """PPO in the same worlds by both learners."""
    env, settings = make(task, None, worlds)
    try:
        cpu = iterations(env, settings, count)
        gpu = iterations(DeviceEnv(env, device), settings, count)
    finally:
        env.close()
    row: dict[str, Any] = {"case": f"{task}, {worlds:,}", "task": task, "worlds": worlds}
    row |= {f"cpu_{k}": v for k, v in cpu.items()} | {f"gpu_{k}": v for k, v in gpu.items()}
    return row | {"ratio": gpu["samples_per_s"] / cpu["samples_per_s"]}


def gradient_step(variant: str, env: Env, settings: Any, device: torch.device, steps: int) -> float:
    """s of a gradient step, the least of three repetitions, on a full memory of random transitions."""
    placed = env if device.type == "cpu" else DeviceEnv(env, device)
    algorithm: Any = find_algorithm(settings.algorithm).load()(placed, settings.algorithm_config, 0)  # type: ignore[call-arg]
    (learner,) = algorithm.learners.values()
    generator = torch.Generator(device).manual_seed(0)
    replay = learner.replay
    replay.size = replay.steps
    for tensor in (replay.observation, replay.action, replay.reward):
        tensor.uniform_(-1.0, 1.0, generator=generator)
    replay.active.fill_(True)
    learner.learn(*learner.draw(2, generator), generator)
    times = []
    for _ in range(3):
        wait(device)
        begin = time.perf_counter()
        learner.learn(*learner.draw(steps, generator), generator)
        wait(device)
        times.append((time.perf_counter() - begin) / steps)
    algorithm.close()
    return min(times)


def step_row(variant: str, task: str, device: torch.device, quick: bool) -> dict[str, Any]:
    """A gradient step of an algorithm by both learners."""
    env, settings = make(task, variant, 1024)
    try:
        cpu = gradient_step(variant, env, settings, torch.device("cpu"), 1 if quick else 2)
        gpu = gradient_step(variant, env, settings, device, 8 if quick else 64)
    finally:
        env.close()
    batch = settings.algorithm_config.batch
    row = {"case": variant, "task": task, "batch": batch, "cpu_ms": 1e3 * cpu, "gpu_ms": 1e3 * gpu}
    return row | {"ratio": cpu / gpu}


PPO_COLUMNS = [
    {"key": "task", "title": "task, PPO with its preset"},
    {"key": "worlds", "title": "worlds", "format": ",d"},
    {"key": "cpu_samples_per_s", "title": "samples a second, CPU", "format": ",.0f"},
    {"key": "gpu_samples_per_s", "title": "GPU", "format": ",.0f"},
    {"key": "ratio", "title": "ratio", "format": ".2f"},
    {"key": "cpu_collect_s", "title": "collecting, s, CPU", "format": ".2f"},
    {"key": "gpu_collect_s", "title": "GPU", "format": ".2f"},
    {"key": "gpu_copies_s", "title": "copies, s", "format": ".3f"},
    {"key": "cpu_learn_s", "title": "learning, s, CPU", "format": ".2f"},
    {"key": "gpu_learn_s", "title": "GPU", "format": ".3f"},
]
STEP_COLUMNS = [
    {"key": "case", "title": "`--algorithm`"},
    {"key": "task", "title": "task"},
    {"key": "batch", "title": "batch", "format": ",d"},
    {"key": "cpu_ms", "title": "gradient step, ms, CPU", "format": ",.0f"},
    {"key": "gpu_ms", "title": "GPU", "format": ",.1f"},
    {"key": "ratio", "title": "ratio", "format": ".0f"},
]
PPO_METRICS = {
    "ratio": "of samples a second; medians of an iteration, the same worlds for both",
    "gpu_copies_s": "copies in both directions within collecting on the GPU, each waited for, in another iteration",
}
STEP_METRICS = {"cpu_ms": "the least of three repetitions, all processors, on a full replay memory"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--worlds", type=int, nargs="+", default=list(WORLDS))
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    parser.add_argument("--only", nargs="+", default=["steps", "ppo"], choices=["steps", "ppo"])
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two iterations and few gradient steps of each")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu-learner.json")
    parser.add_argument("--out-steps", type=Path, default=RESULTS / "gpu-steps.json")
    args = parser.parse_args()
    device = find_device(args.device)
    start = time.perf_counter()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU in place of the GPU"
    command = COMMAND + (" --quick" if args.quick else "")
    count = 2 if args.quick else args.iterations
    processors = ", ".join(machine().split(", ")[:2])
    about = {"notes": f"{name} beside {processors}; {torch.get_num_threads()} threads of the CPU's learner."}
    rows: list[dict[str, Any]] = []
    if "steps" in args.only:
        for variant, task in STEPS_OF:
            rows.append(step_row(variant, task, device, args.quick))
            print(json.dumps(rows[-1]), flush=True)
            write_result(args.out_steps, f"{command} --only steps", start, STEP_COLUMNS, rows, STEP_METRICS, **about)
    start = time.perf_counter()
    rows = []
    for task in args.tasks if "ppo" in args.only else ():
        for worlds in args.worlds:
            rows.append(ppo_row(task, worlds, device, count))
            print(json.dumps(rows[-1]), flush=True)
            write_result(args.out, f"{command} --only ppo", start, PPO_COLUMNS, rows, PPO_METRICS, **about)


if __name__ == "__main__":
    main()
