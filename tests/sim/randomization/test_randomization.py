"""Randomization: drawn when and from where it says, and landing in the simulation."""

from __future__ import annotations

import math

import pytest
import torch

import rookery
from rookery.robots.drones.kernels import TAU_DOWN, TAU_UP, THRUST_SCALE, TORQUE_SCALE
from rookery.sim.errors import RookeryError
from rookery.sim.multirotor import layout
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import BatchWrite, Parameter
from rookery.sim.randomization.ranges import DEFAULT, Chosen, Randomization, Range, load

N = 64
every_engine = pytest.mark.parametrize("engine", ["rotor", "mujoco"])
ALL = torch.arange(N)


def parameters(log: dict[str, torch.Tensor]) -> dict[str, Parameter]:
    def at(name: str):
        log[name] = torch.full((N,), math.nan)
        return lambda ids, v: log[name].__setitem__(ids, v)

    return {
        "mass": Parameter("", "1", 1.0, 0.1, 3.0, at("mass")),
        "lag": Parameter("", "s", 0.0, 0.0, 1.0, at("lag")),
    }


def make(**ranges: Range) -> tuple[Randomization, dict[str, torch.Tensor]]:
    log: dict[str, torch.Tensor] = {}
    return Randomization(parameters(log), ranges, N, Streams(N, 0)), log


def test_values_are_in_range_and_spread():
    r, log = make(mass=Range(0.5, 2.0), lag=Range(0.3, 0.3))
    r.draw(ALL)
    mass = log["mass"]
    assert 0.5 <= mass.min() < 0.65
    assert 1.85 < mass.max() <= 2.0
    assert len(mass.unique()) == N
    assert torch.equal(r.values[:, 0], mass)
    assert torch.allclose(log["lag"], torch.tensor(0.3))


def test_startup_is_drawn_once_and_reset_at_every_episode():
    r, log = make(mass=Range(0.5, 2.0, "startup"), lag=Range(0.0, 1.0))
    r.draw(ALL[:10])
    assert log["mass"][10:].isnan().all()
    r.draw(ALL)
    mass = log["mass"].clone()
    lag = log["lag"].clone()
    r.draw(ALL[5:])
    assert torch.equal(log["mass"], mass)
    assert torch.equal(log["lag"][:5], lag[:5])
    assert (log["lag"][5:] != lag[5:]).all()
    assert torch.equal(r.values[:, 1], log["lag"])


class Together:
    """A writer of two parameters that counts its calls."""

    def __init__(self) -> None:
        self.kept = {name: torch.full((N,), math.nan) for name in ("up", "down")}
        self.calls: list[list[str]] = []

    def write_batch(self, ids, values) -> None:
        self.calls.append(list(values))
        for name, v in values.items():
            self.kept[name][torch.from_numpy(ids)] = torch.from_numpy(v)


def test_parameters_of_one_writer_are_written_by_one_call():
    log: dict[str, torch.Tensor] = {}
    writer = Together()
    own = {
        name: Parameter("", "1", 1.0, 0.0, 9.0, BatchWrite(writer, key)) for name, key in (("a", "up"), ("b", "down"))
    }
    ranges = {"a": Range(1.0, 2.0), "mass": Range(0.5, 2.0), "b": Range(3.0, 4.0)}
    r = Randomization(parameters(log) | own, ranges, N, Streams(N, 0))
    r.draw(ALL[::2])
    assert writer.calls == [["up", "down"]]
    for name, kept in (("a", writer.kept["up"]), ("b", writer.kept["down"]), ("mass", log["mass"])):
        assert torch.equal(kept[::2], r.values[::2, list(ranges).index(name)])
        assert kept[1::2].isnan().all()
    assert writer.kept["down"][::2].min() >= 3.0
    own["a"].write(ALL[:2], torch.tensor([5.0, 6.0]))
    assert writer.kept["up"][:2].tolist() == [5.0, 6.0]


def test_a_writer_gets_startup_parameters_of_new_worlds_only():
    writer = Together()
    own = {name: Parameter("", "1", 1.0, 0.0, 9.0, BatchWrite(writer, name)) for name in ("up", "down")}
    r = Randomization(own, {"up": Range(1.0, 2.0, "startup"), "down": Range(1.0, 2.0)}, N, Streams(N, 0))
    r.draw(ALL[:5])
    first = writer.kept["up"].clone()
    r.draw(ALL)
    assert torch.equal(writer.kept["up"][:5], first[:5])
    assert not writer.kept["up"].isnan().any()
    r.draw(ALL)
    assert writer.calls == [["down"], ["up"], ["down"], ["up"], ["down"]]


@every_engine
def test_default_lands_in_the_simulation(engine):
    env = rookery.make("drone-hover", num_envs=N, engine=engine, randomize="default", seed=1)
    env.reset()
    assert set(env.randomization.names) == set(DEFAULT)
    drawn = dict(zip(env.randomization.names, env.randomization.values.T, strict=True))
    for name, r in DEFAULT.items():
        assert (drawn[name] >= r.low).all()
        assert (drawn[name] <= r.high).all()
        assert drawn[name].std() >= 0.2 * (r.high - r.low)
    p = env.world.params
    nominal = env.task.drone
    base = ["drone_0/base"]
    drones = env.task.drones
    assert torch.allclose(p.get("mass", base)[:, 0], nominal.mass * drawn["mass"])
    assert torch.allclose(p.get("inertia", base)[:, 0], torch.tensor(nominal.inertia) * drawn["inertia"][:, None])
    if engine == "mujoco":
        rotor = drones.rotor_params[:, 0, 0]
    else:  # factors, and what a physics step leaves of a rotor's distance from its command
        rotor = env.world.read_varied([0], layout.THRUST_FACTOR, 16)[:, 0, ::4].float()
        rotor[:, TAU_UP:] = -0.5 * env.world.dt / rotor[:, TAU_UP:].log()
    assert torch.allclose(rotor[:, THRUST_SCALE], drawn["thrust_coefficient"])
    assert torch.allclose(rotor[:, TORQUE_SCALE], drawn["torque_coefficient"])
    assert torch.allclose(rotor[:, TAU_UP], nominal.tau_up * drawn["rotor_lag"], rtol=1e-4)
    assert torch.allclose(rotor[:, TAU_DOWN], nominal.tau_down * drawn["rotor_lag"], rtol=1e-4)
    g = p.get("gravity")
    assert torch.allclose(g.norm(dim=-1), torch.tensor(9.81))
    assert torch.allclose(torch.atan2(g[:, :2].norm(dim=-1), -g[:, 2]), drawn["gravity_tilt"], atol=1e-5)
    around = torch.atan2(g[:, 1], g[:, 0]).sort().values
    assert around.diff().max() < 0.5  # the directions go all the way round
    pipeline = env._pipelines["drone"]
    delay = env._delays["drone"]
    assert torch.equal(pipeline.noise, drawn["observation_noise"])
    assert torch.equal(pipeline.bias, drawn["observation_bias"])
    assert torch.equal(pipeline.extra, (drawn["observation_delay"] / env.world.dt).round().long())
    assert torch.equal(delay.delay, (drawn["action_delay"] / env.world.dt).round().long())


@every_engine
@pytest.mark.parametrize("action", ["rotor_thrust", "ctbr"])
def test_parameters_act_on_the_motion(action, engine):
    """From rest, with rotors at hover: lighter or stronger drones rise, the nominal one stays."""
    config = {"action": action, "integrated_yaw": False, "effects": "none"}
    env = rookery.make("drone-hover", num_envs=6, engine=engine, config=config)
    params = env._parameters()
    env.reset()
    write = {"mass": 1.25, "thrust_coefficient": 0.8, "gravity_tilt": 0.02, "torque_coefficient": 5.0, "inertia": 2.0}
    for world, (name, v) in enumerate(write.items(), start=1):
        params[name].write(torch.tensor([world]), torch.tensor([v]))
    state = torch.zeros(6, 1, 13)
    state[..., 2] = 2.0
    state[..., 3] = 1.0
    env.task.drones.reset(torch.arange(6), state)
    neutral = torch.tensor(env.groups["drone"].action.neutral).expand(6, 1, 4)
    for _ in range(20):
        env.step(neutral)
    v, t = env.task.drones.bodies.lin_vel[:, 0], 20 * env.control_dt
    assert v[0].abs().max() < 1e-4
    assert v[1, 2].item() == pytest.approx((1 / 1.25 - 1) * 9.81 * t, rel=0.01)
    assert v[2, 2].item() == pytest.approx((0.8 - 1) * 9.81 * t, rel=0.01)
    assert v[3, :2].norm().item() == pytest.approx(9.81 * math.sin(0.02) * t, rel=0.01)
    assert torch.allclose(v[4:], v[:1].expand(2, 3), atol=1e-4)  # the rotors' torques cancel; nothing turns


def test_worlds_without_randomization_are_nominal():
    env = rookery.make("drone-hover", num_envs=3)
    env.reset()
    assert torch.equal(
        env.world.params.get("mass", ["drone_0/base"]), env.world.params.nominal("mass", ["drone_0/base"]).expand(3, 1)
    )
    assert env.randomization.names == ()


def test_every_episode_draws_anew_and_reports_what_it_had():
    env = rookery.make("drone-hover", num_envs=8, randomize="default", config={"episode_s": 0.05, "settled_s": 0.02})
    env.reset()
    before = env.randomization.values.clone()
    neutral = torch.zeros(8, 1, 4)
    for _ in range(5):
        *_, info = env.step(neutral)
    assert info["episode"]["ids"].tolist() == list(range(8))
    for i, name in enumerate(env.randomization.names):
        assert torch.equal(info["episode"]["parameters"][name], before[:, i])
    changed = (env.randomization.values != before).any(0)
    constant = [r.low == r.high for r in env.randomization.ranges.values()]
    assert (~changed).tolist() == constant
    assert torch.allclose(
        env.world.params.get("mass", ["drone_0/base"])[:, 0] / env.task.drone.mass, env.randomization.values[:, 0]
    )


def test_fixed_values_override_the_preset_and_stay():
    fixed = {"mass": 1.4, "action_delay": 0.02}
    config = {"episode_s": 0.05, "settled_s": 0.02}
    env = rookery.make("drone-hover", num_envs=4, randomize="default", fixed=fixed, config=config)
    env.reset()
    for _ in range(12):
        env.step(torch.zeros(4, 1, 4))
        assert torch.allclose(env.world.params.get("mass", ["drone_0/base"]), torch.tensor(1.4 * env.task.drone.mass))
        assert env._delays["drone"].delay.tolist() == [10] * 4
    env.reset(seed=9)
    assert torch.allclose(env.world.params.get("mass", ["drone_0/base"]), torch.tensor(1.4 * env.task.drone.mass))


def test_presets_leave_out_what_a_robot_lacks_and_files_do_not():
    log: dict[str, torch.Tensor] = {}
    p = parameters(log)
    r = Randomization(p, {"mass": Range(1, 1), "wings": Range(0, 1)}, N, Streams(N, 0), optional={"wings"})
    assert r.names == ("mass",)
    with pytest.raises(RookeryError, match="unknown parameter 'masss': did you mean 'mass'"):
        Randomization(p, {"masss": Range(1, 1)}, N, Streams(N, 0))


@pytest.mark.parametrize(
    "r", [Range(0.05, 1.0), Range(1.0, 3.1), Range(2.0, 1.0), Range(math.nan, 1.0), Range(1.0, math.inf)]
)
def test_ranges_out_of_bounds_are_refused(r):
    with pytest.raises(RookeryError, match=r"mass: .* within \[0.1, 3.0\]"):
        make(mass=r)


def test_a_fixed_value_holds_in_every_component_while_all_else_is_drawn():
    env = rookery.make("drone-hover", num_envs=2, randomize="all", fixed={"thrust_coefficient": 0.8})
    env.reset(seed=0)
    names = list(env.randomization.names)
    held = [env.randomization.values[:, i] for i, name in enumerate(names) if name.startswith("thrust_coefficient")]
    assert held and all((values == torch.tensor(0.8)).all() for values in held)


def test_fixed_values_are_checked():
    with pytest.raises(RookeryError, match="unknown parameter 'windd'"):
        rookery.make("drone-hover", fixed={"windd": 1.0})
    with pytest.raises(RookeryError, match=r"^mass=100: give a number from 0.1 to 1.46\.$"):
        rookery.make("drone-hover", fixed={"mass": 100.0})
    with pytest.raises(RookeryError, match="action_delay"):
        rookery.make("drone-hover", fixed={"action_delay": 0.2})


def test_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('[mass]\nlow = 0.9\nhigh = 1\n[observation_delay]\nlow = 0.0\nhigh = 0.02\non = "startup"\n')
    assert load(str(path)) == Chosen(
        "none", {"mass": Range(0.9, 1.0), "observation_delay": Range(0.0, 0.02, "startup")}
    )
    env = rookery.make("drone-hover", num_envs=16, randomize=str(path))
    env.reset()
    assert env.randomization.names == ("mass", "observation_delay")
    assert 0.9 <= env.randomization.values[:, 0].min() <= env.randomization.values[:, 0].max() <= 1.0


def test_presets():
    own = {"mass": Range(0.5, 1.5)}
    assert load("none").over(None) == load("none").over(own) == {}
    assert load("default").over(None) == load("all").over(None) == DEFAULT
    assert load("default").over(None) is not DEFAULT
    assert load("default").over(own) == load("all").over(own) == own


def drawn_by(task, randomize, fixed=None):
    env = rookery.make(task, num_envs=1, randomize=str(randomize), fixed=fixed)
    ranges = env.unwrapped.randomization.ranges
    env.close()
    return ranges


def test_a_file_changes_the_preset_that_it_extends(tmp_path):
    path = tmp_path / "mine.toml"
    own = '[mass]\nlow = 0.7\nhigh = 0.8\n["thrust_coefficient:rotor_2"]\nlow = 1.2\nhigh = 1.3\n'
    path.write_text(f'extends = "default"\n{own}')
    mine = {"mass": Range(0.7, 0.8), "thrust_coefficient:rotor_2": Range(1.2, 1.3)}
    assert drawn_by("drone-hover", path) == drawn_by("drone-hover", "default") | mine
    assert drawn_by("drone-hover", path, {"inertia": 1.1}).keys() == drawn_by("drone-hover", path).keys()
    path.write_text(f'extends = "all"\n{own}')
    assert drawn_by("drone-hover", path) == drawn_by("drone-hover", "all") | mine


def test_of_the_preset_all_parts_are_drawn_of_a_file_what_it_says(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "all"\n[kp]\nlow = 0.95\nhigh = 1.0\n')
    mine, preset = drawn_by("go2-velocity", path), drawn_by("go2-velocity", "all")
    assert mine["kp"] == Range(0.95, 1.0) and not any(name.startswith("kp:") for name in mine)
    assert {k for k in preset if k.startswith("kp:")} and mine["kd:FL_hip"] == preset["kd:FL_hip"]


def test_own_ranges_come_after_those_of_the_preset():
    own = {"kp": Range(0.9, 1.1), "kd": Range(0.8, 1.2)}
    chosen = Chosen("default", {"kp:FL_*": Range(0.5, 0.6)})
    assert list(chosen.over(own)) == ["kp", "kd", "kp:FL_*"]  # the last that names a component counts


def test_an_unknown_name_of_a_file_is_not_left_out(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "default"\n[massy]\nlow = 0.7\nhigh = 0.8\n')
    with pytest.raises(RookeryError, match="did you mean 'mass'"):
        rookery.make("drone-hover", randomize=str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[mass]\nlow = 0.9", r"\[mass\] takes low, high"),
        (b"[mass]\nlow = 0.9\nhigh = 1.0\nwhen = 3", r"\[mass\] takes low, high"),
        (b"mass = 3", r"\[mass\] takes low, high"),
        (b'[mass]\nlow = 0.9\nhigh = 1.0\non = "step"', "on must be"),
        (b'[mass]\nlow = "a"\nhigh = 1.0', "low needs a number, got 'a'"),
        (b"[mass\n", "not valid TOML"),
        (b'extends = "defualt"', "unknown preset that .*bad.toml extends 'defualt': did you mean 'default'"),
        (b"extends = 3", "unknown preset that .*bad.toml extends"),
        (b"[extends]\nlow = 0.9\nhigh = 1.0", "unknown preset that .*bad.toml extends"),
        (b"\xff\xfe\x00", "not valid TOML"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(text)
    with pytest.raises(RookeryError, match=message):
        load(str(path))


def test_missing_files_and_misspelt_presets(tmp_path):
    with pytest.raises(RookeryError, match="cannot read"):
        load(str(tmp_path / "none.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(RookeryError, match="cannot read"):
        load(str(tmp_path / "folder.toml"))
    with pytest.raises(RookeryError, match="did you mean 'default'"):
        load("defualt")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"push_speed": (0.0, 1.0)},
            "push_speed does nothing without push_rate: give that too, such as push_rate up to 0.2 1/s",
        ),
        ({"push_spin": (0.0, 1.0)}, "push_spin does nothing without push_rate"),
        ({"push_rate": (0.1, 0.1)}, "push_rate does nothing without push_speed or push_spin"),
        ({"wrench_rate": (0.0, 1.0)}, "wrench_rate does nothing without wrench_force or wrench_torque"),
        ({"wrench_force": (0.0, 1.0), "push_rate": (0.0, 1.0)}, "wrench_force does nothing without wrench_rate"),
        ({"wrench_torque": (0.0, 0.1)}, "wrench_torque does nothing without wrench_rate"),
        ({"wrench_time": (0.0, 1.0), "wrench_force": (0.1, 0.1)}, "wrench_time does nothing without wrench_rate"),
        ({"wrench_time": (0.0, 1.0), "wrench_rate": (0.1, 0.1)}, "wrench_time does nothing without wrench_force or"),
        ({"action_hold": (0.0, 0.05)}, "action_hold does nothing without action_dropout"),
        ({"wind_direction": (0.0, 3.0)}, "wind_direction does nothing without wind_speed"),
    ],
)
def test_what_does_nothing_without_another_is_refused(tmp_path, given, message):
    file = tmp_path / "ranges.toml"
    file.write_text("".join(f"[{name}]\nlow = {low}\nhigh = {high}\n" for name, (low, high) in given.items()))
    with pytest.raises(RookeryError, match=message):
        rookery.make("drone-hover", num_envs=1, randomize=str(file))


def test_a_rate_that_is_held_and_values_that_change_nothing_are_no_mistake(tmp_path):
    file = tmp_path / "ranges.toml"
    file.write_text("[push_speed]\nlow = 0.0\nhigh = 1.0\n")
    rookery.make("drone-hover", num_envs=1, randomize=str(file), fixed={"push_rate": 0.0}).close()
    rookery.make("drone-hover", num_envs=1, fixed={"push_speed": 0.0, "wrench_time": 0.0}).close()
    rookery.make("drone-hover", num_envs=1, fixed={"wrench_rate": 0.1, "wrench_force": 0.1}).close()


@pytest.mark.parametrize("n", [3, 5, 8, 21])
def test_gravity_is_tilted_to_all_sides_in_few_worlds_too(n):
    env = rookery.make("drone-hover", num_envs=n, fixed={"gravity_tilt": 0.1})
    env.reset()
    x, y, _ = env.world.params.get("gravity").unbind(-1)
    around = torch.atan2(y, x).sort().values
    gaps = torch.cat((around.diff(), around[:1] + math.tau - around[-1:]))
    assert gaps.max() < 2.0 * math.tau / n  # of golden angles no gap is twice the mean
