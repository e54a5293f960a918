"""Which tests are run against a mutant of a module, see mutation.py: those first that fail soonest."""

from __future__ import annotations


def rollouts(*cases: str) -> tuple[str, ...]:
    """Reference rollouts of these tasks."""
    return tuple(f"tests/tasks/test_reference_rollouts.py::test_numbers_are_those_written_down[{c}]" for c in cases)


CONSTANTS = "tests/test_constants.py"
LIMITS = "tests/tasks/test_limits.py"
DRAWN = "tests/sim/envs/test_reference_draws.py"
LEARNING = "tests/policies/test_reference_runs.py"
VEC_ENV = (
    DRAWN,
    "tests/sim/envs/test_vec_env.py",
    "tests/sim/envs/test_vector_rewards.py",
    "tests/sim/envs/test_starts.py",
)
OBSERVATION = (DRAWN, *(f"tests/sim/envs/test_{name}.py" for name in ("observation", "history", "observation_sets")))
DEFAULTS = "tests/tasks/test_defaults.py"
HOVER = (
    *rollouts("drone-hover", "drone-track", "drone-formation", "swarm-surround"),
    CONSTANTS,
    LIMITS,
    DEFAULTS,
    "tests/tasks/test_drone_kernels.py",
    "tests/tasks/test_hover.py",
    "tests/tasks/test_common.py",
)
WALKING = (
    *rollouts(
        "go2-velocity",
        "go2-velocity arm",
        "go2-velocity rough",
        "go2-velocity stairs",
        "go2arm-reach",
        "go2arm-reach parts",
    ),
    CONSTANTS,
    DEFAULTS,
    *(f"tests/tasks/locomanip/test_{name}.py" for name in ("walking_terms", "reach_terms", "walking")),
)
LOCO = (
    *rollouts("go2arm-loco-manipulation", "go2arm-loco-manipulation adaptive"),
    CONSTANTS,
    "tests/tasks/locomanip/test_reach_terms.py",
    "tests/tasks/locomanip/test_loco_manipulation.py",
)
ALGORITHM_DEFAULTS = "tests/policies/test_algorithm_defaults.py"
PPO = (
    LEARNING,
    CONSTANTS,
    ALGORITHM_DEFAULTS,
    "tests/policies/algorithms/test_ppo.py",
    "tests/policies/storage",
    "tests/policies/training/test_checkpoint.py",
)
SAC = (
    LEARNING,
    CONSTANTS,
    ALGORITHM_DEFAULTS,
    *(f"tests/policies/algorithms/test_{name}.py" for name in ("sac", "sac_compiled", "td3", "critics")),
)
MEMORY = (
    LEARNING,
    CONSTANTS,
    ALGORITHM_DEFAULTS,
    "tests/policies/nn/test_gru.py",
    "tests/policies/algorithms/test_ppo_memory.py",
    "tests/policies/test_policies_with_memory.py",
)
FLOCK = (
    *rollouts(
        "drone-formation",
        "drone-swap",
        "drone-race",
        "drone-race anywhere",
        "drone-race depth",
        "drone-formation rgb",
        "drone-downwash",
    ),
    CONSTANTS,
    LIMITS,
    DEFAULTS,
    "tests/tasks/swarm/test_flock_terms.py",
    "tests/tasks/swarm/test_flock.py",
)
SWARM = (
    *rollouts(*(f"swarm-{n}{k}" for n in ("surround", "escort", "catch") for k in ("", " published"))),
    CONSTANTS,
    LIMITS,
    DEFAULTS,
    *(f"tests/tasks/swarm/test_{name}.py" for name in ("target_terms", "surround", "escort", "catch")),
)
VOLLEYS = (
    *(
        f"volley-{n}"
        for n in ("hit", "hit landing", "solo-bump", "back-and-forth", "1v1", "1v1 net", "3v3", "3v3 landing", "6v6")
    ),
    *(f"volley-{n}" for n in ("bump-and-pass", "bump-and-pass in flight", "set-and-spike-easy", "set-and-spike-hard")),
    "volley-set-and-spike-easy in flight",
)
VOLLEY = (
    *rollouts(*VOLLEYS),
    CONSTANTS,
    LIMITS,
    DEFAULTS,
    *(f"tests/tasks/volleyball/test_{name}.py" for name in ("terms", "single", "cooperative", "base")),
)
ARMS = (
    *rollouts("panda-lift", "panda-stack", "panda-push-t", "panda-cabinet", "dual-panda-handover"),
    CONSTANTS,
    DEFAULTS,
    "tests/tasks/manipulation/test_arm_terms.py",
    "tests/tasks/manipulation/test_panda_tasks.py",
)
HANDS = (
    *rollouts("hand-grasp", "hand-reorient"),
    CONSTANTS,
    DEFAULTS,
    "tests/tasks/manipulation/test_hand_terms.py",
    "tests/tasks/manipulation/test_hand.py",
)
DRAWS = (
    DRAWN,
    CONSTANTS,
    *(f"tests/sim/randomization/test_{n}.py" for n in ("distributions", "randomization", "curriculum", "draw_log")),
)
WRITERS = (
    DRAWN,
    *rollouts("drone-hover", "go2-velocity", "go2arm-reach", "table-push"),
    CONSTANTS,
    "tests/sim/randomization/test_parameters.py",
    "tests/robots/test_parameters.py",
)
PATCHES = (
    DRAWN,
    *rollouts("go2-velocity"),
    CONSTANTS,
    "tests/robots/test_floor_patches.py",
    "tests/tasks/locomanip/test_walking_terms.py",
)
DISTURBANCES = (
    DRAWN,
    "tests/sim/envs/test_disturbances.py",
)
LINK = (*(f"tests/sim/envs/test_{name}.py" for name in ("link", "delays", "observation")), *DRAWS)
WIND = (
    DRAWN,
    *(f"tests/sim/engines/rotor/test_{n}.py" for n in ("wind", "snapshot", "params", "world", "threads")),
    "tests/sim/multirotor/test_effects.py",
)
COVERAGE = (
    *rollouts("uav-coverage", "uav-coverage quiet"),
    CONSTANTS,
    LIMITS,
    DEFAULTS,
    "tests/tasks/swarm/test_coverage.py",
)
PARTS_OF_GATE = ("combinations", "exported", "factors", "gate", "intervals", "profile", "report", "sweep", "trials")
GATE = (
    "tests/sim2real/gate/test_sides.py",
    CONSTANTS,
    "tests/sim2real/gate/test_gate_parts.py",
    "tests/sim2real/gate/test_margins.py",
)
PARTS_OF_ISAAC_GYM = ("env", "rookery_task", "simulation", "source", "vec_task")
ISAAC_GYM = ("tests/rookery/test_isaacgym.py", "tests/sim/adapters/test_isaacgym_tasks.py")
TESTS: dict[str, tuple[str, ...]] = {
    "sim/envs/vec_env.py": VEC_ENV,
    "sim/envs/episodes.py": VEC_ENV,
    "sim/envs/episode_kernels.py": VEC_ENV,
    "sim/envs/delays.py": (DRAWN, "tests/sim/envs/test_delays.py", *VEC_ENV),
    "sim/envs/disturbances.py": DISTURBANCES,
    "sim/envs/disturbance_kernels.py": DISTURBANCES,
    "sim/envs/parameters.py": LINK,
    "sim/envs/parameter_kernels.py": LINK,
    "sim/envs/observation.py": (*OBSERVATION, *VEC_ENV),
    "sim/envs/observation_kernels.py": (*OBSERVATION, *VEC_ENV),
    **{
        f"sim/randomization/{name}.py": DRAWS
        for name in ("curriculum", "distributions", "draw_log", "kernels", "ranges")
    },
    **{f"sim/randomization/{name}.py": WRITERS for name in ("bodies", "joints", "parameters")},
    "sim/randomization/patches.py": PATCHES,
    "sim/randomization/patch_kernels.py": PATCHES,
    "sim/multirotor/wind.py": WIND,
    "sim/multirotor/winds.py": WIND,
    "tasks/drones/base.py": HOVER,
    "tasks/drones/hover.py": HOVER,
    "tasks/drones/kernels.py": HOVER,
    "tasks/drones/track.py": (
        *rollouts("drone-track", "drone-track circle", "drone-track random"),
        "tests/tasks/test_track.py",
        *HOVER,
    ),
    "tasks/locomanip/base.py": WALKING,
    "tasks/locomanip/gait.py": WALKING,
    "tasks/locomanip/velocity.py": WALKING,
    "tasks/locomanip/reach.py": WALKING,
    "tasks/locomanip/loco_manipulation.py": (*LOCO, DEFAULTS),
    "tasks/swarm/base.py": FLOCK,
    **{
        f"tasks/swarm/{name}.py": (*FLOCK, f"tests/tasks/swarm/test_{name}.py")
        for name in ("formation", "swap", "race")
    },
    "tasks/swarm/downwash.py": (*FLOCK, "tests/tasks/swarm/test_downwash.py"),
    "tasks/swarm/coverage.py": COVERAGE,
    "tasks/swarm/radio.py": COVERAGE,
    **{f"tasks/swarm/{name}.py": SWARM for name in ("multi_objective", "escort", "catch")},
    **{
        f"tasks/volleyball/{name}.py": VOLLEY for name in ("base", "bump_and_pass", "set_and_spike", "hit", "solo_bump")
    },
    **{f"tasks/volleyball/{name}.py": VOLLEY for name in ("back_and_forth", "competitive", "landing")},
    **{f"tasks/manipulation/{name}.py": ARMS for name in ("lift", "stack", "push_t", "cabinet", "handover")},
    **{f"tasks/manipulation/{name}.py": HANDS for name in ("hand_grasp", "hand_reorient")},
    "policies/algorithms/ppo.py": PPO,
    "policies/algorithms/ppo_learner.py": (*PPO, "tests/policies/nn/test_state_estimator.py"),
    **{
        f"policies/algorithms/{name}.py": SAC
        for name in ("off_policy", "off_policy_learner", "sac_learner", "td3_learner")
    },
    "policies/nn/ensemble.py": SAC,
    "policies/algorithms/ppo_memory.py": MEMORY,
    "policies/nn/gru.py": MEMORY,
    "policies/nn/recurrent.py": MEMORY,
    "policies/algorithms/sac_kernels.py": SAC,
    "policies/storage/rollout.py": PPO,
    "policies/storage/replay.py": (LEARNING, "tests/policies/storage", *SAC),
    "policies/storage/demonstrations.py": (
        LEARNING,
        "tests/policies/storage/test_demonstrations.py",
    ),
    "policies/storage/normalizers.py": (LEARNING, "tests/policies/storage", "tests/policies/algorithms/test_ppo.py"),
    "policies/nn/adam.py": (LEARNING, "tests/policies/nn/test_mlp.py", "tests/policies/algorithms/test_ppo.py"),
    "policies/imitation/regression.py": (LEARNING, ALGORITHM_DEFAULTS, "tests/policies/imitation"),
    "policies/imitation/dagger.py": (LEARNING, ALGORITHM_DEFAULTS, "tests/policies/imitation"),
    "policies/imitation/behavior_cloning.py": (
        LEARNING,
        ALGORITHM_DEFAULTS,
        "tests/policies/datasets/test_demonstrations.py",
    ),
    "policies/nn/categorical.py": (LEARNING, "tests/policies/nn/test_categorical.py", *SAC),
    "policies/nn/mlp.py": (LEARNING, "tests/policies/nn/test_mlp.py", *PPO),
    "policies/nn/symmetry.py": (LEARNING, "tests/policies/nn/test_symmetry.py"),
    "policies/nn/state_estimator.py": (LEARNING, "tests/policies/nn/test_state_estimator.py"),
    "policies/fuse.py": ("tests/policies/test_fuse.py",),
    "policies/low_pass.py": ("tests/policies/test_low_pass.py",),
    **{f"sim2real/gate/{n}.py": GATE for n in PARTS_OF_GATE},
    **{f"sim/adapters/isaacgym/{n}.py": ISAAC_GYM for n in PARTS_OF_ISAAC_GYM},
}
NAMED = frozenset(m for m in TESTS if m.startswith(("sim2real/", "sim/adapters/")))
"""Drawn only if named: neither terms of tasks nor learning code."""
