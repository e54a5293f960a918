"""Several processes draw what one does, in the same order; one that ends is an error and leaves none behind."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from sampled import slow_but

from rookery.sim.errors import RookeryError
from rookery.sim.rendering import opengl, painters
from rookery.sim.rendering.painters import FramePainter, _processes
from rookery.sim.rendering.renderer import Composer

SCENE = """<mujoco><worldbody><light pos="0 0 3"/><geom type="plane" size="2 2 .1" rgba=".7 .8 .9 1"/>
<body name="ball" pos="0 0 .5"><freejoint/><geom size=".2" rgba=".9 .4 .1 1"/></body></worldbody></mujoco>"""


@pytest.fixture
def model():
    return mujoco.MjModel.from_xml_string(SCENE)


def frames(model, count):
    """A ball that moves along x, seen from a place that stands still."""
    composer = Composer(model, 64, camera=((-2.0, 0.0, 1.0), (0.0, 0.0, 0.5)))
    data = mujoco.MjData(model)
    for k in range(count):
        data.qpos[1] = -0.5 + 0.1 * k
        yield composer.compose(data, [{"pos": [0.0, 0.1 * k, 1.0], "size": 0.05}]), k


@pytest.mark.parametrize("backend", slow_but(["software"], ["auto", "software"]))
def test_two_processes_draw_what_one_does(model, backend):
    with FramePainter(model, 96, 64, backend, processes=1) as painter:
        alone = list(painter.paint(frames(model, 9)))
    with FramePainter(model, 96, 64, backend, processes=2) as painter:
        assert painter.name == (opengl.find_backend() or "software" if backend == "auto" else "software")
        shared = list(painter.paint(frames(model, 9)))
    assert [k for _, k in shared] == list(range(9))
    assert all(np.array_equal(a, b) for (a, _), (b, _) in zip(alone, shared, strict=True))
    assert len({picture.tobytes() for picture, _ in alone}) == 9


@pytest.mark.slow
def test_a_process_that_ends_is_an_error(model):
    with FramePainter(model, 96, 64, "software", processes=2) as painter:
        workers = list(painter._workers)
        pictures = painter.paint(frames(model, 50))
        next(pictures)
        for worker in workers:
            worker._process.kill()
        with pytest.raises(RookeryError, match="a process that draws pictures ended with code -9"):
            list(pictures)
    assert all(worker._process.poll() is not None for worker in workers)


@pytest.mark.slow
def test_a_video_that_is_given_up_ends_its_processes(model):
    with FramePainter(model, 96, 64, "software", processes=2) as painter:
        workers = list(painter._workers)
        next(painter.paint(frames(model, 50)))
    assert all(worker._process.poll() is not None for worker in workers)


def test_how_many_processes(monkeypatch):
    monkeypatch.setattr(painters, "usable_cores", lambda: 8)
    cpu, gpu = opengl.Backend("egl", "llvmpipe (LLVM 15.0.6, 256 bits)"), opengl.Backend("egl", "A card")
    assert _processes(gpu, 1280 * 720, 300) == 1
    assert _processes(cpu, 1280 * 720, 300) == 8
    assert _processes(None, 1280 * 720, 300) == 8
    assert _processes(cpu, 96 * 64, 36) == 1
    assert 1 < _processes(cpu, 1280 * 720, 60) < 8
