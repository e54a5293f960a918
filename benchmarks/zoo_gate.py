"""The row of zoo.py's table of the gate from a report of `rookery gate --json`."""

from __future__ import annotations

from typing import Any

SHOWN = 3
"""Reasons in a row; the JSON file has all."""
COLUMNS = [
    {"key": "policy", "title": "policy"},
    {"key": "profile", "title": "profile"},
    {"key": "verdict", "title": "verdict"},
    {"key": "why", "title": "why not"},
    {"key": "score", "title": "score", "format": ".2f"},
    {"key": "nominal", "title": "nominal", "format": ".2f"},
    {"key": "mean", "title": "combinations", "format": ".2f"},
    {"key": "worst", "title": "worst", "format": ".2f"},
    {"key": "cases", "title": "engines, physics step"},
    {"key": "c", "title": "exported C"},
    {"key": "trained", "title": "commit of its training"},
    {"key": "episodes", "title": "episodes", "format": "d"},
]
METRICS = {
    "why": f"what the profile asks for and the policy does not do; the first {SHOWN}, all are in the JSON file. A factor: the "
    "farthest value up to which enough episodes succeed",
    "combinations": "mean success over combinations drawn from the profile; worst: success at the worst one found",
    "cases": "success with another engine and with other physics steps",
    "c": "largest difference of its actions from torch's, at most 1e-4",
    "trained": "as the policy's contract records it; dirty: with changes that were not committed, so that the commit alone "
    "does not give the policy again",
    "episodes": "of a case; a policy with others than the command's was judged by a command of its own",
}


def gate_row(report: dict[str, Any]) -> dict[str, Any]:
    """The figures of a report; of a refused one its sentence."""
    if "refused" in report:
        return {"verdict": "not judged", "why": report["refused"]}
    cases = {c["name"]: c for c in report["cases"]}
    combinations = report["combinations"] or {}
    required = [m for m in report["margins"] if m["required"] is not None]
    exported = cases.get("exported C", {"note": "", "verdict": "not run"})
    others = [f"{_short(k)} {_rate(c)}" for k, c in cases.items() if k not in ("nominal", "exported C")]
    reasons = why(report)
    more = [f"and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
    return {
        "profile": report["profile"],
        "verdict": report["verdict"],
        "why": "; ".join(reasons[:SHOWN] + more),
        "score": report["score"],
        "nominal": cases["nominal"]["success"],
        "mean": combinations.get("success"),
        "worst": combinations.get("worst_success"),
        "cases": ", ".join(others),
        "c": exported["note"].removeprefix("largest difference of actions from torch ") or exported["verdict"],
        "episodes": report["episodes"],
        "failures": report["failures"],
        "figures": report["figures"],
        "margins": [{k: m[k] for k in ("factor", "direction", "required", "value", "coverage", "verdict")} for m in required],
        "without_effect": report["without_effect"],
        "lacking": report["lacking"],
    }  # fmt: skip


def why(report: dict[str, Any]) -> list[str]:
    """What a report's policy does not do, one short line each, the worst first; nothing of one that passes."""
    from rookery.sim2real.gate.page import number

    cases = {c["name"]: c for c in report["cases"]}
    nominal = cases["nominal"]
    if nominal["verdict"] == "fail":
        return [f"nominal success {nominal['success']:.2f} of {nominal['required']:g}: nothing else was swept"]
    out = [
        f"{_short(name)} {_rate(c)}" + (f" of {c['required']:g}" if c["success"] is not None else "")
        for name, c in cases.items()
        if c["verdict"] == "fail"
    ]
    for figure in report["figures"]:
        low, high = figure["least"], figure["most"]
        if figure["value"] is None:
            out.append(f"{figure['name']} in no episode")
        elif high is not None and not figure["value"] <= high:
            out.append(f"{figure['name']} {figure['value']:.3g} of at most {high:g}")
        elif low is not None and not figure["value"] >= low:
            out.append(f"{figure['name']} {figure['value']:.3g} of at least {low:g}")
    failing = [m for m in report["margins"] if m["required"] is not None and m["verdict"] in ("fail", "no effect")]
    for m in sorted(failing, key=lambda m: m["coverage"]):
        reached = f"{number(m['value'], m['unit'])} of {number(m['required'], m['unit'])}"
        out.append(f"{m['factor']} {'has no effect' if m['verdict'] == 'no effect' else reached}")
    if (c := report["combinations"]) is not None:
        for name, rate, least in (
            ("combinations", c["success"], report["required_combinations"]),
            ("worst combination", c["worst_success"], report["required_worst"]),
        ):
            out += [f"{name} {rate:.2f} of {least:g}"] * (rate < least)
    if report["verdict"] == "incomplete":
        out += [f"not run: {name}" for name in report["skipped"]]
    return out


def _short(case: str) -> str:
    return case.removeprefix("engine ").replace("physics step", "step")


def _rate(case: dict[str, Any]) -> str:
    return str(case["verdict"]) if case["success"] is None else f"{case['success']:.2f}"
