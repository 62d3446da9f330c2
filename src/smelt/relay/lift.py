"""The core's operators in Relay's words: `lift` is the inverse of `expand_ops`.

Operators that Relay does not have stay the core's own; their text is e.g. smelt.gelu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from smelt.ir.build import value_of
from smelt.ir.errors import SmeltError, TypeMismatch
from smelt.ir.expr import Expr
from smelt.ir.module import IRModule
from smelt.relax import nodes as core
from smelt.relax.compose.window import SPATIAL, without_border
from smelt.relax.graph import transform
from smelt.relax.graph_op import of_dialect
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, constant
from smelt.relax.transform import match
from smelt.relax.transform.match import dtype_of
from smelt.topi.conv import CONVOLUTIONS
from smelt.topi.registry import Op, plain

from .dialect import RELAY, SAME, Row, const, row
from .expr import RelayVar
from .ops.qnn_affine import ROUNDINGS

Described = tuple[str, dict[str, Any]]

_NN = ("batch_norm", "layer_norm", "instance_norm", "lrn", "prelu", "sparse_dense")
"""Operators that Relay has under nn."""

_ROWS: Mapping[str, Row] = {
    # operators whose body is written by hand, beside the rows of the dialect
    **SAME,
    **{name: row(name, name) for name in ("cumsum", "cumprod")},
    **{name: row(f"nn.{name}", name) for name in _NN},
    **{name: row(f"qnn.{name}", name) for name in ("quantize", "dequantize")},
    "requantize": row("qnn.requantize", "requantize", forms={"rounding": ROUNDINGS}),
    "group_norm": row("nn.group_norm", "group_norm", "num_groups=groups"),
    "concat": row("concatenate", "concat"),
    "tile": row("tile", "tile", "reps=repeats"),
    "dilation2d": row("image.dilation2d", "dilation2d", "padding=pads"),
}


def lift(mod: IRModule) -> IRModule:
    """A module whose graph functions are calls of Relay's operators, where Relay has them."""
    made = {name: _function(f) for name, f in mod.functions.items() if isinstance(f, Function)}
    return mod.with_functions(made)


def _function(f: Function) -> Function:
    """One function; its parameters become variables of Relay."""
    params = {p: p if isinstance(p, RelayVar) else RelayVar(p.name, p.type) for p in f.params}
    return transform(f, lambda old, new: params.get(old) or lifted(new))  # type: ignore[no-any-return]


def lifted(node: RelaxExpr) -> RelaxExpr | None:
    """A call of one of the core's operators in Relay's words; None: it stays.

    What Relay's operator means has to have the same type, or the call stays the core's own.
    """
    if not isinstance(node, Call) or not isinstance(node.op, Op) or of_dialect(node.op):
        return None
    try:
        whole = _WHOLE.get(node.op.name)
        made = _renamed(node) if whole is None else whole(node)
    except SmeltError:
        return None
    return made if made is not None and made.type is node.type else None


def _renamed(node: Call) -> RelaxExpr | None:
    """A call of the operator that is the same but for names."""
    name, attrs = _describe(node)
    op = RELAY.ops.get(name)
    if op is None or any(a not in op.attributes for a in attrs):
        return None
    operands = _OPERANDS.get(name, _given)(node)
    made = core.call(op, *operands, name=node.name, **attrs)
    return core.TupleGetItem(made, 0) if name in _FIRST else made


def _describe(call: Call) -> Described:
    """The Relay name and the attributes of a call; "": it has none."""
    core_name = call.op.name  # type: ignore[union-attr]
    special = _SPECIAL.get(core_name)
    if special is not None:
        return special(call)
    found, attrs = _ROWS.get(core_name), {}
    if found is None:
        return "", {}
    for k, v in call.attrs.items():
        if k not in found.usual or v != found.usual[k]:
            name, value = found.names.get(k, k), plain(v)
            words = found.words.get(name, {})
            attrs[name] = words.get(value, value) if words else value
    return found.name, attrs


_FIRST = ("nn.batch_norm",)
"""Operators of which the core's has the first result alone."""


# -------------------------------------------------------------------------------- operands


def _given(call: Call) -> list[RelaxExpr | None]:
    """The operands as they are; those left out at the end go."""
    found = list(call.args)
    while found and found[-1] is None:
        found.pop()
    return found


def _together(call: Call) -> list[RelaxExpr | None]:
    """All operands as one tuple."""
    return [core.Tuple(tuple([a for a in call.args if a is not None]))]


def _with_bias(call: Call) -> list[RelaxExpr | None]:
    """The second operand as a vector."""
    x, bias = call.args
    assert bias is not None
    if len(shape_of(bias)) == 1:
        return [x, bias]
    inner = bias.args[0] if isinstance(bias, Call) and bias.callee == "reshape" else None
    if inner is not None and shape_of(inner) == shape_of(bias)[:1]:
        return [x, inner]
    return [x, reshaped(bias, shape_of(bias)[:1])]


def _padded(call: Call) -> list[RelaxExpr | None]:
    """The value around as an operand."""
    x = call.args[0]
    value = call.attrs["value"]
    return [x] if call.attrs["mode"] != "constant" else [x, const(value, dtype_of(x))]


def _vector_slope(call: Call) -> list[RelaxExpr | None]:
    """The slopes of the channels as a vector."""
    x, slope = call.args
    shape, have = shape_of(slope), shape_of(x)
    rest = len(have) - 2
    if len(shape) != rest + 1 or len(have) < 2 or shape[1:] != (1,) * rest:
        raise TypeMismatch("the slopes do not vary along the channels alone")
    return [x, reshaped(slope, shape[:1])]


def reshaped(x: RelaxExpr | None, shape: tuple[Any, ...]) -> RelaxExpr:
    """A value with another shape; a constant at once."""
    assert x is not None
    if isinstance(x, Constant):
        return constant(x.data.reshape(shape), x.name)
    return core.call(RELAY.get("reshape"), x, newshape=shape)


def _affine(call: Call) -> list[RelaxExpr | None]:
    """The data, scales, and zero points: int32, and 0 where the core's call has none."""
    made = list(call.args)
    for n, v in enumerate(call.args):
        if n and v is None:
            made[n] = const(0)
        elif n and isinstance(v, Constant):
            data = v.data.reshape(()) if v.data.size == 1 else v.data
            made[n] = constant(data if data.dtype.kind == "f" else data.astype("int32"))
    return [*made, const(0)] if len(made) % 2 == 0 else made


_OPERANDS: Mapping[str, Callable[[Call], list[RelaxExpr | None]]] = {
    "concatenate": _together,
    "nn.bias_add": _with_bias,
    "nn.pad": _padded,
    "nn.prelu": _vector_slope,
    **{f"qnn.{name}": _affine for name in ("quantize", "dequantize", "requantize")},
}


def shape_of(e: RelaxExpr | None) -> tuple[Any, ...]:
    """The extents of a value: numbers, or expressions where they are symbolic; () of a tuple."""
    return plain(match.shape_of(e))  # type: ignore[no-any-return]


# ------------------------------------------------------------------- names that shapes decide


_WINDOW = {"strides": "strides", "pads": "padding", "dilations": "dilation",
           "output_padding": "output_padding", "groups": "groups", "out_dtype": "out_dtype",
           "count_include_pad": "count_include_pad"}  # fmt: skip


def _window(call: Call, kernel: str = "") -> dict[str, Any]:
    """What places windows, by Relay's names, where it is said. kernel: how their size is called."""
    names = {**_WINDOW, "kernel": kernel}
    found = {names[k]: plain(v) for k, v in call.attrs.items() if names.get(k)}
    usual = {"dilation": (1,) * len(found.get("dilation", ()))}
    return {k: v for k, v in found.items() if v not in ((), usual.get(k))}


def _conv(call: Call) -> Described:
    w = [value_of(e) for e in shape_of(call.args[1])]
    sizes = {"channels": w[0], "kernel_size": tuple(w[2:])}
    return f"nn.conv{len(w) - 2}d", {**_window(call), **sizes}


def _conv_transpose(call: Call) -> Described:
    name, attrs = _conv(call)
    channels = value_of(shape_of(call.args[1])[1])
    attrs["channels"] = None if channels is None else channels * call.attrs["groups"]
    return f"{name}_transpose", attrs


def _pool(call: Call) -> Described:
    kind, _, grad = call.callee.partition("_pool")
    return f"nn.{kind}_pool{len(shape_of(call)) - 2}d{grad}", _window(call, "pool_size")


def _conv_weight(call: Call) -> Described:
    name = "nn.conv2d_backward_weight" if len(call.attrs["kernel"]) == 2 else ""
    return name, _window(call, "kernel_size")


def _reduce(call: Call) -> Described:
    """mean and max, which over the whole image are global pooling."""
    axes, name = call.attrs["axes"], call.callee
    rank = len(shape_of(call.args[0]))
    if rank == 4 and call.attrs["keepdims"] and _normal(axes, 4) == (2, 3):
        kind = {"mean": "avg", "max": "max"}[name]
        return f"nn.global_{kind}_pool2d", {}
    return name, {"axis": plain(axes), "keepdims": call.attrs["keepdims"]}


def _normal(axes: Any, rank: int) -> tuple[int, ...]:
    return tuple(sorted(a % rank for a in axes)) if axes is not None else tuple(range(rank))


def _add(call: Call) -> Described:
    """A vector along the channels of a product is a bias."""
    a, b = call.args
    if isinstance(a, Call) and isinstance(a.op, Op) and of_dialect(a.op):
        x, bias = shape_of(a), shape_of(b)
        name = a.op.name.removeprefix("nn.")
        if name.startswith("conv") and x == shape_of(call):
            tail = (1,) * (len(x) - 2)
            if bias == (x[1], *tail):
                return "nn.bias_add", {"axis": 1}
        product = name in ("dense", "matmul", "batch_matmul")
        if product and x == shape_of(call) and x and bias == (x[-1],):
            return "nn.bias_add", {"axis": -1}
    return "add", {}


def _matmul(call: Call) -> Described:
    a, b = (len(shape_of(x)) for x in call.args)
    flags = {k: call.attrs[k] for k in ("transpose_a", "transpose_b")}
    out = {"out_dtype": call.attrs["out_dtype"]}
    if a == b == 2 and flags == {"transpose_a": False, "transpose_b": True}:
        return "nn.dense", {"units": value_of(shape_of(call.args[1])[0]), **out}
    if a == b == 3:
        return "nn.batch_matmul", {**flags, **out}
    return "nn.matmul", {**flags, **out}


def _reshape(call: Call) -> Described:
    before, after = shape_of(call.args[0]), shape_of(call)
    if len(before) > 2 and len(after) == 2 and before[0] == after[0]:
        return "nn.batch_flatten", {}
    return "reshape", {"newshape": plain(call.attrs["shape"])}


def _expand_dims(call: Call) -> Described:
    """New dimensions that are next to each other."""
    rank = len(shape_of(call))
    axes = sorted([a % rank for a in call.attrs["axes"]])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return "", {}
    return "expand_dims", {"axis": axes[0], "num_newaxis": len(axes)}


def _pad(call: Call) -> Described:
    pads, mode = plain(call.attrs["pads"]), call.attrs["mode"]
    half = len(pads) // 2
    width = tuple([(pads[i], pads[half + i]) for i in range(half)])
    if mode == "symmetric":
        return "nn.mirror_pad", {"mode": "SYMMETRIC", "pad_width": width}
    return "nn.pad" if mode != "wrap" else "", {"pad_width": width, "pad_mode": mode}


def _adaptive(call: Call) -> Described:
    rank = len(shape_of(call)) - 2
    kind = call.op.name.split("_")[1]  # type: ignore[union-attr]
    return f"nn.adaptive_{kind}_pool{rank}d", {"output_size": call.attrs["size"]}


def _resize(call: Call) -> Described:
    rank, a = len(shape_of(call)) - 2, call.attrs
    old, new = shape_of(call.args[0]), shape_of(call)
    exact = all(
        value_of(e) and value_of(n) and s == n / e
        for s, n, e in zip(a["scales"], new, old, strict=False)
    )
    if old[:2] != new[:2] or not exact or rank not in SPATIAL or a["roi"]:
        return "", {}
    return f"image.resize{rank}d", {
        "size": new[2:],
        "method": {"nearest": "nearest_neighbor"}.get(a["mode"], a["mode"]),
        "coordinate_transformation_mode": a["coordinate_mode"],
        "rounding_method": a["nearest_mode"],
        "cubic_alpha": a["cubic_coeff"],
        "cubic_exclude": int(a["exclude_outside"]),
        "extrapolation_value": a["extrapolation_value"],
    }


def _clip(call: Call) -> Described:
    low, high = call.attrs["min"], call.attrs["max"]
    both = low is not None and high is not None
    return "clip" if both else "", {"a_min": low, "a_max": high}


def _flip(call: Call) -> Described:
    axes = call.attrs["axes"]
    return "reverse" if len(axes) == 1 else "", {"axis": axes[0] if axes else 0}


def _slice(call: Call) -> Described:
    a, shape = call.attrs, shape_of(call.args[0])
    steps = a["strides"] or (1,) * len(a["axes"])
    # -1 is behind the first element here, the last element there
    end = [
        -(value_of(shape[d]) or 0) - 1 if s < 0 and value_of(plain(e)) == -1 else plain(e)
        for d, e, s in zip(a["axes"], a["end"], steps, strict=True)
    ]
    return "strided_slice", {"begin": plain(a["begin"]), "end": tuple(end), "strides": steps,
                             "axes": a["axes"]}  # fmt: skip


_SPECIAL: Mapping[str, Callable[[Call], Described]] = {
    **dict.fromkeys(CONVOLUTIONS, _conv),
    "conv_transpose": _conv_transpose,
    **dict.fromkeys(("max_pool", "avg_pool", "max_pool_grad", "avg_pool_grad"), _pool),
    "conv_backward_weight": _conv_weight,
    **dict.fromkeys(("mean", "max"), _reduce),
    "add": _add,
    "matmul": _matmul,
    "reshape": _reshape,
    "expand_dims": _expand_dims,
    "pad": _pad,
    "resize": _resize,
    **dict.fromkeys(("adaptive_avg_pool", "adaptive_max_pool"), _adaptive),
    "clip": _clip,
    "flip": _flip,
    "strided_slice": _slice,
}


# ---------------------------------------------------------- calls that other calls stand around


def _relay(name: str, *operands: Any, **attrs: Any) -> RelaxExpr:
    return core.call(RELAY.get(name), *operands, **attrs)


def _counted(indices: RelaxExpr | None, extent: Any) -> RelaxExpr | None:
    """Indices counted from the front: Relay does not count negative ones from the end."""
    assert indices is not None
    kind = dtype_of(indices)
    if kind.startswith("uint"):
        return indices
    if isinstance(indices, Constant) and (indices.data >= 0).all():
        return indices
    if isinstance(extent, Expr):
        return None
    if isinstance(indices, Constant):
        found = np.where(indices.data < 0, indices.data + extent, indices.data)
        return constant(found.astype(indices.data.dtype), indices.name)
    below = _relay("less", indices, const(0, kind))
    return _relay("where", below, _relay("add", indices, const(extent, kind)), indices)


def _take(call: Call) -> RelaxExpr | None:
    x, indices = call.args
    axis, mode = call.attrs["axis"] % len(shape_of(x)), call.attrs["mode"]
    if mode == "negative":
        indices, mode = _counted(indices, shape_of(x)[axis]), "clip"
    return None if indices is None else _relay("take", x, indices, axis=axis, mode=mode)


def _one_hot(call: Call) -> RelaxExpr | None:
    a = call.attrs
    indices = _counted(call.args[0], plain(a["depth"]))
    if indices is None:
        return None
    values = [const(a[k], a["dtype"]) for k in ("on_value", "off_value")]
    return _relay("one_hot", indices, *values, depth=plain(a["depth"]), axis=a["axis"],
                  dtype=a["dtype"])  # fmt: skip


def _index(call: Call) -> RelaxExpr | None:
    """argmax and argmin, whose indices are int64 here."""
    return _relay("cast", _relay(call.callee, call.args[0], **call.attrs), dtype="int64")


def _columns(indices: RelaxExpr | None) -> RelaxExpr:
    """Rows of indices as columns."""
    assert indices is not None
    rank = len(shape_of(indices))
    order = (rank - 1, *range(rank - 1))
    if isinstance(indices, Constant):
        return constant(np.ascontiguousarray(indices.data.transpose(order)), indices.name)
    return _relay("transpose", indices, axes=order) if rank > 1 else indices


def _gather_nd(call: Call) -> RelaxExpr | None:
    x, indices = call.args
    return _relay("gather_nd", x, _columns(indices), batch_dims=call.attrs["batch_dims"])


def _scatter_nd(call: Call) -> RelaxExpr | None:
    x, indices, updates = call.args
    how = call.attrs["reduction"]
    return _relay("scatter_nd", x, _columns(indices), updates,
                  mode="update" if how == "none" else how)  # fmt: skip


def _full(call: Call) -> RelaxExpr | None:
    a = call.attrs
    return _relay("full", const(a["value"], a["dtype"]), shape=plain(a["shape"]), dtype=a["dtype"])


def _arange(call: Call) -> RelaxExpr | None:
    start, step, count = (plain(call.attrs[k]) for k in ("start", "step", "count"))
    return _relay("arange", start=start, stop=start + step * count, step=step,
                  dtype=call.attrs["dtype"])  # fmt: skip


def _trilu(call: Call) -> RelaxExpr | None:
    k = plain(call.attrs["k"])
    if isinstance(k, Expr):
        return None
    return _relay("trilu", call.args[0], const(k), upper=call.attrs["upper"])


def _topk(call: Call) -> RelaxExpr | None:
    a = call.attrs
    if plain(a["k"]) == 0:
        return None
    return _relay("topk", call.args[0], k=plain(a["k"]), axis=a["axis"], ret_type="both",
                  is_ascend=not a["largest"], dtype="int64")  # fmt: skip


def _with_border(call: Call) -> RelaxExpr | None:
    """Relay's convolutions have a border of 0: another one is that of a padded image."""
    if not call.attrs["border"]:
        return _renamed(call)
    made = without_border(call)
    padded = made.args[0]
    assert padded is not None
    return _renamed(core.renewed_call(made, lifted(padded) or padded, made.args[1]))


_WHOLE: Mapping[str, Callable[[Call], RelaxExpr | None]] = {
    **dict.fromkeys(CONVOLUTIONS, _with_border),
    "gather": _take,
    "one_hot": _one_hot,
    **dict.fromkeys(("argmax", "argmin"), _index),
    "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd,
    "full": _full,
    "arange": _arange,
    "trilu": _trilu,
    "topk": _topk,
}
