"""The primitive that moves work on constants out of a program."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.ir.build import is_const
from smelt.ir.expr import Var
from smelt.ir.walk import substitute
from smelt.tir.rewrite import loads

from .. import nodes
from .exchange import replace_buffer
from .primitive import Base, primitive
from .require import Kind, require_intermediate, require_kind, require_readers, require_store
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
                parameter, which is dense, nothing else uses and no step has laid out anew.
        """
        s, b = self._at(block)
        store = require_store(s, b)
        require_kind(s, b, Kind.COMPLETE)
        require_intermediate(s, b, store.buffer, "which would be lost")
        require_readers(s, b, store.buffer)
        given = _only_parameter(s, b, store)
        _require_whole(s, b, store)
        made = store.buffer
        new = nodes.Buffer(given.name, made.shape, made.type, given.scope)
        at = tuple([Var(f"i{k}") for k in range(made.rank)])
        own = dict(zip([i.var for i in b.block.iter_vars], at, strict=True))
        value = substitute(store.value, own)
        root = next(x for x in nodes.walk(s.func.body)
                    if isinstance(x, nodes.Block) and made in x.alloc_buffers)  # fmt: skip
        s.replace({b: None, root: releasing(made)})
        replace_buffer(s, made, new)
        params = tuple([new if p is given else p for p in s.func.params])
        s.set_func(s.func.replace(params=params))
        s.relaid = {**s.relaid, given.name: Relaid(given, at, value)}


def _only_parameter(s: State, b: nodes.BlockRealize, store: nodes.BufferStore) -> nodes.Buffer:
    """The one buffer that a block reads, which nothing else uses."""
    read = list(dict.fromkeys([x.buffer for x in loads(store.value)]))
    legal = "a block of one parameter, as it was given"
    if len(read) != 1 or read[0] not in s.func.buffers:
        names = ", ".join([x.name for x in read]) or "nothing"
        s.fail(f"{b.block.name} reads {names}", mark={b: "reads"}, legal=legal)
    (given,) = read
    if given.name in s.relaid or given.strides:
        what = "is laid out anew already" if given.name in s.relaid else "has strides"
        s.fail(f"{given.name} {what}", mark={b: "reads it"}, legal=legal)
    users: Sequence[nodes.BlockRealize] = [
        r for r in s.index.blocks.values()
        if r is not b and r.block.name != "root"
        and any(x.buffer is given for x in (*r.block.reads, *r.block.writes))
    ]  # fmt: skip
    if users:
        s.fail(
            f"{users[0].block.name} uses {given.name}, too",
            mark={users[0]: "another user"},
            legal="a parameter that one block uses",
        )
    return given


def _require_whole(s: State, b: nodes.BlockRealize, store: nodes.BufferStore) -> None:
    """The block's variables are the places of the elements, all of them."""
    own = [i.var for i in b.block.iter_vars]
    extents = zip(b.block.iter_vars, store.buffer.shape, strict=False)
    whole = list(store.indices) == own and is_const(b.predicate)
    if not whole or not all(s.facts.equal(i.dom.extent, e) for i, e in extents):
        s.fail(
            f"{b.block.name} does not store element by element",
            mark={b: f"makes {store.buffer.name}"},
            legal="a block as te makes it, whose variables are the indices of the element",
        )
