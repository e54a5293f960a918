"""Everyday objects to grasp: a library with true sizes and masses, and a loader for a user's own meshes.

`names()` and `find_object(name)` give the library, `load_object(path)` a mesh file; both give an `ObjectModel`, which makes
its own MuJoCo spec.
"""

from rookery.assets.objects.library import find_object, names
from rookery.assets.objects.loading import LoadingReport, load_object
from rookery.assets.objects.model import ObjectModel
from rookery.assets.objects.parts import Part

__all__ = ["LoadingReport", "ObjectModel", "Part", "find_object", "load_object", "names"]
