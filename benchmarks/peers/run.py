"""Our engine beside its peers: makes an environment for each peer, then runs them and us by turns and prints the ratios.

    python benchmarks/peers/run.py [--peers crazyflow momaland] [--cases rotor_thrust-50] [--seconds 0.5] [--rounds 10]

Run it with the Python that has rookery. Environments of peers are made next to this file, or in --venvs, at first use:
crazyflow, momaland and rsl-rl come from the package index; gym-pybullet-drones is not there and needs a copy of its repository
(--gym-pybullet-drones FOLDER). A peer that cannot be installed is said and left out.

Every figure counts drone steps: worlds x drones x steps / time; of rsl-rl's update-N, gradient steps / time. What the cases
are: benchmarks/rotor.py, benchmarks/ppo.py and *_speed.py here. Our time includes setting fresh commands at every call,
crazyflow's does not; MOMAland's and our environment steps include rewards, observations and resets. A ratio is that of
slices of the same round; least and greatest stand beside it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from slices import Rates, Worker, alternate

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
OURS = {"rsl-rl": "ppo.py"}  # our script beside a peer's, where that is not OTHERWISE
OTHERWISE = "rotor.py"
IDENTIFIED = ("so_rpy", "so_rpy_rotor", "so_rpy_rotor_drag")

# our case: the peer's that are measured with it
COMPARISONS: dict[str, dict[str, tuple[str, ...]]] = {
    "crazyflow": {
        "rotor_thrust-4": ("rotor_vel-4",),
        "rotor_thrust-10": ("rotor_vel-10",),
        "rotor_thrust-50": ("rotor_vel-50", "rotor_vel-50-all"),
        "ctbr-4": ("body_rate-4",),
        "ctbr-10": ("body_rate-10",),
        "ctbr-50": ("body_rate-50", "body_rate-50-all"),
        "attitude-4": ("attitude-4",),
        "attitude-10": ("attitude-10",),
        "attitude-50": ("attitude-50", "attitude-50-all", *(f"{m}-50" for m in IDENTIFIED)),
    },
    "gym-pybullet-drones": {"swarm-10": ("drones-8",), "swarm-pybullet-10": ("drones-8",)},
    "momaland": {"env-surround": ("surround",)},
    "rsl-rl": {name: (name,) for name in ("train-256", "update-256", "train-2048", "update-2048")},
}


class NotInstalledError(Exception):
    """A peer's environment could not be made."""


def environment(peer: str, venvs: Path, folder: Path | None) -> Path:
    """Python of a peer's environment, which is made if it is not there.

    Args:
        peer: a key of COMPARISONS.
        venvs: where environments are.
        folder: a package that is not on the package index and goes there too: a copy of the peer's repository, or ours for a
            trainer that learns in our environments.
    """
    venv = venvs / f".venv-{peer}"
    stem = peer.replace("-", "_")
    python = venv / "bin" / "python"
    done = venv / ".installed"
    requirements = (HERE / f"{stem}.txt").read_text()
    wanted = requirements + (f"{folder}\n" if folder else "")
    if done.exists() and done.read_text() == wanted:
        return python
    if peer == "gym-pybullet-drones" and folder is None:
        raise NotInstalledError(
            "not on the package index: give a copy of its repository with --gym-pybullet-drones FOLDER"
        )
    print(f"installing {peer} into {venv} ...", file=sys.stderr, flush=True)
    call([sys.executable, "-m", "venv", "--clear", str(venv)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, "-r", str(HERE / f"{stem}.txt")])
    if folder is not None:  # its own pins are older than some Pythons have; the versions above are what its code needs
        call([*pip, "--no-deps", *(["--editable"] if folder == CHECKOUT else []), str(folder)])
    done.write_text(wanted)
    return python


def call(command: list[str]) -> None:
    """Run a command; NotInstalledError has the last line of what went wrong."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines()
        raise NotInstalledError(said[-1] if said else f"{command[0]} ended with {result.returncode}")


def compare(peer: str, python: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Print a row for every case of a peer; returns them."""
    rows = []
    ours = Worker("rookery", [sys.executable, str(HERE.parent / OURS.get(peer, OTHERWISE)), "--serve"])
    theirs = Worker(peer, [str(python), str(HERE / f"{peer.replace('-', '_')}_speed.py"), "--serve"])
    for case, others in COMPARISONS[peer].items():
        if args.cases and case not in args.cases:
            continue
        try:
            own, *rest = alternate([(ours, case), *((theirs, o) for o in others)], args.seconds, args.rounds)
        except RuntimeError as e:
            print(f"{case}: {e}", file=sys.stderr, flush=True)
            continue
        for other in rest:
            rows.append(figures(own, other))
            print(json.dumps(rows[-1]) if args.json else line(rows[-1]), flush=True)
    theirs.close()
    ours.close()
    return rows


def figures(own: Rates, other: Rates) -> dict[str, Any]:
    """One row of the result."""
    least, ratio, greatest = own.over(other)
    out = {"ours": own.case, "peer": other.label, "theirs": other.case, "ratio": ratio}
    out |= {"ratio_least": least, "ratio_greatest": greatest, "ratio_best": own.best / other.best}
    out |= {"ours_median": own.median, "ours_best": own.best}
    return out | {"theirs_median": other.median, "theirs_best": other.best}


def line(row: dict[str, Any]) -> str:
    """The row as one of a Markdown table."""
    return (
        f"| {row['ours']} | {row['ours_median']:,.0f} | {row['ours_best']:,.0f} | {row['peer']} {row['theirs']} "
        f"| {row['theirs_median']:,.0f} | {row['theirs_best']:,.0f} "
        f"| {row['ratio']:.3g} ({row['ratio_least']:.3g} to {row['ratio_greatest']:.3g}) | {row['ratio_best']:.3g} |"
    )


def write(out: Path, rows: list[dict[str, Any]], args: argparse.Namespace, wall_s: float) -> None:
    """A results file, see benchmarks/tables.py."""
    from machine import commit, machine

    words = f"--peers {' '.join(args.peers)} --seconds {args.seconds} --rounds {args.rounds}"
    columns = [
        {"key": "ours", "title": "ours"},
        {"key": "ours_median", "title": "1/s", "format": ",.0f"},
        {"key": "peer", "title": "peer"},
        {"key": "theirs", "title": "its case"},
        {"key": "theirs_median", "title": "its 1/s", "format": ",.0f"},
        {"key": "ratio", "title": "ratio", "format": ".2f"},
        {"key": "ratio_least", "title": "least", "format": ".2f"},
        {"key": "ratio_greatest", "title": "greatest", "format": ".2f"},
    ]
    made = {
        "name": out.stem,
        "command": f"python benchmarks/peers/run.py {words}",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.date.today().isoformat(),
        "wall_s": round(wall_s, 1),
        "metrics": {
            "1/s": "drone steps a second, and gradient steps of update-N, median over rounds",
            "ratio": "median over rounds of ours over the peer's in the same round",
        },
        "columns": columns,
        "rows": rows,
    }
    out.write_text(json.dumps(made, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--cases", nargs="+", help="only these of our cases")
    parser.add_argument("--seconds", type=float, default=0.5, help="of one slice")
    parser.add_argument("--rounds", type=int, default=10, help="slices of each")
    parser.add_argument("--venvs", type=Path, default=HERE, help="folder of the peers' environments")
    parser.add_argument("--gym-pybullet-drones", type=Path, metavar="FOLDER", help="copy of its repository")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    parser.add_argument("--out", type=Path, help="results file for benchmarks/tables.py")
    args = parser.parse_args()
    pythons: dict[str, Path] = {}
    for peer in args.peers:
        folder = {"gym-pybullet-drones": args.gym_pybullet_drones, "rsl-rl": CHECKOUT}.get(peer)
        try:
            pythons[peer] = environment(peer, args.venvs.resolve(), folder and folder.resolve())
        except (NotInstalledError, OSError) as e:
            print(f"{peer} is left out: {e}", file=sys.stderr, flush=True)
    sys.path.insert(0, str(HERE.parent))
    if not args.json:
        from machine import machine

        print(f"{machine()}, load at the start {os.getloadavg()[0]:.1f}", flush=True)
        print("| ours | median | best | peer | median | best | ratio, median (least to greatest) | of bests |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
    start = time.perf_counter()
    rows = [row for peer, python in pythons.items() for row in compare(peer, python, args)]
    if args.out is not None:
        write(args.out, rows, args, time.perf_counter() - start)
    return 0 if pythons else 1


if __name__ == "__main__":
    raise SystemExit(main())
