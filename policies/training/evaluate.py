"""Evaluation of a policy over a fixed number of episodes that are counted fairly."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from rookery.policies.nn.choices import Choices, draw_gumbel
from rookery.policies.nn.state_estimator import known_targets
from rookery.policies.policy import Policy
from rookery.sim.env import Act, AgentNote, Env
from rookery.sim.errors import RookeryError
from rookery.sim.events import counted, happening
from rookery.sim.teams import gathered, team_agents, teamwork
from rookery.sim.threads import one_thread_each


class PolicyAct:
    """The function from observations {group: [N, A, O]} to actions {group: [N, A, D]} of policies; see `act_with`.

    Attributes:
        memory: by group whose policies have memory, the state that the next action is taken with, [N, A, H], or [N, T, H] of
            one that acts for teams. Where an episode begins (`Env.episode_start`), it is set to zero first, see
            `Policy.initial_state`.
        logits: by group that chooses, of the latest actions [n, A, C].
    """

    def __init__(
        self, teams: dict[str, list[Policy]], env: Env, privileged: bool, sampling: torch.Generator | None
    ) -> None:
        self._teams = teams
        self._env = env
        self._privileged = privileged
        self._sampling = sampling
        self._choices = {name: Choices(env.groups[name].action) for name in teams if env.groups[name].action.choices}
        self.logits: dict[str, Tensor] = {}
        self._sides = {name: team_agents(env, name) for name, team in teams.items() if team[0].agents > 1}
        self._states = {
            name: team[0].initial_state(env.num_envs, env.groups[name].count // team[0].agents)
            for name, team in teams.items()
        }
        self.memory = {name: state for name, state in self._states.items() if state.shape[-1]}
        self._controller: Act | None = None
        if any(team[0].chain.controlled for team in teams.values()):
            self._controller = env.controller()
            if self._controller is None:
                raise RookeryError(f"{env.task_id} has no classical controller, which is a skill of this policy.")

    @torch.no_grad()
    def __call__(self, obs: dict[str, Tensor], worlds: Tensor | None = None) -> dict[str, Tensor]:
        """Actions for observations of all worlds, or of `worlds` [n] alone: {group: [n, A, O]}."""
        where: Any = slice(None) if worlds is None else worlds
        start = self._env.episode_start[where] if self.memory else None
        controlled = {} if self._controller is None else self._controller(obs)
        out = {}
        for name, team in self._teams.items():
            known = known_targets(self._env, name, self._privileged) if team[0].targets else None
            known = None if known is None else known[where]
            remembers = name in self.memory
            mine, pilot = obs[name], controlled.get(name)
            if (side := self._sides.get(name)) is not None:
                mine, pilot = gathered(mine, side), None if pilot is None else gathered(pilot, side)
            state = self._states[name][where] if remembers else mine.new_zeros(*mine.shape[:2], 0)
            if start is not None:
                state = state.masked_fill(start[:, None, None], 0.0)
            mask = None if name not in self._choices else allowed_options(self._env, name, worlds)
            outside = (known, mask, self._events(name, team[0], where), pilot)
            if len(team) == 1:
                out[name], after, logits = team[0].step_with_logits(mine, state, *outside)
            else:
                each: list[Any] = [x if x is None else x.unbind(1) for x in outside]
                steps = [
                    p.step_with_logits(mine[:, i], state[:, i], *(x and x[i] for x in each)) for i, p in enumerate(team)
                ]
                out[name], after, logits = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
            if side is not None:
                out[name] = teamwork(out[name], side)
            if remembers:
                self._states[name][where] = after
            if name in self._choices:
                self.logits[name] = logits
                if self._sampling is not None:
                    self._sample(name, out[name], mask)
        return out

    @property
    def plain(self) -> dict[str, Policy] | None:
        """The policies by group, where each is a function of its agent's observation alone; None otherwise."""
        if any(
            len(team) > 1 or team[0].state_size or team[0].targets or team[0].options or team[0].agents > 1
            for team in self._teams.values()
        ):
            return None
        return {name: team[0] for name, team in self._teams.items()}

    def notes(self, world: int) -> list[AgentNote]:
        """The skill of each agent of a world whose policy has some."""
        out = []
        for name, team in self._teams.items():
            count = self._env.groups[name].count
            rows = range(count // team[0].agents)
            skills = [skill for i in rows for skill in team[i % len(team)].skills(self._states[name][world, i])]
            agents = self._sides[name].flatten().tolist() if name in self._sides else range(count)
            out += [AgentNote(name, i, skill) for i, skill in sorted(zip(agents, skills, strict=False))]
        return out

    def _events(self, name: str, policy: Policy, where: Any) -> Tensor | None:
        """[n, A, E] bool: events at which the policy decides that have happened to the agents of a group, or to its teams."""
        if not policy.events:
            return None
        found = happening(self._env.latest_events, policy.events, counted(self._env, name))
        if found is None:
            return None
        return found[where][:, self._sides[name]].any(2) if name in self._sides else found[where]

    def _sample(self, name: str, action: Tensor, mask: Tensor | None) -> None:
        """Draw the choices of actions [n, A, D] by their probabilities."""
        choices = self._choices[name]
        assert self._sampling is not None
        noise = draw_gumbel(torch.empty(self.logits[name].shape, device=self._sampling.device), self._sampling)
        log_probs = choices.log_probs(self.logits[name], mask)
        action[..., : choices.count] = choices.sample(log_probs, noise.to(log_probs.device))


def allowed_options(env: Env, group: str, worlds: Tensor | None = None) -> Tensor | None:
    """The mask [N, A, C] of a group now, or of `worlds` [n] alone; all options for agents that take no part. None where its
    action has no masks.

    Raises:
        RookeryError: an agent that takes part has none.
    """
    spec = env.groups[group].action
    if not spec.masked:
        return None
    mask = (env.action_mask or {})[group]
    choices = Choices(spec)
    choices.check(mask, (env.active or {}).get(group), group)
    return choices.opened(mask if worlds is None else mask[worlds])


def act_with(
    policies: dict[str, Policy], env: Env, privileged: bool = False, sampling: torch.Generator | None = None,
    groups: Collection[str] | None = None,
) -> PolicyAct:  # fmt: skip
    """The function from observations {group: [N, A, O]} to actions {group: [N, A, D]} of these policies.

    Args:
        policies: by group, or by "<group>_<i>" where each agent has its own.
        env: where they will act; they are moved to its device. A policy with a state estimator gets the targets that the
            environment reveals now, and the memory of a recurrent one begins anew where an episode has begun now, so that the
            observations must be those of this environment now, each of them once.
        privileged: give a policy with a state estimator the true targets instead of its predictions.
        sampling: draw choices by their probabilities, with this generator; None takes the likeliest options.
        groups: those for which they act, such as the ones of a team; None for all.

    Raises:
        RookeryError: a group has no policy, or one of other sizes; a policy decides at an event that the task lacks.
    """
    teams: dict[str, list[Policy]] = {}
    for name, group in env.groups.items():
        if groups is not None and name not in groups:
            continue
        team = (
            [policies[name]]
            if name in policies
            else [policies[k] for i in range(group.count) if (k := f"{name}_{i}") in policies]
        )
        if len(team) not in (1, group.count):
            raise RookeryError(
                f"group {name!r} has {group.count} agents and {len(team)} policies: use the task's own run."
            )
        for p in team:
            sizes = p.observation_size, p.action_size
            if sizes != (p.agents * group.observation_size, p.agents * group.action.size):
                raise RookeryError(
                    f"the policy of group {name!r} takes {p.observation_size} observations and gives {p.action_size} "
                    f"actions, the task has {group.observation_size} and {group.action.size}: use the task's own run."
                )
            if p.agents > 1 and (len(team) > 1 or team_agents(env, name).shape[1] != p.agents):
                raise RookeryError(
                    f"the policy of group {name!r} acts for a team of {p.agents} agents, and the task has others: use the "
                    "task's own run."
                )
            for event in p.events:
                if event not in env.event_names:
                    raise RookeryError(
                        f"the policy of group {name!r} decides at the event {event!r}, and the task has "
                        f"{', '.join(env.event_names) or 'none'}: use the task's own run."
                    )
            if p.chain.choice_sizes != tuple(len(choice.options) for choice in group.action.choices):
                raise RookeryError(
                    f"the policy of group {name!r} chooses among {list(p.chain.choice_sizes)} options, the task has "
                    f"{[len(choice.options) for choice in group.action.choices]}: use the task's own run."
                )
        teams[name] = [p.to(env.device) for p in team]
    return PolicyAct(teams, env, privileged, sampling)


@one_thread_each
def evaluate(
    env: Env, act: Act, episodes: int, seed: int | None = 0, progress: Callable[[int, float], None] | None = None,
    record: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run exactly `episodes` episodes and average over them.

    Every world contributes its first episodes, the same number of them (the first worlds one more where that does not
    divide): counting whichever end first would favor short ones. The same seed gives the same result.

    In a ConcatEnv the first worlds of all tasks come first, and every mean is one over tasks of the mean of each task's
    episodes: so Meta-World's success on MT10 is counted, and a task with some worlds more weighs no more.

    Args:
        env: it is reset with `seed`, and left where the last counted episode ended.
        act: from observations {group: [N, A, O]} to actions {group: [N, A, D]}.
        episodes: how many.
        seed: of the episodes; None continues the environment's own streams.
        progress: called after every control step with the episodes finished and the share of all work, 0 to 1.
        record: called with "ids" and "parameters" of ``info["episode"]``, of the episodes that count.

    Returns:
        episodes; success_rate (None if the task has no metric "success"); return_mean, a mean over agents, and
        return_std over episodes; returns by group; episode_length_mean in control steps; metrics, the mean of each over the
        episodes that have it, NaN where none has; metrics_missing, how many episodes have none of a metric, by its name where
        there are any;
        causes, how many episodes ended by each; and of a ConcatEnv tasks, {name: {"episodes", "success_rate",
        "return_mean", "episode_length_mean"}}.

    Raises:
        RookeryError: fewer than one episode asked for, or than a ConcatEnv has tasks.
    """
    quota = quota_of(env, episodes)
    columns = play_episodes(env, act, quota, seed, progress, record)
    return report(env, columns, episodes)


def quota_of(env: Env, episodes: int) -> Tensor:
    """[N] the episodes that each world gives: the first ones give one more; in a ConcatEnv the first ones of each task.

    Args:
        env: N worlds.
        episodes: in all.

    Raises:
        RookeryError: fewer than one episode, or than a ConcatEnv has tasks.
    """
    if episodes < 1:
        raise RookeryError(f"episodes is {episodes}: give at least 1.")
    quota = torch.full((env.num_envs,), episodes // env.num_envs)
    quota[_turns(env, episodes)[: episodes % env.num_envs]] += 1
    return quota


def play_episodes(
    env: Env, act: Act, quota: Tensor, seed: int | None, progress: Callable[[int, float], None] | None = None,
    record: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Run the first episodes of each world.

    Args:
        env, act, seed, progress, record: as of `evaluate`.
        quota: [N] how many.

    Returns:
        columns [episodes] in the order in which they ended: "step" and "world", and those of ``info["episode"]`` by flat names.
    """
    quota = quota.clone()
    columns: dict[str, list[Tensor]] = {}
    obs, _ = env.reset(seed)
    episodes = left = int(quota.sum())
    most = int(quota.max()) * (env.max_episode_steps + 1)
    for step in range(most):
        obs, _, _, _, info = env.step(act(obs))
        if progress is not None:
            progress(episodes - left, max((episodes - left) / episodes, step / most))
        if "episode" not in info:
            continue
        ids = info["episode"]["ids"].cpu()
        keep = quota[ids] > 0
        quota[ids] -= 1
        if record is not None:
            drawn = {name: values.cpu()[keep] for name, values in info["episode"]["parameters"].items()}
            record({"ids": ids[keep], "parameters": drawn})
        ended = {"step": torch.full_like(ids, step), "world": ids} | _columns(info["episode"])
        for name, values in ended.items():
            columns.setdefault(name, []).append(values.cpu()[keep])
        left -= int(keep.sum())
        if left == 0:
            break
    return {name: torch.cat(values) for name, values in columns.items()}


def _turns(env: Env, episodes: int) -> Tensor:
    """[N] the worlds in the order in which they get an episode more: in a ConcatEnv one of each task by turns."""
    if len(env.task_names) == 1:
        return torch.arange(env.num_envs)
    task = env.task_index.cpu()
    same = task[:, None] == task
    if episodes < len(task.unique()):
        raise RookeryError(f"{env.task_id} has {len(task.unique())} tasks: evaluate at least as many episodes.")
    return torch.argsort(same.tril(-1).sum(1), stable=True)  # by a world's place among those of its task


def _columns(episode: dict[str, Any]) -> dict[str, Tensor]:
    """An info["episode"] as flat named columns [m]."""
    out: dict[str, Tensor] = {k: episode[k] for k in ("length", "cause", "task") if k in episode}
    out |= {f"return/{k}": v for k, v in episode["return"].items()}
    return out | {f"metric/{k}": v for k, v in episode["metrics"].items()}


def report(env: Env, columns: dict[str, Tensor], episodes: int) -> dict[str, Any]:
    """The figures of `evaluate`, from the columns of `play_episodes`."""

    def part(prefix: str) -> dict[str, Tensor]:
        return {k[len(prefix) :]: v.double() for k, v in columns.items() if k.startswith(prefix)}

    task = columns.get("task")

    def mean(values: Tensor) -> float:
        """Over the episodes that have the figure; of several tasks over the means of those that have it."""
        values = values.double()
        if task is None:
            return values.nanmean().item()
        return torch.stack([values[task == i].nanmean() for i in task.unique()]).nanmean().item()

    returns = part("return/")
    measured = part("metric/")
    metrics = {k: mean(v) for k, v in measured.items()}
    overall = torch.stack(list(returns.values())).mean(0)
    names = ["time limit", *env.causes, "diverged"]
    counts = torch.bincount(columns["cause"].long(), minlength=len(names)).tolist()
    return {
        "episodes": episodes,
        "success_rate": metrics.get("success"),
        "return_mean": mean(overall),
        "return_std": overall.std(correction=0).item(),
        "returns": {k: mean(v) for k, v in returns.items()},
        "episode_length_mean": mean(columns["length"]),
        "metrics": metrics,
        "metrics_missing": {k: n for k, v in measured.items() if (n := int(v.isnan().sum()))},
        "causes": {name: n for name, n in zip(names, counts, strict=False) if n},
        **({} if task is None else {"tasks": _by_task(env, task, overall, columns)}),
    }


def _by_task(env: Env, task: Tensor, returns: Tensor, columns: dict[str, Tensor]) -> dict[str, dict[str, Any]]:
    """The main figures of each task of a ConcatEnv."""
    out = {}
    for i in task.unique().tolist():
        rows = task == i
        success = columns.get("metric/success")
        out[env.task_names[i]] = {
            "episodes": int(rows.sum()),
            "success_rate": None if success is None else success[rows].double().mean().item(),
            "return_mean": returns[rows].mean().item(),
            "episode_length_mean": columns["length"][rows].double().mean().item(),
        }
    return out
