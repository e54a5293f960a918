"""RunSettings: presets of the whole registry, the settings file, and what a training is made from."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib

import pytest
import torch
from sampled import slow_but

from rookery.cli.train_options import Parsed, read
from rookery.experiments.recipes import preset
from rookery.experiments.settings import RunSettings, read_settings, save_settings, to_toml
from rookery.experiments.training import resume, start
from rookery.policies.algorithms import ALGORITHMS, VARIANTS, find_algorithm
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.training import checkpoint
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Contract
from rookery.tasks.registry import TASKS

every_task = pytest.mark.parametrize("task", sorted(TASKS))
FAMILIES = (
    "drone-hover",
    "swarm-surround",
    "volley-solo-bump",
    "go2-velocity",
    "table-push",
    "panda-lift",
)
"""Tasks whose command lines and files `make test` reads; `make test-all` takes all."""
FEW_TASKS = pytest.mark.parametrize("task", slow_but(FAMILIES, sorted(TASKS)))
TRAINED = ("drone-hover", "go2-velocity", "table-push")
"""Tasks that `make test` trains; `make test-all` trains all."""


def parsed(*words: object) -> Parsed:
    found = read([str(w) for w in words], "")
    assert found is not None
    return found


@every_task
def test_every_task_has_a_preset(task):
    assert preset(task) != RunSettings(task=task, engine=TASKS[task].engines[0])


@FEW_TASKS
def test_the_command_line_without_options_is_the_preset(task):
    """The rollout length once took the place of the total steps: 29 of 48 tasks stopped after one update."""
    settings = parsed(task).settings
    assert settings == preset(task)
    assert settings.runner.total_steps >= 1_000_000
    assert settings.algorithm_config.rollout_steps <= (
        128 if settings.skills is None else 256
    )  # of decisions few are taken
    per_update = settings.algorithm_config.rollout_steps * settings.num_envs
    assert settings.runner.total_steps >= 50 * per_update
    if task not in FAMILIES:
        return
    short = parsed(task, "--steps", 7).settings
    assert short == dataclasses.replace(settings, runner=dataclasses.replace(settings.runner, total_steps=7))


@pytest.mark.parametrize("task", slow_but(TRAINED, sorted(TASKS)))
def test_every_task_trains_from_its_preset(task, tmp_path):
    """One iteration with the worlds, the rollout and the settings of the preset; only its end is brought forward."""
    settings = preset(task)
    wanted = settings.num_envs * settings.algorithm_config.rollout_steps
    once = dataclasses.replace(settings, runner=dataclasses.replace(settings.runner, time_limit_s=1e-9))
    training = start(once, tmp_path / "run")
    assert training.runner.config.total_steps == settings.runner.total_steps
    assert training.runner.algorithm.rollout_steps == settings.algorithm_config.rollout_steps
    assert training.runner.env.num_envs == settings.num_envs
    result = training.run()
    assert (result["stopped"], result["steps"]) == ("time", wanted)


@FEW_TASKS
def test_presets_round_trip_through_toml(task):
    for algorithm in ALGORITHMS:
        settings = preset(task, algorithm)
        assert RunSettings.from_values(tomllib.loads(to_toml(settings.to_values()))) == settings


def other(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 0.875 * value if value else 0.25
    if isinstance(value, tuple):
        return ("a",) if value == () else tuple(v + 1 for v in value)
    return {
        "tanh": "elu",
        "relu": "elu",
        "off": "predict",
        "own": "central",
        "mse": "huber",
        "adaptive": "fixed",
        "linear": "fixed",
        "min": "mean",
        "first": "mean",
        "fixed": "linear",
        "squared": "absolute",
        "": "package.module:function",
        "none": "gru",
    }[value]


OPTIONAL = {
    "critic_hidden": (5,),
    "value_clip": 0.3,
    "actor_frames": 2,
    "target_entropy": -2.5,
    "exploration_noise_last": 0.3,
    "return_limit": 5.0,
    "learn_skills": "alternating",
}


GOALS = ("hindsight_share", "goal", "goal_achieved", "goal_within", "goal_reward")
LONELY = ("mirror", "critic_hypersphere", "critic_batch_norm", "encoder", "encoder_options", "picture_shift", *GOALS)
"""Settings that go with none of the others' opposites: they have tests of their own below."""


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_setting_of_an_algorithm_is_an_option(algorithm):
    """Given on the command line, all of them reach the config, as their own types."""
    default = preset("drone-hover", algorithm).algorithm_config
    wanted = {}
    words: list[object] = []
    for field in dataclasses.fields(default):
        if field.name in LONELY:
            continue
        if "memory" in field.name and algorithm in ("sac", "td3"):
            continue  # likewise
        value = getattr(default, field.name)
        value = OPTIONAL[field.name] if value is None or field.name in OPTIONAL else other(value)
        option = field.name.replace("_", "-")
        if isinstance(value, bool):
            words += [f"--{option}" if value else f"--no-{option}"]
        else:
            words += [f"--{option}", *(value if isinstance(value, tuple) else (value,))]
        wanted[field.name] = value
    found = parsed("drone-hover", "--algorithm", algorithm, *words).settings.algorithm_config
    assert found == type(default)(**wanted)


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_the_shift_of_pictures_is_an_option(algorithm):
    found = parsed("drone-hover", "--algorithm", algorithm, "--encoder", "cnn", "--picture-shift", "4").settings
    assert found.algorithm_config.picture_shift == 4


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_hindsight_is_an_option(algorithm):
    values = (0.8, "goal", "object_1[0:3]", 0.1, 2.0)
    given = [word for name, value in zip(GOALS, values, strict=True) for word in ("--" + name.replace("_", "-"), value)]
    found = parsed("drone-hover", "--algorithm", algorithm, "--n-step", "1", *given).settings.algorithm_config
    assert tuple(getattr(found, name) for name in GOALS) == values


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_the_memory_is_an_option(algorithm):
    words = ("drone-hover", "--algorithm", algorithm, "--n-step", "1")
    assert parsed(*words).settings.algorithm_config.memory == "none"
    own = ("--memory-size", "8", "--memory-steps", "32", "--memory-burn-in", "4", "--no-critic-memory")
    found = parsed(*words, "--memory", "gru", *own).settings.algorithm_config
    assert (found.memory, found.memory_size, found.memory_steps) == ("gru", 8, 32)
    assert (found.memory_burn_in, found.critic_memory) == (4, False)


def test_the_mirror_is_an_option():
    assert not parsed("drone-hover").settings.algorithm_config.mirror
    assert parsed("drone-hover", "--mirror").settings.algorithm_config.mirror
    assert parsed("go2-velocity").settings.algorithm_config.mirror
    assert not parsed("go2-velocity", "--no-mirror").settings.algorithm_config.mirror


@pytest.mark.parametrize("algorithm", slow_but(["ppo", "td3"], ["ppo", "dagger", "bc", "sac", "td3"]))
def test_the_encoder_is_an_option(algorithm):
    for words, wanted in ((("--encoder", "cnn"), "cnn"), ((), "none")):
        assert parsed("drone-hover", "--algorithm", algorithm, *words).settings.algorithm_config.encoder == wanted
    words = ("--encoder", "attention", "--encoder-options", "size=16", "heads=2")
    found = parsed("drone-hover", "--algorithm", algorithm, *words).settings.algorithm_config
    assert (found.encoder, found.encoder_options) == ("attention", ("size=16", "heads=2"))


@pytest.mark.parametrize(
    ("algorithm", "kind"),
    slow_but(
        [("sac", "critic-hypersphere"), ("td3", "critic-batch-norm")],
        [(a, kind) for a in ("sac", "td3") for kind in ("critic-hypersphere", "critic-batch-norm")],
    ),
)
def test_the_kind_of_critics_is_an_option(algorithm, kind):
    for words, wanted in ((("--hidden", 8, 8, f"--{kind}"), True), ((f"--no-{kind}",), False), ((), False)):
        found = parsed("drone-hover", "--algorithm", algorithm, *words).settings.algorithm_config
        assert getattr(found, kind.replace("-", "_")) is wanted


def test_trackers_are_a_repeatable_option(tmp_path):
    assert parsed("drone-hover").settings.runner.trackers == ("tensorboard",)
    settings = parsed("drone-hover", "--tracker", "wandb", "--tracker", "mlflow").settings
    assert settings.runner.trackers == ("wandb", "mlflow")
    save_settings(tmp_path / "settings.toml", settings)
    assert parsed("--config", tmp_path / "settings.toml").settings == settings
    once = parsed("--config", tmp_path / "settings.toml", "--tracker", "none").settings
    assert once.runner.trackers == ("none",)


RUNNER = [f.name for f in dataclasses.fields(RunnerConfig) if f.name != "trackers"]


@pytest.mark.parametrize("field", slow_but(["total_steps", "target_success"], RUNNER))
def test_every_setting_of_the_runner_is_an_option(field):
    value = 7 if field not in ("target_success",) else 0.5
    option = "--steps" if field == "total_steps" else "--" + field.replace("_", "-")
    settings = parsed("drone-hover", option, value).settings
    assert settings.runner == dataclasses.replace(preset("drone-hover").runner, **{field: value})


def test_values_by_name_are_added_to_those_of_the_preset():
    settings = parsed(
        "volley-bump-and-pass", "--task-config", "episode_s=3", "--train-overrides", "reward.hit=1.5", "--set", "mass=0.1",
        "--weights", "a=2",
    ).settings  # fmt: skip
    base = preset("volley-bump-and-pass")
    assert settings.task_config == {**base.task_config, "episode_s": 3}
    assert settings.train_overrides["reward"] == {**base.train_overrides["reward"], "hit": 1.5}
    assert settings.train_overrides["in_flight"] == base.train_overrides["in_flight"]
    assert (settings.fixed, settings.weights) == ({"mass": 0.1}, {"a": 2.0})


def test_a_settings_file_makes_the_same_run_and_options_override_it(tmp_path):
    words = [
        "go2-velocity",
        "--steps",
        "5e6",
        "--hidden",
        7,
        9,
        "--critic-hidden",
        5,
        "--target-success",
        0.9,
        "--seed",
        3,
    ]
    words += ["--task-config", 'name "quoted"=é\\n', "--train-overrides", "reward.x-y=1e-3", "--share"]
    settings = parsed(*words).settings
    file = tmp_path / "settings.toml"
    save_settings(file, settings)
    assert parsed("--config", file).settings == settings
    assert parsed("go2-velocity", f"--config={file}", "--seed", 4).settings == dataclasses.replace(settings, seed=4)
    assert parsed("--config", file, "--critic-hidden", "None").settings.algorithm_config.critic_hidden is None
    with pytest.raises(RookeryError, match="is of 'go2-velocity', not of 'drone-hover'"):
        read(["drone-hover", "--config", str(file)], "")


def test_none_in_a_file_differs_from_the_presets_value(tmp_path):
    """A value that the preset sets can be taken back."""
    file = tmp_path / "settings.toml"
    file.write_text('task = "drone-hover"\n[runner]\ntarget_success = "none"\ntotal_steps = 1e6\n[ppo]\nepochs = 3\n')
    settings = parsed("--config", file).settings
    base = preset("drone-hover")
    assert settings.runner == dataclasses.replace(base.runner, total_steps=1_000_000)
    assert settings.algorithm_config == dataclasses.replace(base.algorithm_config, epochs=3)


def test_a_randomization_file_beside_the_settings_is_found(tmp_path):
    (tmp_path / "settings.toml").write_text('task = "drone-hover"\nrandomize = "randomization.toml"\n')
    (tmp_path / "randomization.toml").write_text("[mass]\nlow = 1.0\nhigh = 1.1\n")
    assert read_settings(tmp_path / "settings.toml")["randomize"] == str(tmp_path / "randomization.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("task = ", "is not TOML"),
        ('task = "drone-hover"\nnum_env = 3', "unknown setting 'num_env': did you mean 'num_envs'"),
        ('task = "drone-hover"\nnum_envs = 2.5', r"num_envs needs a whole number, got 2\.5"),
        ('task = "drone-hover"\nnum_envs = true', "num_envs needs a whole number, got True"),
        ('task = "drone-hover"\n[ppo]\nhidden = 64', "hidden needs a list such as .64, 64., got 64"),
        ('task = "drone-hover"\n[ppo]\nepochs = 2.5', r"epochs needs a whole number, got 2\.5"),
        ('task = "drone-hover"\n[ppo]\ngamma = nan', "gamma needs a finite number, got nan"),
        ('task = "drone-hover"\n[ppo]\nshare = "yes"', "share needs true or false, got 'yes'"),
        ('task = "drone-hover"\n[ppo]\ncritic = "cental"', "unknown critic 'cental': did you mean 'central'"),
        ('task = "drone-hover"\nppo = 3', "ppo needs values by name, got 3"),
        ('task = "drone-hover"\nfixed = {mass = "heavy"}', r"fixed\.mass needs a number, got 'heavy'"),
        ('task = "drone-hover"\n[sac]\ntau = 0.1', "unknown setting 'sac'"),
        ('task = "drone-hover"\n[runner]\nkeep = 0', "keep must be at least 1"),
        ('task = "drone-hoover"', "did you mean 'drone-hover'"),
        ('algorithm = "poo"', "did you mean 'ppo'"),
        ('task = "drone-hover"\nalgorithm = 3', "unknown algorithm '3'"),
        ('task = "drone-hover"\nalgorithm = ["ppo"]', "unknown algorithm"),
        ('task = "drone-hover"\nseed = 99999999999999999999', "seed must be from"),
        ('task = "drone-hover"\n[algorithm_config]\nepochs = 3', r"write the settings of ppo under \[ppo\]"),
        ("num_envs = 3", "needs TASK"),
    ],
)
def test_what_a_file_can_get_wrong_is_a_sentence(text, words, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(RookeryError, match=words) as error:
        read(["--config", str(file)], "")
    assert "\n" not in str(error.value)


def test_no_two_settings_share_an_option():
    """The options of RunSettings, RunnerConfig and each algorithm stand in one namespace."""
    for algorithm in ALGORITHMS:
        groups = [RunSettings, RunnerConfig, find_algorithm(algorithm).load_config()]
        names = [f.name for group in groups for f in dataclasses.fields(group)]
        assert len(names) == len(set(names))


def test_settings_of_another_algorithm_are_refused():
    with pytest.raises(RookeryError, match="the config of sac is a SACConfig, got a PPOConfig"):
        RunSettings("drone-hover", "sac", algorithm_config=PPOConfig())


def test_the_help_of_a_task_imports_no_torch():
    code = (
        "import sys; from rookery.cli.main import main; main(['train', 'drone-hover', '--help']);"
        "assert not {'torch', 'mujoco', 'numba'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--learning-rate" in done.stdout
    assert f"(default: {preset('drone-hover').algorithm_config.learning_rate})" in done.stdout


@pytest.mark.parametrize("name", slow_but(["droq"], VARIANTS))
def test_a_variant_is_its_algorithm_with_other_settings(name, tmp_path):
    data = "demos" if VARIANTS[name].without else None
    plain = dataclasses.replace(preset("drone-hover", VARIANTS[name].algorithm), data=data)
    words = ["--data", data] if data else []
    found = parsed("drone-hover", "--algorithm", name, "--obs-clip", "7.5", *words).settings
    config = dataclasses.replace(plain.algorithm_config, **VARIANTS[name].config, obs_clip=7.5)
    run = VARIANTS[name].run
    assert found == dataclasses.replace(plain, algorithm_config=config, **run)
    assert config != dataclasses.replace(plain.algorithm_config, obs_clip=7.5), "the preset has the variant's settings"
    file = tmp_path / "settings.toml"
    file.write_text(to_toml(found.to_values()))
    assert parsed("--config", str(file)).settings == found
    file.write_text(to_toml(dataclasses.replace(plain, seed=5).to_values()))
    again = parsed("--config", str(file), "--algorithm", name).settings
    clip = plain.algorithm_config.obs_clip
    assert again == dataclasses.replace(
        plain, seed=5, algorithm_config=dataclasses.replace(config, obs_clip=clip), **run
    )
    file.write_text(f'task = "drone-hover"\nalgorithm = "{name}"\n')
    assert parsed("--config", str(file), *words).settings == dataclasses.replace(preset("drone-hover", name), data=data)


def test_other_algorithms_take_what_they_share_from_the_preset():
    ppo = preset("go2-velocity").algorithm_config
    dagger = preset("go2-velocity", "dagger")
    for name in ("hidden", "activation", "learning_rate", "rollout_steps"):
        assert getattr(dagger.algorithm_config, name) == getattr(ppo, name), name
    assert dagger.num_envs == preset("go2-velocity").num_envs
    assert dagger.train_overrides == preset("go2-velocity").train_overrides
    cloning = preset("go2-velocity", "bc")
    assert (cloning.num_envs, cloning.randomize, cloning.runner.total_steps) == (1, "none", 2_000_000)
    assert cloning.algorithm_config.hidden == ppo.hidden
    assert preset("drone-track", "sac").num_envs == 8
    hover = preset("drone-hover", "sac")
    assert (hover.task, hover.engine, hover.num_envs) == ("drone-hover", "rotor", 1), "a preset of its own"
    assert preset("MT10", "sac").num_envs == 10, "a world for each task"


def small(**changes) -> RunSettings:
    config = PPOConfig(rollout_steps=4, minibatches=1, epochs=1, hidden=(8,))
    runner = RunnerConfig(total_steps=4 * 4 * 2)
    return RunSettings("drone-hover", num_envs=4, runner=runner, algorithm_config=config, **changes)


def test_overrides_of_training_hold_in_training_alone(tmp_path):
    own = {"start_box_m": 0.5}
    only = {"start_box_m": 0.7, "episode_s": 1.0, "dt": 0.005}
    training = start(small(task_config=own, train_overrides=only), tmp_path / "run")
    config = training.runner.env.unwrapped.task.cfg
    assert (config.episode_s, config.start_box_m, config.dt) == (1.0, 0.5, 0.005), "the task config goes first"
    contract = training.runner.contract
    told = contract["task_config"]
    assert (told["episode_s"], told["start_box_m"]) == (type(config)().episode_s, 0.5)
    loops = contract["groups"]["drone"]["actuation"]["period"]
    assert (told["dt"], contract["physics_dt"], loops) == (0.002, 0.002, 0.002), "robots run at the config's rate"
    training.runner.env.close()


def test_the_seed_is_that_of_environment_and_algorithm(tmp_path):
    first, second, again = (start(small(seed=s), tmp_path / str(i)) for i, s in enumerate((1, 2, 1)))
    weights = [t.runner.algorithm.learners["drone"].parameters for t in (first, second, again)]
    keys = [t.runner.env.unwrapped.rng.key for t in (first, second, again)]
    for values in (weights, keys):
        assert torch.equal(values[0], values[2]) and not torch.equal(values[0], values[1])


def test_a_resume_takes_the_runs_own_copy_of_the_ranges(tmp_path):
    ranges = tmp_path / "mine.toml"
    ranges.write_text("[mass]\nlow = 1.0\nhigh = 1.1\n")
    training = start(small(randomize=str(ranges)), tmp_path / "run")
    training.runner.iterate()
    training.runner.save()
    wanted = training.runner.env.unwrapped.randomization.ranges
    ranges.unlink()
    assert resume(tmp_path / "run").runner.env.unwrapped.randomization.ranges == wanted


def test_a_resume_imports_no_module_that_the_run_names(tmp_path, monkeypatch):
    """A checkpoint with right checksums whose settings name somebody's module, refused until its package is trusted."""
    training = start(small(), tmp_path / "run")
    training.runner.iterate()
    path = training.runner.save()
    state = checkpoint.read_state(path)
    state["settings"]["ppo"]["network"] = "stranger_of_a_run.networks:make"
    (path / "state.json").write_bytes(checkpoint._seal({k: v for k, v in state.items() if k != "sha256"}))
    package = tmp_path / "code" / "stranger_of_a_run"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n")
    (package / "networks.py").write_text(
        "from torch import nn\ndef make(inputs, outputs): return nn.Linear(inputs, outputs)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    for run in (tmp_path / "run", path):
        with pytest.raises(RookeryError, match=r"asks for code of the module 'stranger_of_a_run.networks'"):
            resume(run)
    assert not (package / "ran").exists()
    monkeypatch.setenv("ROOKERY_TRUST_MODULES", "stranger_of_a_run")
    with pytest.raises(RookeryError, match=r"was made with config|does not fit"):  # its own weights are a perceptron's
        resume(tmp_path / "run")
    assert (package / "ran").exists()


def test_the_contract_of_a_curriculum_says_what_was_drawn(tmp_path):
    """Too short to widen anything: the policy has met no delay and no noise, though both are in the ranges."""
    settings = dataclasses.replace(
        preset("drone-hover"),
        num_envs=4,
        randomize="default",
        randomize_curriculum=True,
        runner=RunnerConfig(total_steps=64),
    )
    result = start(settings, tmp_path / "run").run()
    contract = Contract.read(tmp_path / "run")
    assert result["randomization_share"] == contract.provenance.more["randomization_share"] == 0.0
    assert contract.latency.action.randomized == contract.latency.observation.randomized == (0.0, 0.0)
    assert contract.measurement_errors.noise == contract.measurement_errors.bias == (0.0, 0.0)
    assert contract.provenance.steps == result["steps"]
