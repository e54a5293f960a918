"""Sets of tasks that one policy learns together: Meta-World's (Yu et al. 2020, arXiv 1910.10897, appendix), and hand-grasp with
many objects."""

from __future__ import annotations

from types import MappingProxyType

from rookery.sim.task_set import TaskSet

# Those of the library that the script of hand-grasp lifts by grasps of its first sampler (benchmarks/hand_grasp.py): peg and
# gelatin_box are too thin for them, and bowl is wider than the hand.
OBJECTS = (
    "cube_40", "cube_50", "ball", "tennis_ball", "cracker_box", "sugar_box", "foam_brick", "tomato_soup_can",
    "potted_meat_can", "mustard_bottle", "bleach_cleanser", "mug", "banana", "power_drill",
)  # fmt: skip


class MT10(TaskSet):
    """The ten table-top tasks at once, the task one-hot in the observation."""

    name = "MT10"
    members = (
        "table-reach", "table-push", "table-pick-place", "table-door-open", "table-drawer-open", "table-drawer-close",
        "table-button-press-topdown", "table-peg-insert-side", "table-window-open", "table-window-close",
    )  # fmt: skip


class ML10Train(TaskSet):
    """Ten table-top tasks, which of them and its goal to be found out."""

    name = "ML10-train"
    members = (
        "table-reach", "table-push", "table-pick-place", "table-door-open", "table-drawer-close",
        "table-button-press-topdown", "table-peg-insert-side", "table-window-open", "table-sweep", "table-basketball",
    )  # fmt: skip
    config = MappingProxyType({"hide_goal": True})
    one_hot = False


class ML10Test(TaskSet):
    """The five table-top tasks that ML10-train has not seen."""

    name = "ML10-test"
    members = ("table-drawer-open", "table-door-close", "table-shelf-place", "table-sweep-into", "table-lever-pull")
    config = MappingProxyType({"hide_goal": True})
    one_hot = False


class HandGraspObjects(TaskSet):
    """An Allegro hand grasps, lifts and holds fourteen objects of the library: hand-grasp with each of them at once."""

    name = "hand-grasp-objects"
    of = "hand-grasp"
    members = OBJECTS
    variants = MappingProxyType({name: {"object": name} for name in OBJECTS})
    one_hot = False
