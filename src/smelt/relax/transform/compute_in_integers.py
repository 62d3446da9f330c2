"""What dequantized numbers are multiplied, moved and chosen from is done on the integers.

    dequantize(x) * dequantize(w)   =  dequantize(x' * w')      sums of products, in int32
    max(dequantize(x), ...)         =  dequantize(max(x, ...))
    quantize(dequantize(x))         =  requantize(x), or x where both have one scale

Only what is exact goes this way: dequantize moves behind an operator that gives the same numbers on
integers, to within the rounding of floats. What needs the scale of its result (sums of different
scales, averages) stays in floats, between loads and stores of integers, but for functions that are
looked up (look_up.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from smelt.ir import dtype as dt
from smelt.ir.module import IRModule
from smelt.relax.compose.common import dtype_of, rank_of
from smelt.relax.nodes import Call, RelaxExpr, call, values

from .eliminate_common_subexpr import eliminate_common_subexpr
from .fake_quantization import CORE, affine_type, dequantized_late, why_in_floats
from .fake_quantization_rules import source_axes
from .keep_few_bits import keep_few_bits
from .look_up import look_up
from .rewriting import functions_of, transform_functions

_PRODUCTS = ("conv1d", "conv2d", "conv3d", "conv_transpose", "matmul")
_EXACT = (*_PRODUCTS, "max", "min", "max_pool", "adaptive_max_pool", "relu", "mean", "concat",
          "add", "subtract", "multiply", "divide")  # fmt: skip
"""Operators whose integers are those of the numbers that floats would be rounded to."""


def compute_in_integers(mod: IRModule) -> IRModule:
    """A module that dequantizes behind exact operators instead of before them."""
    if not any(CORE.dequantizes(v) for f in functions_of(mod).values() for v in values(f.body)):
        return mod
    mod = transform_functions(mod, lambda old, new: _late(new))
    mod = transform_functions(mod, lambda old, new: _requantized(new))
    # integers that stood for several numbers are one value again
    return look_up(eliminate_common_subexpr(mod))


@dataclass(frozen=True)
class Products:
    """The products and convolutions of quantized numbers in a model.

    integers  how many are computed in integers
    floats    the others: the name of the node or operator, and why it is not
    small     products of floats with weights of few bits, which stay so
    """

    integers: int
    floats: tuple[tuple[str, str], ...]
    small: int = 0


def products_of(mod: IRModule) -> Products:
    """What becomes of a model's products, some operand of which is quantized."""
    made = keep_few_bits(compute_in_integers(mod))
    calls = [v for f in functions_of(made).values() for v in values(f.body)]
    integers, floats, small = 0, [], 0
    for v in calls:
        small += isinstance(v, Call) and v.callee == "matmul_in_blocks"
        if not isinstance(v, Call) or v.callee not in _PRODUCTS:
            continue
        if v.attrs["out_dtype"] == "int32":
            integers += 1
        elif any(isinstance(a, Call) and CORE.dequantizes(a) for a in v.args):
            wide = _wide(v)
            why = f"an operand is {wide}; legal: 8 bits" if wide else why_in_floats(v, CORE)
            floats.append((v.name or v.callee, why))
    return Products(integers, tuple(floats), small)


def _wide(n: Call) -> str:
    """The type of an operand of a product whose sums int32 need not hold; "": there is none."""
    sources = [a.args[0] for a in n.args if isinstance(a, Call) and CORE.dequantizes(a)]
    return next((dtype_of(x) for x in sources if x is not None and dt.bits(dtype_of(x)) != 8), "")


def _late(n: Any) -> RelaxExpr | None:
    """A call on integers of 8 bits or sums of them, dequantized; None: it stays."""
    if not isinstance(n, Call) or not (n.callee in _EXACT or _moves(n)):
        return None
    if n.callee in _PRODUCTS and _wide(n):
        return None
    return dequantized_late(n, CORE)


def _moves(n: Call) -> bool:
    """Whether elements are only moved."""
    return n.callee != "pad" and source_axes(n) is not None


def _requantized(q: Any) -> RelaxExpr | None:
    """From one scale to another by one factor, where dequantized numbers are quantized again."""
    if not isinstance(q, Call) or q.op is not CORE.op("quantize"):
        return None
    inner = q.args[0]
    if not isinstance(inner, Call) or not CORE.dequantizes(inner):
        return None
    into = q.attrs["out_dtype"]
    x, scale, zero = (*inner.args, None)[:3]
    if q.attrs["rounding"] != "even" or not dt.is_int(into) or dt.bits(into) > 16 or x is None:
        return None
    step, move = (*q.args, None)[1:3]
    plain = all(v is None or rank_of(v) <= 1 for v in (scale, zero, step, move))
    if plain and affine_type(inner, dtype_of(x)).same(affine_type(q, into)):
        return x  # rounding takes away what multiplication and division by one scale leave
    return call("requantize", x, scale, zero, step, move, axis=inner.attrs["axis"],
                out_dtype=into, rounding="even", compute_dtype="float32", name=q.name)  # fmt: skip
