"""Runs all parts of the transfer gate."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.sim.engines import find_engine
from rookery.sim.errors import RookeryError
from rookery.sim.randomization.parameters import Parameter
from rookery.sim2real.contract import Contract
from rookery.sim2real.gate.batches import BatchOrder, BatchTrials, Mapper, try_to_play
from rookery.sim2real.gate.combinations import Combinations, Wider, search_combinations, wider_combinations
from rookery.sim2real.gate.exported import TOLERANCE, Compared, NativeAct, compile_policies, without_c
from rookery.sim2real.gate.factors import LOOKS, NOT_SWEPT, undeclared
from rookery.sim2real.gate.intervals import check_episodes
from rookery.sim2real.gate.onnx_answers import onnx_difference
from rookery.sim2real.gate.opponents import OpposingTeams
from rookery.sim2real.gate.profile import Profile, load_profile
from rookery.sim2real.gate.report import ENGINE, NOT_APPLICABLE, Case, Figure, Margin, Report
from rookery.sim2real.gate.sweep import Side, search, sides_of, without_effect
from rookery.sim2real.gate.trials import ACTION_CHANGE, Open, Outcome, PointRunner, Trials

if TYPE_CHECKING:
    from rookery.policies.policy import Policy

ONNX_WORLDS = 4
"""Worlds in which a policy plays for the comparison of its ONNX."""
MEANING = (
    "mean size of an action component's change between control steps, in units of [-1, 1]; another option counts 1"
)


@dataclass(frozen=True)
class GateSettings:
    """Settings of the gate: how much is tried.

    Args:
        episodes: at each point.
        interval: half-width of the 95 % interval at the required success.
        rounds: of dividing in the sweeps; each narrows a margin to a quarter.
        combinations: drawn from the profile's ranges.
        engines: besides the task's own.
        seed: of everything.
        cases: also try engines, physics steps and the exported C, or ONNX where there is no C.
        beyond: also sweep what the profile does not require: other factors, other directions, and past the required ends.
            The verdict and the score do not need it.
        search: rounds of the search for the worst combination.
    """

    episodes: int = 64
    interval: float = 0.1
    rounds: int = 3
    combinations: int = 32
    engines: tuple[str, ...] = ()
    seed: int = 0
    cases: bool = True
    beyond: bool = True
    search: int = 2


class Gate:
    """One policy before the gate.

    Args:
        open_env: makes its environments.
        policies, contract: of the policy; None leaves out the exported C.
        profile: name or file.
        settings: how much is tried.
        note: called with a line about what begins.
        mapper: plays batches of points and other cases at once, with the same results, such as the `map` of
            `concurrent.futures` or of a cluster, which must be able to send `open_env`; None plays all here, one by one.

    Raises:
        RookeryError: an unknown profile or factor, a range beyond what the task takes, too few episodes, or as `OpposingTeams`.
    """

    def __init__(
        self, open_env: Open, profile: str, settings: GateSettings, policies: Mapping[str, Policy] | None = None,
        contract: Contract | None = None, note: Callable[[str], None] = lambda line: None,
        mapper: Mapper | None = None,
    ) -> None:  # fmt: skip
        self._open = open_env
        self._mapper = mapper
        self._policies = policies
        self._contract = contract
        self._settings = settings
        self._note = note
        env, _ = open_env(1)
        try:
            self.task, self.engine = env.task_id, env.engine
            self.engines = tuple(env.task.engines)
            self.dt, self.physics_steps = env.world.dt, env.task.physics_steps
            every = env.randomization.parameters
            nothing = undeclared(env.groups)
            self._meanings = {ACTION_CHANGE: MEANING, **env.deployment().metrics}
            self._opponents = list(OpposingTeams(env).teams) if env.teams else []
        finally:
            env.close()
        self._steps = {k: p.step for k, p in every.items() if p.step}
        self._nominal = {k: float(p.nominal) for k, p in every.items() if not k.startswith(LOOKS)}
        self.profile: Profile = load_profile(profile, every)
        nothing |= self._below_resolution()
        self.parameters: dict[str, Parameter] = {
            k: p for k, p in every.items() if not k.startswith(NOT_SWEPT) and k not in nothing
        }
        self._check_profile()
        check_episodes(settings.episodes, settings.interval, self.profile.success)

    def _below_resolution(self) -> set[str]:
        """Delays come in whole physics steps, and one of less than half a step is none."""
        wanted = self.profile.factors
        return {k for k, step in self._steps.items() if k in wanted and round(wanted[k].high / step) == 0}

    def _check_profile(self) -> None:
        """Refuse a profile by which nothing would be tested, or less than it asks for."""
        name, wanted = self.profile.name, {k: r for k, r in self.profile.factors.items() if k in self.parameters}
        if not wanted:
            raise RookeryError(
                f"{self.task} has none of the factors of the profile {name}: give --profile with some of "
                f"{', '.join(self.parameters)}."
            )
        if all(r.low == r.high == self.parameters[factor].nominal for factor, r in wanted.items()):
            raise RookeryError(
                f"the profile {name} holds all factors at their nominal values: widen [factors.{min(wanted)}]."
            )
        for factor, r in wanted.items():
            p = self.parameters[factor]
            if not p.low <= r.low <= r.high <= p.high:
                raise RookeryError(
                    f"the profile {name} asks for {factor} from {r.low:g} to {r.high:g}, and {self.task} can be tested from "
                    f"{p.low:g} to {p.high:g} ({p.unit}): narrow [factors.{factor}]."
                )

    def run(self, name: str = "") -> Report:
        """Try everything; `name` stands for the policy in the report."""
        start = time.perf_counter()
        s = self._settings
        wanted = {k: r for k, r in self.profile.factors.items() if k in self.parameters}
        steps = self._steps
        sides = sides_of(self.parameters, wanted, s.beyond, steps)
        first = 1 + sum(len(side.next(self.profile.success)) for side in sides)
        others = self._conditions() if s.cases else {}
        played = self._played(others)
        trials = self._sweeps(self._points(first))
        try:
            self._note(f"{len(self.parameters)} factors, {len(sides)} directions")
            nominal = search(trials, sides, self.profile.success, s.rounds, self._note)
            combinations: Combinations | None = None
            wider: list[Wider] = []
            if s.combinations:
                ranges = {name: (r.low, r.high) for name, r in wanted.items()}
                self._note("combinations")
                combinations = search_combinations(trials, ranges, s.combinations, s.search, s.seed, steps)
                wider = wider_combinations(trials, ranges, self.parameters, s.combinations, s.seed, steps)
            episodes_run = trials.episodes_run
        finally:
            trials.close()
        idle = without_effect(sides, nominal)
        cases = [self._case("nominal", nominal), *(self._cases(others, played) if s.cases else [])]
        return Report(
            self.task, name, self.engine, self.profile.name, self.profile.summary, s.episodes, s.interval, s.seed,
            self.profile.success, cases, [self._margin(side, nominal, idle) for side in sides], combinations,
            self.profile.combinations, self.profile.worst, self._lacking(wanted, nominal), idle,
            wider, episodes_run, round(time.perf_counter() - start, 2), self._figures(nominal),
            self._left_out(), profile_sha256=self.profile.sha256, opponents=self._opponents,
        )  # fmt: skip

    def _left_out(self) -> list[str]:
        """Parts that the settings leave out: other engines of the task, all cases but nominal, combinations."""
        s = self._settings
        tried = s.engines if s.cases else ()
        out = [f"{ENGINE}{engine}" for engine in self.engines if engine != self.engine and engine not in tried]
        out += [] if s.cases else ["physics steps", "exported C"]
        return out if s.combinations else [*out, "combinations"]

    def _points(self, asked: int) -> int:
        """Points in one batch, so that those asked for first fill as few batches as it takes, all alike."""
        most = max(1, find_engine(self.engine).batch // self._settings.episodes)
        return math.ceil(asked / math.ceil(asked / most))

    def _trials(self, points: int, **options: Any) -> Trials:
        """Trials at `points` points together; a slow engine runs the episodes in the same worlds one after another."""
        return self._order(points, **options).trials()

    def _order(self, points: int, **options: Any) -> BatchOrder:
        """The nominal point in worlds for `points` points."""
        s = self._settings
        return BatchOrder(self._open, ({},), points, s.episodes, s.seed, options)

    def _sweeps(self, points: int) -> PointRunner:
        """The runner of sweeps and combinations, `points` points together."""
        order = self._order(points, fixed=self._nominal)
        return order.trials() if self._mapper is None else BatchTrials(order, self._mapper)

    def _margin(self, side: Side, nominal: Outcome, idle: list[str]) -> Margin:
        threshold = self.profile.success
        good = nominal.rate >= threshold
        last, beyond = side.bracket(threshold) if good else (side.nominal, side.nominal)
        at = side.outcomes.get(last, nominal)
        coverage = side.coverage(threshold, nominal.rate)
        wanted = self.profile.factors.get(side.factor)
        verdict = ""
        if side.required is not None and wanted is not None:
            verdict = "pass" if coverage >= 1.0 else "fail"
            if side.factor in idle:
                verdict = "" if wanted.idle else "no effect"
        return Margin(
            side.factor, "up" if side.limit > side.nominal else "down", side.unit, side.nominal, side.required, last,
            beyond, at.rate, *at.interval, coverage, verdict, "" if wanted is None else wanted.source, side.tried(),
        )  # fmt: skip

    def _figures(self, nominal: Outcome) -> list[Figure]:
        """Figures of the policy beside success, where the profile asks and the task knows."""
        bounds = {name: bound for name, bound in self.profile.figures.items() if name in nominal.missing}
        return [
            Figure(
                name, nominal.means.get(name), _finite(b.least), _finite(b.most), self._meanings.get(name, ""), b.source,
                nominal.missing[name],
            )
            for name, b in bounds.items()
        ]  # fmt: skip

    def _lacking(self, wanted: Collection[str], nominal: Outcome) -> list[str]:
        """Factors and figures of the profile that the task lacks."""
        out = [name for name in self.profile.factors if name not in wanted]
        return out + [name for name in self.profile.figures if name not in nominal.missing]

    def _case(self, name: str, outcome: Outcome, note: str = "", also: bool = True) -> Case:
        required = self.profile.success
        verdict = "pass" if also and outcome.rate >= required else "fail"
        return Case(name, verdict, outcome.rate, *outcome.interval, required, note)

    def _conditions(self) -> dict[str, dict[str, Any]]:
        """Other engines and physics steps that the policy is tried under: options of its environment, by the case's name."""
        out: dict[str, dict[str, Any]] = {f"{ENGINE}{engine}": {"engine": engine} for engine in self._settings.engines}
        out["physics step halved"] = {"config": {"dt": 0.5 * self.dt}}
        if self.physics_steps > 1:
            factor = _coarser(self.physics_steps)
            name = "physics step doubled" if factor == 2.0 else f"physics step times {factor:.3g}"
            out[name] = {"config": {"dt": factor * self.dt}}
        return out

    def _played(self, conditions: Mapping[str, dict[str, Any]]) -> Iterator[list[Outcome] | str]:
        """The nominal point under each of the conditions, or why it cannot be played; where others play, they begin now."""
        orders = [self._order(1, **options) for options in conditions.values()]
        return map(try_to_play, orders) if self._mapper is None else self._mapper(try_to_play, orders)

    def _cases(self, conditions: Collection[str], played: Iterator[list[Outcome] | str]) -> list[Case]:
        out = []
        for name in conditions:
            self._note(name)
            found = next(played)
            out.append(Case(name, "skipped", note=found) if isinstance(found, str) else self._case(name, found[0]))
        if self.physics_steps == 1:
            out.append(Case("physics step doubled", NOT_APPLICABLE, note="it is as long as a control step"))
        out.append(self._exported())
        return out

    def _exported(self) -> Case:
        """The exported C acts, and torch answers the same observations."""
        name = "exported C"
        if self._policies is None or self._contract is None:
            return Case(name, NOT_APPLICABLE, note="no policy to export")
        if reason := without_c(self._policies):
            return self._exported_onnx(self._policies, self._contract, reason)
        self._note(name)
        with tempfile.TemporaryDirectory(prefix="rookery-gate-") as folder:
            try:
                native = compile_policies(self._policies, self._contract, Path(folder))
            except RookeryError as e:
                return Case(name, "skipped", note=str(e))
            trials = self._trials(1)
            try:
                events = {group: policy.events for group, policy in self._policies.items()}
                compared = Compared(NativeAct(native, trials.env, events), trials.act, trials.env)
                trials.act = compared
                outcome = trials.run([{}])[0]
            finally:
                trials.close()
        note = f"largest difference of actions from torch {compared.difference:.2g}"
        return self._case(name, outcome, note, compared.difference <= TOLERANCE)

    def _exported_onnx(self, policies: Mapping[str, Policy], contract: Contract, reason: str) -> Case:
        """ONNX Runtime answers what torch has acted on; `reason` says why there is no C to act."""
        name = "exported ONNX"
        self._note(name)
        env, act = self._open(ONNX_WORLDS)
        with tempfile.TemporaryDirectory(prefix="rookery-gate-") as folder:
            try:
                difference = onnx_difference(policies, contract, env, act, Path(folder), self._settings.seed)
            except RookeryError as e:
                return Case(name, "skipped", note=str(e))
            finally:
                env.close()
        verdict = "pass" if difference <= TOLERANCE else "fail"
        return Case(name, verdict, note=f"largest difference of actions from torch {difference:.2g}; {reason}")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _coarser(steps: int) -> float:
    """Factor of the physics step that divides a control step of `steps` and is nearest to a doubled one."""
    return min((steps / fewer for fewer in range(1, steps)), key=lambda factor: abs(math.log(factor / 2.0)))
