from __future__ import annotations

import mujoco
import numpy as np
import pytest

from rookery.assets.court import NET_THICKNESS, check_court, court
from rookery.assets.drones import RACKET_THICKNESS, quadrotor_spec
from rookery.assets.errors import RookeryError
from rookery.assets.scenery import ball
from rookery.sim.scene import Scene

SIZES = (18.0, 9.0, 2.43, 1.0)
BODY = {
    "mass": 1.0, "inertia": (0.01, 0.01, 0.015), "rotor_directions": (1, 1, -1, -1), "propeller_radius": 0.1,
    "rotor_positions": ((0.1, -0.1, 0), (-0.1, 0.1, 0), (0.1, 0.1, 0), (-0.1, -0.1, 0)),
    "body_radius": 0.2, "body_height": 0.1,
}  # fmt: skip


def geoms(model: mujoco.MjModel) -> set[str]:
    return {model.geom(i).name for i in range(model.ngeom)}


def test_a_net_of_rules_is_only_drawn():
    scene = Scene(lambda: court(*SIZES))
    assert geoms(scene.compile()) == {"ground"}
    seen = scene.compile(visual=True)
    assert {"band", "floor", "line_middle", "post_left", "post_right"} <= geoms(seen)
    assert [seen.geom(i).name for i in range(seen.ngeom) if seen.geom_contype[i]] == ["ground"]


def test_a_solid_net_fills_the_plane_below_its_edge():
    model = Scene(lambda: court(*SIZES, solid_net=True)).compile()
    net = model.geom("net")
    assert net.pos[2] + net.size[2] == pytest.approx(2.43)
    assert net.pos[2] - net.size[2] == pytest.approx(0.0)
    assert (net.pos[0], 2 * net.size[0], 2 * net.size[1]) == pytest.approx((0.0, NET_THICKNESS, 9.0))
    assert geoms(model) == {"ground", "net", "post_left", "post_right"}


def test_band_and_lines_are_where_a_court_has_them():
    model = Scene(lambda: court(*SIZES)).compile(visual=True)
    band = model.geom("band")
    assert (band.pos[2] + band.size[2], band.pos[2] - band.size[2]) == pytest.approx((2.43, 1.43))
    for name in ("back_near", "back_far"):
        line = model.geom(f"line_{name}")
        assert abs(line.pos[0]) + line.size[0] == pytest.approx(9.0)  # lines belong to the court
    assert model.geom("line_attack_near").pos[0] == pytest.approx(3.0)
    side = model.geom("line_left")
    assert side.pos[1] + side.size[1] == pytest.approx(4.5)
    post = model.geom("post_left")
    assert post.pos[1] - post.size[0] == pytest.approx(4.5)  # posts stand outside


def test_a_ball_bounces_off_a_solid_net_and_passes_over_it():
    scene = Scene(lambda: court(*SIZES, solid_net=True), dt=0.001)
    scene.add(lambda: ball(0.1, 0.3), "low", pos=(0.5, 0.0, 2.0)).add(
        lambda: ball(0.1, 0.3), "high", pos=(0.5, 1.0, 3.0)
    )
    model = scene.compile()
    data = mujoco.MjData(model)
    for name in ("low", "high"):
        data.qvel[model.joint(f"{name}/root").dofadr[0]] = -5.0
    mujoco.mj_step(model, data, 200)
    assert data.body("low/base").xpos[0] > 0
    assert data.body("high/base").xpos[0] < 0


@pytest.mark.parametrize(
    ("sizes", "word"),
    [
        ((0.0, 9.0, 2.43, 1.0), "length"),
        ((18.0, -9.0, 2.43, 1.0), "width"),
        ((18.0, 9.0, float("nan"), 1.0), "net height"),
        ((18.0, 9.0, 2.43, 0.0), "band"),
        ((18.0, 2.0, 2.43, 1.0), "higher than the court is wide"),
        ((18.0, 9.0, 2.43, 3.0), "must not be higher than the net"),
    ],
)
def test_courts_that_cannot_be(sizes, word):
    with pytest.raises(RookeryError, match=word):
        court(*sizes)


@pytest.mark.parametrize("place", [(9.1, 0, 2), (-9.1, 0, 2), (0, 4.6, 2), (0, 0, 0)])
def test_places_off_the_court(place):
    check_court(*SIZES, [(9.0, 4.5, 2.0)])
    with pytest.raises(RookeryError, match="not above the court"):
        check_court(*SIZES, [(1.0, 0.0, 2.0), place])


def test_a_racket_lies_on_the_body():
    model = quadrotor_spec(**BODY, racket_radius=0.15).compile()
    racket = model.geom("racket")
    body = model.geom("collision")
    assert racket.size[0] == pytest.approx(0.15)
    assert racket.pos[2] - racket.size[1] == pytest.approx(body.size[1])
    assert 2 * racket.size[1] == pytest.approx(RACKET_THICKNESS)
    plain = quadrotor_spec(**BODY).compile()
    assert "racket" not in geoms(plain)
    assert np.array_equal(model.body("base").mass, plain.body("base").mass)
    assert np.array_equal(model.body("base").inertia, plain.body("base").inertia)


def test_a_racket_at_a_height():
    racket = quadrotor_spec(**BODY, racket_radius=0.15, racket_height=0.09).compile().geom("racket")
    assert racket.pos[2] + racket.size[1] == pytest.approx(0.09)


@pytest.mark.parametrize("options", [{"racket_radius": -0.1}, {"racket_radius": 0.1, "racket_height": 0.03}])
def test_rackets_that_cannot_be(options):
    with pytest.raises(RookeryError, match="racket"):
        quadrotor_spec(**BODY, **options)
