"""Whether the transfer gate's score says how a policy will do on physics that the gate has not seen: drone-hover.

    python benchmarks/gate_ranking.py --default RUN --none RUN [--gru RUN] [--repeats 20]

Five prepared policies (trained with randomization, without, recurrent, low-passed, broken) are scored `repeats` times,
each time with another seed of the gate. The right order is that of their success on hidden physics: another airframe
(`AIRFRAME`) under everything in hidden_hover.toml at once, at three severities. More policies, checkpoints of the runs, give
Spearman's rank correlation of score and hidden success. Scores are of `rookery gate` reduced to what the score is made of:
--sweeps-only --required-only --rounds 0, no search for the worst combination, fewer episodes.

The result is benchmarks/results/gate-ranking.json. Scores are kept in the folder --cache: an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from pathlib import Path

import torch
from ranking import ROOT, ZOO, Entry, Hidden, cached, faulty, result, right_rankings, score, write

from rookery.cli.main import guarded
from rookery.experiments.gating import checkpoint_policies
from rookery.experiments.runs import open_run
from rookery.policies.low_pass import low_pass
from rookery.robots.drones.cf2x import CF2X
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.table import register_drone
from rookery.sim2real.gate.gate import GateSettings

AIRFRAME = dataclasses.replace(
    CRAZYFLIE_21,
    name="hidden",
    inertia=CF2X.inertia,
    tau_up=0.065,
    tau_down=0.18,
    body_drag=(0.03, 0.03, 0.03),
    rotor_drag=CF2X.rotor_drag,
    ground_effect_gain=5.0,
)
"""A Crazyflie's thrust with another's inertia, other lags and three times its drag."""


def exchange(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Pitch for roll."""
    weight[[0, 1]] = weight[[1, 0]]
    bias[[0, 1]] = bias[[1, 0]]


def prepared(default: Path, none: Path, gru: Path, share: float) -> dict[str, Entry]:
    """The policies by name, the five prepared ones first."""
    plain, contract = open_run(ZOO / "drone-hover")
    spec = contract.groups["drone"].spec
    out: dict[str, Entry] = {
        "recurrent": open_run(gru),
        "randomized": (plain, contract),
        "low-passed": ({"drone": low_pass(plain["drone"], spec, share)}, contract),
        "not randomized": open_run(none),
        "broken: pitch for roll": (faulty(plain, exchange), contract),
    }
    for name, run in (("randomized", default), ("not randomized", none)):
        for steps, policies, found in list(checkpoint_policies(run))[1:-1:2]:
            out[f"{name}, {steps / 1e6:.1f} M steps"] = (policies, found)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--default", type=Path, required=True, help="run of drone-hover's preset, with checkpoints")
    parser.add_argument("--none", type=Path, required=True, help="the same with --randomize none")
    parser.add_argument("--gru", type=Path, default=ZOO / "drone-hover-gru")
    parser.add_argument("--share", type=float, default=0.3, help="of the new action in the low-passed policy")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=8, help="at each point of the gate")
    parser.add_argument("--combinations", type=int, default=64)
    parser.add_argument("--hidden-episodes", type=int, default=256, help="of each severity")
    parser.add_argument("--cache", type=Path, default=Path("runs/gate-ranking"))
    parser.add_argument("--stop-after-s", type=float, default=1e9, help="go on in the next run")
    args = parser.parse_args()
    start = time.perf_counter()
    register_drone(AIRFRAME)
    entries = prepared(args.default, args.none, args.gru, args.share)
    names = list(entries)
    physics = Hidden(
        ROOT / "benchmarks" / "hidden_hover.toml",
        {"drone": AIRFRAME.name},
        args.hidden_episodes,
        ("error_m", "cm", 100.0),
    )
    wanted = [(name, repeat) for repeat in range(args.repeats) for name in (names if repeat == 0 else names[:5])]
    hidden: dict[str, tuple[float, float]] = {}
    scores: dict[str, list[float]] = {name: [] for name in names}
    for name, repeat in wanted:
        if time.perf_counter() - start > args.stop_after_s:
            raise SystemExit("not finished: run it again")
        if name not in hidden:
            hidden[name] = tuple(cached(args.cache, f"hidden/{name}", lambda n=name: physics.success(entries[n])))
        settings = GateSettings(
            args.episodes, 0.25, 0, args.combinations, (), repeat, cases=False, beyond=False, search=0
        )
        found = cached(args.cache, f"{repeat}/{name}", lambda n=name, s=settings: score(entries[n], s))
        scores[name].append(found["score"])
        print(f"{name:40} seed {repeat:2} hidden {hidden[name][0]:.3f} score {found['score']:.3f}", flush=True)
    right = right_rankings(names[:5], hidden, scores, args.repeats)
    command = (
        f"python benchmarks/gate_ranking.py --default RUN --none RUN --repeats {args.repeats} --episodes {args.episodes} "
        f"--combinations {args.combinations}"
    )
    value = result("gate-ranking", command, hidden, scores, physics, time.perf_counter() - start)
    value |= {"right": right, "repeats": args.repeats}
    value["metrics"]["score"] += f"; least and greatest of seeds 0 to {args.repeats - 1} for the five prepared"
    value["metrics"]["rankings"] = (
        f"the five prepared policies in the order of their hidden success: {right} of {args.repeats} seeds"
    )
    value["columns"] += [
        {"key": "least", "title": "least", "format": ".3f"},
        {"key": "most", "title": "greatest", "format": ".3f"},
        {"key": "repeats", "title": "gate seeds", "format": "d"},
    ]
    write(value)
    print(f"{right} of {args.repeats} rankings, rank correlation {value['spearman']:.3f}")


if __name__ == "__main__":
    raise SystemExit(guarded(main))
