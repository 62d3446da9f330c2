"""Operators between dequantize and quantize work on integers.

A region is what lies between one quantize and the dequantizes that it is computed from. It becomes
integer operators as a whole or stays as it is. A dialect that writes quantized numbers in words of
its own says so by its `Words`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.errors import SmeltError, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered
from smelt.ir.types import TensorType
from smelt.relax.compose import affine, integer
from smelt.relax.compose.common import dtype_of, rank_of
from smelt.relax.compose.operands import const
from smelt.relax.graph import operands
from smelt.relax.graph_op import Dialect, GraphOp
from smelt.relax.nodes import (
    Call,
    Constant,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    incomplete,
    renewed_call,
    values,
)
from smelt.topi.registry import Op, get_op

from .affine_types import (
    AffineType,
    NoForm,
    NotInteger,
    Rule,
    TensorAffineType,
    TupleAffineType,
    Types,
)
from .fake_quantization_rules import rule_of, source_axes
from .fold_constants import fold_expression
from .rewriting import transform_functions


class Words:
    """How quantized numbers are written: here in the core's operators.

    dialect  whose operators the rules are about
    rules    of operators of the dialect, in front of those of the core's; others are expanded
    off      operators of the dialect that stay in floats, and what has to be done that they do not
    """

    dialect: Dialect | None = None
    rules: Mapping[str, Rule] = {}
    off: Mapping[str, str] = {}

    def op(self, name: str) -> Op:
        """quantize or dequantize."""
        return get_op(name)

    def write(self, name: str, *given: RelaxExpr, **attrs: Any) -> RelaxExpr:
        """A call of requantize, dequantize, or an operator of compose/affine.py."""
        fn = affine.OPERATORS.get(name)
        return call(name, *given, **attrs) if fn is None else fn(*given, **attrs)

    def matmul(
        self, a: RelaxExpr, b: RelaxExpr, s: TensorAffineType, t: TensorAffineType, *turned: bool
    ) -> RelaxExpr:
        """A product of matrices in int32; turned: whether a, and b, is transposed first."""
        return integer.product_sums(a, b, s.zero_point, t.zero_point, *turned)

    def function(self, n: Call, x: RelaxExpr, *numbers: RelaxExpr) -> RelaxExpr:
        """A function of one operand: one of compose/affine.py, or else looked up."""
        fn = affine.OPERATORS.get(n.callee)
        if fn is not None:
            return fn(x, *numbers, **n.attrs)
        return affine.by_table(lambda v: renewed_call(n, v), x, *numbers)

    @staticmethod
    def lifted(node: RelaxExpr) -> RelaxExpr | None:
        """A value of the core's operators in the dialect's; None: it stays."""
        return None

    def region(self, root: RelaxExpr) -> list[RelaxExpr]:
        """Everything between a value and the dequantizes below it, operands first."""
        return list(ordered([root], self.below))

    def below(self, n: RelaxExpr) -> list[RelaxExpr]:
        """The values of a region that one of its values is computed from."""
        kind = n.op if isinstance(n, Call) else n
        inside = isinstance(kind, Op | Tuple | TupleGetItem) and not self.dequantizes(n)
        return operands(n) if inside else []

    def dequantizes(self, n: RelaxExpr) -> bool:
        """Whether a value is a call of dequantize."""
        return isinstance(n, Call) and n.op is self.op("dequantize")


CORE = Words()


def fake_quantization_to_integer(
    mod: IRModule, hard_fail: bool = False, use_qat: bool = False, words: Words = CORE
) -> IRModule:
    """A module whose operators between dequantize and quantize are operators on integers.

    hard_fail  a region that stays in floats is an error, which names the first operator that
               stopped it; else it stays
    use_qat    operators on dequantized numbers whose result is not quantized again become integer
               ones with a dequantize behind them
    """
    mod = transform_functions(mod, lambda old, new: _integer_region(new, words, hard_fail))
    if use_qat:
        mod = transform_functions(mod, lambda old, new: dequantized_late(new, words))
    return mod


# --------------------------------------------------------------------------------------- regions


class _Stopped(Exception):
    """A value of a region has no integer form."""


def _integer_region(q: Any, words: Words, hard_fail: bool) -> RelaxExpr | None:
    """What a quantize becomes; None: it stays."""
    if not isinstance(q, Call) or q.op is not words.op("quantize") or q.args[0] is None:
        return None
    region = words.region(q.args[0])
    if not any(words.dequantizes(n) for n in region):
        return None
    try:
        want = affine_type(q, q.attrs["out_dtype"])
        whole = _Region(region, want, words)
        made, t = whole.run()
        if not isinstance(t, TensorAffineType):
            return None
        if not t.same(want):
            axis = want.axis if t.one else t.axis
            made = words.write("requantize", made, *t.numbers, *want.numbers, axis=axis,
                               out_dtype=want.dtype)  # fmt: skip
        return whole.in_words(made)
    except (_Stopped, SmeltError) as stop:
        if hard_fail:
            raise Unsupported(f"FakeQuantizationToInteger: {stop}") from stop
        return None


def affine_type(n: Call, dtype: str) -> TensorAffineType:
    """What the integers of a quantize or dequantize stand for."""
    scale, zero = (const(0) if a is None else a for a in (*n.args[1:], None)[:2])
    if any(rank_of(v) > 1 for v in (scale, zero)):
        raise NotInteger(f"the scales of a {n.callee} have several dimensions")
    if not dt.is_int(dtype):
        raise NotInteger(f"quantized numbers are {dtype}; legal: integers")
    known = fold_expression(scale), fold_expression(zero)
    return TensorAffineType(*known, dtype, n.attrs["axis"])


class _Region:
    """The values between one quantize and its dequantizes.

    want  what the quantize makes of the last one; None: there is no quantize
    """

    def __init__(self, nodes: list[RelaxExpr], want: TensorAffineType | None, words: Words) -> None:
        self.nodes, self.want, self.words = nodes, want, words
        self.new: dict[Node, RelaxExpr] = {}
        self.types = Types(words)
        self.settled: set[Node] = set() if want is None else self._settled(nodes)

    def _settled(self, nodes: list[RelaxExpr]) -> set[Node]:
        """The values of which the scale and type of the last one are right: nothing that could
        change their range stands between them."""
        good: Counter[Node] = Counter()
        uses: Counter[Node] = Counter()
        found: set[Node] = set()
        for n in reversed(nodes):
            if n is nodes[-1] or (uses[n] > 0 and uses[n] == good[n]):
                found.add(n)
            below = self.words.below(n)
            keeps = n in found and any(map(self.words.below, below)) and _keeps_range(n)
            for b in below:
                uses[b] += 1
                good[b] += keeps
        return found

    def run(self) -> tuple[RelaxExpr, AffineType | None]:
        """The last value and its type."""
        for n in self.nodes:
            name = n.callee if isinstance(n, Call) else type(n).__name__
            try:
                self.enter(n)
            except NoForm as e:
                raise _Stopped(f"{name} has no integer form") from e
            except SmeltError as e:
                raise _Stopped(f"{name} stays in floats: {e}") from e
        last = self.new[self.nodes[-1]]
        return last, self.types.get(last)

    def in_words(self, made: RelaxExpr) -> RelaxExpr:
        """A result with the core's operators in it as the dialect's."""
        done: dict[Node, RelaxExpr] = {}
        ends = {self.new[n] for n in self.nodes if not self.words.below(n)}
        for n in ordered([made], lambda n: [] if n in ends else operands(n)):
            new = n if n in ends else n.with_children(lambda c: done.get(c, c))
            done[n] = self.words.lifted(new) or new
        return done[made]

    def enter(self, n: RelaxExpr) -> None:
        """Find the integers of a value, and what they stand for."""
        made, t = self.visit(n)
        if isinstance(t, TensorAffineType) and not t.same(self.types.get(made, t)):
            # the same integers stand for different numbers
            copy = call("identity", made)
            known = isinstance(made, Call | Constant)
            made = made.replace() if known else self.words.lifted(copy) or copy
        self.new[n] = made
        if t is not None:
            self.types[made] = t

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
                return whole[index], self.types.get(whole[index]) if t is None else t.types[index]
            case Call(op) if isinstance(op, Op):
                if self.words.dequantizes(n):
                    x = n.args[0]
                    assert x is not None
                    return x, affine_type(n, dtype_of(x))
                return self.call(n, op)
        raise _Stopped(f"{_shown(n)} is not quantized")

    def call(self, n: Call, op: Op) -> tuple[RelaxExpr, AffineType | None]:
        """An operator's call by its rule, or by its body's."""
        on = n.replace(args=self.given(n))
        fixed = all(isinstance(a, Constant | None) for a in on.args)
        if fixed and not any(a in self.types for a in on.args):
            known = fold_expression(on)
            if isinstance(known, Constant):
                return known, None
        fn: Rule | None = None
        if not isinstance(op, GraphOp):
            fn = rule_of(n)
        elif op.dialect is self.words.dialect:
            fn = self.words.rules.get(op.name)
            if op.name in self.words.off:
                raise _Stopped(f"{op.name} {self.words.off[op.name]}")
        if fn is None:
            return self.by_body(n, on)
        if n in self.settled:
            self.types[on] = self.want
        try:
            made, t = fn(on, self.types)
        finally:
            self.types.pop(on, None)
        made = made.astuple() if hasattr(made, "astuple") else made
        made = renewed_call(on, *on.args) if made is on else made
        return fold_expression(made) if fixed else made, t

    def by_body(self, n: Call, on: Call) -> tuple[RelaxExpr, AffineType | None]:
        """A call of a dialect's operator by the rules of those that it is written in.

        It stays a call of its operator where all of these stay calls of theirs.
        """
        op = n.op
        if not isinstance(op, GraphOp) or op.dialect is None or op.needs:
            raise NoForm(f"no rule is about {n.callee}")
        body = op.expand(n)
        written = ordered([body], lambda m: [] if m in self.new else self.words.below(m))
        todo = [m for m in written if m not in self.new]
        if n in self.settled and todo:
            self.settled |= self._settled(todo)
        for m in todo:
            self.enter(m)
        made = self.new[body]
        t = self.types.get(made)
        if t is None:
            raise NoForm(f"{n.callee} gives numbers that are not quantized")
        return (renewed_call(on, *on.args) if all(map(self._stays, todo)) else made), t

    def _stays(self, n: RelaxExpr) -> bool:
        """Whether a value's integers are those that the same operator makes of its operands'."""
        made = self.new[n]
        if not isinstance(n, Call) or not isinstance(made, Call):
            return not isinstance(n, Call)
        return (made.op, made.attrs, made.args) == (n.op, n.attrs, self.given(n))

    def given(self, n: Call) -> tuple[RelaxExpr | None, ...]:
        """The integers of the operands of a call."""
        return tuple([None if a is None else self.new[a] for a in n.args])


def _keeps_range(n: RelaxExpr) -> bool:
    """Whether a value saturates where those that it is computed from do."""
    if not isinstance(n, Call) or not isinstance(n.op, Op):
        return True
    if not isinstance(n.op, GraphOp):
        return n.op.chooses or source_axes(n) is not None
    if n.op.dialect is None or n.op.needs or incomplete(n.type):
        return False
    apart = [a if isinstance(a, Constant | None) else Var("x", a.type) for a in n.args]
    return all(map(_keeps_range, values(n.op.expand(n.replace(args=tuple(apart))))))


def _shown(n: RelaxExpr) -> str:
    name = getattr(n, "name_hint", "")
    return f"the variable {name}" if name else f"a {type(n).__name__}"


# ------------------------------------------------------------------------------------- use_qat


def why_in_floats(n: Call, words: Words) -> str:
    """Why `dequantized_late` leaves a call on dequantized numbers as it is."""
    try:
        _Region(words.region(n), None, words).run()
    except _Stopped as stop:
        return str(stop)
    return "its result has no scale"


def dequantized_late(n: Any, words: Words) -> RelaxExpr | None:
    """op(dequantize(x), ...)  =  dequantize(op'(x, ...)), where op' needs no scale of the result"""
    if not isinstance(n, Call) or not isinstance(n.op, Op):
        return None
    groups = [a.items if isinstance(a, Tuple) else (a,) for a in n.args if a is not None]
    parts = [p for g in groups for p in g if not isinstance(p, Constant)]
    if not parts or not all(map(words.dequantizes, parts)):
        return None
    whole = _Region(words.region(n), None, words)
    try:
        made, t = whole.run()
    except _Stopped:
        return None
    if not isinstance(t, TensorAffineType) or not isinstance(n.type, TensorType):
        return None
    made = words.write("dequantize", made, *t.numbers, axis=t.axis, out_dtype=n.type.dtype)
    return whole.in_words(made)
