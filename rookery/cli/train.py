"""`rookery train`: learn a policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rookery.cli.options import print_json

EXAMPLES = """
  rookery train drone-hover
  rookery train drone-hover --randomize default --seed 3 --out runs/robust
  rookery train drone-hover --steps 5e6 --learning-rate 5e-4 --hidden 128 128
  rookery train drone-hover --task-config num_drones=3 --task-config reward.ang_vel=-0.01
  rookery train volley-solo-bump --algorithm dagger --steps 2e6 --out runs/script
  rookery train go2-velocity --algorithm dagger --teacher go2-velocity --task-config history=5 --out runs/student
  rookery train drone-hover --algorithm bc --data demos --out runs/clone
  rookery train --config runs/robust/settings.toml --seed 4
  rookery train --resume runs/drone-hover/latest
"""


def main(words: Sequence[str]) -> int:
    """Train as the words after ``rookery train`` say; 130 after Ctrl-C."""
    from rookery.cli.train_options import read

    parsed = read(words, EXAMPLES)
    if parsed is None:
        return 0
    from rookery.training import resume, start

    command = parsed.command
    if command.resume is not None:
        training = resume(command.resume, parsed.changes, command.task)
    else:
        training = start(parsed.settings, command.out)
    result = training.run()
    if command.json:
        print_json(result)
    elif not result["interrupted"]:
        _print_next_steps(training.folder, result)
    return 130 if result["interrupted"] else 0


def _print_next_steps(folder: Path, result: dict[str, object]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    success = result["success"]
    reached = f", success {success:.1%} with exploration" if isinstance(success, float) else ""
    console.print(
        f"[green]trained[/] {result['steps']:,} steps in {result['seconds']:.0f} s{reached}: [bold]{folder}[/]"
    )
    console.print(f"  rookery play {folder} --out video.mp4")
    console.print(f"  rookery eval {folder} --episodes 256 --engine pybullet")
    console.print(f"  rookery export {folder} --out bundle")
