"""Programs that the tests tune."""

from smelt import te
from smelt.codegen.llvm import resolve
from smelt.search.space import ProgramSpec
from smelt.target import Target
from smelt.tir.nodes import PrimFunc

HERE = resolve(Target("llvm -mcpu=native"))


def product(m: int = 24, n: int = 40, k: int = 32, dtype: str = "float32") -> PrimFunc:
    """C[i, j] = sum of A[i, k] * B[k, j]."""
    a = te.placeholder((m, k), dtype, name="A")
    b = te.placeholder((k, n), dtype, name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], "product")


def spec(
    func: PrimFunc | None = None, cores: int = 1, constants: tuple[bool, ...] = ()
) -> ProgramSpec:
    """A program for this machine."""
    return ProgramSpec(product() if func is None else func, HERE, cores, constants)
