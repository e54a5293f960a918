"""From an environment's declarations to a contract."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rookery.sim.deployment import LINK, Deployment
from rookery.sim.env import Env
from rookery.sim.specs import ActionSpec, Group
from rookery.sim.values import plain
from rookery.sim2real.command_ranges import ranges_of
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.contract import (
    Contract,
    ContractGroup,
    Delay,
    Latency,
    Limit,
    MeasurementErrors,
    Provenance,
    parse_limits,
)
from rookery.sim2real.decisions import DecisionEvent

if TYPE_CHECKING:
    from rookery.policies.policy import Policy


def build_contract(
    env: Env,
    policies: Mapping[str, Policy] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
    trained_here: bool = True,
) -> Contract:
    """The contract of an environment and, where they exist, of its policies.

    Args:
        env: environment of the policies; its `deployment()` gives what its groups do not.
        policies: by group; None leaves the stages out until `with_stages`.
        config: the task's config as JSON values, in place of the one in `deployment()`; its `dt` is the physics step.
        provenance: entries of `Provenance`, and whatever else is known.
        trained_here: the training had the delays and the measurement errors that the environment draws; False: they are not
            known.

    Raises:
        RookeryError: the parts do not make a valid contract.
    """
    deployment = env.deployment()
    if config is not None:
        deployment = _of_config(deployment, config)
    contract = describe(env.task_id, env.groups, env.control_dt, deployment, provenance, trained_here)
    return contract if policies is None else with_stages(contract, policies)


def _of_config(deployment: Deployment, config: Mapping[str, Any]) -> Deployment:
    """A deployment with another config. Training may take longer physics steps than the config's (`train_overrides`); the loops
    below the policy run at the config's, on the robot too, where a period of 10 ms does not hold a leg."""
    dt = float(config.get("dt", deployment.physics_dt))
    loops = {
        group: dataclasses.replace(actuation, period=dt) if actuation.period == deployment.physics_dt else actuation
        for group, actuation in deployment.actuation.items()
    }
    return dataclasses.replace(deployment, config=dict(config), physics_dt=dt, actuation=loops)


def describe(
    task_id: str,
    groups: Mapping[str, Group],
    control_dt: float,
    deployment: Deployment | None = None,
    provenance: Mapping[str, Any] | None = None,
    trained_here: bool = True,
) -> Contract:
    """The contract of declarations, such as those of a dataset from elsewhere; stages are left out.

    Args:
        task_id: name of the task.
        groups: agent groups by name.
        control_dt: s.
        deployment: the rest; without it no config, the physics step is the control step, and delays and measurement errors
            are not known.
        provenance: entries of `Provenance`, and whatever else is known.
        trained_here: see `build_contract`.

    Raises:
        RookeryError: the parts do not make a valid contract.
    """
    more = deployment or Deployment(physics_dt=control_dt)
    known = trained_here and deployment is not None
    drawn = {name: more.randomized.get(name, (0.0, 0.0)) if known else None for name in LINK}
    contract = Contract(
        task_id=task_id,
        control_dt=float(control_dt),
        physics_dt=float(more.physics_dt),
        groups={
            name: ContractGroup(
                group,
                actuation=more.actuation.get(name),
                safety=parse_limits(more.safety[name]) if name in more.safety else _action_limits(group.action),
                events=tuple(DecisionEvent(event, how) for event, how in more.events.items()),
                commands=ranges_of(more.commands if trained_here else {}, group.observation),
            )
            for name, group in groups.items()
        },
        task_config=more.config,
        latency=Latency(
            Delay(0.0, drawn["observation_delay"]),
            Delay(0.0, drawn["action_delay"]),
        ),
        measurement_errors=MeasurementErrors(*(drawn[f"observation_{what}"] for what in ("noise", "bias", "drift"))),
        metrics=more.metrics,
        provenance=Provenance.from_json(plain(provenance or {})),
    )
    return Contract.from_json(contract.to_json(), stages=False)


def describe_json(task_id: str, groups: Mapping[str, Group], control_dt: float) -> dict[str, Any]:
    """`describe` as JSON values, in the form that `import_lerobot` takes."""
    return describe(task_id, groups, control_dt).to_json()


def _action_limits(action: ActionSpec) -> dict[str, Limit]:
    columns = zip(action.names, action.low, action.high, action.units, strict=True)
    return {name: Limit(low, high, unit) for name, low, high, unit in columns}
