"""Sizes that operators need to be equal become one, so that the check at entry tells who is wrong.

    y = R.matmul(x, b)     x: R.Tensor((4, n), "float32"), b: R.Tensor((m, 4), "float32")

m becomes n: at entry, every extent that is called n has to have one value. An extent that meets a
number becomes that number. What cannot be solved for a size, 2 * a and 3 * b, is left to an
equation that is checked at entry too; so is that no extent is negative, such as that of a window
that is larger than its image.

Sizes that broadcast, as in R.add, stay two: either may be 1. `assume_equal` makes them one, for a
variant of the program that is taken where they are.
"""

from __future__ import annotations

from typing import Any

from smelt.arith import Analyzer
from smelt.ir.build import value_of
from smelt.ir.errors import CompileError
from smelt.ir.expr import GE, INDEX, Expr, Var, binary, const, convert
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.ir.walk import free_vars
from smelt.relax.match_cast import specialized
from smelt.relax.nodes import Call, Function, values
from smelt.relax.shapes import extents_of, sizes_of_parameters
from smelt.te.broadcast import EQUATIONS, LEAST, Pair
from smelt.topi.registry import Op

NOTES = "size_notes"
"""The attribute of "main" with a sentence a size that was replaced, for messages."""


def unify_sizes(mod: IRModule) -> IRModule:
    """A module whose "main" knows which of its sizes are equal.

    Raises a CompileError where two extents that have to be equal cannot be.
    """
    main = mod.functions.get("main")
    if not isinstance(main, Function):
        return mod
    notes: list[str] = list(main.attrs.get(NOTES, ()))
    while True:
        found = _Solver(main)
        if not found.replaced:
            break
        notes += found.notes
        main = specialized(main, found.replaced)
    attrs: dict[str, Any] = {NOTES: tuple(notes), EQUATIONS: tuple(found.left),
                             LEAST: tuple(found.least)}  # fmt: skip
    added = {k: v for k, v in attrs.items() if v and main.attrs.get(k) != v}
    if main is mod["main"] and not added:
        return mod
    return mod.with_functions({"main": main.replace(attrs={**main.attrs, **added})})


def assume_equal(main: Function) -> tuple[Function, dict[str, Expr]]:
    """A function for sizes that broadcast where they are equal, and what these sizes are then."""
    sizes: dict[str, Expr] = {}
    while (found := _Solver(main, assume=True)).replaced:
        sizes |= {v.name: e for v, e in found.replaced.items()}
        main = specialized(main, found.replaced)
    return main, sizes


class _Solver:
    """What the calls of a function say of its sizes.

    assume    whether sizes that broadcast are taken to be equal
    replaced  at most one size, and what it is
    left      equations that are not solved for one
    least     extents that may be negative, and whose they are
    """

    def __init__(self, main: Function, assume: bool = False) -> None:
        self.assume = assume
        self.order = sizes_of_parameters(main)
        self.analyzer = Analyzer(dict.fromkeys(self.order, (0, None)))
        self.replaced: dict[Var, Expr] = {}
        self.notes: list[str] = []
        self.left: dict[tuple[str, str, str, bool], None] = {}
        self.least: list[tuple[str, str]] = []
        self.seen: set[Expr] = set()
        if self.order:
            for node in values(main.body):
                if isinstance(node, Call) and isinstance(node.op, Op) and not self.replaced:
                    self.call(node)

    def call(self, v: Call) -> None:
        """The extents that one call takes to be equal."""
        assert isinstance(v.op, Op)
        types = [None if a is None else a.type for a in v.args]
        who = f"{v.name} ({v.op.name})" if v.name else v.op.name
        for e in extents_of(v.type):
            self.extent(e, who)
        if not all(isinstance(t, TensorType | None) for t in types):
            return
        for pair in v.op.instance(types, v.attrs).equal:  # type: ignore[arg-type]
            if not self.replaced and free_vars(pair.a) | free_vars(pair.b) <= set(self.order):
                self.pair(pair, who)

    def extent(self, e: Expr, who: str) -> None:
        """An extent of a result."""
        if e in self.seen or not free_vars(e) or not free_vars(e) <= set(self.order):
            return
        self.seen.add(e)
        if not self.analyzer.can_prove(binary(GE, e, 0)):
            self.least.append((str(e), who))

    def pair(self, pair: Pair, who: str) -> None:
        """Two extents that have to be equal, or may be 1."""
        a, b, either = pair
        apart = self.analyzer.simplify(a - b)
        known = value_of(apart)
        if known == 0:
            return
        if known is not None and not either:
            raise CompileError(
                f"{who} needs {a} and {b} to be equal, and they never are\n"
                "  give the sizes numbers or other names: smelt.compile(..., shapes={...})"
            )
        open_ = known is not None or (either and not self.assume)
        solved = None if open_ else self.number(apart) or self.name(a, b)
        if solved is None:
            left = str(a), str(b)
            if all({*left, either} != {c, d, e} for c, d, _, e in self.left):
                self.left[*left, who, either] = None
            return
        size, value = solved
        self.replaced = {size: value}
        self.notes.append(f"{size.name} is {value}: {who} needs it")

    def number(self, apart: Expr) -> tuple[Var, Expr] | None:
        """The only size of an equation apart == 0, where it is a number."""
        sizes = free_vars(apart)
        linear = self.analyzer.linear(apart, list(sizes)) if len(sizes) == 1 else None
        if linear is None:
            return None
        ((size, factor),) = linear[0].items()
        a, b = value_of(factor), value_of(linear[1])
        if not isinstance(a, int) or not isinstance(b, int) or not a or b % a or -b // a < 0:
            return None
        return size, const(-b // a, INDEX)

    def name(self, a: Expr, b: Expr) -> tuple[Var, Expr] | None:
        """A size that stands alone on one side, and the other side; of two, the later one."""
        sides = [(a, b), (b, a)]
        found = [(v, e) for v, e in sides if isinstance(v, Var) and v not in free_vars(e)]
        found = [(v, e) for v, e in found if v in self.order]
        if not found:
            return None
        size, value = max(found, key=lambda s: self.order.index(s[0]))
        return size, convert(value, INDEX)
