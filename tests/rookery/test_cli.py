"""The command line: help, JSON, exit codes, and one sentence with a way out for everything a user can get wrong."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from sampled import slow_but

from rookery.cli.main import COMMANDS, guarded, main
from rookery.cli.train import print_next_steps
from rookery.experiments.runs import find_run, open_run
from rookery.experiments.settings import RunSettings
from rookery.experiments.zoo import zoo
from rookery.sim.errors import RookeryError
from rookery.sim.rendering.video import read_video
from rookery.tasks.registry import TASKS

SMALL = ["--num-envs", "8", "--rollout-steps", "16", "--minibatches", "1", "--epochs", "1"]


def rookery(*words: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "rookery", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A run of a few hundred steps: everything but skill."""
    out = tmp_path_factory.mktemp("runs") / "drone-hover" / "first"
    assert main(["train", "drone-hover", "--steps", "256", "--out", str(out), "--hidden", "8", *SMALL]) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The sentence with which a command line is refused."""
    capsys.readouterr()
    assert main([str(w) for w in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = [
        line
        for line in captured.err.splitlines()
        if not line.startswith(
            tuple(f"rookery: {word} " for word in ("using", "training", "compiling", "functions compiled"))
        )
    ]
    assert len(lines) == 1
    assert lines[0].startswith("rookery: ")
    assert "Traceback" not in captured.err
    return f"{lines[0]}\n"


def answer(capsys: pytest.CaptureFixture[str], *words: object) -> object:
    """The JSON that a command prints; nothing else may be on standard output."""
    capsys.readouterr()
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# Help


def test_help_names_every_command(capsys):
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == bare
    for name, summary in COMMANDS.items():
        assert name in bare
        assert summary in bare


@pytest.mark.parametrize("command", COMMANDS)
def test_command_help_has_options_and_examples(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--help" in out
    assert f"rookery {command}" in out.split("examples:")[1]


def test_version(capsys):
    from rookery import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rookery {__version__}\n"


def test_process_exit_codes():
    assert rookery("--version").returncode == 0
    wrong = rookery("evall")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean 'eval'?" in wrong.stderr


# What a user can get wrong


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ("trian", "did you mean 'train'?"),
        ("--verison", "unknown option '--verison': did you mean '--version'?"),
        ("train drone-hoover", "did you mean 'drone-hover'?"),
        ("train drone-hover --engine mujocoo", "did you mean 'mujoco'?"),
        ("train drone-hover --algorithm poo", "did you mean 'ppo'?"),
        (
            "train drone-hover --algorithm sac --epochs 3",
            "sac has no option --epochs: it is one of ppo, dagger.",
        ),
        ("train drone-hover --algorithm sac --encoder cnn", "encoder=cnn needs pictures"),
        ("train drone-hover --memory-size 500", "memory_size is for networks with memory: give memory=gru too"),
        (
            "train drone-hover --algorithm td3 --buffer-size 1000000000000",
            "the replay memory of 1,000,000,000,000 control steps would take",
        ),
        (
            "train drone-hover --algorithm sac --init drone-hover",
            "--init RUN is for --algorithm ppo, dagger, bc, and sac starts afresh: leave it out",
        ),
        ("train drone-hover --num-env 3", "did you mean --num-envs?"),
        (
            "train go2arm-reach --separate legs --separate arm",
            "--separate is given twice: write all its values behind one",
        ),
        ("train drone-hover --hidden 64 --hidden=32", "--hidden is given twice"),
        ("train drone-hover --critic-hidden 64 --critic-hidden 32", "--critic-hidden is given twice"),
        ("train drone-hover --estimator_hidden 8 --estimator_hidden 16", "--estimator-hidden is given twice"),
        ("train drone-hover --task-config dt=1e-300", "config value dt must be from 1e-06 to 10 s"),
        ("play drone-hover --size 64 64 --size 32 32", "--size is given twice"),
        ("train drone-hover --num-envs 0", "num_envs must be at least 1, got 0"),
        ("train drone-hover --num-envs many", "--num-envs needs a whole number, got 'many'"),
        ("bench env drone-hover --seconds long", "--seconds needs a number, got 'long'"),
        ("train drone-hover --num-envs 1000000000", "num_envs must be at most 1048576, got 1000000000"),
        ("eval drone-hover --controller classical --num-envs 1000000000", "num_envs must be at most 1048576"),
        ("train drone-hover --steps -5", "--steps must be above 0"),
        ("train drone-hover --steps 0.5", "--steps needs a whole number such as 5e6, got '0.5'"),
        ("train drone-hover --steps 1e99", "--steps must be above 0 and at most 1e+12, got 1e+99"),
        ("train drone-hover --steps 1e400", "--steps needs a whole number such as 5e6, got '1e400'"),
        ("train drone-hover --steps nan", "--steps needs a whole number such as 5e6, got 'nan'"),
        ("train drone-hover --config nowhere.toml", "cannot read the settings file nowhere.toml"),
        ("train drone-hover --algorithm bc", "--algorithm bc learns from demonstrations: give them by --data DIR"),
        ("train drone-hover --learning-rat 1", "did you mean --learning-rate?"),
        ("train drone-hover --rollout-steps soon", "--rollout-steps needs a whole number, got 'soon'"),
        ("train drone-hover --hidden wide", "--hidden cannot take this value"),
        ("train drone-hover --hidden -4", "hidden is (-4,)"),
        ("train drone-hover --critic cental", "did you mean 'central'?"),
        ("train drone-hover --share yes", "cannot use 'yes'"),
        ("train drone-hover --learning-rate nan", "learning_rate needs a finite number, got nan"),
        ("train drone-hover --target-success 2", "target_success must be from 0 to 1, got 2"),
        ("train drone-hover --epochs 2.5", "--epochs needs a whole number, got '2.5'"),
        ("train drone-hover --set mass", "--set takes name=value, got 'mass'"),
        ("train drone-hover --set mass=heavy", "--set mass needs a number, got 'heavy'"),
        ("train drone-hover --set mas=1.2", "did you mean 'mass'?"),
        ("eval go2-velocity --set payload=20", "rookery: --set payload=20: give a number from -2 to 8 (kg)."),
        ("train drone-hover --task-config num_drone=2", "did you mean 'num_drones'?"),
        (
            "train drone-hover --task-config reward=3",
            "reward needs numbers by name, reward.action_rate=1.0, got 3",
        ),
        ("train drone-hover --task-config reward.distance=much", "reward.distance needs a number, got 'much'"),
        ("train drone-hover --task-config reward.distance=NaN", "reward.distance needs a finite number, got nan"),
        ("train drone-hover --seed 99999999999999999999", "seed must be from"),
        ("train drone-hover --action ctrb", "did you mean 'ctbr'?"),
        ("train drone-hover --randomize defualt", "did you mean 'default'?"),
        ("train drone-hover --randomize nowhere.toml", "cannot read the randomization file nowhere.toml"),
        ("train", "needs TASK, --config FILE or --resume RUN"),
        ("train --resume nowhere", "there is no folder 'nowhere'"),
        ("eval", "needs RUN"),
        ("eval nowhere", "there is no folder 'nowhere'"),
        ("eval drone-hover --controller clasical", "did you mean 'classical'?"),
        ("eval hand-reorient --controller classical", "hand-reorient has no classical controller: give a run"),
        ("demos record hand-reorient --out demos", "hand-reorient has no classical controller: give a run"),
        ("eval drone-hover --controller classical --episodes 0", "--episodes must be at least 1"),
        ("play nowhere", "there is no folder 'nowhere'"),
        ("export", "give a run and --out DIR"),
        ("export nowhere --out bundle", "there is no folder 'nowhere'"),
        ("export --check nowhere", "nowhere is not a folder"),
        ("bench env drone-hover --num-envs -1", "num_envs must be at least 1, got -1"),
        ("bench env drone-hover --seconds 0", "--seconds must be above 0"),
        ("bench environment drone-hover", "unknown benchmark 'environment'"),
        ("bench env", "needs TASK"),
        ("list everything", "no task has 'everything' in its name"),
    ],
)
def test_refusals_name_the_way_out(words, way_out, capsys, in_tmp):
    assert way_out in refused(capsys, *words.split())
    assert not list(in_tmp.rglob("*")), "a refused command leaves nothing behind"


def test_train_refuses_a_folder_in_use_and_one_it_cannot_write(run_folder, capsys, in_tmp):
    taken = refused(capsys, "train", "drone-hover", "--out", run_folder)
    assert (
        f"is not empty: choose another --out, or go on with the run in it by `rookery train --resume {run_folder}`."
        in taken
    )
    (in_tmp / "file").touch()
    assert f"{in_tmp} is not empty: choose another --out." in refused(capsys, "train", "drone-hover", "--out", in_tmp)
    sentence = refused(capsys, "train", "drone-hover", "--out", in_tmp / "file" / "run", *SMALL)
    assert "choose another folder with --out" in sentence


def test_near_miss_of_a_run(run_folder, capsys):
    assert "did you mean 'first'?" in refused(capsys, "eval", run_folder.with_name("frist"))


def test_near_miss_of_every_policy_that_comes_with_the_package(in_tmp):
    """Two letters of each name change places; what is offered must be that policy."""
    for name in zoo():
        miss = name[:-2] + name[:-3:-1]
        if miss not in zoo() and miss != name:
            with pytest.raises(RookeryError, match=f"did you mean '{name}'"):
                find_run(Path(miss))


def test_the_folder_of_a_tasks_runs_is_refused_with_one_of_them(run_folder, capsys, in_tmp):
    (in_tmp / "latest").symlink_to(run_folder)
    assert f"give one of them, such as {in_tmp / 'latest'}" in refused(capsys, "eval", in_tmp)


def test_resume_refuses_what_does_not_fit(run_folder, capsys):
    assert "is a run of 'drone-hover'" in refused(capsys, "train", "drone-track", "--resume", run_folder)
    assert "leave out --seed" in refused(capsys, "train", "--resume", run_folder, "--seed", 3)
    assert "give a larger --steps" in refused(capsys, "train", "--resume", run_folder)


def test_policy_and_contract_that_disagree_are_refused(run_folder, capsys, in_tmp):
    broken = in_tmp / "broken"
    broken.mkdir()
    (broken / "policy.safetensors").write_bytes((run_folder / "policy.safetensors").read_bytes())
    contract = json.loads((run_folder / "contract.json").read_text())
    contract["groups"]["drone"]["stages"][1]["hidden"] = [16]
    (broken / "contract.json").write_text(json.dumps(contract))
    assert "disagree" in refused(capsys, "eval", broken)


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 128 bytes.")],
)
def test_too_little_memory_is_a_sentence(error, capsys):
    def work():
        raise error

    assert guarded(work) == 2
    assert capsys.readouterr().err.startswith("rookery: not enough memory: give a smaller --num-envs")


def test_other_runtime_errors_keep_their_traceback():
    def work():
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        guarded(work)


@pytest.mark.parametrize("wraps", [ImportError, SystemError])
def test_a_signal_that_a_compiled_module_turns_into_an_error_ends_the_command_all_the_same(wraps, capsys):
    """pybind11's modules do, while they are imported: "ImportError: initialization failed"."""

    def interrupted(by):
        def work():
            try:
                raise by
            except BaseException as error:
                raise wraps("initialization failed") from error

        return work

    assert guarded(interrupted(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "rookery: interrupted.\n"
    with pytest.raises(SystemExit, match="143"):
        guarded(interrupted(SystemExit(143)))
    with pytest.raises(wraps, match="initialization failed"):
        guarded(interrupted(ValueError("a defect")))


@pytest.mark.parametrize("path", ["a" * 300, "loop", "loop/run", "file/run"])
def test_a_path_that_cannot_be_is_a_sentence(path, in_tmp, capsys):
    Path("loop").symlink_to("loop")
    Path("file").touch()
    said = refused(capsys, "eval", path)
    assert "there is no folder" in said or "cannot be used" in said


def test_an_error_of_a_file_is_a_sentence_and_one_without_a_file_a_defect(in_tmp, capsys):
    Path("loop").symlink_to("loop")
    assert guarded(lambda: Path("folder").rename(Path("gone") / "folder")) == 2
    assert "rookery: gone/folder cannot be used (No such file or directory)" in capsys.readouterr().err
    assert guarded(lambda: Path("loop").resolve() and 0) == 2
    assert "loop is a link that ends nowhere" in capsys.readouterr().err

    def work():
        raise OSError("a defect")

    with pytest.raises(OSError, match="a defect"):
        guarded(work)


# What the commands tell programs


def test_list_json(capsys):
    tasks = {task["id"]: task for task in answer(capsys, "list")}
    hover = tasks["drone-hover"]
    assert hover["groups"]["drone"]["count"] == 1
    assert hover["groups"]["drone"]["action_size"] == 4
    assert hover["groups"]["drone"]["observation_size"] > 12
    assert {"mujoco", "pybullet"} <= set(hover["engines"])
    assert set(hover) == {"id", "summary", "groups", "engines", "policies"}


def test_train_leaves_a_complete_run(run_folder):
    names = {p.name for p in run_folder.iterdir()}
    assert {"checkpoints", "policy.safetensors", "contract.json", "progress.csv", "run.json", "settings.toml"} <= names
    contract = json.loads((run_folder / "contract.json").read_text())
    assert contract["task_id"] == "drone-hover"
    assert contract["provenance"]["steps"] == 256
    assert contract["groups"]["drone"]["stages"][1]["hidden"] == [8]
    assert json.loads((run_folder / "run.json").read_text())["settings"]["num_envs"] == 8


def test_default_run_folder_is_linked_as_latest(capsys, in_tmp):
    first = answer(capsys, "train", "drone-hover", "--steps", 128, *SMALL)
    second = answer(capsys, "train", "drone-hover", "--steps", 128, *SMALL)
    assert first["run"] != second["run"]
    assert second["steps"] == 128
    latest = Path("runs/drone-hover/latest")
    assert latest.is_symlink()
    assert latest.resolve() == Path(second["run"]).resolve()


def test_a_command_that_fails_leaves_latest_where_it_was(capsys, in_tmp, monkeypatch):
    """`latest` moves with the first checkpoint: what `eval .../latest` measures is a policy."""
    from rookery.policies.training.runner import Runner

    good = answer(capsys, "train", "drone-hover", "--steps", 128, *SMALL)
    latest = Path("runs/drone-hover/latest")

    def fail(self):
        raise RookeryError("the power went off.")

    monkeypatch.setattr(Runner, "iterate", fail)
    assert "power" in refused(capsys, "train", "drone-hover", "--steps", 128, *SMALL)
    assert latest.resolve() == Path(good["run"]).resolve()
    assert main(["eval", str(latest), "--episodes", "1", "--task-config", "episode_s=2"]) == 0
    assert f"using {Path(good['run']).resolve()} (128 steps)" in capsys.readouterr().err


def test_a_settings_file_makes_the_same_run(run_folder, capsys, in_tmp):
    answer(capsys, "train", "--config", run_folder / "settings.toml", "--out", "again")
    assert (in_tmp / "again" / "settings.toml").read_text() == (run_folder / "settings.toml").read_text()
    again = load_file(in_tmp / "again" / "policy.safetensors")
    for name, value in load_file(run_folder / "policy.safetensors").items():
        assert (value == again[name]).all()


def test_resumed_run_goes_on(run_folder, capsys, in_tmp):
    out = in_tmp / "run"
    answer(capsys, "train", "drone-hover", "--steps", 256, "--out", out, "--randomize", "default", *SMALL)
    assert "leave out --hidden" in refused(capsys, "train", "--resume", out, "--hidden", 3)
    result = answer(capsys, "train", "--resume", out, "--steps", 512)
    assert (result["steps"], result["interrupted"], result["run"]) == (512, False, str(out))
    assert json.loads((out / "contract.json").read_text())["provenance"]["steps"] == 512


def test_randomization_file_travels_with_the_run(capsys, in_tmp):
    ranges = in_tmp / "ranges.toml"
    ranges.write_text("[mass]\nlow = 1.0\nhigh = 1.3\n")
    answer(capsys, "train", "drone-hover", "--steps", 128, "--out", "run", "--randomize", ranges, *SMALL)
    ranges.unlink()
    assert answer(capsys, "train", "--resume", "run", "--steps", 256)["steps"] == 256


@pytest.mark.parametrize("engine", slow_but(["mujoco"], ["mujoco", "pybullet"]))
def test_eval_json(engine, run_folder, capsys):
    result = answer(
        capsys, "eval", run_folder, "--episodes", 3, "--engine", engine, "--task-config", "episode_s=0.2",
        "--task-config", "settled_s=0.1", "--set", "mass=1.1", "--set", "action_delay=0.02",
    )  # fmt: skip
    assert result["episodes"] == 3
    assert result["engine"] == engine
    assert result["set"] == {"mass": 1.1, "action_delay": 0.02}
    assert 0.0 <= result["success_rate"] <= 1.0
    assert 0.0 < result["episode_length_mean"] <= 20.0
    assert isinstance(result["return_mean"], float)
    assert result["metric"] == result["metrics"][result["metric_name"]]
    again = answer(
        capsys, "eval", run_folder, "--episodes", 3, "--engine", engine, "--task-config", "episode_s=0.2",
        "--task-config", "settled_s=0.1", "--set", "mass=1.1", "--set", "action_delay=0.02",
    )  # fmt: skip
    assert again == result


def test_draws_are_played_again(run_folder, capsys, in_tmp):
    """As many episodes as the log has, by default; what the log holds cannot be given as well."""
    short = ("--task-config", "episode_s=0.2", "--task-config", "settled_s=0.1")
    asked = ("--randomize", "default", "--set", "mass=1.1", "--seed", 3, "--num-envs", 2, "--log-draws", "draws.npz")
    first = answer(capsys, "eval", run_folder, "--episodes", 3, *short, *asked)
    again = answer(capsys, "eval", run_folder, *short, "--replay-draws", "draws.npz")
    assert again["episodes"] == 3 and again["seed"] == 3
    assert again["metrics"] == first["metrics"] and again["return_mean"] == first["return_mean"]
    for option in (("--seed", 4), ("--set", "mass=1.1"), ("--randomize", "all"), ("--num-envs", 2)):
        assert "leave out" in refused(capsys, "eval", run_folder, *short, "--replay-draws", "draws.npz", *option)
    message = refused(capsys, "eval", run_folder, *short, "--replay-draws", "draws.npz", "--episodes", 4)
    assert "has 3 episodes to play again: give --episodes 3 or fewer" in message


def test_success_has_its_interval(capsys):
    """Wilson's interval of 8 of 8: 8 / (8 + 1.96^2) to 1."""
    result = answer(capsys, "eval", "drone-hover", "--controller", "classical", "--episodes", 8)
    assert result["success_interval"] == pytest.approx([8 / (8 + 1.959964**2), 1.0])
    assert main(["eval", "drone-hover", "--controller", "classical", "--episodes", "8"]) == 0
    assert "100.0% (67.6% to 100.0% at 95 %)" in capsys.readouterr().out


def test_classical_controller_hovers(capsys):
    result = answer(capsys, "eval", "drone-hover", "--controller", "classical", "--episodes", 8)
    assert result["success_rate"] == 1.0
    assert result["controller"] == "classical"


def test_export_and_check_json(run_folder, capsys, in_tmp):
    written = answer(capsys, "export", run_folder, "--out", "bundle")
    assert {"README.md", "policy.onnx", "policy.c", "policy.h", "policy.hpp", "contract.json", "golden.npz"} == set(
        written["files"]
    )
    checked = answer(capsys, "export", "--check", "bundle")
    assert 0.0 <= checked["onnx_max_error"] < 1e-5
    assert 0.0 <= checked["c_max_error"] < 1e-5
    (in_tmp / "bundle" / "policy.onnx").write_bytes(b"")
    assert "policy.onnx" in refused(capsys, "export", "--check", "bundle", "--json")


@pytest.mark.slow
def test_play_writes_into_the_folder_of_a_run_of_the_users(capsys, in_tmp):
    """Also where it has no checkpoints, as an imported one; the zoo of the package is left alone."""
    own, zoo = in_tmp / "own", find_run(Path("drone-hover"))
    shutil.copytree(zoo, own)
    small = ("--seconds", 0.1, "--size", 64, 48)
    assert Path(answer(capsys, "play", own, *small)["path"]) == own / "video.mp4"
    for package in ("drone-hover", zoo):
        assert answer(capsys, "play", package, *small)["path"] == "video.mp4"
    assert not (zoo / "video.mp4").exists()


def test_play_json(run_folder, capsys, in_tmp):
    result = answer(
        capsys, "play", run_folder, "--out", "video.gif", "--sheet", "sheet.png", "--seconds", 0.2, "--size", 64, 48
    )
    assert result["seconds"] == pytest.approx(0.2)
    assert result["frames"] == 6
    assert "against" not in result and "played_as" not in result
    assert Path(result["path"]).stat().st_size > 100
    assert Path("sheet.png").read_bytes().startswith(b"\x89PNG")
    assert "did you mean 'chase'?" in refused(capsys, "play", run_folder, "--out", "a.mp4", "--camera", "chas")
    assert ".mp4 or .gif" in refused(capsys, "play", run_folder, "--out", "a.avi")


def test_a_draft_is_small(capsys, run_folder, in_tmp):
    answer(capsys, "play", run_folder, "--out", "draft.mp4", "--seconds", 0.1, "--draft")
    frames, _ = read_video("draft.mp4")
    assert frames[0].shape == (360, 640, 3)
    assert "leave out --size" in refused(capsys, "play", run_folder, "--draft", "--size", 64, 48)


@pytest.mark.parametrize("engine", ["mujoco", "pybullet"])
def test_bench_json(engine, capsys):
    result = answer(
        capsys, "bench", "env", "drone-hover", "--engine", engine, "--num-envs", 4, "--seconds", 0.2,
        "--action", "rotor_thrust",
    )  # fmt: skip
    assert result["agent_steps_per_s"] == result["env_steps_per_s"] > 0
    assert result["physics_steps_per_s"] == pytest.approx(5 * result["env_steps_per_s"])
    assert result["raw_physics_steps_per_s"] > 0
    assert 0.0 < result["efficiency"] < 2.0
    assert list(result["stages"]) == ["physics", "task", "observation", "reset", "rest"]
    assert sum(result["stages"].values()) == pytest.approx(1.0)
    assert all(share > 0.0 for stage, share in result["stages"].items() if stage != "reset")


def test_doctor_json():
    """In a process of its own, where pybullet's greeting would reach standard output."""
    done = rookery("doctor", "--json")
    assert done.returncode == 0
    findings = {f["name"]: f for f in json.loads(done.stdout)}
    assert findings["mujoco"]["status"] == findings["torch"]["status"] == "ok"
    assert all(f["remedy"] for f in findings.values() if f["status"] == "missing")


def test_tables_for_people(run_folder, capsys):
    for words in (["list"], ["doctor"], ["eval", run_folder, "--episodes", "1", "--task-config", "episode_s=3"]):
        assert main([str(w) for w in words]) == 0
        out = capsys.readouterr().out
        assert "{" not in out
        if words == ["list"]:
            assert [name for name in TASKS if name not in out] == [], "no name is cut"


def test_train_announces_its_settings_and_the_next_steps(capsys, in_tmp):
    assert main(["train", "drone-hover", "--steps", "128", "--seed", "3", "--out", "run", *SMALL]) == 0
    printed = capsys.readouterr()
    announced = "rookery: training drone-hover with ppo on rotor: 8 worlds, 128 steps, seed 3, in run\n"
    assert announced in printed.err
    assert "rookery eval run --episodes 256 --engine pybullet\n" in printed.out
    result = {"steps": 128, "seconds": 1.0, "success": None, "randomization_share": 0.3, "stopped": "steps"}
    print_next_steps(RunSettings("go2arm-loco-manipulation"), Path("run"), result)
    assert "rookery eval run --episodes 256\n" in capsys.readouterr().out, "it runs on one engine alone"


# Ctrl-C


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "drone-hover", "--steps", "1e9", "--out", str(out), *SMALL]
    process = subprocess.Popen([sys.executable, "-m", "rookery", *words], stderr=subprocess.PIPE, text=True)
    progress = out / "progress.csv"
    deadline = time.monotonic() + 120
    while not (progress.exists() and progress.read_text().count("\n") > 3) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"rookery train --resume {out}" in error
    assert "Traceback" not in error
    (newest,) = sorted((out / "checkpoints").iterdir())[-1:]
    more = int(newest.name) + 128
    assert answer(capsys, "train", "--resume", out, "--steps", more)["steps"] == more


def test_train_can_imitate_the_classical_controller(tmp_path):
    """Two short iterations make a run that can be evaluated, and that PPO and more imitation go on from, with the same limit of
    observations."""
    out = tmp_path / "script"
    small = ["--num-envs", "8", "--steps", "512", "--hidden", "16"]
    assert main(["train", "drone-hover", "--algorithm", "dagger", "--obs-clip", "3.5", "--out", str(out), *small]) == 0
    assert main(["eval", str(out), "--episodes", "2", "--json"]) == 0
    for algorithm in ("ppo", "dagger"):
        start = ["--algorithm", algorithm, "--init", str(out), "--out", str(tmp_path / algorithm)]
        assert main(["train", "drone-hover", *start, *small]) == 0
    for run in (out, tmp_path / "ppo", tmp_path / "dagger"):
        (policy,) = open_run(run)[0].values()
        assert policy.chain.links[0].to_json()["clip"] == 3.5
    assert "obs_clip = 3.5" in (tmp_path / "ppo" / "settings.toml").read_text()
    assert main(["train", "drone-hover", "--algorithm", "sarsa"]) == 2


@pytest.mark.parametrize("split", [["a=1", "b=2"], ["a=1", "--task-config", "b=2"]])
@pytest.mark.parametrize("joint", ["--task-config", "--task_config"])
def test_values_by_name_stand_behind_one_option_or_several(split: list[str], joint: str) -> None:
    from rookery.cli.eval import Args
    from rookery.cli.options import parse
    from rookery.cli.train_options import read

    args = parse(Args, [joint, *split, "runs/x=1", "--set=mass=1.2", "drag=2"], "eval", "")
    assert args is not None
    assert (args.task_config, args.set, str(args.run)) == (("a=1", "b=2"), ("mass=1.2", "drag=2"), "runs/x=1")
    words = ["drone-hover", "--hidden", "8", "4", joint, "num_drones=2", "episode_s=5", "--steps", "64"]
    parsed = read(words, "")
    assert parsed is not None
    assert parsed.settings.task_config == {"num_drones": 2, "episode_s": 5}
