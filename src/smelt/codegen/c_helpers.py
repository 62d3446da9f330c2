"""The C functions that printed programs use; a source carries only those it calls.

Narrow floats (float16, bfloat16) compute as float and are rounded after every operation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, IntImm, Min
from smelt.tir.extern import ExternFunction
from smelt.tir.intrin.registry import Instruction
from smelt.tir.nodes import Buffer
from smelt.tir.script_ops import PREFETCH

C_TYPE = {
    "bool": "uint8_t",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
    **dict.fromkeys(("float16", "bfloat16", "float32"), "float"),
    "float64": "double",
    "handle": "void *",
}
"""The type that holds a value while it is computed with."""

STORED = {**C_TYPE, "float16": "uint16_t", "bfloat16": "uint16_t"}
"""The type of a buffer's elements."""

NARROW = frozenset({"float16", "bfloat16"})
"""The floats that are stored as bits."""


def extern_source(f: ExternFunction) -> str:
    """The C source of an external function, after a declaration that it has to agree with."""
    params = [f"{STORED[p.type]} {'*' * isinstance(p, Buffer)}{p.name}" for p in f.meaning.params]
    declared = f"int32_t {f.name}({', '.join(params) or 'void'});"
    return f"#include <stdint.h>\n{declared}\n{f.c.strip()}\n"


_MATH_H = """exp exp2 log log2 log10 log1p expm1 sqrt tanh erf sin cos tan asin acos atan sinh cosh
asinh acosh atanh floor ceil trunc atan2 pow fmod copysign nextafter hypot fma"""
MATH = {**{name: name for name in _MATH_H.split()}, "round": "rint", "abs": "fabs"}
"""Intrinsics that are functions of math.h."""

_WORDS = """auto break case char const continue default do double else enum extern float for goto if
inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while main I NAN INFINITY NULL frexp ldexp nearbyint fmin fmax isnan isinf
isfinite signbit abs malloc calloc free memcpy memset memmove"""
RESERVED = frozenset([*_WORDS.split(), *[f + s for f in MATH.values() for s in ("", "f")]])
"""What nothing in a C program may be called: keywords, and functions and macros that it uses."""

_FIXED = {
    PREFETCH: """#ifdef __GNUC__
#define smelt_prefetch(place, locality) __builtin_prefetch(place, 0, locality)
#else
#define smelt_prefetch(place, locality) ((void)0)
#endif
""",
    "round": """static inline double smelt_round(double x, int digits, int least, double most) {
    int e;
    if (x == 0.0 || !isfinite(x)) return x;
    frexp(x, &e);
    e = e - digits < least ? least : e - digits;
    x = copysign(ldexp(nearbyint(ldexp(fabs(x), -e)), e), x);
    return fabs(x) > most ? copysign(INFINITY, x) : x;
}
""",
    "round_float16": """static inline float smelt_round_float16(double x) {
    return (float)smelt_round(x, 11, -24, 65504.0);
}
""",
    "load_float16": """static inline float smelt_load_float16(uint16_t b) {
    int e = b >> 10 & 31, m = b & 1023;
    double a = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(m + 1024, e - 25) : ldexp(m, -24);
    return (float)(b >> 15 ? -a : a);
}
""",
    "store_float16": """static inline uint16_t smelt_store_float16(double value) {
    double x = smelt_round_float16(value), a = fabs(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int e;
    if (isnan(x)) return sign | 0x7e00;
    if (isinf(x)) return sign | 0x7c00;
    if (a < ldexp(1, -14)) return (uint16_t)(sign | (uint16_t)ldexp(a, 24));
    a = frexp(a, &e);
    return (uint16_t)(sign | (((e + 14) << 10) + ((int)ldexp(a, 11) - 1024)));
}
""",
    "round_bfloat16": """static inline float smelt_round_bfloat16(double x) {
    return (float)smelt_round((float)x, 8, -133, 3.3895313892515355e38);
}
""",
    "load_bfloat16": """static inline float smelt_load_bfloat16(uint16_t b) {
    uint32_t w = (uint32_t)b << 16;
    float x;
    memcpy(&x, &w, 4);
    return x;
}
""",
    "store_bfloat16": """static inline uint16_t smelt_store_bfloat16(double value) {
    float x = smelt_round_bfloat16(value);
    uint32_t w;
    if (isnan(x)) return 0x7fc0;
    memcpy(&w, &x, 4);
    return (uint16_t)(w >> 16);
}
""",
    "floordiv": """static inline int64_t smelt_floordiv(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
""",
    "floormod": """static inline int64_t smelt_floormod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
""",
    "float_mod": """static inline double smelt_float_floormod(double a, double b) {
    double r = fmod(a, b);
    return r != 0.0 && (r < 0) != (b < 0) ? r + b : r == 0.0 ? copysign(r, b) : r;
}
""",
}
"""C functions, by the name that asks for them."""


_COUNTS = {
    "popcount": ("uint64_t x", "int n = 0; for (; x; x &= x - 1) ++n; return n;"),
    "clz": (
        "uint64_t x, int bits",
        "\n#ifdef __GNUC__\n    return x ? __builtin_clzll(x) + bits - 64 : bits;\n#else\n"
        "    for (; x; x >>= 1) --bits;\n    return bits;\n#endif\n",
    ),
}


def suffix(dtype: str) -> str:
    """What a math.h function's name ends with."""
    return "" if dtype == "float64" else "f"


INLINE, KERNEL, HIDE = "SMELT_INLINE", "SMELT_KERNEL", "SMELT_HIDE"
"""Before functions that stand for an instruction, which compilers for size would call; before
kernels, whose registers are their own; around a variable that compilers are not to see through."""


WORDS = {
    INLINE: f"""#ifdef __GNUC__
#define {INLINE} static inline __attribute__((always_inline))
#else
#define {INLINE} static inline
#endif
""",
    KERNEL: f"""#ifdef __clang__
#define {KERNEL} static __attribute__((noinline))
#elif defined __GNUC__ /* what is known early needs a register; loops share them out anew */
#define {KERNEL} static __attribute__((noinline, noclone, optimize( \\
    "no-schedule-insns", "no-tree-reassoc", "no-tree-ter", "ira-region=mixed")))
#else
#define {KERNEL} static
#endif
""",
    HIDE: f"""#ifdef __GNUC__
#define {HIDE}(x) __asm__("" : "+r"(x))
#else
#define {HIDE}(x) ((void)0)
#endif
""",
}
"""What defines them."""

_NONE = "defined __AVR__"
_LACKING = {
    "round": (
        f"{_NONE} || defined __ARM_FP && !defined __ARM_FEATURE_DIRECTED_ROUNDING",
        "const float a = fabsf(x); "
        "return a < 8388608.0f ? copysignf(a + 8388608.0f - 8388608.0f, x) : x;",
    ),
    "exp2": (_NONE, "return expf(x * 0.693147181f);"),
    "log2": (_NONE, "return logf(x) * 1.44269504f;"),
    "log1p": (_NONE, "const float u = 1.0f + x, d = u - 1.0f; return d == x ? logf(u) "
                     ": d == 0.0f ? x : logf(u) * (x / d);"),
    "expm1": (_NONE, "const float u = expf(x), d = u - 1.0f; return d == 0.0f ? x "
                     ": d == -1.0f || u > 1e30f ? d : d * (x / logf(u));"),
    "erf": (
        _NONE,
        """const float a = fabsf(x), s = x * x, t = 1.0f / (1.0f + 0.3275911f * a);
    if (a < 0.5f) /* the series; beyond it, what Abramowitz and Stegun call 7.1.26 */
        return x * (1.12837917f + s * (-0.376126389f + s * (0.112837917f + s * (-0.0268661706f
            + s * (0.00522397763f - s * 0.000854832704f)))));
    return copysignf(1.0f - expf(-s) * t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f
        + t * (-1.453152027f + t * 1.061405429f)))), x);""",
    ),
}  # fmt: skip
"""Functions of a float that C libraries of small processors lack, or have by a long way: where, and
by others that they have."""

_MACROS = {"dsp": "__ARM_FEATURE_DSP", "mve": "__ARM_FEATURE_MVE"}
"""What compilers define where a processor has a feature."""


def include(header: str) -> str:
    """The line that includes a header; MACRO header: where a macro is defined."""
    macro, _, name = header.rpartition(" ")
    line = f"#include <{name}>\n"
    return f"#ifdef {macro}\n{line}#endif\n" if macro else line


class Helpers:
    """The helper functions that one source needs, in order of first use."""

    def __init__(self, small: bool = False) -> None:
        """Start with none.

        small  whether they are for a small processor: compilers for size, too, are to have
               functions of one line in place, and the C library may lack some
        """
        self.small = small
        self.inline = INLINE if small else "static inline"
        self.texts: dict[str, str] = {}
        self.headers: dict[str, None] = {}

    def instruction(
        self, made: Instruction, immediates: Sequence[Expr], otherwise: str = ""
    ) -> str:
        """The function of an instruction's C text: pointers to operands, one to the result.

        otherwise  statements for compilers that do not say by a macro that it is there
        """
        text, name = made.c, "smelt_" + re.sub(r"\W", "_", made.name)
        params = []
        values = iter(immediates)
        for p in made.operands:
            if isinstance(p, Buffer):
                params.append(f"const {STORED[p.type]} *{p.name}")
                continue
            value = next(values)
            assert isinstance(value, IntImm)
            text, name = text.replace(f"{{{p.name}}}", str(value.value)), f"{name}_{value.value}"
        name = name.replace("-", "less_")
        params.append(f"{STORED[made.result.type]} *{made.result.name}")
        if otherwise:
            macro = _MACROS[made.features[0]]
            if made.header:
                self.headers[f"{macro} {made.header}"] = None
            text = f"\n#ifdef {macro}\n    {text}\n#else\n{otherwise}#endif"
        elif made.header:
            self.headers[made.header] = None
        body = f"({', '.join(params)}) {{\n    {text}\n}}\n"
        while not self.texts.get(name, body).endswith(body):
            name += "_"  # this is the name of another instruction, spelt otherwise
        always = INLINE if otherwise else "static inline"
        self.texts[name] = f"{always} void {name}{body}"
        return name

    def fixed(self, name: str) -> None:
        """Ask for one of the helpers above."""
        self.texts.setdefault(name, _FIXED[name])

    def narrow(self, what: str, dtype: str, text: str) -> str:
        """A narrow float that is stored, loaded or rounded; another value as it is."""
        if dtype not in NARROW:
            return text
        for name in ("round", f"round_{dtype}") if what != "load" else ():
            self.fixed(name)
        self.fixed(f"{what}_{dtype}")
        return f"smelt_{what}_{dtype}({text})"

    def add(self, name: str, kind: str, params: str, body: str) -> str:
        """A one-line function of its own; gives its name."""
        self.texts.setdefault(name, f"{self.inline} {kind} {name}({params}) {{ {body} }}\n")
        return name

    def math(self, op: str, dtype: str) -> str:
        """The function that computes an intrinsic, on a processor that may be a small one."""
        if not self.small or op not in _LACKING or dtype == "float64":
            return MATH[op] + suffix(dtype)
        where, body = _LACKING[op]
        text = f"\n#if {where}\n    {body}\n#else\n    return {MATH[op]}f(x);\n#endif\n"
        return self.add(f"smelt_{MATH[op]}f", "float", "float x", text)

    def extreme(self, which: type[Expr], dtype: str) -> str:
        """The smaller or larger of two; a NaN wins."""
        kind, op = C_TYPE[dtype], "<" if which is Min else ">"
        nan = " || a != a" if dt.is_float(dtype) else ""
        name = f"smelt_{which.__name__.lower()}_{dtype}"
        return self.add(name, kind, f"{kind} a, {kind} b", f"return a {op} b{nan} ? a : b;")

    def fused(self, dtype: str) -> str:
        """a * b + c, fused where the processor has an instruction for it: the C library's function
        takes a hundred others where it has not, or where compilers do not know it."""
        kind, end = C_TYPE[dtype], suffix(dtype)
        body = (
            f"\n#ifdef __FP_FAST_FMA{end.upper()}\n    return __builtin_fma{end}(a, b, c);\n"
            "#else\n    return a * b + c;\n#endif\n"
        )
        return self.add(f"smelt_fma_{dtype}", kind, f"{kind} a, {kind} b, {kind} c", body)

    def saturate(self, bits: int) -> str:
        """The nearest number of so many bits, of an int32; gcc does not find the instruction."""
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        body = (
            "\n#if defined __ARM_FEATURE_SAT && !defined __clang__\n    int32_t r;\n"
            f'    __asm__("ssat %0, #{bits}, %1" : "=r"(r) : "r"(x));\n    return r;\n'
            f"#else\n    return x < {low} ? {low} : x > {high} ? {high} : x;\n#endif\n"
        )
        return self.add(f"smelt_saturate_{bits}", "int32_t", "int32_t x", body)

    def to_int(self, dtype: str, source: str, nearest: bool = False) -> str:
        """A float as an integer; values outside become the nearest one, a NaN 0.

        nearest  whether it is rounded to the nearest, halves to even, and not cut off
        """
        source = source if source == "float64" else "float32"
        kind, n = C_TYPE[dtype], dt.bits(dtype)
        end, signed = suffix(source), dt.is_signed(dtype)
        power, word = n - signed, dtype.removesuffix(str(n)).upper()
        low = f"y == y ? INT{n}_MIN : 0" if signed else "0"
        above = f"-0x1p{power}{end}" if signed else f"0.0{end}"
        y = f"{self.math('round', source)}(x)" if nearest else "x"
        body = (
            f"const {C_TYPE[source]} y = {y}; return y >= 0x1p{power}{end} ? {word}{n}_MAX "
            f": y > {above} ? ({kind})y : {low};"
        )
        if n == 32 and source == "float32":  # an instruction that does all of it
            letter, how = "s" if signed else "u", "vcvtr" if nearest else "vcvt"
            body = (
                "\n#if defined __arm__ && defined __ARM_FP && (__ARM_FP & 4)\n"
                f'    {kind} r;\n    __asm__("{how}.{letter}32.f32 %0, %0" : "+t"(x));\n'
                "    memcpy(&r, &x, sizeof r);\n    return r;\n"
                f"#else\n    {body}\n#endif\n"
            )
        name = f"smelt_{'round' if nearest else 'cut'}_{source}_{dtype}"
        return self.add(name, kind, f"{C_TYPE[source]} x", body)

    def reinterpret(self, source: str, target: str) -> str:
        """The same bits as another type."""
        a, b = C_TYPE[source], C_TYPE[target]
        body = f"{b} y; memcpy(&y, &x, sizeof y); return y;"
        return self.add(f"smelt_bits_{source}_{target}", b, f"{a} x", body)

    def high_product(self, dtype: str) -> str:
        """The upper half of a product, to the nearest."""
        kind, n, u = C_TYPE[dtype], dt.bits(dtype), "" if dt.is_signed(dtype) else "u"
        body = f"return ({kind})((({u}int64_t)a * b + {1 << (n - 1)}{u}ll) >> {n});"
        if dtype == "int32":  # gcc does not find the instruction
            body = (
                "\n#if defined __ARM_FEATURE_DSP && !defined __clang__\n    int32_t r;\n"
                '    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));\n    return r;\n'
                f"#else\n    {body}\n#endif\n"
            )
        if n == 64:  # by halves
            body = (
                f"const {kind} ah = a >> 32, bh = b >> 32, al = ({kind})(uint32_t)a, "
                f"bl = ({kind})(uint32_t)b; "
                f"const {kind} m = ah * bl + ({kind})(((uint64_t)al * (uint64_t)bl) >> 32); "
                f"const {kind} l = al * bh + ({kind})(uint32_t)m; "
                "return ah * bh + (m >> 32) + (l >> 32) + (l >> 31 & 1);"
            )
        return self.add(f"smelt_high_product_{dtype}", kind, f"{kind} a, {kind} b", body)

    def count_bits(self, which: str) -> str:
        """How many bits are set, or how many leading ones are not."""
        return self.add(f"smelt_{which}", "int", *_COUNTS[which])
