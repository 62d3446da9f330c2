"""Calls whose first operand is a name: instructions of tir/intrin and LLVM's intrinsics.

T.call_instruction("int32x4", "arm.neon.sdot", c, a, b)
T.call_llvm_pure_intrin("float32x4", "llvm.fma.v4f32", a, b, c)
T.call_llvm_intrin("int32", "llvm.some.effect", x)      # evaluated where it stands, each time
"""

from __future__ import annotations

from smelt.ir.expr import Call, ExprLike, StringImm, convert

from .nodes import PrimFunc, walk
from .script_ops import NAMED_CALLS as NAMED_CALLS
from .script_ops import expressions


def call_llvm(dtype: str, name: str, *args: ExprLike) -> Call:
    """The value of an LLVM intrinsic without effects, e.g. `llvm.fma.v4f32`."""
    return Call(dtype, "call_llvm_pure_intrin", (StringImm(name), *[convert(a) for a in args]))


def name_of(e: Call) -> str:
    """What one of NAMED_CALLS calls, "" where its first operand is no text."""
    first = e.args[0] if e.args else None
    return first.value if isinstance(first, StringImm) else ""


def named_calls(func: PrimFunc) -> tuple[Call, ...]:
    """The calls of instructions and LLVM intrinsics in a program, each once, in order."""
    inside = expressions(*walk(func.body))
    return tuple([e for e in inside if isinstance(e, Call) and e.op in NAMED_CALLS])
