"""MkDocs hooks: the front page from README.md, a page for every task, and the API reference from docstrings.

Nothing that they make lies in the repository: pages are virtual files of the build, so they cannot be out of date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINKS = ROOT / ".site_links" / "rookery"


def _lay_links() -> None:
    """Show the packages under their installed names: mkdocstrings does not read setuptools' package-dir."""
    LINKS.mkdir(parents=True, exist_ok=True)
    for link in LINKS.iterdir():
        link.unlink()
    for source in (ROOT / "rookery").iterdir():
        (LINKS / source.name).symlink_to(source)
    for package in ("assets", "sim", "robots", "tasks", "policies", "sim2real"):
        (LINKS / package).symlink_to(ROOT / package)


_lay_links()  # now: mkdocstrings looks for the folder before any hook is called


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    sys.path.insert(0, str(Path(__file__).parent))  # MkDocs puts sys.path back after loading hooks
    import reference
    import task_pages

    pages = {"index.md": _front_page(), **task_pages.pages(), **reference.pages(LINKS)}
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def _front_page() -> str:
    """README.md, with its links as seen from docs/."""
    text = (ROOT / "README.md").read_text()
    text = text.replace("](docs/", "](").replace('src="docs/', 'src="')
    # files outside docs/ are not part of the site
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#|[\w/]+\.(?:md|png|jpg|mp4|gif|webp)\))[^)]*\)", r"\1", re.sub(
        r"\[([^\]]+)\]\((?:CONTRIBUTING\.md|LICENSE|CHANGELOG\.md|benchmarks/[^)]*)\)", r"\1", text
    ))  # fmt: skip


def on_post_build(config: Any) -> None:
    """End the build where a link or an anchor leads nowhere."""
    from links import dead_links

    dead = dead_links(Path(config["site_dir"]).resolve())
    if dead:
        raise PluginError("dead links: " + "; ".join(dead[:10]))
