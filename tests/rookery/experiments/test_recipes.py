"""Recipes: policies of the zoo are trained again at a thousandth of their length; stages that are done are not repeated."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tomllib
from pathlib import Path

import pytest
import torch

from rookery.cli.main import main
from rookery.experiments.opponents import opponents_in
from rookery.experiments.recipes import Recipe, find_recipe, preset, read_file, read_recipe, recipe_files, recipe_folder
from rookery.experiments.reproduction import LEAST_WORLDS, UPDATES, Reproduction, scaled
from rookery.experiments.runs import open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.zoo import zoo
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.sac import SACConfig
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.errors import RookeryError
from rookery.tasks.drones.base import DroneTask
from rookery.tasks.drones.hover import Hover, HoverConfig
from rookery.tasks.locomanip.legged_task import LeggedTask
from rookery.tasks.manipulation.arm_task import ArmTask
from rookery.tasks.registry import TASKS, TaskEntry
from rookery.tasks.volleyball.base import VolleyTask

RECIPES = recipe_folder()

SHORT = """
task = "drone-hover"
[[stages]]
name = "imitated"
algorithm = "dagger"
num_envs = 16
runner = {total_steps = 1024}
dagger = {hidden = [16, 16]}
[[stages]]
name = "trained"
init = "imitated"
num_envs = 16
runner = {total_steps = 1024}
ppo = {hidden = [16, 16], minibatches = 2, epochs = 1}
[[stages]]
kind = "low_pass"
name = "smooth"
of = "trained"
share = 0.5
"""


def bits(folder: Path) -> dict[str, torch.Tensor]:
    (policy,) = open_run(folder)[0].values()
    return dict(policy.state_dict())


def write(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text)
    return file


QUICK = ("drone-hover-gru",)
"""Policies that `make test` reproduces; `make test-all` does so with every one."""


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in sorted(zoo())])
def test_every_policy_of_the_zoo_is_reproduced(name, tmp_path):
    """By one command, with the network and the observation of the stored one; at a small share of its length."""
    scale = 0.0003
    assert main(["reproduce", name, "--scale", str(scale), "--out", str(tmp_path / "made")]) == 0
    (policies, contract), (stored, wanted) = open_run(tmp_path / "made"), open_run(zoo()[name])
    assert contract.task_id == wanted.task_id
    assert policies.keys() == stored.keys()
    for group, policy in policies.items():
        assert contract.groups[group].spec.observation_size == wanted.groups[group].spec.observation_size
        assert policy.chain == stored[group].chain
    steps = contract.provenance.steps
    assert steps is not None
    assert scale * find_recipe(name).total_steps <= steps
    assert contract.provenance.command is not None
    for fused in (s.name for s in find_recipe(name).stages if s.kind == "fuse"):
        made = open_run(tmp_path / "made" / fused)[1]
        assert made.latency.action.randomized is None, "of two trainings, neither with delays that this contract knows"


def staged() -> list[str]:
    """Recipes of several stages whose policies are not in the zoo."""
    return sorted(n for n, f in recipe_files().items() if n not in zoo() and "stages" in read_file(f))


@pytest.mark.slow
@pytest.mark.parametrize("name", staged())
def test_other_recipes_of_stages_are_carried_out(name, tmp_path):
    assert main(["reproduce", name, "--scale", "0.0003", "--out", str(tmp_path / "made")]) == 0
    made = Reproduction(find_recipe(name), tmp_path / "made", 0.0003)
    assert made.done == [stage.name for stage in find_recipe(name).stages]
    assert open_run(tmp_path / "made")[1].task_id == find_recipe(name).task


def test_recipes_are_of_tasks_and_of_policies_in_the_zoo():
    assert set(recipe_files()) <= {*zoo(), *TASKS}


@pytest.mark.parametrize("task", ["drone-formation", "hand-grasp-objects"])
def test_a_task_without_stages_has_one_by_its_preset(task):
    """Of its own recipe, of that of the class that it derives from, or of the task that a set is of."""
    (stage,) = find_recipe(task).stages
    assert stage.values == preset(task).to_values()


def test_settings_are_over_those_of_the_file_that_is_extended(tmp_path):
    (tmp_path / "below.toml").write_text(
        "[settings]\nnum_envs = 8\nweights = {a = 1.0, b = 1.0}\nppo = {epochs = 3, gamma = 0.9}\n"
    )
    file = write(tmp_path, 'extends = "below.toml"\n[settings]\nweights = {b = 2.0}\nppo = {epochs = 5}\n')
    wanted = {"num_envs": 8, "weights": {"a": 1.0, "b": 2.0}, "ppo": {"epochs": 5, "gamma": 0.9}}
    assert read_file(file)["settings"] == wanted
    (tmp_path / "below.toml").write_text("[algorithms.sac]\nseed = 1\nsac = {n_step = 3, batch = 8}\n")
    file.write_text('extends = "below.toml"\n[algorithms.sac]\nsac = {batch = 16}\n')
    assert read_file(file)["algorithms"] == {"sac": {"seed": 1, "sac": {"n_step": 3, "batch": 16}}}
    (tmp_path / "below.toml").write_text('extends = "mine.toml"\n')
    file.write_text('extends = "below.toml"\n')
    with pytest.raises(RookeryError, match="extends itself"):
        read_file(file)
    file.write_text('extends = "absent.toml"')
    with pytest.raises(RookeryError, match="cannot read the recipe"):
        read_file(file)


def test_shared_settings_are_over_the_preset_and_under_each_stages_own(tmp_path):
    text = SHORT.replace("[[stages]]", "[settings]\nseed = 3\nppo = {hidden = [8, 8], clip = 0.3}\n[[stages]]", 1)
    imitated, trained, _ = read_recipe(write(tmp_path, text)).stages
    assert (imitated.values["seed"], trained.values["seed"]) == (3, 3)
    assert imitated.values["dagger"]["hidden"] == [16, 16], "settings of PPO are not those of an imitation"
    assert (trained.values["ppo"]["hidden"], trained.values["ppo"]["clip"]) == ([16, 16], 0.3)
    assert trained.values["ppo"]["learning_rate"] == preset("drone-hover").algorithm_config.learning_rate


def test_values_of_the_task_are_over_those_below_one_by_one(tmp_path, monkeypatch):
    """In a file that is extended, a recipe, its stages and a class's preset; what holds in training alone is whole."""
    (tmp_path / "below.toml").write_text(
        "[settings]\ntask_config = {drone = 'hummingbird', reward = {crash = -3.0}}\nfixed = {mass = 1.1}\n"
        "train_overrides = {episode_s = 3.0}\n"
    )
    text = SHORT.replace(
        "[[stages]]",
        'extends = "below.toml"\n[settings]\ntask_config = {dt = 0.01, reward = {alive = 0.5}}\n'
        "fixed = {drag = 0.5}\n[[stages]]",
        1,
    ).replace(
        'init = "imitated"', 'init = "imitated"\ntask_config = {dt = 0.005}\ntrain_overrides = {start_tilt = 0.1}'
    )
    imitated, trained, _ = read_recipe(write(tmp_path, text)).stages
    given = {"drone": "hummingbird", "dt": 0.01, "reward": {"crash": -3.0, "alive": 0.5}}
    assert imitated.values["task_config"] == given
    assert trained.values["task_config"] == given | {"dt": 0.005}
    assert imitated.values["fixed"] == trained.values["fixed"] == {"mass": 1.1, "drag": 0.5}
    assert imitated.values["train_overrides"] == {"episode_s": 3.0}
    assert trained.values["train_overrides"] == {"start_tilt": 0.1}

    class Heavy(Hover):
        """Hover with a heavy drone."""

        preset = {"task_config": {"drone": "hummingbird", "dt": 0.01}}  # noqa: RUF012

    class Slow(Heavy):
        """Hover slowly with it."""

        preset = {"task_config": {"dt": 0.005}}  # noqa: RUF012

    monkeypatch.setitem(TASKS, "slow", TaskEntry.of(Slow, "slow"))
    assert preset("slow").task_config == {"drone": "hummingbird", "dt": 0.005}


def test_a_class_has_its_own_preset_over_that_of_the_task_that_it_derives_from(monkeypatch):
    class Lower(Hover):
        """Hover lower."""

    class Lowest(Lower):
        """Hover lowest."""

        preset = {"num_envs": 24, "ppo": {"epochs": 2}}  # noqa: RUF012

    class Cloned(Lowest):
        """Hover as low, learned by SAC."""

        preset = {"algorithm": "sac", "sac": {"batch": 32}}  # noqa: RUF012

    class Other(Hover):
        """Another config, to which the settings of drone-hover may say nothing."""

        Config = object

    for name, cls in {"lower": Lower, "lowest": Lowest, "cloned": Cloned, "other": Other}.items():
        monkeypatch.setitem(TASKS, name, TaskEntry.of(cls, name))
    assert TASKS["lower"].engines == ("rotor", "mujoco", "pybullet")
    assert preset("lower").to_values() == preset("drone-hover").to_values() | {"task": "lower"}
    assert issubclass(Lower.Config, HoverConfig)
    hover = preset("drone-hover").to_values()
    ppo = hover["ppo"] | {"epochs": 2}
    assert preset("lowest").to_values() == hover | {"task": "lowest", "num_envs": 24, "ppo": ppo}
    learned = preset("cloned")
    assert (learned.num_envs, learned.runner) == (24, preset("lowest").runner)
    assert learned.algorithm_config == SACConfig(batch=32), "settings of PPO are not those of SAC"
    family = tomllib.loads((RECIPES / "families" / "drone.toml").read_text())["settings"]
    assert preset("other") == RunSettings.from_values({"task": "other", "engine": "rotor", **family})
    monkeypatch.setattr(Lowest, "preset", RunSettings())
    with pytest.raises(RookeryError, match="preset of Lowest needs settings by name"):
        preset("lowest")


@pytest.mark.parametrize(
    ("base", "family"), [(DroneTask, "drone"), (LeggedTask, "legged"), (ArmTask, "panda"), (VolleyTask, "volley")]
)
def test_a_task_on_a_base_is_trained_as_the_family_of_this_package_is(base, family, monkeypatch):
    """Not with the algorithm's defaults, with which a drone does not learn to fly: the figures are in the recipe's file."""
    monkeypatch.setitem(TASKS, "mine", TaskEntry.of(type("Mine", (base,), {"__doc__": "Mine."}), "mine"))
    settings = read_file(RECIPES / "families" / f"{family}.toml")["settings"]
    ours = preset("mine").to_values()
    assert {
        **ours,
        "ppo": ours["ppo"] | settings["ppo"],
        **{k: v for k, v in settings.items() if k not in ("ppo", "runner")},
    } == ours
    assert ours["ppo"] != RunSettings().to_values()["ppo"]


@pytest.mark.parametrize(("scale", "worlds"), [(1e-3, 25), (1.0, 512), (1e-5, LEAST_WORLDS)])
def test_a_short_stage_has_fewer_worlds_but_some_updates(scale, worlds):
    steps = 3_200_000
    runner = RunnerConfig(total_steps=steps)
    config = PPOConfig(rollout_steps=32)
    short = scaled(RunSettings("drone-hover", num_envs=512, runner=runner, algorithm_config=config), scale)
    assert short.runner.total_steps == steps * scale
    assert short.num_envs == worlds
    if worlds > LEAST_WORLDS:
        assert short.runner.total_steps >= UPDATES * worlds * short.algorithm_config.rollout_steps


@pytest.mark.slow
def test_a_stopped_reproduction_goes_on_and_ends_with_the_same_bits(tmp_path):
    """Stopped before each stage has its first checkpoint; what is done stays as it is."""
    recipe = read_recipe(write(tmp_path, SHORT))
    Reproduction(recipe, tmp_path / "whole").run()
    stopped = []

    def stop_once(line, training):
        if line not in stopped:
            stopped.append(line)
            raise KeyboardInterrupt

    times = {}
    for _ in range(4):
        try:
            assert Reproduction(recipe, tmp_path / "parts").run(stop_once)
        except KeyboardInterrupt:
            for stage in json.loads((tmp_path / "parts" / "recipe.json").read_text())["done"]:
                file = tmp_path / "parts" / stage / "contract.json"
                assert times.setdefault(stage, file.stat().st_mtime_ns) == file.stat().st_mtime_ns
    assert len(stopped) == 3
    assert len(times) == 2
    one, other = bits(tmp_path / "whole"), bits(tmp_path / "parts")
    assert all(torch.equal(one[k], other[k]) for k in one)
    smooth = open_run(tmp_path / "parts")[0]["drone"]
    assert smooth.chain.find(Perceptron).hidden == (20, 20)  # 16 and the four last actions


def test_ranges_of_the_last_stage_stand_beside_the_policy(tmp_path):
    """By them the policy is stored and trained on."""
    ranges = tmp_path / "mass.toml"
    ranges.write_text("[mass]\nlow = 0.9\nhigh = 1.1\n")
    stage = '[[stages]]\nname = "only"\nnum_envs = 4\nrandomize = "mass.toml"\nrunner = {total_steps = 64}\n'
    recipe = read_recipe(
        write(tmp_path, f'task = "drone-hover"\n\n{stage}ppo = {{rollout_steps = 8, minibatches = 1, epochs = 1}}\n')
    )
    assert Reproduction(recipe, tmp_path / "run").run()
    assert (tmp_path / "run" / "randomization.toml").read_text() == ranges.read_text()


@pytest.mark.slow
def test_a_recipe_may_change_where_nothing_of_it_is_done(tmp_path):
    """Its last stage is another before that begins; a change of what is done is refused."""
    made, announced = tmp_path / "made", []

    def stop_at_smooth(line, training):
        announced.append(line)
        if line.endswith("smooth"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Reproduction(read_recipe(write(tmp_path, SHORT)), made).run(stop_at_smooth)
    before = bits(made / "trained")
    for old, new in (
        ("minibatches = 2", "minibatches = 1"),
        ("runner = {total_steps = 1024}\ndagger", "seed = 3\ndagger"),
    ):
        with pytest.raises(RookeryError, match="was begun with another recipe"):
            Reproduction(read_recipe(write(tmp_path, SHORT.replace(old, new))), made)
    other = read_recipe(write(tmp_path, SHORT.replace("share = 0.5", "share = 0.25")))
    with pytest.raises(RookeryError, match="was begun with --scale 1"):
        Reproduction(other, made, scale=0.5)
    announced.clear()
    assert Reproduction(other, made).run(lambda line, training: announced.append(line))
    assert [line.split()[-1] for line in announced] == ["smooth"]
    after = bits(made / "trained")
    assert all(torch.equal(before[k], after[k]) for k in before)
    with pytest.raises(RookeryError, match="was begun with another recipe"):
        Reproduction(read_recipe(write(tmp_path, SHORT)), made)


def test_a_seed_that_the_recipe_has_goes_on_and_another_is_refused_by_its_name(tmp_path):
    """Whether it was given or left out; with another one, the sentence says how the folder was begun."""
    recipe = read_recipe(write(tmp_path, SHORT))
    seeds = {stage.values["seed"] for stage in recipe.stages if stage.kind == "train"}
    (own,) = seeds
    for begun, same, other, words in (
        (None, own, own + 1, "without --seed"),
        (own, None, own + 1, f"with --seed {own}:"),
        (own + 1, own + 1, None, f"with --seed {own + 1}:"),
    ):
        folder = tmp_path / f"begun-{begun}"
        folder.mkdir()
        Reproduction(recipe, folder, 0.5, begun)._note()
        (folder / "imitated").mkdir()
        Reproduction(recipe, folder, 0.5, same)
        with pytest.raises(RookeryError, match=f"begun {words}"):
            Reproduction(recipe, folder, 0.5, other)
        with pytest.raises(RookeryError, match=r"begun with --scale 0\.5:"):
            Reproduction(recipe, folder, 0.25, same)
    changed = read_recipe(write(tmp_path, SHORT.replace("num_envs = 16\nrunner", "num_envs = 8\nrunner", 1)))
    with pytest.raises(RookeryError, match="begun with another recipe:"):
        Reproduction(changed, tmp_path / "begun-None", 0.5, own)


PLAYED = """
task = "volley-1v1"

[settings]
num_envs = 16
runner = {total_steps = 512}
ppo = {hidden = [8, 8], rollout_steps = 16, minibatches = 1, epochs = 1}

[[stages]]
name = "self-play"

[[stages]]
name = "against"
init = "self-play"
opponents = {team = "either", members = [{policy = "self-play", weight = 2.0}, {policy = "controller"}]}
"""


def test_a_stage_plays_against_stages_before_it(tmp_path):
    recipe = read_recipe(write(tmp_path, PLAYED))
    made = tmp_path / "made"
    assert Reproduction(recipe, made).run()
    made = made.rename(tmp_path / "moved")  # as a user does who keeps it
    first, script = opponents_in("opponents.toml", made / "against").members
    assert Path(first.policy).resolve() == (made / "self-play").resolve()
    assert (first.weight, script.policy) == (2.0, "controller")
    assert Reproduction(recipe, made).done == ["self-play", "against"]


def test_a_stage_whose_folder_was_removed_is_trained_again_with_the_same_bits(tmp_path):
    """As a user does with one that is damaged."""
    recipe = read_recipe(write(tmp_path, PLAYED))
    made = tmp_path / "made"
    assert Reproduction(recipe, made).run()
    before = bits(made / "self-play")
    shutil.rmtree(made / "self-play")
    again = Reproduction(recipe, made)
    assert again.done == ["against"]
    assert again.run()
    after = bits(made / "self-play")
    assert all(torch.equal(before[k], after[k]) for k in before)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('policy = "self-play"', 'policy = "against"', "policy of opponents in stage 2 of mine.toml"),
        ('policy = "self-play"', 'policy = "controller"', "twice"),
        ('policy = "self-play", weight', 'policy = "self-play", wieght', "wieght"),
        ('opponents = {team = "either", members', "opponents = {members", "team"),
        (
            'opponents = {team = "either", members = [',
            'opponents = "script.toml"\nother = {members = [',
            "need a table",
        ),
        ("weight = 2.0", "weight = -2.0", "weights of the members in opponents in stage 2 of mine.toml"),
        ('"self-play", weight = 2.0}, {policy = "controller"}', '"controller", weight = 0.0}', "not all 0"),
        ("weight = 2.0", 'weight = 1e308}, {policy = "volley-skill", weight = 1e308', "weights"),
        (
            "[settings]\n",
            '[settings]\nopponents = "script.toml"\n',
            "opponents in settings of mine.toml belong to a stage",
        ),
        ("[settings]\n", '[algorithms.sac]\nopponents = "script.toml"\n[settings]\n', "opponents in algorithms.sac"),
        ('"self-play"', '"controller"', "stage 1 of mine.toml is called 'controller', which is taken"),
        ('"self-play"', '"contract.json"', "which is taken"),
        ('"self-play"', '"against-opponents.toml"', "which is taken"),
    ],
)
def test_opponents_that_are_none_are_one_sentence(tmp_path, capsys, old, new, message):
    assert main(["reproduce", str(write(tmp_path, PLAYED.replace(old, new))), "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('team = "either"', 'team = "left"', "unknown team of volley-1v1 'left'"),
        ('policy = "controller"', 'policy = "drone-hover"', "drone-hover is a policy of drone-hover"),
        ('task = "volley-1v1"', 'task = "drone-hover"', "unknown team of drone-hover 'either'"),
    ],
)
def test_opponents_that_cannot_play_are_refused_before_any_stage_is_trained(tmp_path, capsys, old, new, message):
    made = tmp_path / "made"
    assert main(["reproduce", str(write(tmp_path, PLAYED.replace(old, new))), "--out", str(made)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not made.exists()


def test_a_policy_that_acts_otherwise_is_no_start_of_a_stage(tmp_path, capsys):
    text = PLAYED.replace('name = "self-play"', 'name = "self-play"\ninit = "drone-hover"', 1)
    assert main(["reproduce", str(write(tmp_path, text)), "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "'ctbr', and this task by 'rotor_thrust': take one of a task with the same." in said


def test_a_file_of_opponents_in_the_preset_of_a_task_is_that_of_its_reproduction(tmp_path, in_tmp):
    """A task of one's own may name it; its path counts as for `rookery train`."""
    Path("script.toml").write_text('team = "near"\nmembers = [{policy = "controller"}]\n')
    (stage,) = read_recipe(write(tmp_path, PLAYED.split("[[stages]]")[0])).stages
    stage = dataclasses.replace(stage, values=stage.values | {"opponents": "script.toml"})
    recipe = Recipe("mine", "volley-1v1", (stage,))
    assert Reproduction(recipe, tmp_path / "made").run()
    played = opponents_in("opponents.toml", tmp_path / "made" / "trained")
    assert (played.team, [m.policy for m in played.members]) == ("near", ["controller"])


def test_a_stage_that_was_interrupted_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    from rookery.experiments.training import Training

    recipe = read_recipe(write(tmp_path, SHORT))
    run = Training.run
    made = []

    def interrupted(self):
        result = run(self)
        made.append(result["steps"])
        return result | {"interrupted": len(made) == 1}

    monkeypatch.setattr(Training, "run", interrupted)
    assert not Reproduction(recipe, tmp_path / "made").run()
    assert Reproduction(recipe, tmp_path / "made").run()
    assert made == [1024, 1024]  # the first had all its steps, and is not trained again


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "trained"', 'name = "imitated"', "taken"),
        ('name = "trained"', 'name = "../out"', "folder's"),
        ('init = "imitated"', 'init = "imitatd"', "imitated"),
        ('init = "imitated"', 'init = "smooth"', "smooth"),
        ('kind = "low_pass"', 'kind = "low_pas"', "low_pass"),
        ("share = 0.5", "", "share"),
        ("share = 0.5", 'share = "much"', "number"),
        ("share = 0.5", "share = 0.5\nnames = []", "actions"),
        ("share = 0.5", "share = 0.5\nactions = 3", "list of names"),
        ("num_envs = 16", "num_envs = 0", "num_envs"),
        ("epochs = 1", "epoch = 1", "epochs"),
        ('task = "drone-hover"', 'task = "drone-hovr"', "drone-hover"),
        ('task = "drone-hover"', 'tsk = "drone-hover"', "task"),
        ("[[stages]]", "[[stage]]", "stage"),
        ('task = "drone-hover"', 'task = "drone-hover"\nsettings = 3', "settings in mine.toml needs values by name"),
        ('task = "drone-hover"', 'task = "drone-hover"\nalgorithms = {sac = 3}', "algorithms.sac in mine.toml needs"),
        ('task = "drone-hover"', 'task = "drone-hover"\nextends = 3', "cannot read the recipe"),
        ('task = "drone-hover"', 'task = "drone-hover"\nsettings = {ppo = 3}', "ppo needs values by name"),
        ('task = "drone-hover"', 'task = "drone-hover"\nsettings = {num_env = 3}', "num_envs"),
        ("[[stages]]", "[stages", "TOML"),
    ],
)  # fmt: skip
def test_a_recipe_that_is_none_is_one_sentence(tmp_path, capsys, old, new, message):
    assert main(["reproduce", str(write(tmp_path, SHORT.replace(old, new))), "--out", str(tmp_path / "made")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_other_errors_are_one_sentence(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "file").touch()
    begun = tmp_path / "begun"
    begun.mkdir()
    plan = Reproduction(find_recipe("drone-hover"), begun, 0.5)
    plan._note()
    for words, message in (
        (["drone-hovr"], "drone-hover"),
        (["drone-hover", "--scale", "2"], "--scale"),
        (["drone-hover", "--scale", "0"], "--scale"),
        (["drone-hover", "--seed", str(2**70)], "seed"),
        (["drone-hover", "--out", str(taken)], "--out"),
        (["drone-hover", "--out", str(begun)], "--scale"),
        (["nowhere.toml"], "nowhere.toml"),
    ):
        assert main(["reproduce", *words]) == 2
        said = capsys.readouterr().err
        assert message in said, words
        assert said.count("\n") == 1, words
    with pytest.raises(RookeryError, match="stages"):
        read_recipe(write(tmp_path, ""))
