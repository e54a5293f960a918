"""Observations in C: what a term is, written as code that computes it from a struct of measured quantities.

    typedef struct {
        float target[3];    /* target, m, world */
        float position[3];  /* position, m, world */
        ...
    } NAME_state;
    void NAME_observe_state(const NAME_state *now, const NAME_state *before, float *raw);

`raw` are the terms' values in their order, without scale; `before` the quantities of the control step before, those of now
at an episode's first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rookery.sim.terms.expression import Expression, Quantity

HELPERS = """#include <math.h>

static inline float length(const float v[3]) { return sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]); }

/* quaternions are w, x, y, z */
static inline void conjugate(const float q[4], float out[4]) {
    out[0] = q[0]; out[1] = -q[1]; out[2] = -q[2]; out[3] = -q[3];
}

static inline void multiply(const float a[4], const float b[4], float out[4]) {
    out[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    out[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    out[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
}

static inline void turn(const float q[4], const float v[3], float out[3]) {
    const float w = q[0], x = q[1], y = q[2], z = q[3];
    out[0] = (1 - 2 * (y * y + z * z)) * v[0] + 2 * (x * y - w * z) * v[1] + 2 * (x * z + w * y) * v[2];
    out[1] = 2 * (x * y + w * z) * v[0] + (1 - 2 * (x * x + z * z)) * v[1] + 2 * (y * z - w * x) * v[2];
    out[2] = 2 * (x * z - w * y) * v[0] + 2 * (y * z + w * x) * v[1] + (1 - 2 * (x * x + y * y)) * v[2];
}

static inline void yaw(const float q[4], float out[1]) {
    out[0] = atan2f(2 * (q[1] * q[2] + q[0] * q[3]), 1 - 2 * (q[2] * q[2] + q[3] * q[3]));
}

static inline void heading(const float q[4], float out[4]) {
    float angle[1];
    yaw(q, angle);
    out[0] = cosf(0.5f * angle[0]); out[1] = 0.0f; out[2] = 0.0f; out[3] = sinf(0.5f * angle[0]);
}

static inline void rotation_vector(const float q[4], float out[3]) {
    const float side = q[0] < 0.0f ? -1.0f : 1.0f;
    const float sine = length(&q[1]);
    const float gain = side * (sine > 1e-6f ? 2.0f * atan2f(sine, side * q[0]) / sine : 2.0f);
    for (int i = 0; i < 3; i++) out[i] = gain * q[1 + i];
}
"""


KEYWORDS = {
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "float",
    "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static",
    "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while"
}  # fmt: skip
"""Words of C99, which name no quantity."""


class CWriter:
    """Code of expressions, statement by statement; their `write` calls it.

    Attributes:
        lines: statements so far.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._state = "now"
        self._arrays = 0

    def quantity(self, q: Quantity) -> str:
        """The array that holds a quantity."""
        return f"{self._state}->{identifier(q.name)}"

    @contextmanager
    def step_before(self) -> Iterator[None]:
        """Within it quantities are those of the control step before."""
        kept, self._state = self._state, "before"
        yield
        self._state = kept

    def array(self, size: int, value: Callable[[Any], str] | None = None, loop: bool = True) -> str:
        """A new array of `size`, filled with `value` of each index where given: of 0, 1, ..., or of "i" within a loop."""
        name = f"t{self._arrays}"
        self._arrays += 1
        self.lines.append(f"float {name}[{size}];")
        if value is not None and loop and size > 1:
            self.lines.append(f"for (int i = 0; i < {size}; i++) {name}[i] = {value('i')};")
        elif value is not None:
            self.lines += [f"{name}[{i}] = {value(i)};" for i in range(size)]
        return name

    def constants(self, values: Sequence[float]) -> str:
        """A new array of numbers."""
        return self.array(len(values), lambda i: self.number(values[i]), loop=False)

    def copy(self, source: str, out: str, at: int, size: int) -> None:
        """Copy `size` numbers to `out` from its index `at` on."""
        self.lines.append(f"for (int i = 0; i < {size}; i++) {out}[{at} + i] = {source}[i];")

    def call(self, function: str, size: int, *arguments: str) -> str:
        """A new array of `size` that one of HELPERS writes."""
        out = self.array(size)
        self.lines.append(f"{function}({', '.join((*arguments, out))});")
        return out

    def vectors(self, function: str, size: int, argument: str, vectors: str) -> str:
        """`call` for each of the vectors side by side."""
        out = self.array(size)
        self.lines.append(f"for (int i = 0; i < {size}; i += 3) {function}({argument}, &{vectors}[i], &{out}[i]);")
        return out

    @staticmethod
    def number(value: float) -> str:
        """A float of C."""
        text = f"{value:.9g}"
        return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def identifier(name: str) -> str:
    """The name of a quantity as one of C."""
    out = re.sub(r"\W+", "_", name.replace("'", ""), flags=re.ASCII).strip("_").lower()
    return out if out[:1].isalpha() and out not in KEYWORDS else f"q_{out}"


def quantities_of(expressions: Sequence[Expression]) -> list[Quantity]:
    """The quantities that expressions read, each once, in order.

    Raises:
        ValueError: one name stands for two quantities.
    """
    out: dict[str, Quantity] = {}
    for e in expressions:
        for q in e.leaves():
            if out.setdefault(identifier(q.name), q) != q:
                raise ValueError(f"{q.name!r} stands for two quantities: {q} and {out[identifier(q.name)]}.")
    return list(out.values())


def observe_state(prefix: str, expressions: Sequence[Expression]) -> str:
    """The struct `<prefix>_state` and the function `<prefix>_observe_state` of terms in order; HELPERS stand before it."""
    fields = [_field(q) for q in quantities_of(expressions)]
    c = CWriter()
    raw = "raw"
    at = 0
    for e in expressions:
        c.lines.append(f"/* {comment(e.formula)} */")
        c.copy(e.write(c), raw, at, e.size)
        at += e.size
    lines = "\n".join(f"    {line}" for line in c.lines)
    struct = "\n".join(f"    {f}" for f in fields)
    head = f"void {prefix}_observe_state(const {prefix}_state *now, const {prefix}_state *before, float *raw)"
    return f"typedef struct {{\n{struct}\n}} {prefix}_state;\n\n{head} {{\n    (void)now;\n    (void)before;\n{lines}\n}}\n"


def _field(q: Quantity) -> str:
    axes = f"{q.axes} to {q.frame}" if q.axes else q.frame
    said = ", ".join(filter(None, (q.name, q.unit, axes and f"{axes} axes", q.doc)))
    return f"float {identifier(q.name)}[{q.size}];  /* {comment(said)} */"


def comment(text: str) -> str:
    """A text that ends no comment."""
    return re.sub(r"[^\x20-\x7e]", "?", text).replace("*/", "* /").replace("/*", "/ *").replace("\\", "/")
