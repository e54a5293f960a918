"""Every command and every Python block of the guides works, page by page, in the order of the page."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import command_server
import pytest
from forks import FORKS
from sampled import slow_but

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# a command of ours with nothing that a shell would have to understand, or lines between such commands
PIECE = re.compile(r"^rookery (?P<words>[^|&;<>$`\\\n]*)\n|(?P<shell>(?:(?!rookery ).*\n)+|.*\n)", re.MULTILINE)
# Every block and every command is a process of its own; commands are forked from one that has imported what is ours, too.


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of a page's fenced blocks. Blocks of `console` only show: the long commands of the README."""
    return BLOCK.findall(page.read_text())


def pieces(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of what a page asks for, in its order; a command of ours has the language `rookery`."""
    for language, text in blocks(page):
        assert language in ("bash", "python", "console", "toml", "json"), (
            f"a block in {page.name} has language {language!r}"
        )
        if language == "json":
            json.loads(text)
        if language == "python":
            yield language, text
        for piece in PIECE.finditer(text) if language == "bash" else ():
            yield ("bash", piece["shell"]) if piece["shell"] else ("rookery", piece["words"])


def run_python(text: str, folder: Path, log: Path) -> int | None:
    """Exit code of Python code in a process of its own, started in a folder."""
    process = FORKS.Process(target=command_server.block, args=(text, str(folder), str(log)))
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture(scope="module")
def run_rookery() -> Iterator[Callable[[str, Path, Path], int]]:
    """The same of a command of ours."""
    ours, theirs = FORKS.Pipe()
    server = FORKS.Process(target=command_server.serve, args=(theirs,))
    server.start()
    theirs.close()

    def run(words: str, folder: Path, log: Path) -> int:
        ours.send((shlex.split(words, comments=True), str(folder), str(log)))
        return ours.recv()

    yield run
    ours.close()
    server.join()


def run_bash(text: str, folder: Path, log: Path) -> int:
    """The same of bash."""
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with log.open("w") as out:
        words = ["bash", "-euo", "pipefail", "-c", text]
        return subprocess.run(words, cwd=folder, env=env, stdout=out, stderr=out, check=False).returncode


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: p.stem)
def test_page_works(page, tmp_path, run_rookery):
    folder = tmp_path / "here"
    log = tmp_path / "log"
    folder.mkdir()
    for language, text in pieces(page):
        log.write_text("")
        code = {"bash": run_bash, "python": run_python, "rookery": run_rookery}[language](text, folder, log)
        assert code == 0, f"{page.name}:\n{text}\n{log.read_text()}"


@pytest.mark.parametrize("pages", slow_but(["README"], ["README", "all"]))
def test_shown_commands_exist(pages):
    """The commands that pages only show are at least commands, with options that they have."""
    from rookery.cli.main import COMMANDS, command_module
    from rookery.cli.options import option_names
    from rookery.cli.train_options import read

    read_pages = [p for p in PAGES if pages in ("all", p.stem)]
    shown = [line for p in read_pages for kind, text in blocks(p) if kind == "console" for line in text.splitlines()]
    shown = [line.removeprefix("$ ").split("#")[0].split() for line in shown if re.match(r"(\$ )?rookery ", line)]
    assert len(shown) >= 5
    for _, command, *words in shown:
        assert command in COMMANDS
        given = {w for w in words if w.startswith("--")}
        if command == "train":  # its options are those of the task's preset and the algorithm
            assert read(words, "") is not None
            continue
        assert given <= set(option_names(command_module(command).Args))


def test_links_lead_somewhere():
    """Relative links of all pages; pictures may come with a release."""
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for picture, target in re.findall(r"(!?)\[[^\]]*\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http") and not picture:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
