"""Mathematical intrinsics spelled out as arithmetic: `expand("exp", (x,))` is an expression tree.

A vector of exp becomes one libcall per lane in LLVM; these trees vectorise. They are lane-wise,
free of branches and tables, and made of Add, Sub, Mul, Div, comparisons, Select, And, Or, Not, Cast
and the primitive calls fma, floor, round, sqrt, abs, copysign, reinterpret, bitwise_and,
bitwise_or, bitwise_xor, shift_left and shift_right. docs/math.md has the measured errors.
"""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir.build import call, select
from smelt.ir.expr import Expr, cast, const

from . import math_exp, math_log, math_trig
from .math_core import FLOAT64, FORMATS, Format, copysign, fabs, fma


def rsqrt(x: Expr, f: Format) -> Expr:
    """1 / sqrt(x)."""
    return 1.0 / call("sqrt", x)


def sign(x: Expr, f: Format) -> Expr:
    """-1, 0 or 1; a NaN stays, the sign of zero does not."""
    return select(x > 0.0, f.number(1.0), select(x < 0.0, f.number(-1.0), x + 0.0))


def fmod(x: Expr, y: Expr, f: Format) -> Expr:
    """x - y * trunc(x / y), exact; float32 only.

    In float64 each step r - y * round(r / y) is exact and takes 52 bits off the quotient, which has
    277 at most. The last step may leave a negative remainder.
    """
    d = FLOAT64
    r, b = fabs(cast(d.dtype, x)), fabs(cast(d.dtype, y))
    for _ in range(6):
        r = fma(call("round", r / b), d.number(0.0) - b, r)
    r = select(r < 0.0, r + b, r)
    result = copysign(cast(f.dtype, r), x)
    inside = fabs(x) < fabs(y)
    return select(inside, x, result)


_EXPANSIONS: dict[str, Callable[..., Expr]] = {
    **{
        name: function
        for module in (math_exp, math_log, math_trig)
        for name, function in vars(module).items()
        if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
    },
    **{f.__name__: f for f in (rsqrt, sign, fmod)},
}
"""What the modules of functions define: from operands and their format to a tree."""
_FLOAT32_ONLY = ("erf", "fmod", "pow", "sin", "cos", "tan")
EXPANDED = tuple(_EXPANSIONS)
"""The intrinsics that `expand` knows."""


def expand(op: str, args: tuple[Expr, ...]) -> Expr | None:
    """The intrinsic `op` of scalar operands as arithmetic, or None: the library has to do it.

    float16 and bfloat16 are computed in float32; float64 is known for all but erf, fmod, pow, sin,
    cos and tan.
    """
    if op not in _EXPANSIONS:
        return None
    dtype = args[0].dtype
    if dtype in ("float16", "bfloat16"):
        wide = expand(op, tuple(cast("float32", a) for a in args))
        return None if wide is None else cast(dtype, wide)
    f = FORMATS.get(dtype)
    if f is None:
        return _integer_sign(args[0]) if op == "sign" and dt.is_int(dtype) else None
    return None if f is FLOAT64 and op in _FLOAT32_ONLY else _EXPANSIONS[op](*args, f)


def _integer_sign(x: Expr) -> Expr:
    """The sign of an integer."""
    one, zero = const(1, x.dtype), const(0, x.dtype)
    positive = select(x > 0, one, zero)
    return select(x < 0, const(-1, x.dtype), positive) if dt.is_signed(x.dtype) else positive
