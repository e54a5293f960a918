"""Faults that mutation.py puts into logic: which places of a module can be changed, and to what.

Each mutant changes one place: an operator, the direction or the bound of a comparison, a condition to always or never, an index
by one, a function for its opposite, a sign; or it takes out a statement. Chosen numbers (coefficients, tolerances, sizes) stay:
nothing says what is right about them. So do messages, annotations, defaults, decorators and what is only drawn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

OPERATORS: dict[type[ast.AST], tuple[ast.AST, ...]] = {
    ast.Add: (ast.Sub(),), ast.Sub: (ast.Add(),), ast.Mult: (ast.Div(),), ast.Div: (ast.Mult(),), ast.Pow: (ast.Mult(),),
    ast.FloorDiv: (ast.Mult(),), ast.Mod: (ast.FloorDiv(),), ast.BitAnd: (ast.BitOr(),), ast.BitOr: (ast.BitAnd(),),
    ast.Lt: (ast.GtE(), ast.LtE()), ast.LtE: (ast.Gt(), ast.Lt()), ast.Gt: (ast.LtE(), ast.GtE()),
    ast.GtE: (ast.Lt(), ast.Gt()), ast.Eq: (ast.NotEq(),), ast.NotEq: (ast.Eq(),), ast.Is: (ast.IsNot(),),
    ast.IsNot: (ast.Is(),), ast.In: (ast.NotIn(),), ast.NotIn: (ast.In(),), ast.And: (ast.Or(),), ast.Or: (ast.And(),),
}  # fmt: skip
NAMES = {"sin": "cos", "cos": "sin", "amin": "amax", "amax": "amin", "minimum": "maximum", "maximum": "minimum", "sum": "mean",
         "mean": "sum", "min": "max", "max": "min", "argmin": "argmax", "argmax": "argmin", "clamp_min": "clamp_max",
         "clamp_max": "clamp_min", "terminated": "truncated", "truncated": "terminated", "any": "all", "all": "any",
         "floor": "ceil", "ceil": "floor", "isfinite": "isnan"}  # fmt: skip
"""Functions and attributes for their opposites."""
UNJUDGED = ("__repr__", "__str__", "markers")
"""Functions of looks."""
SAID = ("print", "Term", "isinstance", "warn", "RookeryError", "warning", "info", "debug", "add_argument", "cast")
"""Calls whose arguments are messages, declarations or types."""
SEQUENCES = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp)


@dataclass(frozen=True)
class Mutant:
    """One changed place.

    Args:
        module: path in the repository.
        line: of the place.
        start, stop: its bytes in the file.
        old, new: its text before and after.
        text: the first line that it is in.
    """

    module: str
    line: int
    start: int
    stop: int
    old: str
    new: str
    text: str


def mutants(module: str, source: str) -> list[Mutant]:
    """All mutants of a module's functions."""
    tree = ast.parse(source)
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text.encode()))
    raw = source.encode()
    found = []
    for node, new in (change for function in functions(tree) for change in changes(function)):
        start = starts[node.lineno - 1] + node.col_offset
        stop = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        line = source.splitlines()[node.lineno - 1].strip()
        found.append(Mutant(module, node.lineno, start, stop, raw[start:stop].decode(), new, line))
    return list(dict.fromkeys(found))


def functions(tree: ast.AST) -> Iterator[ast.stmt]:
    """The outermost functions. What stands outside of them is declared or chosen, such as defaults of configs."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        elif isinstance(child, ast.ClassDef):
            yield from functions(child)


def changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Nodes below `node`, itself included, that can be changed, and their text afterwards."""
    if isinstance(
        node, ast.Raise | ast.Assert | ast.arguments | ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Global
    ):
        return
    if isinstance(node, ast.FunctionDef) and node.name in UNJUDGED:
        return
    if isinstance(node, ast.Call) and ast.unparse(node.func).rsplit(".", 1)[-1] in SAID:
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.expr):
        yield from ((node, new) for new in expressions(node))
    yield from statements(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from changes(child)


def expressions(node: ast.expr) -> Iterator[str]:
    """Texts in place of an expression, in brackets where it needs them."""
    if isinstance(node, ast.BinOp) and not _joins(node):
        for op in OPERATORS.get(type(node.op), ()):
            yield f"({ast.unparse(ast.BinOp(node.left, op, node.right))})"  # type: ignore[arg-type]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for op in OPERATORS.get(type(node.ops[0]), ()):
            yield f"({ast.unparse(ast.Compare(node.left, [op], node.comparators))})"  # type: ignore[list-item]
    elif isinstance(node, ast.BoolOp):
        yield f"({ast.unparse(ast.BoolOp(OPERATORS[type(node.op)][0], node.values))})"  # type: ignore[arg-type]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield str(not node.value)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.unparse(ast.Attribute(node.value, NAMES[node.attr]))
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "any", "all")
    ):
        yield ast.unparse(ast.Call(ast.Name(NAMES[node.func.id]), node.args, node.keywords))
    elif isinstance(node, ast.IfExp) and not _text(node.body) and not _text(node.orelse):
        yield from (f"({ast.unparse(branch)})" for branch in (node.body, node.orelse))


def statements(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """Conditions to always and never, results negated, indices by one, statements taken out."""
    if isinstance(node, ast.If):
        yield from ((node.test, new) for new in ("True", "False"))
    elif isinstance(node, ast.comprehension):
        yield from ((test, "True") for test in node.ifs)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Compare | ast.BoolOp):
        yield node.value, f"(not ({ast.unparse(node.value)}))"
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.BinOp) and not _joins(node.value):
        if not isinstance(node.value.op, ast.BitOr | ast.BitAnd):
            yield node.value, f"(-({ast.unparse(node.value)}))"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if ast.unparse(node.value.func).rsplit(".", 1)[-1] not in SAID:
            yield node, "pass"
    elif isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node, ast.AugAssign) or all(isinstance(t, ast.Attribute | ast.Subscript) for t in targets):
            yield node, "pass"
    elif isinstance(node, ast.Subscript | ast.Compare | ast.BinOp) or _called(node, "range"):
        yield from ((n, str(n.value + 1)) for n in _whole_numbers(node))


def _whole_numbers(node: ast.AST) -> Iterator[ast.Constant]:
    """Numbers that count or index: of an index, in a comparison, a sum or a range."""
    if isinstance(node, ast.Subscript):
        of_slice = [node.slice.lower, node.slice.upper] if isinstance(node.slice, ast.Slice) else [node.slice]
        near: list[ast.AST | None] = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [*of_slice]
        for part in list(near):
            near += [part.lower, part.upper] if isinstance(part, ast.Slice) else []
    elif isinstance(node, ast.Compare):
        near = [*node.comparators]
    elif isinstance(node, ast.BinOp):
        near = [node.right] if isinstance(node.op, ast.Add | ast.Sub) else []
    else:
        near = [*node.args] if isinstance(node, ast.Call) else []
    for child in near:
        if isinstance(child, ast.Constant) and type(child.value) is int:
            yield child


def _joins(node: ast.BinOp) -> bool:
    """Whether it joins texts or sequences, where another operator only raises."""
    sides = (node.left, node.right)
    return any(_text(s) or isinstance(s, SEQUENCES) or (isinstance(s, ast.BinOp) and _joins(s)) for s in sides)


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _called(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
