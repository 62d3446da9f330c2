"""Passes from blocks to flat loops, in the order in which they run."""

from __future__ import annotations

from smelt.ir.errors import Unsupported
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.opaque import (
    compact_buffers,
    convert_blocks_to_opaque,
    lower_init_blocks,
    lower_opaque_blocks,
    plan_buffer_locations,
)
from smelt.tir.nodes import PrimFunc

from .function_pass import PrimFuncPass, built_in, flat


def unchanged(func: PrimFunc) -> PrimFunc:
    """The program as it is."""
    return func


def LowerInitBlock() -> PrimFuncPass:
    """The init of a block becomes a branch that the reduction's first iteration takes.

    Before
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    v, r = T.axis.remap("SR", [i, k])
                    with T.init():
                        B[v] = 0.0
                    B[v] = B[v] + A[v, r]
    After
        def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    v, r = T.axis.remap("SR", [i, k])
                    if r == 0:
                        B[v] = 0.0
                    B[v] = B[v] + A[v, r]
    """
    return built_in("LowerInitBlock", lower_init_blocks)


def PlanAndUpdateBufferAllocationLocation() -> PrimFuncPass:
    """Intermediate buffers move into the smallest block or loop body that holds all their uses.

    A loop's body that is no block becomes an opaque one. A buffer in which the iterations of a loop
    may hand on values stays outside of that loop.

    Before
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            B = T.alloc_buffer((4, 8))
            for i in range(4):
                for j in range(8):
                    with T.block("B"):
                        v, w = T.axis.remap("SS", [i, j])
                        B[v, w] = A[v, w] + 1.0
                for j2 in range(8):
                    with T.block("C"):
                        x, y = T.axis.remap("SS", [i, j2])
                        C[x, y] = B[x, 7 - y] * 2.0
    After
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            for i in range(4):
                with T.block("B_alloc"):
                    B = T.alloc_buffer((4, 8))
                    for j in range(8):
                        with T.block("B"):
                            v, w = T.axis.remap("SS", [i, j])
                            B[v, w] = A[v, w] + 1.0
                    for j2 in range(8):
                        with T.block("C"):
                            x, y = T.axis.remap("SS", [i, j2])
                            C[x, y] = B[x, 7 - y] * 2.0
    """
    return built_in("PlanAndUpdateBufferAllocationLocation", plan_buffer_locations)


def ConvertBlocksToOpaque() -> PrimFuncPass:
    """Block variables are replaced by the values that they stand for.

    Needs   LowerInitBlock before it.
    Before
        def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("B"):
                    v = T.axis.spatial(4, 3 - i)
                    T.reads(A[v])
                    T.writes(B[v])
                    B[v] = A[v] + 1.0
    After
        def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("B"):
                    T.reads(A[3 - i])
                    T.writes(B[3 - i])
                    B[3 - i] = A[3 - i] + 1.0
    """
    return built_in("ConvertBlocksToOpaque", convert_blocks_to_opaque)


def CompactBufferAllocation(is_strict: bool = True) -> PrimFuncPass:
    """The buffers of opaque blocks shrink to what is touched of them; unused ones go.

    is_strict  only True: a program that touches more than a buffer holds has no meaning here

    Needs   ConvertBlocksToOpaque before it.
    Before
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            for i in range(4):
                with T.block("tile"):
                    B = T.alloc_buffer((4, 8))
                    for j in range(8):
                        with T.block("B"):
                            T.writes(B[i, j])
                            B[i, j] = A[i, j] + 1.0
                    for k in range(8):
                        with T.block("C"):
                            T.reads(B[i, 7 - k])
                            C[i, k] = B[i, 7 - k] * 2.0
    After
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            for i in range(4):
                with T.block("tile"):
                    B = T.alloc_buffer((1, 8))
                    for j in range(8):
                        with T.block("B"):
                            T.writes(B[0, j])
                            B[0, j] = A[i, j] + 1.0
                    for k in range(8):
                        with T.block("C"):
                            T.reads(B[0, 7 - k])
                            C[i, k] = B[0, 7 - k] * 2.0
    """
    if is_strict is not True:
        raise Unsupported(
            f"CompactBufferAllocation(is_strict={is_strict!r}): only True; accesses outside of a "
            "buffer have no meaning here"
        )
    return built_in("CompactBufferAllocation", compact_buffers)


def LowerMatchBuffer() -> PrimFuncPass:
    """Nothing to do: a block accesses the buffers around it, never a view of a part of one."""
    return built_in("LowerMatchBuffer", unchanged)


def ApplyLayoutTransforms() -> PrimFuncPass:
    """Nothing to do: Schedule.transform_layout rewrites buffers and accesses at once."""
    return built_in("ApplyLayoutTransforms", unchanged)


def InjectRollingBuffer() -> PrimFuncPass:
    """Nothing to do: Schedule.rolling_buffer rewrites the program at once."""
    return built_in("InjectRollingBuffer", unchanged)


def LowerOpaqueBlock() -> PrimFuncPass:
    """Blocks become their bodies: buffers become allocations, predicates become branches.

    Needs   ConvertBlocksToOpaque before it.
    Before
        def main(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
            for i in range(3):
                with T.block("tile"):
                    B = T.alloc_buffer((4,))
                    for j in range(4):
                        with T.block("B"):
                            T.where(i * 4 + j < 10)
                            B[j] = A[i * 4 + j] + 1.0
                            C[i * 4 + j] = B[j]
    After
        def main(A: T.Buffer((10,), "float32"), C: T.Buffer((10,), "float32")):
            for i in range(3):
                B = T.allocate((4,), "float32")
                for j in range(4):
                    if i * 4 + j < 10:
                        B[j] = A[i * 4 + j] + 1.0
                        C[i * 4 + j] = B[j]
    """
    return built_in("LowerOpaqueBlock", lower_opaque_blocks)


def FlattenBuffer() -> PrimFuncPass:
    """Every buffer gets one dimension, parameters included; strides become part of the indices.

    Needs   a program without blocks.
    Before
        def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
            B = T.allocate((8, 4), "float32", strides=(1, 8))
            for i, j in T.grid(4, 8):
                B[j, i] = A[i, j]
            for i, j in T.grid(4, 8):
                C[i, j] = B[7 - j, i]
    After
        def main(A: T.Buffer((32,), "float32"), C: T.Buffer((32,), "float32")):
            B = T.allocate((32,), "float32")
            for i, j in T.grid(4, 8):
                B[i * 8 + j] = A[i * 8 + j]
            for i, j in T.grid(4, 8):
                C[i * 8 + j] = B[i * 8 - j + 7]
    """

    return flat("FlattenBuffer", flatten_buffers)
