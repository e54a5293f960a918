"""`rookery play`: make a video of a policy, or show it live in the browser."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
from rookery.cli.viewing import ViewerOptions, show, uncollected
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.sim.env import Act, Env

EXAMPLES = """
  rookery play runs/drone-hover/latest
  rookery play runs/drone-hover/latest --out hover.gif --seconds 5 --camera fixed
  rookery play drone-track --engine pybullet --out track.mp4 --sheet track.png
  rookery play drone-hover --controller classical --out classical.mp4
  rookery play go2-velocity --viewer
  rookery play runs/drone-hover/latest --viewer --viewer-worlds 9
  rookery play drone-hover --worlds 9 --out nine.mp4
  rookery play volley-solo-bump --slow 4 --out slow.mp4 --draft
  rookery play runs/volley-1v1/latest --against controller --seconds 20 --out match.mp4
"""

FPS = 30
"""Frames per second of a video."""

DRAFT_SIZE = (640, 360)
"""Pixels of a draft."""


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
            help="chase, chase-left, chase-above, group, fixed, or a camera such as drone_0/onboard; the task's own.",
        ),
    ] = None
    size: Annotated[tuple[int, int], tyro.conf.arg(metavar="W H", help="Width and height in pixels, even.")] = (
        1280,
        720,
    )
    draft: Annotated[
        bool, tyro.conf.arg(help="Draw a quarter of the size and with hard edges, about eight times as fast.")
    ] = False
    worlds: Annotated[int, tyro.conf.arg(metavar="N", help="Worlds in one picture, as a grid.")] = 1
    beside: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="RUN", help="Another run of the same task on the left, such as one from before more training."
        ),
    ] = None
    against: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="RUN",
            help="Whom it plays against, in a task with two teams: a run, a zoo policy, or controller. Sides change.",
        ),
    ] = None
    slow: Annotated[
        float, tyro.conf.arg(metavar="TIMES", help="Show contacts so many times slower, such as hits of a ball.")
    ] = 1.0
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
    track: Annotated[bool, tyro.conf.arg(help="Send the video to the trackers of the training, too.")] = False
    json: Json = False
    live: ViewerOptions = field(default_factory=ViewerOptions)


def _folder(run: Path) -> Path:
    """Path in the run where there is one; what comes with the package stays as it came."""
    from rookery.experiments.zoo import zoo

    ours = run.resolve() in [folder.resolve() for folder in zoo().values()]
    return run if run.is_dir() and not ours else Path()


def _titles(args: Args) -> tuple[str, str]:
    """Titles of the pictures on the left and on the right: the folders' names, with those around them where they are alike."""
    left, right = (args.beside or args.run).resolve(), args.run.resolve()
    depth = 2 if left.name == right.name else 1
    return "/".join(left.parts[-depth:]), "/".join(right.parts[-depth:])


def run(args: Args) -> int:
    """Make the video, or show it live."""
    args.live.check()
    if args.live.viewer:
        return _view(args)
    from rookery.cli.progress import Progress
    from rookery.kernels import announce_compiling
    from rookery.sim.rendering.video import SAMPLES, contact_sheet, record_video

    _refuse_unlike(args)
    announce_compiling()
    env, act = _open(args, args.run, args.worlds) if args.against is None else _meet(args)
    announce(args.run, args.controller if str(args.run) != "controller" else "classical")
    beside = None
    if args.beside is not None:
        try:
            beside = _open(args, args.beside, args.worlds)
        except BaseException:
            env.close()
            raise
        announce(args.beside, args.controller)
    out = args.out or _folder(args.run) / "video.mp4"
    seconds = args.seconds or env.max_episode_steps * env.control_dt
    width, height = DRAFT_SIZE if args.draft else args.size
    try:
        with Progress("frames", round(seconds * FPS)) as progress:
            made = record_video(
                env, act, out, seconds=seconds, fps=FPS, camera=args.camera, width=width, height=height,
                worlds=args.worlds, beside=beside, titles=_titles(args), slow=args.slow, seed=args.seed,
                samples=1 if args.draft else SAMPLES, progress=progress,
            )  # fmt: skip
    finally:
        env.close()
        if beside is not None:
            beside[0].close()
    if args.sheet is not None:
        contact_sheet(made.path, args.sheet)
    if args.track:
        from rookery.experiments.tracked import tracking_of

        with tracking_of(args.run) as (tracking, steps):
            tracking.video(made.path, f"video/{made.path.stem}", steps)
    if args.json:
        story: dict[str, Any] = {"story": env.event_log(0)}
        if args.against is not None:
            story |= {"against": args.against, "played_as": played_as(act)}
        print_json(asdict(made) | {"path": str(made.path), "sheet": str(args.sheet) if args.sheet else None} | story)
        return 0
    print(f"video of {made.seconds:.1f} s, drawn with {made.backend}: {made.path}")
    if args.sheet is not None:
        print(f"contact sheet: {args.sheet}")
    for line in env.event_log(0):
        print(line)
    if args.against is not None:
        sides = ", ".join(f"{name} in {n}" for name, n in played_as(act).items())
        print(f"{args.run} against {args.against}; episodes that it played as {sides}")
    return 0


def _refuse_unlike(args: Args) -> None:
    """Refuse options that do not fit together, or are out of range."""
    if args.seconds is not None:
        from rookery.sim.rendering.video import MOST_SECONDS

        positive("--seconds", args.seconds)
        if args.seconds > MOST_SECONDS:
            raise RookeryError(f"--seconds must be at most {MOST_SECONDS:g}, a day, got {args.seconds:g}.")
    if args.draft and args.size != Args(args.run).size:
        raise RookeryError("--draft has a size of its own: leave out --size, or --draft.")
    if args.worlds < 1:
        raise RookeryError(f"--worlds must be at least 1, got {args.worlds}.")
    if args.track:
        from rookery.experiments.tracked import refuse_untracked

        refuse_untracked(args.run)


def _meet(args: Args) -> tuple[Env, Act]:
    """The match with --against, in which the two change sides."""
    if args.beside is not None or args.controller != "policy":
        raise RookeryError("--against is a match of two: leave out --beside and --controller; RUN may be controller.")
    from rookery.experiments.match_env import CONTROLLER, find_player, open_match
    from rookery.experiments.runs import open_run
    from rookery.policies.multiagent.match import Alternating

    task = args.task
    if task is None:
        named = [name for name in (str(args.run), str(args.against)) if name != CONTROLLER]
        if not named:
            raise RookeryError("two controllers play in a task that --task names.")
        task = open_run(Path(named[0]))[1].task_id
    config = values(args.task_config, "--task-config")
    a, b = (find_player(name, task, config) for name in (str(args.run), str(args.against)))
    found = open_match(
        task, a, b, args.worlds, engine=args.engine, seed=args.seed, randomize=args.randomize,
        fixed=numbers(args.set, "--set"),
    )  # fmt: skip
    one, other = (Path(name).name for name in (str(args.run), str(args.against)))
    names = (one, other) if one != other else (f"A {one}", f"B {other}")
    return found.env, Alternating(found.env, found.a, found.b, found.team, names)


def played_as(act: Act) -> dict[str, int]:
    """Episodes of a match, by the team that its first player played."""
    from rookery.policies.multiagent.match import Alternating

    assert isinstance(act, Alternating)
    return dict(act.episodes)


def _open(args: Args, run: Path, num_envs: int) -> tuple[Env, Act]:
    from rookery.experiments.judging import shown
    from rookery.experiments.run_env import judging_of, open_env

    config = values(args.task_config, "--task-config")
    judged = judging_of(run, config, controller=args.controller, task=args.task)
    if judged.replaced:
        print(f"rookery: shown as trained, and not as registered: {shown(judged.replaced)}", file=sys.stderr)
    return open_env(
        run,
        num_envs,
        controller=args.controller,
        task=args.task,
        config=config,
        as_trained=True,
        engine=args.engine,
        seed=args.seed,
        randomize=args.randomize,
        fixed=numbers(args.set, "--set"),
    )


def _view(args: Args) -> int:
    """Show it live until Ctrl-C."""
    for name in (
        "out",
        "seconds",
        "camera",
        "size",
        "worlds",
        "beside",
        "slow",
        "sheet",
        "draft",
        "json",
        "against",
        "track",
    ):
        if getattr(args, name) != getattr(Args(args.run), name):
            raise RookeryError(f"--{name} is of videos: leave it out with --viewer.")
    with uncollected():
        from rookery.experiments.pilots import pilots, task_shows
        from rookery.kernels import announce_compiling

        server, _ = args.live.open()
        announce_compiling()
        env, act = _open(args, args.run, args.live.viewer_worlds)
        announce(args.run, args.controller)
        tasks = task_shows(args.live.viewer_worlds, args.seed)
        acting = pilots(args.run, args.controller, env, act)
    show(server, env, acting, args.seed, tasks=tasks)
    return 0
