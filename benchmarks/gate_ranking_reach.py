"""Whether the transfer gate's score says how a policy will do on physics that the gate has not seen: table-reach.

    python benchmarks/gate_ranking_reach.py --run RUN

The policies are the zoo's, checkpoints of RUN (`rookery train table-reach --steps 400000 --checkpoint-every 1 --keep 40`), and
the zoo's with planted faults: noise in its last layer, a third of its actions, exchanged axes. Hidden physics is
hidden_reach.toml at three severities. The result is benchmarks/results/gate-ranking-reach.json; else as gate_ranking.py.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from ranking import ROOT, ZOO, Entry, Hidden, cached, faulty, result, score, write

from rookery.gating import checkpoint_policies
from rookery.runs import open_run
from rookery.sim2real.gate.gate import Settings

CHECKPOINTS = (2, 5, 8, 10, 12, 14, 17, 23)
"""Of the run's: by these it learns the task."""


def exchange(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """x for y."""
    weight[[0, 1]] = weight[[1, 0]]
    bias[[0, 1]] = bias[[1, 0]]


def weaken(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """A third of each action."""
    weight /= 3.0
    bias /= 3.0


def shake(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Noise of 0.3 of the weights' own standard deviation."""
    weight += 0.3 * weight.std() * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))


def prepared(run: Path) -> dict[str, Entry]:
    """The policies by name."""
    plain, contract = open_run(ZOO / "table-reach")
    out: dict[str, Entry] = {
        "zoo": (plain, contract),
        "zoo, a third of its actions": (faulty(plain, weaken), contract),
        "zoo, noise in its weights": (faulty(plain, shake), contract),
        "broken: x for y": (faulty(plain, exchange), contract),
    }
    every = list(checkpoint_policies(run))
    for steps, policies, found in (every[i] for i in CHECKPOINTS):
        out[f"{steps / 1000:.0f} k steps"] = (policies, found)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", type=Path, required=True, help="run of table-reach's preset, with checkpoints")
    parser.add_argument("--episodes", type=int, default=8, help="at each point of the gate")
    parser.add_argument("--combinations", type=int, default=16)
    parser.add_argument("--hidden-episodes", type=int, default=64, help="of each severity")
    parser.add_argument("--cache", type=Path, default=Path("runs/gate-ranking-reach"))
    parser.add_argument("--stop-after-s", type=float, default=1e9, help="go on in the next run")
    args = parser.parse_args()
    start = time.perf_counter()
    physics = Hidden(
        ROOT / "benchmarks" / "hidden_reach.toml", {}, args.hidden_episodes, ("seconds", "s", 1.0)
    )  # fmt: skip
    settings = Settings(args.episodes, 0.25, 0, args.combinations, (), 0, cases=False, beyond=False, search=0)
    hidden: dict[str, tuple[float, float]] = {}
    scores: dict[str, list[float]] = {}
    for name, entry in prepared(args.run).items():
        if time.perf_counter() - start > args.stop_after_s:
            raise SystemExit("not finished: run it again")
        hidden[name] = tuple(cached(args.cache, f"hidden/{name}", lambda e=entry: physics.success(e)))
        scores[name] = [cached(args.cache, f"0/{name}", lambda e=entry: score(e, settings))["score"]]
        print(f"{name:40} hidden {hidden[name][0]:.3f} score {scores[name][0]:.3f}", flush=True)
    command = (
        f"python benchmarks/gate_ranking_reach.py --run RUN --episodes {args.episodes} --combinations {args.combinations} "
        f"--hidden-episodes {args.hidden_episodes}"
    )
    value = result("gate-ranking-reach", command, hidden, scores, physics, time.perf_counter() - start)
    write(value)
    print(f"rank correlation {value['spearman']:.3f} over {len(hidden)} policies")


if __name__ == "__main__":
    main()
