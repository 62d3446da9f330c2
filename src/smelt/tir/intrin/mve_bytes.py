"""Helium (MVE) on bytes: sums of up to 16 products, sums side by side, and what becomes of sums.

Source: Armv8-M Architecture Reference Manual (DDI 0553), under the instructions' names. Shorter
sums are predicated: lanes behind them are neither read nor summed up.
"""

from __future__ import annotations

from .registry import Instruction

LANES = 4
"""Sums of a register."""

_DOT = """@T.prim_func
def dot(c: T.Buffer((1,), "int32"), a: T.Buffer(({n},), "{a}"), b: T.Buffer(({n},), "int8"),
        {zero}r: T.Buffer((1,), "int32")):
    r[0] = c[0]
    for k in range({n}):
        r[0] = r[0] + {factor} * T.cast("int32", b[k])
"""
_EACH = """@T.prim_func
def each(c: T.Buffer((4,), "int32"), a: T.Buffer((4,), "{a}"), b: T.Buffer((4,), "int8"),
         zero: T.int32, r: T.Buffer((4,), "int32")):
    for k in range(4):
        r[k] = c[k] + (T.cast("int32", a[k]) - zero) * T.cast("int32", b[k])
"""
_ZEROS = """@T.prim_func
def zeros(r: T.Buffer((4,), "int32")):
    for k in range(4):
        r[k] = 0
"""
_COPY = """@T.prim_func
def copy(a: T.Buffer((16,), "int8"), r: T.Buffer((16,), "int8")):
    for k in range(16):
        r[k] = a[k]
"""
_HIGH = "T.high_product(x[k] * 2 + f[k * 4], f[k * 4 + 1])"
_SETTLED = f"""@T.prim_func
def settled(x: T.Buffer((4,), "int32"), f: T.Buffer((16,), "int32"), low: T.int32, high: T.int32,
            r: T.Buffer((4,), "int8")):
    for k in range(4):
        r[k] = T.cast("int8", T.min(T.max(T.shift_right(
            {_HIGH} + T.shift_right({_HIGH}, 31) + f[k * 4 + 2], f[k * 4 + 3]), low), high))
"""
_SETTLED_C = """const int32x4x4_t columns = vld4q_s32(f);
    int32x4_t v;
    {given}
    v = vrmulhq_s32(vaddq_s32(vaddq_s32(v, v), columns.val[0]), columns.val[1]);
    v = vaddq_s32(vaddq_s32(v, vshrq_n_s32(v, 31)), columns.val[2]);
    v = vshlq_s32(v, vnegq_s32(columns.val[3]));
    vstrbq_s32(r, vminq_s32(vmaxq_s32(v, vdupq_n_s32({low})), vdupq_n_s32({high})));"""
_ALONE = "v = (int32x4_t){x[0], x[1], x[2], x[3]};"
_TOGETHER = "__builtin_memcpy(&v, x, 16);"
"""Without a function of arm_mve.h: compilers see that a local array is a register."""


def _register(name: str, meaning: str, c: str, source: str) -> Instruction:
    return Instruction.register(
        f"arm.mve.{name}", meaning, arch="arm", features=("mve",), c=c, header="arm_mve.h",
        source=f"DDI 0553, {source}",
    )  # fmt: skip


def _load(a: str, n: int, lanes: int, kind: str = "int8") -> str:
    """Bytes in lanes of a register, widened where these are fewer than 16."""
    type_ = f"{kind[0].replace('i', 's')}{128 // lanes}"
    if n == lanes:
        return f"vldrbq_{type_}({a})"
    return f"vldrbq_z_{type_}({a}, vctp{128 // lanes}q({n}))"


def _dot(n: int) -> Instruction:
    factor = 'T.cast("int32", a[k])'
    c = f"*r = vmladavaq_s8(*c, {_load('a', n, 16)}, {_load('b', n, 16)});"
    meaning = _DOT.format(n=n, a="int8", zero="", factor=factor)
    return _register(f"dot{n}", meaning, c, "VMLADAVA")


def _from(kind: str, n: int) -> Instruction:
    factor = '(T.cast("int32", a[k]) - zero)'
    x = f"(int16x8_t){_load('a', n, 8, kind)}"
    c = f"*r = vmladavaq_s16(*c, vsubq_n_s16({x}, {{zero}}), {_load('b', n, 8)});"
    meaning = _DOT.format(n=n, a=kind, zero="zero: T.int32, ", factor=factor)
    return _register(f"dot{n}_from_{kind[0]}8", meaning, c, "VMLADAVA, VSUB")


def _each(kind: str) -> Instruction:
    x = f"(int32x4_t){_load('a', 4, 4, kind)}"
    c = f"""int32x4_t sums;
    __builtin_memcpy(&sums, c, 16);
    sums = vaddq_s32(sums, vmulq_s32(vsubq_n_s32({x}, {{zero}}), {_load("b", 4, 4)}));
    __builtin_memcpy(r, &sums, 16);"""
    return _register(f"mla4_{kind[0]}8", _EACH.format(a=kind), c, "VSUB, VMUL, VADD")


_BYTES = ("int8", "uint8")
DOT = {n: _dot(n) for n in range(1, 17)}
"""r[0] = c[0] + the sum of a[k] * b[k], by how many."""
FROM = {kind: {n: _from(kind, n) for n in range(1, 9)} for kind in _BYTES}
"""r[0] = c[0] + the sum of (a[k] - zero) * b[k], by the type of a and how many."""
EACH = {kind: _each(kind) for kind in _BYTES}
"""r[k] = c[k] + (a[k] - zero) * b[k], by the type of a."""
ZEROS = _register(
    "zeros4", _ZEROS, "const int32x4_t none = {0};\n    __builtin_memcpy(r, &none, 16);", "VMOV"
)
"""r[k] = 0"""
SETTLED = tuple(
    [
        _register(name, _SETTLED, _SETTLED_C.replace("{given}", given), "VRMULH, VSHL")
        for name, given in (("settle4", _ALONE), ("settle4_vector", _TOGETHER))
    ]
)
"""`requantize_sums`, between two numbers, as bytes: of four sums by themselves, or in a register."""
COPY = _register("copy16", _COPY, "vstrbq_s8(r, vldrbq_s8(a));", "VLDRB, VSTRB")
"""r[k] = a[k]"""
