"""Recorded episodes on a timeline."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.sim.viewing.replay import Timeline, record
from rookery.sim.viewing.server import close_server, open_server

STEPS = 20


@pytest.fixture(scope="module")
def timeline():
    server, _ = open_server(port=0)
    env = rookery.make("drone-hover", 2)
    pilot = env.controller()
    one, two = (record(env, pilot, 1, seed, STEPS) for seed in (3, 4))
    yield Timeline(server, env, 1, {"one": lambda: one, "two": lambda: two}, "test")
    close_server(server)
    env.close()


def test_an_episode_is_recorded_as_it_was(timeline):
    env = rookery.make("drone-hover", 2)
    pilot = env.controller()
    obs, _ = env.reset(3)
    for k in range(STEPS):
        data = env.mj_data(1)
        model = env.visual_model(1)
        pose = timeline._episodes["one"]().poses[k].pos[model.geom_bodyid > 0].mean(0)
        np.testing.assert_allclose(pose, data.qpos[:3], atol=0.05)
        obs, *_ = env.step(pilot(obs))
    env.close()


def test_time_between_two_steps_is_between_their_poses(timeline):
    recording = timeline._episodes["one"]()
    assert recording.seconds == pytest.approx((STEPS - 1) * recording.dt)
    half = recording.at(3.5 * recording.dt).pos
    np.testing.assert_allclose(half, 0.5 * (recording.poses[3].pos + recording.poses[4].pos))
    np.testing.assert_array_equal(recording.at(1e9).pos, recording.poses[-1].pos)
    np.testing.assert_array_equal(recording.at(-1.0).pos, recording.poses[0].pos)


def test_winding_stands_still_and_another_episode_begins_anew(timeline):
    timeline.wind(0.1)
    assert timeline.now == 0.1 and not timeline.playing
    timeline.choose("two")
    assert timeline.now == 0.0
    timeline._toggle()
    assert timeline.playing


def test_the_page_of_an_episode_needs_nothing_else(timeline):
    page = timeline.page()
    assert "__VISER_EMBED_DATA__" in page
    assert len(page) < 3e6
