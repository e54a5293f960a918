"""Judging stored policies by the registered task, with no more of the training's config than the policy needs to act.

A task says which config values belong to a policy (`Task.interface`): the robot and scene that it is for, what it observes and
commands. All others are the task's, so that no run chooses its own success limit, horizon, starts or reward.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.making import TASKS_OF_SET, changes_of, full_config, members_of
from rookery.policies.stages.module import Module
from rookery.sim.config import merge
from rookery.sim.errors import RookeryError
from rookery.sim.own_files import is_in_file
from rookery.sim.trust import refuse_untrusted
from rookery.sim2real.compatibility import short
from rookery.sim2real.task_source import TaskSource, task_source
from rookery.tasks.registry import TASKS, find

if TYPE_CHECKING:
    from rookery.policies.stages.chain import StageChain
    from rookery.sim2real.contract import Contract
    from rookery.tasks.registry import TaskEntry

PERIODS = (0.5, 2.0)
"""Control periods that a policy may bring, over the registered one: what is counted at control steps, such as a second within
the limit, is at twice the period still counted at half of them."""
MOST = 8
"""Changes that a line shows."""
LONGEST = 100
"""Characters of a text that is shown as it is; whatever does more to a terminal is quoted."""


@dataclass(frozen=True)
class Change:
    """A config value that is not the registered one; both as JSON values."""

    value: Any
    registered: Any


Changes = Mapping[str, Change]
"""By name of the config value, such as "reward.crash"; with a member's name before it where not all of a set have it."""


@dataclass(frozen=True)
class Judging:
    """Terms on which a policy is judged.

    Args:
        task: registered name.
        config: values in place of the registered defaults, as `rookery.make` takes them.
        interface: values that belong to the policy and are not the registered ones.
        replaced: values of the training that say what is judged: the registered ones stand in their place.
        changed: values by the command line.
        source: the task's code.
        outdated: modules and files of it that have changed since the training, as far as the contract knows.
        own_code: SHA-256 of files that the policy runs, by "FILE.py:NAME" of its stage or module; None for installed modules.
    """

    task: str
    config: dict[str, Any] = field(default_factory=dict)
    interface: Changes = field(default_factory=dict)
    replaced: Changes = field(default_factory=dict)
    changed: Changes = field(default_factory=dict)
    source: TaskSource = field(default_factory=TaskSource)
    outdated: tuple[str, ...] = ()
    own_code: Mapping[str, str | None] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Sentences that people should know before any figure; nothing for a registered task and a policy made for it."""
        out = []
        if self.changed:
            out.append(f"not as registered, by --task-config: {shown(self.changed)}")
        if self.replaced:
            out.append(f"trained with {shown(self.replaced)}; judged by the registered {self.task}")
        if self.interface:
            out.append(f"judged with the policy's own {shown(self.interface)}")
        if self.source.file:
            digest = self.source.sha256[Path(self.source.file).name]
            commit = f"commit {self.source.commit}" if self.source.commit else "in no git commit"
            out.append(f"the task is {self.source.file}, sha256 {digest}, {commit}")
        if self.own_code:
            out.append(f"the policy runs code from outside of Rookery: {', '.join(map(_path, self.own_code))}")
        if self.outdated:
            out.append(f"{self.task} has changed since the training, in {', '.join(self.outdated)}")
        return out

    def to_json(self) -> dict[str, Any]:
        """JSON values for reports."""
        sets = {"interface": self.interface, "replaced": self.replaced, "changed": self.changed}
        values = {
            k: {name: {"value": c.value, "registered": c.registered} for name, c in v.items()} for k, v in sets.items()
        }
        files = {name: digest for name, c in self.interface.items() if (digest := _digest(c.value))}
        return values | {
            "files": files,
            "source": self.source.to_json(),
            "changed_since_training": list(self.outdated),
            "own_code": dict(self.own_code),
        }


def shown(changes: Changes) -> str:
    """Changes for people, such as "episode_s=1 (registered: 10)"; the first MOST of them."""
    texts = [f"{name}={_text(c.value)} (registered: {_text(c.registered)})" for name, c in changes.items()]
    more = len(texts) - MOST
    return ", ".join(texts[:MOST]) + (f" and {more} more" if more > 0 else "")


def judging(contract: Contract | None, config: Mapping[str, Any] | None = None, task: str | None = None) -> Judging:
    """Terms on which a policy is judged.

    Args:
        contract: of the policy; None for a controller of the task.
        config: changes by the person who judges, to whatever belongs to the task.
        task: another one than the contract's, see `rookery.experiments.run_env.make_env`.

    Raises:
        RookeryError: a task or config value that this version lacks.
    """
    if contract is not None:
        refuse_untrusted(contract.task_id)
    own = contract is not None and task in (None, contract.task_id)
    name = contract.task_id if contract is not None and task is None else str(task)
    entry = find(name)
    trained = dict(contract.task_config) if contract is not None and own else {}
    registered = _flat(entry, full_config(name, {}))
    training = full_config(name, trained)
    departs = _compare(_flat(entry, training), registered)
    belongs = {k for k, c in departs.items() if _of_policy(entry, k, c)}
    base = _pick(training, belongs)
    if contract is not None and not own:
        base = changes_of(name, fixed_by_set(contract.task_id, name))
    whole = merge(base, changes_of(name, dict(config or {})))
    final = _compare(_flat(entry, full_config(name, whole)), registered)
    before = _compare(_flat(entry, full_config(name, base)), registered)
    changed = {k: c for k, c in final.items() if before.get(k) != c}
    source = task_source(name)
    then = contract.provenance.more.get("task_source") if contract is not None and own else None
    return Judging(
        name,
        whole,
        _joined(entry, {k: c for k, c in final.items() if k not in changed}),
        _joined(entry, {k: c for k, c in departs.items() if k not in belongs and final.get(k) != c}),
        _joined(entry, changed),
        source,
        tuple(source.changed_since(then)),
        {} if contract is None else own_code(g.stages for g in contract.groups.values() if g.stages is not None),
    )


def require_registered(judged: Judging) -> None:
    """Refuse a policy whose training had its own idea of what is judged.

    Raises:
        RookeryError: naming the values.
    """
    if judged.replaced:
        raise RookeryError(
            f"the policy was trained with {shown(judged.replaced)}, so it is not known to do what {judged.task} asks for: give "
            "--as-registered to judge it by the registered task, or train it without them (--train-overrides holds in training "
            "alone)."
        )


def own_code(chains: Iterable[StageChain]) -> dict[str, str | None]:
    """Stages and modules of policies that are not Rookery's, which can do in simulation what no export does; see
    `Judging.own_code`."""
    stages = [leaf.stage for chain in chains for leaf in chain.leaves]
    names = [
        s.factory if isinstance(s, Module) else s.source or f"{type(s).__module__}:{type(s).__name__}" for s in stages
    ]
    own = [name for name in names if is_in_file(name) or not name.startswith("rookery.")]  # a file may begin so, too
    return {name: _digest(name.rpartition(":")[0]) for name in own}


def fixed_by_set(of: str, task: str) -> dict[str, Any]:
    """Values that the set `of` fixes in the configs of all its tasks, as far as another task has it."""
    entry = find(task)
    kind = find(entry.task_of(entry.members[0]) if entry.members else task).load().Config
    names = {f.name for f in dataclasses.fields(kind)}
    fixed = find(of).load_set().config if of in TASKS and TASKS[of].members else {}
    return {k: v for k, v in fixed.items() if k in names}


def interface_of(entry: TaskEntry, member: str = "") -> frozenset[str]:
    """Names of the config values that belong to a policy, of a task or of a member of a set, which may fix some itself."""
    owner = find(entry.task_of(member)) if member else entry
    declared = {name for cls in owner.load().__mro__ for name in vars(cls).get("interface", ())}
    task_set = entry.load_set() if entry.members else None
    fixed = set() if task_set is None else {*task_set.config, *task_set.variants.get(member, {})}
    return frozenset(declared - fixed)


def _of_policy(entry: TaskEntry, name: str, change: Change) -> bool:
    """True where a departure belongs to the policy."""
    head, _, rest = name.partition(".")
    member, value = (head, rest) if head in entry.members else ("", head)
    if entry.members and not member:
        return False
    if value == "control_dt":
        low, high = PERIODS
        return "control_dt" in interface_of(entry, member) and low <= change.value / change.registered <= high
    return value in interface_of(entry, member)


def _flat(entry: TaskEntry, config: Mapping[str, Any]) -> dict[str, Any]:
    """A full config with one name for each value, nested ones included."""
    out: dict[str, Any] = {}
    for name, value in config.items():
        nested = _flat(entry, value) if isinstance(value, Mapping) else None
        out |= {name: value} if nested is None else {f"{name}.{k}": v for k, v in nested.items()}
    if entry.members and entry.members[0] in config:
        out[TASKS_OF_SET] = list(members_of(entry, dict(config)))
    return out


def _compare(values: Mapping[str, Any], registered: Mapping[str, Any]) -> dict[str, Change]:
    names = [*values, *(k for k in registered if k not in values)]
    changes = {k: Change(values.get(k), registered.get(k)) for k in names}
    return {k: c for k, c in changes.items() if not _equal(c.value, c.registered)}


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b))
    return (
        math.isclose(a, b, rel_tol=1e-9) if numbers else bool(a == b)
    )  # JSON keeps every digit; older contracts may not


def _pick(config: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The values of a nested config by their flat names, nested as there."""
    out: dict[str, Any] = {}
    for name in names:
        *parents, last = name.split(".")
        at, value = out, config
        for parent in parents:
            at, value = at.setdefault(parent, {}), value[parent]
        at[last] = value[last]
    return out


def _joined(entry: TaskEntry, changes: Changes) -> dict[str, Change]:
    """Changes that all members of a set have alike as one, without the member's name."""
    out: dict[str, Change] = {}
    for name, change in changes.items():
        head, _, rest = name.partition(".")
        alike = head in entry.members and all(changes.get(f"{m}.{rest}") == change for m in entry.members)
        out[rest if alike else name] = change
    return out


def _digest(value: Any) -> str | None:
    """SHA-256 of a file that a config value names, such as a robot's; None where it names none."""
    path = Path(value) if isinstance(value, str) and "." in value else None
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path is not None and path.is_file() else None
    except OSError:
        return None


def _path(name: str) -> str:
    """A name in a file as it is, however long, but for what does more to a terminal."""
    return name if name.isprintable() else short(name)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    plain = isinstance(value, str) and value.isprintable() and 0 < len(value) <= LONGEST
    return "nothing" if value is None else value if plain else short(value)
