"""Teachers: what DAgger asks at every control step for the actions to imitate."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.policies.policy import Policy
from rookery.policies.storage.prefix import check_state, prefixed
from rookery.sim.buffers import under
from rookery.sim.env import Act, Env
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ObservationSet, Term

__all__ = [
    "TEACHER_SET",
    "ControllerTeacher",
    "CorrectedTeacher",
    "JoinedTeacher",
    "PolicyTeacher",
    "Teacher",
    "TeacherGroup",
]

TEACHER_SET = "teacher"
"""Name of the observation set that a teacher's policy acts on."""


class Teacher(abc.ABC):
    """Gives the actions to imitate in an environment's worlds as they are now."""

    @abc.abstractmethod
    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Expert actions {group: [N, A, D]}; called once in every control step.

        Args:
            obs: what the student observes, {group: [N, A, O]}.
        """

    def observe_ends(self, ended: Tensor) -> None:
        """Note in which worlds [N] bool a new episode has begun since the latest `act`."""

    def state_dict(self) -> dict[str, Tensor]:
        """State, beside the environment's, on which its next actions depend."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a saved state."""


class ControllerTeacher(Teacher):
    """A classical controller.

    Args:
        controller: gives actions {group: [N, A, D]} for the student's observations; it may read the true state.
    """

    def __init__(self, controller: Act) -> None:
        self._controller = controller

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: action.clamp(-1.0, 1.0) for name, action in self._controller(obs).items()}


class JoinedTeacher(Teacher):
    """Two teachers of one robot, each for actions of its own: legs by a policy, an arm by inverse kinematics.

    Args:
        first: teaches all actions that `second` does not.
        second: teaches the actions in `chosen`.
        chosen: by group, [D] bool, the actions that `second` teaches.
    """

    def __init__(self, first: Teacher, second: Teacher, chosen: Mapping[str, Tensor]) -> None:
        self.first = first
        self.second = second
        self.chosen = dict(chosen)

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        first = self.first.act(obs)
        second = self.second.act(obs)
        return {name: torch.where(self.chosen[name], second[name], action) for name, action in first.items()}

    def observe_ends(self, ended: Tensor) -> None:
        self.first.observe_ends(ended)
        self.second.observe_ends(ended)

    def state_dict(self) -> dict[str, Tensor]:
        return prefixed("first", self.first.state_dict()) | prefixed("second", self.second.state_dict())

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.first.load_state_dict(under("first", state))
        self.second.load_state_dict(under("second", state))


class CorrectedTeacher(Teacher):
    """A teacher whose actions the task improves by the true state, see `Task.correction`.

    Args:
        teacher: whose actions are corrected.
        correction: from actions {group: [N, A, D]} to better ones.
    """

    def __init__(self, teacher: Teacher, correction: Act) -> None:
        self.teacher = teacher
        self._correction = correction

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: action.clamp(-1.0, 1.0) for name, action in self._correction(self.teacher.act(obs)).items()}

    def observe_ends(self, ended: Tensor) -> None:
        self.teacher.observe_ends(ended)

    def state_dict(self) -> dict[str, Tensor]:
        return self.teacher.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.teacher.load_state_dict(state)


@dataclass(frozen=True)
class TeacherGroup:
    """A trained policy and what it observes.

    Args:
        policy: acts for all agents of the group.
        observation: terms and history, as its contract declares them.
        targets: those of its state estimator; in place of predictions it gets the true values.
    """

    policy: Policy
    observation: ObservationSet
    targets: tuple[Term, ...] = ()


class PolicyTeacher(Teacher):
    """Trained policies that act on the environment's observation set "teacher": noise-free, with privileged terms.

    Terms are matched by name, and scaled and clipped as the teacher's contract declares; frames of its history are kept here.

    Args:
        env: the student's environment.
        groups: teachers by group.
        name: of the run, for messages.

    Attributes:
        frames: by group, [N, A, H, F].
        memory: by group, the state of a teacher with memory, [N, A, M].

    Raises:
        RookeryError: the environment's set lacks a term, or has it in another size or within narrower limits.
    """

    def __init__(self, env: Env, groups: Mapping[str, TeacherGroup], name: str = "the teacher") -> None:
        self.env = env
        self.groups = dict(groups)
        self.frames: dict[str, Tensor] = {}
        self.memory: dict[str, Tensor] = {}
        self._new = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        for group, teacher in self.groups.items():
            declared = env.groups[group]
            given = {t.name: t for t in declared.sets()[TEACHER_SET].terms}
            for term in (*teacher.observation.terms, *teacher.targets):
                _check_term(name, term, given.get(term.name))
            teacher.policy.to(env.device).eval()
            observation = teacher.observation
            shape = (env.num_envs, declared.count, observation.history, observation.frame_size)
            self.frames[group] = torch.zeros(shape, device=env.device)
            self.memory[group] = teacher.policy.initial_state(env.num_envs, declared.count)

    def act(self, obs: dict[str, Tensor]) -> dict[str, Tensor]:
        values = self.env.observation_set(TEACHER_SET)
        out = {}
        for group, teacher in self.groups.items():
            terms = self._split(group, values[group])
            frame = _join(terms, teacher.observation.terms).unsqueeze(2)
            shifted = torch.cat((self.frames[group][:, :, 1:], frame), dim=2)
            self.frames[group] = torch.where(self._new[:, None, None, None], frame, shifted)
            truth = _join(terms, teacher.targets) if teacher.targets else None
            memory = self.memory[group].masked_fill(self._new[:, None, None], 0.0)
            out[group], self.memory[group] = teacher.policy.step(self.frames[group].flatten(2), memory, truth)
        self._new.zero_()
        return out

    def observe_ends(self, ended: Tensor) -> None:
        self._new |= ended

    def _split(self, group: str, values: Tensor) -> dict[str, tuple[Tensor, float]]:
        """By name, the newest value of each term [N, A, d] and the scale that it has."""
        declared = self.env.groups[group].sets()[TEACHER_SET]
        start = declared.size - declared.frame_size
        out = {}
        for term in declared.terms:
            out[term.name] = (values[..., start : start + term.size], term.scale)
            start += term.size
        return out

    def state_dict(self) -> dict[str, Tensor]:
        own = {"new": self._new} | {f"frames/{group}": frames for group, frames in self.frames.items()}
        return own | {f"memory/{group}": memory for group, memory in self.memory.items() if memory.shape[-1]}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        check_state(self.state_dict(), state)
        for name, own in self.state_dict().items():
            own.copy_(state[name])


def _join(values: dict[str, tuple[Tensor, float]], terms: tuple[Term, ...]) -> Tensor:
    """[N, A, F] terms side by side, with the scales and clips of `terms`."""
    parts = []
    for term in terms:
        value, scale = values[term.name]
        rescaled = value if scale == term.scale else value * (term.scale / scale)
        parts.append(rescaled.clamp(-term.clip, term.clip))
    return torch.cat(parts, dim=-1)


def _check_term(name: str, term: Term, given: Term | None) -> None:
    """Refuse a teacher whose term the environment cannot give."""
    if given is None or given.size != term.size:
        found = "lack it" if given is None else f"have {given.size}"
        raise RookeryError(
            f"{name} observes {term.name!r} of size {term.size}, and the student's worlds {found}: give the student the "
            "teacher's --task-config, but for what it must not observe."
        )
    if given.unit != term.unit or not given.same_frame(term):
        raise RookeryError(
            f"{name} observes {term.name!r} in {term.unit}, {term.frame}, and the student's worlds give {given.unit}, "
            f"{given.frame}: take a teacher of the same task."
        )
    if given.clip / given.scale < term.clip / term.scale * (1.0 - 1e-6) and math.isfinite(given.clip):
        raise RookeryError(
            f"{name} observes {term.name!r} up to {term.clip / term.scale:g} {term.unit}, and the student's worlds give it "
            f"up to {given.clip / given.scale:g}: train a teacher with this version."
        )
