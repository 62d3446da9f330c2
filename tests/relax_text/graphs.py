"""Random graphs with symbolic sizes, for the laws of the text form."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from smelt.ir.build import maximum, minimum
from smelt.ir.expr import Expr
from smelt.ir.expr import Var as SizeVar
from smelt.ir.types import tensor_type
from smelt.relax.nodes import (
    Constant,
    Function,
    RelaxExpr,
    Tuple,
    TupleGetItem,
    Var,
    call,
    constant,
)

NAMES = ["x", "n", "v0", "w0", "class", "a.b", "1st", "R", "T", "größe", "gpu_0/data"]


@st.composite
def functions(draw: st.DrawFn) -> Function:
    """A function over tensors [s, 4] for symbolic s."""
    sizes = [SizeVar(draw(st.sampled_from(NAMES))) for _ in range(draw(st.integers(1, 2)))]
    rows: list[Expr | int] = [
        *sizes,
        3,
        sizes[0] * 2 + 1,
        (sizes[0] + 3) // 2,
        minimum(sizes[0], 7) % 5,
        maximum(sizes[-1] - 1, 1),
    ]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    params = [Var(name, tensor_type((draw(st.sampled_from(rows)), 4))) for name in names]
    if draw(st.booleans()):
        params.append(Var("all", tensor_type((sizes[0],))))
    values: list[Any] = [p for p in params if p.name != "all"]
    for _ in range(draw(st.integers(0, 8))):
        values.append(step(draw, values, rows))
    last = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    body: RelaxExpr = last[0] if len(last) == 1 and draw(st.booleans()) else Tuple(tuple(last))
    attrs: dict[str, Any] = draw(
        st.sampled_from([{}, {"output_names": ("y", "a b")}, {"k": {"deep": [1, 2.5, None, True]}}])
    )
    return Function(tuple(params), body, attrs)


def step(draw: st.DrawFn, values: list[Any], rows: list[Any]) -> RelaxExpr:
    """One more value of shape [s, 4]."""
    x = draw(st.sampled_from(values))
    number = st.floats(allow_nan=False, width=32)
    match draw(
        st.sampled_from(["unary", "attr", "binary", "reshape", "slice", "topk", "full", "clip"])
    ):
        case "unary":
            return call(draw(st.sampled_from(["relu", "exp", "tanh"])), x)
        case "attr":
            return call("leaky_relu", x, alpha=draw(number))
        case "binary":
            data = np.array(draw(st.lists(number, min_size=4, max_size=4)), np.float32)
            w: Constant = constant(data, draw(st.sampled_from(["", "w", "conv.bias"])))
            return call(draw(st.sampled_from(["add", "maximum"])), x, w)
        case "reshape":
            s = x.type.shape[0]
            return call("reshape", call("reshape", x, shape=(s * 2, 2)), shape=(s, 4))
        case "slice":
            return call(
                "strided_slice", x, axes=(0,), begin=(0,), end=(x.type.shape[0],), strides=(1,)
            )
        case "topk":
            return TupleGetItem(call("topk", x, k=4), 0)
        case "full":
            return call("full", shape=(draw(st.sampled_from(rows)), 4), value=draw(number))
    return call("clip", x, min=draw(st.none() | number), max=float("inf"))
