"""Training presets: the settings with which each task is trained unless the caller changes them, found by trial on two cores.

The families at the top are RunSettings without a task; PRESETS says which task takes which. A task of the user's own
has its preset in `Task.preset`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rookery.experiments.settings import RunSettings
from rookery.policies.algorithms import VARIANTS, base_algorithm, find_algorithm
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.algorithms.sac_config import SACConfig
from rookery.policies.training.settings import RunnerConfig
from rookery.tasks.registry import TASKS, find


def _steps(base: RunSettings, total_steps: int, **changes: Any) -> RunSettings:
    """A family with another number of steps."""
    return replace(base, runner=replace(base.runner, total_steps=total_steps), **changes)


def _ppo(base: RunSettings, **changes: Any) -> RunSettings:
    """A family with other settings of PPO."""
    return replace(base, algorithm_config=replace(base.algorithm_config, **changes))


# Drones. Few samples and large updates. Observations are scaled by their declarations: running statistics would come from
# hovering and leave far starts outside the network's range. For the same reason training episodes are short and start farther
# and faster than those of an evaluation; otherwise crashes at the edge of the starts are too rare to learn from.
_WIDE_STARTS = {"episode_s": 5.0, "start_box_m": 1.3, "start_speed": 1.0, "start_tilt": 0.7, "start_spin": 2.0}
DRONE = RunSettings(
    num_envs=512,
    randomize="default",
    algorithm_config=PPOConfig(
        epochs=10,
        minibatches=8,
        learning_rate=3e-3,
        schedule="linear",
        initial_std=0.35,
        normalize_observations=False,
    ),
)
HOVER = _steps(DRONE, 3_200_000, train_overrides=_WIDE_STARTS)
TRACK = _steps(DRONE, 6_000_000, train_overrides=_WIDE_STARTS | {"path": "mixed"})
FLOCK = _steps(DRONE, 8_000_000)
LAND = _steps(DRONE, 4_000_000)
NAVIGATE = _steps(DRONE, 8_000_000)
SWARM = _steps(
    DRONE,
    3_000_000,
    weights={"closeness": 1.0, "spread": 0.5},
    train_overrides={"reward": {"apart": 0.0, "shell": 1.0, "around": 1.0}},
)
COVERAGE = replace(DRONE, weights={"rate": 1.0, "fairness": 1.0, "energy": 0.3})

# Volleyball. The published terms of two drones are shared and rare; the overrides add what each drone can do by itself.
VOLLEY = RunSettings(
    num_envs=1024,
    runner=RunnerConfig(total_steps=100_000_000),
    algorithm_config=PPOConfig(
        epochs=4,
        minibatches=8,
        learning_rate=2e-3,
        schedule="linear",
        initial_std=0.4,
        gamma=0.995,
        entropy_coef=0.001,
        normalize_observations=False,
    ),
)
SOLO_BUMP = _steps(VOLLEY, 24_000_000, train_overrides={"reward": {"high_hit": 20.0}})
_OWN_TERMS = {"under_landing": 0.2, "at_anchor": 0.05, "ball_height": 0.02, "pass_aim": 20.0}
_PASS_TERMS = {"hit": 3.0, "passed": 3.0, "direction": 2.0}
PASS = replace(
    _ppo(VOLLEY, critic="central"),
    task_config={"observe_landing": True},
    train_overrides={"in_flight": 0.5, "reward": _OWN_TERMS | _PASS_TERMS},
)
SPIKE = replace(
    PASS,
    train_overrides={
        "in_flight": 0.25,
        "reward": {"under_landing": 0.2, "at_anchor": 0.05, "pass_aim": 10.0, "in_target": 25.0},
    },
)

# Legged robots. A third of the commands of walking are to stand still: falls occur mostly at a sudden stop. Physics steps of
# 10 ms cost half of those of 5 ms, and policies do as well at either (docs/results.md).
LEGGED = RunSettings(
    num_envs=512,
    randomize="default",
    runner=RunnerConfig(total_steps=20_000_000),
    algorithm_config=PPOConfig(
        rollout_steps=24,
        epochs=4,
        minibatches=6,
        learning_rate=1e-3,
        schedule="linear",
        initial_std=0.3,
        gamma=0.99,
        entropy_coef=0.002,
        hidden=(128, 128),
        normalize_observations=False,
        critic="central",
    ),
)
# Five frames tell the trunk's velocity, which no sensor does. A narrow tracking_sigma alone has the robot crouch and turn
# badly, so height and turning weigh more (docs/results.md).
WALK = _steps(
    _ppo(LEGGED, rollout_steps=12, learning_rate=1.2e-3, hidden=(128, 64), mirror=True),
    40_000_000,
    task_config={"history": 5},
    train_overrides={
        "stand_share": 0.3,
        "dt": 0.01,
        "tracking_sigma": 0.08,
        "reward": {"base_height": -100.0, "tracking_ang_vel": 1.5},
    },
)
WALK_AND_REACH = _steps(_ppo(LEGGED, initial_std=0.25), 18_000_000)
LOCO_MANIPULATION = _steps(
    WALK_AND_REACH, 30_000_000, train_overrides={"adaptive": True, "push_s": 6.0, "push_speed": 0.2}
)

# Arms on a table
TABLE = RunSettings(
    num_envs=256,
    train_overrides={"reward": {"score": 0.1}},
    runner=RunnerConfig(total_steps=2_000_000),
    algorithm_config=PPOConfig(
        rollout_steps=32,
        epochs=5,
        minibatches=8,
        learning_rate=1e-3,
        schedule="linear",
        initial_std=0.5,
        gamma=0.99,
        hidden=(128, 128),
    ),
)
# Ways that the reward shows only to those who try much: opening the drawer and pushing the puck (docs/off_policy.md).
SEARCH = _ppo(TABLE, rollout_steps=64, entropy_coef=0.01, schedule="adaptive")
TEN_TABLES = _steps(TABLE, 10_000_000, num_envs=640)
FIVE_TABLES = replace(TABLE, num_envs=320)
PANDA = _steps(_ppo(TABLE, learning_rate=5e-4), 10_000_000, num_envs=512, train_overrides={})
# A discount that looks 33 control steps ahead, and a bonus for entropy until first cubes are lifted, after 2.5 to 5 M steps.
LIFT = _steps(
    _ppo(PANDA, schedule="adaptive", entropy_coef=0.005, gamma=0.97),
    8_000_000,
    train_overrides={"reward": {"reach": 0.4, "target": 0.8, "off_table": 0.025, "posture": 0.03}},
)
GRASP = _steps(PANDA, 20_000_000)
LONG = _steps(PANDA, 40_000_000)
PUSH_T = _ppo(LONG, gamma=0.995)
HANDOVER = _ppo(LONG, critic="central")

PRESETS: dict[str, RunSettings] = {
    "drone-hover": HOVER,
    "drone-track": TRACK,
    "drone-land": LAND,
    "drone-navigate": NAVIGATE,
    "drone-track-hierarchical": TRACK,
    "drone-formation": FLOCK,
    "drone-swap": FLOCK,
    "drone-race": FLOCK,
    "drone-downwash": FLOCK,
    "swarm-surround": SWARM,
    "swarm-escort": SWARM,
    "swarm-catch": SWARM,
    "uav-coverage": COVERAGE,
    "volley-back-and-forth": VOLLEY,
    "volley-hit": VOLLEY,
    "volley-solo-bump": SOLO_BUMP,
    "volley-bump-and-pass": PASS,
    "volley-set-and-spike-easy": SPIKE,
    "volley-set-and-spike-hard": SPIKE,
    "volley-1v1": VOLLEY,
    "volley-1v1-frozen": VOLLEY,
    "volley-3v3": VOLLEY,
    "volley-6v6": VOLLEY,
    "go2-velocity": WALK,
    "go2arm-reach": WALK_AND_REACH,
    "go2arm-loco-manipulation": LOCO_MANIPULATION,
    "MT10": TEN_TABLES,
    "ML10-train": TEN_TABLES,
    "ML10-test": FIVE_TABLES,
    **{task: TABLE for task in TASKS if task.startswith("table-")},
    "table-drawer-open": _steps(SEARCH, 3_000_000),
    "table-push": _steps(_ppo(SEARCH, entropy_coef=0.003), 8_000_000),
    "table-pick-place": _steps(_ppo(SEARCH, entropy_coef=0.005, gamma=0.97), 12_000_000),
    "panda-lift": LIFT,
    "panda-stack": LONG,
    "panda-push-t": PUSH_T,
    "panda-cabinet": PANDA,
    "dual-panda-handover": HANDOVER,
    "hand-grasp": GRASP,
    "hand-grasp-objects": GRASP,
    "hand-reorient": LONG,
}

SHARED = {
    "dagger": ("hidden", "activation", "learning_rate", "rollout_steps"),
    "bc": ("hidden", "activation", "learning_rate"),
}
"""Settings that an imitation takes from the task's preset of PPO, so that `--init` can go on from its policy."""

OTHERS: dict[str, dict[str, Any]] = {
    "sac": {"num_envs": 8, "total_steps": 1_000_000},
    "td3": {"num_envs": 8, "total_steps": 1_000_000},
    "bc": {"num_envs": 1, "total_steps": 2_000_000, "randomize": "none"},
}
"""Settings of the run in place of those for PPO: SAC and TD3 make many updates from few worlds, and cloning steps no world."""

# SAC at 100 Hz: one step says little about an action (n_step), a second ahead is enough (gamma), and an entropy of -8 leaves
# deviations of 0.06 to four actions, so that noise does not hide what a centimetre is worth (benchmarks/time_to_success.py).
SAC_DRONE = RunSettings(
    algorithm="sac",
    num_envs=1,
    randomize="default",
    runner=RunnerConfig(total_steps=100_000),
    algorithm_config=SACConfig(
        n_step=8,
        gamma=0.97,
        target_entropy=-8.0,
        batch=64,
        hidden=(64, 64),
        learning_rate=1e-3,
        schedule="linear",
        normalize_observations=False,
    ),
)
SAC_HOVER = replace(SAC_DRONE, train_overrides={"episode_s": 5.0, "start_box_m": 0.8, "bounds_m": 2.0})

OF_ALGORITHMS: dict[str, dict[str, RunSettings]] = {"sac": {"drone-hover": SAC_HOVER}}
"""Presets of tasks with another algorithm than that of PRESETS."""


def varied(settings: RunSettings, algorithm: str | None) -> RunSettings:
    """Settings with those of a variant of their algorithm; as they are where `algorithm` is none."""
    if not isinstance(algorithm, str) or algorithm not in VARIANTS:
        return settings
    variant = VARIANTS[algorithm]
    return replace(settings, algorithm_config=replace(settings.algorithm_config, **variant.config), **variant.run)


def preset(task: str, algorithm: str | None = None) -> RunSettings:
    """The settings with which a task is trained.

    Args:
        task: registered name.
        algorithm: name of an algorithm, or of a variant of one; None takes the one of the preset.

    Raises:
        RookeryError: an unknown task or algorithm.
    """
    if algorithm is not None and (base := base_algorithm(algorithm)) != algorithm:
        return varied(preset(task, base), algorithm)
    entry = find(task)
    own = None if entry.members or task in PRESETS else entry.load().preset
    settings = replace(PRESETS.get(task, own or RunSettings()), task=task, engine=entry.engines[0])
    if algorithm is None or algorithm == settings.algorithm:
        return settings
    if task in OF_ALGORITHMS.get(algorithm, {}):
        return replace(OF_ALGORITHMS[algorithm][task], task=task, engine=settings.engine)
    config = find_algorithm(algorithm).load_config()()
    shared = {name: getattr(settings.algorithm_config, name) for name in SHARED.get(algorithm, ())}
    changes = dict(OTHERS.get(algorithm, {}))
    if "total_steps" in changes:
        changes["runner"] = replace(settings.runner, total_steps=changes.pop("total_steps"))
    if "num_envs" in changes:
        changes["num_envs"] = max(changes["num_envs"], len(entry.members))
    return replace(settings, algorithm=algorithm, algorithm_config=replace(config, **shared), **changes)
