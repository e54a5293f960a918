"""Recording: what a device asks for is what the file holds, and it always passes the loader."""

from __future__ import annotations

import os
import termios
import time

import numpy as np
import pytest
from gymnasium.spaces import Box

from rookery.sim.errors import RookeryError
from rookery.tasks.locomanip import recorder as rec
from rookery.tasks.locomanip.demonstration import unplace
from rookery.tasks.locomanip.trajectories import load
from rookery.tasks.locomanip.trajectory_checks import GO2_AIRBOT, check
from rookery.tasks.locomanip.trajectory_math import angle_between, base_path, from_euler, multiply

HOME = np.array(rec.HOME_POS)


def controller(*moves):
    """A device that makes these moves, then is done."""
    left = list(moves)
    return lambda: left.pop(0) if left else rec.Move(done=True)


def test_moves_add_up():
    move = rec.Move(delta_pos=(0.002, 0.001, -0.003), delta_rot=(0.0, 0.0, 0.01), gripper=0.03)
    x = rec.Recorder(controller(*[move] * 10), family="demo").record(5.0)
    assert len(x.t) == 11 and x.t[-1] == pytest.approx(0.2) and (x.family, x.name) == ("demo", "demo-000")
    np.testing.assert_allclose(x.pos, HOME + np.arange(11)[:, None] * np.array([0.002, 0.001, -0.003]), atol=1e-12)
    want = multiply(from_euler(0.0, 0.0, 0.1), from_euler(0.0, rec.HOME_PITCH, 0.0))
    assert angle_between(x.quat[-1], want) < 1e-7
    assert x.gripper[0] == rec.MAX_OPENING and (x.gripper[1:] == 0.03).all() and not x.base_command.any()


def test_hand_rides_on_the_base_in_the_start_frame_and_rests_in_the_base_frame():
    moves = [rec.Move(base_command=(0.5, 0.1, 0.6))] * 50
    x = rec.Recorder(controller(*moves)).record(5.0)
    base = base_path(x.t, x.base_command)
    np.testing.assert_allclose(base_path(x.t, np.tile([0.5, 0.1, 0.6], (51, 1))), base, atol=1e-12)
    pos, quat = unplace(base, x.pos, x.quat)
    np.testing.assert_allclose(pos, np.tile(HOME, (51, 1)), atol=1e-12)
    assert angle_between(quat, from_euler(0.0, rec.HOME_PITCH, 0.0)).max() < 1e-6
    y = rec.Recorder(controller(*moves), frame="base").record(5.0)
    assert y.frame == "base"
    np.testing.assert_allclose(y.pos, np.tile(HOME - [0.0, 0.0, GO2_AIRBOT.stand_height], (51, 1)), atol=1e-12)
    np.testing.assert_array_equal(y.base_command, x.base_command)


@pytest.mark.parametrize("frame", ["start", "base"])
def test_whatever_a_device_asks_for_passes_the_loader(frame, tmp_path):
    rng = np.random.default_rng(0)
    corners = [(1, 1, 1), (-1, 1, -1), (1, -1, -1), (0, 0, -1), (-1, -1, 1)]

    def wild():
        k = rng.integers(len(corners))
        return rec.Move(np.multiply(corners[k], 0.5), rng.normal(size=3) * 5, rng.normal(), rng.normal(size=3) * 9)

    r = rec.Recorder(wild, frame=frame)
    for _ in range(3):
        r.record(3.0)
    held = iter([corners[3]] * 150)
    r.device = lambda: rec.Move(next(held), (0.0, 0.0, 9.0), 1.0, (9.0, 9.0, 9.0))
    r.record(3.0)
    r.save(tmp_path / "x.npz")
    back = load(tmp_path / "x.npz")
    assert [x.name for x in back] == [f"recorded-{k:03d}" for k in range(4)]
    # pressed down for 3 s: it ends on the ground, or at the end of the arm above it
    floor = back[3].pos[-1, 2] + (GO2_AIRBOT.stand_height if frame == "base" else 0.0)
    assert floor == pytest.approx(0.0, abs=1e-9)
    assert back[3].gripper[-1] == rec.MAX_OPENING
    np.testing.assert_array_equal(back[3].base_command[5], rec.MAX_BASE)


def test_hand_stops_at_the_end_of_the_arm():
    r = rec.Recorder(lambda: rec.Move(delta_pos=(1.0, 0.0, 0.0)))
    x = r.record(2.0)
    speed = np.linalg.norm(np.diff(x.pos, axis=0), axis=1) / 0.02
    assert speed.max() == pytest.approx(rec.MAX_SPEED)
    shoulder = np.array([0.0, 0.0, GO2_AIRBOT.stand_height + GO2_AIRBOT.shoulder[2]])
    assert np.linalg.norm(x.pos[-1] - shoulder) == pytest.approx(GO2_AIRBOT.reach, abs=0.002)


def test_every_recording_starts_anew_and_steps_are_told():
    seen = []
    r = rec.Recorder(lambda: rec.Move(delta_pos=(0.001, 0.0, 0.0)))
    first = r.record(0.1, on_step=lambda me: seen.append(me.pos[0]))
    second = r.record(0.1)
    np.testing.assert_array_equal(first.pos, second.pos)
    np.testing.assert_allclose(seen, first.pos[1:, 0])
    r.step()
    r.restart()
    with pytest.raises(RookeryError, match="nothing was recorded"):
        r.finish()
    assert len(r.trajectories) == 2


def test_realtime_keeps_to_the_clock():
    begin = time.monotonic()
    rec.Recorder(lambda: rec.Move()).record(0.2, realtime=True)
    assert time.monotonic() - begin >= 0.2 - 1e-3


@pytest.mark.parametrize(
    ("move", "sentence"),
    [
        (rec.Move(delta_pos=(0.0, 0.0)), "delta_pos"),
        (rec.Move(delta_rot=(0.0, np.nan, 0.0)), "delta_rot"),
        (rec.Move(base_command=(np.inf, 0.0, 0.0)), "base_command"),
        (rec.Move(gripper=np.nan), "gripper = nan: give finite numbers"),
    ],
)
def test_bad_moves(move, sentence):
    with pytest.raises(RookeryError, match=sentence):
        rec.Recorder(controller(move)).step()


def test_bad_frame():
    with pytest.raises(RookeryError, match="unknown frame 'world'"):
        rec.Recorder(controller(), frame="world")


def test_gym_device_takes_callables_and_actors():
    space = Box(-1.0, 1.0, (10,), seed=0)
    x = rec.Recorder(rec.GymDevice(space.sample)).record(1.0)
    check(x)
    assert len(x.t) == 51 and np.abs(x.base_command).max() > 0.1

    class Policy:
        def act(self, observation):
            return np.concatenate((observation, [2.0, 0, 0, 1.0]))

    device = rec.GymDevice(Policy(), observe=lambda: [1.0, 0.0, -1.0])
    move = device()
    np.testing.assert_allclose(move.delta_pos, [0.01, 0.0, -0.01])
    np.testing.assert_allclose(move.delta_rot, [0.06, 0.0, 0.0])
    assert move.gripper == rec.MAX_OPENING and not np.any(move.base_command)
    assert rec.GymDevice(lambda: -np.ones(10))().gripper == 0.0
    np.testing.assert_allclose(rec.GymDevice(lambda: -np.ones(10))().base_command, np.negative(rec.MAX_BASE))


def test_gym_device_refuses_what_is_none():
    with pytest.raises(RookeryError, match="int is no device"):
        rec.GymDevice(3)
    with pytest.raises(RookeryError, match=r"shape \(4,\): give 7 or 10"):
        rec.GymDevice(lambda: np.zeros(4))()


@pytest.fixture
def keys():
    """(a keyboard device, a function that types)."""
    read, write = os.pipe()
    yield rec.KeyboardDevice(read), lambda text: os.write(write, text.encode())
    for fd in (read, write):
        os.close(fd)


def test_keys_move_hand_base_and_gripper(keys):
    device, press = keys
    assert not device().done  # no key: nothing moves
    press("wwaf" + "l" + "\x1b[A\x1b[A\x1b[D," + " ?")
    move = device()
    np.testing.assert_allclose(move.delta_pos, [2 * rec.STEP, rec.STEP, -rec.STEP])
    np.testing.assert_allclose(move.delta_rot, [0.0, 0.0, -rec.TURN])
    np.testing.assert_allclose(move.base_command, [2 / 8 * rec.MAX_BASE[0], rec.MAX_BASE[1] / 8, rec.MAX_BASE[2] / 8])
    assert move.gripper == 0.0
    # the base goes on, the hand rests
    again = device()
    assert not np.any(again.delta_pos) and again.gripper == 0.0
    np.testing.assert_array_equal(again.base_command, move.base_command)
    press("x " + "\x1b[B" * 20)
    np.testing.assert_allclose(device().base_command, [-rec.MAX_BASE[0], 0.0, 0.0])
    assert device().gripper == rec.MAX_OPENING
    press("q")
    assert device().done


def test_every_documented_key_does_something(keys):
    device, press = keys
    for key in [*"wsadrfuoikjl"]:
        press(key)
        move = device()
        assert np.count_nonzero(np.concatenate((move.delta_pos, move.delta_rot))) == 1, key
        assert f" {key} " in rec.KeyboardDevice.__doc__


def test_arrow_that_comes_in_two_parts(keys):
    device, press = keys
    press("\x1b")
    assert not np.any(device().base_command)
    press("[Cw")
    move = device()
    assert move.base_command[2] < 0.0 and move.delta_pos[0] == rec.STEP


def test_end_of_input_is_done():
    read, write = os.pipe()
    os.write(write, b"w")
    os.close(write)
    x = rec.Recorder(rec.KeyboardDevice(read)).record(1.0)
    os.close(read)
    assert len(x.t) == 2 and x.pos[1, 0] > x.pos[0, 0]


def test_terminal_gives_keys_at_once_and_is_set_back():
    main, terminal = os.openpty()
    before = termios.tcgetattr(terminal)
    with rec.KeyboardDevice(terminal) as device:
        os.write(main, b"w")  # no newline
        time.sleep(0.05)
        assert np.asarray(device().delta_pos)[0] == rec.STEP
        assert termios.tcgetattr(terminal) != before
    assert termios.tcgetattr(terminal) == before
    os.close(main)
    os.close(terminal)
