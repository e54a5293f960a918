"""Success and processor time of the scripts that train swarm-surround with other libraries (docs/other_libraries.md).

    python benchmarks/multi_agent_libraries.py [--only NAME ...] [--out benchmarks/results/multi-agent-libraries.json]

Each is run as a user would, at its own length, or that of `--length`. Rows that are not measured stay, and each tells
its commit.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from result_file import RESULTS, measured, told, write_result

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"
SCRIPTS: dict[str, tuple[str, int, int]] = {
    "surround_skrl_ippo.py": ("skrl, IPPO", 512, 1600),
    "surround_skrl_mappo.py": ("skrl, MAPPO", 512, 1600),
    "surround_torchrl.py": ("TorchRL, MAPPO", 16384, 72),
    "surround_pettingzoo.py": ("PettingZoo, DAgger", 1, 10_000),
}
"""Library, control steps of a world for each unit of the length, and the length, the script's argument, by script."""
COLUMNS = (
    {"key": "case", "title": "script", "format": "s"},
    {"key": "trainer", "title": "library", "format": "s"},
    {"key": "steps", "title": "steps, M", "format": ".2f"},
    {"key": "success", "title": "success rate", "format": ".3f"},
    {"key": "cpu_s", "title": "processor time, s", "format": ".0f"},
)
METRICS = {
    "steps": "control steps of a world in millions; each has four drones",
    "success": "of 128 episodes without randomization, one training without a seed",
    "cpu_s": "of the whole script on one thread, imports and the 128 episodes included",
}


def row(script: str, length: int | None = None) -> dict[str, Any]:
    """Run a script in a folder of its own, at its own length where none is given."""
    trainer, each, own = SCRIPTS[script]
    length = own if length is None else length
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(EXAMPLES / script), str(length)]
        out = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (success,) = re.findall(r"^success ([\d.]+)$", out, re.MULTILINE)
    steps = each * length / 1e6
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"case": script, "trainer": trainer, "steps": steps, "success": float(success), "cpu_s": spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(SCRIPTS), choices=SCRIPTS)
    parser.add_argument("--length", type=int, help="of each; its own if left out")
    parser.add_argument("--out", type=Path, default=RESULTS / "multi-agent-libraries.json")
    args = parser.parse_args()
    rows = {r["case"]: r for r in json.loads(args.out.read_text())["rows"]} if args.out.exists() else {}
    for ordered, start in measured(rows, list(SCRIPTS), args.only, lambda script: row(script, args.length)):
        command = "python benchmarks/multi_agent_libraries.py"
        command += "" if args.length is None else f" --length {args.length}"
        write_result(args.out, command, start, COLUMNS, ordered, METRICS, **told(ordered))


if __name__ == "__main__":
    main()
