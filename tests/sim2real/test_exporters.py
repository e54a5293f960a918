"""The list of exporters: what each writes and refuses, and those of users."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from sampled import slow_but

from rookery.cli.main import main
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export import exporters
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.exporter import Exporter
from rookery.sim2real.export.mcu import COMPILER
from tests.sim2real.conftest import make_env, make_group, make_policy

DOCS = Path(__file__).parents[2] / "docs" / "bundles.md"
MINE = """
from rookery.sim.errors import RookeryError
from rookery.sim2real.export.exporter import Exporter

class Sizes(Exporter):
    '''Sizes as text.'''
    name = "sizes"
    includes = ("onnx",)
    files = ("firmware/sizes{group}.txt",)

    def write(self, export, folder):
        for group, policy, (path,) in export.parts(folder, *self.files):
            path.write_text(f"{policy.observation_size} {policy.action_size}")

class Refuses(Sizes):
    def check(self, export):
        raise RookeryError("not today.")

class Nothing: ...
"""


@pytest.fixture
def registered() -> Iterator[None]:
    """What the test registers is forgotten."""
    before = dict(exporters.EXPORTERS)
    yield
    exporters.EXPORTERS.clear()
    exporters.EXPORTERS.update(before)


def made(**members: Any) -> type[Exporter]:
    """An exporter of one text file, with other members."""

    def write(self: Exporter, export: Any, folder: Path) -> None:
        (folder / "note.txt").write_text("written")

    return type("Note", (Exporter,), {"name": "note", "files": ("note.txt",), "write": write, **members})


def files_in(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


EVERYWHERE = [name for name in exporters.EXPORTERS if name not in ("mcu", "crazyflie", "px4")]


@pytest.mark.parametrize("target", slow_but(["contract", "c", "cpp", "golden"], EVERYWHERE))
def test_each_writes_what_it_and_its_includes_declare(target: str, tmp_path: Path) -> None:
    policies = {"keeper": make_policy((8,)), "striker": make_policy((6,), seed=1)}
    contract = build_contract(make_env(keeper=make_group(), striker=make_group()))
    folder = export_bundle(policies, contract, tmp_path / "out", target=target)
    declared = [file for each in exporters.exporters_for(target) for file in each.files]
    named = {file.replace("{group}", f"_{g}") for file in declared for g in policies}
    assert files_in(folder) == named
    assert "contract.json" in named, "no file says anything without the contract"
    assert Contract.read(folder).groups["striker"].trained == policies["striker"].chain


def test_all_are_documented_and_say_what_they_write() -> None:
    text = DOCS.read_text()
    for name in exporters.EXPORTERS:
        assert f"| `{name}` |" in text
        each = exporters.exporter(name)
        assert each.name == name
        assert inspect.getdoc(type(each)) != inspect.getdoc(Exporter)


def test_names_come_without_torch() -> None:
    code = "import sys; from rookery.sim2real.export.exporters import exporter_names; assert 'c' in exporter_names(); "
    code += "assert not {'torch', 'onnx', 'rookery.sim2real.export.c'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tool_that_is_missing_is_said_before_anything_is_written(
    contract: Contract, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.sim2real.export.mcu.shutil.which", lambda name: None)
    with pytest.raises(RookeryError, match=f"{COMPILER} is not installed"):
        export_bundle({"drone": make_policy()}, contract, tmp_path / "out", target="mcu")
    assert not (tmp_path / "out").exists()


def test_a_users_exporter_in_a_file(shared_bundle: Path, in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rookery.sim2real.export.exporters import exporters_for

    (in_tmp / "mine.py").write_text(MINE)
    contract = Contract.read(shared_bundle)
    policies = {"drone": make_policy()}
    folder = export_bundle(policies, contract, in_tmp / "out", target="mine.py:Sizes")
    assert files_in(folder) == {"contract.json", "policy.onnx", "firmware/sizes.txt"}
    assert (folder / "firmware" / "sizes.txt").read_text() == "15 3"
    assert [each.name for each in exporters_for("mine.py:Sizes")] == ["contract", "onnx", "sizes"]
    export_bundle(policies, contract, folder, target="mine.py:Sizes", overwrite=True)  # its own files may be replaced
    (folder / "firmware" / "notes.md").write_text("precious")
    with pytest.raises(RookeryError, match=r"no bundle \(firmware/notes.md\)"):
        export_bundle(policies, contract, folder, target="mine.py:Sizes", overwrite=True)
    with pytest.raises(RookeryError, match="not today"):
        export_bundle(policies, contract, in_tmp / "refused", target="mine.py:Refuses")
    assert not (in_tmp / "refused").exists()
    wrong = {
        "onxx": "did you mean 'onnx'",
        "mine.py:Size": "did you mean 'Sizes'",
        "mine.py:Nothing": "is no exporter",
        "absent.py:Sizes": "there is no file",
    }
    for target, why in wrong.items():
        assert main(["export", "drone-hover", "--out", "out2", "--target", target]) == 2
        assert why in capsys.readouterr().err
    assert not (in_tmp / "out2").exists()


@pytest.mark.slow
def test_the_command_line_takes_a_target(in_tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "drone-hover", "--out", "out", "--target", "onnx"]) == 0
    assert files_in(in_tmp / "out") == {"contract.json", "policy.onnx"}
    assert "--check" not in capsys.readouterr().out, "there is nothing to compare it with"
    onnx.checker.check_model(str(in_tmp / "out" / "policy.onnx"))
    assert main(["export", "--check", "out"]) == 2
    assert "policy.c" in capsys.readouterr().err


@pytest.mark.usefixtures("registered")
def test_registered_exporters_and_what_is_wrong_with_them(contract: Contract, tmp_path: Path) -> None:
    exporters.register(made())
    assert "note" in exporters.exporter_names()
    folder = export_bundle({"drone": make_policy()}, contract, tmp_path / "out", target="note")
    assert files_in(folder) == {"contract.json", "note.txt"}
    wrong = {
        "already": made(),
        "no name": made(name=""),
        "is a text": made(name="text", files="note.txt"),
        "the one name in braces is {group}": made(name="braces", files=("note{grup}.txt",)),
        "inside the export": made(name="above", files=("../note.txt",)),
        "is no exporter": int,
    }
    for why, cls in wrong.items():
        with pytest.raises(RookeryError, match=why):
            exporters.register(cls)


@pytest.mark.usefixtures("registered")
def test_an_exporter_that_writes_nothing_says_so(contract: Contract, tmp_path: Path) -> None:
    exporters.register(type("Idle", (Exporter,), {"name": "idle"}))
    with pytest.raises(RookeryError, match=r"the exporter 'idle' has no write\(\): write it into Idle"):
        export_bundle({"drone": make_policy()}, contract, tmp_path / "out", target="idle")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"includes": ("note",)}, "includes itself"),
        ({"includes": ("notes",)}, "did you mean 'note'"),
        ({"files": ("contract.json", "note.txt")}, "both write contract.json"),
        ({"files": ("note.txt", "more.txt")}, "did not write more.txt"),
        ({"files": ()}, "wrote note.txt"),
    ],
)
def test_exporters_that_are_wrong_leave_nothing(
    members: dict[str, Any], why: str, contract: Contract, tmp_path: Path
) -> None:
    exporters.register(made(**members))
    with pytest.raises(RookeryError, match=why):
        export_bundle({"drone": make_policy()}, contract, tmp_path / "out", target="note")
    assert list(tmp_path.iterdir()) == []


def test_every_check_comes_before_anything_is_written(contract: Contract, tmp_path: Path) -> None:
    """A policy of NaN and a wrong C prefix are refused by all of the bundle, though the contract could be written."""
    policy = make_policy()
    with pytest.raises(RookeryError, match="cannot begin C names"):
        export_bundle({"drone": policy}, contract, tmp_path / "out", prefix="9")
    policy.get_buffer("normalize.mean")[0] = np.nan
    with pytest.raises(RookeryError, match="NaN or infinity"):
        export_bundle({"drone": policy}, contract, tmp_path / "out", target="onnx")
    assert list(tmp_path.iterdir()) == []
