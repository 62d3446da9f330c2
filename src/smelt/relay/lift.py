"""The core's operators in Relay's words: `lift` is the inverse of `expand_ops`.

Operators that Relay does not have stay the core's own; their text is e.g. smelt.gelu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smelt.ir.errors import SmeltError
from smelt.ir.expr import Expr, IntImm
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax import nodes as core
from smelt.relax.graph_op import GraphOp
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, constant, rewrite
from smelt.topi.registry import Op

from .dialect import RELAY, const
from .expr import RelayVar

__all__ = ["lift"]

Described = tuple[str, dict[str, Any]]

_PLAIN = (
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "power",
    "minimum",
    "maximum",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "right_shift",
    "where",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "floor",
    "ceil",
    "trunc",
    "round",
    "abs",
    "negative",
    "sign",
    "logical_not",
    "bitwise_not",
    "isnan",
    "isinf",
)

_RENAMED: dict[str, tuple[str, dict[str, str]]] = {
    # smelt's operator: (Relay's name, {smelt's attribute: Relay's})
    **{name: (name, {}) for name in _PLAIN},
    "mod": ("floor_mod", {}),
    "fmod": ("mod", {}),
    "identity": ("copy", {}),
    "cast": ("cast", {"dtype": "dtype"}),
    "relu": ("nn.relu", {}),
    "leaky_relu": ("nn.leaky_relu", {"alpha": "alpha"}),
    "clip": ("clip", {"min": "a_min", "max": "a_max"}),
    "softmax": ("nn.softmax", {"axis": "axis"}),
    "log_softmax": ("nn.log_softmax", {"axis": "axis"}),
    "layer_norm": ("nn.layer_norm", {"axis": "axis", "epsilon": "epsilon"}),
    "cumsum": ("cumsum", {"axis": "axis", "exclusive": "exclusive", "reverse": "reverse"}),
    "argmax": (
        "argmax",
        {"axis": "axis", "keepdims": "keepdims", "select_last_index": "select_last_index"},
    ),
    "argmin": (
        "argmin",
        {"axis": "axis", "keepdims": "keepdims", "select_last_index": "select_last_index"},
    ),
    "sum": ("sum", {"axes": "axis", "keepdims": "keepdims"}),
    "prod": ("prod", {"axes": "axis", "keepdims": "keepdims"}),
    "min": ("min", {"axes": "axis", "keepdims": "keepdims"}),
    "all": ("all", {"axes": "axis", "keepdims": "keepdims"}),
    "any": ("any", {"axes": "axis", "keepdims": "keepdims"}),
    "gather": ("take", {"axis": "axis"}),
    "gather_elements": ("gather", {"axis": "axis"}),
    "gather_nd": ("gather_nd", {"batch_dims": "batch_dims"}),
    "scatter_elements": ("scatter_elements", {"axis": "axis", "reduction": "reduction"}),
    "scatter_nd": ("scatter_nd", {"reduction": "mode"}),
    "transpose": ("transpose", {"axes": "axes"}),
    "squeeze": ("squeeze", {"axes": "axis"}),
    "broadcast_to": ("broadcast_to", {"shape": "shape"}),
    "concat": ("concatenate", {"axis": "axis"}),
    "strided_slice": (
        "strided_slice",
        {"begin": "begin", "end": "end", "strides": "strides", "axes": "axes"},
    ),
    "flip": ("reverse", {"axes": "axis"}),
    "tile": ("tile", {"repeats": "reps"}),
    "depth_to_space": ("nn.depth_to_space", {"block": "block_size", "mode": "mode"}),
    "space_to_depth": ("nn.space_to_depth", {"block": "block_size"}),
    "trilu": ("trilu", {"k": "k", "upper": "upper"}),
    "fixed_point_multiply": ("fixed_point_multiply", {}),
    "fixed_point_multiply_per_axis": ("fixed_point_multiply_per_axis", {}),
    "full": ("full", {"value": "fill_value", "shape": "shape", "dtype": "dtype"}),
    "arange": (
        "arange",
        {"start": "start", "step": "step", "count": "count", "dtype": "dtype"},
    ),
    "one_hot": (
        "one_hot",
        {"depth": "depth", "axis": "axis", "on_value": "on_value", "off_value": "off_value",
         "dtype": "dtype"},
    ),
}  # fmt: skip

_LAYOUT = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def lift(mod: IRModule) -> IRModule:
    """A module whose graph functions are calls of Relay's operators, where Relay has them."""
    made = {name: _function(f) for name, f in mod.functions.items() if isinstance(f, Function)}
    return mod.with_functions(made)


def _function(f: Function) -> Function:
    """One function; its parameters become variables of Relay."""
    params = {p: p if isinstance(p, RelayVar) else RelayVar(p.name, p.type) for p in f.params}
    new = rewrite(f, lambda v: params.get(v) if isinstance(v, core.Var) else lifted(v))
    return new.replace(params=tuple(params.values()))


def lifted(node: RelaxExpr) -> RelaxExpr | None:
    """A call of one of the core's operators in Relay's words; None: it stays.

    What Relay's operator means has to have the same type, or the call stays the core's own.
    """
    if not isinstance(node, Call) or not isinstance(node.op, Op) or isinstance(node.op, GraphOp):
        return None
    name, attrs = _describe(node)
    op = RELAY.ops.get(name)
    if op is None or any(a not in op.attributes for a in attrs):
        return None
    operands = _OPERANDS.get(name, _given)(node)
    try:
        made: RelaxExpr = core.call(op, *operands, name=node.name, **attrs)
        if name in _FIRST:
            made = core.TupleGetItem(made, 0)
    except SmeltError:
        return None
    return made if made.type is node.type else None


def _describe(call: Call) -> Described:
    """The Relay name and the attributes of a call."""
    special = _SPECIAL.get(call.op.name)  # type: ignore[union-attr]
    if special is not None:
        return special(call)
    name, renamed = _RENAMED.get(call.op.name, ("", {}))  # type: ignore[union-attr]
    attrs = {renamed.get(k, k): plain(v) for k, v in call.attrs.items()}
    return name, {k: v for k, v in attrs.items() if (k, v) not in _USUAL}


_USUAL = (("reverse", False), ("rounding", "upward"), ("mode", "away"))
"""Attributes that Relay does not have, with the values that Relay's operators mean."""

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
    if isinstance(bias, Constant):
        return [x, constant(bias.data.reshape(-1), bias.name)]
    inner = bias.args[0] if isinstance(bias, Call) and bias.callee == "reshape" else None
    if shape_of(inner) == (shape_of(bias)[0],):
        return [x, inner]
    return [x, core.call("reshape", bias, shape=(shape_of(bias)[0],))]


def _padded(call: Call) -> list[RelaxExpr | None]:
    """The value around as an operand."""
    x = call.args[0]
    assert x is not None
    value = call.attrs["value"]
    return [x] if call.attrs["mode"] != "constant" else [x, const(value)]


_OPERANDS: Mapping[str, Callable[[Call], list[RelaxExpr | None]]] = {
    "concatenate": _together,
    "nn.bias_add": _with_bias,
    "nn.pad": _padded,
}


def plain(value: Any) -> Any:
    """An attribute as Python data; sizes that are not known stay expressions."""
    if isinstance(value, tuple):
        return tuple([plain(v) for v in value])
    return value.value if isinstance(value, IntImm) else value


def shape_of(e: RelaxExpr | None) -> tuple[Any, ...]:
    """The extents of a value: numbers, or expressions where they are symbolic; () of a tuple."""
    t = getattr(e, "type", None)
    return tuple([plain(d) for d in t.shape]) if isinstance(t, TensorType) else ()


def _known(value: Any) -> Any:
    """An extent as a number, None where it is symbolic."""
    return None if isinstance(value, Expr) else value


# ------------------------------------------------------------------- names that shapes decide


def _conv(call: Call) -> Described:
    rank = len(shape_of(call)) - 2
    w, a = shape_of(call.args[1]), call.attrs
    return f"nn.conv{rank}d", {
        "strides": plain(a["strides"]),
        "padding": plain(a["pads"]),
        "dilation": plain(a["dilations"]),
        "groups": a["groups"],
        "channels": _known(w[0]),
        "kernel_size": tuple([_known(k) for k in w[2:]]),
        "data_layout": _LAYOUT[rank],
        "kernel_layout": "OI" + _LAYOUT[rank][2:],
        "out_layout": "",
        "out_dtype": a["out_dtype"],
    }


def _conv_transpose(call: Call) -> Described:
    rank = len(shape_of(call)) - 2
    name, attrs = _conv(call)
    w = shape_of(call.args[1])
    channels = _known(w[1])
    attrs["channels"] = None if channels is None else channels * call.attrs["groups"]
    attrs["kernel_layout"] = "IO" + _LAYOUT[rank][2:]
    attrs["output_padding"] = plain(call.attrs["output_padding"])
    for key, one in (("strides", 1), ("dilation", 1), ("padding", 0)):
        attrs[key] = attrs[key] or (one,) * (rank * (2 if key == "padding" else 1))
    return f"{name}_transpose", attrs


def _pool(call: Call) -> Described:
    rank = len(shape_of(call)) - 2
    assert isinstance(call.op, Op)
    a = call.attrs
    attrs = {
        "pool_size": plain(a["kernel"]),
        "strides": plain(a["strides"]) or (1,) * rank,
        "dilation": plain(a["dilations"]) or (1,) * rank,
        "padding": plain(a["pads"]) or (0,) * (2 * rank),
        "layout": _LAYOUT[rank],
        "ceil_mode": False,
    }
    if "count_include_pad" in a:
        attrs["count_include_pad"] = a["count_include_pad"]
    return f"nn.{call.op.name}{rank}d", attrs


def _reduce(name: str) -> Callable[[Call], Described]:
    """mean and max, which over the whole image are global pooling."""

    def reduce(call: Call) -> Described:
        axes = call.attrs["axes"]
        rank = len(shape_of(call.args[0]))
        if rank == 4 and call.attrs["keepdims"] and _normal(axes, 4) == (2, 3):
            kind = {"mean": "avg", "max": "max"}[name]
            return f"nn.global_{kind}_pool2d", {"layout": "NCHW"}
        return name, {"axis": plain(axes), "keepdims": call.attrs["keepdims"]}

    return reduce


def _normal(axes: Any, rank: int) -> tuple[int, ...]:
    return tuple(sorted(a % rank for a in axes)) if axes is not None else tuple(range(rank))


def _add(call: Call) -> Described:
    """A vector along the channels of a product is a bias."""
    a, b = call.args
    if isinstance(a, Call) and isinstance(a.op, GraphOp):
        x, bias = shape_of(a), shape_of(b)
        if a.op.name.startswith("nn.conv") and x == shape_of(call):
            tail = (1,) * (len(x) - 2)
            if bias == (x[1], *tail):
                return "nn.bias_add", {"axis": 1}
        if (
            a.op.name in ("nn.dense", "nn.matmul", "nn.batch_matmul")
            and x == shape_of(call)
            and x
            and bias == (x[-1],)
        ):
            return "nn.bias_add", {"axis": -1}
    return "add", {}


def _matmul(call: Call) -> Described:
    a, b = (len(shape_of(x)) for x in call.args)
    flags = {k: call.attrs[k] for k in ("transpose_a", "transpose_b")}
    out = {"out_dtype": call.attrs["out_dtype"]}
    if a == b == 2 and flags == {"transpose_a": False, "transpose_b": True}:
        return "nn.dense", {"units": _known(shape_of(call.args[1])[0]), **out}
    if a == b == 3:
        return "nn.batch_matmul", {**flags, **out}
    return "nn.matmul", {**flags, **out}


def _reshape(call: Call) -> Described:
    before, after = shape_of(call.args[0]), shape_of(call)
    if len(before) > 2 and len(after) == 2 and before[0] == after[0]:
        return "nn.batch_flatten", {}
    return "reshape", {"newshape": plain(call.attrs["shape"])}


def _batch_norm(call: Call) -> Described:
    return "nn.batch_norm", {"axis": 1, "epsilon": call.attrs["epsilon"], "center": True,
                             "scale": True}  # fmt: skip


def _expand_dims(call: Call) -> Described:
    """New dimensions that are next to each other."""
    rank = len(shape_of(call))
    axes = sorted([a % rank for a in call.attrs["axes"]])
    if axes != list(range(axes[0], axes[0] + len(axes))):
        return "", {}
    return "expand_dims", {"axis": axes[0], "num_newaxis": len(axes)}


def _prelu(call: Call) -> Described:
    return "nn.prelu", {"axis": 1}


def _instance_norm(call: Call) -> Described:
    return "nn.instance_norm", {"axis": 1, "epsilon": call.attrs["epsilon"]}


def _group_norm(call: Call) -> Described:
    a = call.attrs
    return "nn.group_norm", {"num_groups": a["groups"], "axis": 1, "epsilon": a["epsilon"]}


def _lrn(call: Call) -> Described:
    a = call.attrs
    return "nn.lrn", {"size": a["size"], "axis": 1, "bias": a["bias"], "alpha": a["alpha"],
                      "beta": a["beta"]}  # fmt: skip


def _pad(call: Call) -> Described:
    pads = plain(call.attrs["pads"])
    half = len(pads) // 2
    return "nn.pad", {
        "pad_width": tuple([(pads[i], pads[half + i]) for i in range(half)]),
        "pad_mode": call.attrs["mode"],
    }


def _topk(call: Call) -> Described:
    a = call.attrs
    return "topk", {"k": plain(a["k"]), "axis": a["axis"], "ret_type": "both",
                    "is_ascend": not a["largest"], "dtype": "int64"}  # fmt: skip


def _resize(call: Call) -> Described:
    rank = len(shape_of(call)) - 2
    a = call.attrs
    return f"image.resize{rank}d", {
        "size": shape_of(call)[2:],
        "layout": _LAYOUT.get(rank, ""),
        "method": a["mode"],
        "coordinate_transformation_mode": a["coordinate_mode"],
        "rounding_method": a["nearest_mode"],
        "cubic_alpha": a["cubic_coeff"],
    }


_SPECIAL: Mapping[str, Callable[[Call], Described]] = {
    "conv1d": _conv,
    "conv2d": _conv,
    "conv3d": _conv,
    "conv_transpose": _conv_transpose,
    "max_pool": _pool,
    "avg_pool": _pool,
    "mean": _reduce("mean"),
    "max": _reduce("max"),
    "add": _add,
    "matmul": _matmul,
    "reshape": _reshape,
    "batch_norm": _batch_norm,
    "expand_dims": _expand_dims,
    "prelu": _prelu,
    "instance_norm": _instance_norm,
    "group_norm": _group_norm,
    "lrn": _lrn,
    "pad": _pad,
    "topk": _topk,
    "resize": _resize,
}
