"""Index maps as primitives take them: Python functions, or `arith.IndexMap`s."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.arith import IndexMap
from smelt.arith.index_map import with_separators, without_separators
from smelt.ir.expr import INDEX, Expr, FloorMod, IntImm, Var, const, convert
from smelt.ir.walk import free_vars, substitute
from smelt.tir.names import unique_name
from smelt.tir.nodes import IterVar, Range

from .injective import injective
from .region import domain_loops
from .state import State
from .trace_text import Formula, expr_text, formula

IndexFunction = Callable[..., Any] | IndexMap
"""From the old indices to the new ones; AXIS_SEPARATOR may stand between new ones."""


@dataclass
class Mapped:
    """An index map on variables of known extents.

    iters       the variables, which run from 0
    results     the new indices
    separators  how many results stand before each AXIS_SEPARATOR
    """

    iters: list[IterVar]
    results: list[Expr]
    separators: tuple[int, ...]

    def text(self) -> Formula:
        """The map as a lambda, for the trace."""
        others = set().union(*[free_vars(r) for r in self.results]) - set(self.variables)
        taken = {v.name for v in others}
        own: dict[Var, Expr] = {v: Var(unique_name(v.name, taken)) for v in self.variables}
        texts = [expr_text(substitute(r, own)) for r in self.results]
        items = with_separators(texts, self.separators, "AXIS_SEPARATOR")
        names = ", ".join(expr_text(v) for v in own.values())
        return formula(f"lambda {names}: ({', '.join(items)},)")

    @property
    def variables(self) -> list[Var]:
        """What the results are expressions of."""
        return [i.var for i in self.iters]

    def at(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        """Where an element goes."""
        values = dict(zip(self.variables, indices, strict=True))
        return tuple([substitute(r, values) for r in self.results])

    def image(
        self,
        s: State,
        what: str,
        among: Sequence[IterVar] | None = None,
        padded: bool = False,
        assume_injective: bool = False,
    ) -> tuple[Expr, ...]:
        """The shape of the results; refuses a map that sends two elements to one place.

        among             the variables that tell elements apart; None for all
        padded            a remainder's dimension has the whole divisor's extent, however few
                          elements there are
        assume_injective  the caller answers for different places
        """
        loops = domain_loops(self.iters if among is None else among)
        if not assume_injective and not injective(s, self.results, loops):
            s.cannot_prove(
                f"the index map gives different elements of {what} different places",
                legal="sums of digits, quotients and remainders, "
                "e.g. lambda i, j: (i // 8, j, i % 8)",
            )
        shape: list[Expr] = []
        for r in self.results:
            ends = s.facts.relax(r, domain_loops(self.iters))
            if ends is None:
                s.cannot_prove(f"the index map of {what} has bounds", legal="affine indices")
            s.demand(
                ends[0] >= 0,
                f"the index map of {what} has negative results",
                f"the index map of {what} is never negative",
                legal="indices >= 0",
            )
            match r:
                case FloorMod(Var(), IntImm() as whole) if padded:
                    shape.append(whole)
                case _:
                    shape.append(s.facts.simplify(ends[1] + 1))
        return tuple(shape)


def read_map(s: State, index_map: IndexFunction, extents: Sequence[Expr]) -> Mapped:
    """An index map over the extents of a block or of one of its buffers; refuses what is none.

    Its text becomes the argument `index_map` of the call in the trace.
    """
    if not extents:
        legal = "a block with variables, a buffer with dimensions"
        s.fail("there are no indices to map", legal=legal)
    if isinstance(index_map, IndexMap):
        function, names = _of_index_map(index_map), [v.name for v in index_map.inputs]
    elif callable(index_map):
        function, names = index_map, _parameter_names(index_map)
    else:
        s.fail(
            f"{index_map!r} is no index map",
            legal="a function of the indices, e.g. lambda i, j: (j, i), or an IndexMap",
        )
    if len(names) != len(extents):
        names = [f"i{k}" for k in range(len(extents))]
    doms = [Range(const(0, INDEX), e) for e in extents]
    iters = [IterVar(Var(n), dom) for n, dom in zip(names, doms, strict=True)]
    for i in iters:
        s.facts.bind(i.var, i.dom.min, i.dom.extent)
    try:
        out = function(*[i.var for i in iters])
    except TypeError as e:
        s.fail(
            f"the index map does not take {len(extents)} indices: {e}",
            legal=f"a function of {len(extents)} indices",
        )
    outputs, separators = without_separators(out)
    for item in outputs:
        if not isinstance(item, Expr | int) and not hasattr(item, "as_expr"):
            s.fail(f"the index map gives {item!r}", legal="indices, and AXIS_SEPARATOR")
    found = Mapped(iters, [convert(item, INDEX) for item in outputs], tuple(separators))
    s.call.args["index_map"] = found.text()
    return found


def _of_index_map(m: IndexMap) -> Callable[..., Any]:
    def function(*indices: Expr) -> list[Any]:
        if len(indices) != len(m.inputs):
            raise TypeError(f"it takes {len(m.inputs)}")
        values = dict(zip(m.inputs, indices, strict=True))
        return with_separators([substitute(o, values) for o in m.outputs], m.axis_separators)

    return function


def _parameter_names(index_map: Callable[..., Any]) -> list[str]:
    try:
        params = list(inspect.signature(index_map).parameters.values())
    except (TypeError, ValueError):
        return []
    return [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
