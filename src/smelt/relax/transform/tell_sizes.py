"""Operators whose sizes are computed, as operators of the core that use sizes of the run.

The numbers are computed like anything else, `sizes` tells them, and what has such extents depends
on it. The sizes are those of the call's inferred type, so that all types behind it still hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.build import value_of
from smelt.ir.errors import InternalError, SmeltError, TypeMismatch
from smelt.ir.expr import Expr
from smelt.ir.module import IRModule
from smelt.ir.tables import entering
from smelt.ir.types import TensorType, TupleType
from smelt.relax.compose import counts
from smelt.relax.compose.common import (
    along,
    cast_to,
    count_of,
    dtype_of,
    extents,
    index_vector,
    items_of,
    legal,
    normal_axis,
    rank_of,
    reshaped,
    scalar,
    shape_of,
)
from smelt.relax.compose.create import hot, size_vector
from smelt.relax.compose.index import largest, stacked
from smelt.relax.compose.shapes import FAR
from smelt.relax.host_ops import VM, behind, call_behind, needs_run, tellers
from smelt.relax.nodes import Call, RelaxExpr, Tuple, call

from .rewriting import transform_functions

FORMS: dict[str, Callable[[_Site], RelaxExpr | list[RelaxExpr]]] = {}
"""What stands for a call, by operator."""

_enter = entering(FORMS)
_NUMBER = f"the number of elements ({counts.UNTOLD})"


def tell_sizes(mod: IRModule) -> IRModule:
    """Calls whose types follow from values of the run become operators of the core. Types are
    inferred before."""
    return transform_functions(mod, _rewritten)


def _rewritten(old: Any, new: Any) -> RelaxExpr | None:
    if not needs_run(new):
        return None
    site = _Site(new)
    try:
        made = FORMS[site.op](site)
    except SmeltError as e:
        raise type(e)(f"{site.op}: {e}") from e
    if isinstance(made, list):
        return Tuple(
            tuple([_typed(m, t, site.op) for m, t in zip(made, new.type.items, strict=True)])
        )
    return _typed(made, new.type, site.op)


def _typed(x: RelaxExpr, t: Any, op: str) -> RelaxExpr:
    """A value with the type that was inferred; where branches meet, further extents of it are sizes
    of the run."""
    if x.type is t:
        return x
    definitions = tellers(_own(x), t.shape, f"{op}: the shape")
    found = call_behind(definitions, "reshape", x, shape=t.shape)
    if found.type is not t:
        raise InternalError(f"tell_sizes: {op} is {t}, its operators {x.type}")
    return found


class _Site:
    """A call that is replaced: its operands, and what tells the sizes in its type."""

    def __init__(self, node: Call) -> None:
        """A call whose type is inferred; operands are all there."""
        self.node, self.op = node, node.callee
        self.args: list[Any] = list(node.args)
        self.attrs = node.attrs
        t = node.type.items[0] if isinstance(node.type, TupleType) else node.type
        assert isinstance(t, TensorType)
        self.shape, self.dtype = t.shape, t.dtype
        self.definitions: list[RelaxExpr] = []

    def tell(
        self, numbers: RelaxExpr, what: str, wanted: RelaxExpr | None = None,
        sizes: Sequence[Expr] | None = None,
    ) -> None:  # fmt: skip
        """Let numbers be sizes of the result, of all its dimensions where none are given."""
        kept = self.shape if sizes is None else sizes
        where = f"{self.op}: {what}"
        self.definitions += tellers(numbers, kept, where, wanted, self.node.name)

    def call(self, op: str, *args: RelaxExpr, **attrs: Any) -> Call:
        """A call of a core operator that may use the sizes."""
        return call_behind(self.definitions, op, *args, name=self.node.name, **attrs)

    def run(self, size: Expr, dtype: str = "int64") -> Call:
        """0, 1, ... up to a size."""
        return self.call("arange", start=0, step=1, count=size, dtype=dtype)

    def vector(self, n: int) -> RelaxExpr:
        """An operand of numbers."""
        return cast_to(self.args[n], "int64")

    def number(self, n: int, dtype: str) -> RelaxExpr:
        """An operand that is one number."""
        count = value_of(count_of(self.args[n]))
        legal(count == 1, f"operand {n} has {'?' if count is None else count} elements, not 1")
        return cast_to(reshaped(self.args[n], ()), dtype)


@VM.op("vm.shape_of")
def _shape_of(x: RelaxExpr) -> RelaxExpr:
    """The extents as a vector: those that the value has where it is compiled."""
    return size_vector(shape_of(x), "int64")


def _own(x: RelaxExpr) -> RelaxExpr:
    """The extents of a value as a vector."""
    return call(VM.get("vm.shape_of"), x) if rank_of(x) else index_vector([])


def _item(vector: RelaxExpr, n: int) -> RelaxExpr:
    """A number of a vector."""
    return reshaped(along(vector, 0, n, n + 1), ())


def _padded(vector: RelaxExpr, rank: int) -> RelaxExpr:
    """A vector with 1 in front, as long as there are dimensions."""
    short = rank - (extents(vector)[0] or 0)
    return call("concat", index_vector([1] * short), vector, axis=0) if short else vector


def _chosen(condition: RelaxExpr, yes: RelaxExpr, no: RelaxExpr) -> RelaxExpr:
    return call("where", condition, yes, no)


# ---- of one value, of running numbers ------------------------------------------------------------


@_enter("dyn.full", "dyn.zeros", "dyn.ones")
def _full(s: _Site) -> RelaxExpr:
    s.tell(s.vector(len(s.args) - 1), "the shape")
    if s.op == "dyn.full":
        return s.call("broadcast_to", s.number(0, s.dtype), shape=s.shape)
    return s.call("full", shape=s.shape, value=float(s.op == "dyn.ones"), dtype=s.dtype)


@_enter("arange")
def _arange(s: _Site) -> RelaxExpr:
    floats = any(dt.is_float(dtype_of(a)) for a in s.args)
    wide = "float64" if floats else "int64"
    first, last, step = (s.number(n, wide) for n in range(3))
    s.tell(counts.steps_between(first, last, step), _NUMBER)
    far = call("multiply", s.run(s.shape[0], wide), step)
    return cast_to(call("add", far, first), s.dtype)


@_enter("dyn.one_hot")
def _one_hot(s: _Site) -> RelaxExpr:
    indices, on, off = s.args[0], s.number(1, s.dtype), s.number(2, s.dtype)
    at = normal_axis(s.attrs["axis"], rank_of(indices) + 1)
    s.tell(s.number(3, "int64"), "the depth", sizes=s.shape[at : at + 1])
    wide = dtype_of(indices) if dt.is_float(dtype_of(indices)) else "int64"
    return _chosen(hot(cast_to(indices, wide), s.run(s.shape[at], wide), at), on, off)


# ---- moved elements ------------------------------------------------------------------------------


@_enter("dyn.reshape")
def _reshape(s: _Site) -> RelaxExpr:
    x, rank = s.args[0], len(s.shape)
    own = _own(x)
    total = call("prod", own, axes=(0,), keepdims=True)
    rest = index_vector([0] * rank)  # where there is nothing to copy, 0 is an extent
    copied = along(call("concat", own, rest, axis=0), 0, 0, rank)
    kept = None if s.attrs["allowzero"] else copied
    s.tell(counts.completed_extents(s.vector(1), total, kept), "the shape", total)
    return s.call("reshape", x, shape=s.shape)


@_enter("dyn.broadcast_to")
def _broadcast_to(s: _Site) -> RelaxExpr:
    x, rank = s.args[0], len(s.shape)
    legal(rank >= rank_of(x), f"{rank} extents for a tensor of {rank_of(x)} dimensions")
    own, wanted = _padded(_own(x), rank), s.vector(1)
    s.tell(wanted, "the shape", _chosen(call("equal", own, scalar(1, "int64")), wanted, own))
    made = s.call("broadcast_to", x, shape=s.shape)  # its type has x's extents where these are told
    return s.call("reshape", made, shape=s.shape)


@_enter("dyn.tile")
def _tile(s: _Site) -> RelaxExpr:
    x: RelaxExpr = s.args[0]
    rank = len(s.shape)
    own, times = _padded(_own(x), rank), _padded(s.vector(1), rank)
    negative = call("less", times, scalar(0, "int64"))
    made = _chosen(negative, times, call("multiply", own, times))
    s.tell(made, "the extent of the result")
    x = call("expand_dims", x, axes=tuple(range(rank - rank_of(x))))
    for d, size in enumerate(s.shape):
        x = s.call("gather", x, s.run(size), axis=d, mode="wrap")
    return x


@_enter("dyn.strided_slice")
def _strided_slice(s: _Site) -> RelaxExpr:
    x: RelaxExpr = s.args[0]
    own = _own(x)
    cut = extents(s.args[1])[0] or 0
    legal(cut <= rank_of(x), f"begin has {cut} numbers; the data has {rank_of(x)} dimensions")
    begin, end, strides = (_filled(s.vector(n), cut, n) for n in (1, 2, 3))
    firsts, steps, many = [], [], []
    for d in range(cut):
        extent = _item(own, d)
        first, last, step = (_item(v, d) for v in (begin, end, strides))
        if s.attrs["slice_mode"] == "size":
            first, last, step = _counted(first, last, extent)
        first, last = (counts.clamped(v, extent, step, before=True) for v in (first, last))
        firsts.append(first)
        steps.append(step)
        many.append(counts.steps_between(first, last, step))
    if many:
        s.tell(stacked(many, 0), _NUMBER, sizes=s.shape[:cut])
    for d, (first, step) in enumerate(zip(firsts, steps, strict=True)):
        far = call("multiply", s.run(s.shape[d]), step)
        x = s.call("gather", x, call("add", far, first), axis=d)
    return x


def _filled(vector: RelaxExpr, count: int, operand: int) -> RelaxExpr:
    """Numbers for all dimensions: one step is that of each; ends left out are far."""
    have = extents(vector)[0] if rank_of(vector) == 1 else None
    if have is None:
        raise TypeMismatch(f"operand {operand} has to be a vector of known length")
    legal(have <= count, f"operand {operand} has {have} numbers, begin {count}")
    if operand == 3 and have == 1:
        return call("broadcast_to", vector, shape=(count,))
    rest = index_vector([FAR if operand == 2 else 1] * (count - have))
    return call("concat", vector, rest, axis=0) if have < count else vector


def _counted(
    begin: RelaxExpr, count: RelaxExpr, extent: RelaxExpr
) -> tuple[RelaxExpr, RelaxExpr, RelaxExpr]:
    """First, last and step of a slice of some elements; a negative number is all the rest."""
    one = scalar(1, "int64")
    first = call("mod", begin, call("maximum", extent, one))
    last = call("add", first, call("minimum", count, extent))
    negative = call("less", count, scalar(0, "int64"))
    return first, _chosen(negative, extent, last), one


# ---- chosen elements -----------------------------------------------------------------------------


@_enter("dyn.topk")
def _topk(s: _Site) -> RelaxExpr | list[RelaxExpr]:
    x = s.args[0]
    at = normal_axis(s.attrs["axis"], rank_of(x))
    all_of, k = _item(_own(x), at), s.number(1, "int64")
    few = call("less", k, scalar(1, "int64"))
    count = _chosen(few, all_of, call("minimum", k, all_of))
    s.tell(count, "k", sizes=s.shape[at : at + 1])
    x = behind(s.definitions, x)
    return largest(x, s.shape[at], at, s.attrs["ret_type"], not s.attrs["is_ascend"],
                   s.attrs["dtype"])  # fmt: skip


@_enter("argwhere")
def _argwhere(s: _Site) -> RelaxExpr:
    x, rank = s.args[0], rank_of(s.args[0])
    places, count = items_of(call("argwhere", x if rank else reshaped(x, (1,))))
    s.tell(count, "the number of elements", sizes=s.shape[:1])
    ends = {"axes": (0,), "begin": (0,), "end": s.shape[:1], "strides": (1,)}
    found = cast_to(s.call("strided_slice", places, **ends), s.dtype)
    return found if rank else along(found, 1, 0, 0)
