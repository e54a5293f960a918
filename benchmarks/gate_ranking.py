"""Whether the transfer gate's score says how a policy will do on physics that the gate has not seen: drone-hover.

    python benchmarks/gate_ranking.py --default RUN --none RUN [--gru RUN] [--repeats 20]

Five prepared policies (trained with randomization, without, recurrent, low-passed, broken) are scored `repeats` times,
each time with another seed of the gate. The right order is that of their success on hidden physics: another airframe
(`AIRFRAME`) under everything in hidden_hover.toml at once, at three severities. More policies, checkpoints of the runs, give
Spearman's rank correlation of score and hidden success. Scores are of `rookery gate` reduced to what the score is made of:
--sweeps-only (engines, physics steps and exported C do not enter it), --rounds 0, fewer episodes.

The result is benchmarks/results/gate-ranking.json. Scores are kept in --cache: an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from machine import commit, machine
from numpy.typing import NDArray

from rookery.gating import checkpoint_policies, gate_policies
from rookery.policies.low_pass import low_pass
from rookery.policies.policy import Policy
from rookery.policies.training.evaluate import act_with, evaluate
from rookery.robots.drones.cf2x import CF2X
from rookery.robots.drones.crazyflie import CRAZYFLIE_21
from rookery.robots.drones.table import register_drone
from rookery.run_env import make_env
from rookery.runs import open_run
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim2real.contract import Contract
from rookery.sim2real.gate.gate import Settings
from rookery.sim2real.gate.intervals import wilson

ROOT = Path(__file__).resolve().parents[1]
ZOO = ROOT / "policies" / "zoo"
RESULTS = ROOT / "benchmarks" / "results"
HIDDEN = ROOT / "benchmarks" / "hidden_hover.toml"

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

SEVERITIES = (0.2, 0.5, 1.0)
"""Shares of the width of what is drawn: at full width alone, all policies without memory fail, and nothing tells them apart."""

Entry = tuple[dict[str, Policy], Contract]


def faulty(policy: Policy, change: Callable[[torch.Tensor, torch.Tensor], None]) -> Policy:
    """A copy whose last layer's weights and biases `change` alters in place."""
    out = copy.deepcopy(policy)
    last = out.layers[-1]
    with torch.no_grad():
        change(last.weight, last.bias)  # type: ignore[arg-type]
    return out


def exchange(weight: torch.Tensor, bias: torch.Tensor) -> None:
    """Pitch for roll."""
    weight[[0, 1]] = weight[[1, 0]]
    bias[[0, 1]] = bias[[1, 0]]


def prepared(default: Path, none: Path, gru: Path, share: float) -> dict[str, Entry]:
    """The ten policies by name, the five prepared ones first."""
    plain, contract = open_run(ZOO / "drone-hover")
    policy = plain["drone"]
    spec = contract.groups["drone"].spec
    out: dict[str, Entry] = {
        "recurrent": open_run(gru),
        "randomized": (plain, contract),
        "low-passed": ({"drone": low_pass(policy, spec, share)}, contract),
        "not randomized": open_run(none),
        "broken: pitch for roll": ({"drone": faulty(policy, exchange)}, contract),
    }
    for name, run in (("randomized", default), ("not randomized", none)):
        for steps, policies, found in list(checkpoint_policies(run))[:-1]:
            out[f"{name}, {steps / 1e6:.1f} M steps"] = (policies, found)
    return out


def hidden_success(entry: Entry, episodes: int, seed: int) -> tuple[float, float]:
    """Success and position error (cm) on hidden physics: means over `SEVERITIES`, each with as many episodes; the same draws
    for every policy of that seed."""
    policies, contract = entry
    found = []
    for severity in SEVERITIES:
        env = make_env(contract, episodes, {"drone": AIRFRAME.name}, seed=seed, randomize=str(HIDDEN))
        assert isinstance(env, VecEnv)
        env.randomization.curriculum.share.fill_(severity)
        metrics = evaluate(env, act_with(policies, env), episodes, seed)["metrics"]
        env.close()
        found.append((metrics["success"], 100.0 * metrics["error_m"]))
    success, error = np.array(found).mean(0).tolist()
    return success, error


def score(entry: Entry, settings: Settings) -> float:
    policies, contract = entry
    return gate_policies(policies, contract, None, settings, "", lambda line: None).score


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs."""
    return np.array([0.5 * ((values < v).sum() + (values <= v).sum() + 1.0) for v in values])


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Rank correlation: Pearson's of the ranks."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--default", type=Path, required=True, help="run of drone-hover's preset, with checkpoints")
    parser.add_argument("--none", type=Path, required=True, help="the same with --randomize none")
    parser.add_argument("--gru", type=Path, default=ZOO / "drone-hover-gru")
    parser.add_argument("--share", type=float, default=0.3, help="of the new action in the low-passed policy")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=16, help="at each point of the gate")
    parser.add_argument("--combinations", type=int, default=32)
    parser.add_argument("--hidden-episodes", type=int, default=256, help="of each severity")
    parser.add_argument("--cache", type=Path, default=Path("runs/gate-ranking.json"))
    args = parser.parse_args()
    start, source = time.perf_counter(), commit()
    register_drone(AIRFRAME)
    entries = prepared(args.default, args.none, args.gru, args.share)
    names = list(entries)
    hidden = {name: hidden_success(e, args.hidden_episodes, 12345) for name, e in entries.items()}
    for name, (rate, error) in hidden.items():
        print(f"{name:40} hidden success {rate:.3f}, error {error:.1f} cm", flush=True)
    cache = json.loads(args.cache.read_text()) if args.cache.exists() else {}
    for repeat in range(args.repeats):
        for name in names if repeat == 0 else names[:5]:
            key = f"{name}/{repeat}"
            if key not in cache:
                settings = Settings(args.episodes, 0.25, 0, args.combinations, (), repeat, cases=False)
                cache[key] = score(entries[name], settings)
                args.cache.parent.mkdir(parents=True, exist_ok=True)
                args.cache.write_text(json.dumps(cache, indent=1))
                print(f"{key:40} {cache[key]:.3f}", flush=True)
    _write(args, names, hidden, cache, time.perf_counter() - start, source)


def _write(
    args: argparse.Namespace, names: list[str], hidden: dict[str, tuple[float, float]], cache: dict[str, float],
    seconds: float, source: str,
) -> None:  # fmt: skip
    """The result, with the rankings that are right."""
    five = names[:5]
    truth = sorted(five, key=lambda name: -hidden[name][0])
    scores = {n: [cache[f"{n}/{r}"] for r in range(args.repeats if n in five else 1)] for n in names}
    # strictly: two equal scores are no ranking
    right = sum(
        all(scores[a][r] > scores[b][r] for a, b in zip(truth, truth[1:], strict=False)) for r in range(args.repeats)
    )
    success = np.array([hidden[n][0] for n in names])
    rho = spearman(np.array([scores[n][0] for n in names]), success)
    rows = []
    total = args.hidden_episodes * len(SEVERITIES)
    for name in sorted(names, key=lambda n: -hidden[n][0]):
        low, high = wilson(hidden[name][0] * total, total)
        s = np.array(scores[name])
        row = {"policy": name, "hidden": hidden[name][0], "low": low, "high": high, "error_cm": hidden[name][1]}
        rows.append(
            row | {"score": s[0], "least": s.min(), "most": s.max(), "repeats": len(s), "prepared": name in five}
        )
    result = {
        "name": "gate-ranking",
        "command": f"python benchmarks/gate_ranking.py --default RUN --none RUN --repeats {args.repeats} "
        f"--episodes {args.episodes} --combinations {args.combinations}",
        "commit": source,
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(seconds, 1),
        "right": right,
        "repeats": args.repeats,
        "spearman": rho,
        "metrics": {
            "hidden": f"success over {total} episodes on hidden physics, a third each at 0.2, 0.5 and 1 of its width; "
            "from, to: its 95 % interval (Wilson)",
            "score": f"of the gate with seed 0; least and greatest of seeds 0 to {args.repeats - 1} for the five prepared",
            "rankings": f"the five prepared policies in the order of their hidden success: {right} of {args.repeats} seeds",
            "rank correlation": f"Spearman's, of score (seed 0) and hidden success over {len(names)} policies: {rho:.3f}",
        },
        "columns": [
            {"key": "policy", "title": "policy"},
            {"key": "hidden", "title": "hidden success", "format": ".3f"},
            {"key": "low", "title": "from", "format": ".3f"},
            {"key": "high", "title": "to", "format": ".3f"},
            {"key": "score", "title": "score", "format": ".3f"},
            {"key": "least", "title": "least", "format": ".3f"},
            {"key": "most", "title": "greatest", "format": ".3f"},
            {"key": "repeats", "title": "gate seeds", "format": "d"},
        ],
        "rows": rows,
    }
    (RESULTS / "gate-ranking.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"{right} of {args.repeats} rankings, rank correlation {rho:.3f}")


if __name__ == "__main__":
    main()
