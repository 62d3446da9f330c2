"""What tensor programs consist of, for structural equality (see ir/equal.py), and their hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from smelt.ir.equal import Part, bind, definition, field, normal, structure
from smelt.ir.equal import assert_structural_equal as assert_structural_equal
from smelt.ir.equal import structural_equal as structural_equal
from smelt.ir.expr import Expr, Var
from smelt.ir.node import Node

from .nodes import Allocate, Block, Buffer, For, LetStmt, PrimFunc, Seq, Stmt
from .printer import script
from .script_ops import shape_vars


@definition.register
def _(b: Buffer) -> Iterable[Part]:
    names = ("type", "scope", "shape", "strides", "axis_separators")
    return [field("." + n.replace("type", "dtype"), getattr(b, n)) for n in names]


@normal.register
def _(s: Seq) -> Stmt:
    """One statement is that statement, nested sequences are flat."""
    flat = list(_flat(s))
    return flat[0] if len(flat) == 1 else s


@structure.register
def _(s: Seq) -> Iterable[Part]:
    return [field(f"[{i}]", x) for i, x in enumerate(_flat(s))]


def _flat(s: Stmt) -> Iterator[Stmt]:
    stack = [s]
    while stack:
        x = stack.pop()
        if isinstance(x, Seq):
            stack.extend(reversed(x.stmts))
        else:
            yield x


@structure.register
def _(f: PrimFunc) -> Iterable[Part]:
    """Scalars first, since shapes use them; a function without a name has the default one."""
    params = [(f".params[{i}]", p) for i, p in enumerate(f.params)]
    return [
        field(".params.length", len(params)),
        *[bind(at, p) for at, p in params if isinstance(p, Var)],
        *[bind(f".sizes[{i}]", v) for i, v in enumerate(shape_vars(f.params))],
        *[bind(at, p) for at, p in params if not isinstance(p, Var)],
        field(".attrs", {"name": f.name, **f.attrs}),
        field(".body", f.body),
    ]


@structure.register
def _(s: For) -> Iterable[Part]:
    head = [field("." + n, getattr(s, n)) for n in ("kind", "min", "extent", "thread")]
    return [
        *head,
        field(".annotations", s.annotations),
        bind(".var", s.var),
        field(".body", s.body),
    ]


@structure.register
def _(s: LetStmt) -> Iterable[Part]:
    return [field(".value", s.value), bind(".var", s.var), field(".body", s.body)]


@structure.register
def _(s: Allocate) -> Iterable[Part]:
    notes = field(".annotations", s.annotations)
    return [notes, bind(".buffer", s.buffer), field(".body", s.body)]


@structure.register
def _(b: Block) -> Iterable[Part]:
    parts = [field(".name", b.name), field(".iter_vars.length", len(b.iter_vars))]
    for i, it in enumerate(b.iter_vars):
        at = f".iter_vars[{i}]"
        parts += [field(at + ".kind", it.kind), field(at + ".dom", it.dom), bind(at, it.var)]
    parts.append(field(".alloc_buffers.length", len(b.alloc_buffers)))
    parts += [bind(f".alloc_buffers[{i}]", x) for i, x in enumerate(b.alloc_buffers)]
    rest = ("annotations", "init", "body", "reads", "writes")
    return parts + [field("." + n, getattr(b, n)) for n in rest]


def structural_hash(func: Node) -> int:
    """A number that is the same for structurally equal programs, in every process."""
    assert isinstance(func, PrimFunc | Stmt | Expr)
    return int.from_bytes(
        hashlib.sha256(script(func, canonical=True).encode()).digest()[:8], "little"
    )
