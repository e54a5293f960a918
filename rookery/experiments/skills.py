"""The skills of a hierarchy: the policies that a file names, the environment that they make, and their copy in a run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.experiments.runs import find_run, open_run
from rookery.policies.hierarchy.skill_set import CONTROLLER, Skill, SkillSet, read_skills
from rookery.sim.errors import RookeryError, unknown
from rookery.sim.terms import Quantity
from rookery.sim.values import plain

if TYPE_CHECKING:
    from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
    from rookery.policies.hierarchy.hierarchy import SkillSource
    from rookery.policies.policy import Policy
    from rookery.sim.env import Env
    from rookery.sim2real.contract import Contract, ContractGroup


def skill_files() -> dict[str, Path]:
    """The sets that come with the package, by name."""
    import rookery.policies

    return {f.stem: f for f in sorted((Path(rookery.policies.__file__).parent / "skills").glob("*.toml"))}


def skills_file(given: Path | str) -> Path:
    """The file of skills of a path, or of the name of a set of the package.

    Raises:
        RookeryError: neither, with the nearest match.
    """
    path = Path(given)
    if path.is_file():
        return path
    if str(given) in skill_files():
        return skill_files()[str(given)]
    if path.suffix:
        raise RookeryError(
            f"there is no file {str(given)!r} of skills: give its path, or one of {', '.join(skill_files())}."
        )
    raise unknown("set of skills", str(given), skill_files())


SKILLS = "skills.toml"
"""Copy of the file in the run folder; the policies that it names lie in the folder `skills` beside it."""


def with_skills(env: Env, file: Path) -> HierarchicalEnv:
    """The environment in which a high level commands the skills of a file.

    Args:
        env: of the skills' robot.
        file: TOML, see rookery.policies.hierarchy.skill_set; folders in it count from its own.

    Raises:
        RookeryError: a skill that is not there or does not fit, or a setting that does not; or commands that a skill was not
            trained with.
    """
    from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
    from rookery.policies.hierarchy.hierarchy import make_hierarchy
    from rookery.sim.teams import team_agents

    file = skills_file(file)
    skills = read_skills(file)
    group = _group_of(env, skills)
    opened = {name: _source(_place(name, file), group) for name in skills.policies if name != CONTROLLER}
    sources = {name: source for name, (source, _) in opened.items()}
    agents = team_agents(env, group).shape[1] if skills.central else 1
    known = env.task_id, env.control_dt, env.event_names
    made = make_hierarchy(skills, env.groups[group], sources, *known, agents)
    for name, skill in skills.skills.items():
        if skill.policy != CONTROLLER:
            _refuse_beyond(name, skill, opened[skill.policy][1])
    return HierarchicalEnv(env, {group: made})


def _group_of(env: Env, skills: SkillSet) -> str:
    """The agents that have the skills."""
    groups = ", ".join(env.groups)
    if skills.group:
        if skills.group not in env.groups:
            raise RookeryError(f"{env.task_id} has no group {skills.group!r}: it has {groups}.")
        return skills.group
    if len(env.groups) > 1:
        raise RookeryError(f'{env.task_id} has the groups {groups}: say which has the skills, by group = "NAME".')
    return next(iter(env.groups))


def _place(policy: str, file: Path) -> Path:
    """Place of a policy of a file: a folder beside the file goes before others."""
    beside = file.parent / policy
    return beside if beside.exists() else Path(policy)


def _refuse_beyond(name: str, skill: Skill, group: ContractGroup) -> None:
    """Refuse commands beyond the ranges that the skill's contract states."""
    for term in group.spec.observation:
        span = group.commands.get(term.expression.name) if isinstance(term.expression, Quantity) else None
        if span is None or term.name not in skill.command:
            continue
        given = skill.command[term.name]
        for i, value in enumerate(given if isinstance(given, (list, tuple)) else [given]):
            ends = value if isinstance(value, (list, tuple)) else [value]
            if min(ends) < span.low[i] or max(ends) > span.high[i]:
                raise RookeryError(
                    f"command.{term.name} of the skill {name!r} holds {value!r} for its value {i}, and {skill.policy} was "
                    f"trained with {span.low[i]:g} to {span.high[i]:g} ({term.unit}): keep within that."
                )


def _source(run: Path, group: str) -> tuple[SkillSource, ContractGroup]:
    """The policy of a run, a bundle or the zoo that is a skill of a group, and its entry of the contract."""
    from rookery.policies.hierarchy.hierarchy import SkillSource

    policies, contract = _open(run)
    own = group if group in contract.groups else next(iter(contract.groups))
    if own != group and len(contract.groups) > 1:
        raise RookeryError(f"{run} has policies of {', '.join(contract.groups)}, and the skills are of {group!r}.")
    if own not in policies:
        raise RookeryError(f"{run} has a policy for each agent of {own!r}: a skill is one policy for all of them.")
    return SkillSource(policies[own], contract.groups[own].spec, contract.control_dt), contract.groups[own]


def _open(run: Path) -> tuple[dict[str, Policy], Contract]:
    """The policies of a run, a bundle or the zoo, and their contract."""
    from rookery.sim2real.export.bundle_policy import is_bundle, open_bundle

    return open_bundle(run) if is_bundle(run) else open_run(run)


def refuse_other_skills(env: Env, policies: Mapping[str, Policy], run: str) -> None:
    """Refuse to start from a high level whose skills have learned with it, where the file has them as they were before.

    Args:
        env: the hierarchy of the file.
        policies: of the run, both levels in each.
        run: its name, for the message.

    Raises:
        RookeryError: the same skills with other weights.
    """
    from rookery.policies.hierarchy.hierarchical_env import HierarchicalEnv
    from rookery.policies.hierarchy.hierarchy import high_level

    for name, policy in policies.items():
        if not isinstance(env, HierarchicalEnv) or name not in env.levels:
            continue
        own = env.levels[name].hierarchy.deployed(high_level(policy))
        if own.chain != policy.chain:  # other skills, which the user has chosen
            continue
        theirs = policy.state_dict()
        if any(not x.equal(theirs[key]) for key, x in own.state_dict().items()):
            raise RookeryError(
                f"{run} has trained its skills together with its high level, and the file of skills has them as they were: "
                f"go on with --resume {run}, or start from a run whose skills did not learn."
            )


def keep_skills(file: Path, folder: Path) -> Path:
    """Copy a file of skills and all policies that it names into a run folder, so that the run needs nothing else.

    Returns:
        the copy.

    Raises:
        RookeryError: a policy is not there. OSError: the folder cannot be written.
    """
    from rookery.experiments.settings import to_toml

    file = skills_file(file)
    skills = read_skills(file)
    places = {name: name for name in skills.policies}
    for k, name in enumerate(skills.policies):
        if name == CONTROLLER:
            continue
        where = find_run(_place(name, file))
        places[name] = f"skills/{k}-{where.resolve().name}"
        kept = folder / places[name]
        kept.mkdir(parents=True)
        for each in ("contract.json", "policy*.safetensors", "policy*.onnx"):
            for found in where.glob(each):
                shutil.copyfile(found, kept / found.name)
    (folder / SKILLS).write_text(to_toml(_values(skills, places)), encoding="utf-8")
    return folder / SKILLS


def _values(skills: SkillSet, places: Mapping[str, str]) -> dict[str, Any]:
    """The set as TOML values, its policies where they are kept; what has its default is left out."""
    own = {k: v for k, v in plain(skills).items() if v and k != "skills"}
    each = {
        name: {k: v for k, v in plain(skill).items() if v} | {"policy": places[skill.policy]}
        for name, skill in skills.skills.items()
    }
    return own | {"skills": each}
