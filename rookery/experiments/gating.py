"""The transfer gate of runs: environments, policies of checkpoints, and which engines a task has."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.judging import judging, own_code, require_registered
from rookery.experiments.run_env import make_env
from rookery.experiments.runs import open_run
from rookery.experiments.sent_policies import SentPolicies
from rookery.sim.env import Act
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.trust import refuse_untrusted
from rookery.tasks.registry import find

if TYPE_CHECKING:
    from rookery.experiments.ray_cluster import Cluster
    from rookery.experiments.ray_tasks import StoredValue
    from rookery.policies.policy import Policy
    from rookery.sim2real.contract import Contract
    from rookery.sim2real.gate.gate import GateSettings
    from rookery.sim2real.gate.report import Report
    from rookery.sim2real.gate.trials import Open


def other_engines(task: str, wanted: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Engines of a task besides its own, or the wanted ones; "none" alone stands for no engine.

    Raises:
        RookeryError: the task does not run on a wanted one, or it is the task's own.
    """
    refuse_untrusted(task)
    entry = find(task)
    if wanted == ("none",):
        return ()
    for engine in wanted:
        if engine == entry.engines[0]:
            raise RookeryError(f"{engine} is the engine of {task} itself: give --engines another one.")
        if engine not in entry.engines:
            raise unknown(f"engine of {task}", engine, entry.engines)
    return wanted or tuple(entry.engines[1:])


def opener(policies: Mapping[str, Policy], contract: Contract) -> Open:
    """Makes the environments of a contract with the policies acting in them.

    Raises:
        RookeryError: for a set of tasks; when called, for a task that wraps another: the gate varies one world's physics.
    """
    refuse_untrusted(contract.task_id)
    if find(contract.task_id).members:
        raise RookeryError(f"{contract.task_id} is a set of tasks: the gate takes policies of a single task.")

    return functools.partial(_open, policies, contract)


def _open(
    policies: Mapping[str, Policy], contract: Contract, num_envs: int, *, config: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[VecEnv, Act]:  # fmt: skip
    from rookery.policies.training.evaluate import act_with

    env = make_env(contract, num_envs, config, **{k: v for k, v in options.items() if v is not None})
    if not isinstance(env, VecEnv):
        env.close()
        raise RookeryError(f"{env.task_id} is not one task with one policy: the gate takes policies of such a task.")
    return env, act_with(dict(policies), env)


def _open_sent(sent: StoredValue[SentPolicies], num_envs: int, **options: Any) -> tuple[VecEnv, Act]:
    return _open(*sent.get().open(), num_envs, **options)


def gate(
    run: Path,
    profile: str | None,
    settings: GateSettings,
    note: Callable[[str], None] = print,
    as_registered: bool = False,
    cluster: Cluster | None = None,
) -> Report:
    """The report on the policy of a run or zoo folder; see `sim2real.gate.gate.Gate`.

    Raises:
        RookeryError: as `gate_policies`.
    """
    policies, contract = open_run(run)
    return gate_policies(policies, contract, profile, settings, str(run), note, as_registered, cluster)


def gate_policies(
    policies: Mapping[str, Policy], contract: Contract, profile: str | None, settings: GateSettings, name: str,
    note: Callable[[str], None], as_registered: bool = False, cluster: Cluster | None = None,
) -> Report:  # fmt: skip
    """The report on policies in memory. The registered task judges, with what of the contract's task config belongs to the
    policy. A cluster plays in processes that need not see any folder: each machine is sent the policies once.

    Raises:
        RookeryError: the contract has other values that say what is judged, and `as_registered` does not put the registered
            ones in their place; a policy acts on what no robot has; or as `Gate`.
    """
    from rookery.sim2real.gate.gate import Gate
    from rookery.sim2real.gate.profile import profile_of

    _refuse_simulated(policies)
    open_env = opener(policies, contract)
    code = own_code(policy.chain for policy in policies.values())  # the contract of a checkpoint has no stages
    judged = dataclasses.replace(judging(contract), own_code=code)
    if not as_registered:
        require_registered(judged)
    chosen = profile_of(contract.task_id) if profile is None else profile
    mapper = None
    if cluster is not None:
        mapper = cluster.map
        open_env = functools.partial(_open_sent, cluster.share(SentPolicies.of(policies, contract)))
    report = Gate(open_env, chosen, settings, policies, contract, note, mapper).run(name)
    lines = [
        *judged.lines(),
        *(f"team {team} is played by the controller of {report.task}" for team in report.opponents),
    ]
    return dataclasses.replace(report, judged_by=judged.to_json(), not_as_registered=lines)


def _refuse_simulated(policies: Mapping[str, Policy]) -> None:
    """Refuse policies that act on what the simulation alone knows, whose success says nothing of a robot."""
    for policy in policies.values():
        if policy.chain.controlled:
            raise RookeryError(f"the gate is for policies that a robot can run, and {policy.chain.c_refused}.")


def checkpoint_policies(run: Path) -> Iterator[tuple[int, dict[str, Policy], Contract]]:
    """The policies of every checkpoint of a run, oldest first: control steps, policies by group, and contract.

    Raises:
        RookeryError: the run has no checkpoints, or one that is damaged or of another program.
    """
    from rookery.experiments.algorithm import make_algorithm
    from rookery.experiments.settings import RunSettings
    from rookery.policies.training import checkpoint
    from rookery.sim2real.contract import Contract
    from rookery.sim2real.upgrade import upgraded

    folders = checkpoint.complete(run)
    if not folders:
        raise RookeryError(f"{run} holds no checkpoints: give the folder of a run made by `rookery train`.")
    for folder in folders:
        state = checkpoint.read_state(folder)
        if not state["settings"]:
            raise RookeryError(f"{run} was not made by `rookery train`: score it from the program that made it.")
        settings = dataclasses.replace(RunSettings.from_values(state["settings"]), randomize_curriculum=False)
        algorithm, _ = make_algorithm(settings, "none", run)
        try:
            algorithm.load_state_dict(checkpoint.read_tensors(folder, state)["algorithm"])
            policies = algorithm.policies()
        finally:
            algorithm.close()
            algorithm.env.close()
        # checkpoints keep the contract of before the training, without networks
        yield int(state["steps"]), policies, Contract.from_json(upgraded(state["contract"]), stages=False)
