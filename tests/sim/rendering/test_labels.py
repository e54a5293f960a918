"""Labels stand above what they are of: a picture says where that is."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rookery
from rookery.sim.env import AgentNote
from rookery.sim.rendering.labels import place_labels, project
from rookery.sim.rendering.overlay import Line, Overlay, annotate
from rookery.sim.rendering.renderer import Renderer
from rookery.sim.rendering.takes import Take

BALL = """<mujoco><worldbody><light pos="0 0 3"/><camera name="own" pos="-2 .5 .4" xyaxes=".2 -1 0 .1 0 1"/>
<body name="ball" pos="0 0 .5"><freejoint/><geom size=".05" rgba="1 0 0 1"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("camera", [((-2.0, 0.4, 1.0), (0.0, 0.0, 0.5)), ((1.0, -2.0, 0.2), (0.1, 0.2, 0.9)), "own"])
def test_a_point_is_where_the_picture_shows_it(camera: Any) -> None:
    model = mujoco.MjModel.from_xml_string(BALL)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    with Renderer(model, width=160, height=90, camera=camera, backend="software") as renderer:
        for _ in range(4):
            data.qpos[:3] = np.array([0.0, 0.0, 0.5]) + rng.uniform(-0.3, 0.3, 3)
            picture = renderer.render(data).astype(int)
            view = renderer.compose(data).view
            rows, columns = np.nonzero(picture[..., 0] > picture[..., 1] + 60)
            assert len(rows) > 3
            ((x, y),) = project(view, data.qpos[None, :3], 160 / 90)
            assert (x * 160, y * 90) == pytest.approx((columns.mean() + 0.5, rows.mean() + 0.5), abs=1.0)
    behind = view.eye - (view.target - view.eye)
    assert np.isnan(project(view, behind[None], 160 / 90)).all()


PLACES = st.lists(st.tuples(st.floats(-20, 340), st.floats(-20, 200), st.floats(5, 500)), min_size=1, max_size=12)


@given(PLACES)
def test_labels_are_inside_the_picture_and_not_over_each_other(drawn: list[tuple[float, float, float]]) -> None:
    at = np.array([(x, y) for x, y, _ in drawn])
    sizes = np.array([(wide, 12.0) for *_, wide in drawn])
    taken = (4.0, 4.0, 90.0, 40.0)
    boxes = place_labels(at, sizes, 320, 180, taken)
    shown = [box for box in boxes if box is not None]
    for left, top, right, bottom in shown:
        assert left >= 0 and top >= 0 and right <= max(320.0, right - left) and bottom <= 180.0
    for i, a in enumerate([taken, *shown]):
        for b in shown[i:]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for (x, y), (wide, tall), box in zip(at, sizes, boxes, strict=True):
        if box is None:
            continue
        assert 0 <= x <= 320 and 0 <= y <= 180 and box[3] <= y
        assert box[2] - box[0] == pytest.approx(wide) and box[3] - box[1] == pytest.approx(tall)


def test_a_label_alone_stands_right_above_its_place() -> None:
    picture = np.full((180, 320, 3), 200, np.uint8)
    changed = np.nonzero((annotate(picture, [Line("receive", at=(0.5, 0.6))]) != picture).any(-1))
    assert changed[0].max() <= 0.6 * 180 + 1
    assert changed[0].min() > 0.4 * 180
    assert changed[1].mean() == pytest.approx(160, abs=4)
    assert np.array_equal(annotate(picture, [Line("receive", at=(1.2, 0.6))]), picture)


class Talking:
    """A classical controller that says what its drones are about."""

    def __init__(self, env: Any) -> None:
        self.act = env.controller()

    def __call__(self, obs: Any) -> Any:
        return self.act(obs)

    def notes(self, world: int) -> list[AgentNote]:
        return [AgentNote("drone", 1, "to the net"), AgentNote("drone", 0, "waits")]


def test_a_label_moves_with_its_agent() -> None:
    env = rookery.make("swarm-surround", 2, config={"num_drones": 2})
    take = Take(env, Talking(env), [1], "", "fixed", False, (320, 180))
    shown = list(take.frames(10, 1.0, seed=0))
    for frame, lines in shown[1:]:
        said = {line.text: line.at for line in lines if line.at is not None}
        assert set(said) == {"to the net", "waits"}
        data = mujoco.MjData(take.model)
        data.qpos[:] = frame.qpos
        mujoco.mj_kinematics(take.model, data)
        for text, name in (("waits", "drone_0/base"), ("to the net", "drone_1/base")):
            ((x, y),) = project(frame.view, data.body(name).xpos[None], 320 / 180)
            at = said[text]
            assert at is not None and at[1] < y and abs(at[0] - x) < 0.02 and y - at[1] < 0.2
    env.close()


def test_agents_that_are_no_robots_of_their_own_are_named_in_the_panel() -> None:
    env = rookery.make("table-reach", 1)

    class Arm(Talking):
        def notes(self, world: int) -> list[AgentNote]:
            return [AgentNote("tool", 3, "reaches")]

    lines = list(Take(env, Arm(env), [0], "", None, False, (320, 180)).frames(10, 0.3, seed=0))[-1][1]
    assert [line.text for line in lines if line.at is None][-1] == "tool_3: reaches"
    env.close()


def test_a_match_shows_its_score() -> None:
    env = rookery.make("drone-race-match", 2)
    overlay = Overlay(env, 1)
    assert overlay.lines(0.0, {})[1].text == "red 0 : 0 blue"
    wins = {"red_wins": [1.0, 0.0], "blue_wins": [0.0, 1.0], "success": [1.0, 0.0]}
    assert overlay.note({"episode": {"ids": [0, 1], "metrics": wins}})
    assert not overlay.note({"episode": {"ids": [0], "metrics": wins}})
    assert not overlay.note({})
    overlay.note({"episode": {"ids": [1], "metrics": {"red_wins": [1.0], "blue_wins": [0.0], "success": [1.0]}}})
    assert [line.text for line in overlay.lines(1.0, {"success": [0.0, 0.0]})][1:] == ["red 1 : 1 blue"]
    env.close()


def test_a_win_counts_for_who_played_the_team_that_won() -> None:
    env = rookery.make("drone-race-match", 1)

    class Players:
        names = ("old", "new")

        def playing(self, world: int) -> dict[str, str]:
            return dict(zip(("red", "blue"), self.names, strict=True))

    meets = Players()
    overlay = Overlay(env, 0, meets=meets)
    assert overlay.lines(0.0, {})[1].text == "old (red) 0 : 0 new (blue)"
    for red in (1.0, 0.0):  # "old" wins as either
        wins = {"red_wins": [red], "blue_wins": [1.0 - red]}
        meets.names = meets.names[::-1]  # it says so of the next
        assert overlay.note({"episode": {"ids": [0], "metrics": wins}})
        said = overlay.lines(1.0, {})[1].text
    assert said == "old (red) 2 : 0 new (blue)"
    env.close()
