"""The one table between smelt's operators and the names that Relay programs use.

`describe(call)` gives a call's Relay name and attributes. Operators that Relay does not have keep
their own name after "smelt.", e.g. smelt.gelu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from smelt.ir.expr import Expr, IntImm
from smelt.ir.types import TensorType
from smelt.relax.nodes import Call, RelaxExpr
from smelt.topi.registry import Op

__all__ = ["DEFAULTS", "classic_names", "describe"]

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
    "expand_dims": ("expand_dims", {"axes": "axis"}),
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

DEFAULTS: dict[str, Any] = {
    # attributes that the text leaves out where they have this value
    "dilation": ((1,), (1, 1), (1, 1, 1)),
    "strides": ((1,), (1, 1), (1, 1, 1)),
    "padding": ((0, 0), (0, 0, 0, 0), (0, 0, 0, 0, 0, 0)),
    "output_padding": ((), (0,), (0, 0), (0, 0, 0)),
    "groups": (1,),
    "data_layout": ("NCW", "NCHW", "NCDHW"),
    "kernel_layout": ("OIW", "OIHW", "OIDHW", "IOW", "IOHW", "IODHW"),
    "layout": ("NCW", "NCHW", "NCDHW"),
    "out_layout": ("",),
    "out_dtype": ("",),
    "units": (None,),
    "keepdims": (False,),
    "exclusive": (False,),
    "reverse": (False,),
    "select_last_index": (False,),
    "ceil_mode": (False,),
    "count_include_pad": (False,),
    "transpose_a": (False,),
    "transpose_b": (False,),
    "center": (True,),
    "scale": (True,),
    "batch_dims": (0,),
    "mode": ("even", "negative"),  # of round and take
}

_LAYOUT = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def describe(call: Call) -> Described:
    """The Relay name and the attributes of a call of an operator."""
    op = call.op
    assert isinstance(op, Op)
    special = _SPECIAL.get(op.name)
    if special is not None:
        return special(call)
    name, renamed = _RENAMED.get(op.name, (f"smelt.{op.name}", {}))
    return name, {renamed.get(k, k): plain(v) for k, v in call.attrs.items()}


def classic_names() -> dict[str, tuple[str, ...]]:
    """Relay's names for each of smelt's operators that it knows; several where shapes decide."""
    found: dict[str, tuple[str, ...]] = {name: (to,) for name, (to, _) in _RENAMED.items()}
    return {**found, **_SPECIAL_NAMES}


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
    if isinstance(a, Call) and isinstance(a.op, Op):
        x, bias = shape_of(a), shape_of(b)
        if a.op.name.startswith("conv") and x == shape_of(call):
            tail = (1,) * (len(x) - 2)
            if bias == (x[1], *tail):
                return "nn.bias_add", {"axis": 1}
        if a.op.name == "matmul" and x == shape_of(call) and x and bias == (x[-1],):
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
        "pad_value": call.attrs["value"],
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
    "prelu": _prelu,
    "instance_norm": _instance_norm,
    "group_norm": _group_norm,
    "lrn": _lrn,
    "pad": _pad,
    "topk": _topk,
    "resize": _resize,
}

_SPECIAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "conv1d": ("nn.conv1d",),
    "conv2d": ("nn.conv2d",),
    "conv3d": ("nn.conv3d",),
    "conv_transpose": ("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"),
    "max_pool": ("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"),
    "avg_pool": ("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
    "mean": ("mean", "nn.global_avg_pool2d"),
    "max": ("max", "nn.global_max_pool2d"),
    "add": ("add", "nn.bias_add"),
    "matmul": ("nn.matmul", "nn.dense", "nn.batch_matmul"),
    "reshape": ("reshape", "nn.batch_flatten"),
    "batch_norm": ("nn.batch_norm",),
    "prelu": ("nn.prelu",),
    "instance_norm": ("nn.instance_norm",),
    "group_norm": ("nn.group_norm",),
    "lrn": ("nn.lrn",),
    "pad": ("nn.pad",),
    "topk": ("topk",),
    "resize": ("image.resize1d", "image.resize2d", "image.resize3d"),
}
