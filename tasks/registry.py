"""All tasks by name. Only names and defaults stand here: a task's module is imported when it is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rookery.sim.engines import ENGINES
from rookery.sim.errors import RookeryError, unknown
from rookery.tasks import plugins

if TYPE_CHECKING:
    from rookery.sim.task import Task


@dataclass(frozen=True)
class TaskEntry:
    """One registered task, or a set of tasks that one policy learns together.

    Args:
        id: its name on the command line.
        cls: the task's class, or "module:Class", imported when it is asked for; "" for a set.
        summary: one line.
        engines: engines it runs on, the default first.
        members: of a set, the names of its tasks, in the order of their one-hot term.
        config: of a set, values in place of the defaults of every member's config, such as ``{"hide_goal": True}``.
        of: of a set whose members are one task with other values, that task; `variants` has each member's values.
        variants: values in place of `config` for the members that are in it.
        one_hot: of a set, whether the observation holds which task it is, one-hot.
        wrapper: "module:function" that makes the environment from the task's own one, see rookery.making; "" for none.
        frozen: of a task with a wrapper, the policy that does not learn: a run folder, a name of the zoo, or "controller" for
            the task's classical controller. The config value `frozen` overrides it.
        wrapper_options: keyword arguments of the wrapper.
        interface: config values that belong to a policy besides those of the class, see Task.interface.
    """

    id: str
    cls: str | type[Task]
    summary: str
    engines: tuple[str, ...] = ("rotor", "mujoco", "pybullet")
    members: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    of: str = ""
    variants: dict[str, dict[str, Any]] = field(default_factory=dict)
    one_hot: bool = True
    wrapper: str = ""
    frozen: str = ""
    wrapper_options: dict[str, Any] = field(default_factory=dict)
    interface: tuple[str, ...] = ()

    def check(self, engine: str) -> str:
        """The engine's name. Raises RookeryError where the task does not run on it; make_world refuses unknown names."""
        if engine in ENGINES and engine not in self.engines:
            raise RookeryError(f"{self.id} does not run on engine {engine!r}: use {' or '.join(self.engines)}.")
        return engine

    def task_of(self, member: str) -> str:
        """The registered name of a member's task."""
        return self.of or member

    def load(self) -> type[Task]:
        """The task's class. Raises RookeryError for a set, which has none."""
        if self.members:
            raise RookeryError(
                f"{self.id} is a set of {len(self.members)} tasks: take {self.of or 'one of ' + ', '.join(self.members)}."
            )
        return plugins.class_at(self.cls, self.id) if isinstance(self.cls, str) else self.cls


# Meta-World's sets (Yu et al. 2020, arXiv 1910.10897, appendix)
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

# Objects of the library that the script of hand-grasp lifts by grasps of its first sampler (benchmarks/hand_grasp.py): peg and
# gelatin_box are too thin for them, and bowl is wider than the hand.
_OBJECTS = (
    "cube_40", "cube_50", "ball", "tennis_ball", "cracker_box", "sugar_box", "foam_brick", "tomato_soup_can",
    "potted_meat_can", "mustard_bottle", "bleach_cleanser", "mug", "banana", "power_drill",
)  # fmt: skip

TASKS: dict[str, TaskEntry] = {
    e.id: e
    for e in (
        TaskEntry(
            "drone-hover",
            "rookery.tasks.drones.hover:Hover",
            "each drone flies to its own target and stays there",
        ),
        TaskEntry(
            "drone-track",
            "rookery.tasks.drones.track:Track",
            "each drone follows a moving reference",
        ),
        TaskEntry(
            "drone-land",
            "rookery.tasks.drones.land:Land",
            "a drone lands on a pad that heaves, sways and tilts",
        ),
        TaskEntry(
            "drone-navigate",
            "rookery.tasks.drones.navigate:Navigate",
            "a drone flies to a goal between pillars that it sees by lidar or camera",
        ),
        TaskEntry(
            "drone-track-hierarchical",
            "rookery.tasks.drones.track:Track",
            "each drone follows a moving reference by commands to a frozen hover policy",
            wrapper="rookery.policies.hierarchy.two_level:two_level",
            frozen="drone-hover",
            wrapper_options={"shifts": {"position_error": 0.5, "linear_velocity": 2.0}},
            interface=("frozen",),
        ),
        TaskEntry(
            "drone-formation",
            "rookery.tasks.swarm.formation:Formation",
            "drones form a polygon around a point, places not assigned",
        ),
        TaskEntry(
            "drone-swap",
            "rookery.tasks.swarm.swap:Swap",
            "drones exchange their places without touching each other",
        ),
        TaskEntry(
            "drone-race",
            "rookery.tasks.swarm.race:Race",
            "drones race through the gates of a course",
        ),
        TaskEntry(
            "drone-downwash",
            "rookery.tasks.swarm.downwash:Downwash",
            "drones keep their places below others",
        ),
        TaskEntry(
            "swarm-surround",
            "rookery.tasks.swarm.surround:Surround",
            "a swarm closes in on a target from all sides",
        ),
        TaskEntry(
            "swarm-escort",
            "rookery.tasks.swarm.escort:Escort",
            "a swarm surrounds a target that travels",
        ),
        TaskEntry(
            "swarm-catch",
            "rookery.tasks.swarm.catch:Catch",
            "a swarm corners an evader",
        ),
        TaskEntry(
            "uav-coverage",
            "rookery.tasks.swarm.coverage:Coverage",
            "UAV base stations serve users on the ground",
        ),
        TaskEntry(
            "volley-back-and-forth",
            "rookery.tasks.volleyball.back_and_forth:VolleyBackAndForth",
            "one drone flies to and fro between two places, as often as it can",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-hit",
            "rookery.tasks.volleyball.hit:VolleyHit",
            "one drone hits the ball once, as far as it can",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-solo-bump",
            "rookery.tasks.volleyball.solo_bump:VolleySoloBump",
            "one drone bumps the ball up, again and again",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-bump-and-pass",
            "rookery.tasks.volleyball.bump_and_pass:VolleyBumpAndPass",
            "two drones pass the ball to each other, again and again",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-set-and-spike-easy",
            "rookery.tasks.volleyball.set_and_spike:VolleySetAndSpikeEasy",
            "one drone sets the ball, the other spikes it over the net",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-set-and-spike-hard",
            "rookery.tasks.volleyball.set_and_spike_hard:VolleySetAndSpikeHard",
            "the same against a board that defends",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "go2-velocity",
            "rookery.tasks.locomanip.velocity:Velocity",
            "a Go2 tracks velocity commands, with or without an arm on its back",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "go2arm-reach",
            "rookery.tasks.locomanip.reach:Reach",
            "the arm on a Go2 follows a moving goal while the legs walk or stand",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "go2arm-loco-manipulation",
            "rookery.tasks.locomanip.loco_manipulation:LocoManipulation",
            "one policy picks up, pushes, pulls, opens, presses, wipes and carries along trajectories of a library",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-reach",
            "rookery.tasks.manipulation.reach:Reach",
            "a Panda brings its tool to a place in the air",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-push",
            "rookery.tasks.manipulation.push:Push",
            "a Panda brings a puck to a place on the table",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-pick-place",
            "rookery.tasks.manipulation.pick_place:PickPlace",
            "a Panda brings a puck to a place in the air",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-door-open",
            "rookery.tasks.manipulation.door_open:DoorOpen",
            "a Panda opens a door by its handle",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-drawer-open",
            "rookery.tasks.manipulation.drawer:DrawerOpen",
            "a Panda pulls a drawer open",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-drawer-close",
            "rookery.tasks.manipulation.drawer:DrawerClose",
            "a Panda pushes a drawer shut",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-button-press-topdown",
            "rookery.tasks.manipulation.button:ButtonPressTopdown",
            "a Panda presses a button from above",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-peg-insert-side",
            "rookery.tasks.manipulation.peg_insert:PegInsertSide",
            "a Panda puts a peg into a hole from the side",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-window-open",
            "rookery.tasks.manipulation.window:WindowOpen",
            "a Panda slides a window open",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-window-close",
            "rookery.tasks.manipulation.window:WindowClose",
            "a Panda slides a window shut",
            engines=("mujoco", "pybullet"),
        ),
        TaskEntry(
            "table-sweep",
            "rookery.tasks.manipulation.sweep:Sweep",
            "a Panda brings a cube along the table to its side",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-sweep-into",
            "rookery.tasks.manipulation.sweep:SweepInto",
            "a Panda brings a cube into a hole in the table",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-door-close",
            "rookery.tasks.manipulation.door_close:DoorClose",
            "a Panda pushes a small door shut",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-basketball",
            "rookery.tasks.manipulation.basketball:Basketball",
            "a Panda brings a ball over a hoop",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-shelf-place",
            "rookery.tasks.manipulation.shelf_place:ShelfPlace",
            "a Panda puts a cube on a shelf",
            engines=("mujoco",),
        ),
        TaskEntry(
            "table-lever-pull",
            "rookery.tasks.manipulation.lever_pull:LeverPull",
            "a Panda turns a lever upright",
            engines=("mujoco",),
        ),
        TaskEntry(
            "MT10",
            "",
            "the ten table-top tasks at once, the task one-hot in the observation",
            engines=("mujoco",),
            members=_MT10,
        ),
        TaskEntry(
            "ML10-train",
            "",
            "ten table-top tasks, which of them and its goal to be found out",
            engines=("mujoco",),
            members=_ML10_TRAIN,
            config={"hide_goal": True},
            one_hot=False,
        ),
        TaskEntry(
            "ML10-test",
            "",
            "the five table-top tasks that ML10-train has not seen",
            engines=("mujoco",),
            members=_ML10_TEST,
            config={"hide_goal": True},
            one_hot=False,
        ),
        TaskEntry(
            "panda-lift",
            "rookery.tasks.manipulation.lift:Lift",
            "a Panda picks up a cube and holds it at a place in the air",
            engines=("mujoco",),
        ),
        TaskEntry(
            "panda-stack",
            "rookery.tasks.manipulation.stack:Stack",
            "a Panda puts a small cube on a larger one and lets go",
            engines=("mujoco",),
        ),
        TaskEntry(
            "panda-push-t",
            "rookery.tasks.manipulation.push_t:PushT",
            "a Panda pushes a T with closed fingers until it covers its goal",
            engines=("mujoco",),
        ),
        TaskEntry(
            "panda-cabinet",
            "rookery.tasks.manipulation.cabinet:Cabinet",
            "a Panda pulls the drawer of a cabinet open by its handle",
            engines=("mujoco",),
        ),
        TaskEntry(
            "dual-panda-handover",
            "rookery.tasks.manipulation.handover:Handover",
            "one Panda picks up a bar and hands it to another, which puts it at its goal",
            engines=("mujoco",),
        ),
        TaskEntry(
            "hand-grasp",
            "rookery.tasks.manipulation.hand_grasp:HandGrasp",
            "an Allegro hand closes around an object at a sampled grasp, lifts it and holds it",
            engines=("mujoco",),
        ),
        TaskEntry(
            "hand-grasp-objects",
            "",
            "hand-grasp with fourteen objects of the library at once",
            engines=("mujoco",),
            members=_OBJECTS,
            of="hand-grasp",
            variants={name: {"object": name} for name in _OBJECTS},
            one_hot=False,
        ),
        TaskEntry(
            "hand-reorient",
            "rookery.tasks.manipulation.hand_reorient:HandReorient",
            "an Allegro hand turns a cube in its palm to one orientation after the other",
            engines=("mujoco",),
        ),
        TaskEntry(
            "volley-1v1",
            "rookery.tasks.volleyball.competitive:Volley1v1",
            "one drone against one",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-1v1-frozen",
            "rookery.tasks.volleyball.competitive:Volley1v1",
            "one drone against a frozen opponent",
            engines=("rotor", "mujoco"),
            wrapper="rookery.policies.multiagent.frozen_opponent:frozen_opponent",
            frozen="controller",
            wrapper_options={"team": "near"},
        ),
        TaskEntry(
            "volley-3v3",
            "rookery.tasks.volleyball.competitive:Volley3v3",
            "three drones against three",
            engines=("rotor", "mujoco"),
        ),
        TaskEntry(
            "volley-6v6",
            "rookery.tasks.volleyball.competitive:Volley6v6",
            "six drones against six",
            engines=("rotor", "mujoco"),
        ),
    )
}

OWN_TASKS = frozenset(TASKS)
"""Names of the tasks of this package."""


def register(entry: TaskEntry) -> None:
    """Add a task.

    Raises:
        RookeryError: the name is taken, or no name that a folder and a command line can take.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", entry.id):
        raise RookeryError(f"{entry.id!r} cannot name a task: use letters, digits, '-', '_' and '.'.")
    if entry.id in TASKS:
        raise RookeryError(f"there is a task {entry.id!r} already: choose another name.")
    TASKS[entry.id] = entry


def task_names() -> list[str]:
    """All tasks: of this package, registered ones, and entry points of installed packages. Imports none of them."""
    return [*TASKS, *(name for name in plugins.entry_points() if name not in TASKS)]


def is_task(name: str) -> bool:
    """Whether `name` is a task's, of a file as ``my_task.py:Land`` included."""
    return name in TASKS or plugins.is_file_task(name) or name in plugins.entry_points()


def find(task: str) -> TaskEntry:
    """The entry of a task: registered, an entry point of an installed package, or a class in a file.

    Raises:
        RookeryError: an unknown name, with the nearest match; or a task that fails to load, after its traceback.
    """
    if task not in TASKS:
        if plugins.is_file_task(task):
            TASKS[task] = _plugin_entry(task, plugins.class_in_file(task))
        elif task in (points := plugins.entry_points()):
            register(_plugin_entry(task, plugins.class_at(points[task], task)))
        else:
            raise unknown("task", task, task_names())
    return TASKS[task]


def _plugin_entry(name: str, cls: type[Task]) -> TaskEntry:
    summary = (cls.__doc__ or "").strip().split("\n")[0]
    return TaskEntry(name, cls, summary, engines=cls.engines)
