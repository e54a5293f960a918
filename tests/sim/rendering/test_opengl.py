"""The OpenGL back end is found without harm, and the sentence for `rookery doctor` says what to do."""

from __future__ import annotations

import os
import subprocess

import pytest

from rookery.sim.rendering import opengl


@pytest.fixture
def fresh(monkeypatch):
    """Probe anew in this test, and leave no trace of it."""
    monkeypatch.setenv("MUJOCO_GL", "")
    opengl.probe.cache_clear()
    yield monkeypatch
    opengl.probe.cache_clear()


def test_this_machine():
    name = opengl.find_backend()
    if os.environ.get("CI") == "true":
        assert name is not None, opengl.describe()
    if name is None:
        assert "PyBullet's software renderer" in opengl.describe()
    else:
        assert name in opengl.describe()
        assert os.environ["MUJOCO_GL"] == name
    assert opengl.probe() is opengl.probe()  # tried once


@pytest.mark.parametrize("word", ["off", "disable", "0"])
def test_switched_off(fresh, word):
    fresh.setenv("MUJOCO_GL", word)
    assert opengl.find_backend() is None
    assert f"switched off by MUJOCO_GL={word}" in opengl.describe()


def test_order_of_candidates(fresh):
    fresh.setattr("sys.platform", "linux")
    fresh.delenv("DISPLAY", raising=False)
    fresh.delenv("WAYLAND_DISPLAY", raising=False)
    assert opengl._candidates() == ("egl", "osmesa")
    fresh.setenv("DISPLAY", ":0")
    assert opengl._candidates() == ("egl", "osmesa", "glfw")
    fresh.setenv("MUJOCO_GL", "OSMesa")
    assert opengl._candidates() == ("osmesa",)


def test_a_crashing_driver_is_survived(fresh):
    """The first candidate's process is killed by a signal, the second hangs, the third works."""
    fresh.setattr(opengl, "_candidates", lambda: ("egl", "osmesa", "glfw"))
    tried = []

    def run(command, *, env, timeout, **_):
        tried.append(env["MUJOCO_GL"])
        if tried[-1] == "egl":
            return subprocess.CompletedProcess(command, -11, "", "")
        if tried[-1] == "osmesa":
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, 0, "warning: something\ndevice:A card\n", "")

    fresh.setattr(subprocess, "run", run)
    assert opengl.probe() == opengl.Backend("glfw", "A card")
    assert tried == ["egl", "osmesa", "glfw"]
    assert opengl.describe() == "OpenGL: glfw on A card."


def test_nothing_works(fresh):
    fresh.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, "", "no driver"))
    assert opengl.find_backend() is None
    assert "libosmesa6" in opengl.describe()
    fresh.setenv("MUJOCO_GL", "osmesa")
    assert "MUJOCO_GL=osmesa" in opengl.describe()
