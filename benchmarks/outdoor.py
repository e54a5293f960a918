"""How the zoo's drones that hover and track do in wind: benchmarks/results/outdoor.json.

    python benchmarks/outdoor.py [--episodes 64] [--only drone-hover-gru]

By `rookery eval --set wind_speed=...`, other physics nominal, and by `rookery gate --profile drone-outdoor`. Rows that are not
measured anew stay.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from evaluation import ROOKERY, eval_figures
from result_file import RESULTS, digest, measure_tasks
from zoo import ZOO

OUT = RESULTS / "outdoor.json"
POLICIES = ("drone-hover", "drone-hover-any", "drone-hover-gru", "drone-track", "drone-track-gru")
WINDS = (1.1, 2.2, 3.3)
"""m/s, up to the profile's."""
GATE = (
    "--profile",
    "drone-outdoor",
    "--engines",
    "none",
    "--required-only",
    "--rounds",
    "0",
    "--interval",
    "0.25",
    "--json",
)
SHOWN = 3
COLUMNS = [
    {"key": "case", "title": "policy"},
    {"key": "memory", "title": "memory"},
    *({"key": f"success_{w:g}", "title": f"success in {w:g} m/s", "format": ".2f"} for w in WINDS),
    {"key": "error_cm", "title": f"position error in {WINDS[1]:g} m/s, cm", "format": ".1f"},
    {"key": "verdict", "title": "gate"},
    {"key": "mean", "title": "combinations", "format": ".2f"},
    {"key": "worst", "title": "worst", "format": ".2f"},
    {"key": "failures", "title": "fails"},
    {"key": "episodes", "title": "episodes", "format": "d"},
]
METRICS = {
    "success": "the limits of drone-hover and drone-track are 5 and 10 cm; turbulence on the mean wind is MIL-F-8785C's",
    "gate": "rookery gate --profile drone-outdoor, with as many episodes at each point; no other engine, margins not narrowed",
    "combinations": "mean success over combinations drawn from the profile; worst: success at the worst one found",
}


def gated(policy: str, episodes: int, seed: int) -> dict[str, Any]:
    """What `rookery gate` says of a policy in the profile."""
    command = [*ROOKERY, "gate", str(ZOO / policy), *GATE, "--episodes", str(episodes), "--seed", str(seed)]
    done = subprocess.run([*command, "--out", f"runs/outdoor/{policy}"], stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.returncode)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def row(policy: str, episodes: int, seed: int) -> dict[str, Any]:
    """The figures of one policy."""
    contract = json.loads((ZOO / policy / "contract.json").read_text())
    kinds = {s["stage"] for group in contract["groups"].values() for s in group["stages"]}
    out: dict[str, Any] = {
        "case": policy,
        "memory": "GRU" if "gru" in kinds else "none",
        "policy_sha256": digest(ZOO / policy),
    }
    for wind in WINDS:
        options = ("--episodes", str(episodes), "--seed", str(seed), "--set", f"wind_speed={wind:g}")
        figures = eval_figures(ZOO / policy, *options)
        out[f"success_{wind:g}"] = figures["success_rate"]
        if wind == WINDS[1]:
            out["error_cm"] = 100.0 * figures["metrics"]["error_m"]
    report = gated(policy, episodes, seed)
    combinations = report["combinations"] or {}
    failures = report["failures"]
    shown = ", ".join(failures[:SHOWN]) + (f", and {len(failures) - SHOWN} more" if len(failures) > SHOWN else "")
    return out | {
        "verdict": "fail" if report["failures"] else "pass", "score": report["score"], "mean": combinations.get("success"),
        "worst": combinations.get("worst_success"), "failures": shown, "all_failures": failures,
        "margins": [m for m in report["margins"] if m["factor"] == "wind_speed"],
    }  # fmt: skip


def main() -> int:
    return measure_tasks("outdoor.py", 64, list(POLICIES), row, OUT, COLUMNS, METRICS)


if __name__ == "__main__":
    sys.exit(main())
