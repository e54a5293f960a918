"""Recorded episodes on a timeline."""

from __future__ import annotations

import numpy as np
import pytest

import rookery
from rookery.sim.errors import RookeryError
from rookery.sim.viewing.curves import Curves, read_log
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


def test_a_chosen_episode_has_a_slider_of_its_own_alone(timeline, monkeypatch):
    gone = []
    timeline.choose("one")
    old = timeline._slider
    monkeypatch.setattr(old, "remove", lambda: gone.append(old))
    timeline.choose("two")
    assert gone == [old] and timeline._slider is not old and timeline._slider.value == timeline.now == 0.0


class Clock:
    """Time that passes while one sleeps."""

    def __init__(self):
        self.now = 5.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(
    ("speed", "played", "watched"), [(1.0, 0.1, True), (0.5, 0.3, True), (1.0, 0.3, True), (1.0, 0.1, False)]
)
def test_an_episode_plays_at_its_speed_and_begins_anew_at_its_end(timeline, monkeypatch, speed, played, watched):
    """The slider goes along; nothing moves while nobody looks."""
    monkeypatch.setattr("rookery.sim.viewing.replay.time", Clock())
    monkeypatch.setattr(timeline.server, "get_clients", lambda: {0: None} if watched else {})
    timeline.choose("one")
    timeline._speed.value = speed
    monkeypatch.setattr(timeline, "playing", True)
    timeline.run(played)
    length, frame = timeline.recording.seconds, speed / 60.0
    expected = speed * played * watched
    assert expected < 1.9 * length
    if expected > length:  # it begins anew at 0 in the first frame beyond its end
        expected -= length
    assert timeline.now == pytest.approx(expected, abs=2.01 * frame) and (timeline.now > 0.0) == watched
    assert timeline._slider.value == timeline.now


@pytest.mark.slow
def test_a_rally_is_recorded_until_it_ends_and_told_line_by_line():
    server, _ = open_server(port=0)
    env = rookery.make("volley-solo-bump", 1, config={"episode_s": 2.0})
    pilot = env.controller()
    record(env, pilot, 0, 2, steps=100)  # another rally, of which nothing is told
    rally = record(env, pilot, 0, 3)
    told = rally.story
    assert 1 < len(rally.poses) == env.max_episode_steps and len(told) == len(rally.markers) == len(rally.poses)
    counts = [len(lines) for lines in told]
    assert counts == sorted(counts) and 1 == counts[0] < counts[-1]
    k = next(k for k, n in enumerate(counts) if n > counts[0])  # a line appears when it happens
    assert float(told[k][-1].split()[0]) == pytest.approx(k * rally.dt, abs=2.0 * rally.dt)
    timeline = Timeline(server, env, 0, {"rally": lambda: rally}, "test")
    timeline.wind(rally.seconds)
    assert timeline._lines.content.splitlines()[-1] == told[-1][-1]
    close_server(server)
    env.close()


def test_a_log_is_drawn_over_its_steps(tmp_path):
    file = tmp_path / "progress.csv"
    file.write_text("steps,return,metric/success\n100,1.5,\n200,2.5,0.5\n300,")  # its last line is being written
    log = read_log(file)
    np.testing.assert_array_equal(log["return"], [1.5, 2.5])
    assert np.isnan(log["metric/success"][0])
    server, _ = open_server(port=0)
    curves = Curves(server, log)
    curves.show("return")
    np.testing.assert_array_equal(curves._chart.data[1], [1.5, 2.5])
    (choice,) = [x for x in server.gui._gui_input_handle_from_uuid.values() if getattr(x, "options", None)]
    choice.value = "metric/success"
    for told in choice._impl.update_cb:  # as when a user chooses
        told(None)
    np.testing.assert_array_equal(curves._chart.data[1], [np.nan, 0.5])
    close_server(server)
    file.write_text("a,b\n1,2\n")
    with pytest.raises(RookeryError, match="no column 'steps'"):
        read_log(file)


def test_the_page_of_an_episode_needs_nothing_else(timeline):
    page = timeline.page()
    assert "__VISER_EMBED_DATA__" in page
    assert len(page) < 3e6
