"""The environment of a match, and the two that play in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.assets.near_names import nearest
from rookery.experiments.judging import Judging, judging
from rookery.experiments.runs import open_run
from rookery.experiments.zoo import zoo
from rookery.making import FROZEN, make
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.trust import refuse_untrusted
from rookery.tasks.registry import find

if TYPE_CHECKING:
    from rookery.policies.policy import Policy
    from rookery.sim.env import Act, Env
    from rookery.sim2real.contract import Contract

CONTROLLER = "controller"
"""Name of the task's classical controller as a player."""
HISTORY = "history"
"""Config value by which agents observe several frames: players may differ in it."""


@dataclasses.dataclass(frozen=True)
class Player:
    """One who plays in a match.

    Args:
        name: as it was given: a run folder, a policy of the zoo, or "controller".
        judged: the terms on which it plays.
        policies: by group; None for the controller.
        contract: of the policies, as one of the match's task.
    """

    name: str
    judged: Judging
    policies: dict[str, Policy] | None = None
    contract: Contract | None = None


def find_player(name: str, task: str, config: dict[str, Any] | None = None) -> Player:
    """The player of a name in a task.

    Args:
        name: a run folder, a policy of the zoo, or "controller".
        task: registered name of the match.
        config: changes to the task's config.

    Raises:
        RookeryError: as `open_run`; or its policy is of another task, or what was meant is the controller.
    """
    if name == CONTROLLER:
        return Player(name, judging(None, config, task))
    if nearest(name, [CONTROLLER]) and not Path(name).exists() and name not in zoo():
        raise unknown("player", name, [CONTROLLER])
    policies, contract = open_run(Path(name))
    refuse_untrusted(contract.task_id)
    if not _plays(contract.task_id, task):
        raise RookeryError(
            f"{name} is a policy of {contract.task_id}, and the match is in {task}: give policies of that task, or "
            f"`{CONTROLLER}`."
        )
    own = {k: v for k, v in contract.task_config.items() if k != FROZEN}
    contract = dataclasses.replace(contract, task_id=task, task_config=own)
    return Player(name, judging(contract, config), policies, contract)


def _plays(trained: str, task: str) -> bool:
    """True where policies of the task `trained` play in `task`: the same, or the same against a frozen opponent."""
    entry, match = find(trained), find(task)
    if entry.id == match.id:
        return True
    return bool(entry.wrapper and not match.members and issubclass(entry.load(), match.load()))


def open_match(task: str, a: Player, b: Player, num_envs: int, **options: Any) -> Meeting:
    """The environment in which two players meet, and what acts for each. Worlds i and num_envs / 2 + i begin alike, unless the
    two play a role each.

    Args:
        task: registered name.
        a, b: of `find_player` for that task.
        num_envs: worlds, even.
        options: `engine`, `seed`, `randomize` and `fixed` of `rookery.make`.

    Raises:
        RookeryError: a task without two teams or without a controller that is to play; players that ask for different configs,
            that do not fit the task's observations and actions, or that play the same of two roles.
    """
    from rookery.policies.multiagent.match import two_teams

    if find(task).members:
        raise RookeryError(f"{task} is a set of tasks, which has no teams that play against each other: name one task.")
    config = _common_config(a, b)
    env = make(task, num_envs, config=config, starts=num_envs // 2, **options)
    try:
        two_teams(env)
        team = _team_of(a, b, env)
        if team is not None:  # each start is played once
            env.close()
            env = make(task, num_envs, config=config, **options)
        act_a = act_of(a, env, _groups_of(a, env))
        act_b = act_a if a.policies is None and b.policies is None else act_of(b, env, _groups_of(b, env))
    except BaseException:
        env.close()
        raise
    return Meeting(env, act_a, act_b, team)


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Two players in one environment.

    Args:
        env: the match.
        a, b: what acts for each.
        team: the team that A plays, where the two play a role each; None where both play both.
    """

    env: Env
    a: Act
    b: Act
    team: str | None


def teams_of(player: Player, env: Env) -> list[str]:
    """The teams that a player can play: those of whose groups it has policies."""
    if player.policies is None:
        return list(env.teams)
    assert player.contract is not None
    known = player.contract.groups
    return [name for name, team in env.teams.items() if all(g in known for g, agents in team.items() if agents)]


def _groups_of(player: Player, env: Env) -> list[str]:
    return [g for g in env.groups if player.contract is None or g in player.contract.groups]


def _team_of(a: Player, b: Player, env: Env) -> str | None:
    """The team that A plays throughout, since A or B plays only one; None for both.

    Raises:
        RookeryError: they play the same one, or one of them none.
    """
    first, second = teams_of(a, env), teams_of(b, env)
    for player, teams in ((a, first), (b, second)):
        if not teams:
            assert player.contract is not None
            raise RookeryError(
                f"{player.name} has policies of {', '.join(player.contract.groups)}, and plays no team of {env.task_id} whole."
            )
    if len(first) == len(second) == len(env.teams):
        return None
    mine = first[0] if len(first) == 1 else next(t for t in first if t != second[0])
    if len(second) == 1 and second[0] == mine:
        raise RookeryError(f"{a.name} and {b.name} both play the {mine} alone: give one that plays against them.")
    return mine


def _common_config(a: Player, b: Player) -> dict[str, Any]:
    """The task's config that both players play with: a controller plays with that of the other, and agents observe as many
    frames as the player who wants more.

    Raises:
        RookeryError: what belongs to one policy is not what belongs to the other.
    """
    ours = sorted((p for p in (a, b) if p.policies is not None), key=_frames, reverse=True) or [a]
    one, other = ours[0], ours[-1]
    mine, its = ({k: v for k, v in p.judged.interface.items() if k != HISTORY} for p in (one, other))
    for name in sorted({*mine, *its}):
        if name not in mine or name not in its or mine[name].value != its[name].value:
            values = [f"{c[name].value!r}" if name in c else "the registered value" for c in (mine, its)]
            raise RookeryError(
                f"{one.name} was trained with {name} {values[0]} and {other.name} with {values[1]}: they cannot meet in one "
                "environment."
            )
    return dict(one.judged.config)


def _frames(player: Player) -> int:
    """The most frames that one of a player's policies observes."""
    return 0 if player.contract is None else max(group.spec.history for group in player.contract.groups.values())


def _newest_frames(player: Player, env: Env) -> Player:
    """The player in an environment that gives it more frames than it observes: it gets the newest, which come last."""
    assert player.contract is not None and player.policies is not None
    policies, groups = dict(player.policies), dict(player.contract.groups)
    for name, group in player.contract.groups.items():
        own = group.spec
        given = env.groups[name].history if name in env.groups else own.history
        if given <= own.history:
            continue
        groups[name] = dataclasses.replace(group, spec=dataclasses.replace(own, history=given))
        for key in (name, *(f"{name}_{i}" for i in range(own.count))):
            if key in policies:
                policies[key] = _of_last(policies[key], given * own.frame_size, own.history * own.frame_size)
    contract = dataclasses.replace(player.contract, groups=groups)
    return dataclasses.replace(player, policies=policies, contract=contract)


def _of_last(policy: Policy, given: int, own: int) -> Policy:
    """A policy of the last `own` of `given` numbers of each of its agents."""
    from rookery.policies.policy import Policy
    from rookery.policies.stages.select import Select
    from rookery.policies.torch_parts import copy_parts

    ends = [(i + 1) * given for i in range(policy.agents)]
    out = Policy([Select(policy.agents * given, tuple((end - own, end) for end in ends)), *policy.chain.links])
    copy_parts(out, [policy])
    return out.eval()


def act_of(player: Player, env: Env, groups: Collection[str]) -> Act:
    """The function that acts for a player, on the newest frames where the environment gives more than it observes.

    Args:
        player: of `find_player`.
        env: in which it plays.
        groups: for whose agents.

    Raises:
        RookeryError: the task has no controller, or the policies are not for these groups, observations and actions.
    """
    from rookery.policies.training.evaluate import act_with
    from rookery.sim2real.compatibility import check_compatible

    if player.policies is None:
        pilot = env.controller()
        if pilot is None:
            raise RookeryError(f"{env.task_id} has no classical controller: give a run, or a policy of the zoo.")
        return pilot
    assert player.contract is not None
    missing = [g for g in groups if g not in player.contract.groups]
    if missing:
        raise RookeryError(
            f"{player.name} has policies of {', '.join(player.contract.groups)}, and {missing[0]} is to be played: give a run "
            "of that role."
        )
    player = _newest_frames(player, env)
    assert player.contract is not None and player.policies is not None
    try:
        check_compatible(player.contract, env, groups)
        return act_with(player.policies, env, groups=groups)
    except RookeryError as e:
        raise RookeryError(f"{player.name} cannot play: {e}") from e
