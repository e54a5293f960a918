"""A policy from two, as `rookery train --init` takes it: the actions that the first has are its own, the rest the second's.

python benchmarks/merge_policies.py go2arm-reach runs/walking runs/standing --out runs/merged
"""

from __future__ import annotations

import argparse
from pathlib import Path

import rookery
from rookery.cli.main import guarded
from rookery.experiments.runs import open_run
from rookery.policies.fuse import fuse_policies
from rookery.policies.training.store import save_policy
from rookery.sim2real.build import build_contract


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    env = rookery.make(args.task, 1)
    (name, group), *_ = env.groups.items()
    learned = []
    for folder in (args.first, args.second):
        policies, contract = open_run(folder)
        learned.append((policies[name], contract.groups[name].spec))
    contract = build_contract(env, provenance={"made_from": [str(args.first), str(args.second)]}, trained_here=False)
    save_policy(args.out, {name: fuse_policies(*learned, group)}, contract.to_json())
    print(args.out)


if __name__ == "__main__":
    raise SystemExit(guarded(main))
