"""The viewer without a browser: time, worlds, commands, the mouse's spring, plots and pictures."""

from __future__ import annotations

import functools
import socket

import numpy as np
import pytest
import torch
import trimesh

import rookery
from rookery.cli.viewing import show
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.geoms import SHOWN
from rookery.sim.rendering.markers import marker_shape
from rookery.sim.viewing.drawing import Poses, creased
from rookery.sim.viewing.hand import MOST, Hand
from rookery.sim.viewing.marks import MarkerBatches
from rookery.sim.viewing.panel import Panel
from rookery.sim.viewing.server import close_server, open_server
from rookery.sim.viewing.viewer import Viewer, _rest


@pytest.fixture(scope="module")
def server():
    made, _ = open_server(port=0)
    yield made
    close_server(made)


@pytest.fixture
def page(server):
    server.scene.reset()
    server.gui.reset()
    return server


def watch(page, task: str, worlds: int = 2, **options) -> Viewer:
    env = rookery.make(task, worlds, **options)
    pilot = env.controller()
    assert pilot is not None
    return Viewer(page, env, {"classical": lambda: pilot}, seed=1)


def named(env, part: str) -> str:
    """The first body whose name begins so."""
    model = env.world.model
    return next(n for i in range(model.nbody) if (n := model.body(i).name).startswith(part))


def batches(viewer: Viewer) -> list:
    return viewer._drawing._batches


def test_every_drawn_geom_of_every_world_is_sent_where_it_is(page):
    viewer = watch(page, "drone-hover", 3)
    model = viewer.env.visual_model()
    drawn = int((model.geom_group <= SHOWN).sum()) - 1  # the floor is a grid
    assert sum(len(b.index) for b in batches(viewer)) == 3 * drawn
    for _ in range(5):
        viewer.step()
    viewer._draw(1.0)
    offsets = viewer._drawing.offsets
    assert len(np.unique(offsets, axis=0)) == 3
    for b in batches(viewer):
        rows = viewer._now.pos[b.index] + offsets[b.world]
        np.testing.assert_allclose(b.handle.batched_positions, rows, atol=1e-5)
    viewer.env.close()


def test_one_world_alone_and_another_one_followed(page):
    viewer = watch(page, "drone-hover", 3)
    viewer.side_by_side = False
    viewer.choose_world(2)
    assert viewer.shown == [2]
    np.testing.assert_allclose(viewer._drawing.offsets, 0.0)
    viewer.side_by_side = True
    viewer.show_worlds()
    np.testing.assert_allclose(viewer._drawing.offsets[2], 0.0)  # the followed one stands at the origin
    viewer.env.close()


def control(page, label: str):
    """The control with a label, as a page that is used sets its value."""
    (found,) = [h for h in page.gui._gui_input_handle_from_uuid.values() if getattr(h, "label", "") == label]
    return found


def test_controls_do_what_they_say(page):
    viewer = watch(page, "drone-hover", 3)
    for label, value, said in (
        ("World", "2", lambda: viewer.world == 2),
        ("Side by side", False, lambda: viewer.shown == [2] and not viewer.side_by_side),
        ("Follow", False, lambda: not viewer.follow),
        ("Contact forces", True, lambda: viewer.forces),
        ("Speed", 2.0, lambda: viewer.speed == 2.0),
    ):
        assert not said(), label
        control(page, label).value = value
        viewer._obey()
        assert said(), label
    viewer.env.close()


def test_time_stands_still_steps_and_begins_anew(page):
    viewer = watch(page, "drone-hover")
    viewer.panel._toggle()
    viewer.run(0.2)
    assert viewer.steps == 0 and viewer.paused
    viewer.panel._step()
    assert viewer.steps == 1
    assert viewer.env.unwrapped.steps.tolist() == [1, 1]
    viewer.do(viewer.reset)
    viewer.run(0.05)
    assert viewer.env.unwrapped.steps.tolist() == [0, 0]
    viewer.env.close()


def test_shadows_where_pages_draw_quickly_unless_somebody_has_chosen(page, monkeypatch):
    sent = []
    monkeypatch.setattr("rookery.sim.viewing.viewer.cast_shadows", lambda _, on: sent.append(on))
    viewer = watch(page, "drone-hover")
    quick = [None]
    monkeypatch.setattr(viewer.spectators, "quick", lambda: quick[0])
    viewer._choose_shadows()
    assert not sent and not viewer.panel.shadows.value
    quick[0] = True
    for _ in range(2):
        viewer._choose_shadows()
        viewer._obey()
    assert sent == [True] and viewer.panel.shadows.value
    viewer.cast_shadows(False)
    viewer._choose_shadows()
    viewer._obey()
    assert sent == [True, False]
    viewer.env.close()


def test_time_stands_still_until_a_page_has_its_first_picture(page, monkeypatch):
    viewer = watch(page, "drone-hover")
    has = []
    monkeypatch.setattr(viewer.spectators, "look", lambda: True)
    monkeypatch.setattr(viewer.spectators, "see", lambda: bool(has))
    frames = viewer.frames
    viewer.run(0.2)
    assert viewer.steps == 0 and viewer.frames == frames
    has.append(True)
    viewer.run(0.3)
    assert viewer.steps > 0 and viewer.frames > frames
    viewer.env.close()


def test_a_world_that_ends_does_not_fly_to_its_new_start(page):
    viewer = watch(page, "drone-hover", config={"episode_s": 0.1})
    for _ in range(10):
        viewer.step()
    np.testing.assert_array_equal(viewer._before.pos, viewer._now.pos)
    assert viewer.episodes == 2
    viewer.env.close()


def test_between_two_poses_is_half_way():
    a = Poses(np.zeros((1, 3)), np.array([[1.0, 0.0, 0.0, 0.0]]))
    quarter = np.array([[np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]])
    for sign in (1.0, -1.0):
        half = a.towards(Poses(np.ones((1, 3)), sign * quarter), 0.5)
        np.testing.assert_allclose(half.pos, 0.5)
        np.testing.assert_allclose(np.abs(half.quat), [[np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)]], atol=1e-12)


def test_edges_are_split_and_smooth_surfaces_are_not():
    box = trimesh.creation.box()
    vertices, faces = creased(box.vertices, box.faces, box.face_normals)
    assert len(vertices) == 24
    np.testing.assert_allclose(vertices[faces], box.vertices[box.faces])
    ball = trimesh.creation.icosphere(subdivisions=3)
    assert len(creased(ball.vertices, ball.faces, ball.face_normals)[0]) == len(ball.vertices)


def test_a_goal_set_by_hand_stays_through_new_episodes(page):
    viewer = watch(page, "drone-hover", config={"episode_s": 0.1})
    panel = viewer.commands
    (command,) = panel._commands
    panel._handles[command.name].position = np.array([0.3, 0.2, 1.4]) + panel._offset
    panel._moved(command)
    for _ in range(12):  # a new episode draws a new target in between
        viewer.step()
    np.testing.assert_allclose(viewer.env.unwrapped.task.target[0, 0], [0.3, 0.2, 1.4], atol=1e-6)
    assert not np.allclose(viewer.env.unwrapped.task.target[1, 0], [0.3, 0.2, 1.4])
    panel._by_hand.value = False
    panel._switch()
    assert not panel._held
    viewer.env.close()


def test_velocity_has_sliders_over_the_range_of_its_commands(page):
    viewer = watch(page, "go2-velocity", 1)
    labels = [s.label for _, _, s in viewer.commands._sliders]
    assert labels == ["forward m/s", "left m/s", "turn left rad/s"]
    command = viewer.commands._commands[0]
    for _, k, slider in viewer.commands._sliders:
        assert slider.min == command.low[k] < slider.max == command.high[k]
    command.values[0] = torch.tensor(command.low)  # the task chooses anew
    viewer.commands.draw(np.zeros(3))
    for _, _, slider in viewer.commands._sliders:
        assert slider.value == slider.min
        slider.value = slider.max
    viewer.commands._moved(command)
    viewer.step()
    torch.testing.assert_close(viewer.env.unwrapped.task.command[0], torch.tensor(command.high))
    viewer.forces = True
    viewer._draw(1.0)  # standing feet press on the ground
    arrows = viewer._drawing._arrows["contacts"].points
    assert (arrows[:, 1, 2] > arrows[:, 0, 2]).all() and len(arrows) >= 2
    for _ in range(20):
        viewer.step()
    viewer._draw(1.0)  # the camera goes along: the robot stays over the origin of the page
    trunk = viewer._model(0).geom_bodyid == viewer._focus
    assert np.linalg.norm(viewer._now.pos[trunk].mean(0)[:2]) > 0.05
    np.testing.assert_allclose((viewer._now.pos[trunk].mean(0) + viewer._drawing.shift)[:2], 0.0, atol=1e-6)
    viewer.env.close()


@pytest.mark.parametrize(
    ("task", "engine", "part"), [("drone-hover", "rotor", "drone"), ("panda-lift", "mujoco", "cube")]
)
def test_the_hand_pulls_a_body_to_the_mouse_and_lets_go(task, engine, part):
    env = rookery.make(task, 2, engine=engine)
    env.reset(0)
    body = named(env, part)
    view = env.world.bodies([body])
    start = view.pos[:, 0].double().numpy().copy()
    hand = Hand(env, 0, body, start[0].copy())
    hand.mouse = start[0] + [0.0, 0.0, 0.3]
    still = {g: torch.tensor(s.action.neutral).expand(2, s.count, -1) for g, s in env.groups.items()}
    for _ in range(round(0.5 / env.control_dt)):
        hand.pull()
        env.step(still)
    risen = view.pos[:, 0, 2].double().numpy() - start[:, 2]
    assert risen[0] > risen[1] + 0.1
    hand.let_go()
    env.close()


def test_the_hand_is_not_stronger_than_some_weights():
    env = rookery.make("drone-hover", 1)
    env.reset(0)
    forces = []
    body = named(env, "drone")
    hand = Hand(env, 0, body, env.world.bodies([body]).pos[0, 0].double().numpy())
    hand._set = forces.append
    hand.mouse = hand.held + 100.0
    hand.pull()
    weight = hand._mass * 9.81
    assert np.linalg.norm(forces[0][:3]) == pytest.approx(MOST * weight, rel=0.01)
    env.close()


def test_plots_show_what_was_chosen(page):
    viewer = watch(page, "drone-hover", 1)
    for shown, width in (("reward terms, weighted", None), ("actions", 4), ("observation: position_error", 3)):
        viewer.plots._choose(shown)
        for _ in range(3):
            viewer.step()
        viewer.plots.draw()
        data = viewer.plots._chart.data
        assert len(data[0]) == 3 and (width is None or len(data) == width + 1)
    weights = viewer.env.deployment().config["reward"]
    viewer.plots._choose("reward terms, weighted")
    viewer.step()
    assert set(viewer.plots._history[-1][1]) <= set(weights)
    viewer.env.close()


def test_what_is_newer_acts_from_the_next_step_on(page):
    env = rookery.make("drone-hover", 1)
    calls = []
    pilot = env.controller()
    viewer = Viewer(page, env, {"classical": lambda: pilot}, seed=1, newer=lambda: calls.append(1) or still)
    still = lambda obs: {"drone": torch.zeros(1, 1, 4)}  # noqa: E731
    viewer.run(0.05)
    assert calls and viewer._act is still
    env.close()


def test_markers_of_every_shape_are_drawn_and_go(page):
    marks = MarkerBatches(page, "/marks")
    end = {"end": (0.0, 2.0, 0.0), "size": 0.1}
    shown = [{"pos": (1.0, 0.0, 0.0), "size": 0.2}, {"pos": (0.0, 0.0, 0.0), "shape": "arrow", **end},
             {"pos": (0.0, 0.0, 0.0), "shape": "box", "size": (0.1, 0.2, 0.3)}]  # fmt: skip
    marks.draw([(np.array([0.0, 0.0, 1.0]), marker_shape(m)) for m in shown])
    assert set(marks._drawn) == {"sphere", "arrow", "box"}
    ball, arrow, box = (marks._drawn[k][1] for k in ("sphere", "arrow", "box"))
    np.testing.assert_allclose(ball.batched_positions, [[1.0, 0.0, 1.0]])
    np.testing.assert_allclose(arrow.batched_scales, [[0.1, 0.1, 2.0]])
    np.testing.assert_allclose(box.batched_scales, [[0.1, 0.2, 0.3]])
    assert arrow.vertices[:, 2].max() == pytest.approx(1.0)
    marks.draw([])
    assert not marks._drawn


@pytest.mark.slow
def test_tasks_side_by_side_are_drawn_each_with_its_own_model(page):
    viewer = watch(page, "MT10", 10)
    viewer.step()
    assert len(viewer._models) == 10
    assert len(viewer._now.pos) == sum(m.ngeom for m in viewer._models.values())
    viewer.env.close()


def test_another_task_is_shown_in_place_of_this_one_where_it_can_be(page, monkeypatch):
    def shown(task):
        env = rookery.make(task, 1)
        pilot = env.controller()
        if pilot is None:
            env.close()
            raise RookeryError(f"{task} has no classical controller.")
        return env, {"classical": lambda: pilot}

    seen, warned = [], []
    monkeypatch.setattr(Panel, "warn", lambda self, sentence: warned.append(sentence))

    def run(viewer):
        seen.append((viewer.env, viewer.env.task_id))
        if len(seen) == 2:
            raise KeyboardInterrupt
        assert not viewer.choose_task("hand-reorient") and viewer.next is None
        assert viewer.choose_task("panda-lift")

    monkeypatch.setattr(Viewer, "run", run)
    tasks = {t: functools.partial(shown, t) for t in ("drone-hover", "panda-lift", "hand-reorient")}
    server, _ = open_server(port=0)
    place = server.get_host(), server.get_port()
    socket.create_connection(place, timeout=5.0).close()
    show(server, *shown("drone-hover"), seed=0, tasks=tasks)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place, timeout=5.0)
    assert [name for _, name in seen] == ["drone-hover", "panda-lift"]
    assert warned == ["hand-reorient has no classical controller."]
    for env, _ in seen:
        with pytest.raises(RookeryError, match="closed"):
            env.reset()


@pytest.mark.parametrize(("computed", "passed", "rest"), [(0.01, 0.01, 0.39), (0.01, 0.3, 0.1), (0.01, 0.5, 0.0)])
def test_a_viewer_beside_a_training_rests_until_it_has_had_its_share(computed, passed, rest):
    assert _rest(computed, passed, 0.025) == pytest.approx(rest)
    assert _rest(computed, passed, 1.0) == 0.0


def test_values_that_no_control_offers_change_nothing(page):
    """As a page sends them that is no page of ours; viser hands them on."""
    viewer = watch(page, "drone-hover", 3)
    handles = {h._impl.props.label: h for h in page.gui._gui_input_handle_from_uuid.values() if hasattr(h, "value")}
    for label, value in (("World", "999"), ("Speed", float("inf")), ("Show", "nothing"), ("Follow", "maybe")):
        handle = handles[label]
        handle._impl.value = value
        for listener in handle._impl.update_cb:
            listener(None)
    viewer.run(0.2)
    assert viewer.world == 0 and viewer.speed == 1.0 and viewer.follow is True
