"""Cases of builders that give elements another place, and of products."""

from __future__ import annotations

import numpy as np

from smelt.relax import op
from tests.relax_arrays import f32s, i64s

from .cases import case, f32, i64

case("reshape", lambda x: op.reshape(x, (-1, 4)), f32(2, 3, 4), lambda x: x.reshape(-1, 4))
case("reshape", lambda x: op.reshape(x, (0, -1)), f32(2, 3, 4), lambda x: x.reshape(2, -1))
case("flatten", op.flatten, f32(2, 3), lambda x: x.reshape(-1))
case("nn.batch_flatten", op.nn.batch_flatten, f32(2, 3, 4), lambda x: x.reshape(2, 12))
case("permute_dims", op.permute_dims, f32(2, 3, 4), lambda x: x.transpose())
case(
    "permute_dims",
    lambda x: op.permute_dims(x, [1, 0, -1]),
    f32(2, 3, 4),
    lambda x: x.transpose(1, 0, 2),
)
case("squeeze", lambda x: op.squeeze(x, 1), f32(2, 1, 3), lambda x: x[:, 0])
case("squeeze", op.squeeze, f32(1, 2, 1), lambda x: x.reshape(2))
case("expand_dims", lambda x: op.expand_dims(x, [0, -1]), f32(2, 3), lambda x: x[None, ..., None])
case(
    "broadcast_to",
    lambda x: op.broadcast_to(x, (2, 3, 4)),
    f32(3, 1),
    lambda x: np.broadcast_to(x, (2, 3, 4)),
)
case(
    "collapse_sum_to",
    lambda x: op.collapse_sum_to(x, (3, 1)),
    f32(2, 3, 4),
    lambda x: x.sum((0, 2))[:, None],
)
case("collapse_sum_like", op.collapse_sum_like, (f32(2, 3), f32(3)), lambda x, y: x.sum(0))
case(
    "concat",
    lambda a, b: op.concat([a, b], 1),
    (f32(2, 3), f32(2, 1)),
    lambda a, b: np.concatenate([a, b], 1),
)
case(
    "concat",
    lambda a, b: op.concat((a, b), None),
    (f32(2, 3), f32(2, 1)),
    lambda a, b: np.concatenate([a, b], None),
)
case(
    "stack",
    lambda a, b: op.stack([a, b], -1),
    (f32(2, 3), f32(2, 3)),
    lambda a, b: np.stack([a, b], -1),
)
case("split", lambda x: op.split(x, 3, 1), f32(2, 6), lambda x: tuple(np.split(x, 3, 1)))
case("split", lambda x: op.split(x, [1, 4]), f32(6, 2), lambda x: tuple(np.split(x, [1, 4])))
case("split", lambda x: op.split(x, 2), f32(5), lambda x: (x[:3], x[3:]))
case(
    "strided_slice",
    lambda x: op.strided_slice(x, [0, 1], [1, -3], [3, 99], [1, 2]),
    f32(4, 5),
    lambda x: x[1:3, -3:99:2],
)
case(
    "strided_slice",
    lambda x: op.strided_slice(x, [0], [3], [-9], [-1]),
    f32(4, 2),
    lambda x: x[::-1],
)
case(
    "dynamic_strided_slice",
    lambda x: op.dynamic_strided_slice(x, i64s([0, 1]), i64s([2, 5]), i64s([1, 2])),
    f32(4, 5),
    lambda x: x[0:2, 1:5:2],
)
case("repeat", lambda x: op.repeat(x, 2, 1), f32(2, 3), lambda x: np.repeat(x, 2, 1))
case("repeat", lambda x: op.repeat(x, 3), f32(2, 2), lambda x: np.repeat(x, 3))
case("tile", lambda x: op.tile(x, (2, 1, 2)), f32(2, 3), lambda x: np.tile(x, (2, 1, 2)))
case("flip", lambda x: op.flip(x, 1), f32(2, 3), lambda x: x[:, ::-1])
case(
    "reverse_sequence",
    lambda x, n: op.reverse_sequence(x, n, 0, 1),
    (f32(4, 2), i64s([2, 3])),
    lambda x, n: np.stack([np.r_[x[:k, b][::-1], x[k:, b]] for b, k in enumerate(n)], 1),
)
case(
    "meshgrid",
    lambda a, b: op.meshgrid([a, b], "xy"),
    (f32(2), f32(3)),
    lambda a, b: tuple(np.meshgrid(a, b, indexing="xy")),
)
case(
    "layout_transform",
    lambda x: op.layout_transform(x, lambda n, c: (n, c // 2, c % 2)),
    f32(2, 4),
    lambda x: x.reshape(2, 2, 2),
)
case(
    "layout_transform",
    lambda x: op.layout_transform(x, lambda i: (i // 4, i % 4), -1.0),
    f32(6),
    lambda x: np.r_[x, f32s([-1, -1])].reshape(2, 4),
)

# --------------------------------------------------------------------------------------- index

_i = i64(2, 2, low=0, high=3)
case("take", lambda x, i: op.take(x, i, 1), (f32(2, 3), _i), lambda x, i: np.take(x, i, 1))
case("take", lambda x: op.take(x, 2, 0), f32(4, 2), lambda x: x[2])
case(
    "take",
    lambda x, i: op.take(x, i, mode="wrap"),
    (f32(3), i64s([-1, 4])),
    lambda x, i: np.take(x, i, mode="wrap"),
)
case(
    "gather_elements",
    lambda x, i: op.gather_elements(x, i, 1),
    (f32(2, 3), _i),
    lambda x, i: np.take_along_axis(x, i, 1),
)
case(
    "gather_nd", op.gather_nd, (f32(3, 4), i64s([[0, 1], [2, 3]])), lambda x, i: x[i[:, 0], i[:, 1]]
)
case(
    "scatter_elements",
    lambda x, u: op.scatter_elements(x, [[1], [0]], u, 1, "add"),
    (f32(2, 3), f32(2, 1)),
    lambda x, u: x + f32s([[0, 1, 0], [1, 0, 0]]) * u,
)
case(
    "scatter_nd",
    lambda x, u: op.scatter_nd(x, [[2], [0]], u),
    (f32(3, 2), f32(2, 2)),
    lambda x, u: np.stack([u[1], x[1], u[0]]),
)
case(
    "index_tensor",
    lambda x, i, j: op.index_tensor(x, [i, j]),
    (f32(3, 4, 2), i64s([[0], [2]]), i64s([1, 3])),
    lambda x, i, j: x[i, j],
)


def _put(x: np.ndarray, i: np.ndarray, v: np.ndarray) -> np.ndarray:
    made = x.copy()
    np.add.at(made, (i,), v)
    return made


case(
    "index_put",
    lambda x, i, v: op.index_put(x, (i,), v, accumulate=True),
    (f32(4, 2), i64s([1, 1, 3]), f32(2)),
    _put,
)
case(
    "slice_scatter",
    lambda x, v: op.slice_scatter(x, v, 1, 5, 2, axis=0),
    (f32(5, 2), f32(2, 2)),
    lambda x, v: np.stack([x[0], v[0], x[2], v[1], x[4]]),
)
case(
    "one_hot",
    lambda i: op.one_hot(i, 5, 1, 3, axis=0),
    i64s([0, 2, 7]),
    lambda i: np.where(i[None] == np.arange(3)[:, None], 5, 1),
)
case(
    "bucketize",
    lambda x, b: op.bucketize(x, b, right=True),
    (f32(6), f32s([-1, 0, 1])),
    lambda x, b: np.searchsorted(b, x, "right"),
)


def _drawn(p: np.ndarray, u: np.ndarray, rows: np.ndarray) -> np.ndarray:
    sums = np.cumsum(p, 1)[rows[:, 0]]
    return np.asarray((sums <= u).sum(1, keepdims=True))


_p = f32(3, 5, low=0.1, high=1)
_p = (_p / _p.sum(1, keepdims=True)).astype("float32")
case(
    "multinomial_from_uniform",
    op.multinomial_from_uniform,
    (_p, f32(4, 1, low=0, high=0.9), i64s([[0], [2], [2], [1]])),
    _drawn,
)

# ----------------------------------------------------------------------------------- products

case("matmul", op.matmul, (f32(2, 3, 4), f32(4, 5)), np.matmul)
case(
    "matmul",
    lambda a, b: op.matmul(a, b, "int32"),
    (i64(2, 3, dtype="int8"), i64(3, 2, dtype="int8")),
    lambda a, b: a.astype("int32") @ b.astype("int32"),
)
case("linear", op.linear, (f32(2, 3), f32(4, 3), f32(4)), lambda x, w, b: x @ w.T + b)
case("outer", op.outer, (f32(3), f32(4)), np.outer)
case(
    "einsum",
    lambda a, b: op.einsum((a, b), "...ij,...jk->...ik"),
    (f32(2, 3, 2, 4), f32(3, 4, 5)),
    lambda a, b: np.einsum("...ij,...jk->...ik", a, b),
)
case("einsum", lambda a: op.einsum([a], "ij->j"), f32(2, 3), lambda a: a.sum(0))
case("einsum", lambda a: op.einsum([a], "iij->ji"), f32(2, 2, 3),
     lambda a: np.einsum("iij->ji", a))  # fmt: skip
case("einsum", lambda a, b: op.einsum((a, b), "ij,ij->i"), (f32(2, 1), f32(2, 3)),
     lambda a, b: (a * b).sum(1))  # fmt: skip

# ------------------------------------------------------------------------------------- shapes

_y = f32(2, 3, 4)
for _name in ("shape_of", "tensor_to_shape"):
    case(_name, lambda x: op.tensor_to_shape(op.shape_of(x)), _y, lambda x: np.int64(x.shape))
case("size", op.size, _y, lambda x: np.int64(x.size))
case(
    "shape_to_tensor",
    lambda x: op.add(op.shape_to_tensor((2, 3)), op.shape_of(op.take(x, 0, 2))),
    _y,
    lambda x: i64s([4, 6]),
)
for _name, _value in {
    "tensor_ndim": 3,
    "tensor_dtype_code": 2,
    "tensor_dtype_bits": 32,
    "tensor_dtype_lanes": 1,
    "tensor_byte_offset": 0,
    "tensor_elem_offset": 0,
}.items():
    case(f"inspect.{_name}", getattr(op.inspect, _name), _y, lambda x, _v=_value: np.int64(_v))
case("inspect.tensor_shape_i", lambda x: op.inspect.tensor_shape_i(x, 1), _y, lambda x: np.int64(3))
case(
    "inspect.tensor_stride_i",
    lambda x: op.inspect.tensor_stride_i(x, 0),
    _y,
    lambda x: np.int64(12),
)
for _name in ("to_vdevice", "hint_on_device"):
    case(_name, lambda x, _n=_name: getattr(op, _n)(x, "llvm"), _y, lambda x: x)
for _name in (
    "grad.no_grad",
    "grad.start_checkpoint",
    "grad.end_checkpoint",
    "builtin.stop_lift_params",
    "memory.ensure_zero_offset",
):
    case(_name, op.BUILDERS[_name], _y, lambda x: x)


def _take_grad(g: np.ndarray, x: np.ndarray, i: np.ndarray) -> np.ndarray:
    made = np.zeros_like(x)
    for a in range(i.shape[0]):
        for b in range(i.shape[1]):
            made[:, i[a, b]] += g[:, a, b]
    return made


case(
    "grad.take_backward",
    lambda g, x, i: op.grad.take_backward(g, x, i, axis=1),
    (f32(2, 2, 2), f32(2, 3), _i),
    _take_grad,
)
