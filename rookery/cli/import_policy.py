"""`rookery import`: a run folder from an actor that another library trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rookery.cli.options import Engine, Json, TaskConfig, print_json, values

EXAMPLES = """
  rookery import ppo_hover.zip drone-hover --randomize none
  rookery import logs/model_199.pt drone-hover --activation tanh --out runs/rsl-hover
  rookery import agent_6400.pt go2-velocity --activation elu --squash clip --task-config history=5
  rookery import hover.pth drone-hover --activation elu --squash clip
  rookery import policy.onnx drone-hover
  rookery import sac.zip drone-hover --normalizer statistics.npz
"""


@dataclass(frozen=True)
class Args:
    """Make a run folder from an actor that another library trained on one of Rookery's tasks.

    `rookery eval`, `play`, `gate` and `export` take the folder like one of `rookery train`. Taken over are perceptrons with
    their observation statistics, from checkpoints of rsl_rl, Stable-Baselines3, skrl, rl_games and TorchRL, and from
    TorchScript and ONNX files. Where the library is installed, the policy must act as the library's own code does. Nothing in
    a file is executed.
    """

    file: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(
            metavar="FILE",
            help="rsl_rl's model_N.pt, Stable-Baselines3's .zip, skrl's agent_N.pt, rl_games' .pth, TorchRL's state_dict, or "
            "TorchScript (.pt), ONNX (.onnx).",
        ),
    ]
    task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK", help="Task that it was trained for.")]
    activation: Annotated[
        str | None,
        tyro.conf.arg(metavar="NAME", help="tanh, elu or relu, where FILE does not tell."),
    ] = None
    squash: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME", help="What follows the last layer, clip (nothing) or tanh, where FILE does not tell."
        ),
    ] = None
    normalizer: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="Observation statistics that FILE lacks (VecNormalize): .npz with mean, var, epsilon, limit.",
        ),
    ] = None
    task_config: TaskConfig = ()
    engine: Engine = None
    randomize: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="RANGES",
            help="Domain randomization of its training, for the contract: none, default, all, or a TOML file; not known if "
            "left out.",
        ),
    ] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help="Run folder; runs/TASK/<time> if left out.")] = None
    json: Json = False


def run(args: Args) -> int:
    """Import and say what to do next."""
    from rookery.experiments.importing import import_policy

    folder = import_policy(
        args.file,
        args.task,
        config=values(args.task_config, "--task-config"),
        engine=args.engine,
        randomize=args.randomize,
        activation=args.activation,
        squash=args.squash,
        normalizer=args.normalizer,
        out=args.out,
    )
    if args.json:
        print_json({"run": str(folder), "task": args.task})
        return 0
    print(f"imported {args.file} as {folder}\n  rookery eval {folder} --episodes 256")
    return 0
