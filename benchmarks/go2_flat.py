"""A Go2 on flat ground with a learner on the CPU and on a GPU: steps a second on paper, from parts that are measured here.

    python benchmarks/go2_flat.py

UniLab, with physics by MuJoCo on 16 cores and the learner on a GPU, tells 126,804 steps/s. Rookery's learners run on
processors; what one on a GPU would bring follows from an update of the usual size (rsl_rl's: 4,096 worlds of 24 steps, 5 epochs
of 4 minibatches, ELU networks of 512, 256, 128) in plain PyTorch on each device, and from the environment's steps on this
machine's processors:

    steps/s = N L / (L (step + act) + copy + update)

step is the faster of one process with all threads and of a process on each core. act has the observations' way to the device
and the actions' way back, copy the rollout's. Nothing overlaps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from result_file import RESULTS, write_result
from torch import Tensor, nn

from rookery.cli.main import guarded
from rookery.experiments.recipes import preset
from rookery.making import make
from rookery.scaling.cost import TimedStep, Way
from rookery.scaling.measure import measure_steps
from rookery.sim.cores import usable_cores

EPOCHS = 5
MINIBATCHES = 4
HIDDEN = (512, 256, 128)
COLUMNS = (
    {"key": "learner", "title": "learner"},
    {"key": "way", "title": "environment"},
    {"key": "step_ms", "title": "step, ms", "format": ".1f"},
    {"key": "act_ms", "title": "act, ms", "format": ".2f"},
    {"key": "copy_ms", "title": "copy, ms", "format": ".1f"},
    {"key": "update_s", "title": "update, s", "format": ".3f"},
    {"key": "rate", "title": "steps/s", "format": ",.0f"},
)
METRICS = {
    "step_ms": "of all worlds, four physics steps of 5 ms each, default randomization, median",
    "act_ms": "of the policy, for all worlds; with the copies to the device and back",
    "copy_ms": "of a rollout to the device, from pinned memory",
    "update_s": "PPO in plain PyTorch, 5 epochs of 4 minibatches, Adam, clipped gradients; not this package's learner",
    "rate": "on paper: of the parts one after the other",
}


def network(inputs: int, outputs: int) -> nn.Sequential:
    """An ELU network of the usual size."""
    sizes = (inputs, *HIDDEN)
    layers: list[nn.Module] = []
    for before, after in zip(sizes[:-1], sizes[1:], strict=True):
        layers += [nn.Linear(before, after), nn.ELU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN[-1], outputs))


class PlainPPO:
    """An update of PPO in plain PyTorch, on samples without a meaning.

    Args:
        rows: samples of a rollout.
        obs: size of an observation.
        actions: size of an action.
        device: of the networks.
    """

    def __init__(self, rows: int, obs: int, actions: int, device: str) -> None:
        torch.manual_seed(0)
        self.device = device
        self.actor = network(obs, actions).to(device)
        self.critic = network(obs, 1).to(device)
        self.log_std = nn.Parameter(torch.zeros(actions, device=device))
        self.weights = [*self.actor.parameters(), *self.critic.parameters(), self.log_std]
        self.adam = torch.optim.Adam(self.weights, lr=1e-4, fused=True)
        pinned = device != "cpu"
        sizes = {
            "obs": obs,
            "actions": actions,
            "means": actions,
            "log_prob": 1,
            "advantage": 1,
            "value": 1,
            "target": 1,
        }
        self.rollout = {name: torch.randn(rows, size) for name, size in sizes.items()}
        if pinned:
            self.rollout = {name: x.pin_memory() for name, x in self.rollout.items()}

    def copied(self) -> dict[str, Tensor]:
        """The rollout on the device."""
        return {name: x.to(self.device, non_blocking=True) for name, x in self.rollout.items()}

    @torch.no_grad()
    def act(self, obs: Tensor) -> Tensor:
        """Actions for observations in the processor's memory, there as well."""
        mean = self.actor(obs.to(self.device, non_blocking=True))
        return (mean + self.log_std.exp() * torch.randn_like(mean)).cpu()  # type: ignore[no-any-return]

    def update(self, data: dict[str, Tensor]) -> None:
        """All epochs."""
        rows = len(data["obs"])
        for _ in range(EPOCHS):
            for ids in torch.randperm(rows, device=self.device).chunk(MINIBATCHES):
                batch = {name: x[ids] for name, x in data.items()}
                normal = torch.distributions.Normal(self.actor(batch["obs"]), self.log_std.exp())
                log_prob = normal.log_prob(batch["actions"]).sum(-1, keepdim=True)
                ratio = (log_prob - log_prob.detach()).exp()
                gain = torch.min(ratio * batch["advantage"], ratio.clamp(0.8, 1.2) * batch["advantage"])
                value = self.critic(batch["obs"])
                clipped = batch["value"] + (value - batch["value"]).clamp(-0.2, 0.2)
                error = torch.max((value - batch["target"]).square(), (clipped - batch["target"]).square())
                loss = -gain.mean() + error.mean() - 0.01 * normal.entropy().sum(-1).mean()
                self.adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.weights, 1.0)
                self.adam.step()


def timed(device: str, work: Callable[[], Any], repetitions: int) -> float:
    """Median time of some work on a device, s, after one that does not count."""
    times = []
    for _ in range(repetitions + 1):
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def steps_of(num_envs: int, seconds: float, ways: list[Way]) -> list[TimedStep]:
    """Steps of the environment with the task's own physics steps, 5 ms."""
    settings = replace(preset("go2-velocity"), num_envs=num_envs, task_config={}, train_overrides={})
    return [TimedStep(way, num_envs, measure_steps(settings, way, num_envs, seconds)) for way in ways]


def main() -> int:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--rollout-steps", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=2.0, help="of stepping, for each way")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "go2-flat.json")
    args = parser.parse_args()
    start = time.perf_counter()

    def measure() -> int:
        n, length, cores = args.num_envs, args.rollout_steps, usable_cores()
        env = make("go2-velocity", 1)
        (group,) = env.groups.values()
        sizes = group.observation_size, group.action.size
        env.close()
        ways = [Way(1, cores), *([Way(cores, 1)] if cores > 1 and n >= 2 * cores else [])]
        step = min(steps_of(n, args.seconds, ways), key=lambda s: s.step_s)
        rows = []
        for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
            ppo = PlainPPO(n * length, *sizes, device)
            obs = torch.randn(n, sizes[0])
            act = timed(device, lambda p=ppo, o=obs: p.act(o), 4 * args.repetitions)  # type: ignore[misc]
            copy = timed(device, ppo.copied, args.repetitions) if device != "cpu" else 0.0
            data = ppo.copied()
            update = timed(device, lambda p=ppo, d=data: p.update(d), args.repetitions)  # type: ignore[misc]
            name = torch.cuda.get_device_name(0) if device != "cpu" else f"CPU, {torch.get_num_threads()} threads"
            iteration = length * (step.step_s + act) + copy + update
            row: dict[str, Any] = {"learner": name, "way": str(step.way), "cores": cores, "num_envs": n}
            row |= {"step_ms": 1e3 * step.step_s, "act_ms": 1e3 * act, "copy_ms": 1e3 * copy, "update_s": update}
            rows.append(row | {"rate": n * length / iteration})
            print(rows[-1], flush=True)
        command = f"python benchmarks/go2_flat.py --num-envs {n} --rollout-steps {length}"
        notes = f"{n} worlds, {length} steps, {cores} processors, observations of {sizes[0]} numbers."
        write_result(args.out, command, start, COLUMNS, rows, METRICS, notes=notes)
        return 0

    return guarded(measure)


if __name__ == "__main__":
    raise SystemExit(main())
