"""What contracts need of every task: formulas of terms, definitions of metrics, actuation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sampled import slow_but

import rookery
from rookery.sim.env import Env
from rookery.sim.specs import Group, Term
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.tasks.registry import TASKS


def terms_of(group: Group) -> Iterator[Term]:
    yield from group.observation
    yield from group.targets
    for declared in group.sets().values():
        yield from declared.terms


QUICK = [
    name for name in sorted(TASKS) if name != "hand-grasp-objects"
]  # hand-grasp with each of 14 objects: its terms


@pytest.fixture(scope="module", params=slow_but(QUICK, sorted(TASKS)))
def env(request: pytest.FixtureRequest) -> Iterator[Env]:
    entry = TASKS[request.param]
    made = rookery.make(entry.id, max(1, len(entry.members)))
    yield made
    made.close()


def test_every_term_has_a_formula(env: Env) -> None:
    missing = [f"{name}.{t.name}" for name, group in env.groups.items() for t in terms_of(group) if not t.formula]
    assert not missing


def test_positions_and_velocities_are_said_to_be_estimated(env: Env) -> None:
    """No sensor of a drone or a quadruped gives its position or linear velocity."""
    for name, group in env.groups.items():
        for t in terms_of(group):
            if t.name in ("position_error", "linear_velocity", "base_velocity", "goal_offset", "position"):
                assert t.estimated, f"{name}.{t.name}"


def test_every_metric_has_a_definition(env: Env) -> None:
    """The same names, in the contract too."""
    env.reset(seed=0)
    defined = env.deployment().metrics
    assert defined.keys() >= env.metrics().keys()
    if not TASKS[env.task_id].members:  # a set's tasks have more than those in common
        assert defined.keys() == env.metrics().keys()
    assert all(len(text) > 10 for text in defined.values())
    assert build_contract(env).metrics == defined


def test_the_contract_says_how_actions_reach_the_motors(env: Env) -> None:
    """In words and numbers, and unchanged through JSON."""
    contract = build_contract(env)
    for group in contract.groups.values():
        a = group.actuation
        assert a is not None and a.steps
        named = [r.name for r in a.multirotor.rotors] if a.multirotor else [j.name for j in a.joints]
        assert list(a.actuators[: len(named)]) == named
        assert 0.0 < a.period <= contract.control_dt
    assert Contract.from_json(contract.to_json(), stages=False) == contract
