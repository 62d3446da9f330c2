"""Which instructions do what a block adds up."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from smelt.ir.expr import Add, Cast, Expr, Mul

from .. import nodes
from .registry import INSTRUCTIONS, Instruction, TensorIntrin


class Fit(NamedTuple):
    """An instruction that does a block's update.

    lanes    how many elements of the block's result one instruction adds to
    group    how many products it adds to each of them
    swapped  whether the block's first factor is what the instruction takes as b
    """

    instruction: Instruction
    lanes: int
    group: int
    swapped: bool

    @property
    def picks_nothing(self) -> bool:
        """Whether the instruction multiplies groups that stand at one place in both vectors."""
        return self.instruction.update is not None and self.instruction.update.form == "each"

    def tile(self, rows: int = 0, vectors: int = 1) -> TensorIntrin:
        """A tile of it for `Schedule.tensorize`, whose A is the block's first factor; see
        `MultiplyAdd.tile`."""
        return TensorIntrin.get(self.instruction.tile_name(rows, vectors, self.swapped))


def fitting(block: nodes.Block, arch: str, features: Collection[str]) -> list[Fit]:
    """The registered instructions of a processor that do a block's update, the widest first.

    Such a block is one statement, C[...] = C[...] + A[...] * B[...], factors cast to C's type.

    arch, features  as `smelt.target.processor` tells of a target: `architecture`, `features_of`
    """
    types = _types(block.body)
    found = []
    for i in INSTRUCTIONS.values():
        u = i.update
        if u is None or types is None or i.arch != arch or not {*i.features} <= {*features}:
            continue
        orders = (u.a, u.b, u.result), (u.b, u.a, u.result)
        if types in orders:
            found.append(Fit(i, u.lanes, u.group, types != orders[0]))
    return sorted(found, key=lambda f: -f.lanes * f.group)


def _types(update: nodes.Stmt) -> tuple[str, str, str] | None:
    """The types of both factors and of the sum; None where it is no sum of products."""
    match update:
        case nodes.BufferStore(c, Add(x, y), at):
            old = nodes.BufferLoad(c, at)
            product = y if x is old else x if y is old else None
            if isinstance(product, Mul):
                a, b = (_loaded(v, c.type) for v in (product.a, product.b))
                return None if a is None or b is None else (a, b, c.type)
    return None


def _loaded(factor: Expr, kind: str) -> str | None:
    """The type in memory of a factor, which may be cast to another one; None: it is computed."""
    source = factor.value if isinstance(factor, Cast) and factor.type == kind else factor
    return source.buffer.type if isinstance(source, nodes.BufferLoad) else None
