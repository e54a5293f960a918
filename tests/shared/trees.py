"""Syntax trees of our own files, parsed once for all tests of a process."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def modules(room: str) -> list[Path]:
    """Its files; environments that peers were installed in are not ours."""
    return sorted(f for f in (ROOT / room).rglob("*.py") if not any(p.startswith(".venv") for p in f.parts))


@functools.cache
def tree(file: Path) -> ast.Module:
    """Of a file; not to be changed."""
    return ast.parse(file.read_text())


@functools.cache
def walked(root: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree."""
    return tuple(ast.walk(root))


def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All of its tree."""
    return walked(tree(file))
