"""LLVM instructions for expressions: arithmetic, comparisons, casts, math."""

from __future__ import annotations

from collections.abc import Callable

from smelt.ir import dtype as dt
from smelt.ir import expr
from smelt.ir.errors import InternalError
from smelt.tir.math import expand
from smelt.tir.named_calls import NAMED_CALLS
from smelt.tir.nodes import ADDRESS, BufferLoad
from smelt.tir.rewrite import loads

from .c_helpers import MATH
from .llvm_instructions import InstructionOps
from .llvm_types import each_lane, float_literal, literal, llvm_type, mangled, mem_type, zero

_FLOAT_INTRINSICS = {
    **{name: name for name in ("sqrt", "floor", "ceil", "trunc", "fma", "copysign")},
    "round": "roundeven",
    "abs": "fabs",
}
_COUNTS = {"popcount": "ctpop", "clz": "ctlz"}
_EXPANSIONS: dict[tuple[str, tuple[str, ...]], tuple[tuple[expr.Var, ...], expr.Expr | None]] = {}
"""Functions written out, by name and operand types."""


class ScalarOps(InstructionOps):
    """The part of a function's emitter that knows instructions."""

    def operation(self, e: expr.Expr) -> str:
        """The instruction(s) of one node, whose operands are emitted first."""
        method = _DISPATCH.get(type(e))
        if method is not None:
            return method(self, e)
        if isinstance(e, expr.Compare):
            return self.compare(e)
        if isinstance(e, expr.Binary):
            return self.arithmetic(e)
        raise InternalError(f"{self.name}: no LLVM form for {type(e).__name__}")

    # ------------------------------------------------------------------------- plain operators

    def arithmetic(self, e: expr.Binary) -> str:
        """+ - * / and or on scalars or vectors."""
        name, t = type(e).__name__.lower(), llvm_type(e.a.dtype)  # LLVM's names are ours
        a, b = self.value(e.a), self.value(e.b)
        if dt.is_float(e.dtype):
            if isinstance(e, expr.And | expr.Or):
                raise InternalError(
                    f"{self.name}: no LLVM form for {type(e).__name__} on {e.dtype}"
                )
            return self.assign(f"f{name} {t} {a}, {b}")
        if isinstance(e, expr.Div):
            return self.integer_division(expr.TruncDiv, e.a.dtype, a, b)
        if dt.scalar(e.dtype) == "bool":
            name = {"add": "or", "mul": "and"}.get(name, name)
        return self.assign(f"{name} {t} {a}, {b}")

    def compare(self, e: expr.Compare) -> str:
        """A comparison; floats compare ordered but for !=."""
        a, b, t = self.value(e.a), self.value(e.b), llvm_type(e.a.dtype)
        name = type(e).__name__.lower()
        if dt.is_float(e.a.dtype):
            return self.assign(f"fcmp {'u' if name == 'ne' else 'o'}{name} {t} {a}, {b}")
        sign = "" if name in ("eq", "ne") else "s" if dt.kind(e.a.dtype) == "int" else "u"
        return self.assign(f"icmp {sign}{name} {t} {a}, {b}")

    def min_max(self, e: expr.Binary) -> str:
        """min and max; a NaN wins. Against a constant one comparison does it on x86."""
        a, b, t = self.value(e.a), self.value(e.b), llvm_type(e.dtype)
        greatest = isinstance(e, expr.Max)
        if dt.is_float(e.dtype):
            if _is_number(e.a):
                a, b = b, a
            if _is_number(e.a) or _is_number(e.b):
                test = self.assign(f"fcmp {'ogt' if greatest else 'olt'} {t} {b}, {a}")
                return self.assign(f"select {each_lane(e.dtype, 'i1')} {test}, {t} {b}, {t} {a}")
            # which of 0.0 and -0.0 is the larger one takes instructions, and is left open
            name = "maximum" if greatest else "minimum"
            return self.intrinsic(name, e.dtype, [a, b], "nsz ")
        signed = "s" if dt.kind(e.dtype) == "int" else "u"
        return self.intrinsic(f"{signed}{'max' if greatest else 'min'}", e.dtype, [a, b])

    def division(self, e: expr.Binary) -> str:
        """Integer quotients and remainders, rounded down or toward zero."""
        if dt.is_float(e.dtype):
            return self.float_remainder(e)
        a, b = self.value(e.a), self.value(e.b)
        kind = type(e)
        if kind in (expr.TruncDiv, expr.TruncMod) or dt.kind(e.dtype) != "int":
            trunc = expr.TruncDiv if kind in (expr.TruncDiv, expr.FloorDiv) else expr.TruncMod
            return self.integer_division(trunc, e.dtype, a, b)
        by = _scalar(e.b)
        if isinstance(by, expr.IntImm) and by.value > 0 and by.value & (by.value - 1) == 0:
            t, element = llvm_type(e.dtype), mem_type(e.dtype)
            if kind is expr.FloorDiv:
                bits = literal(e.dtype, element, str(by.value.bit_length() - 1))
                return self.assign(f"ashr {t} {a}, {bits}")
            return self.assign(f"and {t} {a}, {literal(e.dtype, element, str(by.value - 1))}")
        return self.floor_division(kind, e.dtype, a, b)

    def floor_division(self, kind: type, dtype: str, a: str, b: str) -> str:
        """The quotient toward minus infinity: one less where a remainder has the other sign."""
        t, bit = llvm_type(dtype), each_lane(dtype, "i1")
        quotient = self.integer_division(expr.TruncDiv, dtype, a, b)
        product = self.assign(f"mul {t} {quotient}, {b}")
        remainder = self.assign(f"sub {t} {a}, {product}")
        nothing = zero(dtype)
        inexact = self.assign(f"icmp ne {t} {remainder}, {nothing}")
        signs = self.assign(f"xor {t} {remainder}, {b}")
        opposite = self.assign(f"icmp slt {t} {signs}, {nothing}")
        both = self.assign(f"and {bit} {inexact}, {opposite}")
        if kind is expr.FloorDiv:
            one = self.assign(f"sext {bit} {both} to {t}")
            return self.assign(f"add {t} {quotient}, {one}")
        fix = self.assign(f"select {bit} {both}, {t} {b}, {t} {nothing}")
        return self.assign(f"add {t} {remainder}, {fix}")

    def integer_division(self, kind: type, dtype: str, a: str, b: str) -> str:
        """Division as the processor does it, but for what would trap there: a divisor of zero gives
        what a divisor of one does, and the lowest value divided by -1 wraps around."""
        t, bit, signed = llvm_type(dtype), each_lane(dtype, "i1"), dt.kind(dtype) == "int"
        name = ("s" if signed else "u") + ("div" if kind is expr.TruncDiv else "rem")
        if not b.startswith("%"):
            return self.assign(f"{name} {t} {a}, {b}")
        nothing, element = zero(dtype), mem_type(dtype)
        one, least = (literal(dtype, element, number) for number in ("1", "-1"))
        trap = self.assign(f"icmp eq {t} {b}, {nothing}")
        if not signed:
            safe = self.assign(f"select {bit} {trap}, {t} {one}, {t} {b}")
            return self.assign(f"{name} {t} {a}, {safe}")
        minus = self.assign(f"icmp eq {t} {b}, {least}")
        trap = self.assign(f"or {bit} {trap}, {minus}")
        safe = self.assign(f"select {bit} {trap}, {t} {one}, {t} {b}")
        result = self.assign(f"{name} {t} {a}, {safe}")
        if kind is not expr.TruncDiv:
            return result
        negated = self.assign(f"sub {t} {nothing}, {a}")
        return self.assign(f"select {bit} {minus}, {t} {negated}, {t} {result}")

    def float_remainder(self, e: expr.Binary) -> str:
        """x - floor(x / y) * y, and the truncating form."""
        a, b, t = self.value(e.a), self.value(e.b), llvm_type(e.dtype)
        if isinstance(e, expr.TruncMod):
            return self.assign(f"frem {t} {a}, {b}")
        rest = self.assign(f"frem {t} {a}, {b}")
        nothing = zero(e.dtype)
        inexact = self.assign(f"fcmp une {t} {rest}, {nothing}")
        below = self.assign(f"fcmp olt {t} {rest}, {nothing}")
        negative = self.assign(f"fcmp olt {t} {b}, {nothing}")
        bit = each_lane(e.dtype, "i1")
        differ = self.assign(f"xor {bit} {below}, {negative}")
        both = self.assign(f"and {bit} {inexact}, {differ}")
        moved = self.assign(f"fadd {t} {rest}, {b}")
        signed = self.intrinsic("copysign", e.dtype, [rest, b])  # a zero has the divisor's sign
        kept = self.assign(f"select {bit} {inexact}, {t} {rest}, {t} {signed}")
        return self.assign(f"select {bit} {both}, {t} {moved}, {t} {kept}")

    def negation(self, e: expr.Not) -> str:
        """not a."""
        a, t = self.value(e.a), llvm_type(e.dtype)
        return self.assign(f"xor {t} {a}, {literal(e.dtype, 'i1', 'true')}")

    def choice(self, e: expr.Select) -> str:
        """One of two values."""
        c, a, b = self.value(e.condition), self.value(e.true_value), self.value(e.false_value)
        bit = each_lane(e.condition.dtype, "i1") if dt.lanes(e.dtype) > 1 else "i1"
        t = llvm_type(e.dtype)
        return self.assign(f"select {bit} {c}, {t} {a}, {t} {b}")

    # ------------------------------------------------------------------------- casts

    def conversion(self, e: expr.Cast) -> str:
        """A value as another type."""
        direct = self.bounded(e) if self.module.arch == "x86" else None
        return direct or self.convert(self.value(e.value), e.value.dtype, e.dtype)

    def bounded(self, e: expr.Cast) -> str | None:
        """A float32 between two numbers that integers of 16 bits or less hold, rounded to even or
        not, perhaps moved as int32, by x86's conversion: what it says for NaN ends in 16 zeros.
        None: it is none."""
        target, x, move = e.dtype, e.value, 0
        if isinstance(x, expr.Add) and dt.scalar(x.dtype) == "int32" and isinstance(x.a, expr.Cast):
            number = _scalar(x.b)
            if not isinstance(number, expr.IntImm):
                return None
            x, move = x.a.value, number.value
        if dt.scalar(x.dtype) != "float32" or not dt.is_int(target) or dt.bits(target) > 16:
            return None
        inner = x.args[0] if isinstance(x, expr.Call) and x.op == "round" else None
        ends = _ends(x if inner is None else inner)
        low, high = dt.limits(target)
        if ends is None or not low - move <= ends[0] <= ends[1] <= high - move:
            return None
        wide = dt.vector("int32", dt.lanes(target))
        a, b = llvm_type(x.dtype), llvm_type(wide)
        if inner is None:
            made = self.assign(f"fptosi {a} {self.value(x)} to {b}")
        else:
            name = f"@llvm.lrint.{mangled(wide)}.{mangled(x.dtype)}"
            made = self.named(name, b, [(a, self.value(inner))])
        if move:
            made = self.assign(f"add {b} {made}, {literal(wide, mem_type(wide), str(move))}")
        return self.convert(made, wide, target)

    def convert(self, value: str, source: str, target: str) -> str:
        """The instruction that converts; floats to integers saturate, NaN becomes 0."""
        lanes = dt.lanes(source)
        a, b = llvm_type(source), llvm_type(target)
        from_float, to_float = dt.is_float(source), dt.is_float(target)
        signed = dt.kind(source) == "int"
        if dt.scalar(target) == "bool":
            test = "fcmp une" if from_float else "icmp ne"
            return self.assign(f"{test} {a} {value}, {zero(source)}")
        if from_float and to_float:
            return self.float_conversion(value, source, target)
        if from_float and dt.bits(source) < 32:  # AVX512-FP16's own conversion makes NaN -32768
            single = dt.vector("float32", lanes)
            return self.convert(self.float_conversion(value, source, single), single, target)
        if from_float and lanes > 1 and _in_vectors(target):
            return self.to_integers(value, source, target)
        if from_float:
            name = f"llvm.fpto{'s' if dt.kind(target) == 'int' else 'u'}i.sat"
            return self.named(f"@{name}.{mangled(target)}.{mangled(source)}", b, [(a, value)])
        if to_float:
            return self.assign(f"{'sitofp' if signed else 'uitofp'} {a} {value} to {b}")
        narrow = dt.bits(target) if dt.scalar(target) != "bool" else 1
        wide = dt.bits(source) if dt.scalar(source) != "bool" else 1
        if narrow == wide:
            return value
        step = "trunc" if narrow < wide else "sext" if signed else "zext"
        return self.assign(f"{step} {a} {value} to {b}")

    def to_integers(self, value: str, source: str, target: str) -> str:
        """Vectors of floats as integers that int32 holds: clamped first, since LLVM's saturating
        conversions of vectors go lane by lane on x86."""
        a, bit = llvm_type(source), each_lane(source, "i1")
        element = mem_type(source)
        low, high = dt.limits(target)
        wide = dt.vector("int32", dt.lanes(source))
        beyond = ""
        if dt.kind(target) == "int":  # else the lower end is 0, which NaN becomes, too
            number = self.assign(f"fcmp ord {a} {value}, {value}")
            value = self.assign(f"select {bit} {number}, {a} {value}, {a} {zero(source)}")
        if dt.bits(target) == 32 and dt.bits(source) == 32:
            end = literal(source, element, float_literal(source, high + 1.0))
            beyond = self.assign(f"fcmp oge {a} {value}, {end}")
            high -= 127  # the largest float32 below
        for test, limit in (("ogt", low), ("olt", high)):
            end = literal(source, element, float_literal(source, float(limit)))
            inside = self.assign(f"fcmp {test} {a} {value}, {end}")
            value = self.assign(f"select {bit} {inside}, {a} {value}, {a} {end}")
        made = self.assign(f"fptosi {a} {value} to {llvm_type(wide)}")
        if beyond:
            most = literal(wide, mem_type(wide), str(dt.limits(target)[1]))
            made = self.assign(f"select {bit} {beyond}, {llvm_type(wide)} {most}, "
                               f"{llvm_type(wide)} {made}")  # fmt: skip
        return self.convert(made, wide, target)

    def float_conversion(self, value: str, source: str, target: str) -> str:
        """Between floating-point types; float64 to float16 is none of a processor's."""
        if source == target:
            return value
        narrow, wide = dt.bits(target), dt.bits(source)
        step = "fptrunc" if narrow < wide else "fpext"
        return self.assign(f"{step} {llvm_type(source)} {value} to {llvm_type(target)}")

    # ------------------------------------------------------------------------- vectors

    def splat(self, value: str, scalar: str, lanes: int) -> str:
        """A scalar in every lane."""
        element = llvm_type(scalar)
        if not value.startswith("%"):
            return f"splat ({element} {value})"
        one = self.assign(f"insertelement <{lanes} x {element}> poison, {element} {value}, i64 0")
        return self.assign(
            f"shufflevector <{lanes} x {element}> {one}, <{lanes} x {element}> poison, "
            f"<{lanes} x i32> zeroinitializer"
        )

    def broadcast(self, e: expr.Broadcast) -> str:
        """A scalar in every lane."""
        return self.splat(self.value(e.value), dt.scalar(e.dtype), e.lanes)

    def ramp(self, e: expr.Ramp) -> str:
        """base + stride * (0, 1, 2, ...)."""
        t, element = llvm_type(e.dtype), llvm_type(e.base.dtype)
        base = self.splat(self.value(e.base), e.base.dtype, e.lanes)
        if isinstance(e.stride, expr.IntImm):
            steps = "<" + ", ".join(f"{element} {i * e.stride.value}" for i in range(e.lanes)) + ">"
        else:
            count = "<" + ", ".join(f"{element} {i}" for i in range(e.lanes)) + ">"
            stride = self.splat(self.value(e.stride), e.base.dtype, e.lanes)
            steps = self.assign(f"mul {t} {stride}, {count}")
        return self.assign(f"add {t} {base}, {steps}")

    def shuffle(self, e: expr.Shuffle) -> str:
        """Lanes picked from two vectors."""
        t = llvm_type(e.a.dtype)
        if (made := self.repeated_word(e)) is not None:
            return made
        mask = ", ".join(f"i32 {i}" for i in e.indices)
        return self.assign(
            f"shufflevector {t} {self.value(e.a)}, {t} {self.value(e.b)}, "
            f"<{len(e.indices)} x i32> <{mask}>"
        )

    # ------------------------------------------------------------------------- intrinsics

    def intrinsic_call(self, e: expr.Call) -> str:
        """A Call: LLVM's own intrinsics, bits, guards, or an expansion into arithmetic."""
        op, scalar = e.op, dt.scalar(e.dtype)
        if op in NAMED_CALLS:
            return self.named_call(e)
        if op == "if_then_else":
            return self.guarded_choice(e)
        if op == "likely":
            return self.value(e.args[0])
        if op == "abs" and not dt.is_float(e.dtype):
            return self._integer_abs(e)
        if op in _FLOAT_INTRINSICS:
            name = _FLOAT_INTRINSICS[op]
            if name == "roundeven" and name in self.module.lacks:
                name = "rint"  # the same where nobody sets the mode; older libraries have it, too
            return self.intrinsic(name, e.dtype, [self.value(a) for a in e.args])
        if op in _COUNTS:
            return self._count(e)
        if op.startswith(("bitwise_", "shift_")):
            return self._bits_op(e)
        if e.op == "high_product":
            return self._high_product(e)
        if op == "reinterpret":
            return self.assign(
                f"bitcast {llvm_type(e.args[0].dtype)} {self.value(e.args[0])} to "
                f"{llvm_type(e.dtype)}"
            )
        if op in ("isnan", "isinf", "isfinite"):
            return self._classify(e)
        if op == "smelt.tensor_view":
            start, offset = (self.value(a) for a in e.args)
            return self.assign(f"getelementptr inbounds i8, ptr {start}, i64 {offset}")
        if op == ADDRESS:
            load = e.args[0]
            assert isinstance(load, BufferLoad)
            return self.pointer(load)
        return self.expansion(e, scalar)

    def expansion(self, e: expr.Call, scalar: str) -> str:
        """A math function written out as arithmetic on all lanes, or a call of libm."""
        lanes = dt.lanes(e.dtype)
        if scalar == "float16":
            wide = dt.vector("float32", lanes)
            args = tuple([expr.Cast(wide, a) for a in e.args])
            return self.convert(self.value(expr.Call(wide, e.op, args)), wide, e.dtype)
        key = (e.op, tuple([dt.scalar(a.dtype) for a in e.args]))
        if key not in _EXPANSIONS:
            params = tuple([expr.Var(f"x{i}", t) for i, t in enumerate(key[1])])
            _EXPANSIONS[key] = params, expand(e.op, params)
        params, tree = _EXPANSIONS[key]
        if tree is not None:
            return self.value(_widen(tree, dict(zip(params, e.args, strict=True)), lanes))
        return self._libm(e, scalar, lanes)

    def _libm(self, e: expr.Call, scalar: str, lanes: int) -> str:
        """The C library's function, lane by lane."""
        if e.op not in MATH:
            raise InternalError(f"{self.name}: no code for the intrinsic {e.op} on {scalar}")
        t = llvm_type(scalar)
        symbol = f"@{e.op}{'f' if scalar == 'float32' else ''}"
        args = [self.value(a) for a in e.args]
        if lanes == 1:
            return self.named(symbol, t, [(t, a) for a in args])
        result, vector = "poison", llvm_type(e.dtype)
        for i in range(lanes):
            parts = [(t, self.assign(f"extractelement {vector} {a}, i64 {i}")) for a in args]
            one = self.named(symbol, t, parts)
            result = self.assign(f"insertelement {vector} {result}, {t} {one}, i64 {i}")
        return result

    def _integer_abs(self, e: expr.Call) -> str:
        a, t = self.value(e.args[0]), llvm_type(e.dtype)
        if dt.kind(e.dtype) != "int":
            return a
        symbol = f"@llvm.abs.{mangled(e.dtype)}"
        return self.named(symbol, t, [(t, a), ("i1", "false")])

    def _count(self, e: expr.Call) -> str:
        """The number of bits that are one, or of leading zeros, in the operand's type first."""
        source = e.args[0].dtype
        t = llvm_type(source)
        args = [(t, self.value(e.args[0])), *([("i1", "false")] if e.op == "clz" else [])]
        count = self.named(f"@llvm.{_COUNTS[e.op]}.{mangled(source)}", t, args)
        unsigned = dt.vector(f"uint{dt.bits(source)}", dt.lanes(source))
        return self.convert(count, unsigned, e.dtype)

    def _high_product(self, e: expr.Call) -> str:
        """The upper half of a product in twice the width, rounded to the nearest."""
        n, lanes, kind = dt.bits(e.dtype), dt.lanes(e.dtype), dt.kind(e.dtype)
        t, wide = llvm_type(e.dtype), each_lane(e.dtype, f"i{2 * n}")
        extend = "sext" if kind == "int" else "zext"
        a, b = [self.assign(f"{extend} {t} {self.value(x)} to {wide}") for x in e.args]
        product = self.assign(f"mul {wide} {a}, {b}")
        half, size = [literal(dt.vector("int64", lanes), f"i{2 * n}", str(x))
                      for x in (1 << (n - 1), n)]  # fmt: skip
        moved = self.assign(f"lshr {wide} {self.assign(f'add {wide} {product}, {half}')}, {size}")
        return self.assign(f"trunc {wide} {moved} to {t}")

    def _bits_op(self, e: expr.Call) -> str:
        t = llvm_type(e.dtype)
        values = [self.value(a) for a in e.args]
        if e.op == "bitwise_not":
            ones = "true" if dt.scalar(e.dtype) == "bool" else "-1"
            every = literal(e.dtype, llvm_type(dt.scalar(e.dtype)), ones)
            return self.assign(f"xor {t} {values[0]}, {every}")
        right = "ashr" if dt.kind(e.dtype) == "int" else "lshr"
        name = {"shift_left": "shl", "shift_right": right}.get(e.op, e.op.removeprefix("bitwise_"))
        return self.assign(f"{name} {t} {values[0]}, {values[1]}")

    def _classify(self, e: expr.Call) -> str:
        dtype = e.args[0].dtype
        a, t = self.value(e.args[0]), llvm_type(dtype)
        if e.op == "isnan":
            return self.assign(f"fcmp uno {t} {a}, {a}")
        size = self.intrinsic("fabs", dtype, [a])
        infinity = self.value(expr.const(float("inf"), dtype))
        test = "oeq" if e.op == "isinf" else "olt"
        return self.assign(f"fcmp {test} {t} {size}, {infinity}")

    def guarded_choice(self, e: expr.Call) -> str:
        """if_then_else: each side is evaluated under its guard; loads stay in bounds."""
        condition, yes, no = e.args
        c = self.value(condition)
        lanes, bit = dt.lanes(condition.dtype), each_lane(condition.dtype, "i1")
        a = self._under(c, lanes, yes)
        if loads(no):
            ones = literal(condition.dtype, "i1", "true")
            b = self._under(self.assign(f"xor {bit} {c}, {ones}"), lanes, no)
        else:
            b = self.value(no)
        t = llvm_type(e.dtype)
        return self.assign(f"select {bit if dt.lanes(e.dtype) > 1 else 'i1'} {c}, {t} {a}, {t} {b}")

    def _under(self, guard: str, lanes: int, e: expr.Expr) -> str:
        """A value while a condition, and those around it, guard loads; these are joined inside."""
        outer, at, self.at = (self.guard, self.guard_lanes), self.at, -1
        if outer[0] is not None:
            other = outer[0]
            if outer[1] != lanes:
                wide = max(lanes, outer[1])
                if lanes == 1:
                    guard = self.splat(guard, "bool", wide)
                else:
                    other = self.splat(other, "bool", wide)
                lanes = wide
            bit = llvm_type(dt.vector("bool", lanes))
            guard = self.assign(f"and {bit} {other}, {guard}")
        self.guard, self.guard_lanes = guard, lanes
        result = self.value(e)
        (self.guard, self.guard_lanes), self.at = outer, at
        return result


def _ends(e: expr.Expr) -> tuple[float, float] | None:
    """The numbers between which a value is held; None: it may be any."""
    found = {expr.Min: float("inf"), expr.Max: float("-inf")}
    while isinstance(e, expr.Min | expr.Max):
        number, rest = (e.a, e.b) if _is_number(e.a) else (e.b, e.a)
        value = _scalar(number)
        if not isinstance(value, expr.FloatImm) or value.value != value.value:
            break
        nearer = min if isinstance(e, expr.Min) else max
        found[type(e)] = nearer(found[type(e)], value.value)
        e = rest
    low, high = found[expr.Max], found[expr.Min]
    return (low, high) if abs(low) < float("inf") and abs(high) < float("inf") else None


def _in_vectors(dtype: str) -> bool:
    """Whether int32 holds all integers of a type."""
    bits = dt.bits(dtype)
    return dt.is_int(dtype) and bits > 1 and (bits < 32 or dt.scalar(dtype) == "int32")


def _is_number(e: expr.Expr) -> bool:
    """A constant that is no NaN."""
    value = _scalar(e)
    return isinstance(value, expr.FloatImm) and value.value == value.value


def _scalar(e: expr.Expr) -> expr.Expr:
    """What is in every lane; a scalar as it is."""
    return e.value if isinstance(e, expr.Broadcast) else e


def _widen(e: expr.Expr, memo: dict[expr.Expr, expr.Expr], lanes: int) -> expr.Expr:
    """A scalar tree with every node on `lanes` lanes."""
    found = memo.get(e)
    if found is not None:
        return found
    if isinstance(e, expr.IntImm | expr.FloatImm):
        new: expr.Expr = e if lanes == 1 else expr.Broadcast(e, lanes)
    elif isinstance(e, expr.Binary):
        new = type(e)(_widen(e.a, memo, lanes), _widen(e.b, memo, lanes))
    else:
        new = e.with_children(lambda c: _widen(c, memo, lanes) if isinstance(c, expr.Expr) else c)
        if lanes > 1 and isinstance(new, expr.Cast | expr.Call):
            new = new.replace(type=dt.vector(new.type, lanes))
    memo[e] = new
    return new


_DISPATCH: dict[type, Callable[..., str]] = {
    **dict.fromkeys((expr.Min, expr.Max), ScalarOps.min_max),
    **dict.fromkeys(
        (expr.FloorDiv, expr.FloorMod, expr.TruncDiv, expr.TruncMod), ScalarOps.division
    ),
    expr.Not: ScalarOps.negation,
    expr.Select: ScalarOps.choice,
    expr.Cast: ScalarOps.conversion,
    expr.Broadcast: ScalarOps.broadcast,
    expr.Ramp: ScalarOps.ramp,
    expr.Shuffle: ScalarOps.shuffle,
    expr.Call: ScalarOps.intrinsic_call,
}
