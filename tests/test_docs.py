"""Every command and every Python block of the guides works, page by page, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of a page's fenced blocks. Blocks of `console` only show: the long commands of the README."""
    return BLOCK.findall(page.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_page_works(page, tmp_path):
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for language, text in blocks(page):
        assert language in ("bash", "python", "console"), f"a block in {page.name} has language {language!r}"
        command = {"bash": ["bash", "-euo", "pipefail", "-c", text], "python": [sys.executable, "-c", text]}
        if language == "console":
            continue
        done = subprocess.run(command[language], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}\n{done.stderr}"


def test_shown_commands_exist():
    """The commands that the README only shows are at least commands, with options that they have."""
    from importlib import import_module

    from rookery.cli.main import COMMANDS
    from rookery.cli.options import option_names

    shown = [line for p in PAGES for kind, text in blocks(p) if kind == "console" for line in text.splitlines()]
    shown = [line.split("#")[0].split()[1:] for line in shown if line.startswith("$ rookery")]
    assert len(shown) >= 5
    for _, command, *words in shown:
        assert command in COMMANDS
        known = option_names(import_module(f"rookery.cli.{command}").Args)
        assert {w for w in words if w.startswith("--")} <= set(known)


def test_links_lead_somewhere():
    """Relative links of all pages; pictures may come with a release."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for picture, target in re.findall(r"(!?)\[[^\]]*\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http") and not picture:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
