"""`rookery reproduce`: train a policy of the zoo again, by its recipe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import Json, print_json

if TYPE_CHECKING:
    from rookery.experiments.training import Training

EXAMPLES = """
  rookery reproduce go2arm-reach
  rookery reproduce table-push --seed 3 --out runs/push-3
  rookery reproduce table-push --scale 0.001 --out runs/short
  rookery reproduce go2arm-reach --device cuda
  rookery reproduce my_recipe.toml
"""


@dataclass(frozen=True)
class Args:
    """Train a policy of the zoo again: the stages of its recipe, one after the other.

    A recipe is a file of policies/recipes; where there is none, the preset of `rookery train TASK` is the recipe. After a stop
    the same command goes on; a stage that is done is not repeated. The folder gets the policy of the last stage.
    """

    recipe: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="NAME", help="Policy of the zoo, or the file of a recipe, .toml."),
    ]
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Folder of the reproduction; runs/reproduced/NAME if left out.")
    ] = None
    seed: Annotated[
        int | None, tyro.conf.arg(metavar="N", help="Seed of all stages; those of the recipe if left out.")
    ] = None
    device: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME", help="Where all stages learn: cpu, cuda or cuda:1; that of the recipe if left out."
        ),
    ] = None
    scale: Annotated[
        float, tyro.conf.arg(metavar="X", help="Share of the control steps to make, above 0 to 1: to try a recipe.")
    ] = 1.0
    json: Json = False


def run(args: Args) -> int:
    """Carry the recipe out; 130 after Ctrl-C."""
    from rookery.cli.train import announce_training
    from rookery.experiments.recipes import find_recipe
    from rookery.experiments.reproduction import Reproduction
    from rookery.kernels import announce_compiling
    from rookery.sim.engines import check_seed

    if args.seed is not None:
        check_seed(args.seed)
    announce_compiling()
    recipe = find_recipe(args.recipe)
    folder = args.out or Path("runs") / "reproduced" / recipe.name
    reproduction = Reproduction(recipe, folder, args.scale, args.seed, args.device)
    if recipe.notes:
        print(f"rookery: {' '.join(recipe.notes.split())}", file=sys.stderr)

    def announce(line: str, training: Training | None) -> None:
        print(f"rookery: {line}", file=sys.stderr, flush=True)
        if training is not None:
            announce_training(training.settings, training.folder)

    if not reproduction.run(announce):
        print(f"rookery: the same command goes on from here, with --out {folder}", file=sys.stderr)
        return 130
    if args.json:
        print_json({"run": str(folder), "recipe": recipe.name, "stages": reproduction.done, "scale": args.scale})
        return 0
    print(f"reproduced {recipe.name}: {folder}\n  rookery eval {folder} --episodes 256")
    return 0
