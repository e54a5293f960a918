"""Commands of ours, each in a fork of a process that has imported what they import: most of a short command's time is that."""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path


def redirect(folder: str, log: str) -> None:
    """Work in a folder, with all output in a file."""
    os.chdir(folder)
    out = os.open(log, os.O_WRONLY | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)


def block(text: str, folder: str, log: str) -> None:
    """Run Python code as a program of its own would."""
    redirect(folder, log)
    exec(text, {"__name__": "__main__"})


def command(words: list[str], folder: str, log: str) -> None:
    """Run a command."""
    from rookery.cli.main import main

    redirect(folder, log)
    raise SystemExit(main(words))


def serve(asked: Connection) -> None:
    """Run commands one after the other, and answer each with its exit code."""
    context = multiprocessing.get_context("fork")
    # A training leaves OpenMP's threads behind, and what is forked from a process with them ends or hangs at its first loop
    # over worlds: a child trains, and only what it has imported is imported here.
    theirs, ours = context.Pipe()
    child = context.Process(target=train, args=(ours,))
    child.start()
    ours.close()
    for name in theirs.recv():
        with suppress(ImportError):  # Cython registers modules that no file holds
            import_module(name)
    child.join()
    while True:
        try:
            arguments = asked.recv()
        except EOFError:
            return
        process = context.Process(target=command, args=arguments)
        process.start()
        process.join()
        asked.send(process.exitcode)


def train(asked: Connection) -> None:
    """Import the commands and the largest part of what they use, by a short training, and answer with the modules' names."""
    from rookery.cli.main import COMMANDS, command_module, main

    for name in COMMANDS:
        command_module(name)
    quiet = io.StringIO()
    words = ["train", "drone-hover", "--steps", "1024", "--num-envs", "64"]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(quiet), redirect_stderr(quiet):
        assert main([*words, "--out", str(Path(folder) / "run")]) == 0
    asked.send(list(sys.modules))
