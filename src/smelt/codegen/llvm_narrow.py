"""bfloat16 in LLVM: 16 bits in memory and registers, computed with as float32, rounded every time.

LLVM's own bfloat type is not selected everywhere: odd numbers of lanes end the process, conversions
call functions that no library has. float32 has more than twice its digits, so that rounding after
every operation gives what an exact operation would.
"""

from __future__ import annotations

from smelt.ir import dtype as dt
from smelt.ir.expr import Binary, Call, Cast, Compare, Expr, Not, Select
from smelt.tir.named_calls import NAMED_CALLS

from .llvm_emitter import Emitter
from .llvm_types import each_lane, literal

_MOVES = ("if_then_else", "reinterpret", "likely")


def is_bfloat(dtype: str) -> bool:
    """Whether the elements of a type are bfloat16."""
    return dt.scalar(dtype) == "bfloat16"


class NarrowFloats(Emitter):
    """The part of an emitter that knows bfloat16, and float64 to 16 bits."""

    def widened(self, e: Expr) -> Expr | None:
        """An operation on bfloat16 as one on float32; None where it only moves values."""
        if isinstance(e, Select | Not) or (isinstance(e, Call) and e.op in (*_MOVES, *NAMED_CALLS)):
            return None
        if not isinstance(e, Binary | Call) or not any(
            isinstance(c, Expr) and is_bfloat(c.dtype) for c in e.children()
        ):
            return None

        def single(c: Expr) -> Expr:
            return Cast(dt.vector("float32", dt.lanes(c.dtype)), c) if is_bfloat(c.dtype) else c

        if isinstance(e, Call):
            args = tuple([single(a) for a in e.args])
            if not is_bfloat(e.type):
                return Call(e.type, e.op, args)
            return Cast(e.type, Call(dt.vector("float32", dt.lanes(e.type)), e.op, args))
        wide = type(e)(single(e.a), single(e.b))
        return wide if isinstance(e, Compare) else Cast(e.dtype, wide)

    def bfloat_to_single(self, value: str, dtype: str) -> str:
        """The 16 bits are the upper half of a float32."""
        i16, i32, f32 = (each_lane(dtype, t) for t in ("i16", "i32", "float"))
        bits = self.assign(f"zext {i16} {value} to {i32}")
        bits = self.assign(f"shl {i32} {bits}, {literal(dtype, 'i32', '16')}")
        return self.assign(f"bitcast {i32} {bits} to {f32}")

    def single_to_bfloat(self, value: str, dtype: str) -> str:
        """The upper half, rounded to nearest, ties to even; a NaN stays one."""
        i16, i32, f32, bit = (each_lane(dtype, t) for t in ("i16", "i32", "float", "i1"))

        def many(number: int) -> str:
            return literal(dtype, "i32", str(number))

        bits = self.assign(f"bitcast {f32} {value} to {i32}")
        high = self.assign(f"lshr {i32} {bits}, {many(16)}")
        odd = self.assign(f"and {i32} {high}, {many(1)}")
        up = self.assign(f"add {i32} {odd}, {many(0x7FFF)}")
        rounded = self.assign(f"add {i32} {bits}, {up}")
        number = self.assign(f"lshr {i32} {rounded}, {many(16)}")
        quiet = self.assign(f"or {i32} {high}, {many(0x40)}")
        nan = self.assign(f"fcmp uno {f32} {value}, {value}")
        chosen = self.assign(f"select {bit} {nan}, {i32} {quiet}, {i32} {number}")
        return self.assign(f"trunc {i32} {chosen} to {i16}")

    def double_to_odd_single(self, value: str, dtype: str) -> str:
        """A float64 cut to float32, the last bit set where something is lost.

        Rounded again to a type of at most 22 bits, it gives what rounding once would.
        """
        f64, f32, i32, bit = (each_lane(dtype, t) for t in ("double", "float", "i32", "i1"))
        near = self.assign(f"fptrunc {f64} {value} to {f32}")
        back = self.assign(f"fpext {f32} {near} to {f64}")
        lossy = self.assign(f"fcmp one {f64} {back}, {value}")
        # compared as bits, the larger magnitude is the larger number without the sign
        i64 = each_lane(dtype, "i64")
        sizes = []
        for v in (back, value):
            raw = self.assign(f"bitcast {f64} {v} to {i64}")
            most = literal(dtype, "i64", str((1 << 63) - 1))
            sizes.append(self.assign(f"and {i64} {raw}, {most}"))
        beyond = self.assign(f"icmp ugt {i64} {sizes[0]}, {sizes[1]}")
        beyond = self.assign(f"and {bit} {beyond}, {lossy}")
        one = self.assign(f"zext {bit} {beyond} to {i32}")
        bits = self.assign(f"bitcast {f32} {near} to {i32}")
        bits = self.assign(f"sub {i32} {bits}, {one}")
        last = self.assign(f"zext {bit} {lossy} to {i32}")
        bits = self.assign(f"or {i32} {bits}, {last}")
        return self.assign(f"bitcast {i32} {bits} to {f32}")
