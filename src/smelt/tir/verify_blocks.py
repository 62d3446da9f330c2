"""The rules of blocks: what they declare covers what they do.

Only what is shown to be wrong is refused; what cannot be decided is let through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.arith import Answer
from smelt.ir.build import is_const, minimum
from smelt.ir.expr import Expr
from smelt.ir.walk import free_vars

from . import nodes
from .facts import Facts
from .printer import region_text, script
from .regions import accesses

Fail = Callable[[str, Mapping[Any, str]], None]


def verify_blocks(func: nodes.PrimFunc, fail: Fail) -> None:
    """Check the blocks of a program whose structure is right.

    Iteration variables stay in their domains, the regions that a block declares cover what its
    body loads and stores (a block that declares no regions of a kind leaves them open).

    fail  called with what is wrong and the nodes to mark; raises
    """
    facts = Facts(func)
    stack: list[tuple[nodes.Stmt, tuple[nodes.For, ...], bool]] = [(func.body, (), False)]
    while stack:
        s, loops, guarded = stack.pop()
        if isinstance(s, nodes.BlockRealize):
            if not guarded and is_const(s.predicate, 1):
                for it, value in s.bindings:
                    _domain(facts, s.block, it, value, loops, fail)
            if s.block.reads or s.block.writes:
                _regions(facts, s.block, fail)
            loops, guarded = (), False
        elif isinstance(s, nodes.For):
            loops = (*loops, s)
        elif isinstance(s, nodes.IfThenElse):
            guarded = True
        stack.extend((x, loops, guarded) for x in nodes.sub_statements(s))


def _domain(
    facts: Facts,
    block: nodes.Block,
    it: nodes.IterVar,
    value: Expr,
    loops: Sequence[nodes.For],
    fail: Fail,
) -> None:
    """An iteration variable without a predicate: the loops around keep it in its domain."""
    used = [x for x in loops if x.var in free_vars(value)]
    names = {x.var for x in loops}
    if any((free_vars(x.min) | free_vars(x.extent)) & names for x in used):
        return  # not every combination of iterations happens
    if not used or facts.analyzer.linear(value, [x.var for x in used]) is None:
        return
    ends = facts.relax(value, used)
    if ends is None:
        return
    first, last = it.dom.min, facts.simplify(it.dom.min + it.dom.extent - 1)
    for end, wrong in ((ends[0], ends[0] < first), (ends[1], ends[1] > last)):
        if facts.answer(wrong) is Answer.YES:
            fail(
                f"{it.var.name} of block {block.name} is {script(value)}, which comes to "
                f"{script(end)}; its domain is {script(first)} ... {script(last)}",
                {it: "leaves its domain"},
            )


def _regions(facts: Facts, block: nodes.Block, fail: Fail) -> None:
    """What the body touches lies in the regions of T.reads and T.writes."""
    reads, writes = accesses(facts, block)
    for kind, found, declared in (("reads", reads, block.reads), ("writes", writes, block.writes)):
        said = _said(block, kind)
        for r in found if declared else ():
            if r.buffer.name in said:
                continue  # the user answers for it
            same = [d for d in declared if d.buffer is r.buffer]
            if kind == "reads" and not same and _is_own(r.buffer, block):
                continue  # a reduction's own result need not be listed
            if all(_misses(facts, d, r) for d in same):
                shown = ", ".join([region_text(d) for d in same]) or "nothing of it"
                fail(
                    f"block {block.name} {kind} {region_text(r)}, and declares {shown}",
                    {block: f"T.{kind} leaves it out"},
                )


def _said(block: nodes.Block, kind: str) -> set[str]:
    """The buffers whose regions a schedule was told, or told to leave out."""
    notes = (f"explicit_{kind[:-1]}_region", f"hidden_{kind[:-1]}_access")
    return {name for note in notes for name in block.annotations.get(note, ())}


def _is_own(buffer: nodes.Buffer, block: nodes.Block) -> bool:
    return any(w.buffer is buffer for w in block.writes)


def _misses(facts: Facts, declared: nodes.BufferRegion, touched: nodes.BufferRegion) -> bool:
    """Whether a declared region certainly leaves out a part of another one.

    Nothing lies beyond a buffer's shape, even if the loops around a guarded block reach further.
    """
    for d, t, size in zip(declared.region, touched.region, declared.buffer.shape, strict=True):
        if facts.answer(t.min < d.min) is Answer.YES:
            return True
        if facts.answer(minimum(t.min + t.extent, size) > d.min + d.extent) is Answer.YES:
            return True
    return False
