"""Random models of one operator each: those that are rarely met."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tflite.build import Spec, const
from tests.tflite.cases import Case, Random, case, data, extents, made

RARE = True


def _segments(op: str, kind: str) -> None:
    @case(f"{op.lower()}.float32", f"{op.lower()}.int32")
    def make(r: Random, dtype: str) -> Case:
        rows, width, count = extents(r, 3)
        ids = const(r.integers(0, count, rows), "int32")
        return made(r, op, [Spec((rows, width), dtype), ids, const(count, "int32")],
                    [Spec((count, width), dtype)], kind)  # fmt: skip


for _name in ("SUM", "PROD", "MAX", "MIN"):
    _segments(f"UNSORTED_SEGMENT_{_name}", f"UnsortedSegment{_name.title()}Options")


@case("sparse_to_dense.float32", "sparse_to_dense.int32")
def _sparse(r: Random, dtype: str) -> Case:
    shape = extents(r, 2)
    every = r.permutation(shape[0] * shape[1])[: int(r.integers(1, 4))]
    where = np.stack(np.unravel_index(every, shape), -1)
    operands = [const(where, "int32"), const(shape, "int32"), Spec((len(every),), dtype),
                const(np.asarray(-1, dtype))]  # fmt: skip
    return made(r, "SPARSE_TO_DENSE", operands, [Spec(shape, dtype)], "SparseToDenseOptions")


@case("bitcast.float32")
def _bitcast(r: Random, dtype: str) -> Case:
    shape = extents(r, 3)
    return made(r, "BITCAST", [Spec(shape, dtype)], [Spec(shape, "int32")], "BitcastOptions")


def _plain(op: str, dtype: str, count: int, kind: str = "", **options: Any) -> None:
    """An operator of operands of one shape and type; the reference kernels lack some of them."""

    @case(f"{op.lower()}.{dtype}")
    def make(r: Random, dtype: str) -> Case:
        shape = extents(r, int(r.integers(1, 4)))
        operands = [Spec(shape, dtype) for _ in range(count)]
        given: dict[str, Any] = {k: v(r) if callable(v) else v for k, v in options.items()}
        c = made(r, op, operands, [Spec(shape, dtype)], kind, **given)
        c.reference = False
        if op == "RIGHT_SHIFT":
            c.inputs[1] = np.abs(c.inputs[1]) % 20
        return c


for _op in ("CEIL", "ROUND", "ELU", "SIGN"):
    _plain(_op, "float32", 1)
_plain("ZEROS_LIKE", "int32", 1, "ZerosLikeOptions")
_plain("LOGICAL_NOT", "bool", 1, "LogicalNotOptions")
_plain("LOGICAL_AND", "bool", 2, "LogicalAndOptions")
_plain("LOGICAL_OR", "bool", 2, "LogicalOrOptions")
_plain("ATAN2", "float32", 2, "ATan2Options")
_plain("BITWISE_XOR", "int32", 2, "BitwiseXorOptions")
_plain("RIGHT_SHIFT", "int32", 2, "RightShiftOptions")
_plain("ADD_N", "float32", 3, "AddNOptions")


def _end(r: Random) -> float:
    return float(np.float32(r.uniform(0.5, 6)))


_plain("FAKE_QUANT", "float32", 1, "FakeQuantOptions", Min=-1.5, Max=_end, NumBits=8)


@case("rank.float32")
def _rank(r: Random, dtype: str) -> Case:
    shape = extents(r, int(r.integers(1, 5)))
    return made(r, "RANK", [Spec(shape, dtype)], [Spec((), "int32")], "RankOptions")


@case("range.float32", "range.int32")
def _range(r: Random, dtype: str) -> Case:
    start, count, step = int(r.integers(-5, 5)), int(r.integers(1, 9)), int(r.integers(1, 4))
    ends = [np.asarray(v, dtype) for v in (start, start + count * step, step)]
    return made(r, "RANGE", [const(e) for e in ends], [Spec((count,), dtype)], "RangeOptions")


@case("matrix_set_diag.float32")
def _set_diagonal(r: Random, dtype: str) -> Case:
    n, rows, columns = extents(r, 3)
    operands = [Spec((n, rows, columns)), Spec((n, min(rows, columns)))]
    return made(r, "MATRIX_SET_DIAG", operands, [Spec((n, rows, columns))], "MatrixSetDiagOptions")


@case("bucketize.float32")
def _bucketize(r: Random, dtype: str) -> Case:
    edges = np.sort(data(r, (int(r.integers(1, 6)),), "float32"))
    shape = extents(r, 2)
    return made(r, "BUCKETIZE", [Spec(shape)], [Spec(shape, "int32")], "BucketizeOptions",
                Boundaries=edges)  # fmt: skip
