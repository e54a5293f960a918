"""Every benchmark script runs at a small scale, in a copy of its folder: what it measures there is written nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rookery

ROOT = Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
OUT = "--out NAME.json"  # of the script: rows of another one in a file are refused
SMALL = "--steps 512 --num-envs 16"
TRAIN = "python -m rookery train {task} --steps {steps} --num-envs {envs} --out {out} --rollout-steps {rollout}"
"""The other checkout is this one."""
BEFORE = {
    "gate_ranking": f"rookery train drone-hover {SMALL} --rollout-steps 16 --checkpoint-every 1 --out runs/a && ",
    "gate_ranking_families": f"rookery train table-reach {SMALL} --rollout-steps 16 --checkpoint-every 1 --out runs/b && ",
    "seeds": 'printf \'task = "drone-hover"\n[[stages]]\nname = "short"\nnum_envs = 16\nrunner = {total_steps = 512}\n\' '
    "> short.toml && ",
}
"""What a script needs, made before it."""

WORDS = {
    "ablation": "--steps 64 --num-envs 2 --episodes 2 --only 'random goals' predictions --out runs/ablation",
    "adapters": "--tasks drone-hover --num-envs 8 --rounds 1",
    "any_drone": "--episodes 2",
    "cameras": "--seconds 0.05 --num-envs 2 --width 16 --height 12",
    "compare_checkouts": f"--before '{TRAIN}' --after '{TRAIN}' --rounds 1 --tasks drone-hover",
    "contacts": "--limits --starts 1",
    "curriculum": f"--steps 0.1 --seeds 1 --episodes 2 {OUT} -- {SMALL}",
    "decompose": f"cup --methods ours {OUT}",
    "env_efficiency": "--seconds 0.1 --num-envs 8",
    "environments": "--before python --seconds 0.05 --rounds 1",
    "gate_ranking": "--default runs/a --none runs/a --repeats 1 --episodes 6 --combinations 2 --hidden-episodes 2",
    "gate_ranking_families": "reach --run runs/b --checkpoints 1 --episodes 6 --combinations 2 --hidden-episodes 2",
    "gpu_learner": f"--device cpu --worlds 16 --tasks drone-hover --only ppo --quick {OUT}",
    "hand_grasp": "--starts 2 --objects ball",
    "kill_league": f"--kills 1 {OUT}",
    "kill_resume": "--moments 1 --algorithms ppo",
    "kill_workers": f"--kills 1 --only worker {OUT}",
    "hierarchy": f"--cases 'drone-hover, one skill' --num-envs 8 --seconds 0.1 --turns 1 {OUT}",
    "kernels": f"--seconds 0.05 --only 'drone-hover: pursue' {OUT}",
    "league": f"--solvers fictitious --iterations 1 --steps 512 --exploit 512 --at 1 --episodes 4 {OUT}",
    "learning": f"drone-hover --seeds 1 --episodes 2 --pybullet-episodes 1 -- {SMALL}",
    "learning_curves": f"drone-hover --curve 'ppo {SMALL}' --seeds 0 --points 1 --episodes 2 --runs runs {OUT}",
    "legged": "--seconds 0.1",
    "legged_fast": "physics --repeats 1",
    "links": f"--episodes 1 --only betaflight {OUT}",
    "loco_manipulation": f"--episodes 2 {OUT}",
    "machine": "",
    "merge_policies": "drone-hover policies/zoo/drone-hover policies/zoo/drone-hover --out merged",
    "multi_agent_libraries": f"--only surround_skrl_ippo.py --length 32 {OUT}",
    "mutation": f"--mutants 1 --modules policies/low_pass.py {OUT}",
    "off_policy_vs_sb3": f"--steps 300 --every 150 --hidden 8 8 --seeds 1 {OUT}",
    "overlap": f"go2-velocity --turns 1 {OUT}",
    "outdoor": f"--episodes 16 --only drone-hover {OUT}",
    "own_robots": f"{OUT} --arms-out own_arms.json",
    "population": f"--task drone-tag --seconds 0.1 --num-envs 8 --turns 1 --members 2 {OUT}",
    "ppo": "--cases train-256 --seconds 0.05 --rounds 1",
    "ppo_vs_sb3": "--num-envs 16 --steps 8 --epochs 1 --seconds 0.1",
    "randomization_cost": "--rounds 1",
    "reach": "--episodes 2",
    "robustness": "--episodes 1",
    "rotor": "--cases engine --threads 1 --seconds 0.02 --rounds 1",
    "scale": f"drone-hover --num-envs 32 --seconds 0.02 --rounds 1 {OUT}",
    "scripted": "panda --episodes 1 --only panda-lift",
    "seeds": f"short.toml --seeds 0 --episodes 2 --runs runs/seeds {OUT}",
    "smooth_policy": "--out smooth",
    "stairs": f"--episodes 16 {OUT}",
    "surround_any": "--numbers 2 --episodes 2",
    "sysid_coverage": f"--logs 1 --seconds 4 --profile {OUT}",
    "tabletop": "--tasks reach --seconds 0.05 --num-envs 2",
    "tables": "",
    "task_sets": f"MT10 --episodes 1 {OUT}",
    "time_to_success": f"drone-hover --variant '{SMALL}' --seeds 1 --episodes 2 {OUT}",
    "updates": f"--repetitions 1 {OUT}",
    "updates_vs_sb3": f"--repetitions 1 {OUT}",
    "video": f"--seconds 0.2 --repeats 1 {OUT}",
    "viewer": f"--only sent page stream --tasks drone-hover --repeats 1 --seconds 0.5 {OUT}",
    "volley_rallies": f"policies/zoo/volley-6v6 --episodes 2 --only nominal {OUT}",
    "volley_skills": f"--episodes 1 --only go {OUT}",
    "volley_teams": f"--steps 2000 --episodes 2 --only 'hierarchy : script' {OUT}",
    "volleyball": f"--episodes 1 {OUT}",
    "volleyball_scripted": f"--episodes 1 --only volley-hit {OUT}",
    "workers": "--repetitions 1 --iterations 4 --tasks drone-hover",
    "walking": f"--episodes 2 {OUT}",
    "zoo": "--only drone-hover --parts nominal gate --episodes 1 --processes 1 --gate '--episodes 8 --interval 0.25 --rounds 0 "
    "--combinations 0 --sweeps-only --required-only --engines none'",
}
"""Options with which a script has little to do."""


def scripts() -> set[str]:
    """Names of the files that are commands."""
    return {p.stem for p in BENCHMARKS.glob("*.py") if '__name__ == "__main__"' in p.read_text()}


def test_every_script_is_listed():
    assert scripts() == set(WORDS)


def test_a_team_of_other_steps_is_not_taken_for_one_of_these(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import evaluation
    import volley_teams

    trained = []
    monkeypatch.setattr(volley_teams.subprocess, "run", lambda words, check: trained.append(words))
    name = "MAPPO self-play"
    for _ in range(2):
        volley_teams.team(name, tmp_path, 2000)
    assert len(trained) == 1
    with pytest.raises(SystemExit, match="is of --steps 2000: give the same"):
        volley_teams.team(name, tmp_path, 4000)
    monkeypatch.setattr(volley_teams, "KEPT", tmp_path / "kept")
    (tmp_path / "kept" / "psro-nash").mkdir(parents=True)
    (tmp_path / "kept" / "mappo-self-play").mkdir()
    assert volley_teams.opponent("PSRO Nash", tmp_path, 2000) == str(tmp_path / "kept" / "psro-nash")
    assert volley_teams.opponent(name, tmp_path, 2000) == str(tmp_path / "mappo-self-play")
    assert len(trained) == 1
    for log in ("", "steps,seconds\r\n"):  # it was stopped before its first row
        (tmp_path / "progress.csv").write_text(log)
        assert (evaluation.has_learned(tmp_path, 1), evaluation.training_seconds(tmp_path)) == (False, 0.0)


def test_worlds_that_begin_alike_are_not_taken_for_different_ones(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import volley_rallies

    for randomize, least, most in (("none", 1, 2), ("default", 6, 6)):  # nominal rallies differ by the side that serves
        env = rookery.make("volley-6v6", 6, randomize=randomize)
        assert least <= volley_rallies.starts(env, 0) <= most
        env.close()


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """A root of links, where whatever scripts write into is a copy."""
    root = tmp_path_factory.mktemp("root")
    written = ("benchmarks", "docs", "README.md", "runs")
    for path in ROOT.iterdir():
        if path.name not in written:
            (root / path.name).symlink_to(path)
    for folder in ("benchmarks", "docs"):
        shutil.copytree(ROOT / folder, root / folder)
    shutil.copyfile(ROOT / "README.md", root / "README.md")
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WORDS))
def test_script_runs_at_a_small_scale(name, copy):
    command = f"{BEFORE.get(name, '')}python benchmarks/{name}.py {WORDS[name].replace('NAME', name)}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=copy, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
