"""`make demo`: the whole path in a few minutes, from nothing to a bundle for hardware.

Compiles what drone-hover needs and nothing else, trains it, evaluates the policy on MuJoCo and on PyBullet, records a video,
exports the policy, and checks the C and ONNX against the network. Ends with a table of what was made and where.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.main import guarded
from rookery.cli.options import parse
from rookery.sim.engines import find_engine
from rookery.tasks.registry import find

if TYPE_CHECKING:
    from rich.console import Console

EXAMPLES = """
  make demo
  .venv/bin/python -m rookery.cli.demo --train-s 30
"""
TASK = "drone-hover"
ENGINES = ("rotor", "mujoco", "pybullet")
"""The one that trains first."""
EXPLORING_SUCCESS = 0.5
"""Success with exploration, from wild starts, at which the policy is evaluated for the first time: without exploration such a
policy succeeds in nearly all episodes (0.29 with exploration was 1.00 without, seed 0)."""
ROUND_S = 20.0
"""s of training between further evaluations."""
WINDOW = 1024
"""Latest training episodes that success is averaged over."""
VIDEO_SIZE = (320, 240)
"""Width and height in pixels: software OpenGL on busy cores takes seconds for one large frame."""
VIDEO_FPS = 15


@dataclass(frozen=True)
class Args:
    """Train drone-hover, evaluate it on three engines, record a video, export it and check the export."""

    target_success: Annotated[
        float, tyro.conf.arg(metavar="P", help="Training stops when an evaluation reaches this success.")
    ] = 0.95
    train_s: Annotated[
        float, tyro.conf.arg(metavar="S", help="Longest training, where the success target is not reached.")
    ] = 120.0
    episodes: Annotated[
        int, tyro.conf.arg(metavar="N", help="Evaluation episodes on MuJoCo; an eighth on PyBullet.")
    ] = 256
    video_s: Annotated[float, tyro.conf.arg(metavar="S", help="Length of the video.")] = 6.0
    seed: Annotated[int, tyro.conf.arg(metavar="N", help="Seed of everything random.")] = 0
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Run folder; runs/drone-hover/<time> if left out.")
    ] = None


class Steps:
    """Prints each step of the demo with the time since the beginning."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.start = time.perf_counter()
        self.count = 0

    def begin_step(self, what: str) -> None:
        """Print what begins now."""
        self.count += 1
        self.console.print(f"[bold cyan]{self.count}/6[/] {what} [dim]({self.seconds:.0f} s)[/]")

    @property
    def seconds(self) -> float:
        """s since the beginning."""
        return time.perf_counter() - self.start


def run(args: Args) -> int:
    """The whole path; 130 after Ctrl-C while training."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    steps = Steps(console)
    steps.begin_step(
        f"compiling the kernels of [bold]{TASK}[/] for this machine, once, about a minute of its processor"
    )
    from rookery.kernels import KernelCase, compile_for

    compile_for(
        [KernelCase(TASK), *(KernelCase(TASK, engine) for engine in ENGINES[1:]), "ppo"],
        lambda line: print(f"  {line}"),
    )
    steps.begin_step(f"training [bold]{TASK}[/], at most {args.train_s:.0f} s; Ctrl-C saves")
    trained = _train(args)
    if trained["interrupted"]:
        return 130
    folder = Path(trained["run"])
    steps.begin_step("evaluating on rotor, and on MuJoCo and PyBullet, which it was not trained on")
    results = {engine: _evaluate(folder, engine, args) for engine in ENGINES}
    steps.begin_step("recording a video")
    from rookery.experiments.run_env import open_env
    from rookery.experiments.runs import open_run
    from rookery.sim.rendering.video import contact_sheet, record_video

    env, act = open_env(folder, 1, seed=args.seed)
    width, height = VIDEO_SIZE
    made = record_video(
        env, act, folder / "video.mp4", seconds=args.video_s, width=width, height=height, fps=VIDEO_FPS, seed=args.seed
    )
    env.close()
    sheet = contact_sheet(made.path, folder / "contact_sheet.png")
    steps.begin_step("exporting to ONNX and C99")
    from rookery.sim2real.export.bundle import export_bundle
    from rookery.sim2real.export.check import check_bundle

    bundle = export_bundle(*open_run(folder), folder / "bundle", overwrite=True)
    steps.begin_step("checking the exported C and ONNX against the network")
    checked = check_bundle(bundle)
    missed = [engine for engine, result in results.items() if result["success_rate"] < args.target_success]
    _summary(
        console,
        trained,
        results,
        {"video": made.path, "contact sheet": sheet, "bundle": bundle},
        checked,
        args.target_success,
    )
    if missed:
        console.print(
            f"[bold red]warning:[/] success is below {args.target_success:.0%} on {', '.join(missed)}: training "
            f"stopped after {trained['seconds']:.0f} s ({trained['stopped']}). Give it longer with "
            f"rookery train --resume {folder} --time-limit-s {2 * args.train_s:.0f}"
        )
    console.print(f"[dim]The demo took {steps.seconds:.0f} s.[/] Next: rookery --help, or docs/getting_started.md")
    return 0


def _train(args: Args) -> dict[str, Any]:
    """Train until an evaluation reaches the success target, or the time is over; the result of `Training.run`."""
    from rookery.experiments.recipes import preset
    from rookery.experiments.training import resume, start

    settings = preset(TASK)
    runner = replace(
        settings.runner, target_success=EXPLORING_SUCCESS, success_window=WINDOW, time_limit_s=args.train_s
    )
    training = start(replace(settings, seed=args.seed, runner=runner), args.out)
    while True:
        trained = training.run()
        if trained["interrupted"]:
            return trained
        if _evaluate(training.folder, find(TASK).engines[0], args)["success_rate"] >= args.target_success:
            return trained | {"stopped": "success"}
        if trained["stopped"] == "steps" or trained["seconds"] >= args.train_s:
            return trained
        limit = min(args.train_s, trained["seconds"] + ROUND_S)
        training = resume(training.folder, {"time_limit_s": limit, "target_success": None})


def _evaluate(folder: Path, engine: str, args: Args) -> dict[str, Any]:
    from rookery.cli.eval import measure
    from rookery.experiments.run_env import open_env

    batch = min(256, find_engine(engine).batch)
    episodes = args.episodes if batch >= 64 else max(1, args.episodes // 8)  # on slow engines
    env, act = open_env(folder, min(episodes, batch), engine=engine, seed=args.seed)
    result = measure(env, act, episodes, args.seed)
    env.close()
    return result


def _summary(
    console: Console,
    trained: dict[str, Any],
    results: dict[str, dict[str, Any]],
    made: dict[str, Path],
    checked: dict[str, float],
    target: float,
) -> None:
    from rich.table import Table

    table = Table("what", "result", "where", box=None, pad_edge=False)
    folder = Path(trained["run"])
    stopped = {"success": "success target reached", "time": "time limit", "steps": "all steps"}[trained["stopped"]]
    table.add_row("policy", f"{trained['steps']:,} steps in {trained['seconds']:.0f} s, {stopped}", str(folder))
    for engine, result in results.items():
        error = result["metrics"].get("error_m")
        low = result["success_rate"] < target
        table.add_row(
            f"success on {engine}",
            f"{'[red]below the target:[/] ' if low else ''}{result['success_rate']:.1%} of {result['episodes']} episodes"
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
