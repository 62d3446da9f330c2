"""Templates as their users write them."""

from __future__ import annotations

from typing import Any

from smelt import autotvm, te


def matmul(n: int, m: int, depth: int, dtype: str) -> tuple[Any, list[Any]]:
    """The template of every introduction, vectors besides."""
    A = te.placeholder((n, depth), name="A", dtype=dtype)
    B = te.placeholder((depth, m), name="B", dtype=dtype)
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    s[C].vectorize(xi)
    return s, [A, B, C]


def cached(n: int) -> tuple[Any, list[Any]]:
    """A block of the result in a cache: computed in another way than the tensors say."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    cfg = autotvm.get_config()
    cfg.define_split("tile", C.op.axis[0], num_outputs=2)
    cfg.define_annotate("inner", [s[CC].op.axis[1]], policy="try_vec")
    outer, _ = cfg["tile"].apply(s, C, C.op.axis[0])
    s[CC].compute_at(s[C], outer)
    (kk,) = s[CC].op.reduce_axis
    s[CC].reorder(kk, *s[CC].op.axis)
    cfg["inner"].apply(s, CC, [s[CC].op.axis[1]])
    return s, [A, B, C]


def faulty(n: int, how: str) -> tuple[Any, list[Any]]:
    """A template with one mistake."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda j: A[j] * 2.0, name="C")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    axis = B.op.axis[0]
    if how == "raises":
        raise KeyError("x")
    if how == "returns":
        return s  # type: ignore[no-any-return]
    cfg.define_split("tile", axis, num_outputs=2)
    match how:
        case "knob":
            cfg["tiel"]
        case "axis":
            cfg["tile"].apply(s, B, C.op.axis[0])
        case "twice":
            cfg.define_split("tile", axis, num_outputs=2)
        case "policy":
            cfg.define_split("t", axis, policy="facto", num_outputs=2)
        case "order":
            cfg.define_reorder("o", [axis], policy="any")
        case "annotation":
            cfg.define_annotate("a", [axis], policy="vector")
        case "empty":
            cfg.define_knob("k", [])
        case "no_axis":
            cfg.define_split("k", 3.5, num_outputs=2)
        case "outputs":
            cfg.define_split("k", axis)
        case "candidate":
            cfg.define_split("k", axis, policy="candidate", candidate=[[-1, 0]])
        case "refuses" if isinstance(cfg, autotvm.ConfigEntity):
            cfg.raise_error("too many threads")
    return s, [A, B]


for _name, _f in (("test/matmul", matmul), ("test/cached", cached), ("test/faulty", faulty)):
    autotvm.template(_name, _f)
matmul_template = autotvm.template("test/matmul", matmul)
