"""Stages of policies, one file each, and their registry: a new stage is one file and one line below.

One from outside this package is a class in a file, ``--encoder my_stage.py:Gain``, or an entry point of an installed
package, by its kind::

    [project.entry-points."rookery.stages"]
    gain = "my_package.stages:Gain"

Importing this imports no stage and no torch.
"""

from __future__ import annotations

import dataclasses
import importlib
from functools import cache
from typing import TYPE_CHECKING

from rookery.sim.errors import RookeryError
from rookery.sim.own_files import entry_points, is_in_file, object_at, object_in_file, unknown_name
from rookery.sim.trust import refuse_untrusted

if TYPE_CHECKING:
    from rookery.policies.stages.encodes import Encodes
    from rookery.policies.stages.stage import Stage

__all__ = ["KINDS", "encoder_class", "encoder_names", "encoders", "stage_class", "stage_kinds"]

ENTRY_POINTS = "rookery.stages"

KINDS = {
    "normalize": "rookery.policies.stages.normalize:Normalize",
    "select": "rookery.policies.stages.select:Select",
    "estimator": "rookery.policies.stages.estimator:Estimator",
    "pictures": "rookery.policies.stages.pictures:Convolutions",
    "attention": "rookery.policies.stages.attention:Attention",
    "experts": "rookery.policies.stages.experts:Experts",
    "gru": "rookery.policies.stages.gru:GRU",
    "perceptron": "rookery.policies.stages.perceptron:Perceptron",
    "module": "rookery.policies.stages.module:Module",
    "squash": "rookery.policies.stages.squash:Squash",
    "choose": "rookery.policies.stages.choose:Choose",
    "command": "rookery.policies.stages.command:CommandStage",
    "controller": "rookery.policies.stages.controller:ControllerStage",
}
"""By kind, "module:Class"."""


def stage_class(kind: str) -> type[Stage]:
    """The class of a kind: of this package, of an entry point, or in a file, as ``my_stage.py:Gain``.

    Raises:
        RookeryError: an unknown kind, a file that is not trusted, or a class that is no stage.
    """
    if is_in_file(kind):
        refuse_untrusted(kind, "stage")
        found = _checked(object_in_file(kind), kind)
        found.source = kind
        return found
    value = KINDS.get(kind) or entry_points(ENTRY_POINTS).get(kind)
    if value is None:
        raise unknown_name("stage", kind, stage_kinds())
    if kind in KINDS:
        module, _, name = value.partition(":")
        return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
    found = _checked(object_at(value, "stage", kind), value)
    if found.kind != kind:
        raise RookeryError(f"{value} has the kind {found.kind!r}: give its entry point that name instead of {kind!r}.")
    return found


def stage_kinds() -> list[str]:
    """All kinds: of this package, and entry points of installed packages. Imports none of the latter."""
    return [*KINDS, *(name for name in entry_points(ENTRY_POINTS) if name not in KINDS)]


def encoder_class(name: str) -> type[Encodes]:
    """The stage that the setting `encoder` names: by its `encoder_name`, its entry point, or in a file.

    Raises:
        RookeryError: as of `stage_class`; or it is none that encodes.
    """
    from rookery.policies.stages.encodes import Encodes

    if name in encoders():
        return encoders()[name]
    if not is_in_file(name) and (name in KINDS or name not in entry_points(ENTRY_POINTS)):
        raise unknown_name("encoder", name, encoder_names())
    found = stage_class(name)
    if not issubclass(found, Encodes):
        raise RookeryError(
            f"{name} is no encoder: give a class that derives from rookery.policies.stages.encodes.Encodes."
        )
    return found


def encoder_names() -> list[str]:
    """Names that the setting `encoder` takes beside files; some entry points may be stages that do not encode."""
    return ["none", *encoders(), *(name for name in entry_points(ENTRY_POINTS) if name not in KINDS)]


@cache
def encoders() -> dict[str, type[Encodes]]:
    """The stages of this package that the setting `encoder` names, by that name."""
    from rookery.policies.stages.encodes import Encodes

    found = [stage_class(kind) for kind in KINDS]
    return {cls.encoder_name: cls for cls in found if issubclass(cls, Encodes)}


def _checked(found: object, shown: str) -> type[Stage]:
    """`found` as the class of a stage from outside this package."""
    from rookery.policies.stages.stage import Stage

    if not (isinstance(found, type) and issubclass(found, Stage)):
        raise RookeryError(
            f"{shown} is no stage: give a class that derives from rookery.policies.stages.encodes.Encodes."
        )
    if not dataclasses.is_dataclass(found) or "__dataclass_fields__" not in vars(found):
        raise RookeryError(f"{shown} is no dataclass: write @dataclass(frozen=True) above the class.")
    for name, example in (("kind", '"gain"'), ("formula", '"gain x"')):
        if not isinstance(getattr(found, name, None), str):
            raise RookeryError(f"{shown} has no {name}: write one into the class, {name}: ClassVar[str] = {example}.")
    if not found.kind.isidentifier() or found.kind in KINDS:
        raise RookeryError(
            f"{shown} has the kind {found.kind!r}: choose a name of letters, digits and _ that is none of {', '.join(KINDS)}."
        )
    return found
