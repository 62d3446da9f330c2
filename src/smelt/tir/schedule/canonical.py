"""The form that schedules work on: unique names, wide indices, every block with its regions."""

from __future__ import annotations

from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Var
from smelt.ir.walk import free_vars
from smelt.tir.nodes import Block, BlockRealize, For, LetStmt, PrimFunc, walk
from smelt.tir.regions import with_regions
from smelt.tir.rewrite import UniqueNames

from .wide import with_wide_indices


def canonicalize(func: PrimFunc) -> PrimFunc:
    """An equal function: unique names, indices of 64 bits, blocks that list reads and writes."""
    if not (isinstance(func.body, BlockRealize) and func.body.block.name == "root"):
        raise ScheduleError(
            f"{func.name} is not in block form: its body must be the block 'root' "
            "(a lowered program cannot be scheduled)"
        )
    body = func.body
    if any(len(set(names)) < len(names) for names in bound_names(func)):
        root = UniqueNames({p.name for p in func.params}).stmt(body.block)
        assert isinstance(root, Block)
        body = body.replace(block=root)
    func = with_wide_indices(func if body is func.body else func.replace(body=body))
    if bare := [s for s in _inner_blocks(func) if not s.reads and not s.writes]:
        func = with_regions(func, dict.fromkeys(bare, (True, True)))
    for s in _inner_blocks(func):
        _check_closed(func, s)
    return func


def _inner_blocks(func: PrimFunc) -> list[Block]:
    return [s for s in walk(func.body) if isinstance(s, Block) and s.name != "root"]


def _check_closed(func: PrimFunc, block: Block) -> None:
    """Blocks see loops only through their variables: that is what lets them move."""
    own: set[Var] = {i.var for i in block.iter_vars}
    inside = {s.var for s in walk(block.body) if isinstance(s, For | LetStmt)}
    around = {s.var for s in walk(func.body) if isinstance(s, For)} - inside
    used: set[Var] = set()
    for r in (*block.reads, *block.writes):
        for d in r.region:
            used |= free_vars(d.min)
    bad = (used - own) & around
    if bad:
        name = min(v.name for v in bad)
        raise ScheduleError(
            f"block {block.name} of {func.name} uses the loop variable {name}\n"
            f"  legal: a variable of the block, e.g. v = T.axis.spatial(extent, {name})"
        )


def bound_names(func: PrimFunc) -> tuple[list[str], list[str]]:
    """The names of what a function binds, those of blocks apart, as often as they are bound."""
    names: list[str] = [p.name for p in func.params]
    blocks: list[str] = []
    for s in walk(func.body):
        if isinstance(s, For | LetStmt):
            names.append(s.var.name)
        elif isinstance(s, Block):
            names += [i.var.name for i in s.iter_vars] + [b.name for b in s.alloc_buffers]
            blocks.append(s.name)
    return names, blocks
