"""`rookery replay`: recorded episodes on a timeline in the browser, or as a page of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from rookery.cli.options import Engine, writable
from rookery.cli.viewing import PageOptions
from rookery.sim.errors import RookeryError

if TYPE_CHECKING:
    from rookery.policies.datasets.dataset import Dataset
    from rookery.sim.env import Env
    from rookery.sim.viewing.replay import Recording

EXAMPLES = """
  rookery replay demos
  rookery replay demos --episode 3 --html three.html
"""


@dataclass(frozen=True)
class Args:
    """Recorded episodes in the browser, on a timeline: play, stand still, wind back and forth, choose another one.

    Their actions are fed once more, which gives the same states to the bit. With --html an episode becomes one page that plays
    without Python.
    """

    what: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DEMOS", help="Folder of demonstrations.")]
    episode: Annotated[int, tyro.conf.arg(metavar="I", help="The episode that is shown first.")] = 0
    html: Annotated[
        Path | None, tyro.conf.arg(metavar="FILE", help="Write that episode as one page, .html, and end.")
    ] = None
    engine: Engine = None
    live: PageOptions = field(default_factory=PageOptions)


def run(args: Args) -> int:
    """Show the episodes until Ctrl-C, or write the page."""
    from rookery.demonstrations import recorded_env
    from rookery.policies.datasets.dataset import Dataset
    from rookery.sim.viewing.replay import Timeline
    from rookery.sim.viewing.server import close_server, open_server

    if args.html is not None:
        writable(args.html, "--html")
    else:
        args.live.check()
    data = Dataset(args.what)
    if not 0 <= args.episode < len(data):
        raise RookeryError(f"there is no episode {args.episode}: {args.what} has 0 to {len(data) - 1}.")
    server, _ = open_server(port=0) if args.html is not None else args.live.open()
    env = recorded_env(data, args.engine)
    try:
        order = [args.episode, *(i for i in range(len(data)) if i != args.episode)]
        episodes = {_name(data, i): _maker(env, data, i) for i in order}
        timeline = Timeline(server, env, data.episodes[args.episode].world, episodes, f"replay of {data.task_id}")
        if args.html is not None:
            args.html.write_text(timeline.page())
            print(f"wrote {args.html}, {args.html.stat().st_size / 1e6:.1f} MB")
            return 0
        with contextlib.suppress(KeyboardInterrupt):
            timeline.run()
    finally:
        close_server(server)
        env.close()
    return 0


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
