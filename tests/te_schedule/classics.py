"""Classic schedules, as their users write them: each gives a schedule and its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import smelt as tvm
from smelt import te
from smelt.ir.expr import Broadcast, Ramp, const
from smelt.tir.nodes import Buffer, BufferLoad, BufferStore, Stmt, seq

from .programs import argmax, chain, conv, dense, matmul, stencil

Classic = Callable[[], tuple[te.Schedule, list[Any]]]


def fragment() -> tuple[te.Schedule, list[Any]]:
    """The fragment of every introduction: tiles, an order, vectors."""
    assert tvm.te is te
    M, N, K = 128, 128, 128
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    xo, xi = s[C].split(C.op.axis[0], factor=32)
    yo, yi = s[C].split(C.op.axis[1], factor=32)
    s[C].reorder(xo, yo, xi, yi)
    s[C].vectorize(yi)
    return s, [A, B, C]


def blocked(M: int = 32, N: int = 32, K: int = 16, bn: int = 16) -> tuple[te.Schedule, list[Any]]:
    """A matrix product in blocks, the innermost loop a vector."""
    A, B, C = matmul(M, N, K)
    s = te.create_schedule(C.op)
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=4)
    s[C].reorder(mo, no, ko, ki, mi, ni)
    s[C].vectorize(ni)
    return s, [A, B, C]


def packed(M: int = 32, N: int = 32, K: int = 16, bn: int = 16) -> tuple[te.Schedule, list[Any]]:
    """The product with B packed, a block of C in a cache, and blocks in parallel."""
    A = te.placeholder((M, K), name="A")
    B = te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    packedB = te.compute(
        (N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB"
    )
    C = te.compute(
        (M, N),
        lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, te.indexmod(n, bn)], axis=k),
        name="C",
    )
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, _, _ = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    s[C].parallel(mo)
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)
    return s, [A, B, C]


def staged() -> tuple[te.Schedule, list[Any]]:
    """Operands staged in two kinds of memory, in tiles that do not divide the matrices."""
    A, B, C = matmul(40, 24, 20)
    s = te.create_schedule(C.op)
    CL = s.cache_write(C, "local")
    AA = s.cache_read(A, "shared", [CL])
    AL = s.cache_read(AA, "local", [CL])
    BB = s.cache_read(B, "shared", [CL])
    _, no, _, ni = s[C].tile(C.op.axis[0], C.op.axis[1], 16, 16)
    s[CL].compute_at(s[C], no)
    ko, ki = s[CL].split(s[CL].op.reduce_axis[0], factor=8)
    s[CL].reorder(ko, ki, *s[CL].op.axis)
    s[AA].compute_at(s[CL], ko)
    s[BB].compute_at(s[CL], ko)
    s[AL].compute_at(s[CL], ki)
    s[CL].vectorize(s[CL].op.axis[1])
    fused = s[AA].fuse(*s[AA].op.axis)
    outer, _ = s[AA].split(fused, nparts=4)
    s[AA].unroll(outer)
    s[C].vectorize(ni)
    return s, [A, B, C]


def row_sums(n: Any = 37, m: Any = 100) -> tuple[te.Tensor, te.Tensor, Any]:
    """B = the sums of the rows of A."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return A, B, k


def factored() -> tuple[te.Schedule, list[Any]]:
    """A sum in sixteen sums at once, side by side in a vector."""
    A, B, _ = row_sums()
    s = te.create_schedule(B.op)
    _, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki, 1)
    s[BF].compute_at(s[B], s[B].op.axis[0])
    i, lanes = s[BF].op.axis
    s[BF].reorder(s[BF].op.reduce_axis[0], i, lanes)
    s[BF].vectorize(lanes)
    s[B].parallel(s[B].op.axis[0])
    return s, [A, B]


def across_threads() -> tuple[te.Schedule, list[Any]]:
    """A sum by threads that reduce together."""
    A, B, _ = row_sums()
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
    BF = s.rfactor(B, ki)
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    s[B].bind(s[B].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    assert ko is s[BF].op.reduce_axis[0]
    return s, [A, B]


def fused_layers() -> tuple[te.Schedule, list[Any]]:
    """A dense layer whose bias and activation are computed block by block."""
    A, B, bias, E = dense(18, 32, 16)
    s = te.create_schedule(E.op)
    D = E.op.inputs[0]
    C = D.op.inputs[0]
    s[D].compute_inline()
    io, jo, _, ji = s[E].tile(E.op.axis[0], E.op.axis[1], 4, 16)
    tiles = s[E].fuse(io, jo)
    s[C].compute_at(s[E], tiles)
    i, j = C.op.axis
    s[C].reorder(C.op.reduce_axis[0], i, j)
    s[C].vectorize(j)
    s[C].unroll(i)
    s[E].vectorize(ji)
    s[E].parallel(tiles)
    return s, [A, B, bias, E]


def convolution() -> tuple[te.Schedule, list[Any]]:
    """A padded convolution by rows: the padding inside, the activation around."""
    X, W, out = conv(3, 6, 8, 16)
    s = te.create_schedule(out.op)
    y = out.op.inputs[0]
    pad = y.op.inputs[0]
    s[pad].compute_inline()
    k, i, j = out.op.axis
    ko, ki = s[out].split(k, factor=8)
    s[out].reorder(ko, i, j, ki)
    s[out].vectorize(ki)
    s[y].compute_at(s[out], j)
    yk, yi, yj = y.op.axis
    s[y].reorder(*y.op.reduce_axis, yi, yj, yk)
    s[y].vectorize(yk)
    return s, [X, W, out]


def pairs_in_registers() -> tuple[te.Schedule, list[Any]]:
    """argmax: both results of a reduction in registers, eight rows at once."""
    X, value, place = argmax(16, 11)
    s = te.create_schedule(value.op)
    caches = s.cache_write([value, place], "local")
    io, ii = s[value].split(value.op.axis[0], factor=8)
    s[caches[0]].compute_at(s[value], io)
    s[caches[0]].vectorize(s[caches[0]].op.axis[0])
    s[value].vectorize(ii)
    return s, [X, value, place]


def sizes_unknown() -> tuple[te.Schedule, list[Any]]:
    """Shapes that are known when the program runs."""
    n, m = te.var("n"), te.var("m")
    A, D = chain(n, m)
    s = te.create_schedule(D.op)
    C = D.op.inputs[0]
    B = C.op.inputs[0]
    s[B].compute_inline()
    fused = s[D].fuse(*D.op.axis)
    fo, fi = s[D].split(fused, factor=8)
    s[D].parallel(fo)
    s[D].vectorize(fi)
    ci, cj = C.op.axis
    _, cji = s[C].split(cj, factor=4)
    s[C].unroll(cji)
    s[C].parallel(ci)
    return s, [A, D, n]


def group() -> tuple[te.Schedule, list[Any]]:
    """Two stages computed at one place."""
    X, W, out = conv(2, 5, 6, 4)
    s = te.create_schedule(out.op)
    y = out.op.inputs[0]
    g = s.create_group(outputs=y, inputs=X)
    g.compute_at(s[out], out.op.axis[1])
    return s, [X, W, out]


def other_layout() -> tuple[te.Schedule, list[Any]]:
    """A product kept in tiles of eight columns, computed in that order."""
    A, B, bias, E = dense(6, 16, 5)
    s = te.create_schedule(E.op)
    D = E.op.inputs[0]
    C = D.op.inputs[0]
    axes = s[C].transform_layout(lambda i, j: (j // 8, i, j % 8))
    assert axes is not None
    outer, i, inner = axes
    s[C].reorder(outer, i, *C.op.reduce_axis, inner)
    s[C].vectorize(inner)
    s[C].parallel(outer)
    s[B].transform_layout(lambda k, j: (j // 8, k, j % 8))
    s[D].compute_inline()
    return s, [A, B, bias, E]


def annotated() -> tuple[te.Schedule, list[Any]]:
    """What is said about loops and buffers stands in the program."""
    A, D = chain(8, 16)
    s = te.create_schedule(D.op)
    C = D.op.inputs[0]
    B = C.op.inputs[0]
    s[B].storage_align(B.op.axis[0], 16, 4)
    s[B].double_buffer()
    s[B].set_scope("shared")
    s[B].compute_at(s[D], D.op.axis[0])
    s[C].compute_inline()
    s[D].pragma(D.op.axis[0], "auto_unroll_max_step", 16)
    s[D].pragma(D.op.axis[0], "unroll_explicit")
    s[D].prefetch(C, D.op.axis[0], 2)
    return s, [A, D]


def rolling() -> tuple[te.Schedule, list[Any]]:
    """A window of which each iteration computes what is new."""
    A, C = stencil(18)
    s = te.create_schedule(C.op)
    B = C.op.inputs[0]
    o, _ = s[C].split(C.op.axis[0], factor=6)
    s[B].compute_at(s[C], o)
    s[B].rolling_buffer()
    return s, [A, C]


def multiply_add(ins: list[Buffer], outs: list[Buffer]) -> tuple[None, None, Stmt]:
    """Two terms of eight columns, by vectors."""
    (x, y), (z,) = ins, outs
    lanes = Ramp(const(0), const(1), 8)
    steps = [
        BufferStore(
            z,
            BufferLoad(z, (lanes,)) + Broadcast(x[i], 8) * BufferLoad(y, (const(i), lanes)),
            (lanes,),
        )
        for i in range(2)
    ]
    return None, None, seq(*steps)


def tensorized() -> tuple[te.Schedule, list[Any]]:
    """A tile that an instruction computes."""
    a, b = te.placeholder((2,), name="a"), te.placeholder((2, 8), name="b")
    r = te.reduce_axis((0, 2), name="r")
    c = te.compute((8,), lambda j: te.sum(a[r] * b[r, j], axis=r), name="c")
    instruction = te.decl_tensor_intrin(c.op, multiply_add, name="test_multiply_add")
    A, B, C = matmul(6, 16, 4)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    jo, ji = s[C].split(j, factor=8)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=2)
    s[C].reorder(i, jo, ko, ji, ki)
    s[C].tensorize(ji, instruction)
    s[C].parallel(i)
    return s, [A, B, C]


CLASSICS: dict[str, Classic] = {
    f.__name__: f
    for f in (
        fragment,
        blocked,
        packed,
        staged,
        factored,
        across_threads,
        fused_layers,
        convolution,
        pairs_in_registers,
        sizes_unknown,
        group,
        other_layout,
        annotated,
        rolling,
        tensorized,
    )
}
