"""Cost of compiled code in tasks/ against the same in torch, as a share of the environment's step on one core.

    python benchmarks/kernels.py                          # every case
    python benchmarks/kernels.py --only drone-hover:pursue

A case puts the torch form of one function in place of the compiled one, in turn, while episodes go on: those of the task's
classical controller where it has one, which keeps episodes as long as a good policy's, else of random actions. Both
forms are timed where they are called, so that caches are as in training; the rest of a step is the same. What costs
less than `WORTH` stands in the tasks as torch; rows of what became torch were measured at the commit that they tell.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from kernel_cases import CASES, Case
from result_file import RESULTS, measured, told, write_result

import rookery
from rookery.experiments.recipes import preset

OUT = RESULTS / "kernels.json"
WORTH = 0.02
"""Share of a step's time from which compiled code is worth its lines."""
BLOCK = 10  # steps with one form, then as many with the other
WARM = 40  # steps, not counted
COLUMNS = (
    {"key": "case", "title": "task: function"},
    {"key": "worlds", "title": "worlds", "format": ",d"},
    {"key": "step_us", "title": "step, us", "format": ",.0f"},
    {"key": "calls", "title": "calls a step", "format": ".2f"},
    {"key": "compiled_us", "title": "compiled, us a step", "format": ".1f"},
    {"key": "torch_us", "title": "torch, us a step", "format": ".1f"},
    {"key": "cost", "title": "torch costs", "format": ".1%"},
    {"key": "now", "title": "now"},
)
METRICS = {
    "step_us": "time of a step of the environment with the compiled form, median over blocks",
    "calls": "calls of the function in a control step, mean",
    "cost": f"what torch takes longer, as a share of the step, median over blocks; from {WORTH:.0%} on code stays compiled",
    "now": "the form that stands in the tasks",
}


class Timed:
    """A function in a task's place that notes how long it takes in steps of the environment.

    Attributes:
        seconds, calls: since it was made, while `counting`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0
        self.calls = 0
        self.counting = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.function(*args, **kwargs)
        finally:
            if self.counting:
                self.seconds += time.perf_counter() - start
                self.calls += 1

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Bound like a method where it stands in a class."""
        return self if owner is None else lambda *args, **kwargs: self(owner, *args, **kwargs)


class Stepping:
    """An environment and who acts in it: the task's classical controller, or random actions."""

    def __init__(self, task: str, worlds: int) -> None:
        self.env = rookery.make(task, worlds, seed=0)
        self.generator = torch.Generator().manual_seed(0)
        self.act = self.env.controller() or self.random
        self.obs, _ = self.env.reset()
        self.env.stagger()

    def random(self, obs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        groups, n = self.env.groups, self.env.num_envs
        shapes = {g: (n, s.count, s.action.size) for g, s in groups.items()}
        return {g: 2.0 * torch.rand(shape, generator=self.generator) - 1.0 for g, shape in shapes.items()}

    def steps(self, count: int, case: Case, form: Callable[..., Any]) -> tuple[float, float, float]:
        """Seconds, seconds in the function and its calls, of a control step, with one form of it."""
        function = Timed(form)
        setattr(case.owner, case.name, function)
        spent = 0.0
        for _ in range(count):
            actions = self.act(self.obs)
            function.counting = True
            start = time.perf_counter()
            self.obs = self.env.step(actions)[0]
            spent += time.perf_counter() - start
            function.counting = False
        return spent / count, function.seconds / count, function.calls / count


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """The row of a case."""
    worlds = preset(case.task).num_envs
    run = Stepping(case.task, worlds)
    compiled = getattr(case.owner, case.name)
    forms = {"compiled": compiled, "torch": case.form}
    blocks: dict[str, list[tuple[float, float, float]]] = {form: [] for form in forms}
    try:
        for form in forms.values():
            run.steps(WARM, case, form)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(blocks["torch"]) < 5:
            for name in forms if len(blocks["torch"]) % 2 else reversed(forms):
                blocks[name].append(run.steps(BLOCK, case, forms[name]))
    finally:
        setattr(case.owner, case.name, compiled)
        run.env.close()
    step, inside = (statistics.median(b[i] for b in blocks["compiled"]) for i in range(2))
    return {
        "case": case.title,
        "worlds": worlds,
        "step_us": 1e6 * step,
        "calls": statistics.mean(b[2] for b in blocks["compiled"]),
        "compiled_us": 1e6 * inside,
        "torch_us": 1e6 * statistics.median(b[1] for b in blocks["torch"]),
        "cost": statistics.median((t[1] - c[1]) / step for c, t in zip(*blocks.values(), strict=True)),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = {c.title: c for c in CASES}
    parser.add_argument("--seconds", type=float, default=2.0, help="wall time of a case")
    parser.add_argument("--only", nargs="+", default=list(cases), choices=cases)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = {r["case"]: r for r in json.loads(args.out.read_text())["rows"]} if args.out.exists() else {}
    order = list(dict.fromkeys([*rows, *cases]))
    for ordered, start in measured(rows, order, args.only, lambda title: measure(cases[title], args.seconds)):
        command = f"python benchmarks/kernels.py --seconds {args.seconds:g}"
        for row in ordered:
            row["now"] = "compiled" if row["case"] in cases else "torch"
        write_result(args.out, command, start, COLUMNS, ordered, METRICS, **told(ordered))


if __name__ == "__main__":
    main()
