"""The structure of the code: no import cycles, no probing of environments, files and functions of a readable length."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import trees

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("assets", "sim", "robots", "tasks", "policies", "sim2real", "rookery")
MOST_LINES = 400  # of a file in sim/ and policies/
MOST_FUNCTION_LINES = 60  # compiled kernels excepted


def sources() -> dict[str, ast.Module]:
    """Syntax trees by path relative to the repository."""
    return {str(f.relative_to(ROOT)): trees.tree(f) for room in ROOMS for f in trees.modules(room)}


def module_name(path: str) -> str:
    """The module of a file: folders beside `rookery` install inside it."""
    parts = list(Path(path).with_suffix("").parts)
    if parts[0] != "rookery":
        parts.insert(0, "rookery")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def imported(tree: ast.AST, modules: set[str]) -> set[str]:
    """Modules of this package that a file imports, inside functions too; annotations for type checkers import nothing."""
    found = set()
    unread = {
        inner
        for node in trees.walked(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in trees.walked(tree):
        if node in unread:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [
                full if (full := f"{node.module}.{alias.name}") in modules else str(node.module) for alias in node.names
            ]
        found |= modules & set(names)
    return found


def components(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other in a circle, by Tarjan's algorithm (SIAM J. Comput. 1, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            start = stack.index(node)
            group = stack[start:]
            del stack[start:]
            if len(group) > 1 or node in graph[node]:
                out.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return out


def test_no_module_imports_itself_in_a_circle():
    by_name = {module_name(path): tree for path, tree in sources().items()}
    graph = {name: imported(tree, set(by_name)) for name, tree in by_name.items()}
    # a package whose __init__ is imported for a submodule of its own is no circle
    for name in graph:
        graph[name].discard(name)
    circles = components(graph)
    assert not circles, "\n".join(" <-> ".join(group) for group in circles)


def test_assets_refuse_by_sentences():
    """A ValueError would reach the person at the keyboard as a traceback."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in sources().items()
        if path.startswith("assets/")
        for node in trees.walked(tree)
        if isinstance(node, ast.Raise) and node.exc is not None and "ValueError" in ast.unparse(node.exc).split("(")[0]
    ]
    assert not found, "raise a RookeryError:\n" + "\n".join(found)


BRITISH = re.compile(r"randomis|normalis|colour|behaviour", re.IGNORECASE)
STORED = re.compile(r"normalised rotor speeds|\brandomisation\b")
"""A quantity and a line of the provenance in contracts that are stored."""


def test_one_spelling():
    """Names and prose spell randomization, normalizer, color and behavior alike."""
    found = [
        f"{path}:{i}: {line.strip()}"
        for path in sources()
        for i, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if BRITISH.search(STORED.sub("", line))
    ]
    assert not found, "\n".join(found)


def probes(tree: ast.AST) -> list[int]:
    """Lines that ask an environment, with `getattr` or `hasattr`, what it has."""
    return [
        node.lineno
        for node in trees.walked(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "hasattr")
        and ast.unparse(node.args[0]).split(".")[-1].strip("_") in ("env", "envs", "unwrapped", "task")
        and (node.func.id == "hasattr" or isinstance(node.args[1], ast.Constant))
    ]


def test_nothing_probes_environments():
    """What an environment can do is declared in rookery.sim.env."""
    found = [f"{path}:{line}" for path, tree in sources().items() for line in probes(tree)]
    assert not found, "\n".join(found)


def test_no_base_class_exists_for_type_checkers_only():
    found = []
    for path, tree in sources().items():
        for node in trees.walked(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                inside = [n for statement in node.body for n in ast.walk(statement)]
                if any(not isinstance(s, ast.Import | ast.ImportFrom) for s in node.body) or node.orelse:
                    found.append(f"{path}:{node.lineno} ({len(inside)} nodes)")
    assert not found, "\n".join(found)


def test_files_are_short():
    found = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for room in ("sim", "policies")
        for path in trees.modules(room)
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    ]
    assert not found, "\n".join(found)


SHARED_NAMES = {"Args"}
"""Names of several classes: that of every subcommand's options, as `rookery.cli.main` takes them."""


def test_no_class_name_stands_for_two_things():
    places: dict[str, list[str]] = {}
    for path, tree in sources().items():
        for node in trees.walked(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path)
    found = {name: at for name, at in places.items() if len(at) > 1 and name not in SHARED_NAMES}
    assert not found, "\n".join(f"{name}: {', '.join(at)}" for name, at in found.items())


def vague_summaries(path: str, tree: ast.Module) -> list[str]:
    """Docstrings whose first word does not say what the thing is or does."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in trees.walked(tree):
        summary = (isinstance(node, kinds) and ast.get_docstring(node)) or ""
        if re.match(r"(What|Where|Whether|How|That|Of)\b", summary):
            found.append(f"{path}: {summary.splitlines()[0]}")
    return found


def test_summaries_say_what_a_thing_is_or_does():
    found = [line for path, tree in sources().items() for line in vague_summaries(path, tree)]
    assert not found, "\n".join(found)


def compiled_decorators(tree: ast.Module) -> set[str]:
    """Names in a module that compile a function, such as ``_kernel = njit(...)``."""
    names = {"njit", "numba.njit", "vectorize", "compiled", "inlined", "scalar"}
    for node in tree.body:
        if isinstance(node, ast.Assign) and "njit" in ast.unparse(node.value):
            names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def long_functions(path: str, tree: ast.Module) -> list[str]:
    """Functions above the limit that Numba does not compile; docstrings count."""
    compiled = compiled_decorators(tree)
    found = []
    for node in trees.walked(tree):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines <= MOST_FUNCTION_LINES:
                continue
            if not {ast.unparse(d).split("(")[0] for d in node.decorator_list} & compiled:
                found.append(f"{path}:{node.name} {lines} lines")
    return found


def test_functions_are_short():
    found = [line for path, tree in sources().items() for line in long_functions(path, tree)]
    assert not found, "\n".join(found)


def test_the_finders_find(tmp_path):
    assert components({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert components({"a": {"b"}, "b": set()}) == []
    assert imported(ast.parse("def f():\n    from p import m, g\n    import p.n"), {"p", "p.m", "p.n"}) == {
        "p",
        "p.m",
        "p.n",
    }
    assert probes(ast.parse("getattr(self.env, 'x', 1)\nhasattr(env, 'y')\ngetattr(env, name)\ngetattr(a, 'x')")) == [
        1,
        2,
    ]
    vague = '"""How far."""\nclass A:\n    """What it is."""\n    def f(self):\n        """Whatever it is."""\n'
    assert vague_summaries("m.py", ast.parse(vague)) == ["m.py: How far.", "m.py: What it is."]
    body = "\n".join(["    pass"] * 70)
    code = f"k = njit(cache=True)\n@k\ndef f():\n{body}\ndef g():\n{body}\n"
    assert [x.split(" ")[0] for x in long_functions("m.py", ast.parse(code))] == ["m.py:g"]
