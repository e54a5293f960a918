"""Trajectories: the file, what the loader refuses, resampling and the table, and the geometry under them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rookery.sim.errors import RookeryError
from rookery.tasks.locomanip.trajectories import Trajectory, load, resample, save
from rookery.tasks.locomanip.trajectory_checks import TrajectoryLimits, check, shoulder_path
from rookery.tasks.locomanip.trajectory_math import (
    angle_between,
    base_path,
    conjugate,
    from_euler,
    from_rotation_vector,
    minimum_jerk,
    multiply,
    rotate,
    slerp,
)
from rookery.tasks.locomanip.trajectory_table import TrajectoryTable


def wave(T=40, dt=0.02, seed=0, **labels):
    """A smooth trajectory within reach, while the base drives and turns."""
    rng = np.random.default_rng(seed)
    t = np.arange(T) * dt
    command = np.tile([0.3, 0.1, 0.4], (T, 1))
    base = base_path(t, command)
    ahead = np.stack((0.45 + 0.05 * np.sin(3 * t), 0.1 * np.sin(2 * t + rng.uniform()), 0.5 + 0 * t), axis=1)
    turn = from_rotation_vector(np.stack((0 * t, 0 * t, base[:, 2]), axis=1))
    pos = rotate(turn, ahead) + base * [1.0, 1.0, 0.0]
    quat = multiply(turn, from_rotation_vector(np.stack((np.sin(t), 0.5 * t, 0 * t), axis=1)))
    gripper = 0.03 + 0.03 * np.sin(t)
    labels = {"family": "wave", "name": f"wave-{seed}", "seed": seed} | labels
    return Trajectory(t, pos, quat, gripper, command, "start", **labels)


def with_object(x):
    return replace(x, object_name=("ball",), object_pos=np.array([[0.5, 0.1, 0.02]]), object_quat=np.eye(4)[:1])


ARRAYS = ("t", "pos", "quat", "gripper", "base_command", "object_pos", "object_quat")
LABELS = ("frame", "family", "name", "seed", "object_name")


# the file


def test_roundtrip_is_exact(tmp_path):
    given = [
        with_object(wave(30)),
        wave(50, seed=1),
        replace(wave(20, seed=2), frame="base", pos=np.full((20, 3), 0.3)),
    ]
    save(tmp_path / "x.npz", given)
    back = load(tmp_path / "x.npz")
    assert len(back) == 3
    for a, b in zip(given, back, strict=True):
        for name in ARRAYS:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            assert getattr(b, name).dtype == np.float64
        assert [getattr(a, n) for n in LABELS] == [getattr(b, n) for n in LABELS]
    save(tmp_path / "y.npz", back)
    assert (tmp_path / "x.npz").read_bytes() == (tmp_path / "y.npz").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "y.npz"]


def test_nothing_to_save(tmp_path):
    with pytest.raises(RookeryError, match="at least one"):
        save(tmp_path / "x.npz", [])


def test_not_a_file(tmp_path):
    with pytest.raises(RookeryError, match="there is no trajectory file"):
        load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("t, x, y")
    np.save(tmp_path / "one.npy", np.zeros(3))
    np.savez(tmp_path / "pickle.npz", pos=np.array([{}], dtype=object))
    save(tmp_path / "cut.npz", [wave()])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:2000])
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ("text.npz", "one.npy", "pickle.npz", "cut.npz", "empty.npz"):
        with pytest.raises(RookeryError, match="is not a trajectory file"):
            load(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"pos": None}, "lacks pos"),
        ({"version": np.array(2)}, "version 2, this Rookery reads version 1"),
        ({"units": np.array([["t", "ms"]])}, "has t in 'ms': convert it to 's'"),
        ({"units": np.array([["t", "s"]])}, "has pos without a unit"),
        ({"gripper": np.zeros(40, int)}, "gripper of type int64"),
        ({"first": np.array([0, 39])}, "'first' that does not fit"),
        ({"first": np.array([0, 20, 40])}, "'first' that does not fit"),
        ({"object_first": np.array([0, 1])}, "'object_first' that does not fit"),
        ({"pos": np.array(1.0)}, "'first' that does not fit"),
    ],
)
def test_bad_file(tmp_path, change, sentence):
    save(tmp_path / "x.npz", [wave()])
    arrays = dict(np.load(tmp_path / "x.npz")) | change
    np.savez(tmp_path / "x.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(RookeryError, match=sentence):
        load(tmp_path / "x.npz")


# the checks


def changed(name, rows, value):
    array = getattr(wave(), name).copy()
    array[rows] = value
    return replace(wave(), **{name: array})


JUMP = np.arange(40)[:, None] >= 20
BAD = {
    "out of reach": (
        replace(wave(), pos=wave().pos + np.array([0.6, 0.0, 0.0])),
        r"t = 0\.000 s: pos is .* m from where the shoulder will be, out of the arm's reach of 0\.75 m",
    ),
    "base does not come along": (
        replace(wave(150), base_command=np.zeros((150, 3)), pos=wave(150).pos),
        "out of the arm's reach",
    ),
    "below ground": (changed("pos", slice(None), [0.4, 0.0, -0.05]), r"0\.05 m below the ground"),
    "jump": (replace(wave(), pos=wave().pos + 0.1 * JUMP), r"t = 0\.380 s: pos jumps 0\.181 m to the next sample"),
    "turn": (
        replace(wave(), quat=np.where(JUMP, multiply(wave().quat, from_euler(0.5, 0, 0)), wave().quat)),
        r"t = 0\.380 s: quat jumps 0\.5\d* rad",
    ),
    "unnormalized": (replace(wave(), quat=wave().quat * 1.01), r"t = 0\.000 s: quat has norm 1\.01, not 1"),
    "zero quaternion": (changed("quat", 7, 0.0), r"t = 0\.140 s: quat has norm 0, not 1"),
    "millimeters": (replace(wave(), pos=wave().pos * 1000), "looks like millimeters"),
    "gripper in millimeters": (replace(wave(), gripper=wave().gripper * 1000), "opening is 30, allowed 0 to 0.3 m"),
    "gripper negative": (changed("gripper", 3, -0.01), r"t = 0\.060 s: the gripper's opening is -0\.01"),
    "degrees": (changed("base_command", slice(None), [0.1, 0.0, 20.0]), "looks like degrees per second"),
    "base too fast": (changed("base_command", 5, [30.0, 0.0, 0.0]), "the base's command is 30 m/s"),
    "Euler angles": (replace(wave(), quat=wave().quat[:, 1:]), r"quat has shape \(40, 3\): give \(40, 4\)"),
    "milliseconds": (replace(wave(), t=wave().t * 1000), "the next sample is 20 s later"),
    "late": (replace(wave(), t=wave().t + 3.0), r"starts at t = 3\.000 s"),
    "unsorted": (changed("t", 10, 0.1), r"t = 0\.180 s: time does not increase"),
    "not finite": (changed("pos", 12, np.nan), "pos is not finite in row 12"),
    "single": (
        Trajectory(*(getattr(wave(), n)[:1] for n in ("t", "pos", "quat", "gripper", "base_command"))),
        "has 1 samples: give at least two",
    ),
    "frame": (replace(wave(), frame="world"), "unknown frame 'world'"),
    "object unnormalized": (replace(with_object(wave()), object_quat=np.ones((1, 4))), "object_quat has norm 2"),
    "object in millimeters": (
        replace(with_object(wave()), object_pos=np.full((1, 3), 300.0)),
        "object_pos reaches 300 m",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_trajectory_is_refused_in_one_sentence(name):
    bad, sentence = BAD[name]
    with pytest.raises(RookeryError, match=sentence) as error:
        check(bad, where="lib.npz, trajectory 4")
    text = str(error.value)
    assert text.startswith("lib.npz, trajectory 4") and text.endswith(".") and "\n" not in text
    assert ": " in text


def test_loader_checks_and_names_file_and_number(tmp_path):
    path = tmp_path / "lib.npz"
    save(path, [wave(), replace(wave(), quat=wave().quat * 2.0)])
    with pytest.raises(
        RookeryError, match=rf"^{path}, trajectory 1 \(wave-0\) at t = 0\.000 s: quat has norm 2, not 1"
    ):
        load(path)
    assert len(load(path, limits=None)) == 2


def test_good_trajectory_passes_untouched_and_signs_are_made_continuous():
    good = check(wave())
    np.testing.assert_array_equal(good.quat, wave().quat)
    flipped = wave().quat * np.where(np.arange(40) % 3 == 1, -1.0, 1.0)[:, None]
    np.testing.assert_array_equal(check(replace(wave(), quat=flipped)).quat, wave().quat)


def test_shoulder_follows_the_base():
    x = wave()
    limits = TrajectoryLimits(shoulder=(0.1, 0.0, 0.2))
    base = base_path(x.t, x.base_command)
    path = shoulder_path(x, limits)
    np.testing.assert_allclose(path[:, 2], 0.5)
    ahead = path[:, :2] - base[:, :2]
    np.testing.assert_allclose(ahead, 0.1 * np.stack((np.cos(base[:, 2]), np.sin(base[:, 2])), axis=1), atol=1e-12)
    np.testing.assert_array_equal(shoulder_path(replace(x, frame="base"), limits), np.tile([0.1, 0.0, 0.2], (40, 1)))


# resampling and the table


@given(st.sampled_from([0.01, 0.015, 0.02, 0.05]), st.integers(2, 60))
def test_resampling_keeps_the_motion(dt, T):
    x = wave(T)
    y = resample(x, dt)
    assert y.t[-1] >= x.t[-1] - 1e-9 and y.t[-1] < x.t[-1] + dt
    for i in range(3):
        np.testing.assert_allclose(y.pos[:, i], np.interp(y.t, x.t, x.pos[:, i]), atol=1e-12)
    np.testing.assert_allclose(y.quat[-1], x.quat[-1], atol=1e-9)
    # wherever the base goes, the new commands take it there
    np.testing.assert_allclose(base_path(y.t, y.base_command)[-1], base_path(x.t, x.base_command)[-1], atol=1e-3)
    np.testing.assert_array_equal(y.base_command[-1], 0.0)


def test_table_looks_up_what_interpolation_gives():
    dt = 0.03
    rng = np.random.default_rng(3)
    library = [wave(25, seed=1), with_object(wave(60, seed=2, family="other")), wave(41, seed=3)]
    table = TrajectoryTable(library, dt)
    ids = rng.integers(0, 3, 50)
    steps = rng.integers(0, 60, 50)
    offsets = torch.tensor([-2, 0, 1, 5])
    got = table(torch.from_numpy(ids), torch.from_numpy(steps), offsets)
    assert [tuple(v.shape) for v in got] == [(50, 4, 3), (50, 4, 4), (50, 4), (50, 4, 3)]
    for n in range(50):
        x = library[ids[n]]
        for f, offset in enumerate(offsets.tolist()):
            at = max(0, steps[n] + offset) * dt
            i = min(int(np.searchsorted(x.t, min(at, x.t[-1]), side="right")) - 1, len(x.t) - 2)
            share = np.clip((at - x.t[i]) / (x.t[i + 1] - x.t[i]), 0.0, 1.0)
            want = x.pos[i] + share * (x.pos[i + 1] - x.pos[i])
            np.testing.assert_allclose(got.pos[n, f], want, atol=1e-6)
            assert angle_between(got.quat[n, f].double(), slerp(x.quat[i], x.quat[i + 1], share)) < 2e-6
            assert got.gripper[n, f].item() == pytest.approx(np.interp(at, x.t, x.gripper), abs=1e-6)
            # a constant command: the same until the end, then none
            left = table.steps[ids[n]].item() - round(at / dt)
            if left != 1:  # the last step may be cut short by the end
                np.testing.assert_allclose(
                    got.base_command[n, f], [0.3, 0.1, 0.4] if left > 0 else np.zeros(3), atol=1e-6
                )


def test_table_is_constant_after_the_end_and_leaves_its_input_alone():
    table = TrajectoryTable([wave(20), wave(30)], 0.02)
    steps = torch.tensor([19, 500])
    end = table(torch.tensor([0, 0]), steps, torch.tensor([0, 100]))
    assert steps.tolist() == [19, 500]
    for tensor in end:
        assert (tensor == tensor[0, 0]).all()
    np.testing.assert_allclose(end.pos[0, 0], wave(20).pos[-1], atol=1e-6)
    assert (end.base_command == 0).all()


def test_table_knows_families_and_objects():
    library = [wave(), with_object(wave(family="ball")), replace(wave(family="ball"), frame="base")]
    with pytest.raises(RookeryError, match="family 'ball' have the objects"):
        TrajectoryTable(library, 0.02)
    table = TrajectoryTable([wave(), with_object(wave(family="ball"))], 0.02)
    assert table.families == ["wave", "ball"] and table.family.tolist() == [0, 1] and len(table) == 2
    assert table.ids("ball").tolist() == [1] and table.in_base_frame.tolist() == [False, False]
    np.testing.assert_allclose(table.object_pos, [[[0, 0, 0]], [[0.5, 0.1, 0.02]]], atol=1e-7)
    np.testing.assert_allclose(table.object_quat, [[[1, 0, 0, 0]], [[1, 0, 0, 0]]])
    with pytest.raises(RookeryError, match="unknown family 'bal': did you mean 'ball'"):
        table.ids("bal")
    with pytest.raises(RookeryError, match="at least one"):
        TrajectoryTable([], 0.02)


# geometry


@given(st.lists(st.floats(-3, 3), min_size=9, max_size=9))
def test_quaternions_agree_with_matrices(numbers):
    import mujoco

    a, b, v = from_euler(*numbers[:3]), from_rotation_vector(numbers[3:6]), np.array(numbers[6:])
    product = np.zeros(4)
    turned = np.zeros(3)
    mujoco.mju_mulQuat(product, a, b)
    mujoco.mju_rotVecQuat(turned, v, a)
    np.testing.assert_allclose(multiply(a, b), product, atol=1e-12)
    np.testing.assert_allclose(rotate(a, v), turned, atol=1e-12)
    np.testing.assert_allclose(multiply(a, conjugate(a)), [1, 0, 0, 0], atol=1e-12)


def test_from_euler_turns_about_fixed_axes_in_turn():
    np.testing.assert_allclose(rotate(from_euler(0.0, 0.5 * np.pi, 0.0), [1, 0, 0]), [0, 0, -1], atol=1e-12)
    np.testing.assert_allclose(rotate(from_euler(0.5 * np.pi, 0.0, 0.5 * np.pi), [0, 1, 0]), [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(rotate(from_euler(0.3, 0.0, 0.5 * np.pi), [1, 0, 0]), [0, 1, 0], atol=1e-12)


@given(st.lists(st.floats(-1, 1), min_size=6, max_size=6), st.floats(0, 1))
def test_slerp_goes_the_short_way_at_constant_rate(numbers, s):
    a, b = from_rotation_vector(numbers[:3]), from_rotation_vector(numbers[3:])
    whole = angle_between(a, b)
    for end in (b, -b):
        assert angle_between(a, slerp(a, end, s)) == pytest.approx(s * whole, abs=1e-7)
        assert angle_between(slerp(a, end, s), b) == pytest.approx((1 - s) * whole, abs=1e-7)


def test_minimum_jerk_is_at_rest_at_both_ends():
    s = np.linspace(0.0, 1.0, 100001)
    x = minimum_jerk(s)
    speed = np.gradient(x, s)
    acceleration = np.gradient(speed, s)
    assert x[0] == 0.0 and x[-1] == 1.0 and (np.diff(x) >= 0.0).all()
    assert abs(speed[[0, -1]]).max() < 1e-8 and abs(acceleration[[2, -3]]).max() < 2e-3
    assert speed.max() == pytest.approx(1.875, rel=1e-6)


def test_base_path_follows_circles_exactly():
    t = np.array([0.0, 0.5, 0.7, 2.0])
    path = base_path(t, np.tile([0.4, 0.0, 0.8], (4, 1)))
    angle = 0.8 * t
    np.testing.assert_allclose(path[:, 2], angle)
    np.testing.assert_allclose(path[:, 0], 0.5 * np.sin(angle), atol=1e-12)
    np.testing.assert_allclose(path[:, 1], 0.5 * (1 - np.cos(angle)), atol=1e-12)
    # strafing, after a quarter turn
    path = base_path([0.0, 1.0, 2.0], [[0, 0, 0.5 * np.pi], [0, 0.3, 0], [9, 9, 9]])
    np.testing.assert_allclose(path[-1], [-0.3, 0.0, 0.5 * np.pi], atol=1e-12)
