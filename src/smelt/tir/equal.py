"""What tensor programs consist of, for structural equality (see ir/equal.py), and their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from smelt.ir.equal import Part, bound, definition, normal, parts, structure
from smelt.ir.equal import assert_structural_equal as assert_structural_equal
from smelt.ir.equal import structural_equal as structural_equal
from smelt.ir.expr import Expr, Var
from smelt.ir.node import Node

from . import nodes
from .printer import script
from .script_ops import shape_vars

definition.register(nodes.Buffer, parts("dtype", "scope", "shape", "strides", "axis_separators"))
structure.register(
    nodes.For,
    parts("kind", "min", "extent", "thread", "annotations", "var", "body", binds=("var",)),
)
structure.register(nodes.LetStmt, parts("value", "var", "body", binds=("var",)))
structure.register(nodes.Allocate, parts("annotations", "buffer", "body", binds=("buffer",)))
structure.register(nodes.AllocateConst, parts("data", "buffer", "body", binds=("buffer",)))
structure.register(
    nodes.Reduce, parts("combiner", "axis", "sources", "condition", "index", "init")
)  # the axes first: what is summed is in terms of them
structure.register(
    nodes.Combiner, parts("name", "lhs", "rhs", "result", "identity", binds=("lhs", "rhs"))
)
structure.register(nodes.IterVar, parts("kind", "dom", "var", binds=("var",)))
structure.register(
    nodes.Block,
    parts(
        "name", "iter_vars", "alloc_buffers", "annotations", "init", "body", "reads", "writes",
        binds=("alloc_buffers",),
    ),
)  # fmt: skip


@normal.register
def _(s: nodes.Seq) -> nodes.Stmt:
    """One statement is that statement, nested sequences are flat."""
    stmts = nodes.flat(s)
    return stmts[0] if len(stmts) == 1 else s


@structure.register
def _(s: nodes.Seq) -> Iterable[Part]:
    return [Part("field", f"[{i}]", x) for i, x in enumerate(nodes.flat(s))]


@structure.register
def _(f: nodes.PrimFunc) -> Iterable[Part]:
    """Scalars first, since shapes use them; a function without a name has the default one."""
    params = [(f".params[{i}]", p) for i, p in enumerate(f.params)]
    return [
        Part("field", ".params.length", len(params)),
        *[Part("bind", at, p) for at, p in params if isinstance(p, Var)],
        *bound(".sizes", shape_vars(f.params)),
        *[Part("bind", at, p) for at, p in params if not isinstance(p, Var)],
        Part("field", ".attrs", {"name": f.name, **f.attrs}),
        Part("field", ".body", f.body),
    ]


def structural_hash(func: Node) -> int:
    """A number that is the same for structurally equal programs, in every process."""
    assert isinstance(func, nodes.PrimFunc | nodes.Stmt | Expr)
    return int.from_bytes(
        hashlib.sha256(script(func, canonical=True).encode()).digest()[:8], "little"
    )
