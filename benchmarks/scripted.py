"""How scripted experts do: benchmarks/results/panda-scripted.json and locomanip-scripted.json.

    python benchmarks/scripted.py panda [--episodes 64] [--only panda-lift]
    python benchmarks/scripted.py locomanip [--episodes 6] [--only reach carry]

By `rookery eval TASK --controller classical`, nominal physics. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from evaluation import evaluate
from result_file import RESULTS, measure_tasks

from rookery.tasks.locomanip.task_table import TABLE

ROOKERY = [sys.executable, "-m", "rookery"]
PANDA = ("panda-lift", "panda-stack", "panda-cabinet", "dual-panda-handover", "panda-push-t")
PANDA_COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "success", "title": "success rate", "format": ".2f"},
    {"key": "seconds", "title": "time, s", "format": ".1f"},
    {"key": "episodes", "title": "episodes", "format": "d"},
]
LOCOMANIP_COLUMNS = [
    {"key": "case", "title": "task"},
    {"key": "done", "title": "done", "format": "d"},
    {"key": "fell", "title": "fell", "format": "d"},
    {"key": "episodes", "title": "episodes", "format": "d"},
    {"key": "error_cm", "title": "position error, cm", "format": ".1f"},
]


def panda(case: str, episodes: int, seed: int) -> dict[str, Any]:
    """A row: a task of the Panda."""
    figures = evaluate(ROOKERY, Path(case), "none", episodes, seed, ("--controller", "classical"))
    own = {"case": case, "success": figures["success"], "seconds": figures["metrics"]["seconds"]}
    return own | {"metrics": figures["metrics"]}


def locomanip(case: str, episodes: int, seed: int) -> dict[str, Any]:
    """A row: one of the tasks of go2arm-loco-manipulation."""
    options = ("--controller", "classical", "--task-config", f"tasks={case}", "--num-envs", str(episodes))
    m = evaluate(ROOKERY, Path("go2arm-loco-manipulation"), "none", episodes, seed, options)["metrics"]
    done, fell = round(m["success"] * episodes), round(m["fell"] * episodes)
    return {"case": case, "done": done, "fell": fell, "error_cm": 100.0 * m["position_error"]}


def main() -> int:
    which, *arguments = sys.argv[1:] or [""]
    if which == "panda":
        metrics = {"success": "seeded starts", "seconds": "until it was first done, mean over episodes"}
        out = RESULTS / "panda-scripted.json"
        return measure_tasks("scripted.py panda", 64, PANDA, panda, out, PANDA_COLUMNS, metrics, arguments)
    if which == "locomanip":
        metrics = {"error_cm": "of the tool, mean over an episode but its first second, mean over episodes"}
        out = RESULTS / "locomanip-scripted.json"
        given = (out, LOCOMANIP_COLUMNS, metrics, arguments)
        return measure_tasks("scripted.py locomanip", 6, list(TABLE), locomanip, *given)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main())
