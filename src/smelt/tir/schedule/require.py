"""What primitives require of a block: its kind, its place, its producers and consumers.

A block's variables carry the algorithm's promise: instances with different spatial values are
independent, reduce variables only accumulate.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from smelt.ir.build import value_of
from smelt.ir.expr import Var
from smelt.ir.walk import free_vars
from smelt.tir.nodes import BlockRealize, Buffer, BufferStore, For, Stmt

from .injective import rewriting_loops
from .state import State


class Kind(Enum):
    """What a block is to its scope."""

    COMPLETE = "complete"
    REDUCTION = "reduction"
    OTHER = "other"


def why_not(state: State, b: BlockRealize) -> tuple[Kind, str]:
    """The kind of a block; for OTHER also the reason."""
    found = state._checked.get(b)
    if isinstance(found, tuple) and found[0] is state.func:
        return found[1], found[2]
    kind, reason = _classify(state, b)
    state._checked[b] = (state.func, kind, reason)
    return kind, reason


def _classify(state: State, b: BlockRealize) -> tuple[Kind, str]:
    block = b.block
    written = {w.buffer for w in block.writes}
    scope = state.scope(b)
    for buffer in written:
        for other in state.writers(scope, buffer):
            if other is not b:
                return Kind.OTHER, f"{buffer.name} is written by block {other.block.name} too"
    kinds = {i.kind for i in block.iter_vars}
    if "opaque" in kinds:
        return Kind.OTHER, "it has opaque variables"
    if block.init is None and "reduce" in kinds:
        return Kind.OTHER, "it accumulates, but its initial value is set elsewhere"
    if block.init is None:
        for r in block.reads:
            if r.buffer in written:
                return Kind.OTHER, f"it reads and writes {r.buffer.name}"
        return Kind.COMPLETE, ""
    reduce = {i.var for i in block.iter_vars if i.kind == "reduce"}
    for w in block.writes:
        for d in w.region:
            if free_vars(d.min) & reduce:
                return Kind.OTHER, f"{w.buffer.name} is indexed by a reduce variable"
    return Kind.REDUCTION, ""


def require_kind(state: State, b: BlockRealize, *kinds: Kind) -> None:
    """Refuse a block of another kind."""
    kind, reason = why_not(state, b)
    if kind not in kinds:
        wanted = " or ".join(k.value for k in kinds)
        state.fail(
            f"{b.block.name} is not a {wanted} block: {reason or f'it is a {kind.value} block'}",
            mark={b: reason or kind.value},
            legal=f"a {wanted} block",
        )


def require_around(state: State, loop: For, b: BlockRealize) -> None:
    """Refuse a loop that does not stand around a block."""
    if loop not in state.loops_above(b):
        names = ", ".join(x.var.name for x in state.loops_above(b))
        state.fail(
            f"{loop.var.name} is not a loop around {b.block.name}",
            mark={loop: "loop", b: "block"},
            legal=names or "none: it stands in no loop",
        )


def require_top(state: State, b: BlockRealize) -> None:
    """Refuse a block inside another one: it computes only a part of what its variables could be."""
    outer = state.scope(b)
    if outer.block.name != "root":
        state.fail(
            f"{b.block.name} stands inside block {outer.block.name}",
            mark={b: "this block"},
            legal="a block directly in the function",
        )


def require_alone(state: State, loops: Sequence[For], b: BlockRealize) -> None:
    """Refuse loops (outermost first) around a block that hold other statements too."""
    for x, below in zip(loops, [*loops[1:], b], strict=False):
        if x.body is not below:
            state.fail(
                f"{b.block.name} is not alone in {x.var.name}",
                mark={x: "other statements inside", b: "block"},
                legal="loops with nothing but the block inside",
            )


def only_block(state: State, s: Stmt, name: str) -> BlockRealize:
    """The one block of a loop or block of that name."""
    blocks = state.blocks_in(s)
    if len(blocks) != 1:
        state.fail(
            f"{name} holds {len(blocks)} blocks",
            mark=dict.fromkeys(blocks, "block"),
            legal="a loop around one block",
        )
    return blocks[0]


def require_store(state: State, b: BlockRealize) -> BufferStore:
    """The one store that a block is; refuses a block that is more."""
    body = b.block.body
    if not isinstance(body, BufferStore):
        state.fail(
            f"{b.block.name} is more than one store",
            mark={b: "its body"},
            legal="a block whose body is one store",
        )
    return body


def binds(b: BlockRealize, v: Var, kind: str) -> bool:
    """Whether a variable stands in the value of a block's variable of that kind."""
    return any(i.kind == kind and v in free_vars(value) for i, value in b.bindings)


def require_intermediate(state: State, b: BlockRealize, buffer: Buffer, why: str) -> None:
    """Refuse a block that writes a parameter. why: what has to become of that."""
    if buffer in state.func.params:
        state.fail(
            f"{b.block.name} writes the parameter {buffer.name}, {why}",
            mark={b: "writes a parameter"},
            legal="a block that writes an intermediate buffer",
        )


def require_readers(state: State, b: BlockRealize, buffer: Buffer) -> list[BlockRealize]:
    """The blocks that read a result; refuses where there are none, or some stand before."""
    readers = [r for r in state.readers(state.scope(b), buffer) if r is not b]
    if not readers:
        state.fail(
            f"nothing reads {buffer.name}", mark={b: "no consumer"}, legal="a block with readers"
        )
    for r in readers:
        if state.index.order[r] < state.index.order[b]:
            state.fail(
                f"{r.block.name} reads {buffer.name} before {b.block.name} makes it",
                mark={r: "reads it"},
                legal="readers behind the block",
            )
    return readers


def require_finished(state: State, b: BlockRealize, around: Sequence[For]) -> None:
    """Refuse a block that accumulates over iterations of loops, outermost first, around it."""
    for i, value in b.bindings:
        for x in around if i.kind != "spatial" else ():
            if x.var in free_vars(value) and value_of(x.extent) != 1:
                state.fail(
                    f"{b.block.name} is not finished inside {around[-1].var.name}: {x.var.name} "
                    f"runs over its {i.kind} variable {i.var.name}",
                    mark={x: f"binds {i.var.name}", b: "producer"},
                    legal=f"a loop outside {x.var.name}",
                )


def require_consumers_apart(state: State, b: BlockRealize, buffer: Buffer) -> None:
    """Refuse a block whose result is used inside its own outermost loop."""
    top = state.top(b, state.scope(b).block)
    for r in state.readers(state.scope(b), buffer):
        if r is not b and state.is_under(r, top):
            state.fail(
                f"{r.block.name} uses {buffer.name} inside the loops of {b.block.name}",
                mark={b: f"writes {buffer.name}", r: "uses it"},
                legal="the same before the blocks are joined",
            )


def require_producers_apart(state: State, b: BlockRealize, buffer: Buffer) -> None:
    """Refuse a block whose operand is made inside its own outermost loop, or behind it."""
    top = state.top(b, state.scope(b).block)
    for w in state.writers(state.scope(b), buffer):
        if w is not b and (state.is_under(w, top) or state.index.order[w] > state.index.order[b]):
            state.fail(
                f"{w.block.name} makes {buffer.name} inside or behind the loops of {b.block.name}",
                mark={b: f"reads {buffer.name}", w: "writes it"},
                legal="the same before the blocks are joined",
            )


def require_operands_stay(state: State, b: BlockRealize, place: Stmt) -> None:
    """Refuse to read, somewhere else, operands that other iterations overwrite in the meantime."""
    scope = state.scope(b)
    for buffer in {r.buffer: None for r in b.block.reads}:
        for w in state.writers(scope, buffer):
            if w is b:
                continue
            for x in rewriting_loops(state, w):
                if not (state.is_under(b, x) and state.is_under(place, x)):
                    state.fail(
                        f"{b.block.name} reads {buffer.name}, which {w.block.name} overwrites in "
                        f"the iterations of {x.var.name}",
                        mark={x: "overwrites it", b: f"reads {buffer.name}"},
                        legal=f"a place inside {x.var.name}",
                    )
