"""Grasps of an object: samplers of grasp poses on meshes and points, for grippers and hands.

`antipodal.sample` needs a mesh and finds contacts that hold by friction; `superquadric.fit` and `superquadric.sample` need
points alone, such as depth cameras', and put the hand around the object. Both give `GraspPose`s in the object's frame, best
first.
"""

from rookery.robots.manipulators.grasps import antipodal, superquadric
from rookery.robots.manipulators.grasps.pose import ALLEGRO, PARALLEL, GraspPose, HandShape

__all__ = ["ALLEGRO", "PARALLEL", "GraspPose", "HandShape", "antipodal", "superquadric"]
