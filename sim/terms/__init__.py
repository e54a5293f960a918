"""Expressions: what an observation is, as a value that can be checked, computed, printed and translated to C.

An expression is a tree of measured quantities and of what is done with them:

    offset = in_axes(target - POSITION, ROTATION)      # 3 numbers in m, body axes
    offset.formula                                     # "target - position, body axes"
    offset.evaluate({"target": ..., "position": ..., "rotation": ...})

Each one knows its size, its unit and the axes in which it is given. Metres are not added to meters per second, nor vectors in
body axes to such in world axes, and a place is not turned into other axes before another place is subtracted from it: all
three are errors where the expression is written.

The text of docs and contracts, its JSON (`to_json`, `from_json`) and its C (`rookery.sim.terms.c`) are made from the tree.
"""

from __future__ import annotations

from rookery.sim.terms.arithmetic import Clipped, Components, Difference, Divided, Joined, Norm, Scaled, Sum
from rookery.sim.terms.conditions import Above, Below, Largest, Previous, Sines, Where
from rookery.sim.terms.expression import (
    KINDS,
    Clock,
    Constant,
    Expression,
    NoExpression,
    Quantity,
    Recorded,
    Values,
    clocks_of,
    from_json,
)
from rookery.sim.terms.sensed import GroundScan, Sensor
from rookery.sim.terms.turning import Axes, Heading, RotationVector, Turned, Upright, Yaw

__all__ = [
    "KINDS",
    "Above",
    "Axes",
    "Below",
    "Clipped",
    "Clock",
    "Components",
    "Constant",
    "Difference",
    "Divided",
    "Expression",
    "GroundScan",
    "Heading",
    "Joined",
    "Largest",
    "NoExpression",
    "Norm",
    "Previous",
    "Quantity",
    "Recorded",
    "RotationVector",
    "Scaled",
    "Sensor",
    "Sines",
    "Sum",
    "Turned",
    "Upright",
    "Values",
    "Where",
    "Yaw",
    "clocks_of",
    "from_json",
]
