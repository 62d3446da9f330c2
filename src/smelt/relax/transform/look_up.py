"""Functions of one 8-bit number are looked up.

    quantize(f(dequantize(x)))  =  gather(table, x)

f may be of several operators, which quantize and dequantize in between, as long as each element of
the result follows from the one element of x at its place. Only what computes a transcendental is
worth a table: for the rest arithmetic on vectors is faster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax.compose.common import cast_to, dtype_of
from smelt.relax.graph import transform
from smelt.relax.graph_op import GraphOpInstance, by_element, instance_of
from smelt.relax.nodes import Call, Constant, RelaxExpr, call, constant, renewed_call, values
from smelt.te.tensor import ComputeOp, topological
from smelt.tir.script_ops import INTRINSICS, TRANSCENDENTAL, expr_nodes

from .fold_constants import fold_expression
from .match import is_op
from .rewriting import map_functions


class _Looked(NamedTuple):
    """What a value is as a function of an 8-bit one.

    source  the 8-bit value; table: the function's 256 values
    heavy   whether a transcendental is computed on the way
    """

    source: RelaxExpr
    table: RelaxExpr
    heavy: bool


def look_up(mod: IRModule) -> IRModule:
    """A module in which functions of 8-bit numbers that take long are tables."""
    return map_functions(mod, lambda f: _Tables().of(f))


class _Tables:
    """The tables of one function."""

    def __init__(self) -> None:
        self.found: dict[RelaxExpr, _Looked] = {}
        self.numbers: dict[RelaxExpr, RelaxExpr] = {}
        self.new: dict[RelaxExpr, RelaxExpr] = {}

    def of(self, f: Any) -> Any:
        """The function with its tables."""
        return transform(f, self.visit)

    def visit(self, old: RelaxExpr, new: RelaxExpr) -> RelaxExpr | None:
        """A value, looked up where that is worth it; None: it stays."""
        looked = None if self.is_number(old) else self.read(old)
        if looked is None:
            self.new[old] = new
            return None
        self.found[old] = looked
        made = None
        if looked.heavy and looked.source is not old and _is_narrow(old):
            index = cast_to(call("reinterpret", self.new[looked.source], dtype="uint8"), "int32")
            made = call("gather", looked.table, index, axis=0, mode="clip")
        self.new[old] = new if made is None else made
        return made

    def is_number(self, v: RelaxExpr) -> bool:
        """Whether a value is one constant number; what it is is kept."""
        known = v
        if isinstance(v, Call) and by_element(v):
            if not all(a is None or a in self.numbers for a in v.args):
                return False
            known = fold_expression(v)
        if not isinstance(known, Constant) or known.data.size != 1:
            return False
        self.numbers[v] = known
        return True

    def read(self, v: RelaxExpr) -> _Looked | None:
        """A value as a function of the first 8-bit one that it follows from."""
        if is_op(v, "identity") and v.args[0] in self.found:
            return self.found[v.args[0]]
        found = self.followed(v) if isinstance(v, Call) and by_element(v) else None
        if found is None and _is_narrow(v) and not isinstance(v, Constant):
            codes = np.arange(256, dtype="uint8").view(dt.to_numpy(dtype_of(v)))
            return _Looked(v, constant(codes), False)
        return found

    def followed(self, v: Call) -> _Looked | None:
        """A call that needs one value which is a function of an 8-bit one, and numbers."""
        given = [a for a in v.args if a is not None and a not in self.numbers]
        known = [self.found[a] for a in given if a in self.found]
        if not known or len(known) < len(given) or len({k.source for k in known}) > 1:
            return None
        source = known[0].source
        if not isinstance(v.type, TensorType) or v.type.shape != source.type.shape:  # type: ignore[attr-defined]
            return None
        known_at = {**self.numbers, **{a: self.found[a].table for a in given}}
        args = [None if a is None else known_at[a] for a in v.args]
        table = fold_expression(renewed_call(v, *args))
        heavy = any(k.heavy for k in known) or _is_heavy(v)
        return _Looked(source, table, heavy) if isinstance(table, Constant) else None


def _is_narrow(v: RelaxExpr) -> bool:
    return isinstance(v.type, TensorType) and v.type.dtype in ("int8", "uint8")


def _is_heavy(v: Call) -> bool:
    """Whether a call computes a transcendental."""
    found: Any = instance_of(v)
    if isinstance(found, GraphOpInstance):
        return any(_is_heavy(n) for n in values(found.body) if isinstance(n, Call))
    stages = [s for s in topological(found.outputs) if isinstance(s, ComputeOp)]
    nodes = [n for s in stages for e in s.body for n in expr_nodes(e)]
    known = [INTRINSICS.get(getattr(n, "op", "")) for n in nodes]
    return any(k is not None and k.cost >= TRANSCENDENTAL for k in known)
