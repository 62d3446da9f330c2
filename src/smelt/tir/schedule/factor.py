"""What rfactor does: a reduction in two steps."""

from __future__ import annotations

from typing import NoReturn

from smelt.ir.build import all_of
from smelt.ir.expr import INDEX, Add, And, Binary, Expr, Max, Min, Mul, Or, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.tir.nodes import (
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferStore,
    For,
    IfThenElse,
    IterVar,
    Range,
    Stmt,
    seq,
)

from .check import Kind, require_kind, require_top
from .facts import conjuncts
from .region import accesses
from .state import State, allocating

__all__ = ["Factoring"]


class Factoring:
    """One call of rfactor."""

    def __init__(self, s: State, b: BlockRealize, target: For, axis: int) -> None:
        """Check that the loop can be factored out."""
        self.s, self.b, self.target = s, b, target
        require_kind(s, b, Kind.REDUCTION)
        require_top(s, b)
        self.loops = s.loops_above(b)
        self._check_loops()
        self.update, self.init = self._stores()
        rank = len(self.update.indices)
        if not -rank - 1 <= axis <= rank:
            s.fail(
                f"factor_axis {axis} is no place among {rank + 1} dimensions",
                legal=f"{-rank - 1} to {rank}",
            )
        self.axis = axis if axis >= 0 else axis + rank + 1

    def _check_loops(self) -> None:
        s, b, x = self.s, self.b, self.target
        kinds = {
            i.kind
            for i, v in zip(b.block.iter_vars, b.values, strict=True)
            if x.var in free_vars(v)
        }
        if kinds != {"reduce"}:
            s.fail(
                f"{x.var.name} binds {' and '.join(sorted(kinds)) or 'no'} variables",
                mark={x: "loop"},
                legal="a loop that binds reduce variables only",
            )
        for outer, inner in zip(self.loops, self.loops[1:], strict=False):
            if outer.body is not inner:
                s.fail(
                    f"{b.block.name} is not alone in its loops",
                    mark={outer: "other statements inside"},
                    legal="a block alone in its loops",
                )

    def _stores(self) -> tuple[BufferStore, BufferStore]:
        body, init = self.b.block.body, self.b.block.init
        if (
            isinstance(body, BufferStore)
            and isinstance(init, BufferStore)
            and isinstance(body.value, Add | Mul | Min | Max | And | Or)
        ):
            old = BufferLoad(body.buffer, body.indices)
            if body.value.a is old or body.value.b is old:
                return body, init
        return self._refuse()

    def _refuse(self) -> NoReturn:
        self.s.fail(
            f"{self.b.block.name} does not join its result and a value by one of + "
            f"* min max and or",
            mark={self.b: "its body"},
            legal="one store of that form",
        )

    def carry_out(self) -> str:
        """Change the program; returns the name of the block of the first step."""
        s = self.s
        name, old = s.fresh_block(f"{self.b.block.name}_rf"), self.update.buffer
        shape = list(old.shape)
        shape.insert(self.axis, self.target.extent)
        partial = Buffer(s.fresh(f"{old.name}_rf"), tuple(shape), old.type, "global")
        first = self._first(name, partial)
        second = self._second(partial)
        scope = s.scope(self.b).block
        top = self.loops[0]
        s.replace(
            {
                self.b: first,
                top: lambda x: seq(x, second),
                scope: allocating(partial),
            }
        )
        return name

    def _joined(self, buffer: Buffer, at: tuple[Expr, ...], value: Expr) -> Stmt:
        whole = self.update.value
        assert isinstance(whole, Binary)
        return BufferStore(buffer, type(whole)(BufferLoad(buffer, at), value), at)

    def _value(self) -> Expr:
        whole = self.update.value
        assert isinstance(whole, Binary)
        return (
            whole.b if whole.a is BufferLoad(self.update.buffer, self.update.indices) else whole.a
        )

    def _first(self, name: str, partial: Buffer) -> Stmt:
        """The reduction of each iteration of the loop apart."""
        s, b, x = self.s, self.b, self.target
        factor = IterVar(s.new_var(f"v{x.var.name}", x.min, x.extent), Range(x.min, x.extent))
        iters = [factor]
        values: list[Expr] = [x.var]
        to_own: dict[Var, Expr] = {x.var: factor.var}
        own: dict[Var, Expr] = {}
        reduced = set().union(
            *[
                free_vars(v)
                for i, v in zip(b.block.iter_vars, b.values, strict=True)
                if i.kind == "reduce"
            ]
        )
        for i, v in zip(b.block.iter_vars, b.values, strict=True):
            if i.kind == "spatial":
                n = s.new_var(i.var.name, i.dom.min, i.dom.extent)
                own[i.var] = n
                iters.append(IterVar(n, i.dom))
                values.append(v)
        for loop in self.loops:
            if loop is not x and loop.var in reduced:
                n = s.new_var(f"v{loop.var.name}", loop.min, loop.extent)
                to_own[loop.var] = n
                iters.append(IterVar(n, Range(loop.min, loop.extent), "reduce"))
                values.append(loop.var)
        for i, v in zip(b.block.iter_vars, b.values, strict=True):
            if i.kind == "reduce":
                own[i.var] = substitute(v, to_own)
        at = [substitute(e, own) for e in self.update.indices]
        at.insert(self.axis, s.facts.simplify(factor.var - x.min))
        point = tuple(at)
        body = self._joined(partial, point, substitute(self._value(), own))
        # a guard that tells which terms there are belongs to the update: the initial value is
        # needed even where a partial result has no term, and the loops may be made anew
        terms: list[Expr] = []
        others: list[Expr] = []
        for c in conjuncts(b.predicate):
            (terms if free_vars(c) <= set(to_own) | self._sizes() else others).append(c)
        if terms:
            body = IfThenElse(substitute(all_of(terms), to_own), body)
        block = Block(
            name,
            tuple(iters),
            (),
            (),
            body,
            BufferStore(partial, substitute(self.init.value, own), point),
        )
        reads, writes = accesses(s.facts, block)
        guard = all_of(others)
        self._check_guard(guard, reduced)
        return BlockRealize(tuple(values), guard, block.replace(reads=reads, writes=writes))

    def _sizes(self) -> set[Var]:
        """The function's scalars: what an index may mention anywhere."""
        return {p for p in self.s.func.params if isinstance(p, Var)}

    def _check_guard(self, guard: Expr, reduced: set[Var]) -> None:
        """A guard must not skip the initial value of a partial result that is read later."""
        for c in conjuncts(guard):
            if free_vars(c) & reduced:
                at_start: dict[Var, Expr] = {
                    v.var: v.min for v in self.loops if v.var in reduced and v is not self.target
                }
                if not self.s.facts.prove(substitute(c, at_start)):
                    self.s.cannot_prove(
                        f"every iteration of {self.target.var.name} has a first element to reduce",
                        mark={self.b: "its guard"},
                        legal="factors that divide the extent",
                    )

    def _second(self, partial: Buffer) -> Stmt:
        """The reduction of the partial results; it keeps the block's name and spatial variables."""
        s, b, x = self.s, self.b, self.target
        spatial = [i for i in b.block.iter_vars if i.kind == "spatial"]
        k = IterVar(
            s.new_var(f"v{x.var.name}", 0, x.extent), Range(const(0, INDEX), x.extent), "reduce"
        )
        at = list(self.update.indices)
        at.insert(self.axis, k.var)
        block = Block(
            b.block.name,
            (*spatial, k),
            (),
            (),
            self._joined(self.update.buffer, self.update.indices, BufferLoad(partial, tuple(at))),
            self.init,
        )
        reads, writes = accesses(s.facts, block)
        domains = [*[i.dom for i in spatial], k.dom]
        return s.nest(
            [f"ax{n}" for n in range(len(domains))],
            [d.extent for d in domains],
            lambda loops: BlockRealize(
                tuple([s.facts.simplify(d.min + v) for d, v in zip(domains, loops, strict=True)]),
                const(True),
                block.replace(reads=reads, writes=writes),
            ),
        )
