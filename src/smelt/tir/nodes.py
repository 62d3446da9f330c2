"""Tensor programs: buffers, statements, blocks and functions.

Statements, blocks, buffers and functions have identity. A Block is a computation with its own
iteration variables, so that schedules can move it without looking into its body; `BlockRealize`
binds those variables to the loops around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import logical_not
from smelt.ir.expr import (
    INDEX,
    Call,
    Expr,
    ExprLike,
    IntImm,
    Typed,
    Var,
    const,
    convert,
    numbers_of,
)
from smelt.ir.node import Node
from smelt.ir.operators import Operators
from smelt.ir.text import Scripted

Annotations = Mapping[str, Any]
"""Plain data by name, with expressions over sizes in it."""

_NONE: Annotations = {}

ADDRESS = "smelt.address_of"
"""The address of an element, its operand a load of it."""

LOOP_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class Range(Node):
    """The integers min, ..., min + extent - 1."""

    min: Expr
    extent: Expr

    part = True

    @staticmethod
    def of(dom: Range | tuple[ExprLike, ExprLike] | ExprLike) -> Range:
        """A Range from a Range, a pair (begin, end) or an extent."""
        if isinstance(dom, Range):
            return dom
        if isinstance(dom, tuple):
            begin, end = convert(dom[0]), convert(dom[1])
            return Range(begin, end - begin)
        return Range(const(0, INDEX), convert(dom))

    @staticmethod
    def from_min_extent(min_value: ExprLike, extent: ExprLike) -> Range:
        """A Range from its first value and the number of values."""
        return Range(convert(min_value, INDEX), convert(extent, INDEX))


class Buffer(Node):
    """A multi-dimensional array.

    shape    extents in elements
    scope    "global" (memory), "local" (registers where indices allow, else stack), "shared"
    strides  elements between neighbours per dimension; empty = row-major and dense
    axis_separators  positions between dimensions at which memory of several dimensions (textures)
                     cuts the shape; plain memory is flat whatever they are
    """

    name: str
    shape: tuple[Expr, ...]
    type: str = "float32"
    scope: str = "global"
    strides: tuple[Expr, ...] = ()
    axis_separators: tuple[int, ...] = ()

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.type

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __getitem__(self, indices: Any) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        return BufferLoad(self, tuple([convert(i, INDEX) for i in items]))

    def access_ptr(self, access_mask: str = "rw") -> Call:
        """Where it begins, for an external function, whose meaning says what it reads and writes
        (the mask does not).
        """
        return address_of(self[(0,) * self.rank])

    def fixed_shape(self) -> tuple[int, ...] | None:
        """The extents as Python integers, or None where one is symbolic."""
        return numbers_of(self.shape)


class BufferLoad(Typed, interned=True):
    """The element of `buffer` at `indices`; a Ramp as last index makes it a vector."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    def __post_init__(self) -> None:
        count = max([dt.lanes(i.dtype) for i in self.indices], default=1)
        self._dtype = dt.vector(self.buffer.type, count)


def address_of(element: Expr) -> Call:
    """Where an element is, for functions that take pointers: address_of(A[i, 0])."""
    return Call("handle", ADDRESS, (element,))


class Combiner(Node):
    """How a reduction joins two tuples of partial results, and what it starts from."""

    name: str
    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity: tuple[Expr, ...]

    part = True


class Reduce(Expr, interned=True):
    """A reduction in a tensor expression; lowered to a block with init and update.

    sources    one expression per component of the combiner
    axis       the reduction's IterVars
    condition  elements where it is false do not take part
    index      which component this expression stands for
    init       values to start from in place of the combiner's identity
    """

    combiner: Combiner
    sources: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    condition: Expr
    index: int = 0
    init: tuple[Expr, ...] = ()

    @property
    def dtype(self) -> str:
        """The component's type."""
        return self.sources[self.index].dtype


class IterVar(Operators, Node):
    """An iteration variable of a block. kind: "spatial", "reduce" or "opaque"."""

    var: Var
    dom: Range
    kind: str = "spatial"

    DataPar, CommReduce, Opaque = "spatial", "reduce", "opaque"
    part = True

    def as_expr(self) -> Expr:
        """The variable, so that an IterVar can stand in an index."""
        return self.var

    @property
    def dtype(self) -> str:
        """The type of the variable."""
        return self.var.dtype

    apply = staticmethod(Expr.apply)  # which takes operands as what `as_expr` says


class BufferRegion(Node):
    """A box of a buffer: one Range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]


# ---------------------------------------------------------------------------------- statements


class Stmt(Node):
    """Something that is executed."""

    __extra_slots__: ClassVar[tuple[str, ...]] = ()


class BufferStore(Stmt):
    """buffer[indices] = value."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]


class Evaluate(Stmt):
    """An intrinsic called for its effect; its value is dropped."""

    value: Expr


class Seq(Stmt):
    """Statements one after another. Build it with `seq`."""

    stmts: tuple[Stmt, ...]


class For(Stmt):
    """A loop. kind: one of LOOP_KINDS; thread: the axis' name for thread_binding."""

    var: Var
    min: Expr
    extent: Expr
    body: Stmt
    kind: str = "serial"
    thread: str | None = None
    annotations: Annotations = _NONE


class While(Stmt):
    """Repeats the body as long as the condition holds."""

    condition: Expr
    body: Stmt


class IfThenElse(Stmt):
    """A branch."""

    condition: Expr
    then_body: Stmt
    else_body: Stmt | None = None


class LetStmt(Stmt):
    """A variable bound for the body."""

    var: Var
    value: Expr
    body: Stmt


class AssertStmt(Stmt):
    """Ends the program with an error status where the condition is false."""

    condition: Expr
    message: str


class Allocate(Stmt):
    """A buffer that lives during the body (after lowering; before, blocks allocate)."""

    buffer: Buffer
    body: Stmt
    annotations: Annotations = _NONE


class AllocateConst(Stmt):
    """A buffer whose elements are known and stay as they are; it lives during the body.

    data  of the buffer's shape and element type
    """

    buffer: Buffer
    data: np.ndarray
    body: Stmt


class Block(Stmt):
    """A computation over its own iteration variables.

    reads, writes   the regions touched, in terms of the iteration variables
    init            what starts a reduction: runs where every reduce variable is at its first value
    alloc_buffers   intermediate buffers that live in this block
    """

    name: str
    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple[Buffer, ...] = ()
    annotations: Annotations = _NONE


class BlockRealize(Stmt):
    """A block executed for the iteration values that the loops around give, where `predicate`."""

    values: tuple[Expr, ...]
    predicate: Expr
    block: Block

    @property
    def bindings(self) -> list[tuple[IterVar, Expr]]:
        """Each iteration variable with its value."""
        return list(zip(self.block.iter_vars, self.values, strict=True))

    @property
    def var_values(self) -> dict[Var, Expr]:
        """The values by variable, for substitution."""
        return {i.var: value for i, value in self.bindings}


class PrimFunc(Scripted, Node):
    """A tensor program.

    params   buffers (pointers at run time) and scalar variables (symbolic sizes among them)
    body     before lowering a BlockRealize of the block named "root"
    attrs    plain data, e.g. {"name": "conv2d_relu"}
    """

    params: tuple[Buffer | Var, ...]
    body: Stmt
    attrs: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        """The function's name."""
        return str(self.attrs.get("name", "main"))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers."""
        return tuple([p for p in self.params if isinstance(p, Buffer)])

    def with_attrs(self, **attrs: Any) -> PrimFunc:
        """A copy with some attributes set."""
        return self.replace(attrs={**self.attrs, **attrs})

    def with_attr(self, attr_key_or_dict: Any, attr_value: Any = None) -> PrimFunc:
        """A copy with one attribute set, or those of a mapping; "global_symbol" is the name."""
        single = isinstance(attr_key_or_dict, str)
        given = {attr_key_or_dict: attr_value} if single else dict(attr_key_or_dict)
        names = {"name": given.pop("global_symbol")} if "global_symbol" in given else {}
        return self.with_attrs(**{**given, **names})


for _class, _classic, _field in (
    (Block, "name_hint", "name"), (BlockRealize, "iter_values", "values"), (For, "loop_var", "var"),
    (For, "thread_binding", "thread"), (IfThenElse, "then_case", "then_body"),
    (IfThenElse, "else_case", "else_body"), (IterVar, "iter_type", "kind"), (Seq, "seq", "stmts"),
    (Reduce, "source", "sources"), (Reduce, "value_index", "index"),
):  # fmt: skip
    setattr(_class, _classic, getattr(_class, _field))  # other names of fields, read only


def seq(*stmts: Stmt | None) -> Stmt:
    """Statements one after another, nested sequences flattened."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, Seq):
            flat.extend(s.stmts)
        elif s is not None:
            flat.append(s)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def flat(stmt: Stmt) -> list[Stmt]:
    """The statements of nested sequences."""
    out: list[Stmt] = []
    stack = [stmt]
    while stack:
        s = stack.pop()
        if isinstance(s, Seq):
            stack.extend(reversed(s.stmts))
        else:
            out.append(s)
    return out


def nested(loops: Sequence[For], body: Stmt) -> Stmt:
    """Loops, outermost first, around a statement instead of what is in them."""
    for x in reversed(loops):
        body = x.replace(body=body)
    return body


def stores(buffers: Iterable[Buffer], values: Iterable[Expr], at: tuple[Expr, ...]) -> Stmt:
    """A value stored in each of some buffers, all at the same place."""
    return seq(*[BufferStore(b, v, at) for b, v in zip(buffers, values, strict=True)])


def lets(bindings: Iterable[tuple[Var, Expr]], body: Stmt) -> Stmt:
    """A statement with variables bound around it, the first one outermost."""
    for v, e in reversed(list(bindings)):
        body = LetStmt(v, e, body)
    return body


def stored_together(
    buffers: Sequence[Buffer],
    values: Sequence[Expr],
    at: tuple[Expr, ...],
    new_name: Callable[[str], str] = str,
) -> Stmt:
    """The same where values are computed from what is stored: all of them before any is stored."""
    if len(buffers) == 1:
        return stores(buffers, values, at)
    fresh = [Var(new_name(f"{b.name}_new"), b.type) for b in buffers]
    return lets(zip(fresh, values, strict=True), stores(buffers, fresh, at))


def no_op() -> Stmt:
    """A statement that does nothing."""
    return Evaluate(const(0))


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return (isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm)) or (
        isinstance(stmt, Seq) and not stmt.stmts
    )


def without_no_ops(s: Seq, parts: Iterable[Stmt]) -> Stmt:
    """A sequence with other statements, without those that do nothing."""
    kept = [x for x in parts if not is_no_op(x)]
    if len(kept) == len(s.stmts) and all(a is b for a, b in zip(kept, s.stmts, strict=True)):
        return s
    return seq(*kept) if kept else no_op()


def without_empty_sides(s: IfThenElse) -> Stmt:
    """A branch without sides that do nothing."""
    no = None if s.else_body is None or is_no_op(s.else_body) else s.else_body
    if is_no_op(s.then_body):
        return no_op() if no is None else IfThenElse(logical_not(s.condition), no)
    return s if no is s.else_body else IfThenElse(s.condition, s.then_body)


def intrinsic(op: str, *args: ExprLike) -> Stmt:
    """An effect, e.g. a host intrinsic."""
    return Evaluate(Call("int32", op, tuple([convert(a) for a in args])))


def walk(stmt: Stmt, closed: Callable[[Stmt], bool] | None = None) -> Iterator[Stmt]:
    """The statement and all statements below it, outside in, in execution order.

    closed  whether a statement is not entered: what is below it is left out
    """
    stack: list[Stmt] = [stmt]
    while stack:
        s = stack.pop()
        yield s
        if closed is None or not closed(s):
            stack.extend(reversed(sub_statements(s)))


def is_block(s: Stmt) -> bool:
    """Whether a statement is a block, with its bindings."""
    return isinstance(s, BlockRealize)


def own_exprs(s: Stmt) -> list[Expr]:
    """The expressions directly in a statement: not those of the statements below it."""
    return [c for c in s.children() if isinstance(c, Expr)]


def sub_statements(s: Stmt) -> list[Stmt]:
    """The statements directly below one."""
    if isinstance(s, BufferStore):  # most are
        return []
    if isinstance(s, For | LetStmt | Allocate):
        return [s.body]
    if isinstance(s, Block):
        return [s.body] if s.init is None else [s.init, s.body]
    return [c for c in s.children() if isinstance(c, Stmt)]
