"""robomimic's HDF5 files, written here with h5py in the layout that its documentation describes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rookery.cli.main import main
from rookery.policies.datasets import hdf5
from rookery.policies.datasets.dataset import Dataset
from rookery.policies.datasets.robomimic_import import import_robomimic
from rookery.sim.errors import RookeryError
from rookery.sim2real.build import describe_json
from rookery.sim2real.contract import Contract

h5py = pytest.importorskip("h5py", reason="the extra `datasets` is not installed")

LENGTHS = {"demo_0": 5, "demo_10": 4, "demo_2": 6}
SIZES = {"object": 3, "robot0_eef_pos": 3, "robot0_gripper_qpos": 2}


def arrays(demo: str) -> dict[str, np.ndarray]:
    """The arrays of an episode, by path."""
    rng = np.random.default_rng(sum(map(ord, demo)))
    t = LENGTHS[demo]
    out = {"actions": rng.uniform(-1.0, 1.0, (t, 4)), "rewards": np.arange(t) == t - 1, "dones": np.arange(t) == t - 1}
    out |= {"states": rng.standard_normal((t, 32))}
    for key, size in SIZES.items():
        whole = rng.standard_normal((t + 1, size))
        out |= {f"obs/{key}": whole[:-1], f"next_obs/{key}": whole[1:]}
    out["rewards"] = out["rewards"].astype(np.float64)
    out["dones"] = out["dones"].astype(np.int64)
    return out | {"obs/agentview_image": np.zeros((t, 8, 8, 3), np.uint8)}


def written(folder: Path, rate: Any = 20, **more: Any) -> Path:
    """A dataset; `more` are arrays by path, with __ for /, of the first episode, or None to leave one out."""
    file = folder / "low_dim.hdf5"
    kwargs = {} if rate is None else {"control_freq": rate}
    with h5py.File(file, "w") as out:
        data = out.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": kwargs})
        for demo in LENGTHS:
            values = arrays(demo)
            if demo == "demo_0":
                values |= {name.replace("__", "/"): x for name, x in more.items()}
            for name, x in values.items():
                if x is not None:
                    data.create_dataset(f"{demo}/{name}", data=x, compression="gzip" if name == "states" else None)
            data[demo].attrs["num_samples"] = LENGTHS[demo]
        out.create_dataset("mask/train", data=np.array([b"demo_0"], "S8"))
    return file


def test_every_number_comes_in(tmp_path, capsys):
    file = written(tmp_path)
    assert main(["demos", "import", str(file), "--out", str(tmp_path / "out")]) == 0
    data = Dataset(tmp_path / "out")
    Contract.from_json(data.contract, stages=False)
    assert data.groups == ["robot"] and data.control_dt == pytest.approx(0.05)
    assert [(t["name"], t["size"]) for t in data.contract["groups"]["robot"]["observation"]] == list(SIZES.items())
    assert data.contract["groups"]["robot"]["action"]["low"] == [-1.0] * 4
    assert data.recording["environment"] == "Lift"
    for i, demo in enumerate(("demo_0", "demo_2", "demo_10")):
        values = arrays(demo)
        episode = data.episode(i)
        whole = [np.concatenate((values[f"obs/{k}"], values[f"next_obs/{k}"][-1:])) for k in SIZES]
        wanted = torch.from_numpy(np.concatenate(whole, 1)).float()
        assert torch.equal(episode.columns["observation.robot"][:, 0], wanted)
        assert torch.equal(episode.columns["action.robot"][:, 0], torch.from_numpy(values["actions"]).float())
        assert episode.columns["reward.robot"][:, 0].tolist() == values["rewards"].tolist()
        assert episode.columns["terminated"].tolist() == [False] * (LENGTHS[demo] - 1) + [True]
        assert not episode.columns["truncated"].any()
    said = capsys.readouterr().out
    for words in ("states (the simulator's own)", "obs/agentview_image (uint8, (5, 8, 8, 3))", "mask"):
        assert words in said.split("left out: ")[1]


def test_without_ends_and_with_actions_in_units(tmp_path):
    """The first episode is cut; nothing tells its last state."""
    actions = 3.0 * arrays("demo_0")["actions"]
    file = written(tmp_path, dones=None, rewards=None, next_obs__object=None, actions=actions)
    data = import_robomimic(file, tmp_path / "out", describe_json)
    episode = data.episode(0)
    assert episode.columns["truncated"].tolist() == [False] * 4 + [True] and not episode.columns["terminated"].any()
    assert not episode.columns["reward.robot"].any()
    assert torch.equal(*episode.columns["observation.robot"][-2:])
    spec = data.contract["groups"]["robot"]["action"]
    low, high = (torch.tensor(spec[k]) for k in ("low", "high"))
    commanded = low + (episode.columns["action.robot"][:, 0] + 1.0) / 2.0 * (high - low)
    torch.testing.assert_close(commanded, torch.from_numpy(actions).float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rate": None}, "does not tell its control rate: write it into data's env_args, as env_kwargs.control_freq"),
        ({"rate": 0}, "does not tell its control rate"),
        ({"obs__object": np.zeros((4, 3))}, "has 4 rows, and there are 5 actions"),
        ({"obs__more": np.zeros((5, 3))}, "other observations than demo_0"),
        ({"actions": np.full((5, 4), np.nan)}, "numbers that are not finite"),
        ({"actions": np.full((5, 4), 1e300)}, "numbers beyond 32 bits"),
        ({"actions": np.zeros((5, 3))}, r"actions has the shape \(6, 4\)"),
    ],
)
def test_what_does_not_fit_is_a_sentence(more, said, tmp_path):
    with pytest.raises(RookeryError, match=f"is no dataset of robomimic that can be read: .*{said}") as e:
        import_robomimic(written(tmp_path, **more), tmp_path / "out", describe_json)
    assert "\n" not in str(e.value) and not (tmp_path / "out" / "meta.json").exists()


def hostile(file: Path, kind: str) -> None:
    with h5py.File(file, "a") as out:
        if kind == "external link":
            out["data/demo_0/obs/secret"] = h5py.ExternalLink("/etc/passwd", "/x")
        elif kind == "soft link":
            out["data/demo_0/again"] = h5py.SoftLink("/data")
        elif kind == "hard link":
            out["data/demo_0/again"] = out["data"]
        elif kind == "external data":
            out.create_dataset("data/demo_0/obs/x", (5, 3), "f8", external=[(str(file.parent / "x"), 0, 120)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((5, 3), "f8")
            layout[:] = h5py.VirtualSource(str(file.parent / "other.hdf5"), "x", (5, 3))
            out.create_virtual_dataset("data/demo_0/obs/x", layout)
        elif kind == "large":
            out.create_dataset("data/demo_0/obs/x", (1 << 36, 3), "f8", chunks=(1, 3))
        else:
            name = "/".join(["data/demo_0"] + ["x"] * 20)
            out.create_group(name)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("external link", "obs/secret is a link"), ("soft link", "again is a link"), ("hard link", "in itself"),
        ("external data", "has its data in other files"), ("virtual", "has its data in other files"),
        ("large", "arrays have more than 512 MiB"), ("deep", "nested too deep"),
    ],
)  # fmt: skip
def test_other_files_circles_and_bombs_are_refused(kind, said, tmp_path):
    file = written(tmp_path)
    hostile(file, kind)
    with pytest.raises(RookeryError, match=said):
        import_robomimic(file, tmp_path / "out", describe_json)


def test_files_that_are_none(tmp_path, monkeypatch):
    for data in (b"", b"\x89HDF\r\n\x1a\n" + bytes(100), b"text"):
        (tmp_path / "a.hdf5").write_bytes(data)
        with pytest.raises(RookeryError, match="is no dataset of robomimic that can be read"):
            import_robomimic(tmp_path / "a.hdf5", tmp_path / "out", describe_json)
    with pytest.raises(RookeryError, match="no ordinary file"):
        import_robomimic(tmp_path / "missing.hdf5", tmp_path / "out", describe_json)
    file = written(tmp_path)
    monkeypatch.setattr(hdf5, "_READ", "import os; os.abort()")
    with pytest.raises(RookeryError, match="it was ended by SIGABRT"):
        import_robomimic(file, tmp_path / "out", describe_json)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RookeryError, match="need h5py: `pip install h5py`"):
        import_robomimic(file, tmp_path / "out", describe_json)
