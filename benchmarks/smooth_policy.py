"""A policy with low-passed actions from one without, as one plain network (see rookery.policies.low_pass).

python benchmarks/smooth_policy.py runs/chatters --share 0.6 --actions collective_thrust --out runs/smooth
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rookery.cli.main import guarded
from rookery.experiments.runs import open_run
from rookery.policies.low_pass import low_pass
from rookery.policies.training.store import save_policy

ZOO = Path(__file__).resolve().parents[1] / "policies" / "zoo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?", default=ZOO / "drone-hover")
    parser.add_argument("--share", type=float, default=0.6, help="of the new action")
    parser.add_argument("--actions", nargs="*", default=(), help="names; all without it")
    parser.add_argument("--out", type=Path, default=Path("runs/smooth"))
    args = parser.parse_args()
    policies, contract = open_run(args.run)
    groups = contract.groups
    made = {name: low_pass(p, groups[name].spec, args.share, args.actions) for name, p in policies.items()}
    save_policy(args.out, made, contract.to_json())
    print(args.out)


if __name__ == "__main__":
    raise SystemExit(guarded(main))
