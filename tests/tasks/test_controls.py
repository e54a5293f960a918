"""Tasks on the package's bases whose agents choose among what the base's numbers may be (`Task.controls`)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import rookery
from rookery.robots.drones.drone import action_spec
from rookery.robots.drones.table import find_drone
from rookery.sim.actuation import Actuation
from rookery.sim.quantities import LAST_ACTION
from rookery.sim.specs import ActionSpec, Discrete, Group
from rookery.sim.task import Task
from rookery.tasks.drones.hover import Hover
from rookery.tasks.locomanip.velocity import Velocity
from rookery.tasks.registry import TASKS, TaskEntry

NEUTRAL = action_spec(find_drone("crazyflie21"), "ctbr").neutral
THRUSTS = torch.tensor([[0.0, 0.0, 0.0, -0.9], NEUTRAL, [0.3, -0.2, 0.1, 0.3]])
POSES = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.6, -0.6], [0.0, -0.5, 0.2], [0.0, 0.5, 0.2]])
LEGS = ("FL", "FR", "RL", "RR")


def chosen(groups: dict[str, Group], action: ActionSpec) -> dict[str, Group]:
    """The groups with another action, and without the base's own last one in what they see."""
    return {
        name: replace(
            group, action=action, mirror=None, observation_sets={},
            observation=tuple(t for t in group.observation if LAST_ACTION not in t.formula),
        )
        for name, group in groups.items()
    }  # fmt: skip


def seen(terms: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    return {g: {name: value for name, value in values.items() if name != "last_action"} for g, values in terms.items()}


class ThrustChoice(Hover):
    """A drone hovers by three thrusts."""

    def groups(self) -> dict[str, Group]:
        return chosen(
            super().groups(), ActionSpec("thrust", choices=(Discrete("thrust", ("sink", "stay", "rise"), neutral=1),))
        )

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return seen(super().observe())

    def controls(self, actions: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"drone": THRUSTS[actions["drone"][..., 0].long()]}


def posed(legs: ActionSpec, choice: Tensor) -> Tensor:
    """[..., 12] of the four legs: the poses from the neutral one, which a delayed action has before the first."""
    return (torch.tensor(legs.neutral) + POSES[choice.long()].flatten(-2)).clamp(-1.0, 1.0)


class LegChoice(Velocity):
    """A Go2 walks by one of four poses for each leg."""

    def groups(self) -> dict[str, Group]:
        poses = tuple(Discrete(leg, ("stay", "lift", "ahead", "back")) for leg in LEGS)
        return chosen(super().groups(), ActionSpec("poses", choices=poses))

    def observe(self) -> dict[str, dict[str, Tensor]]:
        return seen(super().observe())

    def controls(self, actions: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"robot": posed(self.robot.legs, actions["robot"])}


CASES: dict[
    str, tuple[type[Task], str, tuple[int, ...]]
] = {  # by group: task, that of the base, options of the choices
    "drone": (ThrustChoice, "drone-hover", (3,)),
    "robot": (LegChoice, "go2-velocity", (4, 4, 4, 4)),
}


@pytest.mark.parametrize("delay", [0.0, 0.014])
@pytest.mark.parametrize("group", CASES)
def test_choices_do_what_their_numbers_do(group: str, delay: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards, ends and what is seen of it: those of the base's task under the same numbers, to the bit."""
    task, name, options = CASES[group]
    monkeypatch.setitem(TASKS, "chosen", TaskEntry.of(task, "chosen"))
    base, env = (rookery.make(n, 4, seed=3, fixed={"action_delay": delay}) for n in (name, "chosen"))
    own, full = env.reset()[0][group], base.reset()[0][group]
    terms = base.groups[group].slices()
    kept = torch.cat([torch.arange(full.shape[-1])[terms[t.name]] for t in env.groups[group].observation])
    assert len(kept) < full.shape[-1]
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        assert torch.equal(own, full[..., kept])
        drawn = torch.rand(4, 1, len(options), generator=generator)
        choice = (drawn * torch.tensor(options)).floor()
        action = base.groups[group].action
        numbers = THRUSTS[choice[..., 0].long()] if group == "drone" else posed(action, choice)
        (o, r, *ends), (o2, r2, *ends2) = env.step({group: choice})[:4], base.step({group: numbers})[:4]
        own, full = o[group], o2[group]
        assert torch.equal(r[group], r2[group])
        assert all(torch.equal(a, b) for a, b in zip(ends, ends2, strict=True))
    env.close()
    base.close()


class OwnActuation(ThrustChoice):
    """A drone whose task says what lies below its choices."""

    @property
    def actuation(self) -> dict[str, Actuation]:
        return {"drone": Actuation(("a table of thrusts",), ("rotor_1",), 0.002)}


def test_a_contract_says_nothing_of_what_lies_below_other_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops of the base would take an index for a body rate."""
    for task, steps in ((Hover, None), (ThrustChoice, ()), (OwnActuation, ("a table of thrusts",))):
        monkeypatch.setitem(TASKS, "chosen", TaskEntry.of(task, "chosen"))
        env = rookery.make("chosen", 1)
        declared = env.deployment().actuation
        own = env.unwrapped.task.actuation["drone"].steps if steps is None else steps
        assert tuple(step for actuation in declared.values() for step in actuation.steps) == own
        assert bool(own) == (task is not ThrustChoice)
        env.close()
