"""FakeQuantizationToInteger: operators between qnn.dequantize and qnn.quantize work on integers.

A region is what lies between one quantize and the dequantizes that it is computed from. It becomes
integer operators as a whole or stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from smelt.ir.errors import SmeltError, TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered
from smelt.ir.types import TensorType
from smelt.relax.graph import operands
from smelt.relax.nodes import Call, Constant, RelaxExpr, Tuple, TupleGetItem, renewed_call
from smelt.relax.transform.match import given
from smelt.relax.transform.rewriting import transform_functions
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, is_call, make
from . import fake_quantization_rules
from .affine_types import (
    OPTIONAL,
    RULES,
    AffineType,
    NotInteger,
    TensorAffineType,
    TupleAffineType,
    register_fake_quantization_to_integer,
    register_optional_fake_quantization_to_integer,
)
from .passes import graph_pass
from .structure import FoldConstantExpr

__all__ = ["FakeQuantizationToInteger", "NotInteger", "TensorAffineType", "TupleAffineType",
           "quantized_region", "register_fake_quantization_to_integer",
           "register_optional_fake_quantization_to_integer"]  # fmt: skip

KEEPS_RANGE = (*fake_quantization_rules.MOVES, *fake_quantization_rules.SAME_AXIS, "transpose",
               "layout_transform", "split", "concatenate", "nn.relu", "clip", "minimum", "maximum",
               "nn.pad", "image.resize2d", "nn.upsampling")  # fmt: skip
"""Operators whose results saturate where their operands do."""


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> Pass:
    """Operators between qnn.dequantize and qnn.quantize become operators on integers.

    hard_fail         a region that stays in floats is an error, which names the first operator
                      that stopped it; else it stays
    use_qat           operators on dequantized numbers whose result is not quantized again become
                      integer ones with a qnn.dequantize behind them
    optional_qnn_ops  operators that become integer ones only where named here: nn.softmax
    """
    wanted = set(optional_qnn_ops or ())
    for name in sorted(wanted - OPTIONAL):
        raise TypeMismatch(
            f"FakeQuantizationToInteger: optional_qnn_ops has {name!r}; legal: "
            f"{', '.join(sorted(OPTIONAL))}{nearest(name, sorted(OPTIONAL))}"
        )
    off = OPTIONAL - wanted

    def run(mod: IRModule) -> IRModule:
        mod = transform_functions(mod, lambda old, new: _integer_region(new, off, hard_fail))
        if use_qat:
            mod = transform_functions(mod, lambda old, new: _dequantized_late(new, off))
        return mod

    return graph_pass("FakeQuantizationToInteger", run)


# --------------------------------------------------------------------------------------- regions


def _integer_region(q: Any, off: set[str], hard_fail: bool) -> RelaxExpr | None:
    """What a quantize becomes; None: it stays."""
    if not is_call(q, "qnn.quantize"):
        return None
    region = quantized_region(given(q)[0])
    if not any(is_call(n, "qnn.dequantize") for n in region):
        return None
    want = _settled(q)
    try:
        made, t = _Region(region, want, off).run()
    except _Stopped as stop:
        if hard_fail:
            raise Unsupported(f"FakeQuantizationToInteger: {stop}") from stop
        return None
    if not isinstance(t, TensorAffineType):
        return None
    if t.same(want):
        return made
    axis = want.axis if t.one else t.axis
    return make("qnn.requantize", made, *t.numbers, *want.numbers, axis=axis, out_dtype=want.dtype)


class _Stopped(Exception):
    """A value of a region has no integer form."""


def _settled(q: Call) -> TensorAffineType:
    scale, zero = (_known(a) for a in q.args[1:])
    return TensorAffineType(scale, zero, q.attrs["out_dtype"], q.attrs["axis"])


def _known(x: RelaxExpr | None) -> RelaxExpr:
    """A scale or zero point, computed where it follows from constants."""
    return x if isinstance(x, Constant) else FoldConstantExpr(x, None)  # type: ignore[arg-type]


def _below(n: RelaxExpr) -> list[RelaxExpr]:
    """The values of a region that one of its values is computed from."""
    inside = isinstance(n.op, Op) if isinstance(n, Call) else isinstance(n, Tuple | TupleGetItem)
    return operands(n) if inside and not is_call(n, "qnn.dequantize") else []


def quantized_region(root: RelaxExpr) -> list[RelaxExpr]:
    """Everything between a value and the dequantizes below it, operands first."""
    return list(ordered([root], _below))


class _Region:
    """The values between one quantize and its dequantizes.

    want  what the quantize makes of the last one; None: there is no quantize
    """

    def __init__(
        self, nodes: list[RelaxExpr], want: TensorAffineType | None, off: set[str]
    ) -> None:
        self.nodes, self.want, self.off = nodes, want, off
        self.new: dict[Node, RelaxExpr] = {}
        self.types: dict[Any, Any] = {}
        self.settled = self._settled_nodes() if want is not None else set()

    def _settled_nodes(self) -> set[Node]:
        """The values of which the result's scale and type are right: nothing that could change
        their range stands between them and the quantize."""
        root = self.nodes[-1]
        good: Counter[Node] = Counter()
        uses: Counter[Node] = Counter()
        for n in reversed(self.nodes):
            here = n is root or (uses[n] > 0 and uses[n] == good[n])
            name = n.op.name if isinstance(n, Call) and isinstance(n.op, Op) else ""
            keeps = here and (not isinstance(n, Call) or name in KEEPS_RANGE)
            for b in _below(n):
                uses[b] += 1
                good[b] += keeps
        return {n for n in self.nodes if n is root or (uses[n] > 0 and uses[n] == good[n])}

    def run(self) -> tuple[RelaxExpr, AffineType | None]:
        """The last value and its type."""
        for n in self.nodes:
            made, t = self.visit(n)
            if isinstance(t, TensorAffineType) and not t.same(self.types.get(made, t)):
                # the same integers stand for different numbers
                made = made.replace() if isinstance(made, Call | Constant) else make("copy", made)
            self.new[n] = made
            if t is not None:
                self.types[made] = t
        last = self.new[self.nodes[-1]]
        return last, self.types.get(last)

    def visit(self, n: RelaxExpr) -> tuple[RelaxExpr, AffineType | None]:
        """A value on integers and what they stand for; constants of floats have no type."""
        match n:
            case Constant():
                return n, None
            case Tuple():
                made = n.with_children(lambda c: self.new.get(c, c))
                types = [self.types.get(i) for i in made.items]
                known = [t for t in types if isinstance(t, TensorAffineType)]
                return made, TupleAffineType(known) if len(known) == len(types) else None
            case TupleGetItem(value, index):
                whole = self.new[value]
                t = self.types.get(whole)
                return TupleGetItem(whole, index), t.types[index] if t is not None else None
            case Call() if is_call(n, "qnn.dequantize"):
                x, scale, zero = given(n)
                assert isinstance(x.type, TensorType)
                t = TensorAffineType(_known(scale), _known(zero), x.type.dtype, n.attrs["axis"])
                return x, t
            case Call(op) if isinstance(op, Op):
                return self.call(n)
        raise _Stopped(f"{_shown(n)} is not quantized")

    def call(self, n: Call) -> tuple[RelaxExpr, AffineType]:
        """An operator's call by its rule."""
        name = n.callee
        fn = RULES.get(name) if RELAY.ops.get(name) is n.op else None
        if fn is None:
            raise _Stopped(f"{name} has no integer form")
        if name in self.off:
            raise _Stopped(f"{name} becomes an integer operator only where optional_qnn_ops has it")
        on = n.replace(args=tuple([None if a is None else self.new[a] for a in n.args]))
        if n in self.settled:
            self.types[on] = self.want
        try:
            made, t = fn(on, self.types)
            made = made.astuple() if hasattr(made, "astuple") else made
            made = renewed_call(on, *on.args) if made is on else made
        except SmeltError as e:
            raise _Stopped(f"{name} stays in floats: {e}") from e
        finally:
            self.types.pop(on, None)
        return made, t


def _shown(n: RelaxExpr) -> str:
    name = getattr(n, "name_hint", "")
    return f"the variable {name}" if name else f"a {type(n).__name__}"


# ------------------------------------------------------------------------------------- use_qat


def _dequantized_late(n: Any, off: set[str]) -> RelaxExpr | None:
    """op(dequantize(x), ...)  =  dequantize(op'(x, ...)), where op' needs no scale of the result"""
    if not isinstance(n, Call) or not isinstance(n.op, Op) or n.op.name not in RULES:
        return None
    groups = [a.items if isinstance(a, Tuple) else (a,) for a in n.args if a is not None]
    parts = [p for g in groups for p in g]
    if not any(is_call(p, "qnn.dequantize") for p in parts) or not all(
        isinstance(p, Constant) or is_call(p, "qnn.dequantize") for p in parts
    ):
        return None
    region = quantized_region(n)
    try:
        made, t = _Region(region, None, off).run()
    except _Stopped:
        return None
    if not isinstance(t, TensorAffineType) or not isinstance(n.type, TensorType):
        return None
    return make("qnn.dequantize", made, *t.numbers, axis=t.axis, out_dtype=n.type.dtype)
