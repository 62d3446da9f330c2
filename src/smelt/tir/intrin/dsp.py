"""Arm's DSP extension: two products of 16 bits at a time in registers of 32, e.g. Cortex-M4 and M7.

Source: Armv7-M Architecture Reference Manual (DDI 0403), under the instructions' names.

Bytes are read four at a time and widened two by two, the zero point taken off on the way; these
sequences are instructions here, since they are used as one.
"""

from __future__ import annotations

from .registry import Instruction

LANES = 4
"""Bytes of a register."""

_FOUR = 'a: T.Buffer((4,), "{a}"), '
_PARAMS = (
    'c: T.Buffer(({n},), "int32"), {four}b: T.Buffer((4,), "{b}"), zero: T.int32, '
    'r: T.Buffer(({n},), "int32")'
)
_DOT = f"""@T.prim_func
def dot({_PARAMS}):
    r[0] = c[0]
    for k in range(4):
        r[0] = r[0] + (T.cast("int32", a[k]) - zero) * T.cast("int32", b[k])
"""
_PAIR = f"""@T.prim_func
def pair({_PARAMS}):
    r[0] = c[0]
    r[1] = c[1]
    for k in range(4):
        r[0] = r[0] + (T.cast("int32", a[k]) - zero) * T.cast("int32", b[k])
        r[1] = r[1] + (T.cast("int32", d[k]) - zero) * T.cast("int32", b[k])
"""
_EACH = f"""@T.prim_func
def each({_PARAMS}):
    for k in range(4):
        r[k] = c[k] + (T.cast("int32", a[k]) - zero) * T.cast("int32", b[k])
"""


def _widened(a: str, even: str, odd: str) -> str:
    """Four bytes as two registers, without their zero point; rotated on the way, which compilers
    do not always see."""
    return f"""__builtin_memcpy(&x, {a}, 4);
    if ({{zero}}) {{
        const uint32_t away = ((uint32_t)-({{zero}}) & 0xffffu) * 0x10001u;
        __asm__("SIGNxtab16 %0, %1, %2" : "=r"({even}) : "r"(away), "r"(x));
        __asm__("SIGNxtab16 %0, %1, %2, ror #8" : "=r"({odd}) : "r"(away), "r"(x));
    }} else {{
        __asm__("SIGNxtb16 %0, %1" : "=r"({even}) : "r"(x));
        __asm__("SIGNxtb16 %0, %1, ror #8" : "=r"({odd}) : "r"(x));
    }}
    """


_SUM = f"""int32_t x, y, z, xe, xo, sum = *c;
    {_widened("a", "xe", "xo")}__builtin_memcpy(&y, b, 4);
    __asm__("sxtb16 %2, %1\\n\\tsxtb16 %1, %1, ror #8\\n\\t"
            "smlad %0, %3, %2, %0\\n\\tsmlad %0, %4, %1, %0"
            : "+&r"(sum), "+&r"(y), "=&r"(z) : "r"(xe), "r"(xo));
    *r = sum;"""
"""In one piece: compilers that order it hold more of it in registers than there are."""
_TWO_SUMS = f"""int32_t x, y, z, xe, xo, ye, yo, sum = c[0], other = c[1];
    {_widened("a", "xe", "xo")}{_widened("d", "ye", "yo")}__builtin_memcpy(&y, b, 4);
    __asm__("sxtb16 %3, %2\\n\\tsxtb16 %2, %2, ror #8\\n\\t"
            "smlad %0, %4, %3, %0\\n\\tsmlad %1, %6, %3, %1\\n\\t"
            "smlad %0, %5, %2, %0\\n\\tsmlad %1, %7, %2, %1"
            : "+&r"(sum), "+&r"(other), "+&r"(y), "=&r"(z)
            : "r"(xe), "r"(xo), "r"(ye), "r"(yo));
    r[0] = sum;
    r[1] = other;"""
_LANES = """int32_t x, y, even, odd, s0 = c[0], s1 = c[1], s2 = c[2], s3 = c[3];
    const uint32_t away = ((uint32_t)-({zero}) & 0xffffu) * 0x10001u;
    __builtin_memcpy(&x, a, 4);
    __builtin_memcpy(&y, b, 4);
    __asm__("SIGNxtab16 %6, %8, %4\\n\\tSIGNxtab16 %4, %8, %4, ror #8\\n\\t"
            "sxtb16 %7, %5\\n\\tsxtb16 %5, %5, ror #8\\n\\t"
            "smlabb %0, %6, %7, %0\\n\\tsmlabb %1, %4, %5, %1\\n\\t"
            "smlatt %2, %6, %7, %2\\n\\tsmlatt %3, %4, %5, %3"
            : "+&r"(s0), "+&r"(s1), "+&r"(s2), "+&r"(s3), "+&r"(x), "+&r"(y), "=&r"(even),
              "=&r"(odd) : "r"(away));
    r[0] = s0;
    r[1] = s1;
    r[2] = s2;
    r[3] = s3;"""
_WIDE_LANES = """int32_t x, even, s0 = c[0], s1 = c[1], s2 = c[2], s3 = c[3];
    const uint32_t away = ((uint32_t)-({zero}) & 0xffffu) * 0x10001u;
    const int32_t *const words = (const int32_t *)(const void *)b;
    __builtin_memcpy(&x, a, 4);
    __asm__("SIGNxtab16 %5, %6, %4\\n\\tSIGNxtab16 %4, %6, %4, ror #8\\n\\t"
            "smlabb %0, %5, %7, %0\\n\\tsmlabt %1, %4, %7, %1\\n\\t"
            "smlatb %2, %5, %8, %2\\n\\tsmlatt %3, %4, %8, %3"
            : "+&r"(s0), "+&r"(s1), "+&r"(s2), "+&r"(s3), "+&r"(x), "=&r"(even)
            : "r"(away), "r"(words[0]), "r"(words[1]));
    r[0] = s0;
    r[1] = s1;
    r[2] = s2;
    r[3] = s3;"""
"""Of filters that are at a multiple of 4 bytes, so that they may be loaded two words at a time."""
_BYTES = ("int8", "uint8")


def _register(
    name: str, meaning: str, sums: int, kind: str, c: str, filters: str = "int8"
) -> Instruction:
    sign = kind[0] if kind == "uint8" else "s"
    four = _FOUR + _FOUR.replace("a:", "d:") * (meaning is _PAIR)
    return Instruction.register(
        f"arm.dsp.{name}_{kind[0]}8",
        meaning.format(n=sums, four=four.format(a=kind), b=filters),
        arch="arm",
        features=("dsp",),
        c=c.replace("SIGN", sign),
        source="DDI 0403, SXTAB16, SMLAD, SMLABB and SMLATT",
    )


DOT = {kind: _register("dot4", _DOT, 1, kind, _SUM) for kind in _BYTES}
"""r[0] = c[0] + the sum of (a[k] - zero) * b[k], by the type of a."""
PAIR = {kind: _register("pair4", _PAIR, 2, kind, _TWO_SUMS) for kind in _BYTES}
"""The same twice: r[1] is c[1] and the sum of d and b, by the type of a and d."""
EACH = {kind: _register("mla4", _EACH, LANES, kind, _LANES) for kind in _BYTES}
"""r[k] = c[k] + (a[k] - zero) * b[k], by the type of a."""
EACH_WIDE = {kind: _register("mla4_wide", _EACH, LANES, kind, _WIDE_LANES, "int16")
             for kind in _BYTES}  # fmt: skip
"""The same with b of 16 bits, at a multiple of 4 bytes."""
