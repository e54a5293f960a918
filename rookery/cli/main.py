"""Entry point of the `rookery` command.

A subcommand is a module of this package with `Args` (a dataclass that tyro reads; its docstring is the description),
`EXAMPLES` (shown below its --help) and `run(args) -> exit code`; `train` has `main(words)` instead. It is imported only when
it is used.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rookery.sim.errors import FixedError, RookeryError, unknown
from rookery.sim.trust import TRUSTED

COMMANDS = {
    "new": "write a project with a task or robot of your own",
    "list": "every task: agents, observation and action sizes, engines",
    "train": "learn a policy, with live progress; makes a run folder",
    "sweep": "train with many different settings, and rank them",
    "reproduce": "train a policy of the zoo again, by its recipe",
    "play": "make a video of a policy",
    "eval": "measure a policy over many episodes",
    "match": "let two policies or controllers play against each other, from both sides",
    "league": "train populations against each other, and judge them by best responses",
    "import": "make a run of an actor that rsl_rl, Stable-Baselines3 or skrl trained",
    "robot": "check a URDF or MJCF file of your own robot",
    "scene": "write a task's scene as an MJCF file for plain MuJoCo",
    "demos": "demonstrations: record, replay, convert from and to LeRobot's layout",
    "replay": "demonstrations, runs and rallies on a timeline in the browser",
    "gate": "transfer gate: sweeps, other engines, worst combinations; a verdict before hardware",
    "export": "write the bundle for hardware, or check one",
    "fly": "fly a bundle on a real or simulated vehicle, behind a safety filter",
    "sysid": "identify physical parameters of a robot from its log, with intervals",
    "vehicle": "serve a simulated robot over the protocol of a real one",
    "bench": "speed of an environment against its engine's own limit",
    "doctor": "engines, GPU, video, compilers; how to install what is missing",
}
TRUST = "--trust-task"
HELP = """[bold]rookery[/]: where robots are raised in simulation and released to hardware

[bold]Usage[/]  rookery COMMAND [OPTIONS]      rookery COMMAND --help      rookery --version
       --trust-task, with any command: a stored policy, run or dataset may run the file of its task

[bold]Commands[/]
{commands}

[bold]From nothing to a bundle for hardware[/]
  rookery list
  rookery train drone-hover
  rookery play runs/drone-hover/latest --out hover.mp4
  rookery eval runs/drone-hover/latest --engine pybullet
  rookery gate runs/drone-hover/latest
  rookery export runs/drone-hover/latest --out bundle
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: words after `rookery`; those of the process by default.

    Returns:
        The exit code: 0; 2 for what the user can put right; 130 for Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with ending_in_order():
        return guarded(lambda: _run(words))


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end a command as Ctrl-C does: what it has begun to write is removed, and its processes end.
    Exit code 143 and 129, as shells have it. Those that are ignored, as under nohup, stay so."""

    codes: list[int] = []

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # `timeout` sends it to the process and to its group
        codes.append(128 + number)
        raise SystemExit(codes[0])

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    except SystemExit as ended:
        if codes and ended.code != codes[0]:  # Ray raises another one in its place
            raise SystemExit(codes[0]) from ended
        raise
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def guarded(work: Callable[[], int | None]) -> int:
    """Run `work` and print its errors as one sentence; returns the exit code."""
    try:
        with _ends_told():
            code = work()
        sys.stdout.flush()
        return code or 0
    except RookeryError as error:
        option = "--set " if isinstance(error, FixedError) else ""
        print(f"rookery: {option}{error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("rookery: interrupted.", file=sys.stderr)
        return 130
    except (MemoryError, RuntimeError) as error:
        # NumPy raises a MemoryError, PyTorch's allocator a RuntimeError.
        if str(error).startswith("Symlink loop"):  # pathlib before Python 3.13
            path = str(error).partition(" from ")[2].strip("'")
            print(f"rookery: {path} is a link that ends nowhere.", file=sys.stderr)
            return 2
        if not isinstance(error, MemoryError) and "can't allocate memory" not in str(error):
            raise
        print("rookery: not enough memory: give a smaller --num-envs, or fewer agents or pixels.", file=sys.stderr)
        return 2
    except BrokenPipeError as error:
        if not _unread(sys.stdout.fileno()):
            print(
                f"rookery: a program that this command works with has ended before its time ({error}): run it again, and if "
                "that does not help, report it.",
                file=sys.stderr,
            )
            return 2
        # The reader (head, less) went away: nothing more is to be written, not even by the interpreter at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None or error.strerror is None:
            raise
        shown = str(error.filename2 or error.filename)
        print(
            f"rookery: {shown:.300} cannot be used ({error.strerror}): give another path, or mend that one.",
            file=sys.stderr,
        )
        return 2


@contextlib.contextmanager
def _ends_told() -> Iterator[None]:
    """Ctrl-C and signals to end stay what they are where a compiled module that is being imported fails by them, with an error
    of its own: ``ImportError: initialization failed``."""
    try:
        yield
    except (ImportError, SystemError) as error:
        cause = error.__cause__ or error.__context__
        while cause is not None:
            if isinstance(cause, (KeyboardInterrupt, SystemExit)):
                raise cause from None
            cause = cause.__cause__ or cause.__context__
        raise


def _unread(descriptor: int) -> bool:
    """True where a descriptor is of a pipe or connection that nobody reads any more."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def command_module(name: str) -> Any:
    """The module of a subcommand."""
    module = {"import": "import_policy"}.get(name, name)  # Python has taken the word
    return importlib.import_module(f"rookery.cli.{module}")


def _run(words: list[str]) -> int:
    if TRUST in words:
        words = [word for word in words if word != TRUST]
        os.environ[TRUSTED] = "*"  # for this command and the processes that it starts
    if not words or words[0] in ("-h", "--help", "help"):
        from rich.console import Console

        commands = "\n".join(f"  [cyan]{name:9}[/] {summary}" for name, summary in COMMANDS.items())
        Console(highlight=False, soft_wrap=True).print(HELP.format(commands=commands), end="")
        return 0
    if words[0] in ("-V", "--version"):
        from rookery.version import __version__

        print(f"rookery {__version__}")
        return 0
    if words[0] not in COMMANDS:
        if words[0].startswith("-"):
            raise unknown("option", words[0], ("--help", "--version"))
        raise unknown("command", words[0], COMMANDS)
    command = command_module(words[0])
    if words[0] == "train":  # its options depend on the task and the algorithm
        return int(command.main(words[1:]))
    from rookery.cli.options import parse

    args = parse(command.Args, words[1:], words[0], command.EXAMPLES)
    return 0 if args is None else int(command.run(args) or 0)
