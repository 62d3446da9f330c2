"""What rfactor does: a reduction in two steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.ir.build import all_of, is_const, value_of
from smelt.ir.expr import INDEX, Expr, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.facts import conjuncts
from smelt.tir.regions import refresh_regions

from .. import nodes
from .combiner import read_update
from .predicate import over_variables, own_conditions
from .require import Kind, binds, require_alone, require_kind, require_top
from .state import Change, State, allocating


class Factoring:
    """One call of rfactor."""

    def __init__(self, s: State, b: nodes.BlockRealize, target: nodes.For, axis: int) -> None:
        """Check that the loop can be factored out."""
        self.s, self.b, self.target = s, b, target
        require_kind(s, b, Kind.REDUCTION)
        require_top(s, b)
        self.loops = s.loops_above(b)
        self._check_loops()
        self.update = read_update(s, b)
        self.reduce_loops = [x for x in self.loops if binds(b, x.var, "reduce")]
        self._check_order()
        rank = len(self.update.point)
        if not -rank - 1 <= axis <= rank:
            s.fail(
                f"factor_axis {axis} is no place among {rank + 1} dimensions",
                mark={b: f"its result has {rank} dimensions"},
                legal=f"{-rank - 1} to {rank}",
            )
        self.axis = axis if axis >= 0 else axis + rank + 1

    def _check_loops(self) -> None:
        s, b, x = self.s, self.b, self.target
        kinds = {i.kind for i, v in b.bindings if x.var in free_vars(v)}
        if kinds != {"reduce"}:
            s.fail(
                f"{x.var.name} binds {' and '.join(sorted(kinds)) or 'no'} variables",
                mark={x: "loop"},
                legal="a loop that binds reduce variables only",
            )
        require_alone(s, self.loops, b)

    def _check_order(self) -> None:
        """Where equal candidates are told apart by their order, that order has to stay."""
        s, before = self.s, self.reduce_loops[: self.reduce_loops.index(self.target)]
        outside = [x for x in before if value_of(x.extent) != 1]
        if self.update.ordered and outside:
            s.fail(
                f"among equals {self.b.block.name} keeps the first one, and factoring "
                f"{self.target.var.name} out changes which that is",
                mark={outside[0]: "runs over the reduction too", self.target: "loop"},
                legal=f"{outside[0].var.name}, the outermost loop of the reduction; or a combiner "
                "that tells equals apart by their positions",
            )

    def carry_out(self) -> str:
        """Change the program; returns the name of the block of the first step."""
        s = self.s
        name = s.fresh_block(f"{self.b.block.name}_rf")
        partial = []
        for old in self.update.buffers:
            shape = self._with_axis(old.shape, self.target.extent)
            partial.append(nodes.Buffer(s.fresh(f"{old.name}_rf"), shape, old.type, "global"))
        first, second = self._first(name, partial), self._second(partial)
        top, scope = self.loops[0], s.scope(self.b).block
        changes: dict[nodes.Stmt, Change] = {self.b: first, scope: allocating(*partial)}
        s.replace({**changes, top: lambda x: nodes.seq(x, second)})
        return name

    def _with_axis(self, items: Sequence[Expr], new: Expr) -> tuple[Expr, ...]:
        """The shape or place of a result, with the new dimension."""
        return (*items[: self.axis], new, *items[self.axis :])

    def _first(self, name: str, partial: Sequence[nodes.Buffer]) -> nodes.Stmt:
        """The reduction of each iteration of the loop apart."""
        s, b, x, update = self.s, self.b, self.target, self.update
        factor = s.iter_var(f"v{x.var.name}", nodes.Range(x.min, x.extent))
        iters = [factor]
        values: list[Expr] = [x.var]
        to_own: dict[Var, Expr] = {x.var: factor.var}
        own: dict[Var, Expr] = {}
        for i, v in b.bindings:
            if i.kind == "spatial":
                iters.append(s.iter_var(i.var.name, i.dom))
                own[i.var] = iters[-1].var
                values.append(v)
        for loop in self.reduce_loops:
            if loop is not x:
                dom = nodes.Range(loop.min, loop.extent)
                iters.append(s.iter_var(f"v{loop.var.name}", dom, "reduce"))
                to_own[loop.var] = iters[-1].var
                values.append(loop.var)
        for i, v in b.bindings:
            if i.kind == "reduce":
                own[i.var] = substitute(v, to_own)
        own_point = [substitute(e, own) for e in update.point]
        point = self._with_axis(own_point, s.facts.simplify(factor.var - x.min))
        terms = [substitute(e, own) for e in update.terms]
        body = update.joined(s, partial, point, terms, own)
        guard, inside = self._divided(to_own, own)
        if not is_const(update.condition):
            inside.append(substitute(update.condition, own))
        if inside:
            body = nodes.IfThenElse(all_of(inside), body)
        starts = [substitute(e, own) for e in update.identities()]
        init = nodes.stores(partial, starts, point)
        block = refresh_regions(s.facts, nodes.Block(name, tuple(iters), (), (), body, init))
        return nodes.BlockRealize(tuple(values), guard, block)

    def _divided(
        self, to_own: Mapping[Var, Expr], own: Mapping[Var, Expr]
    ) -> tuple[Expr, list[Expr]]:
        """The predicate's part about results, and what tells which terms there are.

        The latter belongs to the update: the initial value of a partial result is needed even where
        it has no term, and the loops may be made anew.
        """
        s, b = self.s, self.b
        results: list[Expr] = []
        terms: list[Expr] = []
        reduced = {x.var for x in self.reduce_loops}
        known = set(to_own) | {p for p in s.func.params if isinstance(p, Var)}
        for c in conjuncts(b.predicate):
            if not free_vars(c) & reduced:
                results.append(c)
            elif free_vars(c) <= known:
                terms.append(substitute(c, to_own))
            else:
                mixed = over_variables(s, b, c)
                terms.append(substitute(mixed, own))
        return all_of(results), terms

    def _second(self, partial: Sequence[nodes.Buffer]) -> nodes.Stmt:
        """The reduction of the partial results; it keeps the block's name and spatial variables."""
        s, b, x, update = self.s, self.b, self.target, self.update
        spatial = [i for i in b.block.iter_vars if i.kind == "spatial"]
        k = s.iter_var(f"v{x.var.name}", nodes.Range(const(0, INDEX), x.extent), "reduce")
        terms = [nodes.BufferLoad(p, self._with_axis(update.point, k.var)) for p in partial]
        body = update.joined(s, update.buffers, update.point, terms, {})
        block = nodes.Block(b.block.name, (*spatial, k), (), (), body, b.block.init)
        block = refresh_regions(s.facts, block)
        begin = {i.var: i.dom.min for i in b.block.iter_vars if i.kind == "reduce"}
        return s.block_nest(block, all_of([substitute(c, begin) for c in own_conditions(s, b)]))
