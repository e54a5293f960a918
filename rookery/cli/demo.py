"""`make demo`: the whole path in a few minutes, from nothing to a bundle for hardware.

Trains drone-hover, evaluates the policy on MuJoCo and on PyBullet, records a video, exports the policy, and checks the C
and ONNX against the network. Ends with a table of what was made and where.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.main import guarded
from rookery.cli.options import parse

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
  make demo
  .venv/bin/python -m rookery.cli.demo --train-s 30
"""
TASK = "drone-hover"


@dataclass(frozen=True)
class Args:
    """Train drone-hover, evaluate it on three engines, record a video, export it and check the export."""

    train_s: Annotated[
        float, tyro.conf.arg(metavar="S", help="Longest training; it ends sooner when it has learned.")
    ] = 110.0
    episodes: Annotated[
        int, tyro.conf.arg(metavar="N", help="Evaluation episodes on MuJoCo; a quarter on PyBullet.")
    ] = 256
    video_s: Annotated[float, tyro.conf.arg(metavar="S", help="Length of the video.")] = 10.0
    seed: Annotated[int, tyro.conf.arg(metavar="N", help="Seed of everything random.")] = 0
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Run folder; runs/drone-hover/<time> if left out.")
    ] = None


class Story:
    """Says what is being done, and remembers how long it took."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.begin = time.perf_counter()
        self.chapter = 0

    def tell(self, what: str) -> None:
        """Begin a chapter."""
        self.chapter += 1
        self.console.print(f"[bold cyan]{self.chapter}/5[/] {what} [dim]({self.seconds:.0f} s)[/]")

    @property
    def seconds(self) -> float:
        """s since the beginning."""
        return time.perf_counter() - self.begin


def run(args: Args) -> int:
    """The whole path; 130 after Ctrl-C while training."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    story = Story(console)
    story.tell(f"training [bold]{TASK}[/], at most {args.train_s:.0f} s; Ctrl-C saves")
    from rookery.training import Settings, start

    training = start(Settings.of_task(TASK, seed=args.seed), args.out)
    trained = training.run(limit_s=args.train_s)
    if trained["interrupted"]:
        return 130
    folder = training.folder
    story.tell("evaluating on rotor, and on MuJoCo and PyBullet, which it has never seen")
    results = {engine: _evaluate(folder, engine, args) for engine in ("rotor", "mujoco", "pybullet")}
    story.tell("recording a video")
    from rookery.runs import open_env, open_run
    from rookery.sim.rendering.video import contact_sheet, record_video

    env, act = open_env(folder, 1, seed=args.seed)
    made = record_video(env, act, folder / "video.mp4", seconds=args.video_s, seed=args.seed)
    env.close()
    sheet = contact_sheet(made.path, folder / "contact_sheet.png")
    story.tell("exporting to ONNX and C99")
    from rookery.sim2real.export.bundle import export_bundle
    from rookery.sim2real.export.check import check_bundle

    bundle = export_bundle(*open_run(folder), folder / "bundle")
    story.tell("checking the exported C and ONNX against the network")
    checked = check_bundle(bundle)
    _summary(console, trained, results, {"video": made.path, "contact sheet": sheet, "bundle": bundle}, checked)
    console.print(f"[dim]The demo took {story.seconds:.0f} s.[/] Next: rookery --help, or docs/getting_started.md")
    return 0


def _evaluate(folder: Path, engine: str, args: Args) -> dict[str, Any]:
    from rookery.cli.eval import measure
    from rookery.runs import open_env

    episodes = args.episodes if engine != "pybullet" else max(1, args.episodes // 4)
    env, act = open_env(folder, min(episodes, 256 if engine != "pybullet" else 16), engine=engine, seed=args.seed)
    result = measure(env, act, episodes, args.seed)
    env.close()
    return result


def _summary(
    console: Console,
    trained: dict[str, Any],
    results: dict[str, dict[str, Any]],
    made: dict[str, Path],
    checked: dict[str, float],
) -> None:
    from rich.table import Table

    table = Table("what", "result", "where", box=None, pad_edge=False)
    folder = Path(trained["run"])
    table.add_row("policy", f"{trained['steps']:,} steps in {trained['seconds']:.0f} s", str(folder))
    for engine, result in results.items():
        error = result["metrics"].get("error_m")
        table.add_row(
            f"success on {engine}",
            f"{result['success_rate']:.1%} of {result['episodes']} episodes"
            + (f", {100 * error:.1f} cm" if error is not None else ""),
            f"rookery eval {folder} --engine {engine}",
        )
    for name in ("video", "contact sheet", "bundle"):
        table.add_row(name, "", str(made[name]))
    table.add_row(
        "exported C", f"within {checked['c_max_error']:.1g} of the network", f"rookery export --check {made['bundle']}"
    )
    table.add_row("exported ONNX", f"within {checked['onnx_max_error']:.1g} of the network", "")
    console.print()
    console.print(table)


def main() -> int:
    """Entry point of ``python -m rookery.cli.demo``."""

    def work() -> int:
        args = parse(Args, sys.argv[1:], "demo", EXAMPLES)
        return 0 if args is None else run(args)

    return guarded(work)


if __name__ == "__main__":
    sys.exit(main())
