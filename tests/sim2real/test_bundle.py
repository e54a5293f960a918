"""The bundle: written whole or not at all, checked without torch, every kind of damage refused with a sentence."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from sampled import slow_but

from rookery.policies.stages.squash import Squash
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from tests.sim2real.conftest import make_env, make_group, make_policy

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # any import of torch fails
from rookery.sim2real.export.check import check_bundle
result = check_bundle(sys.argv[1])
assert not any(m.startswith("torch.") for m in sys.modules)
print(result["onnx_max_error"], result["c_max_error"], result["observations"])
"""


def test_good_bundle_checks_without_torch(shared_bundle: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(shared_bundle)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    onnx_error, c_error, count = map(float, done.stdout.split())
    assert onnx_error <= 1e-5
    assert c_error <= 1e-5
    assert count >= 1000


def test_golden_actions_are_the_policys(shared_bundle: Path) -> None:
    golden = np.load(shared_bundle / "golden.npz")
    with torch.no_grad():
        actions = make_policy()(torch.from_numpy(golden["observations"])).numpy()
    assert np.abs(golden["actions"] - actions).max() <= 1e-6


@pytest.mark.slow
def test_several_groups_have_files_of_their_own(tmp_path: Path) -> None:
    policies = {"keeper": make_policy((8,)), "striker-2": make_policy((6, 4), "relu", seed=1)}
    contract = build_contract(make_env(**{"keeper": make_group(), "striker-2": make_group(2)}))
    folder = export_bundle(policies, contract, tmp_path / "team", prefix="team")
    names = {p.name for p in folder.iterdir()}
    kinds = ("golden_{}.npz", "policy_{}.c", "policy_{}.h", "policy_{}.hpp", "policy_{}.onnx")
    assert names == {"contract.json", "README.md", *(k.format(g) for k in kinds for g in policies)}
    assert "void team_striker_2_policy(" in (folder / "policy_striker-2.h").read_text()
    assert Contract.read(folder).groups["striker-2"].trained == policies["striker-2"].chain
    assert check_bundle(folder)["observations"] >= 2000
    for kind in kinds:
        (folder / kind.format("keeper")).replace(folder / "x")
        (folder / kind.format("striker-2")).replace(folder / kind.format("keeper"))
        (folder / "x").replace(folder / kind.format("striker-2"))
    with pytest.raises(RookeryError, match="policy of group"):
        check_bundle(folder)


def test_an_older_bundle_is_replaced_and_a_failure_leaves_it(
    bundle: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {p.name: p.read_bytes() for p in bundle.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def fake_onnx(policy: Any, contract: Any, group: str, path: Path) -> None:
        path.write_bytes(b"new")

    with monkeypatch.context() as m:
        m.setattr("rookery.sim2real.export.onnx.export_onnx", full)
        with pytest.raises(RookeryError, match="No space left on device"):
            export_bundle({"drone": make_policy()}, contract, bundle, overwrite=True)
    assert {p.name: p.read_bytes() for p in bundle.iterdir()} == before
    monkeypatch.setattr("rookery.sim2real.export.onnx.export_onnx", fake_onnx)
    export_bundle({"drone": make_policy()}, contract, bundle, overwrite=True)
    assert (bundle / "policy.onnx").read_bytes() == b"new"
    assert [p.name for p in bundle.parent.iterdir()] == ["bundle"], "no temporary folder is left"


def test_the_old_bundle_comes_back_when_the_last_rename_fails(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rookery.sim2real.export import bundle as module

    rename = os.rename

    def second_fails(a: Path, b: Path) -> None:
        if Path(a).name == "new":
            raise OSError(errno.EIO, "Input/output error")
        rename(a, b)

    monkeypatch.setattr(module.os, "rename", second_fails)
    with pytest.raises(RookeryError, match="Input/output error"), module._new_folder(bundle, [], True):
        pass
    assert (bundle / "policy.onnx").is_file()


def test_what_a_killed_export_left_is_removed(bundle: Path, contract: Contract) -> None:
    """And what another one that is at work, or a user, has beside it stays."""
    stale, busy, users = (bundle.parent / f".bundle.{end}" for end in ("aaaaaaaa", "bbbbbbbb", "cccccccc"))
    for folder in (stale, busy):
        (folder / "new").mkdir(parents=True)
        (folder / "new" / "policy.c").write_text("half")
    users.mkdir()
    (users / "notes").touch()
    held = os.open(busy, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    export_bundle({"drone": make_policy()}, contract, bundle, overwrite=True)
    assert {p.name for p in bundle.parent.iterdir()} == {"bundle", busy.name, users.name}
    assert (busy / "new" / "policy.c").exists() and (users / "notes").exists()
    os.close(held)


def test_a_bundle_that_a_kill_left_hidden_comes_back(
    bundle: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = bundle.parent / ".bundle.aaaaaaaa"
    (stale / "new").mkdir(parents=True)
    bundle.rename(stale / "old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rookery.sim2real.export.onnx.export_onnx", full)
    with pytest.raises(RookeryError, match="No space left on device"):
        export_bundle({"drone": make_policy()}, contract, bundle, overwrite=True)
    assert (bundle / "policy.onnx").is_file()
    assert [p.name for p in bundle.parent.iterdir()] == ["bundle"]


def test_folders_that_are_not_ours_are_left_alone(
    tmp_path: Path, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = {"drone": make_policy()}
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("precious")
    with pytest.raises(RookeryError, match=r"no bundle \(chapter1.tex\)"):
        export_bundle(policies, contract, tmp_path / "thesis")
    with pytest.raises(RookeryError, match="is a file"):
        export_bundle(policies, contract, tmp_path / "thesis" / "chapter1.tex")
    with pytest.raises(RookeryError, match="cannot write the bundle"):
        export_bundle(policies, contract, tmp_path / "thesis" / "chapter1.tex" / "bundle")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RookeryError, match="current folder"):
        export_bundle(policies, contract, ".")
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "precious"
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "README.md").write_text("precious")
    with pytest.raises(RookeryError, match=r"no bundle \(README.md\)"):
        export_bundle(policies, contract, tmp_path / "project", overwrite=True)


def test_an_older_bundle_is_kept_unless_it_may_be_replaced(bundle: Path, contract: Contract) -> None:
    before = {p.name: p.read_bytes() for p in bundle.iterdir()}
    with pytest.raises(RookeryError, match="holds an export of 'drone-hover': say --overwrite to replace it"):
        export_bundle({"drone": make_policy(seed=1)}, contract, bundle)
    assert {p.name: p.read_bytes() for p in bundle.iterdir()} == before
    export_bundle({"drone": make_policy(seed=1)}, contract, bundle, overwrite=True)
    assert (bundle / "policy.c").read_bytes() != before["policy.c"]
    stale = bundle.parent / ".bundle.aaaaaaaa"
    (stale / "new").mkdir(parents=True)
    bundle.rename(stale / "old")  # as a kill leaves it
    with pytest.raises(RookeryError, match="holds an export"):
        export_bundle({"drone": make_policy()}, contract, bundle)
    assert (bundle / "policy.c").is_file()


SLOW = pytest.mark.slow


FILES = ("contract.json", "policy.onnx", "policy.c", "policy.h", "policy.hpp", "golden.npz")
DAMAGES = ("missing", "empty", "cut", "noise")


@pytest.mark.parametrize(
    ("damage", "name"),
    slow_but(
        [*((d, f) for d in ("missing", "noise") for f in FILES), ("empty", "contract.json"), ("cut", "golden.npz")],
        [(damage, name) for damage in DAMAGES for name in FILES],
    ),
)
def test_damaged_files(bundle: Path, name: str, damage: str) -> None:
    path = bundle / name
    data = path.read_bytes()
    # Half a header still holds no end of its comment; half a C file no end of a table.
    {
        "missing": path.unlink,
        "empty": lambda: path.write_bytes(b""),
        "cut": lambda: path.write_bytes(data[: len(data) // 2]),
        "noise": lambda: path.write_bytes(np.random.default_rng(0).bytes(500)),
    }[damage]()
    with pytest.raises(RookeryError) as e:
        check_bundle(bundle)
    assert re.search(name.split(".")[0], str(e.value))
    assert "\n" not in str(e.value)
    assert "rookery" in str(e.value) or "export" in str(e.value), "a way out"


def edit_contract(bundle: Path, line: str, change: Any) -> None:
    contract = json.loads((bundle / "contract.json").read_text())
    at = contract
    path = line.split(".")
    for part in path[:-1]:
        at = at[int(part) if part.isdigit() else part]
    at[path[-1]] = change
    (bundle / "contract.json").write_text(json.dumps(contract))


@pytest.mark.parametrize(
    ("line", "change", "shown"),
    [
        (
            "groups.drone.observation.2.unit",
            "km/s",
            r"observation\[2\]\.unit is 'km/s', .* 'm/s', as its expression has it",
        ),
        ("groups.drone.observation.2.clip", 5.0, r"groups\.drone\.observation\[2\]\.clip is 5\.0 .* and 4\.0"),
        ("control_dt", 0.02, r"control_dt is 0\.02 in contract\.json and 0\.01"),
        ("provenance.steps", None, r"provenance\.steps is nothing in contract\.json and 1000"),
        ("control_dt", 0.01 * (1 + 1e-13), "contract line"),
        ("groups.drone.stages.1.hidden", [32, 16], r"stages\[1\]\.hidden\[1\] is 16"),
        ("groups.drone.stages.0.size", 16, r"stages: the stage perceptron takes 15 numbers, and gets 16"),
        ("groups.drone.observation.2.scale", 0.0, r"scale is 0\.0, but it must be a finite number other than 0"),
        ("schema_version", 7, "schema version 7"),
    ],
)
def test_edited_contract(bundle: Path, line: str, change: Any, shown: str) -> None:
    edit_contract(bundle, line, change)
    with pytest.raises(RookeryError, match=shown):
        check_bundle(bundle)


def test_network_of_other_sizes_than_the_contract(bundle: Path) -> None:
    model = onnx.load(bundle / "policy.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, bundle / "policy.onnx")
    with pytest.raises(RookeryError, match=r"policy\.onnx takes and gives .*\[2, 15\].* contract wants"):
        check_bundle(bundle)


@pytest.mark.parametrize(
    ("name", "old", "new", "shown"),
    [
        ("policy.h", "OBSERVATIONS 15", "OBSERVATIONS 16", "has 16 as the size observations, and the contract 15"),
        ("policy.h", 'CONTRACT "', 'CONTRACT "0', "belongs to another contract"),
        ("policy.c", "s0 + s1", "s0 - s1", r"policy\.c differs from the torch policy by .* observation \d+"),
        pytest.param(
            "policy.c",
            "bias[o];",
            "bias[o] / 0.0f * 0.0f;",
            r"policy\.c differs from the torch policy by nan",
            marks=SLOW,
        ),
        pytest.param(
            "policy.c", "term_scale[i],", "term_scale[0],", "scales observations or actions otherwise", marks=SLOW
        ),
        pytest.param(
            "policy.c",
            "+ 1.0f) * action_half[i]",
            "+ 2.0f) * action_half[i]",
            "scales observations or actions",
            marks=SLOW,
        ),
        pytest.param("policy.c", "int o;", "int o; int unused;", r"does not compile \(line \d+\)", marks=SLOW),
        pytest.param("policy.c", "rookery_command", "rookery_commando", "cannot load", marks=SLOW),
    ],
)
def test_edited_c(bundle: Path, name: str, old: str, new: str, shown: str) -> None:
    text = (bundle / name).read_text()
    assert old in text
    (bundle / name).write_text(text.replace(old, new, 1))
    with pytest.raises(RookeryError, match=shown):
        check_bundle(bundle, run_c=True)
    with pytest.raises(RookeryError):
        check_bundle(bundle)


def test_edited_onnx_weights(bundle: Path) -> None:
    model = onnx.load(bundle / "policy.onnx")
    weight = next(t for t in model.graph.initializer if t.name.endswith("bias_2"))
    weight.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(weight) + np.float32(0.001), weight.name))
    onnx.save(model, bundle / "policy.onnx")
    with pytest.raises(RookeryError, match=r"policy\.onnx differs from the torch policy by 0\.001"):
        check_bundle(bundle)
    del model.metadata_props[:]
    onnx.save(model, bundle / "policy.onnx")
    with pytest.raises(RookeryError, match="carries no Rookery contract"):
        check_bundle(bundle)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"fingerprint": np.array("0" * 64)}, "belongs to another contract"),
        ({"actions": np.zeros((1148, 4), np.float32)}, "holds arrays of"),
        ({"observations": np.zeros((10, 15), np.float32), "actions": np.zeros((10, 3), np.float32)}, "at least 1000"),
        ({"actions": np.full((1148, 3), np.nan, np.float32)}, "not finite"),
        ({"actions": np.array([None])}, "damaged"),
    ],
)
def test_edited_golden(bundle: Path, change: dict[str, Any], shown: str) -> None:
    golden = dict(np.load(bundle / "golden.npz"))
    np.savez(bundle / "golden.npz", **(golden | change))
    with pytest.raises(RookeryError, match=shown):
        check_bundle(bundle)


def test_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="is not a folder"):
        check_bundle(tmp_path / "nothing")
    with pytest.raises(RookeryError, match="cannot read"):
        check_bundle(tmp_path)


def test_check_without_compiler(shared_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("gcc", "cc", "clang") else which(name))
    monkeypatch.setattr("rookery.sim2real.export.native.importlib.util.find_spec", lambda _: None)
    with pytest.raises(RookeryError, match="no C compiler"):
        check_bundle(shared_bundle)


@pytest.mark.slow
def test_a_bundle_of_a_tanh_policy(tmp_path: Path) -> None:
    """Contract, ONNX, C and golden vectors all hold the squash: each is checked against the torch policy."""
    policy = make_policy((16,), squash="tanh")
    folder = export_bundle({"drone": policy}, build_contract(make_env(), {"drone": policy}), tmp_path / "bundle")
    assert Contract.read(folder).groups["drone"].trained.find(Squash) == Squash(3, "tanh")
    result = check_bundle(folder)
    assert max(result["onnx_max_error"], result["c_max_error"]) <= 1e-5
    golden = np.load(folder / "golden.npz")
    assert (
        np.abs(golden["actions"] - make_policy((16,))(torch.from_numpy(golden["observations"])).detach().numpy()).max()
        > 0.1
    )
    code = (folder / "policy.c").read_text()
    squash = "tanhf(in[i])"
    assert code.count(squash) == 1  # the hidden layer's is of x
    (folder / "policy.c").write_text(code.replace(squash, "fmaxf(-1.0f, fminf(in[i], 1.0f))"))
    with pytest.raises(RookeryError, match=r"policy\.c differs"):
        check_bundle(folder, run_c=True)
