"""What tasks are trained with where nothing else is said: values of rookery.training.Settings and of PPOConfig, found by
trial on two cores. The registry says which task takes which."""

from __future__ import annotations

from typing import Any

Training = dict[str, Any]

# Large, bold updates from few samples. Observations are scaled by their declarations, since running statistics would come
# from hovering and leave far starts outside the network's range; for the same reason training episodes are short, and start
# wilder than those of an evaluation: rare crashes at the edge of the starts are otherwise too rare to learn from.
_PRACTICE: Training = {
    "episode_s": 5.0,
    "start_box_m": 1.3,
    "start_speed": 1.0,
    "start_tilt": 0.7,
    "start_spin": 2.0,
}
_DRONE: Training = {
    "num_envs": 512,
    "randomize": "default",
    "practice": _PRACTICE,
    "epochs": 10,
    "minibatches": 8,
    "learning_rate": 3e-3,
    "schedule": "linear",
    "initial_std": 0.35,
    "normalize_observations": False,
}
HOVER: Training = _DRONE | {"total_steps": 3_200_000}
TRACK: Training = _DRONE | {"total_steps": 6_000_000, "practice": _PRACTICE | {"path": "mixed"}}
FLOCK: Training = _DRONE | {"total_steps": 8_000_000, "practice": {}}
SWARM: Training = _DRONE | {
    "total_steps": 3_000_000,
    "weights": {"closeness": 1.0, "spread": 0.5},
    "practice": {"reward": {"apart": 0.0, "shell": 1.0, "around": 1.0}},
}
COVERAGE: Training = _DRONE | {"weights": {"rate": 1.0, "fairness": 1.0, "energy": 0.3}, "practice": {}}

VOLLEY: Training = {
    "num_envs": 1024,
    "total_steps": 100_000_000,
    "epochs": 4,
    "minibatches": 8,
    "learning_rate": 2e-3,
    "schedule": "linear",
    "initial_std": 0.4,
    "gamma": 0.995,
    "entropy_coef": 0.001,
    "normalize_observations": False,
}
SOLO_BUMP: Training = VOLLEY | {"total_steps": 24_000_000, "practice": {"reward": {"high_hit": 20.0}}}
# what each of two drones can do by itself; the published terms are shared and rare
_ALONE = {"under_landing": 0.2, "at_anchor": 0.05, "ball_height": 0.02, "pass_aim": 20.0}
_PASSES = {"hit": 3.0, "passed": 3.0, "direction": 2.0}
PASS: Training = VOLLEY | {
    "practice": {"in_flight": 0.5, "reward": _ALONE | _PASSES},
    "config": {"observe_landing": True},
    "critic": "central",
}
SPIKE: Training = VOLLEY | {
    "practice": {
        "in_flight": 0.25,
        "reward": {"under_landing": 0.2, "at_anchor": 0.05, "pass_aim": 10.0, "in_target": 25.0},
    },
    "config": {"observe_landing": True},
    "critic": "central",
}

# a third of the commands say stop: the falls that are left are those at a sudden halt
WALK: Training = {
    "practice": {"stand_share": 0.3},
    "num_envs": 512,
    "total_steps": 20_000_000,
    "randomize": "default",
    "rollout_steps": 24,
    "epochs": 4,
    "minibatches": 6,
    "learning_rate": 1e-3,
    "schedule": "linear",
    "initial_std": 0.3,
    "gamma": 0.99,
    "entropy_coef": 0.002,
    "hidden": [128, 128],
    "normalize_observations": False,
    "critic": "central",
}
WALK_AND_REACH: Training = WALK | {"total_steps": 18_000_000, "initial_std": 0.25, "practice": {}}
WALK_AND_HANDLE: Training = WALK_AND_REACH | {
    "total_steps": 30_000_000,
    "practice": {"adaptive": True, "push_s": 6.0, "push_speed": 0.2},
}

TABLE: Training = {
    "num_envs": 256,
    "total_steps": 2_000_000,
    "rollout_steps": 32,
    "epochs": 5,
    "minibatches": 8,
    "learning_rate": 1e-3,
    "schedule": "linear",
    "initial_std": 0.5,
    "gamma": 0.99,
    "hidden": [128, 128],
    "practice": {"reward": {"score": 0.1}},
}
TEN_TABLES: Training = TABLE | {"num_envs": 640, "total_steps": 10_000_000}
FIVE_TABLES: Training = TABLE | {"num_envs": 320}

PANDA: Training = TABLE | {"num_envs": 512, "total_steps": 10_000_000, "learning_rate": 5e-4, "practice": {}}
LIFT: Training = PANDA | {"practice": {"reward": {"reach": 0.4, "target": 0.8, "off_table": 0.025, "posture": 0.03}}}
GRASP: Training = PANDA | {"total_steps": 20_000_000}
LONG: Training = PANDA | {"total_steps": 40_000_000}
PUSH_T: Training = LONG | {"gamma": 0.995}
HANDOVER: Training = LONG | {"critic": "central"}
