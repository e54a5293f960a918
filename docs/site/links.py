"""A check that every link and anchor within the built site lives."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse


class _Page(HTMLParser):
    """Anchors and links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if not value:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def dead_links(site: Path) -> list[str]:
    """Links of pages to files or anchors of the site that do not exist, each as 'page: link'.

    Args:
        site: folder of the built site.
    """
    pages = {path: _Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in sorted(pages.items()):
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            lost_anchor = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors
            if not target.exists() or lost_anchor:
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead
