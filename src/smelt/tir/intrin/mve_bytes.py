"""Helium (MVE) on bytes: sums of up to 16 products, sums side by side, and what becomes of sums.

Source: Armv8-M Architecture Reference Manual (DDI 0553), under the instructions' names. Shorter
sums are predicated: lanes behind them are neither read nor summed up.
"""

from __future__ import annotations

import re

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
_FOUR = """@T.prim_func
def four(c: T.Buffer((4,), "int32"), a: T.Buffer((16,), "int8"), b: T.Buffer((64,), "int8"),
         r: T.Buffer((4,), "int32")):
    for j in range(4):
        r[j] = c[j]
        for k in range(16):
            r[j] = r[j] + T.cast("int32", a[k]) * T.cast("int32", b[j * 16 + k])
"""


def _four_sums(made: str, sums: str) -> str:
    """The sums of four registers of b, by an instruction that begins them or goes on."""
    steps = ["vldrb.8 %q4, [%6]"]
    for j in range(4):
        steps += [f"vldrb.8 %q5, [%7, #{16 * j}]", f"{made} %{j}, %q4, %q5"]
    text = r"\n\t".join(steps)
    outputs = ", ".join([f'"{sums}"(s{j})' for j in range(4)])
    return (
        f'__asm__("{text}"\n            : {outputs}, "=&w"(x), "=&w"(y) '
        ': "r"(a), "r"(b) : "memory");'
    )


_FOUR_C = f"""int32_t s0 = c[0], s1 = c[1], s2 = c[2], s3 = c[3];
    int8x16_t x, y;
    if (__builtin_constant_p(s0 | s1 | s2 | s3) && (s0 | s1 | s2 | s3) == 0) {{
        {_four_sums("vmladav.s8", "=&Te")}
    }} else {{
        {_four_sums("vmladava.s8", "+&Te")}
    }}
    r[0] = s0;
    r[1] = s1;
    r[2] = s2;
    r[3] = s3;"""
"""Compilers know sums that begin with zeros: nothing is put into registers for those."""
_EACH = """@T.prim_func
def each(c: T.Buffer((4,), "int32"), a: T.Buffer((4,), "{a}"), b: T.Buffer((4,), "int8"),
         zero: T.int32, r: T.Buffer((4,), "int32")):
    for k in range(4):
        r[k] = c[k] + (T.cast("int32", a[k]) - zero) * T.cast("int32", b[k])
"""
_WIDE = """@T.prim_func
def wide(c: T.Buffer((16,), "int32"), a: T.Buffer((16,), "int8"), b: T.Buffer((16,), "int8"),
         r: T.Buffer((16,), "int32")):
    for k, j in T.grid(4, 4):
        r[j * 4 + k] = c[j * 4 + k] + T.cast("int32", a[k * 4 + j]) * T.cast("int32", b[k * 4 + j])
"""
_ZEROS = """@T.prim_func
def zeros(r: T.Buffer(({n},), "int32")):
    for k in range({n}):
        r[k] = 0
"""
_COPY = """@T.prim_func
def copy(a: T.Buffer(({n},), "int8"), r: T.Buffer(({n},), "int8")):
    for k in range({n}):
        r[k] = a[k]
"""
_HIGH = "T.high_product((x[{x}] + f[k * 4]) * 2, f[k * 4 + 1])"
_SETTLED = f"""@T.prim_func
def settled(x: T.Buffer(({{n}},), "int32"), f: T.Buffer(({{f}},), "int32"), low: T.int32,
            high: T.int32, away: T.int32, r: T.Buffer(({{n}},), "int8")):
    for k in range({{n}}):
        r[k] = T.cast("int8", T.min(T.max(T.shift_right(
            {_HIGH} + T.shift_right({_HIGH}, 31) * away + f[k * 4 + 2], 0 - f[k * 4 + 3]), low),
            high))
"""
_STEPS = """v = vqrdmulhq_s32(vaddq_s32(v, {0}), {1});
    if ({{away}}) v = vaddq_s32(v, vshrq_n_s32(v, 31));
    v = vshlq_s32(vaddq_s32(v, {2}), {3});
    if ({{low}} > -128) v = vmaxq_s32(v, vdupq_n_s32({{low}}));
    if ({{high}} < 127) v = vminq_s32(v, vdupq_n_s32({{high}}));"""
_SETTLED_C = f"""const int32x4x4_t columns = vld4q_s32(f);
    int32x4_t v;
    {{given}}
    {_STEPS.format(*[f"columns.val[{n}]" for n in range(4)])}
    const int16x8_t half = vqmovnbq_s32(vuninitializedq_s16(), v);
    vstrbq_s32(r, (int32x4_t)vqmovnbq_s16(vuninitializedq_s8(), half));"""
_ALONE = r"""
#ifdef __clang__
    v = (int32x4_t){x[0], x[1], x[2], x[3]};
#else /* gcc would write them to memory, and read that */
    __asm__("vmov %q0[2], %q0[0], %1, %2\n\tvmov %q0[3], %q0[1], %3, %4"
            : "=&w"(v) : "r"(x[0]), "r"(x[2]), "r"(x[1]), "r"(x[3]));
#endif"""
_TOGETHER = "__builtin_memcpy(&v, x, 16);"
"""Without a function of arm_mve.h: compilers see that a local array is a register."""


def _copies(to: str, of: str) -> str:
    """Four registers and an array, one by one: compilers see that the array is registers."""
    return "\n    ".join(
        [f"__builtin_memcpy({to.format(j)}, {of.format(j)}, 16);" for j in range(4)]
    )


_WIDE_C = f"""int32x4_t s0, s1, s2, s3, x, y, z;
    {_copies("&s{0}", "c + 4 * {0}")}
    __asm__("vldrb.8 %q4, [%7]\\n\\tvldrb.8 %q5, [%8]\\n\\t"
            "vmullb.s8 %q6, %q4, %q5\\n\\tvmullt.s8 %q4, %q4, %q5\\n\\t"
            "vmovlb.s16 %q5, %q6\\n\\tvmovlt.s16 %q6, %q6\\n\\t"
            "vadd.i32 %q0, %q0, %q5\\n\\tvadd.i32 %q2, %q2, %q6\\n\\t"
            "vmovlb.s16 %q5, %q4\\n\\tvmovlt.s16 %q4, %q4\\n\\t"
            "vadd.i32 %q1, %q1, %q5\\n\\tvadd.i32 %q3, %q3, %q4"
            : "+&w"(s0), "+&w"(s1), "+&w"(s2), "+&w"(s3), "=&w"(x), "=&w"(y), "=&w"(z)
            : "r"(a), "r"(b) : "memory");
    {_copies("r + 4 * {0}", "&s{0}")}"""
"""In one piece: compilers that order it hold more of it in registers than there are."""


def _four_of_wide(j: int) -> str:
    columns = [f"vldrwq_gather_base_s32(places, {16 * j + 4 * n})" for n in range(4)]
    steps = re.sub(r"\bv\b", f"v{j}", _STEPS.format(*columns))
    return f"int32x4_t v{j};\n    __builtin_memcpy(&v{j}, x + {4 * j}, 16);\n    {steps}\n    "


_WIDE_SETTLED_C = f"""const uint32x4_t places =
        vaddq_n_u32(vmulq_n_u32(vidupq_n_u32(0, 1), 64), (uint32_t)f);
    {"".join([_four_of_wide(j) for j in range(4)])}const int16x8_t none = vdupq_n_s16(0);
    const int16x8_t even = vqmovntq_s32(vqmovnbq_s32(none, v0), v2);
    const int16x8_t odd = vqmovntq_s32(vqmovnbq_s32(none, v1), v3);
    vstrbq_s8(r, vqmovntq_s16(vqmovnbq_s16((int8x16_t)none, even), odd));"""


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
    lanes = 16 if n > 8 else 8  # eight fill a register as numbers of 16 bits: no predicate
    loads, kind = f"{_load('a', n, lanes)}, {_load('b', n, lanes)}", f"s{128 // lanes}"
    c = f"""*r = __builtin_constant_p(*c) && *c == 0 ? vmladavq_{kind}({loads})
                                             : vmladavaq_{kind}(*c, {loads});"""
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
    const int32x4_t x = {x};
    sums = vaddq_s32(
        sums, vmulq_s32({{zero}} ? vsubq_n_s32(x, {{zero}}) : x, {_load("b", 4, 4)}));
    __builtin_memcpy(r, &sums, 16);"""
    return _register(f"mla4_{kind[0]}8", _EACH.format(a=kind), c, "VSUB, VMUL, VADD")


_BYTES = ("int8", "uint8")
DOT = {n: _dot(n) for n in range(1, 17)}
"""r[0] = c[0] + the sum of a[k] * b[k], by how many."""
FOUR = _register("dot16x4", _FOUR, _FOUR_C, "VMLADAVA")
"""r[j] = c[j] + the sum of a[k] * b[j * 16 + k]"""
FROM = {kind: {n: _from(kind, n) for n in range(1, 9)} for kind in _BYTES}
"""r[0] = c[0] + the sum of (a[k] - zero) * b[k], by the type of a and how many."""
EACH = {kind: _each(kind) for kind in _BYTES}
"""r[k] = c[k] + (a[k] - zero) * b[k], by the type of a."""
WIDE = _register("mla16", _WIDE, _WIDE_C, "VMULLB, VMULLT, VMOVLB, VMOVLT, VADD")
"""r[j * 4 + k] = c[j * 4 + k] + a[k * 4 + j] * b[k * 4 + j]: each register has every fourth sum."""
_NONE = "const int32x4_t none = {0};"
ZEROS = _register(
    "zeros4", _ZEROS.format(n=4), f"{_NONE}\n    __builtin_memcpy(r, &none, 16);", "VMOV"
)
"""r[k] = 0"""
WIDE_ZEROS = _register(
    "zeros16", _ZEROS.format(n=16), f"{_NONE}\n    {_copies('r + 4 * {0}', '&none')}", "VMOV"
)
"""The same of as many as `WIDE` has."""


def _settle(name: str, n: int, c: str) -> Instruction:
    place = "k" if n == LANES else "k % 4 * 4 + k // 4"
    meaning = _SETTLED.format(n=n, f=4 * n, x=place)
    return _register(name, meaning, c, "VQRDMULH, VSHL, VQMOVNB")


SETTLED = (
    _settle("settle4", 4, _SETTLED_C.replace("{given}", _ALONE)),
    _settle("settle4_vector", 4, _SETTLED_C.replace("{given}", _TOGETHER)),
)
"""`requantize_sums` between two numbers, as bytes: of sums by themselves, or in a register."""
WIDE_SETTLED = _settle("settle16", 16, _WIDE_SETTLED_C)
"""The same of sums as `WIDE` has them."""


def _copy(n: int) -> Instruction:
    store = "vstrbq_s8(r, {})" if n == 16 else f"vstrbq_p_s8(r, {{}}, vctp8q({n}))"
    return _register(
        f"copy{n}", _COPY.format(n=n), store.format(_load("a", n, 16)) + ";", "VLDRB, VSTRB"
    )


COPY = {n: _copy(n) for n in DOT}
"""r[k] = a[k], by how many."""

_BINARY = """@T.prim_func
def both(a: T.Buffer((4,), "int32"), b: T.Buffer((4,), "int32"), r: T.Buffer((4,), "int32")):
    for k in range(4):
        r[k] = {value}
"""
_UNARY = """@T.prim_func
def one({given}, r: T.Buffer((4,), "{type}")):
    for k in range(4):
        r[k] = {value}
"""
_RESULT = "__builtin_memcpy(r, &v, 16);"


def _both(name: str, value: str, c: str) -> Instruction:
    text = f"""int32x4_t x, y;
    __builtin_memcpy(&x, a, 16);
    __builtin_memcpy(&y, b, 16);
    const int32x4_t v = {c};
    {_RESULT}"""
    return _register(f"{name}_s32", _BINARY.format(value=value), text, name.upper())


def _one(name: str, given: str, value: str, c: str, to: str = "int32") -> Instruction:
    return _register(name, _UNARY.format(given=given, value=value, type=to), c, "VLDR, VSTR, VDUP")


ARITHMETIC = {
    "Add": _both("vadd", "a[k] + b[k]", "vaddq_s32(x, y)"),
    "Sub": _both("vsub", "a[k] - b[k]", "vsubq_s32(x, y)"),
    "Mul": _both("vmul", "a[k] * b[k]", "vmulq_s32(x, y)"),
    "Min": _both("vmin", "T.min(a[k], b[k])", "vminq_s32(x, y)"),
    "Max": _both("vmax", "T.max(a[k], b[k])", "vmaxq_s32(x, y)"),
    "high_product": _both("vrmulh", "T.high_product(a[k], b[k])", "vrmulhq_s32(x, y)"),
    "shift_right": _both("vshl", "T.shift_right(a[k], b[k])", "vshlq_s32(x, vnegq_s32(y))"),
}
"""Of four int32, by what an expression is called."""
SAME = _one("same4", "n: T.int32", "n", f"const int32x4_t v = vdupq_n_s32({{n}});\n    {_RESULT}")
WIDER = {
    kind: _one(
        f"wider4_{kind[0]}8", f'a: T.Buffer((4,), "{kind}")', 'T.cast("int32", a[k])',
        f"const int32x4_t v = (int32x4_t){_load('a', 4, 4, kind)};\n    {_RESULT}",
    )
    for kind in _BYTES
}  # fmt: skip
COLUMN = _one(
    "column4", 'a: T.Buffer((13,), "int32")', "a[k * 4]",
    "const uint32x4_t at = vmulq_n_u32(vidupq_n_u32(0, 1), 16);\n"
    f"    const int32x4_t v = vldrwq_gather_offset_s32(a, at);\n    {_RESULT}",
)  # fmt: skip
NARROW = _one(
    "narrow4", 'a: T.Buffer((4,), "int32")', 'T.cast("int8", a[k])',
    "int32x4_t v;\n    __builtin_memcpy(&v, a, 16);\n    vstrbq_s32(r, v);", "int8",
)  # fmt: skip
