"""Legality: what kind of block something is, and which loops may change places or run together.

A block's variables carry the algorithm's promise: instances with different spatial values are
independent, reduce variables only accumulate. What remains to be shown is about the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from smelt.ir.build import is_const
from smelt.ir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var, convert
from smelt.ir.node import Node
from smelt.ir.walk import free_vars
from smelt.tir.nodes import (
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    Stmt,
    no_op,
)

from .facts import conjuncts
from .guard import conditions
from .region import merge_digits, touched
from .state import State

__all__ = [
    "Kind",
    "check_concurrent",
    "check_merged",
    "check_reorder",
    "injective",
    "is_injective",
    "kind_of",
    "recheck",
    "require_around",
    "require_consumers_apart",
    "require_kind",
    "require_once",
    "require_operands_stay",
    "require_producers_apart",
    "require_top",
    "why_not",
]


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


def kind_of(state: State, b: BlockRealize) -> Kind:
    """The kind of a block."""
    return why_not(state, b)[0]


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


# ------------------------------------------------------------------------------------- bindings


def is_injective(state: State, b: BlockRealize, loops: Sequence[For]) -> bool:
    """Whether different iterations certainly give the block's variables different values."""
    return injective(state, b.values, loops, b.predicate)


def injective(
    state: State, values: Sequence[Expr], loops: Sequence[For], guard: Expr | None = None
) -> bool:
    """Whether different values of `loops` certainly give different `values`, where a guard holds.

    Mixed-radix reasoning: in each binding, written as a sum of terms, every coefficient must be
    at least as large as the span of the smaller terms; a loop must be seen whole in one binding.
    """
    wanted = {x.var for x in loops if getattr(x.extent, "value", None) != 1}
    queue: list[Expr] = list(values)
    known: list[Expr] = []
    while queue:
        for e in queue:
            known += _determined(state, e, loops, guard)
        merged = merge_digits(known, state.facts)
        queue = [e for e in merged if not isinstance(e, Var) and e not in known]
        known = [e for e in merged if e not in queue]
    return wanted <= set(known)


def _determined(state: State, value: Expr, loops: Sequence[For], guard: Expr | None) -> list[Expr]:
    """Variables, quotients and remainders whose value follows from the value of one expression."""
    if not free_vars(value) & {x.var for x in loops}:
        return [value]
    terms: dict[Expr, int] = {}
    if not _terms(value, 1, {x.var for x in loops}, terms):
        return []
    smaller: Expr = convert(0)
    span: Expr = convert(1)
    for atom, coefficient in sorted(terms.items(), key=lambda t: abs(t[1])):
        ends = _ends(state, atom, loops)
        if ends is None or not _fits(state, span, smaller, abs(coefficient), guard):
            return []
        if guard is not None:
            smaller = smaller + coefficient * (atom - ends[coefficient < 0])
        span = span + abs(coefficient) * state.facts.simplify(ends[1] - ends[0])
    return list(terms)


def _ends(state: State, atom: Expr, loops: Sequence[For]) -> tuple[Expr, Expr] | None:
    """The smallest and largest value of a loop variable, or of a quotient or remainder."""
    if isinstance(atom, Var):
        loop = next((x for x in loops if x.var is atom), None)
        if loop is not None and not free_vars(loop.min) and not free_vars(loop.extent):
            return loop.min, state.facts.simplify(loop.min + loop.extent - 1)
    return state.facts.relax(atom, loops)


def _fits(state: State, span: Expr, smaller: Expr, coefficient: int, guard: Expr | None) -> bool:
    """Whether the sum of the smaller terms, from 0 on, stays below a coefficient."""
    if state.facts.prove(convert(coefficient) >= span):
        return True
    if guard is None or is_const(guard):
        return False
    with state.facts.analyzer.assume(guard):
        return state.facts.prove(smaller < coefficient)


def _terms(e: Expr, factor: int, loops: set[Var], out: dict[Expr, int]) -> bool:
    """Collect `e` as a sum of factor * atom; False where it is none."""
    if not free_vars(e) & loops:
        return True
    if isinstance(e, Add):
        return _terms(e.a, factor, loops, out) and _terms(e.b, factor, loops, out)
    if isinstance(e, Sub):
        return _terms(e.a, factor, loops, out) and _terms(e.b, -factor, loops, out)
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        return _terms(e.a, factor * e.b.value, loops, out)
    if isinstance(e, Var | FloorDiv | FloorMod) and e not in out:
        out[e] = factor
        return True
    return False


# ---------------------------------------------------------------------------------- loop orders


def opaque_statement(s: Stmt) -> Stmt | None:
    """A statement with an effect that stands in no block."""
    stack: list[Stmt] = [s]
    while stack:
        node = stack.pop()
        if isinstance(node, BufferStore | Evaluate):
            return node
        if isinstance(node, BlockRealize):
            continue
        stack.extend(
            getattr(node, "stmts", None)
            or [
                x
                for x in (
                    getattr(node, "body", None),
                    getattr(node, "then_body", None),
                    getattr(node, "else_body", None),
                )
                if x
            ]
        )
    return None


def check_reorder(state: State, loops: Sequence[For]) -> None:
    """Refuse to let the iterations of a perfect nest (outermost first) run in another order."""
    body = loops[-1].body
    bare = opaque_statement(body)
    if bare is not None:
        state.cannot_prove(
            "a statement outside any block may run in another order", mark={bare: "not in a block"}
        )
    blocks = state.blocks_in(body)
    for b in blocks:
        for i, value in zip(b.block.iter_vars, b.values, strict=True):
            if i.kind == "opaque" and free_vars(value) & {x.var for x in loops}:
                state.cannot_prove(
                    f"the order of {i.var.name} in block {b.block.name} does not matter",
                    mark={b: "an opaque variable"},
                    legal="loops of spatial and reduce variables",
                )
        if any(i.kind == "reduce" for i in b.block.iter_vars):
            _check_accumulation(state, b, loops)
    if len(blocks) > 1:
        _check_covered(state, blocks, loops, "run in another order")


def _check_accumulation(state: State, b: BlockRealize, loops: Sequence[For]) -> None:
    """Each element is added to once a value of the reduce variables, its initial value first."""
    if not is_injective(state, b, [*loops, *state.loops_between(b, loops[-1])]):
        names = ", ".join(x.var.name for x in loops)
        state.cannot_prove(
            f"{b.block.name} adds each term once in the loops {names}",
            mark={b: "a reduction"},
            legal="loops of which each is seen in a variable of the block",
        )
    if b.block.init is None:
        return
    used: dict[str, set[Var]] = {"spatial": set(), "reduce": set()}
    for i, value in zip(b.block.iter_vars, b.values, strict=True):
        used.setdefault(i.kind, set()).update(free_vars(value))
    for x in loops:
        if x.var in used["spatial"] & used["reduce"]:
            state.cannot_prove(
                f"{b.block.name} sets its initial values before it adds to them",
                mark={x: "binds spatial and reduce variables", b: "has initial values"},
                legal="the same after decompose_reduction",
            )


def check_concurrent(state: State, loop: For, how: str, cross_thread: bool = False) -> None:
    """Refuse to run the iterations of a loop at once.

    cross_thread  the loop may bind reduce variables (threads that reduce together)
    """
    if is_const(loop.extent, 1):
        return
    bare = opaque_statement(loop.body)
    if bare is not None:
        state.cannot_prove(
            f"the iterations of {loop.var.name} are independent", mark={bare: "not in a block"}
        )
    blocks = state.blocks_in(loop.body)
    for b in blocks:
        uses = False
        for i, value in zip(b.block.iter_vars, b.values, strict=True):
            if loop.var not in free_vars(value):
                continue
            uses = True
            if i.kind == "spatial" or (cross_thread and i.kind == "reduce"):
                continue
            state.fail(
                f"{loop.var.name} cannot be {how}: its iterations all "
                f"{'add to the same elements' if i.kind == 'reduce' else 'depend on each other'} "
                f"(block {b.block.name}, variable {i.var.name} is {i.kind})",
                mark={loop: f"binds {i.kind} variable {i.var.name} of {b.block.name}"},
                legal="a loop that binds spatial variables only"
                + ("; rfactor makes a reduction parallel" if i.kind == "reduce" else ""),
            )
        if not uses or not _splits_writes(state, b, loop):
            _check_private(state, b, loop, how, uses)
    if len(blocks) > 1:
        _check_covered(state, blocks, [loop], f"be {how}")


def recheck(state: State, s: Stmt) -> None:
    """Refuse what a statement that is new here does to the concurrent loops around it."""
    for up in [s, *state.above(s)]:
        if isinstance(up, For) and up.kind in ("parallel", "vectorized", "thread_binding"):
            check_concurrent(state, up, up.kind, (up.thread or "").startswith("threadIdx"))


def rewriting_loops(state: State, w: BlockRealize) -> list[For]:
    """The loops whose iterations may put other values into the elements that a block writes."""
    bound: set[Var] = set()
    spatial = [i for i in w.block.iter_vars if i.kind == "spatial"]
    domains = [For(i.var, i.dom.min, i.dom.extent, no_op()) for i in spatial]
    for region in w.block.writes:
        at = [d.min for d in region.region]
        plain = {i.var for i in spatial} <= set(at)
        if not plain and not injective(state, at, domains):
            bound.update(i.var for i in spatial)
    values = zip(w.block.iter_vars, w.values, strict=True)
    moving = [v for i, v in values if i.kind == "opaque" or i.var in bound]
    used = set().union(*[free_vars(v) for v in moving])
    return [x for x in state.loops_above(w) if x.var in used and not is_const(x.extent, 1)]


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


def require_once(state: State, b: BlockRealize, loops: Sequence[For], why: str) -> None:
    """Refuse a block that may run twice for the same values of its variables while loops run.

    why  what would go wrong
    """
    if not is_injective(state, b, loops):
        unused = [
            x
            for x in loops
            if not is_const(x.extent, 1) and not any(x.var in free_vars(v) for v in b.values)
        ]
        mark: dict[Node, str] = {b: "a reduction"}
        legal = "loops of which each is seen in a variable of the block"
        if unused:
            names = ", ".join(x.var.name for x in unused)
            state.fail(
                f"{b.block.name} runs again in each iteration of {names}: {why}",
                mark={**mark, unused[0]: "no variable of the block"},
                legal=legal,
            )
        names = ", ".join(x.var.name for x in loops)
        state.cannot_prove(
            f"{b.block.name} runs once for each of its values in the loops {names}: "
            f"otherwise {why}",
            mark=mark,
            legal=legal,
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


def check_merged(state: State, loop: For) -> None:
    """Refuse a merged loop whose blocks use what other iterations make."""
    bare = opaque_statement(loop.body)
    if bare is not None:
        state.cannot_prove(
            "a statement outside any block may run in another order", mark={bare: "not in a block"}
        )
    _check_covered(state, state.blocks_in(loop.body), [loop], "run together")


def _splits_writes(state: State, b: BlockRealize, loop: For) -> bool:
    """Whether different iterations of `loop` certainly write different elements."""
    return is_injective(state, b, [loop, *state.loops_between(b, loop)]) or _boxes_apart(
        state, b, loop
    )


def _boxes_apart(state: State, b: BlockRealize, loop: For) -> bool:
    """Whether a spatial variable's range moves on by its own width or more each iteration."""
    inner = state.loops_between(b, loop)
    for i, value in zip(b.block.iter_vars, b.values, strict=True):
        if i.kind == "spatial" and loop.var in free_vars(value):
            ends = state.facts.relax(value, inner)
            step = None if ends is None else state.facts.step(ends[0], loop.var)
            if (
                ends is not None
                and step is not None
                and state.facts.prove(ends[1] - ends[0] < step)
            ):
                return True
    return False


def _check_private(state: State, b: BlockRealize, loop: For, how: str, uses: bool) -> None:
    """Where several iterations write the same elements, each must have them for itself."""
    params = set(state.func.buffers)
    inside = set(state.blocks_in(loop.body))
    scope = state.scope(loop)
    for w in b.block.writes:
        users = [
            x
            for x in state.blocks_in(scope.block)
            if any(r.buffer is w.buffer for r in (*x.block.reads, *x.block.writes))
        ]
        if w.buffer in params or how == "vectorized" or any(u not in inside for u in users):
            text = (
                f"{b.block.name} writes the same elements of {w.buffer.name} in "
                f"several iterations of "
                f"{loop.var.name}"
            )
            mark: dict[Node, str] = {b: f"writes {w.buffer.name}"}
            if not uses:
                state.fail(
                    f"{loop.var.name} cannot be {how}: {text}",
                    mark=mark,
                    legal="a loop that every block inside depends on",
                )
            state.cannot_prove(
                f"{loop.var.name} can be {how}: it may be that {text}",
                mark=mark,
                legal="loops whose iterations write separate elements",
            )


def _check_covered(
    state: State, blocks: Sequence[BlockRealize], loops: Sequence[For], what: str
) -> None:
    """What a block under `loops` takes from another one there is of the same iteration."""
    written: dict[Buffer, BlockRealize] = {}
    for b in blocks:
        for r in (*b.block.reads, *b.block.writes):
            first = written.get(r.buffer)
            if first is not None and first is not b:
                if any(w.buffer is r.buffer for w in b.block.writes):
                    _check_written_once(state, first, b, r.buffer, loops, what)
                _check_pair(state, first, b, r, loops, what)
        for w in b.block.writes:
            written.setdefault(w.buffer, b)
    for b in blocks:
        for r in b.block.reads:
            first = written.get(r.buffer)
            if first is not None and first is not b and blocks.index(first) > blocks.index(b):
                _check_written_once(state, first, b, r.buffer, loops, what)
                _check_pair(state, first, b, r, loops, what)


def _check_written_once(
    state: State,
    first: BlockRealize,
    then: BlockRealize,
    buffer: Buffer,
    loops: Sequence[For],
    what: str,
) -> None:
    """No other iteration of the loops writes again what this one has given to another block."""
    if not is_injective(state, first, [*loops, *state.loops_between(first, loops[-1])]):
        state.cannot_prove(
            f"the iterations of {' and '.join(x.var.name for x in loops)} may {what}: "
            f"{first.block.name} may write elements of {buffer.name} again in another iteration, "
            f"after {then.block.name} has changed or read them",
            mark={first: f"writes {buffer.name}", then: f"uses {buffer.name}"},
            legal="loops of which each is seen in a variable of the writing block",
        )


def _shared(state: State, first: BlockRealize, then: BlockRealize) -> list[Expr]:
    """The conditions of a block on the loops that stand around another one too."""
    around = {x.var for x in state.loops_above(first)} & {x.var for x in state.loops_above(then)}
    loops = {x.var for x in state.loops_above(then)}
    return [c for c in conjuncts(then.predicate) if free_vars(c) & loops <= around]


def _check_pair(
    state: State,
    first: BlockRealize,
    then: BlockRealize,
    region: BufferRegion,
    loops: Sequence[For],
    what: str,
) -> None:
    inside = loops[-1]
    need = touched(state, then, region, state.loops_between(then, inside))
    write = next(w for w in first.block.writes if w.buffer is region.buffer)
    guard = conditions(state, first, _shared(state, first, then))
    if guard is None or guard:
        state.cannot_prove(
            f"the iterations of {' and '.join(x.var.name for x in loops)} may {what}: "
            f"{first.block.name} runs under a condition, and {then.block.name} may use elements "
            f"of {region.buffer.name} that it wrote in another iteration",
            mark={first: "its guard", then: f"uses {region.buffer.name}"},
            legal="a writer without conditions of its own",
        )
    have = touched(state, first, write, state.loops_between(first, inside))
    for (low, high), (start, end), extent in zip(need, have, region.buffer.shape, strict=True):
        if not (state.facts.prove(low >= start) or state.facts.prove(start <= 0)) or not (
            state.facts.prove(high <= end) or state.facts.prove(end >= extent - 1)
        ):
            names = " and ".join(x.var.name for x in loops)
            state.cannot_prove(
                f"the iterations of {names} may {what}: {then.block.name} may use elements of "
                f"{region.buffer.name} that {first.block.name} writes in another iteration",
                mark={first: f"writes {region.buffer.name}", then: f"uses {region.buffer.name}"},
                legal="loops whose blocks use only what their own iteration writes",
            )
    for i, value in zip(first.block.iter_vars, first.values, strict=True):
        if i.kind != "spatial" and free_vars(value) & {x.var for x in loops}:
            state.fail(
                f"the iterations of {', '.join(x.var.name for x in loops)} may not "
                f"{what}: {then.block.name} "
                f"uses {region.buffer.name} while {first.block.name} still adds to it",
                mark={first: f"{i.var.name} is a {i.kind} variable"},
            )
