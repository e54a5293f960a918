"""How scripted experts do: benchmarks/results/panda-scripted.json and locomanip-scripted.json.

    python benchmarks/scripted.py panda [--episodes 64] [--only panda-lift]
    python benchmarks/scripted.py locomanip [--episodes 6] [--only reach carry]

By `rookery eval TASK --controller classical`, nominal physics. Rows that are not measured anew stay.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from result_file import RESULTS, measure_cases
from zoo import evaluate

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


def panda(_: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """A row: a task of the Panda."""
    figures = evaluate(ROOKERY, Path(case), "none", episodes, seed, ("--controller", "classical"))
    own = {"case": case, "success": figures["success"], "seconds": figures["metrics"]["seconds"]}
    return own | {"episodes": episodes, "metrics": figures["metrics"]}


def locomanip(_: Path, case: str, episodes: int, seed: int) -> dict[str, Any]:
    """A row: one of the tasks of go2arm-loco-manipulation."""
    options = ("--controller", "classical", "--task-config", f"tasks={case}", "--num-envs", str(episodes))
    m = evaluate(ROOKERY, Path("go2arm-loco-manipulation"), "none", episodes, seed, options)["metrics"]
    done, fell = round(m["success"] * episodes), round(m["fell"] * episodes)
    own = {"case": case, "done": done, "fell": fell, "episodes": episodes}
    return own | {"error_cm": 100.0 * m["position_error"]}


def main() -> None:
    which = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    about = str(__doc__).splitlines()[0]
    script, here = Path(__file__), Path()
    if which == "panda":
        metrics = {"success": "seeded starts", "seconds": "until it was first done, mean over episodes"}
        out = RESULTS / "panda-scripted.json"
        measure_cases(script, about, here, 64, PANDA, panda, out, PANDA_COLUMNS, metrics, "panda")
    elif which == "locomanip":
        metrics = {"error_cm": "of the tool, mean over an episode but its first second, mean over episodes"}
        out = RESULTS / "locomanip-scripted.json"
        measure_cases(script, about, here, 6, list(TABLE), locomanip, out, LOCOMANIP_COLUMNS, metrics, "locomanip")
    else:
        raise SystemExit(str(__doc__))


if __name__ == "__main__":
    main()
