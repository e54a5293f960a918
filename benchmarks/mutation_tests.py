"""Tests that are run against a mutant of a module, see mutation.py: oracles alone, those first that fail soonest.

Rollouts and runs that were written down are left out: they notice nearly every change, and judge none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = "tests/tasks/test_limits.py"
VEC_ENV = (
    "tests/sim/envs/test_vec_env.py",
    "tests/sim/envs/test_vector_rewards.py",
    "tests/sim/envs/test_starts.py",
)
OBSERVATION = tuple(f"tests/sim/envs/test_{name}.py" for name in ("observation", "history", "observation_sets"))
DEFAULTS = "tests/tasks/test_defaults.py"
HOVER = (
    LIMITS,
    DEFAULTS,
    "tests/tasks/test_drone_kernels.py",
    "tests/tasks/test_hover.py",
    "tests/tasks/test_common.py",
)
WALKING = (
    DEFAULTS,
    *(f"tests/tasks/locomanip/test_{name}.py" for name in ("walking_terms", "reach_terms", "walking")),
)
LOCO = (
    "tests/tasks/locomanip/test_reach_terms.py",
    "tests/tasks/locomanip/test_loco_manipulation.py",
)
PPO = (
    "tests/policies/algorithms/test_ppo.py",
    "tests/policies/storage",
    "tests/policies/training/test_checkpoint.py",
)
SAC = (*(f"tests/policies/algorithms/test_{name}.py" for name in ("sac", "sac_compiled", "td3", "critics")),)
MEMORY = (
    "tests/policies/nn/test_gru.py",
    "tests/policies/algorithms/test_ppo_memory.py",
    "tests/policies/test_policies_with_memory.py",
)
FLOCK = (
    LIMITS,
    DEFAULTS,
    "tests/tasks/swarm/test_flock_terms.py",
    "tests/tasks/swarm/test_flock.py",
)
SWARM = (
    LIMITS,
    DEFAULTS,
    *(f"tests/tasks/swarm/test_{name}.py" for name in ("target_terms", "surround", "escort", "catch")),
)
VOLLEY = (
    LIMITS,
    DEFAULTS,
    *(f"tests/tasks/volleyball/test_{name}.py" for name in ("terms", "single", "cooperative", "base")),
)
ARMS = (
    DEFAULTS,
    "tests/tasks/manipulation/test_arm_terms.py",
    "tests/tasks/manipulation/test_panda_tasks.py",
)
HANDS = (
    DEFAULTS,
    "tests/tasks/manipulation/test_hand_terms.py",
    "tests/tasks/manipulation/test_hand.py",
)
DRAWS = (
    *(f"tests/sim/randomization/test_{n}.py" for n in ("distributions", "randomization", "curriculum", "draw_log")),
)
WRITERS = (
    "tests/sim/randomization/test_parameters.py",
    "tests/robots/test_parameters.py",
)
PATCHES = (
    "tests/robots/test_floor_patches.py",
    "tests/tasks/locomanip/test_walking_terms.py",
)
DISTURBANCES = ("tests/sim/envs/test_disturbances.py",)
LINK = (*(f"tests/sim/envs/test_{name}.py" for name in ("link", "delays", "observation")), *DRAWS)
WIND = (
    *(f"tests/sim/engines/rotor/test_{n}.py" for n in ("wind", "snapshot", "params", "world", "threads")),
    "tests/sim/multirotor/test_effects.py",
)
COVERAGE = (
    LIMITS,
    DEFAULTS,
    "tests/tasks/swarm/test_coverage.py",
)
PARTS_OF_GATE = ("combinations", "exported", "factors", "gate", "intervals", "profile", "report", "sweep", "trials")
GATE = (
    "tests/sim2real/gate/test_sides.py",
    "tests/sim2real/gate/test_gate_parts.py",
    "tests/sim2real/gate/test_margins.py",
)
PARTS_OF_ISAAC_GYM = ("env", "rookery_task", "simulation", "source", "vec_task")
ISAAC_GYM = ("tests/rookery/test_isaacgym.py", "tests/sim/adapters/test_isaacgym_tasks.py")
REWARDS = ("tests/tasks/test_rewards.py", "tests/tasks/test_meta_world_rewards.py")
TESTS: dict[str, tuple[str, ...]] = {
    "sim/envs/vec_env.py": VEC_ENV,
    "sim/envs/episodes.py": VEC_ENV,
    "sim/envs/episode_kernels.py": VEC_ENV,
    "sim/envs/delays.py": ("tests/sim/envs/test_delays.py", *VEC_ENV),
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
        "tests/tasks/test_track.py",
        *HOVER,
    ),
    **{f"tasks/rewards/{name}.py": REWARDS for name in ("motion", "tracking", "legs", "meta_world")},
    **{f"tasks/locomanip/{name}.py": WALKING for name in ("base", "legged_task")},
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
    "policies/storage/replay.py": ("tests/policies/storage", *SAC),
    "policies/storage/demonstrations.py": ("tests/policies/storage/test_demonstrations.py",),
    "policies/storage/normalizers.py": ("tests/policies/storage", "tests/policies/algorithms/test_ppo.py"),
    "policies/nn/adam.py": ("tests/policies/nn/test_mlp.py", "tests/policies/algorithms/test_ppo.py"),
    "policies/imitation/regression.py": ("tests/policies/imitation",),
    "policies/imitation/dagger.py": ("tests/policies/imitation",),
    "policies/imitation/behavior_cloning.py": ("tests/policies/datasets/test_demonstrations.py",),
    "policies/nn/categorical.py": ("tests/policies/nn/test_categorical.py", *SAC),
    "policies/nn/mlp.py": ("tests/policies/nn/test_mlp.py", *PPO),
    "policies/nn/symmetry.py": ("tests/policies/nn/test_symmetry.py",),
    "policies/nn/state_estimator.py": ("tests/policies/nn/test_state_estimator.py",),
    "policies/fuse.py": ("tests/policies/test_fuse.py",),
    "policies/low_pass.py": ("tests/policies/test_low_pass.py",),
    **{f"sim2real/gate/{n}.py": GATE for n in PARTS_OF_GATE},
    **{f"sim/adapters/isaacgym/{n}.py": ISAAC_GYM for n in PARTS_OF_ISAAC_GYM},
}
PACKAGES = ("policies", "sim", "tasks")
LOOKS = ("rendering/", "viewing/", "adapters/", "vision", "shading", "looks", "appearance", "visual.py", "painters")
"""Parts of paths of modules that are drawn only if named: pictures, and interfaces of other libraries."""


@cache
def compiled(module: str) -> bool:
    """Whether Numba compiles functions of a module into those of others, which a mutant has compiled anew, a minute each."""
    text = (ROOT / module).read_text()
    return any(mark in text for mark in ("njit", "@inlined", "@compiled"))


def drawn() -> list[str]:
    """Modules with logic that Python runs."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = [str(path.relative_to(ROOT)) for path in paths if path.name != "__init__.py"]
    return [name for name in names if not compiled(name) and not any(part in name for part in LOOKS)]


def tests_of(module: str) -> tuple[str, ...]:
    """Tests to run, the nearest first: those listed above, that of the module's name, the others of its folder, and for tasks
    what is common to them."""
    folder = Path("tests", module).parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    named = folder / f"test_{Path(module).stem}.py"
    near = [str(named)] if (ROOT / named).exists() else []
    whole = [str(path.relative_to(ROOT)) for path in sorted((ROOT / folder).glob("test_*.py"))]
    common = [
        f"tests/tasks/test_{name}.py" for name in ("commands", "events", "limits", "gauges", "declarations", "common")
    ]
    common = common if module.startswith("tasks/") else []
    return tuple(dict.fromkeys([*near, *TESTS.get(module, ()), *whole, *common]))
