"""`rookery demos`: demonstrations: record, look at, replay, and convert from and to LeRobot's layout."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from rookery.cli.options import Engine, Json, Seed, TaskConfig, numbers, positive, print_json, values, writable
from rookery.sim.errors import RookeryError, unknown

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset

EXAMPLES = """
  rookery demos record drone-hover --episodes 100 --only-success --out demos
  rookery demos record runs/drone-hover/latest --episodes 100 --camera chase --out demos
  rookery demos info demos
  rookery demos replay demos
  rookery demos replay demos --episode 3 --video three.mp4
  rookery demos export demos --out lerobot
  rookery demos import lerobot --out again
  rookery demos import low_dim_v141.hdf5 --out lift
  rookery train drone-hover --algorithm bc --data demos
"""
RECORDING = (
    "num_envs",
    "controller",
    "task_config",
    "set",
    "randomize",
    "seed",
    "only_success",
    "camera",
    "size",
    "episodes",
)


@dataclass(frozen=True)
class Args:
    """Demonstrations: whole episodes with observations, actions and rewards, in a folder that can be replayed exactly.

    record makes them with a task's classical controller or a stored policy; info checks and describes a folder; replay
    feeds the recorded actions once more and compares every number; export writes the layout of LeRobot datasets (version
    3.0); import reads that, and the HDF5 files of robomimic, and says what it leaves out.
    """

    action: Annotated[
        tyro.conf.Positional[str | None],
        tyro.conf.arg(metavar="ACTION", help="record, info, replay, export or import."),
    ] = None
    what: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(
            metavar="WHAT",
            help="record: a task or run; import: a LeRobot dataset or an HDF5 file of robomimic; the others: a folder of "
            "demonstrations.",
        ),
    ] = None
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="DIR", help="Folder that record, export and import write; new or empty.")
    ] = None
    episodes: Annotated[int, tyro.conf.arg(metavar="N", help="Episodes to keep.")] = 16
    num_envs: Annotated[
        int | None, tyro.conf.arg(metavar="N", help="Worlds recorded together; as many as episodes, at most 64.")
    ] = None
    only_success: Annotated[bool, tyro.conf.arg(help="Keep only episodes that succeed.")] = False
    controller: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME", help="policy, or classical for the task's classical controller, which a task's name means."
        ),
    ] = None
    camera: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help="Record a video too: chase, fixed or a camera of the scene.")
    ] = None
    size: Annotated[tuple[int, int], tyro.conf.arg(metavar="W H", help="Width and height of videos, even.")] = (
        160,
        120,
    )
    engine: Engine = None
    set: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        tyro.conf.arg(metavar="NAME=VALUE", help="Physical parameter at one value, such as mass=1.2; may be repeated."),
    ] = ()
    randomize: Annotated[str, tyro.conf.arg(metavar="SPREAD", help="Spread of the physics: none or default.")] = "none"
    task_config: TaskConfig = ()
    seed: Seed = 0
    episode: Annotated[int | None, tyro.conf.arg(metavar="I", help="replay: this episode alone.")] = None
    video: Annotated[
        Path | None,
        tyro.conf.arg(
            metavar="FILE", help="replay: record a video of the episode, .mp4 or .gif, in place of comparing."
        ),
    ] = None
    text: Annotated[
        str | None, tyro.conf.arg(metavar="WORDS", help="export: the instruction; the task's summary if left out.")
    ] = None
    no_videos: Annotated[bool, tyro.conf.arg(help="import: leave the dataset's videos where they are.")] = False
    json: Json = False


def run(args: Args) -> int:
    """Do what is asked; replay gives 1 where something differs."""
    actions = {"record": _record, "info": _info, "replay": _replay, "export": _export, "import": _import}
    if args.action is None or args.what is None:
        raise RookeryError("`rookery demos` needs an action and what to act on: see `rookery demos --help`.")
    if args.action not in actions:
        raise unknown("action", args.action, actions)
    others = (*(RECORDING if args.action != "record" else ("episode", "video", "text")), "no_videos")
    for name in others if args.action != "import" else others[:-1]:
        if getattr(args, name) != getattr(Args(), name):
            raise RookeryError(
                f"--{name.replace('_', '-')} means nothing to `rookery demos {args.action}`: leave it out."
            )
    return actions[args.action](args, args.what)


def _record(args: Args, what: Path) -> int:
    from rookery.experiments.demonstrations import record

    positive("--episodes", args.episodes)
    out = _out(args)

    def progress(kept: int, attempts: int) -> None:
        if not args.json:
            print(f"{kept} of {args.episodes} episodes after {attempts} attempts", flush=True)

    made = record(
        what,
        out,
        args.episodes,
        num_envs=min(args.episodes, 64) if args.num_envs is None else args.num_envs,
        controller=args.controller,
        config=values(args.task_config, "--task-config"),
        engine=args.engine,
        seed=args.seed,
        randomize=args.randomize,
        fixed=numbers(args.set, "--set"),
        only_success=args.only_success,
        camera=args.camera,
        size=args.size,
        progress=progress,
    )
    if args.json:
        print_json({"folder": str(out), **asdict(made)})
        return 0
    rate = "" if made.successes is None else f", {made.successes} of {made.attempts} attempts succeeded"
    print(f"recorded {made.episodes} episodes, {made.frames} control steps{rate}: {out}")
    return 0


def _info(args: Args, what: Path) -> int:
    from rookery.policies.datasets.dataset import Dataset

    found = _described(Dataset(what))
    if args.json:
        print_json(found)
        return 0
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{found['task']}[/], {found['episodes']} episodes, {found['frames']} control steps, whole")
    table = Table(box=None, show_header=False, pad_edge=False)
    if found["success_rate"] is not None:
        table.add_row("success", f"{found['success_rate']:.1%}")
    table.add_row("return", f"{found['return_mean']:.4g}")
    table.add_row("control period", f"{found['control_dt']:g} s")
    plain = {k: v for k, v in found["recording"].items() if v is not None and not isinstance(v, (dict, list))}
    table.add_row("recorded by", ", ".join(f"{k} {v}" for k, v in plain.items()))
    if left := found["recording"].get("left_out"):
        table.add_row("left out", ", ".join(left))
    for name, column in found["columns"].items():
        table.add_row(
            name, f"{column['dtype']} [{column['rows']}, {', '.join(map(str, column['shape']))}] {column['unit']}"
        )
    console.print(table)
    return 0


def _described(data: Dataset) -> dict[str, Any]:
    success = [e.success for e in data.episodes if e.success is not None]
    returns = [sum(e.returns.values()) / len(e.returns) for e in data.episodes]
    return {
        "task": data.task_id,
        "episodes": len(data),
        "frames": data.frames,
        "control_dt": data.control_dt,
        "success_rate": sum(success) / len(success) if success else None,
        "return_mean": sum(returns) / len(returns),
        "cameras": data.cameras,
        "recording": data.recording,
        "columns": {name: column.to_json() for name, column in data.columns.items()},
    }


def _replay(args: Args, what: Path) -> int:
    from rookery.experiments.demonstrations import recorded_env
    from rookery.policies.datasets.dataset import Dataset
    from rookery.policies.datasets.replay import player, replay
    from rookery.sim.rendering.video import record_video

    if args.video is not None:
        writable(args.video, "--video")
    data = Dataset(what)
    env = recorded_env(data, args.engine)
    try:
        if args.video is not None:
            i = args.episode or 0
            act = player(env, data, i)
            facts = data.episodes[i]
            seconds = facts.length * data.control_dt
            made = record_video(env, act, args.video, seconds=seconds, world=facts.world, seed=facts.seed)
            print_json({"path": str(made.path), "seconds": seconds}) if args.json else print(f"recorded {made.path}")
            return 0
        results = replay(env, data, None if args.episode is None else [args.episode])
    finally:
        env.close()
    exact = sum(r.exact for r in results)
    reward_error = max(r.reward_error for r in results)
    if args.json:
        error = max(r.error for r in results)
        print_json({"episodes": len(results), "exact": exact, "error": error, "reward_error": reward_error})
    else:
        for r in results:
            if not r.exact:
                print(f"episode {r.episode} differs from control step {r.step} on, by up to {r.error:.3g}")
        print(
            f"{exact} of {len(results)} episodes are the same to the bit; rewards differ by at most {reward_error:.3g}"
        )
    return 0 if exact == len(results) else 1


def _export(args: Args, what: Path) -> int:
    from rookery.policies.datasets.dataset import Dataset
    from rookery.policies.datasets.lerobot import export_lerobot
    from rookery.tasks.registry import TASKS

    out = _out(args)
    data = Dataset(what)
    entry = TASKS.get(data.task_id)
    export_lerobot(data, out, args.text or (entry.summary if entry else None))
    _print_written(args, data, out)
    return 0


def _import(args: Args, what: Path) -> int:
    from rookery.policies.datasets.lerobot_import import import_lerobot
    from rookery.sim2real.build import describe_json

    out = _out(args)

    def progress(done: int, total: int) -> None:
        if not args.json and (done * 10 // total > (done - 1) * 10 // total):
            print(f"{done} of {total} episodes", flush=True)

    if what.is_file():
        from rookery.policies.datasets.robomimic_import import import_robomimic

        data = import_robomimic(what, out, describe_json, progress=progress)
    else:
        data = import_lerobot(what, out, describe_json, videos=not args.no_videos, progress=progress)
    _print_written(args, data, out)
    return 0


def _print_written(args: Args, data: Dataset, out: Path) -> None:
    left = data.recording.get("left_out", [])
    if args.json:
        print_json({"folder": str(out), "episodes": len(data), "frames": data.frames, "left_out": left})
        return
    print(f"wrote {len(data)} episodes, {data.frames} control steps: {out}")
    if left:
        print(f"left out: {', '.join(left)}")


def _out(args: Args) -> Path:
    if args.out is None:
        raise RookeryError(f"`rookery demos {args.action}` needs --out DIR, the folder to write.")
    return args.out
