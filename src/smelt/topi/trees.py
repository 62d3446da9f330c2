"""Decision trees, and runs of integers that are looked up in a table."""

from __future__ import annotations

import operator
from collections import Counter

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.build import all_of, call, equal, not_equal, select
from smelt.ir.expr import INDEX, Expr, cast, const
from smelt.te.tensor import Tensor
from smelt.tir.nodes import Stmt

from .common import at_least, integers_only, number, pick, same_dtype, take_forms
from .program import Cell, filled_with, loop, loop_nest, program, seq, sharing, store, when
from .reference import Array
from .registry import op


def _met(x: Expr, how: Expr, t: Expr) -> Expr:
    """Whether a comparison given by its number holds."""
    return pick(how, [x <= t, x < t, x >= t, x > t, equal(x, t), not_equal(x, t)])


@op
def tree_leaves(
    x: Tensor, roots: Tensor, features: Tensor, modes: Tensor, values: Tensor, then: Tensor,
    other: Tensor, missing: Tensor, *, depth: int,
) -> Tensor:  # fmt: skip
    """The leaf that each row reaches in each tree.

    Shapes    x [rows, columns]; roots [trees]; the others [nodes]; result [rows, trees] (int64)
    features  the column that a node looks at
    modes     how it compares: 0 to 5 for <=, <, >=, >, =, != its value
    then      the node that follows where the comparison holds; -1 - k is leaf number k
    other     the node that follows elsewhere, named in the same way
    missing   whether `then` follows for NaN
    depth     the most nodes on a way from a root to a leaf
    """
    same_dtype(x=x, values=values)
    nodes = {"features": features, "modes": modes, "then": then, "other": other, "missing": missing}
    integers_only(**nodes)
    forms = ["[rows, columns]", "[trees]", *["[nodes]"] * (len(nodes) + 1)]
    take_forms(*forms, x=x, roots=roots, values=values, **nodes)
    at_least(0, depth=depth)
    node = Cell(name="node")
    rows, trees = x.shape[0], roots.shape[0]

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            row, tree = i

            def step(_: Expr) -> Stmt:
                at = node.value
                here = x[row, cast(INDEX, features[at])]
                met = _met(here, modes[at], values[at])
                if dt.is_float(x.dtype):
                    unknown = call("isnan", here, dtype="bool")
                    met = select(unknown, not_equal(missing[at], number(0, missing.dtype)), met)
                after = select(met, cast(INDEX, then[at]), cast(INDEX, other[at]))
                return when(at >= 0, node.set(after))

            start, end = node.set(cast(INDEX, roots[tree])), store(result, i, -1 - node.value)
            return seq(start, loop(depth, step, "level"), end)

        kind = sharing(rows * trees * max(depth, 1) * 8)
        return loop_nest([rows, trees], [node], one, kind, "tree")

    operands = [x, roots, features, modes, values, then, other, missing]
    return program([(rows, trees)], [INDEX], operands, body, "tree_leaves")[0]


_COMPARISONS = (operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne)


@tree_leaves.numpy
def _(
    x: Array, roots: Array, features: Array, modes: Array, values: Array, then: Array,
    other: Array, missing: Array, *, depth: int,
) -> Array:  # fmt: skip
    """One row in one tree after the other."""
    out = np.zeros((x.shape[0], roots.shape[0]), np.int64)
    for row, tree in np.ndindex(*out.shape):
        node = int(roots[tree])
        while node >= 0:
            v = x[row, features[node]]
            met = missing[node] if v != v else _COMPARISONS[modes[node]](v, values[node])
            node = int(then[node] if met else other[node])
        out[row, tree] = -1 - node
    return out


@op
def count_runs(
    x: Tensor, pool: Tensor, begins: Tensor, sizes: Tensor, places: Tensor, *, skips: int,
    width: int,
) -> Tensor:  # fmt: skip
    """How often runs of integers from a table come in each row.

    Shapes   x [rows, n]; pool [m]; begins, sizes and places [runs]; result [rows, width] (float32)
    pool     the runs one behind the other: run r is sizes[r] elements from begins[r] on
    places   the column of the result that counts a run
    skips    a run counts with up to so many elements left out between any two of its own, the
             same number each time; one of a single element counts once
    Source   ONNX TfIdfVectorizer-9
    """
    same_dtype(x=x, pool=pool)
    integers_only(x=x)
    at_least(0, skips=skips)
    forms = ("[rows, n]", "[m]", "[runs]", "[runs]", "[runs]")
    take_forms(*forms, x=x, pool=pool, begins=begins, sizes=sizes, places=places)
    same = Cell(name="same")
    n, runs = x.shape[1], begins.shape[0]

    def body(result: Tensor) -> Stmt:
        def one(i: tuple[Expr, ...]) -> Stmt:
            (row,) = i

            def counted(run: Expr, stride: Expr, start: Expr) -> Stmt:
                size, begin = cast(INDEX, sizes[run]), cast(INDEX, begins[run])

                def compared(k: Expr) -> Stmt:
                    differs = not_equal(x[row, start + k * stride], pool[begin + k])
                    return when(differs, same.set(0))

                column = (row, cast(INDEX, places[run]))
                fits = start + (size - 1) * stride < n
                check = seq(
                    same.set(1), loop(size, compared, "k"),
                    when(equal(same.value, 1),
                         store(result, column, result[column] + const(1.0, "float32"))),
                )  # fmt: skip
                return when(fits, check)

            def skipped(run: Expr, skip: Expr) -> Stmt:
                useful = all_of(skip > 0, equal(cast(INDEX, sizes[run]), 1))
                starts = select(useful, 0, n)
                return loop(starts, lambda s: counted(run, skip + 1, s), "start")

            return loop(runs, lambda r: loop(skips + 1, lambda s: skipped(r, s), "skip"), "run")

        clear = filled_with(result, const(0.0, "float32"))
        return seq(clear, loop_nest([x.shape[0]], [same], one, "serial", "row"))

    shape = (x.shape[0], const(width, INDEX))
    return program([shape], ["float32"], [x, pool, begins, sizes, places], body, "count_runs")[0]


@count_runs.numpy
def _(
    x: Array, pool: Array, begins: Array, sizes: Array, places: Array, *, skips: int, width: int
) -> Array:
    """All runs of a row counted, then looked up."""
    out = np.zeros((x.shape[0], width), np.float32)
    for row, items in enumerate(x.tolist()):
        for size in set(sizes.tolist()):
            found: Counter[tuple[int, ...]] = Counter()
            for stride in range(1, 2 if size == 1 else skips + 2):
                reach = (size - 1) * stride
                for start in range(len(items) - reach):
                    found[tuple(items[start : start + reach + 1 : stride])] += 1
            for begin, s, place in zip(begins, sizes, places, strict=True):
                if s == size:
                    out[row, place] += found[tuple(pool[begin : begin + s].tolist())]
    return out
