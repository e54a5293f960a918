"""Type check of all rooms under their installed names, and the proof that mypy really looks into each of them.

mypy does not read setuptools' package-dir, so `.types/rookery` mirrors the installed layout with links. Every package
there also gets one file with a deliberate error: a run passes only if mypy reports exactly those errors and no other.

    python tests/check_types.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINKS = ROOT / ".types"
PROOF = "_deliberate_error.py"
ERROR = 'from rookery.sim.errors import RookeryError\n\nanswer: int = RookeryError("not an int")\n'


def lay_links() -> dict[str, Path]:
    """Fill `.types` with links to every module. Returns the folder of each package, by its place under `.types`."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders: dict[str, Path] = {}
    shutil.rmtree(LINKS, ignore_errors=True)
    for package in setup["packages"]:
        parts = package.split(".")
        cut = next(i for i in range(len(parts), 0, -1) if ".".join(parts[:i]) in setup["package-dir"])
        source = Path(setup["package-dir"][".".join(parts[:cut])], *parts[cut:])
        target = LINKS.joinpath(*parts)
        target.mkdir(parents=True, exist_ok=True)
        for module in (ROOT / source).glob("*.py"):
            (target / module.name).symlink_to(os.path.relpath(module, target))
        (target / PROOF).write_text(ERROR)
        folders["/".join(parts)] = source
    return folders


def main() -> int:
    """Exit code 0 when the deliberate errors are all that mypy finds."""
    folders = lay_links()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", "rookery"],
        cwd=LINKS,
        capture_output=True,
        text=True,
        check=False,
    )
    seen = set()
    others = []
    for line in done.stdout.splitlines():
        found = re.match(rf"(.+)/{re.escape(PROOF)}:3: error: .*\[assignment\]", line)
        if found:
            seen.add(found[1])
        elif not line.startswith("Found "):
            others.append(re.sub(r"^(.+)/([^/:]+\.py:)", lambda m: f"{folders.get(m[1], m[1])}/{m[2]}", line))
    unseen = sorted(set(folders) - seen)
    modules = sum(1 for _ in LINKS.rglob("*.py")) - len(folders)
    print("\n".join([*others, *done.stderr.splitlines()]), file=sys.stderr)
    if unseen:
        print(f"types: mypy did not report the deliberate error in {', '.join(unseen)}.", file=sys.stderr)
    if others or unseen or done.stderr:
        errors = sum(": error:" in line for line in others)
        print(f"types: {errors} errors in {modules} modules.", file=sys.stderr)
        return 1
    print(f"types: no errors in {modules} modules; mypy saw the deliberate error in each of {len(folders)} packages.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
