"""All tasks by name. Only names and defaults stand here: a task's module is imported when it is asked for."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rookery.sim.engines import ENGINES
from rookery.sim.errors import RookeryError, unknown

if TYPE_CHECKING:
    from rookery.sim.task import Task


@dataclass(frozen=True)
class TaskEntry:
    """One registered task, or a set of tasks that one policy learns together.

    Args:
        id: its name on the command line.
        cls: "module:Class"; "" for a set.
        summary: one line.
        engines: engines it runs on, the default first.
        training: values of rookery.training.Settings ("num_envs", "randomize", ...) and of PPOConfig in place of defaults.
        members: of a set, the names of its tasks, in the order of their one-hot term.
        config: of a set, values in place of the defaults of every member's config, such as ``{"hide_goal": True}``.
        one_hot: of a set, whether agents are told which task it is.
    """

    id: str
    cls: str
    summary: str
    engines: tuple[str, ...] = ("rotor", "mujoco", "pybullet")
    training: dict[str, Any] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    one_hot: bool = True

    def check(self, engine: str) -> str:
        """The engine's name. Raises RookeryError where the task does not run on it; make_world refuses unknown names."""
        if engine in ENGINES and engine not in self.engines:
            raise RookeryError(f"{self.id} does not run on engine {engine!r}: use {' or '.join(self.engines)}.")
        return engine

    def load(self) -> type[Task]:
        """The task's class. Raises RookeryError for a set, which has none."""
        if self.members:
            raise RookeryError(
                f"{self.id} is a set of {len(self.members)} tasks: take one of {', '.join(self.members)}."
            )
        module, name = self.cls.split(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


# Found by trial on two cores: large, bold updates from few samples. Observations are scaled by their declarations, since
# running statistics would come from hovering and leave far starts outside the network's range; for the same reason
# training episodes are short, and start wilder than those of an evaluation: rare crashes at the edge of the starts are
# otherwise too rare to learn from.
_PRACTICE: dict[str, Any] = {
    "episode_s": 5.0,
    "start_box_m": 1.3,
    "start_speed": 1.0,
    "start_tilt": 0.7,
    "start_spin": 2.0,
}
_DRONE_TRAINING: dict[str, Any] = {
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

_FLOCK_TRAINING: dict[str, Any] = _DRONE_TRAINING | {"total_steps": 8_000_000, "practice": {}}
_SWARM_TRAINING: dict[str, Any] = _DRONE_TRAINING | {
    "total_steps": 3_000_000,
    "weights": {"closeness": 1.0, "spread": 0.5},
    "practice": {"reward": {"apart": 0.0, "shell": 1.0, "around": 1.0}},
}
_VOLLEY_TRAINING: dict[str, Any] = {
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

# what each of two drones can do by itself; the published terms are shared and rare
_ALONE = {"below": 0.2, "home": 0.05, "aloft": 0.02, "aim": 20.0}
_PASSES = {"hit": 3.0, "passed": 3.0, "direction": 2.0}
_PASS_TRAINING: dict[str, Any] = _VOLLEY_TRAINING | {
    "practice": {"in_flight": 0.5, "reward": _ALONE | _PASSES},
    "config": {"foresight": True},
    "critic": "central",
}
_SPIKE_TRAINING: dict[str, Any] = _VOLLEY_TRAINING | {
    "practice": {"in_flight": 0.25, "reward": {"below": 0.2, "home": 0.05, "aim": 10.0, "in_target": 25.0}},
    "config": {"foresight": True},
    "critic": "central",
}

# a third of the commands say stop: the falls that are left are those at a sudden halt
_WALK_TRAINING: dict[str, Any] = {
    "practice": {"stand_share": 0.3},
    "num_envs": 512,
    "total_steps": 20_000_000,
    "randomize": "default",
    "steps": 24,
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

_TABLE_TRAINING: dict[str, Any] = {
    "num_envs": 256,
    "total_steps": 2_000_000,
    "steps": 32,
    "epochs": 5,
    "minibatches": 8,
    "learning_rate": 1e-3,
    "schedule": "linear",
    "initial_std": 0.5,
    "gamma": 0.99,
    "hidden": [128, 128],
    "practice": {"reward": {"score": 0.1}},
}

_PANDA_TRAINING: dict[str, Any] = _TABLE_TRAINING | {
    "num_envs": 512,
    "total_steps": 10_000_000,
    "learning_rate": 5e-4,
    "practice": {},
}

# Meta-World's sets (facts 4)
_MT10 = tuple(
    f"table-{name}"
    for name in (
        "reach", "push", "pick-place", "door-open", "drawer-open", "drawer-close", "button-press-topdown",
        "peg-insert-side", "window-open", "window-close",
    )
)  # fmt: skip
_ML10_TRAIN = tuple(
    f"table-{name}"
    for name in (
        "reach", "push", "pick-place", "door-open", "drawer-close", "button-press-topdown", "peg-insert-side",
        "window-open", "sweep", "basketball",
    )
)  # fmt: skip
_ML10_TEST = tuple(f"table-{name}" for name in ("drawer-open", "door-close", "shelf-place", "sweep-into", "lever-pull"))

TASKS: dict[str, TaskEntry] = {
    e.id: e
    for e in (
        TaskEntry(
            "drone-hover",
            "rookery.tasks.drones.hover:Hover",
            "each drone flies to its own target and stays there",
            training=_DRONE_TRAINING | {"total_steps": 3_200_000},
        ),
        TaskEntry(
            "drone-track",
            "rookery.tasks.drones.track:Track",
            "each drone follows a moving reference",
            training=_DRONE_TRAINING | {"total_steps": 6_000_000, "practice": _PRACTICE | {"path": "mixed"}},
        ),
        TaskEntry(
            "drone-formation",
            "rookery.tasks.swarm.formation:Formation",
            "drones form a polygon around a point, nobody told where to be",
            training=_FLOCK_TRAINING,
        ),
        TaskEntry(
            "drone-swap",
            "rookery.tasks.swarm.swap:Swap",
            "drones exchange their places without touching each other",
            training=_FLOCK_TRAINING,
        ),
        TaskEntry(
            "drone-race",
            "rookery.tasks.swarm.race:Race",
            "drones race through the gates of a course",
            training=_FLOCK_TRAINING,
        ),
        TaskEntry(
            "drone-downwash",
            "rookery.tasks.swarm.downwash:Downwash",
            "drones keep their places below others",
            training=_FLOCK_TRAINING,
        ),
        TaskEntry(
            "swarm-surround",
            "rookery.tasks.swarm.surround:Surround",
            "a swarm closes in on a target from all sides",
            training=_SWARM_TRAINING,
        ),
        TaskEntry(
            "swarm-escort",
            "rookery.tasks.swarm.escort:Escort",
            "a swarm surrounds a target that travels",
            training=_SWARM_TRAINING,
        ),
        TaskEntry(
            "swarm-catch",
            "rookery.tasks.swarm.catch:Catch",
            "a swarm corners an evader",
            training=_SWARM_TRAINING,
        ),
        TaskEntry(
            "uav-coverage",
            "rookery.tasks.swarm.coverage:Coverage",
            "UAV base stations serve users on the ground",
            training=_DRONE_TRAINING | {"weights": {"rate": 1.0, "fairness": 1.0, "energy": 0.3}, "practice": {}},
        ),
        TaskEntry(
            "volley-back-and-forth",
            "rookery.tasks.volleyball.back_and_forth:VolleyBackAndForth",
            "one drone flies to and fro between two places, as often as it can",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING,
        ),
        TaskEntry(
            "volley-hit",
            "rookery.tasks.volleyball.hit:VolleyHit",
            "one drone hits the ball once, as far as it can",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING,
        ),
        TaskEntry(
            "volley-solo-bump",
            "rookery.tasks.volleyball.solo_bump:VolleySoloBump",
            "one drone bumps the ball up, again and again",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING | {"total_steps": 24_000_000, "practice": {"reward": {"high_hit": 20.0}}},
        ),
        TaskEntry(
            "volley-bump-and-pass",
            "rookery.tasks.volleyball.bump_and_pass:VolleyBumpAndPass",
            "two drones pass the ball to each other, again and again",
            engines=("rotor", "mujoco"),
            training=_PASS_TRAINING,
        ),
        TaskEntry(
            "volley-set-and-spike-easy",
            "rookery.tasks.volleyball.set_and_spike:VolleySetAndSpikeEasy",
            "one drone sets the ball, the other spikes it over the net",
            engines=("rotor", "mujoco"),
            training=_SPIKE_TRAINING,
        ),
        TaskEntry(
            "volley-set-and-spike-hard",
            "rookery.tasks.volleyball.set_and_spike_hard:VolleySetAndSpikeHard",
            "the same against a board that defends",
            engines=("rotor", "mujoco"),
            training=_SPIKE_TRAINING,
        ),
        TaskEntry(
            "go2-velocity",
            "rookery.tasks.locomanip.velocity:Velocity",
            "a Go2 walks as it is told, with or without an arm on its back",
            engines=("mujoco", "pybullet"),
            training=_WALK_TRAINING,
        ),
        TaskEntry(
            "go2arm-reach",
            "rookery.tasks.locomanip.reach:Reach",
            "the arm on a Go2 follows a moving goal while the legs walk or stand",
            engines=("mujoco", "pybullet"),
            training=_WALK_TRAINING | {"total_steps": 18_000_000, "initial_std": 0.25, "practice": {}},
        ),
        TaskEntry(
            "go2arm-loco-manipulation",
            "rookery.tasks.locomanip.loco_manipulation:LocoManipulation",
            "one policy picks up, pushes, pulls, opens, presses, wipes and carries along trajectories of a library",
            engines=("mujoco",),
            training=_WALK_TRAINING
            | {
                "total_steps": 30_000_000,
                "initial_std": 0.25,
                "practice": {"adaptive": True, "push_s": 6.0, "push_speed": 0.2},
            },
        ),
        TaskEntry(
            "table-reach",
            "rookery.tasks.manipulation.reach:Reach",
            "a Panda brings its tool to a place in the air",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-push",
            "rookery.tasks.manipulation.push:Push",
            "a Panda brings a puck to a place on the table",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-pick-place",
            "rookery.tasks.manipulation.pick_place:PickPlace",
            "a Panda brings a puck to a place in the air",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-door-open",
            "rookery.tasks.manipulation.door_open:DoorOpen",
            "a Panda opens a door by its handle",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-drawer-open",
            "rookery.tasks.manipulation.drawer:DrawerOpen",
            "a Panda pulls a drawer open",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-drawer-close",
            "rookery.tasks.manipulation.drawer:DrawerClose",
            "a Panda pushes a drawer shut",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-button-press-topdown",
            "rookery.tasks.manipulation.button:ButtonPressTopdown",
            "a Panda presses a button from above",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-peg-insert-side",
            "rookery.tasks.manipulation.peg_insert:PegInsertSide",
            "a Panda puts a peg into a hole from the side",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-window-open",
            "rookery.tasks.manipulation.window:WindowOpen",
            "a Panda slides a window open",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-window-close",
            "rookery.tasks.manipulation.window:WindowClose",
            "a Panda slides a window shut",
            engines=("mujoco", "pybullet"),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-sweep",
            "rookery.tasks.manipulation.sweep:Sweep",
            "a Panda brings a cube along the table to its side",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-sweep-into",
            "rookery.tasks.manipulation.sweep:SweepInto",
            "a Panda brings a cube into a hole in the table",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-door-close",
            "rookery.tasks.manipulation.door_close:DoorClose",
            "a Panda pushes a small door shut",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-basketball",
            "rookery.tasks.manipulation.basketball:Basketball",
            "a Panda brings a ball over a hoop",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-shelf-place",
            "rookery.tasks.manipulation.shelf_place:ShelfPlace",
            "a Panda puts a cube on a shelf",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "table-lever-pull",
            "rookery.tasks.manipulation.lever_pull:LeverPull",
            "a Panda turns a lever upright",
            engines=("mujoco",),
            training=_TABLE_TRAINING,
        ),
        TaskEntry(
            "MT10",
            "",
            "the ten table-top tasks at once, one policy that is told which",
            engines=("mujoco",),
            training=_TABLE_TRAINING | {"num_envs": 640, "total_steps": 10_000_000},
            members=_MT10,
        ),
        TaskEntry(
            "ML10-train",
            "",
            "ten table-top tasks, which of them and its goal to be found out",
            engines=("mujoco",),
            training=_TABLE_TRAINING | {"num_envs": 640, "total_steps": 10_000_000},
            members=_ML10_TRAIN,
            config={"hide_goal": True},
            one_hot=False,
        ),
        TaskEntry(
            "ML10-test",
            "",
            "the five table-top tasks that ML10-train has not seen",
            engines=("mujoco",),
            training=_TABLE_TRAINING | {"num_envs": 320},
            members=_ML10_TEST,
            config={"hide_goal": True},
            one_hot=False,
        ),
        TaskEntry(
            "panda-lift",
            "rookery.tasks.manipulation.lift:Lift",
            "a Panda picks up a cube and holds it at a place in the air",
            engines=("mujoco",),
            training=_PANDA_TRAINING
            | {"practice": {"reward": {"reach": 0.4, "target": 0.8, "off_table": 0.025, "posture": 0.03}}},
        ),
        TaskEntry(
            "panda-stack",
            "rookery.tasks.manipulation.stack:Stack",
            "a Panda puts a small cube on a larger one and lets go",
            engines=("mujoco",),
            training=_PANDA_TRAINING | {"total_steps": 40_000_000},
        ),
        TaskEntry(
            "panda-push-t",
            "rookery.tasks.manipulation.push_t:PushT",
            "a Panda pushes a T with closed fingers until it covers its goal",
            engines=("mujoco",),
            training=_PANDA_TRAINING | {"total_steps": 40_000_000, "gamma": 0.995},
        ),
        TaskEntry(
            "panda-cabinet",
            "rookery.tasks.manipulation.cabinet:Cabinet",
            "a Panda pulls the drawer of a cabinet open by its handle",
            engines=("mujoco",),
            training=_PANDA_TRAINING,
        ),
        TaskEntry(
            "dual-panda-handover",
            "rookery.tasks.manipulation.handover:Handover",
            "one Panda picks up a bar and hands it to another, which puts it at its goal",
            engines=("mujoco",),
            training=_PANDA_TRAINING | {"total_steps": 40_000_000, "critic": "central"},
        ),
        TaskEntry(
            "hand-grasp",
            "rookery.tasks.manipulation.hand_grasp:HandGrasp",
            "an Allegro hand closes around an object at a sampled grasp, lifts it and holds it",
            engines=("mujoco",),
            training=_PANDA_TRAINING | {"total_steps": 20_000_000},
        ),
        TaskEntry(
            "hand-reorient",
            "rookery.tasks.manipulation.hand_reorient:HandReorient",
            "an Allegro hand turns a cube in its palm to one orientation after the other",
            engines=("mujoco",),
            training=_PANDA_TRAINING | {"total_steps": 40_000_000},
        ),
        TaskEntry(
            "volley-1v1",
            "rookery.tasks.volleyball.competitive:Volley1v1",
            "one drone against one",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING,
        ),
        TaskEntry(
            "volley-3v3",
            "rookery.tasks.volleyball.competitive:Volley3v3",
            "three drones against three",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING,
        ),
        TaskEntry(
            "volley-6v6",
            "rookery.tasks.volleyball.competitive:Volley6v6",
            "six drones against six",
            engines=("rotor", "mujoco"),
            training=_VOLLEY_TRAINING,
        ),
    )
}


def find(task: str) -> TaskEntry:
    """The entry of a task. Raises RookeryError with the nearest match for an unknown name."""
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return TASKS[task]
