"""What the tests of instructions share: operands, what numpy says, matrix products by tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import te
from smelt.codegen.llvm import host_cpu
from smelt.ir import dtype as dt
from smelt.ir.expr import Var
from smelt.tir.interpret import interpret
from smelt.tir.intrin import Instruction, TensorIntrin
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.schedule import Schedule

Array = np.ndarray[Any, Any]
HOST = frozenset(host_cpu()[1])


def numbers(b: Buffer, rng: np.random.Generator, exact: bool = True) -> Array:
    """Any values of an integer type; small integers as floats, or (not exact) any fractions."""
    shape = b.fixed_shape()
    assert shape is not None
    kind = dt.to_numpy(b.type)
    if not dt.is_float(b.type):
        info = np.iinfo(kind)
        return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)
    values = rng.integers(-9, 10, shape) if exact else rng.standard_normal(shape)
    return values.astype(kind)


def operands(func: PrimFunc, seed: int, exact: bool = True) -> list[Array]:
    """An array for every buffer of a program."""
    rng = np.random.default_rng(seed)
    return [numbers(b, rng, exact) for b in func.buffers]


def interpreted(func: PrimFunc, args: list[Array]) -> list[Array]:
    """What the interpreter makes of copies of the arguments."""
    out = [a.copy() for a in args]
    interpret(func, *out)
    return out


def runs_here(intrin: TensorIntrin) -> bool:
    """Whether this machine's CPU has the instructions."""
    return all(i.arch == "x86" and HOST.issuperset(i.features) for i in intrin.instructions)


def of(*prefixes: str) -> list[str]:
    """The names of the tensor intrinsics that begin so."""
    return [n for n in TensorIntrin.list() if n.startswith(prefixes)]


# ---------------------------------------------------------------------------------------- numpy


def meant(instruction: Instruction, args: list[Any]) -> Array:
    """What numpy computes for an instruction, told by its name."""
    c, a, b, *rest = args
    kind = c.dtype
    lanes, name = len(c), instruction.name.rsplit(".", 1)[1]
    with np.errstate(all="ignore"):
        if name.endswith("pmaddubsw"):
            pairs = (a.astype("int64") * b).reshape(lanes, 2).sum(1)
            return np.asarray(c + np.clip(pairs, -32768, 32767).astype(kind))
        wide_a, wide_b = a.astype(kind), b.astype(kind)
        if name.endswith("_lane") and "dot" in name:
            wide_b = np.tile(wide_b[4 * rest[0] : 4 * rest[0] + 4], 4)
        elif name.endswith("_lane"):
            wide_b = wide_b[rest[0]]
        if name.endswith("mmla"):
            product = wide_a.reshape(2, 8) @ wide_b.reshape(2, 8).T
            return np.asarray(c + product.reshape(-1))
        product = wide_a * wide_b
        summed = product.reshape(lanes, -1).sum(1, dtype=kind) if len(product) > lanes else product
        return np.asarray(c + summed)


# ------------------------------------------------------------------------------------- programs


def matmul(
    m: int,
    n: int,
    k: int,
    a: str = "uint8",
    b: str = "int8",
    c: str = "int32",
    by_row: bool = False,
) -> PrimFunc:
    """C[i, j] is the sum of A[i, k] * B[k, j] in the type of C; by_row: of B[j, k]."""
    x = te.placeholder((m, k), a, name="A")
    y = te.placeholder((n, k) if by_row else (k, n), b, name="B")
    r = te.reduce_axis((0, k), "k")

    def product(i: Any, j: Any) -> Any:
        return x[i, r].astype(c) * (y[j, r] if by_row else y[r, j]).astype(c)

    z = te.compute((m, n), lambda i, j: te.sum(product(i, j), axis=r), name="C")
    return te.create_prim_func([x, y, z], "matmul")


def expected(func: PrimFunc, args: list[Array], by_row: bool = False) -> Array:
    """What numpy says of `matmul`."""
    a, b, c = args
    wide = a.astype(c.dtype) @ (b.T if by_row else b).astype(c.dtype)
    assert wide.shape == func.buffers[2].fixed_shape()
    return np.asarray(wide)


def tiled(
    func: PrimFunc,
    intrin: str,
    rows: int,
    columns: int,
    depth: int,
    pack: Callable[..., Any] | None = None,
    pad: bool = False,
) -> Schedule:
    """A matrix product by tiles of registers, each one call of a tensor intrinsic.

    pack  from (k, j) to the layout of B in which the instruction's vectors are neighbours
    pad   whether the sizes are no multiples of the tile
    """
    s = Schedule(func)
    if pad:
        s.pad_einsum("C", [rows, columns, depth])
    if pack is not None:
        terms, width = func.buffers[1].fixed_shape() or (0, 0)
        ragged = bool(terms % depth or width % columns)
        s.transform_layout("C", "B_pad" if pad and ragged else "B", pack)
    result = s.cache_write("C", 0, "local")
    i, j, k = s.get_loops("C")
    i_o, i_i = s.split(i, [None, rows])
    j_o, j_i = s.split(j, [None, columns])
    k_o, k_i = s.split(k, [None, depth])
    s.reorder(j_o, i_o, k_o, i_i, j_i, k_i)
    s.reverse_compute_at(result, i_o)
    start = s.decompose_reduction("C", k_o)
    s.tensorize(i_i, intrin)
    for block in (start, result):
        inner = [x for x in s.get_loops(block) if x not in (i_o, j_o)]
        for x in inner[:-1]:
            s.unroll(x)
        if inner:
            s.vectorize(inner[-1])
    return s


def packed(array: Array, columns: int, depth: int) -> Array:
    """B[k, j] as [j // columns, k // depth, j % columns, k % depth]."""
    k, n = array.shape
    boxes = array.reshape(k // depth, depth, n // columns, columns)
    return np.ascontiguousarray(boxes.transpose(2, 0, 3, 1))


def immediates(instruction: Instruction) -> list[int]:
    """Values of an instruction's immediates to try: one a lane where there is one."""
    return list(range(4)) if any(isinstance(p, Var) for p in instruction.operands) else []
