"""Our engine beside its peers: makes an environment for each peer, then runs them and us by turns and prints the ratios.

    python benchmarks/peers/run.py [--peers crazyflow momaland] [--cases rotor_thrust-50] [--seconds 0.5] [--rounds 10]

Run it with the Python that has rookery. Environments of peers are made next to this file, or in --venvs, at first use:
crazyflow and momaland come from the package index; gym-pybullet-drones is not there and needs a copy of its repository
(--gym-pybullet-drones FOLDER). A peer that cannot be installed is said and left out.

Every figure counts drone steps: worlds x drones x steps / time. What the cases are: benchmarks/rotor.py and *_speed.py
here. Our time includes setting fresh commands at every call, crazyflow's does not; MOMAland's and our environment steps
include rewards, observations and resets. A ratio is that of slices of the same round; least and greatest stand beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from slices import Rates, Worker, alternate

HERE = Path(__file__).resolve().parent
OURS = [sys.executable, str(HERE.parent / "rotor.py"), "--serve"]
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
}


class NotInstalledError(Exception):
    """A peer's environment could not be made."""


def environment(peer: str, venvs: Path, folder: Path | None) -> Path:
    """Python of a peer's environment, which is made if it is not there.

    Args:
        peer: a key of COMPARISONS.
        venvs: where environments are.
        folder: copy of the peer's repository, for one that is not on the package index.
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
        call([*pip, "--no-deps", str(folder)])
    done.write_text(wanted)
    return python


def call(command: list[str]) -> None:
    """Run a command; NotInstalledError has the last line of what went wrong."""
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines()
        raise NotInstalledError(said[-1] if said else f"{command[0]} ended with {result.returncode}")


def compare(ours: Worker, peer: str, python: Path, args: argparse.Namespace) -> None:
    """Print a row for every case of a peer."""
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
            print(row(own, other, args.json), flush=True)
    theirs.close()


def row(own: Rates, other: Rates, as_json: bool) -> str:
    """One line of the result."""
    least, ratio, greatest = own.over(other)
    if as_json:
        figures = {"ours": own.case, "peer": other.label, "theirs": other.case, "ratio": ratio}
        figures |= {"ratio_least": least, "ratio_greatest": greatest, "ratio_best": own.best / other.best}
        figures |= {"ours_median": own.median, "ours_best": own.best}
        return json.dumps(figures | {"theirs_median": other.median, "theirs_best": other.best})
    return (
        f"| {own.case} | {own.median:,.0f} | {own.best:,.0f} | {other.label} {other.case} | {other.median:,.0f} "
        f"| {other.best:,.0f} | {ratio:.3g} ({least:.3g} to {greatest:.3g}) | {own.best / other.best:.3g} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=list(COMPARISONS), default=list(COMPARISONS))
    parser.add_argument("--cases", nargs="+", help="only these of our cases")
    parser.add_argument("--seconds", type=float, default=0.5, help="of one slice")
    parser.add_argument("--rounds", type=int, default=10, help="slices of each")
    parser.add_argument("--venvs", type=Path, default=HERE, help="folder of the peers' environments")
    parser.add_argument("--gym-pybullet-drones", type=Path, metavar="FOLDER", help="copy of its repository")
    parser.add_argument("--json", action="store_true", help="one JSON line a row")
    args = parser.parse_args()
    pythons: dict[str, Path] = {}
    for peer in args.peers:
        folder = args.gym_pybullet_drones if peer == "gym-pybullet-drones" else None
        try:
            pythons[peer] = environment(peer, args.venvs.resolve(), folder and folder.resolve())
        except (NotInstalledError, OSError) as e:
            print(f"{peer} is left out: {e}", file=sys.stderr, flush=True)
    if not args.json:
        sys.path.insert(0, str(HERE.parent))
        from machine import machine

        print(f"{machine()}, load at the start {os.getloadavg()[0]:.1f}", flush=True)
        print("| ours | median | best | peer | median | best | ratio, median (least to greatest) | of bests |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
    ours = Worker("rookery", OURS)
    for peer, python in pythons.items():
        compare(ours, peer, python, args)
    ours.close()
    return 0 if pythons else 1


if __name__ == "__main__":
    raise SystemExit(main())
