"""The intrinsics of tensor programs, each once: its name, operands and written form.

Parser, printer, verifier and interpreter read these tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.node import Node, ordered
from smelt.runtime.abi import SERVICES

from .nodes import ADDRESS, Buffer, BufferLoad, BufferStore, Evaluate, Stmt, own_exprs

# ------------------------------------------------------------------------------------ intrinsics


class Intrinsic(NamedTuple):
    """A pure function of scalars (or of vectors, lane by lane).

    arity     how many operands
    operands  what they are: "float", "int" (or bool) or "any"
    result    the result's type: "same" as the operands', "bool", or "given" in the text
    others    more names, which the field uses
    cost      beside an addition, about: what takes longer than a load, or many times as long
    """

    name: str
    arity: int
    operands: str = "any"
    result: str = "same"
    others: tuple[str, ...] = ()
    cost: int = 1


ROOT, TRANSCENDENTAL = 4, 16
"""Costs of functions."""

_TRANSCENDENTAL = """exp exp2 log log2 log10 log1p expm1 tanh sigmoid erf sin cos tan asin acos atan
sinh cosh asinh acosh atanh"""
_FLOAT_BINARY = "copysign nextafter hypot"
_INTEGER_BINARY = "bitwise_and bitwise_or bitwise_xor shift_left shift_right high_product"

INTRINSICS: dict[str, Intrinsic] = {
    i.name: i
    for i in (
        *[Intrinsic(n, 1, "float", cost=TRANSCENDENTAL) for n in _TRANSCENDENTAL.split()],
        *[Intrinsic(n, 1, "float", cost=ROOT) for n in ("sqrt", "rsqrt")],
        Intrinsic("atan2", 2, "float", cost=TRANSCENDENTAL),
        *[Intrinsic(n, 2, "float") for n in _FLOAT_BINARY.split()],
        *[Intrinsic(n, 2, "int") for n in _INTEGER_BINARY.split()],
        *[Intrinsic(n, 1) for n in ("floor", "ceil", "trunc", "sign", "likely")],
        *[Intrinsic(n, 1, result="bool") for n in ("isnan", "isinf", "isfinite")],
        *[Intrinsic(n, 1, "int") for n in ("popcount", "clz", "bitwise_not")],
        Intrinsic("round", 1, others=("nearbyint",)),
        Intrinsic("abs", 1, others=("fabs",)),
        Intrinsic("pow", 2, others=("power",), cost=TRANSCENDENTAL),
        Intrinsic("fmod", 2, cost=TRANSCENDENTAL),
        Intrinsic("ldexp", 2),
        Intrinsic("fma", 3),
        Intrinsic("if_then_else", 3),
        Intrinsic("reinterpret", 1, result="given"),
    )
}
"""The pure intrinsics by name."""

HOST_INTRINSICS = tuple([f"smelt.{name}" for name in (
    "call_kernel", "call_packed", "alloc_storage", "free_storage", "tensor_view", "probe",
    *SERVICES.fields,
)])  # fmt: skip
"""What a host program may call, and nothing else; from `enter` on, on values of a program that
decides while it runs (native/smelt.h says what each does)."""

EXTERN = "smelt.call_extern"
"""The call of an external function: its name, then addresses of elements and scalars."""

PREFETCH = "prefetch"
"""A hint without meaning for results: the element at an address will be wanted soon, in the nearest
cache or, by its number, a further one."""

NO_PARTITION = "no_partition"
"""A loop's annotation: loops around it are not partitioned by the conditions in it."""
PARTS = "parts"
"""The attribute of a program that names variables whose scopes are functions of their own in C."""
READ_BEFORE = "read_before"
"""The attribute of a program that names parameters which are read at many offsets from addresses,
the negative ones of which instructions do not reach."""
SHARED_OUT = "tasks"
"""The annotation of a parallel loop that says into how many tasks, ranges of its iterations and of
those of the parallel loops right inside, it is divided at most."""
TASKS = 32
"""Tasks where nothing else is said: several a core, which evens out, on as many cores as there will
be. How many cores compile makes no difference."""

DEVICE_INTRINSICS = ("smelt.storage_sync",)
"""What a kernel with threads may call: a barrier, its operand the scope ("shared")."""

NAMED_CALLS = ("call_instruction", "call_llvm_intrin", "call_llvm_pure_intrin")
"""Calls of what their first operand, a text, names: instructions and LLVM intrinsics."""


def inferred_dtype(op: str, args: tuple[expr.Expr, ...]) -> str | None:
    """The result type that a call has unless it says otherwise; None where it must say so."""
    if op.startswith("smelt."):
        return "int32"
    known = INTRINSICS.get(op)
    if known is None or len(args) != known.arity or not args or known.result == "given":
        return None
    if op == "if_then_else":
        return args[1].dtype
    first = args[0].dtype
    if known.operands != "any" and not all(fits(known, a.dtype) for a in args):
        return None
    return dt.vector("bool", dt.lanes(first)) if known.result == "bool" else first


def fits(known: Intrinsic, dtype: str) -> bool:
    """Whether an intrinsic takes operands of a type."""
    if known.operands == "any":
        return True
    return dt.is_float(dtype) if known.operands == "float" else not dt.is_float(dtype)


# ----------------------------------------------------------------------------------------- types

DTYPE_NAMES = (*dt.DTYPES, "handle")
CLASSIC_TYPES = {"Ptr": "handle", "ptr": "handle", "boolean": "bool"}
"""Other names of types of parameters."""


def is_dtype(name: str) -> bool:
    """Whether T.name is an element type, or a vector of one."""
    base, x, count = name.rpartition("x")
    return name in DTYPE_NAMES or (bool(x) and base in DTYPE_NAMES and count.isdigit())


# ------------------------------------------------------------------------------------ expressions


def expr_nodes(root: expr.Expr) -> Iterator[expr.Expr]:
    """Every expression in one, once, operands first; buffers are not entered. Iterative."""
    return ordered([root], operands)


def expressions(*stmts: Stmt) -> Iterator[expr.Expr]:
    """Every expression in those directly in some statements, once, operands first."""
    return ordered([e for s in stmts for e in own_exprs(s)], operands)


def is_pure(e: expr.Expr) -> bool:
    """Whether an expression only computes: it calls nothing but known intrinsics.

    Loads count as pure: their value depends on memory, but nothing changes.
    """
    return all(not isinstance(n, expr.Call) or n.op in INTRINSICS for n in expr_nodes(e))


def operands(e: expr.Expr) -> list[expr.Expr]:
    """The expressions directly inside one."""
    if type(e) is expr.Var or type(e) is expr.IntImm:  # most are
        return []
    if isinstance(e, expr.Binary):
        return [e.a, e.b]
    if isinstance(e, BufferLoad):
        return list(e.indices)
    if isinstance(e, expr.Call):
        return list(e.args)
    return [c for c in e.children() if isinstance(c, expr.Expr)]


def shape_vars(params: tuple[Node, ...]) -> list[expr.Var]:
    """Variables that occur in the parameters' shapes without being parameters, by first use."""
    found: dict[expr.Var, None] = {}
    for p in params:
        if isinstance(p, Buffer):
            for e in (*p.shape, *p.strides):
                if isinstance(e, expr.Var):
                    found[e] = None
                elif not isinstance(e, expr.IntImm):
                    found.update(dict.fromkeys(n for n in expr_nodes(e) if isinstance(n, expr.Var)))
    return [v for v in found if v not in params]


def place_of(e: expr.Expr) -> BufferLoad | None:
    """The load of the element whose address an expression is."""
    place = e.args[0] if isinstance(e, expr.Call) and e.op == ADDRESS else None
    return place if isinstance(place, BufferLoad) else None


def locality(prefetch: expr.Call) -> int:
    """How near a hint wants an element, as LLVM and GCC count: 3 is the nearest cache."""
    cache = prefetch.args[1] if len(prefetch.args) > 1 else None
    return 4 - cache.value if isinstance(cache, expr.IntImm) else 3


def extern_call(s: Stmt) -> expr.Call | None:
    """The call of an external function that a statement is, if it is one."""
    call = s.value if isinstance(s, Evaluate) else None
    return call if isinstance(call, expr.Call) and call.op == EXTERN else None


def stored(s: Stmt) -> list[Buffer]:
    """The buffers that a statement itself stores into; an external function: all it is given."""
    if isinstance(s, BufferStore):
        return [s.buffer]
    call = extern_call(s)
    if call is None:
        return []
    return [at.buffer for at in map(place_of, call.args) if at is not None]
