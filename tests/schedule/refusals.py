"""Programs that some primitive has to refuse, each for one reason."""

from __future__ import annotations

STENCIL = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        B[v] = A[v] + 1.0
for j in range(7):
    with T.block("C"):
        w = T.axis.spatial(7, j)
        C[w] = B[w] + B[w + 1]
"""
"""C[i] = B[i] + B[i + 1]."""

OPAQUE = """
for i, j in T.grid(4, 6):
    with T.block("B"):
        v = T.axis.opaque(4, i)
        w = T.axis.spatial(6, j)
        B[w] = B[w] + A[v, w]
"""
"""A loop whose iterations depend on each other."""

REMADE = """
for i in range(8):
    with T.block("Z"):
        v = T.axis.spatial(4, i % 4)
        B[v] = 0.0
for j in range(8):
    with T.block("B"):
        w = T.axis.spatial(4, j % 4)
        wk = T.axis.reduce(2, j // 4)
        B[w] = B[w] + A[w, wk]
"""
"""Initial values that are set twice, all before the sums."""

ONCE = """
B = T.alloc_buffer((6,))
for i in range(4):
    for j in range(6):
        with T.block("B"):
            T.where(i < 1)
            u, v = T.axis.remap("SS", [i, j])
            B[v] = A[v] + 1.0
    for j_1 in range(6):
        with T.block("C"):
            u_1, w = T.axis.remap("SS", [i, j_1])
            C[u_1, w] = B[w] * 2.0
"""
"""What the first iteration makes is used by all."""

ODD = """
B = T.alloc_buffer((4,))
for i, r in T.grid(4, 3):
    with T.block("B"):
        T.where(r < 1)
        v = T.axis.spatial(4, i)
        B[v] = A[v] + 1.0
for i_1 in range(4):
    with T.block("C"):
        w = T.axis.spatial(4, i_1)
        C[w] = B[w] * 2.0
"""
"""A guard on a loop that no variable of the block sees."""

SCRATCH = """
S = T.alloc_buffer((1,))
C = T.alloc_buffer((4,))
for i in range(4):
    with T.block("S"):
        v = T.axis.spatial(4, i)
        S[0] = A[v] + 1.0
    with T.block("C"):
        w = T.axis.spatial(4, i)
        C[w] = S[0] * 2.0
for j in range(4):
    with T.block("D"):
        u = T.axis.spatial(4, j)
        D[u] = C[u] - 3.0
"""
"""One element that every iteration overwrites."""

CHANGED = """
B = T.alloc_buffer((4,))
for i in range(4):
    with T.block("B"):
        v = T.axis.spatial(4, i)
        B[v] = A[v] + 1.0
for j in range(4):
    with T.block("A"):
        u = T.axis.spatial(4, j)
        A[u] = A[u] * 2.0
for k in range(4):
    with T.block("C"):
        w = T.axis.spatial(4, k)
        C[w] = B[w] - 3.0
"""
"""An operand that is changed in place after it has been used."""

PADDED = """
X = T.alloc_buffer((4,))
for i in range(4):
    with T.block("X"):
        v = T.axis.spatial(4, i)
        X[v] = A[v] * 2.0
for j in range(6):
    with T.block("P"):
        w = T.axis.spatial(6, j)
        P[w] = T.if_then_else(w >= 1 and w < 5, X[w - 1], 0.0)
"""
"""A consumer with more iterations than elements that it reads."""

HOLES = """
for i in range(4):
    with T.block("B"):
        v = T.axis.spatial(4, i)
        B[v * 2] = A[v] + 1.0
"""
"""A parameter of which every other element is written."""

BESIDE = """
for i, k in T.grid(4, 8):
    with T.block("B"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            B[v] = 0.0
        B[v] = B[v] + A[v, w]
    T.evaluate(0)
"""
"""A reduction with another statement in its innermost loop."""

TILES = """
for i_0, i_1 in T.grid(4, 8):
    with T.block("B"):
        v = T.axis.spatial(32, i_0 * 8 + i_1)
        B[v] = A[v // 2] + 1.0
"""
"""A loop in two parts."""

UNEVEN = """
for i, j in T.grid(4, 6):
    with T.block("B"):
        v = T.axis.spatial(21, i * 5 + j)
        B[v] = A[v] + 1.0
"""
"""Tiles that overlap."""

REPEATED = """
for i, r, k in T.grid(4, 3, 8):
    with T.block("B"):
        v, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[v] = 0.0
        B[v] = B[v] + A[v, vk]
"""
"""A reduction that is done three times."""

DIFFERENCE = """
for i, k in T.grid(4, 8):
    with T.block("B"):
        v, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[v] = 0.0
        B[v] = A[v, vk] - B[v]
"""
"""Something repeated that is no reduction."""

SCALED = """
for i, k, j in T.grid(2, 4, 8):
    with T.block("C"):
        vi, vk, vj = T.axis.remap("SRS", [i, k, j])
        C[vi, vj] = C[vi, vj] + A[vi, vk] * (B[vk, vj] + 2.0)
"""
"""A tile that is nearly what `axpy` does."""

ALIASED = """
for i, j in T.grid(4, 8):
    with T.block("C"):
        vi = T.axis.reduce(4, i)
        vj = T.axis.spatial(8, j)
        C[vj] = C[vj] + A[vi] * C[vj]
"""
"""A tile that reads what it writes in two places."""

SHARED = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        v = T.axis.spatial(8, i)
        B[v] = A[v] + 1.0
for j in range(8):
    with T.block("C"):
        w = T.axis.spatial(8, j)
        C[w] = B[w] * A[w]
"""
"""A parameter that two blocks read."""
