"""`rookery play`: make a video of a policy, or show it live in the browser."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import (
    Controller,
    Engine,
    Fixed,
    Json,
    OtherTask,
    Randomize,
    Run,
    Seed,
    TaskConfig,
    announce,
    numbers,
    positive,
    print_json,
    values,
)
from rookery.cli.viewing import ViewerOptions, show
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env

EXAMPLES = """
  rookery play runs/drone-hover/latest
  rookery play runs/drone-hover/latest --out hover.gif --seconds 5 --camera fixed
  rookery play policies/zoo/drone-track --engine pybullet --out track.mp4 --sheet track.png
  rookery play drone-hover --controller classical --out classical.mp4
  rookery play go2-velocity --viewer
  rookery play runs/drone-hover/latest --viewer --viewer-worlds 9
"""

FPS = 30
"""Frames per second of a video."""


@dataclass(frozen=True)
class Args:
    """Make a video of a policy: MP4 or GIF with target markers, trail and a small overlay. No screen is needed.

    With --viewer, show it live in the browser instead, until Ctrl-C.
    """

    run: Run
    out: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE",
            help="Video, .mp4 or .gif; by default video.mp4 in the run folder, or here for a policy of the zoo or a task.",
        ),
    ] = None
    seconds: Annotated[float | None, tyro.conf.arg(metavar="S", help="Simulated time; one episode if left out.")] = None
    camera: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help="chase, chase-left, group, fixed, or a camera of the scene such as drone_0/onboard; the task's own.",
        ),
    ] = None
    size: Annotated[tuple[int, int], tyro.conf.arg(metavar="W H", help="Width and height in pixels, even.")] = (
        1280,
        720,
    )
    sheet: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help="Contact sheet of the video as well, .png.")] = (
        None
    )
    task: OtherTask = None
    engine: Engine = None
    set: Fixed = ()
    randomize: Randomize = "none"
    task_config: TaskConfig = ()
    controller: Controller = "policy"
    seed: Seed = 0
    json: Json = False
    live: ViewerOptions = field(default_factory=ViewerOptions)


def _folder(run: Path) -> Path:
    """Of the run where there is one; what comes with the package stays as it came."""
    from rookery.runs import zoo

    ours = run.resolve() in [folder.resolve() for folder in zoo().values()]
    return run if run.is_dir() and not ours else Path()


def run(args: Args) -> int:
    """Make the video, or show it live."""
    args.live.check()
    if args.live.viewer:
        return _view(args)
    if args.seconds is not None:
        positive("--seconds", args.seconds)
    from rookery.cli.progress import Progress
    from rookery.kernels import announce_compiling
    from rookery.sim.rendering.video import MOST_SECONDS, contact_sheet, record_video

    if args.seconds is not None and args.seconds > MOST_SECONDS:
        raise RookeryError(f"--seconds must be at most {MOST_SECONDS:g}, a day, got {args.seconds:g}.")
    announce_compiling()
    env, act = _open(args, 1)
    announce(args.run, args.controller)
    out = args.out or _folder(args.run) / "video.mp4"
    seconds = args.seconds or env.max_episode_steps * env.control_dt
    width, height = args.size
    try:
        with Progress("frames", round(seconds * FPS)) as progress:
            made = record_video(
                env, act, out, seconds=seconds, fps=FPS, camera=args.camera, width=width, height=height,
                seed=args.seed, progress=progress,
            )  # fmt: skip
    finally:
        env.close()
    if args.sheet is not None:
        contact_sheet(made.path, args.sheet)
    if args.json:
        story = {"story": env.event_log(0)}
        print_json(asdict(made) | {"path": str(made.path), "sheet": str(args.sheet) if args.sheet else None} | story)
        return 0
    print(f"video of {made.seconds:.1f} s, drawn with {made.backend}: {made.path}")
    if args.sheet is not None:
        print(f"contact sheet: {args.sheet}")
    for line in env.event_log(0):
        print(line)
    return 0


def _open(args: Args, num_envs: int) -> tuple[Env, Act]:
    from rookery.run_env import open_env

    return open_env(
        args.run,
        num_envs,
        controller=args.controller,
        task=args.task,
        config=values(args.task_config, "--task-config"),
        engine=args.engine,
        seed=args.seed,
        randomize=args.randomize,
        fixed=numbers(args.set, "--set"),
    )


def _view(args: Args) -> int:
    """Show it live until Ctrl-C."""
    for name in ("out", "seconds", "camera", "size", "sheet", "json"):
        if getattr(args, name) != getattr(Args(args.run), name):
            raise RookeryError(f"--{name} is of videos: leave it out with --viewer.")
    from rookery.kernels import announce_compiling
    from rookery.pilots import pilots

    server, _ = args.live.open()
    announce_compiling()
    env, act = _open(args, args.live.viewer_worlds)
    try:
        announce(args.run, args.controller)
        show(server, env, pilots(args.run, args.controller, env, act), args.seed)
    finally:
        env.close()
    return 0
