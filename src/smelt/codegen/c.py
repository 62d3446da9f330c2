"""Flat tensor programs as plain C99: one scalar function, the oracle of other back ends.

    int32_t NAME(float *restrict A, const int64_t n) { ... return 0; }

Parallel loops run serially, vectors as loops over lanes. A failed assertion returns -1, memory that
cannot be had -2. Instructions are written as what they mean, or, for a target, as their C text.
"""

# ruff: noqa: E701 (one case a line)

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Iterator, Sequence

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import product
from smelt.ir.errors import CompileError
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Binary,
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
    Select,
    StringImm,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
)
from smelt.target import Target
from smelt.tir import nodes as tir
from smelt.tir.extern import ExternFunction
from smelt.tir.interpret_lanes import scalarize
from smelt.tir.interpret_math import rounder
from smelt.tir.intrin.inline import inlined
from smelt.tir.intrin.registry import Instruction
from smelt.tir.names import unique_name
from smelt.tir.op import address_of
from smelt.tir.parser_values import row_major
from smelt.tir.printer import script
from smelt.tir.rewrite import loads
from smelt.tir.script_ops import EXTERN, PREFETCH, READ_BEFORE, expressions, locality, shape_vars

from .c_helpers import (
    C_TYPE,
    HIDE,
    KERNEL,
    MATH,
    NARROW,
    RESERVED,
    STORED,
    WORDS,
    Helpers,
    extern_source,
    include,
    suffix,
)
from .c_parts import RANGES, SHARES, with_parts
from .c_values import Ranges, shared
from .features import require

_STACK_BYTES = 16 << 10
"""Larger buffers of a program are taken from the heap."""

_TERNARY, _OR, _AND, _EQUAL, _LESS, _SHIFT, _SUM, _PRODUCT, _UNARY, _ATOM = range(1, 11)
_LEVELS: dict[type[Expr], int] = {
    **dict.fromkeys((Add, Sub), _SUM),
    **dict.fromkeys((Mul, Div, TruncDiv, TruncMod), _PRODUCT),
    **dict.fromkeys((EQ, NE), _EQUAL),
    **dict.fromkeys((LT, LE, GT, GE), _LESS),
    And: _AND,
    Or: _OR,
}
_SYMBOLS: dict[type[Expr], str] = {And: "&&", Or: "||", TruncDiv: "/", TruncMod: "%"}
"""Where C writes operators otherwise than Python."""
_BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
_WIDE_DOUBLES = """#if defined __SIZEOF_DOUBLE__ && __SIZEOF_DOUBLE__ < 8
#error "this model computes in float64, and a double has fewer than 8 bytes for this compiler"
#endif
"""
_Text = tuple[str, int]
_DIRECT = "smelt.instruction"


_FUNCTIONS = "|".join(sorted({*MATH.values(), "ldexp", "frexp", "nearbyint", "fmin", "fmax"}))
_HEADERS = {
    "math.h": f"({_FUNCTIONS})f?|NAN|INFINITY|isnan|isinf|isfinite|signbit",
    "stdint.h": "u?int[0-9]+_t",
    "stdlib.h": "malloc|free|abs",
    "string.h": "mem[a-z]+",
}
"""The headers of C, and what they are needed for."""


def c_source(funcs: tir.PrimFunc | Sequence[tir.PrimFunc], target: Target | None = None) -> str:
    """The C99 source of flat programs, each as `int32_t NAME(params...)`.

    target  the processor whose instructions may be used; None: portable C
    """
    several = [funcs] if isinstance(funcs, tir.PrimFunc) else funcs
    head, *functions = c_functions(several, target)
    return "\n".join([p for p in (head, *functions) if p])


def c_functions(
    funcs: Sequence[tir.PrimFunc], target: Target | None = None, local: bool = False
) -> list[str]:
    """What a source begins with, then flat programs as functions.

    local  whether they are static, and may take no memory from the heap
    """
    helpers = Helpers(small=local)
    functions = []
    for f in funcs:
        printers = [_CPrinter(part, target, helpers, local) for part in with_parts(f)]
        printers[-1].written &= _written(f)  # parts are given addresses of what they only read
        functions.append("\n".join([p.function() for p in printers]))
    texts = "".join(helpers.texts.values())
    every = "".join([texts, *functions])
    used = [h for h, words in _HEADERS.items() if re.search(rf"\b({words})\b", every)]
    head = "".join([include(h) for h in [*used, *helpers.headers]])
    words = [WORDS[w] for w in WORDS if w in every]
    if local and re.search(r"\bdouble\b", "".join(functions)):
        words.append(_WIDE_DOUBLES)
    return ["\n".join([p for p in (head, *words, texts) if p]), *functions]


class _CPrinter:
    """Prints one program."""

    def __init__(
        self, func: tir.PrimFunc, target: Target | None, helpers: Helpers, local: bool = False
    ) -> None:
        self.target, self.kernel, self.helpers, self.local = target, func.name, helpers, local
        self.func = scalarize(func, None if target is None else self.instruction)
        self.names: dict[Var | tir.Buffer, str] = {}
        self.taken = {*RESERVED, func.name}
        self.heap: list[str] = []
        self.at: tir.Stmt = func.body
        self.ranges, self.simplify = Ranges(), Analyzer().simplify
        self.written = _written(self.func)
        self.read = {x.buffer for x in loads(self.func.body)}
        self.before = _before(self.func) if local else {}
        scalars = [p for p in func.params if isinstance(p, Var)]
        for v, ends in zip(scalars, func.attrs.get(RANGES, ()), strict=False):
            self.ranges.enter(v, *ends)
        self.temporaries: dict[Expr, str] = {}

    def fail(self, message: str) -> CompileError:
        """An error that shows the statement."""
        return CompileError(f"{self.func.name}: {message}\n{script(self.func, {self.at: 'here'})}")

    def name(self, node: Var | tir.Buffer) -> str:
        """A C identifier, unique in the function."""
        if node not in self.names:
            base = re.sub(r"\W", "_", node.name) or "v"
            base = "_" + base if base[0].isdigit() else base
            self.names[node] = unique_name(base, self.taken)
        return self.names[node]

    def kind(self, dtype: str, table: dict[str, str] = C_TYPE) -> str:
        """The C type of an element type."""
        if dtype not in table:
            raise self.fail(f"C has no type for {dtype}; known: {', '.join(table)}")
        return table[dtype]

    # --------------------------------------------------------------------------- functions

    def function(self) -> str:
        """The function; what it calls is in the helpers."""
        free = shape_vars(self.func.params)
        if free:
            raise self.fail(f"the size {free[0].name} must be a parameter")
        params = []
        sharing = self.func.attrs.get(SHARES, ())
        for n, p in enumerate(self.func.params):
            if isinstance(p, tir.Buffer):
                fixed = "const " * (p not in self.written)
                alone = "" if n in sharing else "restrict "
                params.append(f"{fixed}{self.kind(p.type, STORED)} *{alone}{self.name(p)}")
            else:
                params.append(f"{self.kind(p.type)} {self.name(p)}".replace("* ", "*"))
        body = "".join([f"    {line}\n" for line in self.stmt(self.func.body)])
        for b, n in self.before.items():
            own = f"{self.name(b)}_before"
            body = f"    int32_t {own} = -{n};\n    {HIDE}({own});\n{body}"
        names = [self.names.get(p, p.name) for p in self.func.params]
        unused = [n for n in names if not re.search(rf"\b{n}\b", body)]
        body += "".join([f"    (void){n};\n" for n in unused])
        signature = f"int32_t {self.func.name}({', '.join(params) or 'void'})"
        head = f"{KERNEL} " if self.local else ""
        return f"{head}{signature} {{\n{body}    return 0;\n}}\n"

    # -------------------------------------------------------------------------- statements

    def braces(self, head: str, body: tir.Stmt, *first: str) -> Iterator[str]:
        """A statement in braces behind a head; first: lines before it."""
        yield f"{head} {{".lstrip()
        for line in (*first, *self.stmt(body)):
            yield "    " + line
        yield "}"

    def stmt(self, s: tir.Stmt) -> Iterator[str]:
        """The lines of a statement."""
        if not isinstance(s, tir.Seq):
            self.at = s
        match s:
            case tir.Seq(stmts):
                for x in stmts:
                    yield from self.stmt(x)
            case tir.BufferStore(buffer, value, indices):
                yield from self.named([*indices, value])
                text = self.helpers.narrow("store", buffer.type, self.text(value))
                yield f"{self.element(buffer, indices)} = {text};"
                self.temporaries.clear()
            case tir.For():
                yield from self.loop(s)
            case tir.While(condition, body):
                yield from self.braces(f"while ({self.text(condition)})", body)
            case tir.IfThenElse(condition, yes, no):
                lines = [*self.braces(f"if ({self.text(condition)})", yes)]
                if no is not None:
                    lines[-1:] = self.braces("} else", no)
                yield from lines
            case tir.LetStmt(var, value, body):
                given = self.text(value)
                kind = f"const {self.kind(var.type)}".replace("const void", "void")
                if dt.is_int(var.type):
                    self.ranges.enter(var, *self.ranges.of(value))
                yield from self.braces("", body, f"{kind} {self.name(var)} = {given};")
            case tir.AssertStmt(condition, message):
                plain = message.replace("*/", "* /")
                yield f"if (!({self.text(condition)})) {{ {self.frees()}return -1; }} /* {plain} */"
            case tir.Allocate(buffer, body):
                yield from self.allocate(buffer, body)
            case tir.AllocateConst(buffer, data, body):
                kind, name = self.kind(buffer.type, STORED), self.name(buffer)
                bits = data.view("u2") if buffer.type in NARROW else data
                plain = dt.from_numpy(bits.dtype)
                elements = ", ".join([self.text(const(v, plain)) for v in bits.flat])
                yield f"{{ static const {kind} {name}[{data.size}] = {{{elements}}};"
                yield from [*self.braces("", body)][1:]
            case tir.Evaluate(value):
                yield from self.effect(value)
            case _:
                raise self.fail(f"C has no form for {type(s).__name__}; it takes flat programs")

    def loop(self, s: tir.For) -> Iterator[str]:
        """A loop of any kind, serially."""
        i, low, kind = self.name(s.var), self.text(s.min), self.kind(s.var.type)
        first = []
        if dt.width(s.var.type) < 32:  # the end may be one more than the type holds
            n, high = f"{i}_n", f"(int)({low}) + (int)({self.text(s.extent)})"
            head = f"int {n} = {low}; {n} < {high}; ++{n}"
            first = [f"{kind} {i} = ({kind}){n};"]
        else:
            high = self.text(s.extent if low == "0" else self.simplify(s.min + s.extent))
            head = f"{kind} {i} = {low}; {i} < {high}; ++{i}"
        least, most = self.ranges.of(s.min)[0], self.ranges.of(s.min + s.extent)[1] - 1
        self.ranges.enter(s.var, least, max(least, most))
        yield from self.braces(f"for ({head})", s.body, *first)

    def frees(self) -> str:
        """What gives back the memory that is held, before the function is left."""
        return "".join([f"free({n}); " for n in self.heap])

    def allocate(self, b: tir.Buffer, body: tir.Stmt) -> Iterator[str]:
        """A local array, or memory from the heap where it is large or of unknown size."""
        size = product(b.shape)
        kind, name, count = self.kind(b.type, STORED), self.name(b), self.text(size)
        small = isinstance(size, IntImm) and size.value * dt.bytes_of(b.type) <= _STACK_BYTES
        if small:
            idle = "" if b in self.read else f" (void){name}; /* what compilers are to leave out */"
            yield from self.braces("", body, f"{kind} {name}[{max(1, int(count))}];{idle}")
            return
        if self.local:
            raise self.fail(f"{b.name} has {count} elements, more than a stack may hold")
        got = f"{kind} *{name} = malloc((size_t)({count}) * sizeof({kind}) + 1);"
        failed = f"if (!{name}) {{ {self.frees()}return -2; }}"
        self.heap.append(name)
        *lines, end = self.braces("", body, got, failed)
        self.heap.remove(name)
        yield from (*lines, f"    free({name});", end)

    def instruction(
        self, made: Instruction, places: Sequence[Expr], target: tir.BufferLoad
    ) -> tir.Stmt:
        """An instruction on operands in memory, as a statement that `effect` prints."""
        assert self.target is not None
        require(made.name, made.arch, made.features, self.target, self.kernel)
        if not made.c:
            raise CompileError(f"{self.kernel}: the instruction {made.name} has no C text")
        args = [address_of(p) if isinstance(p, tir.BufferLoad) else p for p in (*places, target)]
        return tir.Evaluate(Call("int32", _DIRECT, (StringImm(made.name), *args)))

    def instruction_name(self, made: Instruction, fixed: Sequence[Expr]) -> str:
        """The function of an instruction; for sources that any compiler may take, with its meaning
        for those that have it not."""
        if not self.local:
            return self.helpers.instruction(made, fixed)
        values = iter(fixed)
        places = [next(values) if isinstance(p, Var) else tir.BufferLoad(p, (const(0),))
                  for p in made.operands]  # fmt: skip
        plain = made.meaning.replace(body=inlined(made, places, made.result))
        own = _CPrinter(plain, None, self.helpers, local=True)
        own.names.update({b: b.name for b in plain.buffers})
        lines = "".join([f"    {line}\n" for line in own.stmt(own.func.body)])
        return self.helpers.instruction(made, fixed, lines)

    def effect(self, e: Expr) -> Iterator[str]:
        """A call for its effect: the static part of host programs."""
        match e:
            case IntImm():
                return
            case Call(_, op, (StringImm(name), *args)) if op in ("smelt.call_kernel", EXTERN):
                if op == EXTERN:
                    self.helpers.texts[name] = extern_source(ExternFunction.get(name))
                yield "{"
                given = ", ".join([self.text(a) for a in args])
                yield f"    const int32_t status = {name}({given});"
                yield f"    if (status) {{ {self.frees()}return status; }}"
                yield "}"
            case Call(_, op, (StringImm(name), *args)) if op == _DIRECT:
                made = Instruction.get(name)
                fixed = [a for p, a in zip(made.operands, args, strict=False) if isinstance(p, Var)]
                texts = [self.text(a) for a in args if not isinstance(a, IntImm)]
                yield f"{self.instruction_name(made, fixed)}({', '.join(texts)});"
            case Call(_, "smelt.free_storage", (Var() as storage,)):
                yield f"free({self.name(storage)});"
            case Call(_, op, (place, *_)) if op == PREFETCH:
                self.helpers.fixed(PREFETCH)
                yield f"smelt_prefetch({self.text(place)}, {locality(e)});"
            case Call(_, op) if op.startswith("smelt."):
                raise self.fail(f"C has no form for the host intrinsic {op}")
            case _:
                yield f"(void)({self.text(e)});"

    # ------------------------------------------------------------------------- expressions

    def named(self, values: Sequence[Expr]) -> Iterator[str]:
        """Names for what some values have in common: lines before the statement that uses them."""
        for e in shared(values):
            name = unique_name("t", self.taken)
            yield f"const {self.kind(e.dtype)} {name} = {self.text(e)};"
            self.temporaries[e] = name

    def text(self, e: Expr, level: int = 0) -> str:
        """An expression, in parentheses where it binds less tightly than `level`."""
        if e in self.temporaries:
            return self.temporaries[e]
        text, own = self.expr(e)
        return text if own >= level else f"({text})"

    def expr(self, e: Expr) -> _Text:
        """An expression and how tightly it binds."""
        # fmt: off
        match e:
            case IntImm(kind, value):           return self.integer(kind, value)
            case FloatImm(kind, value):         return self.floating(kind, value)
            case StringImm(value):              return _c_text(value), _ATOM
            case Var():                         return self.name(e), _ATOM
            case tir.BufferLoad(buffer, indices):   return self.load(buffer, indices), _ATOM
            case Not(a):                        return f"!{self.text(a, _UNARY)}", _UNARY
            case Select(c, a, b):               return self.ternary(c, a, b)
            case Call(_, "if_then_else", (c, a, b)): return self.ternary(c, a, b)
            case Cast(kind, value):             return self.cast(kind, value)
            case Min(Max(a, IntImm(value=low)), IntImm("int32", high)) if low == ~high and (
                high & (high + 1) == 0 < high
            ):
                return f"{self.helpers.saturate(high.bit_length() + 1)}({self.text(a)})", _ATOM
            case Min(a, b) | Max(a, b):
                return self.two(self.helpers.extreme(type(e), a.dtype), a, b)
            case FloorDiv() | FloorMod():       return self.floor(e)
            case Binary():                      return self.binary(e)
            case Call(_, tir.ADDRESS, (tir.BufferLoad(b, ix),)):
                return f"&{self.element(b, ix)}", _UNARY
            case Call():                        return self.call(e)
        # fmt: on
        raise self.fail(f"C has no form for {type(e).__name__}")

    def two(self, name: str, a: Expr, b: Expr) -> _Text:
        """A call of two operands."""
        return f"{name}({self.text(a)}, {self.text(b)})", _ATOM

    def ternary(self, c: Expr, a: Expr, b: Expr) -> _Text:
        """c ? a : b."""
        return f"{self.text(c, _OR)} ? {self.text(a, _OR)} : {self.text(b, _TERNARY)}", _TERNARY

    def integer(self, kind: str, value: int) -> _Text:
        """An integer constant; the lowest of a type has no literal in C."""
        if kind in ("int32", "int64") and value == -(1 << (dt.bits(kind) - 1)):
            return f"INT{dt.bits(kind)}_MIN", _ATOM
        mark = {"uint32": "u", "uint64": "ull"}.get(kind) or ("ll" if abs(value) >= 1 << 31 else "")
        return f"{value}{mark}", _ATOM if value >= 0 else _UNARY

    def floating(self, kind: str, value: float) -> _Text:
        """A floating-point constant, exactly, in hexadecimal where decimal is long."""
        number = rounder(kind)(value)
        if not math.isfinite(number):
            text = "NAN" if number != number else "INFINITY" if number > 0 else "-INFINITY"
            return text, _UNARY
        plain = repr(number) if len(repr(number)) < 10 else number.hex()
        return plain + (suffix(kind)), _ATOM if math.copysign(1, number) > 0 else _UNARY

    def element(self, b: tir.Buffer, indices: tuple[Expr, ...]) -> str:
        """A[i * 64 + j]."""
        steps = zip(indices, b.strides or row_major(b.shape), strict=True)
        terms = [i * step for i, step in steps] or [const(0)]
        at = functools.reduce(operator.add, terms)
        if isinstance(at, Cast) and dt.is_int(at.value.dtype):
            at = at.value  # C widens it by itself
        if n := self.before.get(b):
            return f"{self.name(b)}[{self.name(b)}_before + ({self.text(self.simplify(at + n))})]"
        return f"{self.name(b)}[{self.text(at)}]"

    def load(self, b: tir.Buffer, indices: tuple[Expr, ...]) -> str:
        """One element as a value."""
        return self.helpers.narrow("load", b.type, self.element(b, indices))

    def rounded(self, text: str, level: int, dtype: str) -> _Text:
        """The result of arithmetic as a value of its type."""
        if dtype in NARROW:
            return self.helpers.narrow("round", dtype, text), _ATOM
        if dtype in ("int8", "int16", "uint8", "uint16"):
            return f"({C_TYPE[dtype]})({text})", _UNARY
        return text, level

    def binary(self, e: Binary) -> _Text:
        """One operator of C; signed integers of data wrap, by way of unsigned ones."""
        symbol, level = _SYMBOLS.get(type(e), e.symbol), _LEVELS[type(e)]
        dtype = e.a.dtype
        if isinstance(e, TruncMod) and dt.is_float(dtype):
            return self.rounded(self.two(f"fmod{suffix(dtype)}", e.a, e.b)[0], _ATOM, dtype)
        wraps = isinstance(e, Add | Sub | Mul) and (
            dtype == "int32" or (dtype == "int64" and loads(e))
        )
        if wraps and not self.ranges.fits(e):
            kind = C_TYPE[dtype]
            a, b = (f"(u{kind}){self.text(x, _UNARY)}" for x in (e.a, e.b))
            return f"({kind})({a} {symbol} {b})", _UNARY
        a = self.text(e.a, level + (level in (_EQUAL, _LESS)))
        if isinstance(e, Or) and isinstance(e.a, And):
            a = f"({a})"
        text = f"{a} {symbol} {self.text(e.b, _EQUAL if level <= _AND else level + 1)}"
        return (text, level) if level <= _LESS else self.rounded(text, level, dtype)

    def floor(self, e: FloorDiv | FloorMod) -> _Text:
        """Division that rounds toward minus infinity."""
        dtype, division = e.a.dtype, isinstance(e, FloorDiv)
        if dt.is_float(dtype):
            self.helpers.fixed("float_mod")
            text = f"({C_TYPE[dtype]}){self.two('smelt_float_floormod', e.a, e.b)[0]}"
            return self.rounded(text, _UNARY, dtype)
        if not dt.is_signed(dtype):
            text = f"{self.text(e.a, _PRODUCT)} {'/' if division else '%'} {self.text(e.b, _UNARY)}"
            return self.rounded(text, _PRODUCT, dtype)
        by = e.b.value if isinstance(e.b, IntImm) else 0
        if by > 0 and self.ranges.of(e.a)[0] >= 0:
            text = f"{self.text(e.a, _PRODUCT)} {'/' if division else '%'} {self.text(e.b)}"
            return self.rounded(text, _PRODUCT, dtype)
        if by > 0 and by & by - 1 == 0:
            given = f"{self.text(e.a, _UNARY)} >> {by.bit_length() - 1}"
            masked = f"({self.text(e.a, _UNARY)} & {self.integer(dtype, by - 1)[0]})", _ATOM
            return self.rounded(given, _SHIFT, dtype) if division else self.rounded(*masked, dtype)
        name = "floordiv" if division else "floormod"
        self.helpers.fixed(name)
        text = self.two(f"smelt_{name}", e.a, e.b)[0]
        return (text, _ATOM) if dtype == "int64" else (f"({C_TYPE[dtype]}){text}", _UNARY)

    def cast(self, kind: str, value: Expr) -> _Text:
        """A conversion."""
        source = value.dtype
        if kind == "bool":
            return f"{self.text(value, _SHIFT)} != 0", _EQUAL
        if kind in NARROW:
            wide = "(double)" if dt.is_int(source) else ""
            return self.rounded(wide + self.text(value, _UNARY), 0, kind)
        if dt.is_float(source) and not dt.is_float(kind):
            nearest = isinstance(value, Call) and value.op == "round"
            given = value.args[0] if isinstance(value, Call) and nearest else value
            name = self.helpers.to_int(kind, source, nearest)
            return f"{name}({self.text(given)})", _ATOM
        return f"({self.kind(kind)}){self.text(value, _UNARY)}", _UNARY

    def call(self, e: Call) -> _Text:
        """An intrinsic."""
        args, dtype = [self.text(a) for a in e.args], e.type
        source = e.args[0].dtype if e.args else dtype
        if e.op == "fma" and self.local and dtype in ("float32", "float64"):
            return f"{self.helpers.fused(dtype)}({', '.join(args)})", _ATOM
        if dt.is_float(source) and e.op in MATH:
            name = self.helpers.math(e.op, dtype)
            return self.rounded(f"{name}({', '.join(args)})", _ATOM, dtype)
        if e.op in _BITS:
            symbol = _BITS[e.op]
            a, b = [self.text(x, _UNARY) for x in e.args]
            return f"({a} {symbol} {b})", _ATOM
        kind = self.kind(dtype)
        match e.op:
            case "likely":
                return args[0], 0
            case "isnan" | "isinf" | "isfinite":
                return f"({e.op}({args[0]}) != 0)", _ATOM
            case "sign":
                nan = "x != x ? x : " if dt.is_float(dtype) else ""
                body = f"return {nan}({kind})((x > 0) - (x < 0));"
                name = self.helpers.add(f"smelt_sign_{dtype}", kind, f"{kind} x", body)
                return f"{name}({args[0]})", _ATOM
            case "sigmoid":
                body = f"return 1 / (1 + exp{suffix(dtype)}(-x));"
                name = self.helpers.add(f"smelt_sigmoid_{kind}", kind, f"{kind} x", body)
                return self.rounded(f"{name}({args[0]})", _ATOM, dtype)
            case "rsqrt":
                return self.rounded(f"(1 / sqrt{suffix(dtype)}({args[0]}))", _ATOM, dtype)
            case "reinterpret" if NARROW & {source, dtype}:
                bits = self.helpers.narrow("store", source, args[0])
                return self.helpers.narrow("load", dtype, bits), _ATOM
            case "reinterpret":
                return f"{self.helpers.reinterpret(source, dtype)}({args[0]})", _ATOM
            case "high_product":
                name = self.helpers.high_product(dtype)
                return f"{name}({args[0]}, {args[1]})", _ATOM
            case "popcount" | "clz":
                bits = f", {dt.bits(source)}" if e.op == "clz" else ""
                raw = f"(uint{dt.bits(source)}_t)({args[0]})"
                return f"({kind}){self.helpers.count_bits(e.op)}({raw}{bits})", _UNARY
            case "bitwise_not":
                sign = "!" if dtype == "bool" else f"({kind})~"
                return f"{sign}{self.text(e.args[0], _UNARY)}", _UNARY
            case "shift_left":
                return f"({kind})((uint{dt.bits(dtype)}_t)({args[0]}) << ({args[1]}))", _UNARY
            case "shift_right":
                return f"({kind})(({args[0]}) >> ({args[1]}))", _UNARY
            case "abs":
                return f"({kind})(({args[0]}) < 0 ? -({args[0]}) : ({args[0]}))", _UNARY
            case "fma":
                return self.expr(Add(Mul(e.args[0], e.args[1]), e.args[2]))
            case "smelt.alloc_storage":
                return f"malloc((size_t)({args[0]}))", _ATOM
        raise self.fail(f"C has no form for the intrinsic {e.op}")


def _c_text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_REACH = 255
"""Bytes that an instruction reaches before its address, in Thumb; behind it they are 4095."""


def _before(func: tir.PrimFunc) -> dict[tir.Buffer, int]:
    """The operands of READ_BEFORE, and how many elements before an address at most: what is added
    to their indices first, so that all of them are behind it."""
    named = func.attrs.get(READ_BEFORE, ())
    found: dict[tir.Buffer, int] = {}
    for x in loads(func.body):
        at = x.indices[-1]
        if x.buffer.name in named and isinstance(at, Sub) and isinstance(at.b, IntImm):
            found[x.buffer] = max(found.get(x.buffer, 0), at.b.value)
    return {b: n for b, n in found.items() if n * dt.bytes_of(b.type) > _REACH}


def _written(func: tir.PrimFunc) -> set[tir.Buffer]:
    """The buffers that a program may change: all but those that are only loaded from."""
    found = {s.buffer for s in tir.walk(func.body) if isinstance(s, tir.BufferStore)}
    every = [*expressions(*tir.walk(func.body))]
    directly = [e for e in every if isinstance(e, Call) and e.op == _DIRECT]
    read = {a for e in directly for a in e.args[:-1]}  # the last one is the result
    results = {e.args[-1] for e in directly}
    for e in every:
        if isinstance(e, Call) and e.op == tir.ADDRESS and (e in results or e not in read):
            found |= {x.buffer for x in e.args if isinstance(x, tir.BufferLoad)}
    return found
