"""Whether the transfer gate's score says how a policy will do on physics that the gate has not seen, for families of policies.

    python benchmarks/gate_ranking_families.py reach --run RUN
    python benchmarks/gate_ranking_families.py walk --run RUN

A family is a task's policies: the zoo's, checkpoints of RUN (see FAMILIES for how it is trained), and policies with planted
faults: noise in the last layer, weaker actions, exchanged axes. Hidden physics is hidden_reach.toml or hidden_walk.toml at
three severities. The result is benchmarks/results/gate-ranking-FAMILY.json; else as gate_ranking.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from ranking import ROOT, ZOO, Entry, Hidden, cached, faulty, result, score, write

from rookery.cli.main import guarded
from rookery.experiments.gating import checkpoint_policies
from rookery.experiments.runs import open_run
from rookery.sim2real.gate.gate import GateSettings

Fault = Callable[[torch.Tensor, torch.Tensor], None]


def exchange(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """The first action for the second: x for y of the tool, a leg's hip for its thigh."""
    weight[[0, 1]] = weight[[1, 0]]
    bias[[0, 1]] = bias[[1, 0]]


def weaken(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """A third of each action."""
    weight /= 3.0
    bias /= 3.0


def tire(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Four fifths of each action."""
    weight *= 0.8
    bias *= 0.8


def shake(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Noise of 0.3 of the weights' own standard deviation."""
    weight += 0.3 * weight.std() * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))


@dataclass(frozen=True)
class Family:
    """Policies of one task.

    Args:
        zoo: the zoo's policy.
        training: command whose checkpoints are ranked.
        checkpoints: which of the run's, by their share of its length: by these it learns the task.
        faults: planted in the zoo's policy, by name.
        hidden: file of ranges.
        metric: shown beside success, its unit, and what it is multiplied with.
        combinations, episodes, hidden_episodes: of the gate, at each of its points, and of each severity.
    """

    zoo: str
    training: str
    checkpoints: tuple[float, ...]
    faults: Mapping[str, Fault]
    hidden: str
    metric: tuple[str, str, float]
    combinations: int = 16
    episodes: int = 8
    hidden_episodes: int = 64


FAMILIES = {
    "reach": Family(
        zoo="table-reach",
        training="rookery train table-reach --steps 400000 --checkpoint-every 1 --keep 60",
        checkpoints=(0.06, 0.12, 0.19, 0.22, 0.27, 0.31, 0.37, 0.49),
        faults={"a third of its actions": weaken, "noise in its weights": shake, "broken: x for y": exchange},
        hidden="hidden_reach.toml",
        metric=("seconds", "s", 1.0),
    ),
    "walk": Family(
        zoo="go2-velocity",
        training="rookery train go2-velocity --checkpoint-every 160 --keep 45",
        checkpoints=(0.05, 0.10, 0.15, 0.20, 0.27, 0.37, 0.5, 0.75),  # the last one is the zoo's
        faults={"four fifths of its actions": tire, "noise in its weights": shake, "broken: hip for thigh": exchange},
        hidden="hidden_walk.toml",
        metric=("velocity_error", "cm/s", 100.0),
        episodes=6,
        hidden_episodes=128,
    ),
}


def prepared(family: Family, run: Path) -> dict[str, Entry]:
    """The policies by name."""
    plain, contract = open_run(ZOO / family.zoo)
    out: dict[str, Entry] = {"zoo": (plain, contract)}
    for name, fault in family.faults.items():
        out[f"zoo, {name}" if not name.startswith("broken") else name] = (faulty(plain, fault), contract)
    every = list(checkpoint_policies(run))
    for share in family.checkpoints:
        steps, policies, found = every[min(max(round(share * len(every)), 1), len(every)) - 1]
        out[f"{steps / 1e6:.3g} M steps" if steps >= 1e6 else f"{steps / 1e3:.0f} k steps"] = (policies, found)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("family", choices=list(FAMILIES))
    parser.add_argument("--run", type=Path, required=True, help="run with checkpoints, see FAMILIES")
    parser.add_argument("--checkpoints", type=float, nargs="+", help="shares of RUN's length; the family's if left out")
    parser.add_argument("--episodes", type=int, help="at each point of the gate; the family's if left out")
    parser.add_argument("--combinations", type=int, help="of the gate; the family's if left out")
    parser.add_argument("--hidden-episodes", type=int, help="of each severity; the family's if left out")
    parser.add_argument("--cache", type=Path, default=None, help="folder; runs/gate-ranking-FAMILY if left out")
    parser.add_argument("--stop-after-s", type=float, default=1e9, help="go on in the next run")
    args = parser.parse_args()
    start = time.perf_counter()
    own = ("checkpoints", "episodes", "combinations", "hidden_episodes")
    changed = {name: value for name in own if (value := getattr(args, name)) is not None}
    family = replace(FAMILIES[args.family], **changed)
    name = f"gate-ranking-{args.family}"
    cache = args.cache or Path("runs") / name
    physics = Hidden(ROOT / "benchmarks" / family.hidden, {}, family.hidden_episodes, family.metric)
    settings = GateSettings(
        family.episodes, 0.25, 0, family.combinations, (), 0, cases=False, beyond=False, search=0
    )  # fmt: skip
    hidden: dict[str, tuple[float, float]] = {}
    scores: dict[str, list[float]] = {}
    for policy, entry in prepared(family, args.run).items():
        if time.perf_counter() - start > args.stop_after_s:
            raise SystemExit("not finished: run it again")
        hidden[policy] = tuple(cached(cache, f"hidden/{policy}", lambda e=entry: physics.success(e)))
        scores[policy] = [cached(cache, f"0/{policy}", lambda e=entry: score(e, settings))["score"]]
        print(f"{policy:40} hidden {hidden[policy][0]:.3f} score {scores[policy][0]:.3f}", flush=True)
    command = f"{family.training} --out RUN; python benchmarks/gate_ranking_families.py {args.family} --run RUN"
    for key, asked in changed.items():
        words = asked if isinstance(asked, list) else [asked]
        command += f" --{key.replace('_', '-')} {' '.join(str(w) for w in words)}"
    value = result(name, command, hidden, scores, physics, time.perf_counter() - start)
    value["metrics"]["score"] += f"; {family.episodes} episodes at each point, {family.combinations} combinations"
    write(value)
    print(f"rank correlation {value['spearman']:.3f} over {len(hidden)} policies")


if __name__ == "__main__":
    raise SystemExit(guarded(main))
