"""torch's global defaults: other ones are refused before any number is wrong, and given back they change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import rookery
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError


@pytest.fixture(autouse=True)
def given_back() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("cpu")


def _observed(env: Env, steps: int) -> torch.Tensor:
    return torch.stack([env.step(torch.full((2, 1, 4), 0.1))[0]["drone"] for _ in range(steps)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_default_dtype_is_refused_and_leaves_no_trace(dtype):
    env, same = rookery.make("drone-hover", 2), rookery.make("drone-hover", 2)
    env.reset(3)
    same.reset(3)
    action = torch.full((2, 1, 4), 0.1)
    _observed(env, 3)
    torch.set_default_dtype(dtype)
    for call in (lambda: env.step(action), env.reset, lambda: rookery.make("drone-hover")):
        with pytest.raises(RookeryError, match=rf"default dtype is {dtype}.*set_default_dtype\(torch\.float32\)"):
            call()
    torch.set_default_dtype(torch.float32)
    assert torch.equal(_observed(env, 4), _observed(same, 7)[3:])


def test_a_task_file_that_changes_the_default_dtype_is_refused(tmp_path):
    file = tmp_path / "doubles.py"
    file.write_text(
        "import torch\ntorch.set_default_dtype(torch.float64)\nfrom rookery.tasks.drones.hover import Hover\n\n\n"
        "class Doubles(Hover):\n    pass\n"
    )
    with pytest.raises(RookeryError, match=r"default dtype is torch\.float64"):
        rookery.make(f"{file}:Doubles")


def test_another_default_device_is_refused():
    torch.set_default_device("meta")
    with pytest.raises(RookeryError, match=r"default device is meta.*set_default_device\('cpu'\)"):
        rookery.make("drone-hover")
    torch.set_default_device("cpu")
    with torch.device("meta"), pytest.raises(RookeryError, match="default device is meta"):
        rookery.make("drone-hover")
    assert rookery.make("drone-hover").num_envs == 1
