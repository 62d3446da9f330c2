"""What printer, parser, verifier and interpreters agree on: intrinsics and their result types."""

from __future__ import annotations

from collections.abc import Iterator

from smelt.ir import dtype as dt
from smelt.ir.expr import Call, Expr, Var
from smelt.ir.node import Node

from .nodes import Buffer, BufferLoad

__all__ = [
    "DTYPE_NAMES",
    "HOST_INTRINSICS",
    "INTRINSICS",
    "expr_nodes",
    "inferred_dtype",
    "operands",
    "shape_vars",
]

HOST_INTRINSICS = (
    "smelt.call_kernel",
    "smelt.alloc_storage",
    "smelt.free_storage",
    "smelt.tensor_view",
    "smelt.check_shape",
    "smelt.call_packed",
    "smelt.make_object",
    "smelt.get_field",
    "smelt.retain",
    "smelt.release",
    "smelt.while",
    "smelt.probe",
)
"""What a host program may call, and nothing else."""

_UNARY = (
    "exp exp2 log log2 log10 log1p expm1 sqrt rsqrt tanh sigmoid erf sin cos tan asin acos atan "
    "sinh cosh asinh acosh atanh floor ceil round trunc abs isnan isinf isfinite popcount clz "
    "bitwise_not reinterpret likely sign"
)
_BINARY = (
    "atan2 pow fmod copysign bitwise_and bitwise_or bitwise_xor shift_left shift_right "
    "nextafter hypot ldexp"
)

INTRINSICS: dict[str, int] = {
    **dict.fromkeys(_UNARY.split(), 1),
    **dict.fromkeys(_BINARY.split(), 2),
    "fma": 3,
    "if_then_else": 3,
    "max_value": 0,
    "min_value": 0,
}
"""The pure intrinsics, and how many operands each takes."""

DTYPE_NAMES = (*dt.DTYPES, "handle")


def inferred_dtype(op: str, args: tuple[Expr, ...]) -> str | None:
    """The result type that a call has unless it says otherwise; None where it must say so."""
    if op.startswith("smelt."):
        return "int32"
    if op not in INTRINSICS or len(args) != INTRINSICS[op] or not args or op == "reinterpret":
        return None
    if op == "if_then_else":
        return args[1].dtype
    if op in ("isnan", "isinf", "isfinite"):
        return dt.vector("bool", dt.lanes(args[0].dtype))
    return args[0].dtype


def expr_nodes(root: Expr) -> Iterator[Expr]:
    """Every expression in one, once, operands first; buffers are not entered. Iterative."""
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if ready:
            yield e
        elif e not in seen:
            seen.add(e)
            stack.append((e, True))
            stack.extend((c, False) for c in reversed(operands(e)))


def operands(e: Expr) -> list[Expr]:
    """The expressions directly inside one."""
    if isinstance(e, BufferLoad):
        return list(e.indices)
    if isinstance(e, Call):
        return list(e.args)
    return [c for c in e.children() if isinstance(c, Expr)]


def shape_vars(params: tuple[Node, ...]) -> list[Var]:
    """Variables that occur in the parameters' shapes without being parameters, by first use."""
    found: dict[Var, None] = {}
    for p in params:
        if isinstance(p, Buffer):
            for e in (*p.shape, *p.strides):
                found.update(dict.fromkeys(n for n in expr_nodes(e) if isinstance(n, Var)))
    return [v for v in found if v not in params]
