"""Buffers of the text form: where they are declared, matched or given another name, and regions."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from smelt.arith import Analyzer, Answer
from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.expr import INDEX, Expr, IntImm, Var, cast, const

from .nodes import Buffer, BufferRegion, Range
from .parser_expr import ExprParser
from .parser_source import Described, describe
from .parser_values import BufferView, Reshaped, row_major
from .regions import full
from .script_names import BINDING, Entry, Signature, entry

OPTIONS = (
    "dtype=, data=, strides=, elem_offset=, scope=, align=, offset_factor=, buffer_type=, "
    "axis_separators="
)
"""What a buffer may say of itself behind its shape."""


class BufferParser(ExprParser):
    """Parses what declares buffers, and regions of them.

    params    the function's parameters by name
    declared  variables without a value of their own, and where they stand
    """

    params: dict[str, Var | Buffer]
    declared: dict[Var, ast.AST]

    def extents(self, node: ast.expr, what: str) -> tuple[Expr, ...]:
        """A tuple of extents or strides, or one."""
        value = self.value(node)
        items = value if isinstance(value, tuple | list) else (value,)
        out = []
        for v in items:
            e = self.as_expr(node, v, INDEX if isinstance(v, int) else None)
            self.whole(node, e, what)
            if isinstance(e, IntImm) and e.value < 0:
                self.fail(node, f"{what} is {e.value}", "at least 0")
            out.append(e)
        return tuple(out)

    def buffer(self, node: ast.Call, name: str, shape: ast.expr, **options: ast.expr) -> Buffer:
        """A new buffer from the arguments of T.Buffer and the like (see OPTIONS)."""
        dtype, scope, strides = [options.get(n) for n in ("dtype", "scope", "strides")]
        cut = options.get("axis_separators")
        kind = "float32" if dtype is None else self.dtype_arg(dtype)
        if dt.lanes(kind) > 1:
            self.fail(dtype or node, f"{name} holds {kind}", f'scalars: "{dt.scalar(kind)}"')
        extents = self.extents(shape, f"an extent of {name}")
        steps = self.extents(strides, f"a stride of {name}") if strides is not None else ()
        if steps and len(steps) != len(extents):
            counts = f"{len(extents)} dimensions, {len(steps)} strides given"
            self.fail(strides or node, f"{name} has {counts}")
        if "data" in options:
            self.fail(options["data"], f"{name} is a new buffer; it has not the memory of another")
        cuts = () if cut is None else self.value(cut)
        if not isinstance(cuts, tuple | list) or not all(type(c) is int for c in cuts):
            self.fail(cut or node, "expected positions between dimensions", "[1]")
        self.promises(options)
        where = "global" if scope is None else self.text_arg(scope) or "global"
        return Buffer(self.fresh(name), extents, kind, where, steps, tuple(cuts))

    def promises(self, options: Mapping[str, ast.expr]) -> None:
        """align and offset_factor are promises that smelt does not need; the others have no use."""
        elem_offset, buffer_type = options.get("elem_offset"), options.get("buffer_type")
        for name in ("align", "offset_factor"):
            if name in options:
                self.int_arg(options[name], -1)
        if elem_offset is not None:
            self.known(elem_offset, const(0), "a buffer begins at its first element")
        if buffer_type is not None and self.text_arg(buffer_type) not in ("", "default"):
            self.fail(buffer_type, "smelt has one kind of buffer", '"default"')

    def known(self, node: ast.expr, value: Expr, what: str) -> None:
        """Where a text may say what follows already: a variable for it stands for the value."""
        said = self.value(node)
        if isinstance(node, ast.Name) and isinstance(said, Var) and said in self.declared:
            self.define(node.id, cast(said.type, value))
        elif not isinstance(said, int | IntImm) or not is_const(
            value, int(self.as_expr(node, said))
        ):
            number = f"{value.value}, or " if isinstance(value, IntImm) else ""
            self.fail(node, what, f"{number}a variable that stands for it")

    def same_memory(
        self, node: ast.Call, name: str, shape: ast.expr, data: ast.expr, **options: ast.expr
    ) -> Buffer | BufferView:
        """T.Buffer(shape, dtype, data=B): a second name of B, in its shape or another one."""
        dtype = options.get("dtype")
        value = self.value(data)
        if not isinstance(value, Buffer):
            self.fail(data, f"expected a buffer, got {describe(value)}")
        wanted = self.extents(shape, f"an extent of {name}")
        kind = "float32" if dtype is None else self.dtype_arg(dtype)
        if wanted == value.shape and kind == value.type:
            return value
        sizes = [prod(s, start=const(1)) for s in (wanted, value.shape)]
        if sizes[0] is not sizes[1] or kind != value.type or value.strides:
            what = f"{name} would see the memory of {value.name} in another size or type"
            self.fail(node, what, f"{value.name} itself, or a dense buffer in another shape")
        return Reshaped(name, value, full(value).region, wanted)

    # ----------------------------------------------------------------------------- regions

    def region(self, node: ast.expr) -> BufferRegion:
        """A[i, lo:hi], or A: all of it."""
        if not isinstance(node, ast.Subscript):
            whole = self.value(node)
            if not isinstance(whole, Buffer):
                self.fail(node, f"expected a region, got {describe(whole)}", "A[i, 0:8]")
            return full(whole)
        base = self.value(node.value)
        if not isinstance(base, Buffer | BufferView):
            self.fail(node.value, f"expected a buffer, got {describe(base)}")
        if isinstance(base, Reshaped):
            return full(base.buffer)
        items = self.items(base, node, "ranges")
        ranges = [self.range(i, e) for i, e in zip(items, base.shape, strict=True)]
        if isinstance(base, Buffer):
            return BufferRegion(base, tuple(ranges))
        lows = base.indices(tuple([r.min for r in ranges]))
        extents = [r.extent for r in base.region]
        extents[len(lows) - len(ranges) :] = [r.extent for r in ranges]
        return BufferRegion(base.buffer, tuple(map(Range, lows, extents)))

    def range(self, node: ast.expr, extent: Expr) -> Range:
        """One dimension of a region."""
        if not isinstance(node, ast.Slice):
            return Range(self.index(node), const(1, INDEX))
        if node.step is not None:
            self.fail(node, "a region has no steps", "lo:hi")
        low = self.value(node.lower) if node.lower else 0
        high = self.value(node.upper) if node.upper else extent
        return self.interval(node, low, high)

    def layout(
        self, name: str, r: BufferRegion, rank: int, options: Mapping[str, ast.expr]
    ) -> None:
        """What the text says of a view, whose place and strides are those of its region."""
        steps = r.buffer.strides or row_major(r.buffer.shape)
        for option, node in options.items():
            match option:
                case "strides":
                    items = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
                    if items and len(items) != rank:
                        self.fail(node, f"{name} has {rank} dimensions, {len(items)} strides given")
                    for item, step in zip(items, steps[len(steps) - rank :], strict=False):
                        self.known(item, step, f"{r.buffer.name} has other strides")
                case "elem_offset":
                    self.known(
                        node,
                        _start(r, steps),
                        f"the region of {r.buffer.name} tells where it begins",
                    )
                case "scope" if self.text_arg(node) not in ("", r.buffer.scope):
                    self.fail(node, f"{r.buffer.name} is in {r.buffer.scope} memory")
                case "dtype" if self.dtype_arg(node) != r.buffer.type:
                    self.fail(node, f"{r.buffer.name} holds {r.buffer.type}")
                case "offset_factor":
                    at, factor = _start(r, steps), self.int_arg(node, -1)
                    if factor > 1 and Analyzer().prove(at % factor == 0) is Answer.NO:
                        self.fail(node, f"{name} begins at the element {at} of "
                                  f"{r.buffer.name}, no multiple of {factor}")  # fmt: skip
                case "data" | "axis_separators":
                    self.fail(node, "a region has the memory of its buffer")
        promised = ("align", "buffer_type")
        self.promises({k: v for k, v in options.items() if k in promised})

    def view(self, name: str, node: ast.Subscript, shape: ast.expr, **options: Any) -> BufferView:
        """B = T.match_buffer(A[0:4, j:j + 8], (4, 8)): the region under a name of its own."""
        r = self.region(node)
        extents = self.extents(shape, f"an extent of {name}")
        skip = len(r.region) - len(extents)
        outer = all(is_const(d.extent, 1) for d in r.region[: max(skip, 0)])
        inner = [d.extent for d in r.region[max(skip, 0) :]]
        if skip < 0 or not outer or not all(map(_same, extents, inner)):
            self.fail(node, f"the region of {r.buffer.name} has another shape than {name}")
        self.layout(name, r, len(extents), options)
        return BufferView(name, r.buffer, r.region, extents)


def _start(r: BufferRegion, steps: Sequence[Expr]) -> Expr:
    """The first element of a region, counted from the buffer's."""
    return sum([d.min * step for d, step in zip(r.region, steps, strict=True)], const(0))


def _same(a: Expr, b: Expr) -> bool:
    """Whether two extents are one, be their types what they are."""
    return a is b or (isinstance(b, IntImm) and is_const(a, b.value))


@entry(BINDING, f"match_buffer(param, shape, {OPTIONS})")
def _match_buffer(
    p: BufferParser, node: ast.Call, target: str, param: ast.expr, shape: ast.expr, **options: Any
) -> None:
    """A parameter that is a handle becomes a buffer; a region gets a name."""
    if isinstance(param, ast.Subscript):
        p.define(target, p.view(target, param, shape, **options))
        return
    handle = p.value(param)
    if not isinstance(param, ast.Name) or p.params.get(param.id) is not handle:
        p.fail(param, f"expected a parameter, got {describe(handle)}", "a: T.handle")
    if not isinstance(handle, Var) or handle.type != "handle":
        p.fail(param, f"the parameter {param.id} is {describe(handle)}", f"{param.id}: T.handle")
    p.taken.discard(param.id)
    buffer = p.buffer(node, target, shape, **options)
    p.params[param.id] = buffer
    p.define(param.id, Described(f"the handle of the buffer {buffer.name}"))
    p.define(target, buffer)


@entry(BINDING, f"Buffer(shape, {OPTIONS})", f"buffer_decl(shape, {OPTIONS})")
def alias(
    p: BufferParser, node: ast.Call, target: str, shape: ast.expr, **options: ast.expr
) -> None:
    """Another name of a buffer's memory; a parameter that is a pointer becomes the buffer."""
    data = options.get("data")
    if isinstance(data, ast.Name) and p.params.get(data.id) is p.value(data):
        del options["data"]
        _match_buffer(p, node, target, data, shape, **options)
        return
    if data is None:
        p.fail(node, f"nothing allocates {target}", f"{target} = T.alloc_buffer(shape, dtype)")
    p.define(target, p.same_memory(node, target, shape, **options))


BUFFER = Entry(Signature(f"Buffer(shape, {OPTIONS})"), BufferParser.buffer)
"""A buffer as the type of a parameter."""
