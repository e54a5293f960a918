"""Observations in C: what a term is, written as code that computes it from arrays of measured quantities.

    c = CWriter()
    lines = terms([t.expression for t in group.observation], c)  # statements that write `raw`
    helpers("\n".join(lines))                                    # the functions that they call

Quantities are members of a struct, ``now->position``, and those of the control step before ``before->position``. A writer of
another kind says where else they stand, see rookery.sim2real.export.state_c. Comparisons are written so that a NaN passes
through, as it does in torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rookery.sim.terms.expression import Expression, Quantity

_HELPERS = {
    "length": """
static float length(const float v[3])
{
    return sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}""",
    "conjugate": """
/* Quaternions are w, x, y, z. */
static void conjugate(const float q[4], float out[4])
{
    out[0] = q[0];
    out[1] = -q[1];
    out[2] = -q[2];
    out[3] = -q[3];
}""",
    "multiply": """
static void multiply(const float a[4], const float b[4], float out[4])
{
    out[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    out[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    out[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
}""",
    "turn": """
static void turn(const float q[4], const float v[3], float out[3])
{
    const float w = q[0], x = q[1], y = q[2], z = q[3];

    out[0] = (1.0f - 2.0f * (y * y + z * z)) * v[0] + 2.0f * (x * y - w * z) * v[1] + 2.0f * (x * z + w * y) * v[2];
    out[1] = 2.0f * (x * y + w * z) * v[0] + (1.0f - 2.0f * (x * x + z * z)) * v[1] + 2.0f * (y * z - w * x) * v[2];
    out[2] = 2.0f * (x * z - w * y) * v[0] + 2.0f * (y * z + w * x) * v[1] + (1.0f - 2.0f * (x * x + y * y)) * v[2];
}""",
    "yaw": """
static void yaw(const float q[4], float out[1])
{
    out[0] = atan2f(2.0f * (q[1] * q[2] + q[0] * q[3]), 1.0f - 2.0f * (q[2] * q[2] + q[3] * q[3]));
}""",
    "heading": """
static void heading(const float q[4], float out[4])
{
    float angle[1];

    yaw(q, angle);
    out[0] = cosf(0.5f * angle[0]);
    out[1] = 0.0f;
    out[2] = 0.0f;
    out[3] = sinf(0.5f * angle[0]);
}""",
    "rotation_vector": """
static void rotation_vector(const float q[4], float out[3])
{
    const float side = q[0] < 0.0f ? -1.0f : 1.0f;
    const float sine = length(&q[1]);
    const float gain = side * (sine > 1e-6f ? 2.0f * atan2f(sine, side * q[0]) / sine : 2.0f);
    int i;

    for (i = 0; i < 3; i++) {
        out[i] = gain * q[1 + i];
    }
}""",
    "within": """
static float within(float x, float low, float high)
{
    return (x < low) ? low : ((x > high) ? high : x);
}""",
    "larger": """
static float larger(float a, float b)
{
    return (a > b || a != a) ? a : b;
}""",
}
"""Functions of C by name; each stands behind those that it calls."""


def helpers(code: str) -> list[str]:
    """The texts of the functions that code calls, each once, in an order in which each finds those that it calls."""
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
    wanted: set[str] = set()
    for name in reversed(_HELPERS):
        callers = "\n".join((code, *(_HELPERS[other] for other in wanted)))
        if re.search(rf"\b{name}\(", callers):
            wanted.add(name)
    return [text for name, text in _HELPERS.items() if name in wanted]


KEYWORDS = {
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "class", "compl", "const", "constexpr", "const_cast", "continue", "decltype", "default", "delete", "do", "double",
    "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend", "goto", "if",
    "inline", "int", "linux", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator",
    "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "restrict", "return", "short",
    "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local",
    "throw", "true", "try", "typedef", "typeid", "typename", "union", "unix", "unsigned", "using", "virtual", "void",
    "volatile", "wchar_t", "while", "xor", "xor_eq",
}  # fmt: skip
"""Words of C99 and C++17, which name no quantity."""


class CWriter:
    """Code of expressions, statement by statement; their `write` calls it.

    Attributes:
        lines: statements so far.
        past: whether quantities are those of the control step before.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.past = False
        self._arrays = 0

    def quantity(self, q: Quantity) -> str:
        """The array that holds a quantity."""
        return f"{'before' if self.past else 'now'}->{identifier(q.name)}"

    @contextmanager
    def step_before(self) -> Iterator[None]:
        """Within it quantities are those of the control step before."""
        kept, self.past = self.past, True
        yield
        self.past = kept

    def array(self, size: int, value: Callable[[Any], str] | None = None, loop: bool = True) -> str:
        """A new array of `size`, filled with `value` of each index where given: of 0, 1, ..., or of "i" within a loop."""
        name = f"t{self._arrays}"
        self._arrays += 1
        self.lines.append(f"float {name}[{size}];")
        if value is not None and loop and size > 1:
            self.lines.append(f"for (i = 0; i < {size}; i++) {{ {name}[i] = {value('i')}; }}")
        elif value is not None:
            self.lines += [f"{name}[{i}] = {value(i)};" for i in range(size)]
        return name

    def constants(self, values: Sequence[float]) -> str:
        """A new array of numbers."""
        return self.array(len(values), lambda i: self.number(values[i]), loop=False)

    def copy(self, source: str, out: str, at: int, size: int) -> None:
        """Copy `size` numbers to `out` from its index `at` on."""
        if size == 1:
            self.lines.append(f"{out}[{at}] = {source}[0];")
        else:
            self.lines.append(f"for (i = 0; i < {size}; i++) {{ {out}[{at} + i] = {source}[i]; }}")

    def call(self, function: str, size: int, *arguments: str) -> str:
        """A new array of `size` that one of the helpers writes."""
        out = self.array(size)
        self.lines.append(f"{function}({', '.join((*arguments, out))});")
        return out

    def vectors(self, function: str, size: int, argument: str, vectors: str) -> str:
        """`call` for each of the vectors side by side."""
        out = self.array(size)
        if size == 3:
            self.lines.append(f"{function}({argument}, {vectors}, {out});")
        else:
            self.lines.append(
                f"for (i = 0; i < {size}; i += 3) {{ {function}({argument}, &{vectors}[i], &{out}[i]); }}"
            )
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


def terms(expressions: Sequence[Expression], c: CWriter) -> list[str]:
    """Statements that write the values of expressions, one after the other, to the array `raw`."""
    at = 0
    for e in expressions:
        c.lines.append(f"/* {comment(e.formula)} */")
        c.copy(e.write(c), "raw", at, e.size)
        at += e.size
    return c.lines


def member(q: Quantity, name: str) -> str:
    """A quantity as a member of a struct, with a comment that says what it is."""
    if q.axes:
        what = f"quaternion w, x, y, z, {q.axes} to {q.frame} axes"
        said = ": ".join((q.name, what)) + (f"; {q.doc}" if q.doc else "")
    else:
        unit = "" if q.unit == "1" else q.unit
        said = ", ".join(filter(None, (q.name, unit, q.frame and f"{q.frame} axes", q.doc)))
    return f"float {name}[{q.size}]; /* {comment(said)} */"


def comment(text: object) -> str:
    """Text that cannot end or nest a C comment, nor form a trigraph."""
    line = " ".join(re.sub(r"[^\x20-\x7e]", "?", " ".join(str(text).split())).split())
    line = line.replace("\\", "/").replace('"', "'")
    return re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)|(?<=\?)(?=\?)", " ", line)
