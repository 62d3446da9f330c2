"""decompose_padding: the constant of a padding taken out of the block that copies."""

from __future__ import annotations

from smelt.ir.build import all_of
from smelt.ir.expr import Call, FloatImm, IntImm
from smelt.ir.walk import substitute
from smelt.tir.facts import conjuncts

from .. import nodes
from .handles import BlockRV
from .primitive import Base, primitive
from .region import refreshed
from .renamed import beside
from .require import Kind, require_around, require_kind


class PaddingPrimitives(Base):
    """decompose_padding, can_decompose_padding."""

    @primitive
    def decompose_padding(self, block: str, loop: str) -> BlockRV:
        """Write the constant of a padding before a loop, and only copy inside of it.

        Before
            for i in range(10):
                with T.block("P"):
                    v = T.axis.spatial(10, i)
                    P[v] = T.if_then_else(v >= 1 and v < 9, A[v - 1], 0.0)
        Step    decompose_padding("P", "i")
        After
            for i_pad in range(10):
                with T.block("P_pad_const"):
                    v_pad = T.axis.spatial(10, i_pad)
                    P[v_pad] = 0.0
            for i in range(10):
                with T.block("P"):
                    T.where(i >= 1 and i < 9)
                    v = T.axis.spatial(10, i)
                    P[v] = A[v - 1]
        Needs   a complete block that stores if_then_else(condition, value, constant), and a loop
                around it.
        """
        (s, b), target = self._at(block), self.state.loop(loop)
        require_kind(s, b, Kind.COMPLETE)
        store = b.block.body
        if not (
            isinstance(store, nodes.BufferStore)
            and isinstance(store.value, Call)
            and store.value.op == "if_then_else"
            and isinstance(store.value.args[2], FloatImm | IntImm)
        ):
            s.fail(
                f"{b.block.name} does not store if_then_else(condition, value, constant)",
                mark={b: "its body"},
                legal="a padding block",
            )
        require_around(s, target, b)
        condition, value, constant = store.value.args
        name = s.fresh_block(f"{b.block.name}_pad_const")
        padding = store.replace(value=constant)
        loops = [target, *s.loops_between(b, target)]
        plain = [nodes.For(x.var, x.min, x.extent, x.body) for x in loops]
        nest = beside(s, name, "pad", b.bindings, plain, padding, [b.predicate])
        inner = b.block.replace(body=store.replace(value=value))
        inside = [s.facts.simplify(substitute(c, b.var_values)) for c in conjuncts(condition)]
        guard = all_of(conjuncts(b.predicate), inside)
        copying = nodes.BlockRealize(b.values, guard, refreshed(s, inner))
        s.replace({b: copying, target: lambda old: nodes.seq(nest, old)})
        return BlockRV(name)

    def can_decompose_padding(self, block: str, loop: str) -> bool:
        """Whether decompose_padding would take a block and a loop. A question: not in the trace."""
        return self._would_take("decompose_padding", block, loop)
