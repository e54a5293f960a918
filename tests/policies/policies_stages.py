"""Chains of every stage, each with a group that it is made for and its formula in plain numpy, double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rookery.policies.policy import Policy
from rookery.policies.stages.attention import Attention
from rookery.policies.stages.chain import Beside, Link
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.command import CommandPart, SkillCommand
from rookery.policies.stages.estimator import Estimator
from rookery.policies.stages.experts import Experts
from rookery.policies.stages.gru import GRU
from rookery.policies.stages.module import Module
from rookery.policies.stages.normalize import Normalize
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.pictures import Convolutions, pictures_of
from rookery.policies.stages.select import Select
from rookery.policies.stages.squash import Squash
from rookery.sim.specs import ActionSpec, Discrete, Group, Term

Array = NDArray[np.float64]
Weights = Mapping[str, Array]
Formula = Callable[[Weights, Array, Array], tuple[Array, Array]]
"""From weights by name, a row and a state to the output and the next state."""
ACT: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
}


def group_of(inputs: int, outputs: int, terms: tuple[Term, ...] = (), targets: tuple[Term, ...] = ()) -> Group:
    """A group with rows of these sizes."""
    names = tuple(f"a{i}" for i in range(outputs))
    ones = (1.0,) * outputs
    action = ActionSpec("push", names, tuple(-x for x in ones), ones, ("N",) * outputs, (0.0,) * outputs)
    return Group(1, terms or (Term("x", inputs),), action, targets=targets)


@dataclass(frozen=True)
class Case:
    """A chain.

    Args:
        links: the stages.
        formula: what it computes.
        terms, targets, action: of the group; None for as many numbers as it gives.
    """

    links: tuple[Link, ...]
    formula: Formula
    terms: tuple[Term, ...] = ()
    targets: tuple[Term, ...] = ()
    action: ActionSpec | None = None

    @property
    def group(self) -> Group:
        group = group_of(self.links[0].inputs, self.links[-1].outputs, self.terms, self.targets)
        return group if self.action is None else replace(group, action=self.action)

    def policy(self, seed: int = 0) -> Policy:
        """With weights that all count."""
        generator = torch.Generator().manual_seed(seed)
        policy = Policy(self.links).eval()
        with torch.no_grad():
            for name, x in policy.state_dict().items():
                if name.endswith("std"):
                    x.uniform_(0.3, 2.0, generator=generator)
                else:
                    x.normal_(0.0, x[0].numel() ** -0.5 if x.dim() > 1 else 0.4, generator=generator)
        return policy


def stateless(function: Callable[[Weights, Array], Array]) -> Formula:
    return lambda w, x, h: (function(w, x), h)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def layers(w: Weights, x: Array, name: str, count: int, activation: str) -> Array:
    for k in range(count):
        x = w[f"{name}.weight_{k}"] @ x + w[f"{name}.bias_{k}"]
        x = ACT[activation](x) if k < count - 1 else x
    return x


def gru(w: Weights, x: Array, h: Array) -> tuple[Array, Array]:
    wx = (w["gru.weight_ih"] @ x + w["gru.bias_ih"]).reshape(3, -1)
    uh = (w["gru.weight_hh"] @ h + w["gru.bias_hh"]).reshape(3, -1)
    r, z = 1.0 / (1.0 + np.exp(-(wx[:2] + uh[:2])))
    new = (1.0 - z) * np.tanh(wx[2] + r * uh[2]) + z * h
    return new, new


def convolved(w: Weights, x: Array, stage: Convolutions) -> Array:
    """By the definition of a convolution."""
    frames = x.reshape(stage.frames, stage.frame)
    out = []
    for p, picture in enumerate(stage.pictures):
        pixels = frames[:, picture.start : picture.start + picture.size]
        y = pixels.reshape(stage.frames, picture.rows, picture.columns, picture.channels)
        y = y.transpose(0, 3, 1, 2).reshape(-1, picture.rows, picture.columns)
        for k, stride in enumerate(stage.strides):
            weight, bias = w[f"pictures.weight_{p}_{k}"], w[f"pictures.bias_{p}_{k}"]
            kernel = weight.shape[-1]
            windows = np.lib.stride_tricks.sliding_window_view(y, (kernel, kernel), (1, 2))[:, ::stride, ::stride]
            y = ACT[stage.activation](np.einsum("irsab,oiab->ors", windows, weight) + bias[:, None, None])
        out.append(y.ravel())
    return np.concatenate(out)


def attended(w: Weights, x: Array, stage: Attention) -> Array:
    """Neighbor by neighbor, those that are there alone."""
    own = np.concatenate([x[a:b] for a, b in stage.own])
    sent = []
    for j in range(stage.neighbors):
        if x[stage.present + j] > 0.0:
            part = np.concatenate([x[a + j * n : a + (j + 1) * n] for a, n in stage.parts])
            message = w["attention.weight_own"] @ own + w["attention.bias"] + w["attention.weight_neighbor"] @ part
            sent.append(ACT[stage.activation](message).reshape(stage.heads, stage.size))
    heard = np.zeros((stage.heads, stage.size))
    if sent:
        for h in range(stage.heads):
            share = softmax(np.array([w["attention.score"][h] @ message[h] for message in sent]))
            heard[h] = sum(s * message[h] for s, message in zip(share, sent, strict=True))
    return np.append(heard.ravel(), len(sent) / stage.neighbors)


def mixed(w: Weights, x: Array, stage: Experts) -> Array:
    gate = softmax(w["experts.weight_gate"] @ x + w["experts.bias_gate"])
    said = ACT[stage.activation](w["experts.weight"] @ x + w["experts.bias"]).reshape(stage.experts, stage.size)
    return np.asarray(gate @ said)


PICTURE_TERMS = (Term("rate", 2), Term("eye", 2 * 5 * 6 * 2, shape=(2, 5, 6, 2)))
PICTURES = Convolutions(
    122, 1, tuple(pictures_of((t.size, t.shape) for t in PICTURE_TERMS)), (3, 2), (3, 2), (1, 2), "elu"
)
FLOCK_TERMS = (
    Term("speed", 4), Term("offset", 15, neighbors=5), Term("rate", 10, neighbors=5),
    Term("seen", 5, neighbors=5, present=True), Term("last", 2),
)  # fmt: skip
ATTENTION = Attention(36, ((0, 4), (34, 36)), 5, ((4, 3), (19, 2)), 29, 6, 2, "tanh")
EXPERTS = Experts(7, 3, 5, "elu")
TARGETS = (Term("velocity", 3),)
ESTIMATOR = Estimator(7, (6, 4), 3, "elu", 5.0)
MIXED_TERMS = (Term("rate", 2), Term("eye", 30, shape=(1, 5, 6, 1)))
MIXED_EYE = Convolutions(32, 1, tuple(pictures_of((t.size, t.shape) for t in MIXED_TERMS)), (2,), (3,), (2,), "tanh")


def everything(w: Weights, x: Array, h: Array) -> tuple[Array, Array]:
    """Convolutions beside numbers, both beside a state estimator, then experts, a memory, and a perceptron."""
    z = np.clip((x - w["normalize.mean"]) / w["normalize.std"], -4.0, 4.0)
    row = np.concatenate((z[:2], convolved(w, z, MIXED_EYE), layers(w, z, "estimator", 2, "tanh")))
    new, state = gru(w, mixed(w, row, Experts(13, 2, 5, "elu")), h)
    return np.tanh(layers(w, new, "perceptron", 2, "relu")), state


CASES: dict[str, Case] = {
    "normalize": Case(
        (Normalize(7, 3.0),),
        stateless(lambda w, x: np.clip((x - w["normalize.mean"]) / w["normalize.std"], -3.0, 3.0)),
    ),
    "command": Case(
        (
            SkillCommand(
                7,
                (
                    CommandPart(1, 2),
                    CommandPart(0, 1, by=5, gain=(0.5,), clip=0.8),
                    CommandPart(3, 2, by=5, gain=(2.0, -0.3), offset=(0.1, 0.2)),
                    CommandPart(0, 1, kept=False, by=6, gain=(0.25,), offset=(-1.0,)),
                    CommandPart(4, 1, offset=(0.7,)),
                ),
            ),
        ),
        stateless(
            lambda w, x: np.array(
                [
                    x[1],
                    x[2],
                    np.clip(x[0] + 0.5 * x[5], -0.8, 0.8),
                    x[3] + 0.1 + 2.0 * x[5],
                    x[4] + 0.2 - 0.3 * x[6],
                    0.25 * x[6] - 1.0,
                    x[4] + 0.7,
                ]
            )
        ),
    ),
    "select one": Case((Select(7, ((2, 5),)),), stateless(lambda w, x: x[2:5])),
    "select three": Case(
        (Select(7, ((5, 7), (0, 1), (2, 4))),), stateless(lambda w, x: np.concatenate((x[5:], x[:1], x[2:4])))
    ),
    **{
        f"perceptron {name}": Case(
            (Perceptron(7, (9, 5), 3, name),),  # type: ignore[arg-type]
            stateless(lambda w, x, name=name: layers(w, x, "perceptron", 3, name)),  # type: ignore[misc]
        )
        for name in ACT
    },
    "one layer": Case((Perceptron(7, (), 3),), stateless(lambda w, x: layers(w, x, "perceptron", 1, "tanh"))),
    "clip": Case((Squash(7, "clip"),), stateless(lambda w, x: np.clip(x, -1.0, 1.0))),
    "tanh": Case((Squash(7, "tanh"),), stateless(lambda w, x: np.tanh(x))),
    "choose": Case(
        (Choose((3, 4)),),
        stateless(lambda w, x: np.array([np.argmax(x[:3]), np.argmax(x[3:])], float)),
        action=ActionSpec("pick", choices=(Discrete("a", tuple("123")), Discrete("b", tuple("1234")))),
    ),
    "gru": Case((GRU(7, 5),), gru),
    "estimator": Case((ESTIMATOR,), stateless(lambda w, x: layers(w, x, "estimator", 3, "elu")), targets=TARGETS),
    "pictures": Case((PICTURES,), stateless(lambda w, x: convolved(w, x, PICTURES)), PICTURE_TERMS),
    "attention": Case((ATTENTION,), stateless(lambda w, x: attended(w, x, ATTENTION)), FLOCK_TERMS),
    "experts": Case((EXPERTS,), stateless(lambda w, x: mixed(w, x, EXPERTS))),
    "beside": Case(
        (Beside(((Select(7, ((1, 4),)), Squash(3, "tanh")), (Perceptron(7, (4,), 2),), (Select(7, ((6, 7),)),))),),
        stateless(lambda w, x: np.concatenate((np.tanh(x[1:4]), layers(w, x, "perceptron", 2, "tanh"), x[6:]))),
    ),
    "everything": Case(
        (
            Normalize(32, 4.0),
            Beside(((*MIXED_EYE.beside_numbers(),), (Estimator(32, (6,), 3, "tanh", 4.0),))),
            Experts(13, 2, 5, "elu"),
            GRU(5, 4),
            Perceptron(4, (6,), 2, "relu"),
            Squash(2, "tanh"),
        ),
        everything,
        MIXED_TERMS,
        TARGETS,
    ),
}
MODULE = (Module(6, 3, "policies_gru:gru"),)


def rows(policy: Any, count: int = 60, seed: int = 1) -> NDArray[np.float32]:
    """Rows [n, in], on which limits and presences show."""
    x = np.random.default_rng(seed).standard_normal((count, policy.observation_size)) * 1.5
    return x.astype(np.float32)
