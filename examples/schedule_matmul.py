"""A matrix product scheduled by hand: tensor expression, trace, flat loops, interpreter.

python examples/schedule_matmul.py
"""

import numpy as np

from smelt import te
from smelt.pipeline import lower_program as lower
from smelt.tir.interpret import interpret
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule


def matmul(m: int, n: int, k: int) -> Schedule:
    """C = A B, a tile of 4 x 8 elements at a time in registers."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], "matmul"))
    tile = sch.cache_write("C", 0, "local")
    i, j, k_ = sch.get_loops("C")
    i_o, i_i = sch.split(i, [None, 4])
    j_o, j_i = sch.split(j, [None, 8])
    sch.reorder(i_o, j_o, k_, i_i, j_i)
    sch.reverse_compute_at(tile, j_o)
    sch.parallel(i_o)
    sch.unroll(i_i)
    sch.vectorize(j_i)
    sch.decompose_reduction("C", k_)
    return sch


def main() -> None:
    """Print the trace and the loops, and compare the result with numpy."""
    sch = matmul(10, 20, 6)
    print(sch.trace)
    print(script(sch.func))
    flat = lower(sch.func)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((10, 6)).astype(np.float32)
    b = rng.standard_normal((6, 20)).astype(np.float32)
    c = np.zeros((10, 20), np.float32)
    interpret(flat, a.reshape(-1), b.reshape(-1), c.reshape(-1))
    error = np.abs(c - a @ b).max()
    assert error < 1e-5
    print(f"largest error {error:.1e}")


if __name__ == "__main__":
    main()
