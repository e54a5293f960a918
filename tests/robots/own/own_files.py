"""Robots' files for tests: those of `rookery new robot`."""

from __future__ import annotations

import string
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "rookery" / "templates" / "robot"


def write_robot(folder: Path, template: str, settings: bool = True, change: tuple[str, str] | None = None) -> Path:
    """The URDF of a template, called my_robot, with one text changed."""
    out = folder / "my_robot.urdf"
    for kind in ("urdf", "toml") if settings else ("urdf",):
        text = string.Template((TEMPLATES / f"{template}.{kind}.in").read_text()).substitute(module="my_robot")
        if change is not None and kind == "urdf":
            assert change[0] in text
            text = text.replace(*change)
        out.with_suffix(f".{kind}").write_text(text)
    return out
