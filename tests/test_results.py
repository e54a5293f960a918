"""The tables that users read are what benchmarks/tables.py writes from the recorded JSON."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
from types import ModuleType

import pytest

from tests.test_docs import ROOT

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def load_tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return load_tables()


def test_committed_tables_are_the_generated_ones(tables: ModuleType) -> None:
    for page in tables.PAGES:
        text = page.read_text()
        assert text == tables.rewritten(text), f"{page.name} is stale: run `python benchmarks/tables.py`"
        assert tables.BLOCK.search(text), f"{page.name} has no table"
        assert text.count("<!-- results:") == 2 * len(tables.BLOCK.findall(text)), "a marker without its partner"


def test_a_changed_figure_changes_the_table(tables: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    load = tables.load
    page = tables.PAGES[0].read_text()

    def changed(name: str) -> dict:
        data = load(name)
        for row in data["rows"]:
            row.update({k: v + 1 for k, v in row.items() if k in ("success", "nominal") and v})
        return data

    monkeypatch.setattr(tables, "load", changed)
    assert tables.rewritten(page) != page


def test_every_result_is_shown(tables: ModuleType) -> None:
    shown = {m["name"] for page in tables.PAGES for m in tables.BLOCK.finditer(page.read_text())}
    tabular = {f.stem for f in RESULTS if "columns" in json.loads(f.read_text())}
    assert tabular <= shown


@pytest.mark.parametrize("file", RESULTS, ids=lambda f: f.stem)
def test_results_have_their_source(file) -> None:
    data = json.loads(file.read_text())
    if "columns" not in data:
        pytest.skip("written by a benchmark with a form of its own")
    assert data["name"] == file.stem
    for key in ("command", "commit", "machine", "date"):
        assert data[key], key
    keys = [c["key"] for c in data["columns"]]
    assert len(set(keys)) == len(keys) and data["rows"]
    for row in data["rows"]:
        assert set(keys) <= set(row)
        assert all(v is None or isinstance(v, (str, int, float)) for k, v in row.items() if k in keys)


def test_the_page_counts_the_results_with_a_clean_commit() -> None:
    """A clean one: every commit that the file names is in this repository's history, and none is with changes."""

    def git(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs a checkout with all of its history")
    past = set(git("log", "--format=%H").stdout.split())
    known = {full[:7] for full in past}
    clean = 0
    for file in RESULTS:
        data = json.loads(file.read_text())
        named = " ".join([data["commit"], *(str(r["commit"]) for r in data["rows"] if "commit" in r)])
        commits = re.findall(r"\b[0-9a-f]{7,}\b", named)
        clean += bool(commits) and "dirty" not in named and all(c[:7] in known for c in commits)
    words = f"{clean} of the {len(RESULTS)} files"
    assert words in " ".join((ROOT / "docs" / "results.md").read_text().split()), f"results.md: it is {words} now"


def test_paragraphs_are_short() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    for paragraph in text.split("\n\n"):
        if not paragraph.lstrip().startswith(("|", "<!--", "-", "#")):
            assert len(paragraph.splitlines()) <= 5, paragraph


def test_rows_of_tasks_that_are_not_measured_anew_stay(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import result_file

    out = tmp_path / "figures.json"
    before = {"case": "a", "x": 1, "episodes": 2, "commit": "aaaaaaa"}
    out.write_text(json.dumps({"commit": "aaaaaaa", "rows": [before, before | {"case": "b"}]}))
    monkeypatch.setattr(result_file, "commit", lambda: "bbbbbbb")

    def row(task, episodes, seed):
        return {"case": task, "x": 10 * episodes}

    columns = [{"key": "case", "title": "case"}, {"key": "x", "title": "x"}]
    result_file.measure_tasks(
        "figures.py", 1, ["a", "b"], row, out, columns, {}, ["--only", "b", "--episodes", "3", "--out", str(out)]
    )
    data = json.loads(out.read_text())
    assert data["rows"][1].pop("wall_s") >= 0.0 and data["wall_s"] is None  # of the other row no time is known
    assert data["rows"] == [before, {"case": "b", "x": 30, "episodes": 3, "commit": "bbbbbbb"}]
    assert data["commit"] == "aaaaaaa, bbbbbbb"
    assert data["command"] == "python benchmarks/figures.py --episodes 2 or 3 --seed 0"


def test_commits_of_pages_are_none_of_the_package(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import machine

    def git(*args: str) -> str:
        own = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args]
        return subprocess.run(own, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    monkeypatch.setattr(machine, "__file__", str(tmp_path / "benchmarks" / "machine.py"))
    (tmp_path / "sim").mkdir()
    git("init", "-q")
    for path in ("sim/a.py", "README.md"):
        (tmp_path / path).write_text("1")
        git("add", "-A")
        git("commit", "-qm", path)
    (tmp_path / "README.md").write_text("2")
    assert machine.commit() == git("log", "-1", "--format=%h", "HEAD~1")
    (tmp_path / "sim" / "a.py").write_text("2")
    assert machine.commit() == git("log", "-1", "--format=%h", "HEAD~1") + "-dirty"


@pytest.mark.slow
def test_the_variants_table_is_what_the_names_mean(tables: ModuleType) -> None:
    """The options of each row, typed behind the algorithm, are the settings that the variant's name gives."""
    from rookery.cli.train_options import read
    from rookery.policies.algorithms import VARIANTS

    rows = [line.split("|")[1:4] for line in tables.variants().splitlines()[2:]]
    assert len(rows) >= 8
    for name, base, options in ([cell.strip(" `") for cell in row] for row in rows):
        data = ["--data", "demos"] if VARIANTS[name].without else []
        named, typed = (
            read(["go2-velocity", "--algorithm", *words, *data], "")
            for words in ([name], [base, *shlex.split(options)])
        )
        assert named is not None
        assert typed is not None
        assert named.settings == typed.settings, name
