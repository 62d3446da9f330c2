"""The primitive that moves work on constants out of a program."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Add, Expr, Var
from smelt.ir.walk import substitute
from smelt.tir.rewrite import Rewriter

from .. import nodes
from .combiner import read_update
from .exchange import replace_buffer
from .primitive import Base, primitive
from .require import (
    Kind,
    require_intermediate,
    require_kind,
    require_readers,
    require_store,
    why_not,
)
from .state import Relaid, State, releasing


class PrecomputePrimitives(Base):
    """precompute."""

    @primitive
    def precompute(self, block: str) -> None:
        """Let a parameter hold what a block makes of it, so that the program need not: of a model's
        constant it is made when the model is compiled.

        Before
            B = T.alloc_buffer((4, 2))
            for i, j in T.grid(4, 2):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v * 2 + w] * 2.0
            for i_1, j_1 in T.grid(4, 2):
                with T.block("C"):
                    v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                    C[v_1, w_1] = B[v_1, w_1] + 1.0
        Step    precompute("B")
        After
            for i_1, j_1 in T.grid(4, 2):
                with T.block("C"):
                    v_1, w_1 = T.axis.remap("SS", [i_1, j_1])
                    C[v_1, w_1] = A[v_1, w_1] + 1.0
        Needs   a complete block that makes every element of an intermediate buffer of one
                parameter, which is dense and nothing else uses. Or a block that sums: others may
                use the parameter then, since the sums become one of their own, behind those that
                are given.
        """
        s, b = self._at(block)
        store = require_store(s, b)
        require_kind(s, b, Kind.COMPLETE, Kind.REDUCTION)
        made, sums = store.buffer, why_not(s, b)[0] is Kind.REDUCTION
        require_intermediate(s, b, made, "which would be lost")
        require_readers(s, b, made)
        value = _sum(s, b) if sums else store.value
        given = _only_parameter(s, b, made, shared=sums)
        _require_whole(s, b, store)
        new = nodes.Buffer(made.name if sums else given.name, made.shape, made.type, given.scope)
        at = tuple([Var(f"i{k}") for k in range(made.rank)])
        own = [i.var for i in b.block.iter_vars if i.kind != "reduce"]
        value = substitute(value, dict(zip(own, at, strict=True)))
        before = s.relaid.get(given.name)
        if before is not None:
            if before.value is None or isinstance(before.value, nodes.Reduce):
                what = f"{given.name} holds sums, or it is not known what"
                s.fail(what, mark={b: "reads it"}, legal="a parameter whose elements were moved")
            value = _Followed(given, before.at, before.value).expr(value)
        root = next(x for x in nodes.walk(s.func.body)
                    if isinstance(x, nodes.Block) and made in x.alloc_buffers)  # fmt: skip
        s.replace({b: None, root: releasing(made)})
        replace_buffer(s, made, new)
        s.set_func(s.func.replace(params=_parameters(s.func, given, new)))
        first = given if before is None else before.given
        s.relaid = {**s.relaid, new.name: Relaid(first, at, value)}


class _Followed(Rewriter):
    """Puts what was given in place of a parameter that steps have made of it."""

    def __init__(self, now: nodes.Buffer, at: Sequence[Var], held: Expr) -> None:
        super().__init__()
        self.now, self.at, self.held = now, at, held

    def visit_expr(self, e: Expr) -> Expr:
        """An element of the parameter as an expression of the one that was given."""
        new = super().visit_expr(e)
        if isinstance(new, nodes.BufferLoad) and new.buffer is self.now:
            return substitute(self.held, dict(zip(self.at, new.indices, strict=True)))
        return new


def _parameters(
    func: nodes.PrimFunc, given: nodes.Buffer, new: nodes.Buffer
) -> tuple[nodes.Buffer | Var, ...]:
    """The parameters with a new one: in place of another, or behind all that are only read."""
    if new.name == given.name:
        return tuple([new if p is given else p for p in func.params])
    blocks = [x for x in nodes.walk(func.body) if isinstance(x, nodes.Block)]
    written = {w.buffer for x in blocks for w in x.writes}
    at = next(n for n, p in enumerate(func.params) if p in written)
    return (*func.params[:at], new, *func.params[at:])


def _sum(s: State, b: nodes.BlockRealize) -> nodes.Reduce:
    """What a block sums, as an expression."""
    update = read_update(s, b)
    (value, term, start) = update.values[0], update.terms[0], update.starts[0]
    if not (len(update.values) == 1 and isinstance(value, Add) and is_const(start, 0)):
        s.fail(f"{b.block.name} does more than sum", mark={b: "it"}, legal="a sum from 0")
    x, y = (Var(n, value.dtype) for n in "xy")
    combiner = nodes.Combiner("sum", (x,), (y,), (x + y,), (start,))
    axes = tuple([i for i in b.block.iter_vars if i.kind == "reduce"])
    return nodes.Reduce(combiner, (term,), axes, update.condition)


def _only_parameter(
    s: State, b: nodes.BlockRealize, made: nodes.Buffer, shared: bool
) -> nodes.Buffer:
    """The one buffer that a block reads, beside what it makes.

    shared  whether others may use it
    """
    read = list(dict.fromkeys([x.buffer for x in b.block.reads if x.buffer is not made]))
    legal = "a block of one parameter, which is dense"
    if len(read) != 1 or read[0] not in s.func.buffers:
        names = ", ".join([x.name for x in read]) or "nothing"
        s.fail(f"{b.block.name} reads {names}", mark={b: "reads"}, legal=legal)
    (given,) = read
    if given.strides:
        s.fail(f"{given.name} has strides", mark={b: "reads it"}, legal=legal)
    users: Sequence[nodes.BlockRealize] = [
        r for r in s.index.blocks.values()
        if r is not b and r.block.name != "root"
        and any(x.buffer is given for x in (*r.block.reads, *r.block.writes))
    ]  # fmt: skip
    if users and not shared:
        s.fail(
            f"{users[0].block.name} uses {given.name}, too",
            mark={users[0]: "another user"},
            legal="a parameter that one block uses",
        )
    return given


def _require_whole(s: State, b: nodes.BlockRealize, store: nodes.BufferStore) -> None:
    """The block's variables are the places of the elements, all of them."""
    spatial = [i for i in b.block.iter_vars if i.kind != "reduce"]
    own = [i.var for i in spatial]
    extents = zip(spatial, store.buffer.shape, strict=False)
    whole = list(store.indices) == own and is_const(b.predicate)
    if not whole or not all(s.facts.equal(i.dom.extent, e) for i, e in extents):
        s.fail(
            f"{b.block.name} does not store element by element",
            mark={b: f"makes {store.buffer.name}"},
            legal="a block as te makes it, whose variables are the indices of the element",
        )
