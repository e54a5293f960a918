"""Stages of policies, one file each, and their registry: a new stage is one file and one line below.

Importing this imports no stage and no torch.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rookery.policies.stages.encodes import Encodes
    from rookery.policies.stages.stage import Stage

__all__ = ["KINDS", "encoders", "stage_class"]

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
    "command": "rookery.policies.stages.command:SkillCommand",
    "controller": "rookery.policies.stages.controller:ControllerSkill",
}
"""By kind, "module:Class"."""


def stage_class(kind: str) -> type[Stage]:
    """The class of a kind in KINDS."""
    module, name = KINDS[kind].split(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


@cache
def encoders() -> dict[str, type[Encodes]]:
    """The stages that the setting `encoder` names, by that name."""
    from rookery.policies.stages.encodes import Encodes

    found = [stage_class(kind) for kind in KINDS]
    return {cls.encoder_name: cls for cls in found if issubclass(cls, Encodes)}
