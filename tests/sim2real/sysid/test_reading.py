"""Readers and checks: every kind of log that can be made here, and every fault, one sentence each."""

from __future__ import annotations

import dataclasses
import json
import math
import struct

import numpy as np
import pytest

from rookery.sim.errors import RookeryError
from rookery.sim2real.runtime.flight_log import FlightLog
from rookery.sim2real.runtime.flown import read_flight
from rookery.sim2real.runtime.pilot import Phase, StepRecord
from rookery.sim2real.runtime.reading import Reading
from rookery.sim2real.sysid.readers.reading import read_table
from rookery.sim2real.sysid.readers.ulog import continuous
from rookery.sim2real.sysid.settings import LogSettings, beside, joint_log
from rookery.sim2real.sysid.table import Table, merge
from tests.sim2real.sysid.simulated import JOINTS, nominal_leg

GAINS = LogSettings(kp=(20.0,), kd=(1.0,))
TIME = np.arange(1000) * 0.005
TARGET = np.stack([0.3 * np.sin(2 * np.pi * f * TIME) + c for f, c in ((0.5, 0.0), (0.8, 0.7), (1.1, -1.4))], axis=1)
POSITION = 0.9 * TARGET


def arrays(**changes):
    return {"time": TIME, "position": POSITION, "target": TARGET, "joints": np.array(JOINTS)} | changes


def written(tmp_path, **changes):
    path = tmp_path / "log.npz"
    np.savez(path, **{k: v for k, v in arrays(**changes).items() if v is not None})
    return path


def read(path, settings=GAINS):
    return joint_log(read_table(path), settings.over(beside(path)), nominal_leg())


def test_arrays(tmp_path):
    log = read(written(tmp_path))
    assert log.position == pytest.approx(POSITION) and log.target == pytest.approx(TARGET)
    assert log.time == pytest.approx(TIME) and (log.kp == 20.0).all()


def test_joints_in_another_order_and_gains_in_the_file(tmp_path):
    order = [2, 0, 1]
    path = written(
        tmp_path, joints=np.array(JOINTS)[order], position=POSITION[:, order], target=TARGET[:, order],
        kp=np.array([3.0, 1.0, 2.0]), kd=0.5,
    )  # fmt: skip
    log = read(path, LogSettings())
    assert log.position == pytest.approx(POSITION)
    assert log.kp == pytest.approx([1.0, 2.0, 3.0]) and log.kd == pytest.approx([0.5] * 3)


def test_text_with_other_names_units_and_a_file_beside_it(tmp_path):
    path = tmp_path / "log.csv"
    rows = [";".join(("t", *(f"q_{j}" for j in JOINTS), *(f"cmd{i}" for i in range(3)), "note"))]
    for t, q, u in zip(TIME, np.degrees(POSITION), np.degrees(TARGET), strict=True):
        rows.append(";".join(f"{v:.9g}" for v in (1e3 * t, *q, *u)) + ";")
    path.write_text("\n".join(rows) + "\n")
    path.with_suffix(".toml").write_text(
        'kp = 20\nkd = [1, 1, 1]\ndegrees = true\ntime_unit = "ms"\n[columns]\ntime = "t"\nposition = "q_*"\ntarget = "cmd*"\n'
    )
    log = read(path, LogSettings())
    assert log.position == pytest.approx(POSITION, abs=1e-7) and log.target == pytest.approx(TARGET, abs=1e-7)
    assert log.time == pytest.approx(TIME)


def test_a_log_without_times_needs_a_rate(tmp_path):
    path = written(tmp_path, time=None)
    assert read(path, dataclasses.replace(GAINS, rate=200.0)).time == pytest.approx(TIME)
    with pytest.raises(RookeryError, match=r"has no times: give --rate"):
        read(path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"time": np.r_[TIME[:500], TIME[400:900]]}, r"sample 500 is at 2 s, not after sample 499 at 2\.495 s: sort the log"),
        ({"time": TIME + (TIME > 2.0) * 0.7}, r"1 gaps, the first of 0\.705 s after 2\.00 s"),
        ({"time": 1e3 * TIME}, r"give --time-unit"),
        ({"position": np.degrees(POSITION), "target": np.degrees(TARGET)}, r"give --degrees if these are degrees"),
        ({"position": POSITION + 3.0 * np.array([0, 0, 1])[None] * 2}, r"check the order of the joints"),
        ({"target": TARGET + 2.0}, r"is saturated in 100 % of the samples"),
        ({"time": TIME[:90], "position": POSITION[:90], "target": TARGET[:90]}, r"too short to identify anything"),
        ({"position": 0.0 * POSITION, "target": 0.0 * TARGET}, r"no joint moves"),
        ({"position": np.where(TIME[:, None] == 1.0, np.nan, POSITION)}, r"position of hip at 1\.000 s is no number"),
        ({"target": None}, r"needs the joints' positions and targets"),
        ({"joints": np.array(["a", "b", "c"])}, r"has position of a, b, c, and not of hip, thigh, calf"),
        ({"target": TARGET[:, :2]}, r"target"),
    ],
    ids=["unsorted", "gap", "ms", "degrees", "order", "saturated", "short", "still", "nan", "no target", "names", "width"],
)  # fmt: skip
def test_faults_are_one_sentence(tmp_path, changes, sentence):
    settings = dataclasses.replace(GAINS, kp=(100.0,)) if "saturated" in sentence else GAINS
    with pytest.raises(RookeryError, match=sentence) as caught:
        read(written(tmp_path, **changes), settings)
    assert "\n" not in str(caught.value)


def test_stretches_between_gaps_count_each_by_itself(tmp_path):
    path = written(tmp_path, time=TIME + (TIME > 2.0) * 0.7)
    assert read(path, dataclasses.replace(GAINS, skip_gaps=True)).pieces == (0, 401)
    short = read(written(tmp_path, time=TIME + (TIME > 0.5) * 0.7), dataclasses.replace(GAINS, skip_gaps=True))
    assert len(short.time) == 899 and "left out" in short.notes[0]


def test_damaged_and_unknown_files(tmp_path):
    for name, content, sentence in (
        ("a.npz", b"PK no zip", r"a\.npz cannot be read as \.npz"),
        ("a.csv", b"t;x\n1;two\n", r"line 2 has 'two' for x"),
        ("b.csv", b"t\n", r"a line of names and lines of numbers"),
        ("c.csv", b"t,t\n1,2\n", r"two columns have the name 't'"),
        ("a.log", b"", r"of no kind that is read"),
        ("a.mcap", b"no mcap", r"damaged MCAP file: \w"),
        ("b.mcap", b"", r"damaged MCAP file: \w"),
        ("a.ulg", b"", r"damaged ULog file: \w"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(RookeryError, match=sentence):
            read_table(tmp_path / name)
    with pytest.raises(RookeryError, match=r"there is no log"):
        read_table(tmp_path / "none.npz")


def test_wrong_settings_beside_a_log(tmp_path):
    for line, sentence in (
        ("kpp = 1", "kpp"),
        ("kp = true", r"log.toml: kp\[0\] needs a number of at least 0, got True"),
        ("kd = [1.0, true]", r"kd\[1\] needs a number of at least 0, got True"),
        ("kd = -1", r"kd\[0\] needs a number of at least 0, got -1"),
        ("kp = inf", r"kp\[0\] needs a finite number"),
        ("kp = []", "kp needs a list of at least 1"),
        ("rate = 0", "rate needs a number above 0, got 0"),
        ("rate = inf", "rate needs a finite number"),
        ("degrees = 1", "degrees needs true or false, got 1"),
        ('time_unit = "h"', "time_unit 'h'"),
        ('joints = "hip"', "joints needs a list"),
        ("columns = 3", "columns needs values by name"),
    ):
        (tmp_path / "log.toml").write_text(line + "\n")
        with pytest.raises(RookeryError, match=sentence):
            beside(tmp_path / "log.npz")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"time": TIME[:0], "position": POSITION[:0], "target": TARGET[:0]}, "has no samples"),
        ({"target": TARGET[:-3]}, "has 1000 samples of time and 997 of target"),
        ({"kp": 20.0, "kd": math.nan}, "kd must be a number from 0"),
        ({"kp": -20.0, "kd": 1.0}, "kp must be a number from 0"),
        ({"kp": np.array([1.0, 2.0]), "kd": 1.0}, "or one for each of the 3 joints"),
        ({"kp": "stiff", "kd": 1.0}, "got 'stiff'"),
        ({"time": None, "rate": 0.0}, "rate must be a number of Hz above 0"),
        ({"time": None, "rate": "fast"}, "rate must be a number of Hz above 0"),
        ({"time": None, "rate": np.array([100.0, 200.0])}, "rate must be a number of Hz above 0"),
    ],
)
def test_numbers_of_a_file_that_are_none_or_too_few(tmp_path, changes, sentence):
    with pytest.raises(RookeryError, match=sentence) as error:
        read_table(written(tmp_path, **changes))
    assert "\n" not in str(error.value)


def test_velocities_in_degrees_are_told_and_not_used(tmp_path):
    log = read(written(tmp_path, velocity=np.degrees(np.gradient(POSITION, TIME, axis=0))))
    assert log.velocity is None and "they are in degrees/s, as it seems" in log.notes[-1]


def test_degrees_for_radians(tmp_path):
    bent = dataclasses.replace(nominal_leg(), upper=np.array([1.0, 2.0, -0.8]))  # as a Go2's calf
    with pytest.raises(RookeryError, match="leave --degrees out if these are radians"):
        joint_log(read_table(written(tmp_path)), dataclasses.replace(GAINS, degrees=True), bent)


@pytest.mark.parametrize("kind", [".ulg", ".mcap", ".db3", ".npz", ".csv", ""])
def test_bytes_of_any_kind_are_one_sentence(tmp_path, kind):
    """Behind a valid beginning, where a format has one."""
    pytest.importorskip("pyulog")
    rng = np.random.default_rng(0)
    begin = {".ulg": b"ULog\x01\x12\x35\x01", ".mcap": b"\x89MCAP0\r\n", ".csv": b"time,x\n"}.get(kind, b"")
    for n in range(20):
        path = tmp_path / f"{n}" if not kind else tmp_path / f"{n}{kind}"
        if kind:
            path.write_bytes(begin + rng.bytes(30 * n))
        else:
            path.mkdir()
            (path / "metadata.yaml").write_bytes(b"a: [b\n" + rng.bytes(n))
        with pytest.raises(RookeryError) as error:
            read_table(path)
        assert "\n" not in str(error.value) and str(error.value).endswith("."), str(error.value)


def test_columns_that_are_not_there():
    table = Table("log", {"a": TIME})
    with pytest.raises(RookeryError, match=r"no column 'q_\*'; it has a"):
        table.renamed({"position": "q_*"})


def test_streams_of_different_rates_are_merged():
    slow, fast = np.arange(0.0, 1.0, 0.1), np.arange(0.05, 0.8, 0.01)
    out = merge({"x": (fast, 2 * fast), "y": (slow, 3 * slow), "u": (slow, slow)}, "x", ["u"])
    assert out["x"] == pytest.approx(2 * out["time"]) and out["y"] == pytest.approx(3 * out["time"])
    assert out["u"] == pytest.approx(np.floor(out["time"] * 10 + 1e-9) / 10)


def test_quaternions_do_not_jump():
    q = np.array([[1.0, 0, 0, 0], [-0.99, -0.1, 0, 0], [0.98, 0.2, 0, 0]])
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    assert ((continuous(q)[1:] * continuous(q)[:-1]).sum(axis=1) > 0).all()


def test_crazyflie_logs(tmp_path):
    """Pitch counts nose up there; rates are in degrees, times in ms, motors in 1/65535."""
    states = [f"stateEstimate.{n}" for n in ("x", "y", "z", "roll", "pitch", "yaw")]
    names = ["Timestamp", *states, "gyro.x", "gyro.y", "gyro.z",
             *(f"motor.m{i}" for i in range(1, 5))]  # fmt: skip
    rows = [",".join(names)]
    rows += [
        ",".join(map(str, (10 * i, 0, 0, 1, 0, -90, 0, 57.29577951, 0, 0, 65535, 0, 0, 32767.5))) for i in range(5)
    ]
    (tmp_path / "cf.csv").write_text("\n".join(rows))
    columns = read_table(tmp_path / "cf.csv").columns
    assert columns["time"] == pytest.approx(0.01 * np.arange(5))
    half = np.sqrt(0.5)  # nose down is a positive turn about y, left
    assert [columns[f"quaternion.{a}"][0] for a in "wxyz"] == pytest.approx([half, 0, half, 0])
    assert columns["angular_velocity.x"] == pytest.approx(1.0)
    assert [columns[f"motors.{i}"][0] for i in range(1, 5)] == pytest.approx([1, 0, 0, 0.5])


def test_our_flight_logs(tmp_path):
    pytest.importorskip("mcap")
    from mcap.writer import Writer

    path = tmp_path / "walk.mcap"
    joints = [{"name": n, "kp": 20.0, "kd": 1.0, "lower": -3.0, "upper": 3.0} for n in JOINTS]
    action = {"kind": "leg_position", "names": list(JOINTS)}
    contract = {"groups": {"dog": {"action": action, "actuation": {"joints": joints}}}}
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start(profile="", library="test")
        schema = writer.register_schema("rookery.Step", "jsonschema", b"{}")
        channel = writer.register_channel("/0/step", "json", schema)
        writer.add_metadata("rookery.contract", {"json": json.dumps(contract)})
        for i, t in enumerate(TIME):
            step = {"time": t + 0.002, "phase": "policy" if i > 5 else "entry", "measured": t + 100.0, "received": t + 0.001,
                    "state": {"joint angles": POSITION[i].tolist()}, "command": TARGET[i].tolist()}  # fmt: skip
            writer.add_message(channel, log_time=i, publish_time=i, data=json.dumps(step).encode())
        writer.finish()
    log = read(path, LogSettings())
    assert (log.kp == 20.0).all() and len(log.time) > 900
    # at the times of the records, of measurements as old as the quickest packet says: 1 ms before them
    when = log.time + TIME[6] + 0.002
    assert log.position[:, 1] == pytest.approx(np.interp(when - 0.001, TIME, POSITION[:, 1]), abs=1e-4)


@pytest.mark.parametrize("walks", [False, True])
def test_a_robot_that_is_not_held_is_refused(tmp_path, walks):
    pytest.importorskip("mcap")
    rng = np.random.default_rng(0)
    path = tmp_path / "dog.mcap"
    with FlightLog(path, {"groups": {"dog": {"action": {"names": list(JOINTS)}}}}) as log:
        for i in range(600):
            t = 0.01 * i
            gyroscope = 0.01 * rng.standard_normal(3) + walks * np.array([0.0, 0.3 * np.sin(12.0 * t), 0.0])
            values = {"joint angles": np.sin(t + np.arange(3)), "angular velocity": gyroscope}
            reading = Reading(t + 0.001, t, {name: x.astype(np.float32) for name, x in values.items()})
            log.write(0, StepRecord(t + 0.002, Phase.POLICY, reading, np.cos(t + np.arange(3)).astype(np.float32)))
    if not walks:
        assert len(read_table(path).columns["time"]) > 500
        return
    with pytest.raises(RookeryError, match=r"trunk turns at 0.21 rad/s, .* held by its trunk"):
        read_table(path)


def flight_log(path):
    """A log of 3000 steps of one drone, in several chunks."""
    steps = [StepRecord(0.01 * i, Phase.POLICY, None, command=np.full(4, i % 7, np.float32)) for i in range(3000)]
    with FlightLog(path, {"groups": {}}) as log:
        for step in steps:
            log.write(0, step)


def test_a_log_of_a_killed_runtime_is_read_to_its_last_whole_chunk(tmp_path):
    """Cut anywhere: steps are those of the whole log, as many as were there, and more where more is left."""
    pytest.importorskip("mcap")
    whole, cut = tmp_path / "whole.mcap", tmp_path / "cut.mcap"
    flight_log(whole)
    data, every = whole.read_bytes(), read_flight(whole).vehicles[0]
    last = 0
    for end in range(len(data) // 3, len(data), len(data) // 40):
        cut.write_bytes(data[:end])
        steps = read_flight(cut).vehicles[0]
        assert last <= len(steps) and steps == every[: len(steps)]
        last = len(steps)
    assert last == len(every) == 3000


def test_a_cut_log_is_identified_by_its_beginning(tmp_path):
    """Wherever the file ends: columns are the beginning of those of the whole file, nearly all of it, and a note says so."""
    pytest.importorskip("mcap")
    steps = 2000
    with FlightLog(tmp_path / "whole.mcap", {"groups": {"dog": {"action": {"names": list(JOINTS)}}}}) as log:
        for i in range(steps):
            t = 0.01 * i
            values = {"joint angles": np.sin(t + np.arange(3)).astype(np.float32)}
            reading = Reading(t + 0.001, t, values)
            log.write(0, StepRecord(t + 0.002, Phase.POLICY, reading, np.cos(t + np.arange(3)).astype(np.float32)))
    data = (tmp_path / "whole.mcap").read_bytes()
    whole = read_table(tmp_path / "whole.mcap")
    assert not whole.notes
    for share in (0.5, 0.73, 0.99):
        (tmp_path / "cut.mcap").write_bytes(data[: int(share * len(data))])
        cut = read_table(tmp_path / "cut.mcap")
        count = len(cut.columns["time"])
        assert count > (share - 0.3) * steps and "its end is missing" in cut.notes[0]
        # interpolation at the very end lacks the sample after it
        assert all(cut.columns[n][: count - 1] == pytest.approx(whole.columns[n][: count - 1]) for n in whole.columns)


def test_damaged_flight_logs_are_one_sentence(tmp_path):
    """In any byte: either the same steps, or one sentence."""
    pytest.importorskip("mcap")
    whole, damaged = tmp_path / "whole.mcap", tmp_path / "damaged.mcap"
    flight_log(whole)
    data, every = whole.read_bytes(), read_flight(whole)
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.integers(len(data), size=60):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ int(rng.integers(1, 256))]) + data[place + 1 :])
        found, said = None, ""
        try:
            found = read_flight(damaged)
        except RookeryError as error:
            said = str(error)
        refused += said != ""
        assert not said or (said.endswith(".") and "\n" not in said)
        assert found is None or found.vehicles[0] == every.vehicles[0][: len(found.vehicles[0])]
    assert refused > 0


def ulog(path, topics):
    """A ULog file by its specification (docs.px4.io, ULog file format)."""
    out = [b"ULog\x01\x12\x35\x01" + struct.pack("<Q", 0)]

    def message(kind, body):
        out.append(struct.pack("<HB", len(body), ord(kind)) + body)

    message("B", bytes(40))
    for name, fields, _ in topics:
        message("F", f"{name}:uint64_t timestamp;{''.join(f'float{f};' for f in fields)}".encode())
    for number, (name, _, _) in enumerate(topics):
        message("A", struct.pack("<BH", 0, number) + name.encode())
    for number, (_, _, rows) in enumerate(topics):
        for stamp, *values in rows:
            message("D", struct.pack(f"<HQ{len(values)}f", number, stamp, *values))
    path.write_bytes(b"".join(out))


def test_px4_logs(tmp_path):
    """North, east, down and forward, right, down become ours; rotors are numbered clockwise from the front right."""
    pytest.importorskip("pyulog")
    stamps = [10_000 * i for i in range(50)]
    half = np.sqrt(0.5)
    ulog(tmp_path / "f.ulg", [
        ("vehicle_local_position", [" x", " y", " z", " vx", " vy", " vz"], [(t, 1, 2, -3, 4, 5, -6) for t in stamps]),
        ("vehicle_attitude", ["[4] q"], [(t, half, 0, 0, half) for t in stamps]),
        ("vehicle_angular_velocity", ["[3] xyz"], [(t, 0.1, 0.2, 0.3) for t in stamps]),
        ("actuator_motors", ["[4] control"], [(t, 0.1, 0.2, 0.3, 0.4) for t in stamps]),
    ])  # fmt: skip
    columns = read_table(tmp_path / "f.ulg").columns
    assert [columns[f"position.{a}"][0] for a in "xyz"] == pytest.approx([2, 1, 3])
    assert [columns[f"velocity.{a}"][0] for a in "xyz"] == pytest.approx([5, 4, 6])
    assert [columns[f"angular_velocity.{a}"][0] for a in "xyz"] == pytest.approx([0.1, -0.2, -0.3])
    assert [columns[f"motors.{i}"][0] for i in range(1, 5)] == pytest.approx([0.1, 0.4, 0.2, 0.3])
    # heading east: forward is our x
    assert np.abs([columns[f"quaternion.{a}"][0] for a in "wxyz"]) == pytest.approx([1, 0, 0, 0], abs=1e-6)
    some = [" x", " y", " z", " vx", " vy", " vz"]
    ulog(tmp_path / "g.ulg", [("vehicle_local_position", some, [(0, 1, 2, 3, 4, 5, 6)])])
    with pytest.raises(RookeryError, match=r"lacks vehicle_attitude"):
        read_table(tmp_path / "g.ulg")


def test_ros_2_bags(tmp_path):
    pytest.importorskip("rosbags")
    from rosbags.rosbag2 import Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.LATEST)
    types = store.types
    header, stamp = types["std_msgs/msg/Header"], types["builtin_interfaces/msg/Time"]
    state, numbers = types["sensor_msgs/msg/JointState"], types["std_msgs/msg/Float64MultiArray"]
    layout = types["std_msgs/msg/MultiArrayLayout"]
    with Writer(tmp_path / "bag", version=9) as writer:
        measured = writer.add_connection("/joint_states", state.__msgtype__, typestore=store)
        told = writer.add_connection("/leg/commands", numbers.__msgtype__, typestore=store)
        for i, t in enumerate(TIME):
            at = 10**18 + round(1e9 * t)
            when = header(stamp=stamp(sec=at // 10**9, nanosec=at % 10**9), frame_id="")
            message = state(
                header=when, name=list(JOINTS), position=POSITION[i], velocity=0 * POSITION[i], effort=np.zeros(0)
            )
            writer.write(measured, at, store.serialize_cdr(message, state.__msgtype__))
            command = numbers(layout=layout(dim=[], data_offset=0), data=TARGET[i])
            writer.write(told, at, store.serialize_cdr(command, numbers.__msgtype__))
    log = read(tmp_path / "bag")
    assert log.position == pytest.approx(POSITION, abs=1e-6) and log.target == pytest.approx(TARGET)
