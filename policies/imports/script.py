"""Actors in TorchScript files: their code is read as text and followed step by step with the tensors that the file holds.

TorchScript is a subset of Python that torch writes back as text. Followed are calls of modules and functions in the file,
branches on values that the file holds, and the operators that a normalizer and a perceptron consist of. Anything else, such as
a state that is kept from step to step, is refused by its name. Nothing is executed.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rookery.policies.imports import steps
from rookery.policies.imports.actor import Actor
from rookery.policies.imports.script_archive import ScriptModule, Unpack, read_script
from rookery.policies.imports.script_operators import Row, operator
from rookery.policies.imports.steps import Step
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged

MOST_STEPS = 20_000
"""Expressions that are looked at."""
DEEPEST = 40
"""Calls inside of each other."""


def read_script_actor(file: Path, archive: zipfile.ZipFile, unpack: Unpack) -> Actor:
    """The actor of an archive of torch.jit.save.

    Raises:
        RookeryError: it is damaged, or computes anything but a perceptron.
    """
    try:
        module, constants, code = read_script(archive, unpack)
        return steps.actor_of("torchscript", Follower(constants, code).run(module))
    except Damaged as error:
        raise RookeryError(
            f"{file} is TorchScript and holds no perceptron ({error}): actors of other kinds are not taken over."
        ) from error


@dataclass(frozen=True)
class Dotted:
    """A dotted name of torch or of the file's code."""

    name: str


class Returned(Exception):
    """Result of a function."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Follower:
    """Follows code from a module's forward.

    Args:
        constants: c0, c1, ... of the code.
        code: text by namespace.

    Raises:
        Damaged: it is no Python.
    """

    def __init__(self, constants: Sequence[Any], code: dict[str, str]) -> None:
        self._constants = {f"c{i}": x for i, x in enumerate(constants)}
        self._functions: dict[str, ast.FunctionDef] = {}
        self._left = MOST_STEPS
        self._depth = 0
        for space, text in code.items():
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                raise Damaged(f"its code {space:.80} cannot be read") from error
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    self._functions[f"{space}.{node.name}"] = node
                elif isinstance(node, ast.ClassDef):
                    methods = [x for x in node.body if isinstance(x, ast.FunctionDef)]
                    self._functions |= {f"{space}.{node.name}.{x.name}": x for x in methods}

    def run(self, module: ScriptModule) -> tuple[Step, ...]:
        """The steps from the observation to the actions.

        Raises:
            Damaged: forward takes or gives anything but one row, or does what no perceptron does.
        """
        try:
            found = self._method(module, "forward", [Row()], {})
        except RecursionError as error:
            raise Damaged("its code is nested too deep") from error
        if not isinstance(found, Row):
            raise Damaged("forward gives no row of actions")
        return found.steps

    def _method(self, module: ScriptModule, name: str, given: list[Any], named: dict[str, Any]) -> Any:
        function = self._functions.get(f"{module.kind}.{name}")
        if function is None:
            raise Damaged(f"it calls {module.kind:.80}.{name:.40}, which it does not hold")
        return self._call(function, [module, *given], named)

    def _call(self, function: ast.FunctionDef, given: list[Any], named: dict[str, Any]) -> Any:
        self._depth += 1
        if self._depth > DEEPEST:
            raise Damaged("its calls are nested too deep")
        arguments = function.args
        names = [x.arg for x in arguments.args]
        local = dict(zip(names, given, strict=False)) | named
        for default, name in zip(reversed(arguments.defaults), reversed(names), strict=False):
            if name not in local:
                local[name] = self._value(default, {})
        if (
            len(given) > len(names)
            or set(local) != set(names)
            or arguments.vararg
            or arguments.kwarg
            or arguments.kwonlyargs
        ):
            raise Damaged(f"{function.name:.40} takes {', '.join(names):.80}, not one row of observations")
        try:
            self._block(function.body, local)
        except Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None

    def _block(self, body: Sequence[ast.stmt], local: dict[str, Any]) -> None:
        for statement in body:
            if isinstance(statement, ast.Return):
                raise Returned(None if statement.value is None else self._value(statement.value, local))
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], self._value(statement.value, local), local)
            elif isinstance(statement, ast.If):
                condition = self._value(statement.test, local)
                if not isinstance(condition, bool):
                    raise Damaged("it branches on what it computes")
                self._block(statement.body if condition else statement.orelse, local)
            elif isinstance(statement, ast.Expr):
                self._value(statement.value, local)
            elif not isinstance(statement, ast.Pass):
                raise Damaged(f"it has a statement {type(statement).__name__}")

    def _assign(self, target: ast.expr, value: Any, local: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            local[target.id] = value
        elif isinstance(target, ast.Attribute):
            raise Damaged(f"it keeps a state from step to step, {target.attr:.40}")
        else:
            raise Damaged("it takes results apart")

    def _value(self, node: ast.expr, local: dict[str, Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise Damaged("its code is longer than any perceptron's")
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return local[node.id] if node.id in local else Dotted(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(self._value(node.value, local), node.attr)
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._value(x, local) for x in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            x = self._value(node.operand, local)
            if isinstance(x, (int, float)):
                return -x
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            x = self._value(node.operand, local)
            if isinstance(x, bool):
                return not x
        if isinstance(node, ast.Call):
            return self._result(node, local)
        raise Damaged(f"it has an expression {type(node).__name__}")

    def _attribute(self, owner: Any, name: str) -> Any:
        if isinstance(owner, Dotted):
            if owner.name == "CONSTANTS" and name in self._constants:
                return self._constants[name]
            return Dotted(f"{owner.name}.{name}")
        if isinstance(owner, ScriptModule) and name in owner.values:
            return owner.values[name]
        if isinstance(owner, ScriptModule):
            return BoundMethod(owner, name)
        raise Damaged(f"it asks for {name:.40} of a value")

    def _result(self, node: ast.Call, local: dict[str, Any]) -> Any:
        function = self._value(node.func, local)
        given = [self._value(x, local) for x in node.args if not isinstance(x, ast.Starred)]
        named = {x.arg: self._value(x.value, local) for x in node.keywords if x.arg}
        if len(given) < len(node.args) or len(named) < len(node.keywords):
            raise Damaged("it calls with arguments of an unknown number")
        if isinstance(function, BoundMethod):
            return self._method(function.module, function.name, given, named)
        if not isinstance(function, Dotted):
            raise Damaged("it calls a value")
        name = function.name
        if name == "getattr" and len(given) == 2 and isinstance(given[1], str):
            return self._attribute(given[0], given[1])
        if name in ("annotate", "unchecked_cast") and len(given) == 2:
            return given[1]
        if name in self._functions:
            return self._call(self._functions[name], given, named)
        step = operator(name)
        if step is not None:
            try:
                return step(*given, **named)
            except (TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
                if isinstance(error, Damaged):
                    raise
                raise Damaged(f"it calls {name:.60} with other arguments than a perceptron does") from error
        raise Damaged(f"it calls {name:.80}")


@dataclass(frozen=True)
class BoundMethod:
    """A method of a module."""

    module: ScriptModule
    name: str
