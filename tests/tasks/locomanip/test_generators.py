"""Generated demonstrations: they pass the loader, come from their seed, and do what their family says."""

from __future__ import annotations

import numpy as np
import pytest
from sampled import slow_but

from rookery.sim.errors import RookeryError
from rookery.tasks.locomanip import generators as gen
from rookery.tasks.locomanip.demonstration import DT, Demonstration, place, unplace
from rookery.tasks.locomanip.trajectories import load, save
from rookery.tasks.locomanip.trajectory_checks import GO2_AIRBOT, shoulder_path
from rookery.tasks.locomanip.trajectory_math import angle_between, base_path, conjugate, from_euler, multiply, rotate

GRIPS = ("pick-ball", "pick-box", "pull-drawer", "open-door", "carry")


@pytest.fixture(scope="module")
def some():
    """A few trajectories of each family."""
    return {family: gen.generate(family, 12, seed=3) for family in gen.FAMILIES}


def closed(x):
    """[T] bool: the gripper holds something: after it was open, narrower than open, for good or until it opens again."""
    opened = np.maximum.accumulate(x.gripper) > gen.OPEN - 1e-9
    return opened & (x.gripper < x.gripper[opened].min() + 1e-9)


def seen_from(x, i):
    """The hand in the frame of object i: [T, 3] and [T, 4]."""
    back = conjugate(x.object_quat[i])
    return rotate(back, x.pos - x.object_pos[i]), multiply(back, x.quat)


@pytest.mark.parametrize("family", slow_but(["open-door", "pick-box"], gen.FAMILIES))
def test_two_hundred_pass_the_loader_and_come_from_the_seed(family, tmp_path):
    whole = gen.generate(family)
    save(tmp_path / "a.npz", whole)
    back = load(tmp_path / "a.npz")
    assert len(back) == 200 and len({x.name for x in back}) == 200
    assert len({x.pos.tobytes() for x in back}) == 200
    save(tmp_path / "b.npz", whole[:9])
    save(tmp_path / "c.npz", gen.generate(family, 9, seed=0))
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    assert gen.generate(family, 1, seed=1)[0].pos.tobytes() != whole[0].pos.tobytes()


@pytest.mark.parametrize("family", gen.FAMILIES)
def test_movements_are_slow_smooth_and_within_the_arm(family, some):
    for x in some[family]:
        assert x.family == family and x.seed == 3 and x.frame == "start"
        np.testing.assert_allclose(np.diff(x.t), DT, atol=1e-12)
        velocity = np.diff(x.pos, axis=0) / DT
        speed = np.linalg.norm(velocity, axis=1)
        assert speed.max() < 1.3 and (angle_between(x.quat[1:], x.quat[:-1]) / DT).max() < 2.5
        assert max(speed[0], speed[-1]) == 0.0 and not x.base_command[[0, -1]].any()
        assert np.linalg.norm(np.diff(velocity, axis=0), axis=1).max() / DT < 15.0  # m/s^2: no corner anywhere
        assert np.abs(np.diff(x.base_command, axis=0)).max() / DT < 8.0
        assert np.abs(x.base_command).max(0)[0] < 0.8 and np.abs(x.base_command[:, 2]).max() < 1.2
        assert x.gripper.min() >= 0.0 and x.gripper.max() <= gen.OPEN
        wrist = x.pos - gen.WRIST * rotate(x.quat, [1.0, 0.0, 0.0]) - shoulder_path(x, GO2_AIRBOT)
        distance = np.linalg.norm(wrist, axis=1)
        assert distance.max() < 0.56 and distance.min() > 0.1  # 0.27 m and 0.29 m of links


@pytest.mark.parametrize("family", GRIPS)
def test_gripper_closes_where_the_thing_is(family, some):
    for x in some[family]:
        pos, _ = seen_from(x, 0)
        begin = np.flatnonzero(closed(x))[0]
        # things on the floor are gripped somewhat above their middle
        above = gen.TIPS_UP if family in ("pick-ball", "pick-box", "carry") else 0.0
        np.testing.assert_allclose(pos[begin], [0.0, 0.0, above], atol=1e-9)
        # on the way in it is open, and comes along its own axis
        way = x.pos[begin] - x.pos[begin - 40]
        assert x.gripper[begin - 40] > x.gripper[begin] + 0.01
        ahead = rotate(x.quat[begin], [1.0, 0.0, 0.0])
        assert np.linalg.norm(np.cross(way, ahead)) < 1e-6


@pytest.mark.parametrize("family", [f for f in gen.FAMILIES if f != "reach"])
def test_the_base_drives_up_and_stands_before_the_hand_leaves_its_place(family, some):
    """By the integral of its commands; the hand rides on the trunk until then."""
    for x in some[family]:
        step = np.diff(x.t)
        driven = np.cumsum(x.base_command[:-1, 0] * step)
        moves = np.flatnonzero(np.abs(x.base_command[:-1]).max(1) > 1e-9)
        first = moves[0]
        rest = first + np.flatnonzero(np.abs(x.base_command[first:-1]).max(1) < 1e-9)[0]
        assert 0.15 < driven[rest] < 0.85
        assert (np.abs(x.base_command[rest : rest + int(0.9 / step[0])]) < 1e-9).all()


@pytest.mark.parametrize("family", ["pick-ball", "pick-box"])
def test_pick_lifts_straight_up_from_the_floor(family, some):
    for x in some[family]:
        held = x.pos[closed(x)]
        assert held[0, 2] < 0.05 and held[-1, 2] - held[0, 2] > 0.19
        np.testing.assert_allclose(held[:, :2], held[:1, :2].repeat(len(held), 0), atol=1e-9)
        assert (rotate(x.quat[closed(x)], [1.0, 0.0, 0.0])[:, 2] < -0.9).all()  # fingers down


@pytest.mark.parametrize("family", ["pick-box", "carry"])
def test_fingers_close_on_the_narrow_sides_of_the_box(family, some):
    for x in some[family]:
        _, quat = seen_from(x, 0)
        begin = np.flatnonzero(closed(x))[0]
        np.testing.assert_allclose(rotate(quat[begin], [0.0, 1.0, 0.0]), [0.0, 1.0, 0.0], atol=1e-9)
        assert x.gripper[begin] < 2 * gen.BOX_HALF[1]


def test_push_goes_from_the_box_to_its_goal(some):
    for x in some["push-box"]:
        pos, _ = seen_from(x, 0)
        assert not x.gripper.any()
        shift = x.object_pos[1] - x.object_pos[0]
        along = shift / np.linalg.norm(shift)
        end = np.argmax(x.pos @ along)
        pushed = shift + gen.FURTHER * along
        begin = np.flatnonzero(np.linalg.norm(x.pos + pushed - x.pos[end], axis=1) < 1e-9)[-1]
        # hand at the rear face, then straight as far as the box shall go, driven by the base
        assert pos[begin, 0] == pytest.approx(-gen.PUSH_BOX_HALF[0], abs=0.006)
        assert abs(pos[begin, 1]) < 0.02 and x.pos[begin, 2] < 0.17
        assert np.linalg.norm(np.cross(x.pos[begin : end + 1] - x.pos[begin], along), axis=1).max() < 1e-9
        driven = np.diff(base_path(x.t, x.base_command)[[begin, end], :2], axis=0)[0]
        np.testing.assert_allclose(driven, pushed[:2], atol=1e-9)
        assert 0.5 <= np.linalg.norm(shift) <= 1.0


def test_drawer_is_pulled_straight_to_its_goal(some):
    for x in some["pull-drawer"]:
        pos, quat = seen_from(x, 0)
        held = pos[closed(x)]
        assert np.abs(held[:, 1:]).max() < 1e-9 and (np.diff(held[:, 0]) < 1e-12).all()
        np.testing.assert_allclose(held[-1], seen_from(x, 0)[0][closed(x)][-1])
        np.testing.assert_allclose(x.pos[closed(x)][-1], x.object_pos[1], atol=1e-9)
        assert 0.12 <= -held[-1, 0] <= 0.22
        # a horizontal bar: the fingers close vertically
        assert abs(rotate(quat[closed(x)][0], [0.0, 1.0, 0.0])[2]) == pytest.approx(1.0)


def test_door_handle_is_pressed_and_swings_about_the_hinge(some):
    for x in some["open-door"]:
        assert 0.45 <= x.object_pos[0, 2] <= 0.60
        hand, _ = seen_from(x, 1)
        held = hand[closed(x)]
        radius = np.linalg.norm(held[:, :2], axis=1)
        pressed = gen.LEVER * (1 - np.cos(gen.LEVER_TURN))  # the grip swings away from the hinge, towards the pivot
        assert radius.min() == pytest.approx(gen.DOOR_WIDTH) and radius.max() == pytest.approx(gen.DOOR_WIDTH + pressed)
        down = held[0, 2] - held[:, 2].min()
        assert down == pytest.approx(gen.LEVER * np.sin(gen.LEVER_TURN))
        # while it swings, the lever stays down and the hand stays on one circle
        swing = held[:, 2] < held[:, 2].min() + 1e-9
        assert np.ptp(radius[swing]) < 1e-9
        angle = np.arctan2(-held[:, 0], -held[:, 1])
        assert 0.5 <= angle.max() <= 0.8 and abs(angle[0]) < 1e-9 and (np.diff(angle) > -1e-9).all()
        assert angle[-1] == pytest.approx(angle.max())
        # the hand turns with the lever and the door
        first = multiply(conjugate(x.object_quat[1]), x.quat[closed(x)][0])
        turned = multiply(from_euler(0.0, 0.0, -angle[-1]), multiply(from_euler(-gen.LEVER_TURN, 0.0, 0.0), first))
        assert angle_between(turned, seen_from(x, 1)[1][closed(x)][-1]) < 1e-6


def test_button_is_pressed_by_its_travel(some):
    for x in some["press-button"]:
        pos, _ = seen_from(x, 0)
        assert pos[:, 0].max() == pytest.approx(gen.BUTTON_TRAVEL)
        assert np.abs(pos[pos[:, 0] > -0.0795, 1:]).max() < 1e-9
        assert pos[-1, 0] == pytest.approx(-0.08)


def test_board_is_wiped_all_over(some):
    for x in some["wipe-board"]:
        pos, quat = seen_from(x, 0)
        on = np.abs(pos[:, 0] - gen.WIPE_PRESS) < 1e-9
        assert np.ptp(pos[on, 1]) >= 0.2 and np.ptp(pos[on, 2]) >= 0.12
        np.testing.assert_allclose(np.abs(quat[on, 0]), 1.0, atol=1e-9)  # square to the board
        middle = pos[on & (np.abs(pos[:, 1]) < 0.02), 2]
        rows = 1 + (np.abs(np.diff(middle)) > 0.02).sum()
        assert rows in (3, 4) and pos[on, 0].max() == pos[:, 0].max()


def test_carried_box_arrives_at_its_goal(some):
    for x in some["carry"]:
        held = np.flatnonzero(closed(x))
        np.testing.assert_allclose(x.pos[held[-1]], x.object_pos[1] + [0.0, 0.0, gen.TIPS_UP], atol=1e-9)
        goal_turn = multiply(conjugate(x.object_quat[1]), x.quat[held[-1]])
        box_turn = multiply(conjugate(x.object_quat[0]), x.quat[held[0]])
        assert angle_between(goal_turn, box_turn) < 1e-6
        base = base_path(x.t, x.base_command)
        assert 0.75 < np.linalg.norm(base[held[-1], :2] - base[held[0], :2]) < 1.25
        assert x.gripper[-1] == gen.OPEN and x.pos[-1, 2] > 0.15


def test_reach_covers_the_space(some):
    points = np.concatenate([unplace(base_path(x.t, x.base_command), x.pos, x.quat)[0] for x in some["reach"]])
    assert (np.ptp(points, axis=0) > [0.3, 0.6, 0.5]).all()


def test_pieces_of_a_demonstration():
    demo = Demonstration([0.4, 0.0, 0.5], [1.0, 0.0, 0.0, 0.0], 0.0)
    demo.drive(0.6, 0.5)
    # the end of an arc of 0.6 m and 0.5 rad
    np.testing.assert_allclose(demo.base, [1.2 * np.sin(0.5), 1.2 * (1 - np.cos(0.5)), 0.5], atol=1e-12)
    np.testing.assert_allclose(demo.pos, place(demo.base, [0.4, 0.0, 0.5], [1.0, 0, 0, 0])[0], atol=1e-12)
    demo.go(*demo.near([0.5, 0.1, 0.3], pitch=1.0), opening=0.05)
    demo.drive(-0.2)
    x = demo.finish("test", "test-0", 0, [])
    np.testing.assert_allclose(base_path(x.t, x.base_command)[-1], demo.base, atol=1e-12)
    pos, quat = unplace(demo.base, x.pos[-1], x.quat[-1])
    np.testing.assert_allclose(pos, [0.5, 0.1, 0.3], atol=1e-12)
    assert angle_between(quat, from_euler(0.0, 1.0, 0.0)) < 1e-7 and x.gripper[-1] == 0.05


def test_wrong_requests():
    with pytest.raises(RookeryError, match="unknown trajectory family 'pick-bal': did you mean 'pick-ball'"):
        gen.generate("pick-bal")
    for count, seed in ((0, 0), (1, -1)):
        with pytest.raises(RookeryError, match="seed of at least 0 and a count of at least 1"):
            gen.generate("reach", count, seed)
