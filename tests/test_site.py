"""The built site: a dead link ends its build, and its tables fit into a window of 1,400 px."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).parents[1]

_TOO_WIDE = """
return [...document.querySelectorAll('.md-typeset table')].filter(
    t => t.getBoundingClientRect().right > t.closest('.md-content__inner').getBoundingClientRect().right + 1
).map(t => t.innerText.slice(0, 60));
"""


def _dead_links(site: Path) -> list[str]:
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "docs/site/links.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dead_links(site)


def test_dead_links_are_found(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/index.html").write_text('<h2 id="here">here</h2>')
    (tmp_path / "index.html").write_text(
        '<a href="other/">1</a><a href="other/#here">2</a><a href="#top" id="top">3</a><a href="https://example.org/x">4</a>'
        '<a href="other/#gone">5</a><a href="gone.md">6</a><img src="gone.png"><a href="#gone">7</a>'
    )
    assert _dead_links(tmp_path) == [
        "index.html: other/#gone", "index.html: gone.md", "index.html: gone.png", "index.html: #gone",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="Debian's chromium and chromium-driver are not installed",
)
def test_tables_fit_into_a_window_of_1400_pixels(tmp_path):
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1400,1000",
        f"--user-data-dir={tmp_path}/b",
    ):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        wide = {}
        for page in sorted(site.rglob("index.html")):
            browser.get(page.as_uri())
            tables = browser.execute_script(_TOO_WIDE)
            if tables:
                wide[str(page.relative_to(site))] = tables
    finally:
        browser.quit()
    assert not wide
