"""Loops of the text form: what they run over, their kinds and options."""

from __future__ import annotations

import ast
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, Var, cast, const

from .nodes import BufferLoad, For, Range, Stmt
from .parser_block import BlockParser, Opened
from .script_names import LOOP, entry
from .script_ops import expr_nodes

_PLAIN = ("serial", "parallel", "vectorized", "unroll")


class LoopParser(BlockParser):
    """Parses loops."""

    def loop(self, s: ast.For) -> Opened:
        """for i in range(...), T.parallel(...), T.grid(...)."""
        if s.orelse:
            self.fail(s.orelse[0], "a loop has no else")
        node, name = s.iter, None
        if isinstance(node, ast.Call):
            plain_range = isinstance(node.func, ast.Name) and node.func.id == "range"
            name = "range" if plain_range else self.script_name(node.func)
        made: Opened = self.placed(LOOP, name, node, "a loop does not run over this", s)
        return made

    def nest(
        self,
        s: ast.For,
        loops: list[tuple[str, Range]],
        own: str | None = None,
        annotations: ast.expr | None = None,
        **options: Any,
    ) -> Opened:
        """Loops around a suite; the options are those of the one loop, own its variable's type."""
        variables: list[tuple[Var, Range]] = []

        def close(body: Stmt) -> Stmt:
            for var, dom in reversed(variables):
                notes = self.notes.pop(var)
                body = For(var, dom.min, dom.extent, body, annotations=notes, **options)
            return body

        made = self.opened(s.body, close)
        for name, dom in loops:
            var = Var(self.fresh(name), own or dom.extent.dtype)
            self.domains[var] = dom
            self.notes[var] = {} if annotations is None else self.attributes(annotations)
            self.define(name, var)
            variables.append((var, dom))
        return made

    def counted(self, e: Expr, kind: str) -> Expr:
        """A value where `kind` is wanted: loop variables, int64 here, stand for an int32 too."""
        if e.dtype != INDEX or kind != "int32":  # most values
            return e
        leaves = [x for x in expr_nodes(e) if isinstance(x, Var | BufferLoad)]
        said = [x for x in leaves if x not in self.domains and x.dtype != kind]
        return e if said or not leaves else cast(kind, e)

    def bounds(self, node: ast.AST, low: Any, high: Any) -> Range:
        """What a loop runs over; low is None where it begins at zero."""
        if low is not None:
            return self.interval(node, low, high)
        extent = self.as_expr(node, high)
        if not dt.is_int(extent.dtype) or dt.lanes(extent.dtype) > 1:
            self.fail(node, f"an extent is of type {extent.dtype}", "an integer")
        return Range(const(0, extent.dtype), extent)


# ---------------------------------------------------------------------------------- kinds of loops


@entry(
    LOOP,
    "range(start, stop=, step=)",
    *[f"{kind}(start, stop=, *, step=, annotations=, dtype=)" for kind in _PLAIN],
    "thread_binding(start, stop=, thread=, *, annotations=, dtype=)",
)
def _one(p: LoopParser, node: ast.Call, s: ast.For, start: ast.expr, **options: ast.expr) -> Opened:
    """One loop."""
    stop, step, dtype, thread = map(options.get, ("stop", "step", "dtype", "thread"))
    name = p.script_name(node.func) or "serial"
    bound = name == "thread_binding"
    if bound and thread is None and stop is not None and isinstance(p.value(stop), str):
        stop, thread = None, stop  # T.thread_binding(4, "threadIdx.x")
    if bound and thread is None:
        p.fail(node, "T.thread_binding: the axis must be given", 'thread="threadIdx.x"')
    if not isinstance(s.target, ast.Name):
        p.fail(s.target, "expected one loop variable", "for i, j in T.grid(m, n): for several")
    if step is not None and p.value(step) != 1:
        p.fail(step, "a loop goes in steps of 1", "a loop over the number of steps, and i * step")
    own = None if dtype is None else p.dtype_arg(dtype)
    ends = [p.value(e) for e in (start, stop) if e is not None]
    if own is not None:  # plain numbers are of the variable's type
        ends = [const(e, own) if isinstance(e, int) else e for e in ends]
    dom = p.bounds(start, ends[0] if len(ends) > 1 else None, ends[-1])
    loops = [(s.target.id, dom)]
    kind = "unrolled" if name == "unroll" else name
    axis = None if thread is None else p.text_arg(thread)
    return p.nest(s, loops, own, options.get("annotations"), kind=kind, thread=axis)


@entry(LOOP, "grid(*extents)")
def _grid(p: LoopParser, node: ast.Call, s: ast.For, *extents: ast.expr) -> Opened:
    """for i, j in T.grid(8, 8): nested serial loops."""
    targets = s.target.elts if isinstance(s.target, ast.Tuple) else [s.target]
    if len(targets) != len(extents):
        p.fail(s.target, f"{len(targets)} loop variables for {len(extents)} extents")
    loops = []
    for t, e in zip(targets, extents, strict=True):
        if not isinstance(t, ast.Name):
            p.fail(t, "expected a loop variable")
        value = p.value(e)
        pair = isinstance(value, tuple) and len(value) == 2
        loops.append((t.id, p.bounds(e, *value) if pair else p.bounds(e, None, value)))
    return p.nest(s, loops)
