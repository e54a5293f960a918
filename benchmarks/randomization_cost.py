"""What domain randomization costs: processor time of environment steps with it over those without.

    python benchmarks/randomization_cost.py [--rounds 10]

Environments of a zoo policy that differ in what they randomize take turns in one process, slice by slice, and the median
of the ratios of neighboring slices counts. The policy's own time is left out. "all" is everything that the task lets
change (`--randomize all`), "default" the task's own default; the rows after them change one kind of parameters alone.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from result_file import RESULTS, write_result

from rookery.experiments.run_env import make_env
from rookery.experiments.runs import open_run
from rookery.policies.training.evaluate import act_with
from rookery.sim.randomization.distributions import Range

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"
CASES = {"drone-hover": (1024, 60), "go2-velocity": (128, 30), "table-reach": (128, 30)}
"""Worlds, and steps of a slice, by zoo policy."""
KINDS = {
    "masses, inertias, centres of mass, loads": "mass|inertia|load|com_",
    "rotors, battery, drag": "thrust|torque_coefficient|rotor|battery|drag",
    "joints, gains, motors, encoders": "^k[pd]|armature|joint|motor|encoder",
    "contacts, ground": "ground|friction|restitution",
    "gravity": "gravity",
    "wind": "wind",
    "pushes": "push",
    "wrenches": "wrench",
    "observation noise, bias, drift": "observation_(noise|bias|drift)",
    "observation delay, jitter, dropout": "observation_(delay|jitter|dropout)",
    "action delay, jitter, dropout, hold": "action",
}
"""Patterns of parameters."""
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "randomized", "title": "randomized"},
    {"key": "us", "title": "processor time of a world's step, us", "format": ".2f"},
    {"key": "ratio", "title": "over none", "format": ".2f"},
]
METRICS = {
    "us": "median; on one thread",
    "over none": "median over slices of the ratio to the slice without randomization beside it; the row none again is the same "
    "environment made twice, and shows the noise",
}


class Case:
    """An environment and where its rollout is.

    Args:
        run: folder of the policy.
        worlds: N.
        randomize: as for `rookery.make`.
    """

    def __init__(self, run: Path, worlds: int, randomize: str) -> None:
        policies, contract = open_run(run)
        self.env = make_env(contract, worlds, {}, seed=0, randomize=randomize)
        self.act = act_with(policies, self.env)
        self.obs: dict[str, torch.Tensor] = self.env.reset()[0]
        self.env.stagger()

    def slice(self, steps: int) -> float:
        """s of processor time per control step of all worlds."""
        spent = 0.0
        for _ in range(steps):
            actions = self.act(self.obs)
            start = time.process_time()
            self.obs = self.env.step(actions)[0]
            spent += time.process_time() - start
        return spent / steps


def write_ranges(ranges: Mapping[str, Range], components: Mapping[str, int], folder: Path, kind: str) -> str:
    """A file of ranges for --randomize."""
    lines = []
    for name, r in ranges.items():
        lines += [f"[{name}]", f"low = {r.low}", f"high = {r.high}"]
        lines += ["each = true"] if components[name] > 1 else []
    file = folder / f"{re.sub('[^a-z]+', '-', kind)}.toml"
    file.write_text("\n".join(lines) + "\n")
    return str(file)


def kinds(env: Any, folder: Path) -> dict[str, str]:
    """Files of ranges by kind, of what an environment with "all" randomizes."""
    draws = env.randomization
    count: dict[str, int] = {}
    ranges: dict[str, Range] = {}
    for entry in draws.names:
        name = entry.partition(":")[0]
        count[name] = count.get(name, 0) + 1
        ranges[name] = draws.ranges[entry]
    out = {}
    for kind, pattern in KINDS.items():
        mine = {name: r for name, r in ranges.items() if re.search(pattern, name)}
        if mine:
            out[kind] = write_ranges(mine, count, folder, kind)
    left = [name for name in ranges if not any(re.search(p, name) for p in KINDS.values())]
    assert not left, f"KINDS lacks {left}"
    return out


def measure(policy: str, rounds: int, folder: Path) -> list[dict[str, Any]]:
    """The rows of a policy."""
    worlds, steps = CASES[policy]
    run = ZOO / policy
    cases = {
        "none": Case(run, worlds, "none"),
        "all": Case(run, worlds, "all"),
        "default": Case(run, worlds, "default"),
    }
    for kind, file in kinds(cases["all"].env, folder).items():
        cases[kind] = Case(run, worlds, file)
    cases["none again"] = Case(run, worlds, "none")
    spent: dict[str, list[float]] = {name: [] for name in cases}
    ratios: dict[str, list[float]] = {name: [] for name in cases}
    for i in range(rounds + 1):  # the first round warms up
        for name, case in cases.items():
            pair = [("none", cases["none"]), (name, case)]
            times = {key: c.slice(steps) for key, c in (pair if i % 2 else pair[::-1])}
            if i:
                spent[name].append(times[name])
                ratios[name].append(times[name] / times["none"])
    rows = []
    for name, case in cases.items():
        us = 1e6 * statistics.median(spent[name]) / worlds
        rows.append({"policy": policy, "randomized": name, "us": us, "ratio": statistics.median(ratios[name])})
        print(rows[-1], flush=True)
        case.env.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for policy in args.only:
            rows += measure(policy, args.rounds, Path(folder))
    command = f"python benchmarks/randomization_cost.py --rounds {args.rounds}"
    write_result(RESULTS / "randomization-cost.json", command, start, COLUMNS, rows, METRICS)


if __name__ == "__main__":
    main()
