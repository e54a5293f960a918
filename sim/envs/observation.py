"""From a task's raw terms to the tensor that a policy sees, by the group's declaration (see specs.Term, specs.Group).

With a history of H = 3 frames, x_t being what an agent without history would get at step t of an episode (noise and
delay included), it sees

    step          0           1           2           3
    observation   x0 x0 x0    x0 x0 x1    x0 x1 x2    x1 x2 x3      # the newest frame last

Terms that never leave the policy's computer (`Term.local`) are neither delayed nor lost. Other delayed components come from a
line of the latest frames, of which the oldest ones needed are MAX_DELAY and the term's own
delay old. Delay line and history are rings: a push overwrites the oldest row, a new episode all of them.

Delays of observations are whole physics steps. A control step begins where a measurement is taken, so of a delay of 7 physics
steps, with control steps of K = 5, an observation is 1 control step old and 2 physics steps are left (`rest`), by which the
action that answers it takes longer: see ActionDelay. What was measured acts after observation delay + action delay in either
case, and no state between control steps need be kept. (The clocks and commands of the policy's computer are those of the moment
when the control step began.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rookery.sim.arrays import array
from rookery.sim.buffers import Buffers
from rookery.sim.envs import observation_kernels as kernels
from rookery.sim.envs.delays import MAX_DELAY
from rookery.sim.envs.finite import refuse_nan
from rookery.sim.envs.observation_layout import ObservationLayout
from rookery.sim.envs.parameter_kernels import observing
from rookery.sim.errors import RookeryError
from rookery.sim.pointers import TensorTable
from rookery.sim.random import Streams
from rookery.sim.randomization.batch import Batch
from rookery.sim.specs import Group, ObservationSet, Term

PARAMETERS = tuple((f"observation_{what}", 0) for what in ("noise", "bias", "drift", "dropout", "delay", "jitter"))
"""What `ObservationPipeline.configure` sets."""


class _Pipeline(Buffers):
    """Scale, clip and history of a list of terms; the base that `_at` describes to the kernels."""

    frames: Tensor
    pushed: Tensor

    def __init__(self, terms: Sequence[Term], history: int, num_envs: int, count: int) -> None:
        super().__init__()
        self.terms = tuple(terms)
        self.history = history
        self.num_envs = num_envs
        self.count = count
        self.frame_size = sum(t.size for t in terms)
        self._table = TensorTable([t.name for t in terms], [(num_envs, count, t.size) for t in terms], "observes")
        self._all = np.arange(num_envs)
        self._constants: list[NDArray[np.generic]] = []  # keeps alive what the addresses point to
        self._at = np.zeros(len(ObservationLayout), np.int64)
        self._at[: ObservationLayout.HISTORY + 1] = num_envs, count, self.frame_size, history
        self.buffer("pushed", 1, dtype=torch.int64)
        self._point(ObservationLayout.PUSHED, self.pushed)
        if history > 1:
            self.buffer("frames", num_envs, history, count, self.frame_size)
            self._point(ObservationLayout.FRAMES, self.frames)
        else:
            self._at[ObservationLayout.FRAMES] = self._at[ObservationLayout.PUSHED]
        sizes = np.array([t.size for t in terms], np.int64)
        self._constant(ObservationLayout.SIZES, sizes)
        self._constant(ObservationLayout.STARTS, np.cumsum(sizes) - sizes)
        self._constant(ObservationLayout.SCALE, self._column([0.0 if t.hidden else t.scale for t in terms]))
        self._constant(ObservationLayout.CLIP, self._column([t.clip for t in terms]))

    def _column(self, values: Sequence[float]) -> NDArray[np.float32]:
        """[A F] float32 from one value for each term."""
        return np.tile(np.repeat(np.array(values, np.float32), [t.size for t in self.terms]), self.count)

    def _constant(self, where: ObservationLayout, values: NDArray[np.generic]) -> None:
        values = np.ascontiguousarray(values)
        self._constants.append(values)
        self._at[where] = values.ctypes.data

    def _point(self, where: ObservationLayout, buffer: Tensor) -> None:
        self._at[where] = buffer.data_ptr()

    def _observe(self, ids: NDArray[np.int64], begins: bool, terms: Mapping[str, Tensor], out: Tensor) -> None:
        self._table.update(terms)
        kernels.observe(self._at, self._table.rows, ids, begins, out.data_ptr())

    def write_clean(
        self, terms: Mapping[str, Tensor], out: Tensor, first: int, ids: NDArray[np.int64] | None = None
    ) -> None:
        """Columns `first` to `first` + A F of `out` [N, S] in the worlds `ids`, None for all: the terms now, scaled and
        clipped, without anything else."""
        self._table.update(terms)
        where = self._all if ids is None else ids
        kernels.assemble(self._at, self._table.rows, where, out.data_ptr() + 4 * first, out.stride(0))

    def clean(self, terms: Mapping[str, Tensor]) -> Tensor:
        """[N, A, F] the terms now, scaled and clipped, without noise, bias, delay and history. A new tensor."""
        out = torch.empty(self.num_envs, self.count, self.frame_size)
        self.write_clean(terms, out, 0)
        return out


class ObservationPipeline(_Pipeline):
    """Noise, bias, scale, clip, delay and history of one group.

    Noise, bias and delay of a world are set between its episodes: `restart` begins the next one with them.

    Args:
        group: the declaration.
        num_envs: N.
        control_dt: s.
        rng: the worlds' random streams; a world without noise and bias draws nothing.
        physics_steps: K.

    Attributes:
        noise: [N] factor on every term's declared noise; 0 is a perfect sensor.
        bias: [N] factor on every term's declared bias.
        extra: [N] int64 physics steps by which observations are delayed, beside the terms' own delays.
        rest: [N] int64 physics steps of this step's delay that are less than a control step: its action takes them longer.
        drift: [N] factor on every term's declared drift.
        jitter: [N] int64 physics steps, the most by which a step's observation is delayed besides.
        dropout: [N] share of the steps in which no observation arrives, so that the last one stays.
    """

    noise: Tensor
    bias: Tensor
    offset: Tensor
    past: Tensor
    extra: Tensor
    rest: Tensor
    drift: Tensor
    jitter: Tensor
    dropout: Tensor

    def __init__(self, group: Group, num_envs: int, control_dt: float, rng: Streams, physics_steps: int = 1) -> None:
        super().__init__(group.observation, group.history, num_envs, group.count)
        self._names = frozenset(t.name for t in group.observation)
        self.rng = rng
        self._dt = control_dt / physics_steps
        self._at[ObservationLayout.PHYSICS_STEPS] = physics_steps
        self._point(ObservationLayout.REST, self.buffer("rest", num_envs, dtype=torch.int64))
        self._shape = (num_envs, group.count, group.observation_size)
        own = np.rint(self._column([t.delay for t in self.terms]) / np.float32(control_dt)).astype(np.int64)
        rows = math.ceil(MAX_DELAY / control_dt) + int(own.max(initial=0)) + 1
        self._at[ObservationLayout.ROWS] = rows
        self._at[ObservationLayout.DELAYED] = own.any()
        self._constant(ObservationLayout.OWN, own)
        self._constant(ObservationLayout.ARRIVES, self._column([not t.local for t in self.terms]).astype(np.int64))
        self._constant(ObservationLayout.HALF_WIDTH, self._column([t.bias for t in self.terms]))
        sigma = self._column([t.noise for t in self.terms])
        self._constant(ObservationLayout.SIGMA, sigma)
        pairs = np.unique(np.flatnonzero(sigma) % max((len(sigma) + 1) // 2, 1))
        self._constant(ObservationLayout.PAIRS, pairs)
        self._at[ObservationLayout.NOISY_PAIRS] = len(pairs)
        frame = (group.count, self.frame_size)
        self._point(ObservationLayout.NOISE, self.buffer("noise", num_envs))
        self._point(ObservationLayout.BIAS, self.buffer("bias", num_envs))
        self._point(ObservationLayout.OFFSET, self.buffer("offset", num_envs, *frame))
        self._point(ObservationLayout.EXTRA, self.buffer("extra", num_envs, dtype=torch.int64))
        self._point(ObservationLayout.PAST, self.buffer("past", rows, num_envs, *frame))
        self._at[ObservationLayout.DRIFTS] = any(t.drift > 0.0 for t in self.terms)
        self._constant(ObservationLayout.DRIFT, self._column([t.drift * math.sqrt(control_dt) for t in self.terms]))
        self._constant(ObservationLayout.WALKS_WITH, self._walks())
        self._point(ObservationLayout.DRIFTING, self.buffer("drift", num_envs))
        self._point(ObservationLayout.WALK, self.buffer("walk", num_envs, *frame))
        self._point(ObservationLayout.JITTER, self.buffer("jitter", num_envs, dtype=torch.int64))
        self._point(ObservationLayout.AGE, self.buffer("age", num_envs, dtype=torch.int64))
        self._point(ObservationLayout.DROPOUT, self.buffer("dropout", num_envs))
        self._point(ObservationLayout.HELD, self.buffer("held", num_envs, *frame))
        self._most_late = math.ceil(MAX_DELAY / self._dt - 1e-6)
        self._configured = tuple(
            b.numpy() for b in (self.noise, self.bias, self.drift, self.dropout, self.extra, self.jitter)
        )
        self._point(ObservationLayout.KEYS, rng.key)
        self._point(ObservationLayout.COUNTERS, rng.counter)

    def _walks(self) -> NDArray[np.int64]:
        """[A F] the component of a world whose random walk each component has.

        Raises:
            RookeryError: a term names another one for its walk that cannot give it one.
        """
        starts = np.cumsum([0, *(t.size for t in self.terms)])
        first = {t.name: int(start) for t, start in zip(self.terms, starts[:-1], strict=True)}
        sizes = {t.name: t.size for t in self.terms}
        frame = np.arange(self.frame_size)
        for t in self.terms:
            if not t.drift_of:
                continue
            if t.drift > 0.0 or sizes.get(t.drift_of) != t.size:
                raise RookeryError(
                    f"the term {t.name!r} has the random walk of {t.drift_of!r}: that must be another term of size {t.size}, "
                    f"and {t.name!r} must have no drift of its own."
                )
            frame[first[t.name] :][: t.size] = first[t.drift_of] + np.arange(t.size)
        return np.concatenate([frame + a * self.frame_size for a in range(self.count)])

    def configure(self, ids: NDArray[np.int64], values: Batch) -> None:
        """Set what `values` has of "observation_noise", "observation_bias" and "observation_drift", factors,
        "observation_dropout", 0 to 1, "observation_delay" and "observation_jitter", s rounded to physics steps, for the worlds
        `ids` that begin an episode."""
        observing(values.table, values.places.rows(PARAMETERS), ids, self._dt, self._most_late, *self._configured)

    def push(self, terms: Mapping[str, Tensor]) -> Tensor:
        """[N, A, O] as the agents get it after a control step. A new tensor."""
        self._check(terms)
        out = torch.empty(self._shape)
        self._observe(self._all, False, terms, out)
        return out

    def restart(self, ids: Tensor, terms: Mapping[str, Tensor], out: Tensor) -> None:
        """Write the first observation of new episodes in the worlds `ids` [n], with a new bias, to those rows of `out`
        [N, A, O]."""
        self._check(terms)
        self._observe(array(ids), True, terms, out)

    def _check(self, terms: Mapping[str, Tensor]) -> None:
        if terms.keys() != self._names:
            raise RookeryError(
                f"the task observes {sorted(terms)} but declares {sorted(self._names)}: let observe() give these terms alone."
            )


class CleanPipeline(_Pipeline):
    """Scale, clip and history of one further observation set of a group, free of noise, bias and delay.

    Args:
        declared: the set.
        num_envs: N.
        count: A.
    """

    newest: Tensor

    def __init__(self, declared: ObservationSet, num_envs: int, count: int) -> None:
        super().__init__(declared.terms, declared.history, num_envs, count)
        nothing = np.zeros(num_envs, np.int64)  # also as float32
        self._at[ObservationLayout.ROWS] = 1
        for where in (ObservationLayout.NOISE, ObservationLayout.EXTRA):
            self._constant(where, nothing)
        if self.history > 1:
            self.buffer("newest", num_envs, count, declared.size)

    def push(self, terms: Mapping[str, Tensor]) -> None:
        """Take raw terms [N, A, d] after a control step."""
        if self.history > 1:
            self._observe(self._all, False, terms, self.newest)

    def restart(self, ids: Tensor, terms: Mapping[str, Tensor]) -> None:
        """Take the first raw terms of new episodes in the worlds `ids`."""
        if self.history > 1:
            self._observe(array(ids), True, terms, self.newest)

    def read(self, terms: Mapping[str, Tensor]) -> Tensor:
        """[N, A, O] now, of the raw terms that were pushed last. A new tensor."""
        return self.newest.clone() if self.history > 1 else self.clean(terms)


def target_values(terms: dict[str, Tensor], declared: tuple[Term, ...], first: int = 0) -> Tensor:
    """[N, A, M] true values of a group's targets, scaled and clipped; `terms` may have others too. `first` is the number of the
    first world."""
    if not {t.name for t in declared} <= terms.keys():
        raise RookeryError(f"the task has targets {sorted(terms)} but declares {sorted(t.name for t in declared)}.")
    x = torch.cat([terms[t.name] for t in declared], dim=-1)
    start = 0
    for t in declared:
        x[..., start : start + t.size].mul_(t.scale).clamp_(-t.clip, t.clip)
        refuse_nan(f"target {t.name!r}", x[..., start : start + t.size], first)
        start += t.size
    return x


def check_groups(
    task: str,
    groups: Mapping[str, Group],
    num_envs: int,
    observed: Mapping[str, dict[str, Tensor]],
    privileged: Mapping[str, dict[str, Tensor]],
) -> None:
    """`check_terms` of all groups: of what is observed, of targets and of what further sets have."""
    if set(observed) != set(groups):
        raise RookeryError(
            f"task {task!r} declares the groups {sorted(groups)}, but observe() gives {sorted(observed)}."
        )
    for g, s in groups.items():
        shape = (num_envs, s.count)
        check_terms(task, observed[g], s.observation, shape)
        check_terms(task, privileged.get(g, {}), s.targets, shape, "target")
        check_terms(task, privileged.get(g, {}), tuple(s.privileged().values()), shape, "privileged term")


def check_terms(
    task: str, terms: dict[str, Tensor], declared: tuple[Term, ...], shape: tuple[int, int], what: str = "observation"
) -> None:
    """Refuse observations or targets that do not fit their declaration (called once, when an environment is made)."""
    giver = "observe()" if what == "observation" else "observe_privileged()"
    for t in declared:
        if t.name not in terms and t.sensed:
            raise RookeryError(
                f"task {task!r}: the sensor of the term {t.name!r} has no `make`: give it a function from a world to a reader."
            )
        if t.name not in terms:
            raise RookeryError(f"task {task!r} declares the {what} {t.name!r} but {giver} does not give it.")
        if tuple(terms[t.name].shape) != (*shape, t.size):
            raise RookeryError(
                f"task {task!r}: {what} {t.name!r} is {tuple(terms[t.name].shape)}, declared {(*shape, t.size)}."
            )
