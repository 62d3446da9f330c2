"""Tensor programs: nodes, text form, verifier, interpreter, schedules, instructions.

The names that users of the field know stand here: `tir.PrimFunc`, `tir.Var`, `tir.exp`, ... What
only some programs need (schedules, the parser, instructions) is found when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
)

from . import classic, op, stmt_functor
from .buffer import decl_buffer
from .equal import assert_structural_equal, structural_equal, structural_hash
from .nodes import (
    Allocate,
    AllocateConst,
    AssertStmt,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    PrimFunc,
    Range,
    Reduce,
    Seq,
    Stmt,
    While,
    flat,
    seq,
)
from .op import (
    abs,
    acos,
    acosh,
    address_of,
    all,
    any,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    call_extern,
    call_intrin,
    call_llvm_intrin,
    call_llvm_pure_intrin,
    ceil,
    ceildiv,
    clz,
    copysign,
    cos,
    cosh,
    div,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floordiv,
    floormod,
    fma,
    fmod,
    hypot,
    if_then_else,
    indexdiv,
    indexmod,
    infinity,
    isfinite,
    isinf,
    isnan,
    likely,
    log,
    log1p,
    log2,
    log10,
    max,
    max_value,
    min,
    min_value,
    nextafter,
    popcount,
    power,
    reinterpret,
    round,
    rsqrt,
    shift_left,
    shift_right,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)

if TYPE_CHECKING:
    from smelt.arith import IndexMap

    from . import analysis, intrin, schedule, script
    from .extern import ExternFunction
    from .intrin import TensorIntrin
    from .parser import parse, parse_expr
    from .schedule import BlockRV, ExprRV, LoopRV, Schedule, Trace

_LATER = {
    **dict.fromkeys(("BlockRV", "ExprRV", "LoopRV", "Schedule", "Trace"), "smelt.tir.schedule"),
    **dict.fromkeys(
        ("ForKind", "Let", "PrimExpr", "ScheduleDebugMask", "SeqStmt"), "smelt.tir.classic"
    ),
    "ExternFunction": "smelt.tir.extern",
    "IndexMap": "smelt.arith",
    "ScheduleError": "smelt.ir.errors",
    **dict.fromkeys(("ScheduleState", "trace"), "smelt.classic.schedule_state"),
    "StmtSRef": "smelt.tir.schedule",
    "TensorIntrin": "smelt.tir.intrin",
    "comm_reducer": "smelt.te",
    "parse": "smelt.tir.parser",
    "parse_expr": "smelt.tir.parser",
}
if not TYPE_CHECKING:
    globals().update({n: c for n, c in classic.NODES.items() if n in globals()})
    # from outside, node classes take the classic arguments too

Mod, SizeVar, stmt_list, stmt_seq, pow, nearbyint = TruncMod, Var, flat, seq, power, round
"""Other names of the field for what stands above."""

_MODULES = ("analysis", "intrin", "schedule", "script", "transform")

__all__ = ["EQ", "GE", "GT", "LE", "LT", "NE", "Add", "Allocate", "AllocateConst", "And",
           "AssertStmt", "Block", "BlockRV", "BlockRealize", "Broadcast", "Buffer", "BufferLoad",
           "BufferRegion", "BufferStore", "Call", "Cast", "Div", "Evaluate", "Expr", "ExprRV",
           "ExternFunction", "FloatImm", "FloorDiv", "FloorMod", "For", "IfThenElse", "IndexMap",
           "IntImm", "IterVar", "LetStmt", "LoopRV", "Max", "Min", "Mul", "Not", "Or", "PrimFunc",
           "Ramp", "Range", "Reduce", "Schedule", "Select", "Seq", "Shuffle", "Stmt", "StringImm",
           "Sub", "TensorIntrin", "Trace", "TruncDiv", "TruncMod", "Var", "While", "abs", "acos",
           "acosh", "address_of", "all", "analysis", "any", "asin", "asinh",
           "assert_structural_equal", "atan", "atan2", "atanh", "bitwise_and", "bitwise_not",
           "bitwise_or", "bitwise_xor", "call_extern", "call_intrin", "call_llvm_intrin",
           "call_llvm_pure_intrin", "ceil", "ceildiv", "clz", "const", "copysign", "cos", "cosh",
           "decl_buffer", "div", "erf", "exp", "exp2", "expm1", "floor", "floordiv", "floormod",
           "fma", "fmod", "hypot", "if_then_else", "indexdiv", "indexmod", "infinity", "intrin",
           "isfinite", "isinf", "isnan", "likely", "log", "log1p", "log2", "log10", "max",
           "max_value", "min", "min_value", "nextafter", "op", "parse", "parse_expr", "popcount",
           "power", "reinterpret", "round", "rsqrt", "schedule", "script", "seq", "shift_left",
           "shift_right", "sigmoid", "sin", "sinh", "sqrt", "stmt_functor", "structural_equal",
           "structural_hash", "tan", "tanh", "trunc", "truncdiv", "truncmod"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"smelt.tir.{name}")
    raise AttributeError(f"module 'smelt.tir' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_MODULES})
