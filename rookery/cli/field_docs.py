"""Help of options from the strings below the fields of settings dataclasses."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap


def field_docs(cls: type) -> dict[str, str]:
    """The string below each field of a dataclass, on one line; base classes included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for field, below in zip(statements, statements[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                docs[field.target.id] = " ".join(str(below.value.value).split())
    return docs
