"""`rookery doctor`: engines, GPU, video and compilers of this machine, and how to install what is missing."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from rookery.cli.options import Json, print_json
from rookery.sim.cores import usable_cores
from rookery.sim.errors import RookeryError

EXAMPLES = """
  rookery doctor
  rookery doctor --compile
  rookery doctor --json | jq '.[] | select(.status != "ok")'
"""


@dataclass(frozen=True)
class Args:
    """Engines, PyTorch and GPU, OpenGL, video and compilers of this machine, and how to install what is missing."""

    compile: Annotated[
        bool,
        tyro.conf.arg(
            help="Compile the kernels of all tasks now and do nothing else, so that no command waits for them."
        ),
    ] = False
    json: Json = False


@dataclass(frozen=True)
class Finding:
    """One thing looked at.

    Args:
        name: what it is.
        purpose: what needs it.
        status: "ok"; "missing", where something of Rookery's will not work; "optional", where something else steps in.
        detail: version or what was found.
        remedy: how to get it, "" when ok.
    """

    name: str
    purpose: str
    status: str
    detail: str
    remedy: str = ""


def run(args: Args) -> int:
    """Look at everything, or compile; the exit code is 0 whatever is found."""
    if args.compile:
        from rookery.kernels import compile_all

        count = compile_all(lambda line: print(line, file=sys.stderr if args.json else sys.stdout, flush=True))
        if args.json:
            print_json({"compiled": count})
        return 0
    findings = examine()
    if args.json:
        print_json([asdict(f) for f in findings])
        return 0
    from rich.console import Console
    from rich.table import Table

    marks = {"ok": "[green]ok[/]", "missing": "[bold red]missing[/]", "optional": "[yellow]optional[/]"}
    table = Table("", "", "for", "found", box=None, pad_edge=False)
    for f in findings:
        table.add_row(marks[f.status], f.name, f.purpose, f.detail)
    console = Console(highlight=False)
    console.print(table)
    for f in findings:
        if f.remedy:
            console.print(f"[cyan]{f.name}[/]: {f.remedy}")
    return 0


def examine() -> list[Finding]:
    """All findings, in the order in which they are shown. Never raises: a broken part is a finding."""
    looks: tuple[Callable[[], Finding], ...] = (
        _python,
        _torch,
        _gpu,
        lambda: _module("mujoco", "the engine that trains"),
        _pybullet,
        lambda: _module("numba", "robots' fast inner loops"),
        _opengl,
        _ffmpeg,
        lambda: _module("onnxruntime", "`rookery export --check`"),
        _compiler,
        _cortex_m,
    )
    return [look() for look in looks]


def _python() -> Finding:
    detail = f"{platform.python_version()}, {usable_cores()} of {os.cpu_count()} cores"
    return Finding("python", "everything", "ok", detail)


def _module(name: str, purpose: str) -> Finding:
    try:
        importlib.import_module(name)
    except Exception as e:  # a package can break in any way while it is imported
        remedy = f"`pip install --force-reinstall {name}` (error: {type(e).__name__}: {e})."
        return Finding(name, purpose, "missing", "does not import", remedy)
    return Finding(name, purpose, "ok", importlib.metadata.version(name))


def _torch() -> Finding:
    found = _module("torch", "learning")
    if found.status != "ok":
        return found
    import torch

    return Finding("torch", found.purpose, "ok", f"{found.detail}, {torch.get_num_threads()} threads")


def _gpu() -> Finding:
    try:
        import torch

        if torch.cuda.is_available():
            return Finding(
                "gpu", "training on thousands of worlds", "ok", f"{torch.cuda.get_device_name(0)}, --device cuda"
            )
    except Exception as e:
        return Finding("gpu", "training on thousands of worlds", "optional", f"cannot be asked ({type(e).__name__})")
    return Finding("gpu", "training on thousands of worlds", "optional", "none; everything runs on the CPU")


def _pybullet() -> Finding:
    from rookery.sim.engines.pybullet import client as pybullet_client

    try:
        pybullet_client.load()  # imports it without its greeting, which would spoil --json
    except RookeryError as e:
        return Finding("pybullet", "sim-to-sim checks", "missing", "does not import", str(e))
    return _module("pybullet", "sim-to-sim checks")


def _opengl() -> Finding:
    from rookery.sim.rendering import opengl

    backend = opengl.probe()
    if backend is not None:
        return Finding("opengl", "videos", "ok", f"{backend.name} on {backend.device}")
    return Finding("opengl", "videos", "optional", "none works", opengl.describe())


def _ffmpeg() -> Finding:
    try:
        import imageio_ffmpeg

        return Finding("ffmpeg", "MP4 and GIF", "ok", imageio_ffmpeg.get_ffmpeg_version())
    except Exception as e:
        remedy = f"`pip install --force-reinstall imageio-ffmpeg` (error: {e})."
        return Finding("ffmpeg", "MP4 and GIF", "missing", "not found", remedy)


def _compiler() -> Finding:
    from rookery.sim2real.export.native import find_compiler

    what = "c compiler"
    need = "`rookery export --check`"
    try:
        command = find_compiler()
    except RookeryError:
        return Finding(what, need, "missing", "none", "`apt-get install gcc libc6-dev`, or `pip install ziglang`.")
    return Finding(what, need, "ok", _first_line(*command, "--version") or " ".join(command))


def _cortex_m() -> Finding:
    compiler = shutil.which("arm-none-eabi-gcc")
    emulator = shutil.which("qemu-system-arm")
    if compiler and emulator:
        version = _first_line("arm-none-eabi-gcc", "--version") or "found"
        return Finding("cortex-m", "exported C on an emulated autopilot", "ok", version)
    remedy = "`apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm`."
    absent = " and ".join(n for n, p in (("arm-none-eabi-gcc", compiler), ("qemu-system-arm", emulator)) if not p)
    return Finding("cortex-m", "exported C on an emulated autopilot", "optional", f"no {absent}", remedy)


def _first_line(*command: str) -> str | None:
    """First line of a program's output; None where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.splitlines() or ["found"])[0] if done.returncode == 0 else None
