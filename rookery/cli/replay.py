"""`rookery replay`: recorded episodes, or a run's policies, on a timeline in the browser, or as a page of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import Controller, Engine, TaskConfig, values, writable
from rookery.cli.viewing import PageOptions
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from viser import ViserServer

    from rookery.policies.datasets.dataset import Dataset
    from rookery.sim.env import Act, Env
    from rookery.sim.viewing.replay import Recording

EXAMPLES = """
  rookery replay demos
  rookery replay demos --episode 3 --html three.html
  rookery replay runs/drone-hover/latest
  rookery replay flight.mcap --html flight.html
  rookery replay volley-1v1 --controller classical
"""

SEEDS = 3
"""Episodes of each policy of a run that the page offers."""


@dataclass(frozen=True)
class Args:
    """Episodes in the browser, on a timeline: play, stand still, wind back and forth, choose another one.

    Of demonstrations, the recorded actions are fed once more, which gives the same states to the bit. Of a run, its policy and
    those of its checkpoints act, beside the curves of its log; rallies are told line by line. Of a flight
    log of `rookery fly`, each vehicle is where its measurements and estimates say. With --html an episode becomes one page that
    plays without Python.
    """

    what: Annotated[
        tyro.conf.Positional[Path],
        tyro.conf.arg(
            metavar="WHAT",
            help="Folder of demonstrations, run folder, flight log, or zoo policy; a task with --controller classical.",
        ),
    ]
    episode: Annotated[
        int,
        tyro.conf.arg(
            metavar="I", help="The episode that is shown first; of a run its seed, of a flight log the vehicle."
        ),
    ] = 0
    html: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="Write that episode as one page, .html, and end.")
    ] = None
    engine: Engine = None
    controller: Controller = "policy"
    task_config: TaskConfig = ()
    live: PageOptions = field(default_factory=PageOptions)


def run(args: Args) -> int:
    """Show the episodes until Ctrl-C, or write the page."""
    from rookery.policies.datasets.schema import META
    from rookery.sim.viewing.server import close_server, open_server

    if args.html is not None:
        writable(args.html, "--html")
    else:
        args.live.check()
    if args.what.suffix.lower() == ".mcap":
        opened = _flight(args)
    else:
        opened = _demonstrations(args) if (args.what / META).is_file() else _run(args)
    try:
        server, _ = open_server(port=0) if args.html is not None else args.live.open()
        try:
            return _show(args, server, opened)
        finally:
            close_server(server)
    finally:
        opened.env.close()


@dataclass(frozen=True)
class _Opened:
    """An environment, the world of it that is shown, what makes each episode, and a training's log where there is one."""

    env: Env
    world: int
    episodes: Mapping[str, Callable[[], Recording]]
    log: Path | None = None


def _show(args: Args, server: ViserServer, opened: _Opened) -> int:
    from rookery.sim.viewing.curves import Curves, read_log
    from rookery.sim.viewing.replay import Timeline

    timeline = Timeline(server, opened.env, opened.world, opened.episodes, f"replay of {opened.env.task_id}")
    if args.html is not None:
        args.html.write_text(timeline.page())
        print(f"wrote {args.html}, {args.html.stat().st_size / 1e6:.1f} MB")
        return 0
    if opened.log is not None:
        Curves(server, read_log(opened.log))
    with contextlib.suppress(KeyboardInterrupt):
        timeline.run()
    return 0


def _demonstrations(args: Args) -> _Opened:
    from rookery.experiments.demonstrations import recorded_env
    from rookery.policies.datasets.dataset import Dataset

    if args.controller != "policy" or args.task_config:
        raise RookeryError("--controller and --task-config are of runs: demonstrations replay what was recorded.")
    data = Dataset(args.what)
    if not 0 <= args.episode < len(data):
        raise RookeryError(f"there is no episode {args.episode}: {args.what} has 0 to {len(data) - 1}.")
    env = recorded_env(data, args.engine)
    order = [args.episode, *(i for i in range(len(data)) if i != args.episode)]
    return _Opened(env, data.episodes[args.episode].world, {_name(data, i): _maker(env, data, i) for i in order})


def _flight(args: Args) -> _Opened:
    import rookery
    from rookery.sim2real.contract import Contract
    from rookery.sim2real.runtime.flown import read_flight
    from rookery.sim2real.runtime.shown import EstimatedScene, flight_recording
    from rookery.sim2real.vehicles.dry_run import world_of

    if args.controller != "policy" or args.task_config or args.engine is not None:
        raise RookeryError(
            "--controller, --engine and --task-config are of runs: a flight log shows what was measured."
        )
    try:
        flown = read_flight(args.what)
    except ImportError:
        raise RookeryError("flight logs need mcap: pip install 'rookery[fly]'.") from None
    if flown is None or not flown.vehicles:
        raise RookeryError(f"{args.what} has no steps of a flight: give a log of `rookery fly --log`.")
    if args.episode not in flown.vehicles:
        known = ", ".join(map(str, flown.vehicles))
        raise RookeryError(f"there is no vehicle {args.episode} in {args.what}: --episode is one of {known}.")
    contract = Contract.from_json(flown.contract)
    steps = flown.vehicles
    width = next((len(step["command"]) for step in steps[args.episode] if "command" in step), 0)
    groups = list(contract.groups.values())
    group = next((g for g in groups if len(g.spec.action.names) == width), groups[0])
    task, config = world_of(contract, group)
    env = rookery.make(task, num_envs=1, config=config)
    env.reset(0)
    joints = () if group.actuation is None else tuple(joint.name for joint in group.actuation.joints)
    order = [args.episode, *(i for i in steps if i != args.episode)]

    def maker(i: int) -> Callable[[], Recording]:
        return lambda: flight_recording(steps[i], EstimatedScene(env.visual_model(0), joints))

    return _Opened(env, 0, {f"vehicle {i}": maker(i) for i in order})


def _run(args: Args) -> _Opened:
    from rookery.experiments.pilots import pilots
    from rookery.experiments.run_env import open_env
    from rookery.kernels import announce_compiling

    if args.episode < 0:
        raise RookeryError(f"--episode must be a seed, 0 or more, got {args.episode}.")
    announce_compiling()
    config = values(args.task_config, "--task-config")
    env, act = open_env(args.what, 1, controller=args.controller, config=config, engine=args.engine, as_trained=True)
    acting = pilots(args.what, args.controller, env, act)
    seeds = range(args.episode, args.episode + SEEDS)
    episodes = {f"{name}, seed {seed}": _player(env, pilot, seed) for name, pilot in acting.items() for seed in seeds}
    log = args.what / "progress.csv"
    return _Opened(env, 0, episodes, log if log.is_file() else None)


def _player(env: Env, pilot: Callable[[], Act], seed: int) -> Callable[[], Recording]:
    from rookery.sim.viewing.replay import record

    fresh = env.state_dict()  # event logs are empty

    def make() -> Recording:
        env.load_state_dict(fresh)
        return record(env, pilot(), 0, seed)

    return make


def _name(data: Dataset, i: int) -> str:
    success = {None: "", True: ", success", False: ", no success"}[data.episodes[i].success]
    return f"{i}: {data.episodes[i].length * data.control_dt:.1f} s{success}"


def _maker(env: Env, data: Dataset, i: int) -> Callable[[], Recording]:
    from rookery.policies.datasets.replay import player
    from rookery.sim.viewing.replay import record

    fresh = env.state_dict()
    facts = data.episodes[i]

    def make() -> Recording:
        env.load_state_dict(fresh)
        return record(env, player(env, data, i), facts.world, facts.seed, facts.length)

    return make
