"""`rookery.import_policy`: a run folder from an actor that another library trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rookery.experiments.runs import link_latest, new_run
from rookery.making import make
from rookery.policies.imports.actor import as_policy, read_normalizer, with_normalizer
from rookery.policies.imports.reading import read_actor
from rookery.policies.policy import Policy
from rookery.policies.training.store import save_policy
from rookery.sim.env import Env
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.draw_log import refuse_log
from rookery.sim.specs import Group
from rookery.sim2real.build import build_contract
from rookery.sim2real.provenance import gather_provenance


def import_policy(
    file: Path | str,
    task: str,
    *,
    config: dict[str, Any] | None = None,
    engine: str | None = None,
    randomize: str | None = None,
    activation: str | None = None,
    squash: str | None = None,
    normalizer: Path | str | None = None,
    out: Path | str | None = None,
) -> Path:
    """Make a run folder from an actor that another library trained; eval, play, gate and export take it.

    Where the library is installed, the policy is compared with the library's own code on 64 observations, and refused where
    its actions are others.

    Args:
        file: rsl_rl's model_N.pt, Stable-Baselines3's .zip, skrl's agent_N.pt, rl_games' .pth, the state_dict of an actor of
            TorchRL, or an actor as TorchScript (.pt) or ONNX (.onnx).
        task: that it was trained for, with one agent group.
        config: values of the task's config in place of its defaults, as in the training; it is in the contract.
        engine: of the training, for the contract.
        randomize: domain randomization of the training, "none", "default", "all" or a TOML file, for the contract; left out,
            the contract says of delays and measurement errors that they are not known.
        activation: "tanh", "elu" or "relu", where the file does not tell: those of rsl_rl, skrl, rl_games and TorchRL do not.
        squash: "clip" or "tanh", what follows the last layer, where the file does not tell: those of skrl, rl_games and
            TorchRL do not.
        normalizer: .npz file of observation statistics that are not in the checkpoint, such as those of Stable-Baselines3's
            VecNormalize: ``numpy.savez(file, mean=v.obs_rms.mean, var=v.obs_rms.var, epsilon=v.epsilon, limit=v.clip_obs)``.
        out: the folder; runs/TASK/<time> if left out.

    Returns:
        The folder.

    Raises:
        RookeryError: no such file or task, an actor that is no perceptron, or sizes that are not the task's.
    """
    actor = read_actor(Path(file))
    if normalizer is not None:
        actor = with_normalizer(actor, read_normalizer(Path(normalizer)))
    refuse_log(randomize or "none")
    env = make(task, 1, config=config, engine=engine, randomize=randomize or "none")
    try:
        name, group = _only_group(env)
        policy = as_policy(actor, activation, squash, group.action.size)
        _check_sizes(policy, group, env.task_id)
        provenance = gather_provenance(actor.steps, None, env.engine, randomize)
        assumed = "".join(f"; assumed: {x}" for x in actor.assumed)
        provenance["imported"] = f"{Path(file).name} of {actor.library}{assumed}"
        contract = build_contract(env, {name: policy}, provenance=provenance, trained_here=randomize is not None)
    finally:
        env.close()
    folder = new_run(task, None if out is None else Path(out))
    save_policy(folder, {name: policy}, contract.to_json())
    if out is None:
        link_latest(folder)
    return folder


def _only_group(env: Env) -> tuple[str, Group]:
    """The agent group of a task, by its name.

    Raises:
        RookeryError: the task has several.
    """
    if len(env.groups) != 1:
        raise RookeryError(
            f"{env.task_id} has the agent groups {', '.join(env.groups)}: only a policy of a task with one group can be "
            "imported."
        )
    return next(iter(env.groups.items()))


def _check_sizes(policy: Policy, group: Group, task: str) -> None:
    """Refuse a policy of other sizes than the agents'."""
    sizes = (policy.observation_size, policy.action_size)
    wanted = (group.observation_size, group.action.size)
    if sizes == wanted:
        return
    if sizes == (wanted[0], 2 * wanted[1]):
        raise RookeryError(
            f"the actor gives {sizes[1]} numbers for the {wanted[1]} actions of {task}, and its file does not tell how they "
            "become actions: export it as TorchScript or ONNX and import that."
        )
    raise RookeryError(
        f"the actor takes {sizes[0]} observations and gives {sizes[1]} actions, and {task} has {wanted[0]} and {wanted[1]}: "
        "give the task and the --task-config of its training."
    )
