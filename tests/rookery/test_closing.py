"""Commands free what they make, so that a program that calls them many times does not grow: worlds, engines, renderers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.cli.main import main
from rookery.sim.envs.concat_env import ConcatEnv
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.rendering.renderer import Renderer

SMALL = "--num-envs 4 --rollout-steps 8 --minibatches 1 --epochs 1 --hidden 8"
SHORT = "--num-envs 2 --episodes 2 --task-config episode_s=0.2"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "hover"
    assert main(["train", "drone-hover", "--steps", "64", "--out", str(out), *SMALL.split()]) == 0
    return out


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[str, Any]]:
    """What was made and not closed, by its identity; entry 0 says that there was anything."""
    open_: dict[int, tuple[str, Any]] = {}

    def watch(cls: type) -> None:
        begin, end = cls.__init__, cls.close

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            begin(self, *args, **kwargs)
            open_[id(self)] = cls.__name__, self
            open_[0] = "any", None

        def close(self: Any) -> None:
            end(self)
            open_.pop(id(self), None)

        monkeypatch.setattr(cls, "__init__", init)
        monkeypatch.setattr(cls, "close", close)

    for cls in (VecEnv, ConcatEnv, Renderer):
        watch(cls)
    return open_


@pytest.mark.parametrize(
    "command",
    [
        f"train drone-hover --steps 64 --out {{tmp}}/new {SMALL}",
        "train drone-hover --steps 32 --algorithm sac --num-envs 4 --hidden 8 --learning-starts 8 --out {tmp}/new",
        f"eval {{run}} {SHORT}",
        f"eval drone-hover --controller classical {SHORT}",
        "play {run} --seconds 0.1 --size 64 48 --out {tmp}/play.gif",
        "bench scale drone-hover --num-envs 4 --seconds 0.1",
        "match volley-1v1 controller controller --episodes 2 --task-config episode_s=0.5",
    ],
    ids=lambda command: " ".join(command.split()[:2]).replace(" {run}", ""),
)
def test_nothing_stays_open(command: str, run: Path, left: dict[int, tuple[str, Any]], tmp_path: Path) -> None:
    assert main(command.format(run=run, tmp=tmp_path).split()) in (0, None)
    assert left.pop(0, None), "the command made nothing that this test watches"
    assert sorted(name for name, _ in left.values()) == []
