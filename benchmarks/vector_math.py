"""Speed of the expanded math functions: `python -m benchmarks.vector_math [names]`.

Each tree is printed as LLVM IR for <16 x float> (<8 x double>), compiled for this machine and run
over 4096 elements in the first-level cache. The emitter is this file's own, strict and small.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import time

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from smelt.ir import dtype as dt
from smelt.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from smelt.ir.node import postorder
from smelt.tir.math import EXPANDED, expand

_TYPES = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "bool": "i1"}
_FLOAT = {Add: "fadd", Sub: "fsub", Mul: "fmul", Div: "fdiv"}
_INT = {Add: "add", Sub: "sub", Mul: "mul", And: "and", Or: "or"}
_ORDER = {
    EQ: ("oeq", "eq"),
    NE: ("une", "ne"),
    LT: ("olt", "slt"),
    LE: ("ole", "sle"),
    GT: ("ogt", "sgt"),
    GE: ("oge", "sge"),
}
_UNARY = {
    "floor": "floor",
    "ceil": "ceil",
    "round": "roundeven",
    "trunc": "trunc",
    "sqrt": "sqrt",
    "abs": "fabs",
    "copysign": "copysign",
    "fma": "fma",
}
_BITS = {
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "shift_left": "shl",
    "shift_right": "ashr",
}


class Emitter:
    """Prints one tree; every scalar becomes a vector of `lanes`."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.declared: set[str] = set()

    def type(self, dtype: str) -> str:
        """The vector type."""
        return f"<{self.lanes} x {_TYPES[dtype]}>"

    def constant(self, e: IntImm | FloatImm) -> str:
        """A constant in all lanes."""
        text = str(e.value)
        if isinstance(e, FloatImm):
            value = float(np.float32(e.value)) if e.type == "float32" else e.value
            text = "0x" + struct.pack(">d", value).hex().upper()
        return "<" + ", ".join([f"{_TYPES[e.dtype]} {text}"] * self.lanes) + ">"

    def intrinsic(self, e: Call) -> str:
        """A call of an LLVM intrinsic."""
        name = f"@llvm.{_UNARY[e.op]}.v{self.lanes}f{dt.bits(e.dtype)}"
        t = self.type(e.dtype)
        self.declared.add(f"declare {t} {name}({', '.join([t] * len(e.args))})")
        return f"call {t} {name}({', '.join(f'{t} {self.names[a]}' for a in e.args)})"

    def convert(self, e: Cast) -> str:
        """A conversion."""
        a, b = e.value.dtype, e.type
        kinds = (dt.is_float(a), dt.is_float(b))
        wider = dt.bits(b) > dt.bits(a)
        op = {
            (True, True): "fpext" if wider else "fptrunc",
            (False, True): "sitofp",
            (True, False): "fptosi",
            (False, False): "sext" if wider else "trunc",
        }[kinds]
        return f"{op} {self.type(a)} {self.names[e.value]} to {self.type(b)}"

    def instruction(self, e: Expr) -> str:
        """The right-hand side for one node."""
        n, t = self.names, self.type(e.dtype)
        match e:
            case Call(_, "reinterpret", (a,)):
                return f"bitcast {self.type(a.dtype)} {n[a]} to {t}"
            case Call(_, op, (a, b)) if op in _BITS:
                return f"{_BITS[op]} {t} {n[a]}, {n[b]}"
            case Call():
                return self.intrinsic(e)
            case Cast():
                return self.convert(e)
            case Not(a):
                return f"xor {t} {n[a]}, splat (i1 true)"
            case Select(c, a, b):
                return f"select {self.type('bool')} {n[c]}, {t} {n[a]}, {t} {n[b]}"
            case EQ(a, b) | NE(a, b) | LT(a, b) | LE(a, b) | GT(a, b) | GE(a, b):
                ordered, plain = _ORDER[type(e)]
                op = f"fcmp {ordered}" if dt.is_float(a.dtype) else f"icmp {plain}"
                return f"{op} {self.type(a.dtype)} {n[a]}, {n[b]}"
            case Min(a, b) | Max(a, b):
                raise NotImplementedError("the expansions have no Min or Max")
            case Add(a, b) | Sub(a, b) | Mul(a, b) | Div(a, b) | And(a, b) | Or(a, b):
                table = _FLOAT if dt.is_float(e.dtype) else _INT
                return f"{table[type(e)]} {t} {n[a]}, {n[b]}"
        raise NotImplementedError(type(e).__name__)

    def emit(self, root: Expr) -> str:
        """All instructions; gives the name of the result."""
        for node in postorder(root):
            if not isinstance(node, Expr) or node in self.names:
                continue
            if isinstance(node, IntImm | FloatImm):
                self.names[node] = self.constant(node)
                continue
            text = self.instruction(node)
            self.names[node] = f"%v{len(self.names)}"
            self.lines.append(f"  {self.names[node]} = {text}")
        return self.names[root]


def kernel(root: Expr, operands: tuple[Var, ...], lanes: int) -> str:
    """IR of f(out, a, b, count, n): the tree over arrays, n times; `lanes` divides `count`."""
    emitter = Emitter(lanes)
    t = emitter.type(root.dtype)
    element = _TYPES[root.dtype]
    loads = []
    for k, v in enumerate(operands):
        emitter.names[v] = f"%x{k}"
        loads += [
            f"  %p{k} = getelementptr {element}, ptr %a{k}, i64 %i",
            f"  %x{k} = load {t}, ptr %p{k}, align {dt.bytes_of(root.dtype)}",
        ]
    result = emitter.emit(root)
    return "\n".join(
        [
            *sorted(emitter.declared),
            "define void @f(ptr noalias %out, ptr %a0, ptr %a1, i64 %count, i64 %n) {",
            "entry:",
            "  br label %again",
            "again:",
            "  %k = phi i64 [0, %entry], [%k1, %done]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %again], [%next, %loop]",
            *loads,
            *emitter.lines,
            f"  %q = getelementptr {element}, ptr %out, i64 %i",
            f"  store {t} {result}, ptr %q, align {dt.bytes_of(root.dtype)}",
            f"  %next = add i64 %i, {lanes}",
            "  %more = icmp slt i64 %next, %count",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  %k1 = add i64 %k, 1",
            "  %rest = icmp slt i64 %k1, %n",
            "  br i1 %rest, label %again, label %exit",
            "exit:",
            "  ret void",
            "}",
        ]
    )


class Compiled:
    """A kernel compiled for this machine."""

    def __init__(self, op: str, dtype: str = "float32") -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.dtype = np.dtype(dtype)
        self.lanes = 64 // self.dtype.itemsize
        operands = (Var("x", dtype), Var("y", dtype))[: 2 if op in ("pow", "atan2", "fmod") else 1]
        root = expand(op, operands)
        if root is None:
            raise ValueError(f"{op} of {dtype} is not expanded")
        module = llvm.parse_assembly(kernel(root, operands, self.lanes))
        features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=features, opt=3
        )
        self.assembly = machine.emit_assembly(module)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.function = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )(self.engine.get_function_address("f"))

    def __call__(self, *arrays: NDArray[np.floating]) -> NDArray[np.floating]:
        """The function of whole arrays; lengths need not be multiples of the lanes."""
        count = len(arrays[0])
        padded = -(-count // self.lanes) * self.lanes
        inputs = [np.concatenate([a, np.ones(padded - count, self.dtype)]) for a in arrays]
        out = np.empty(padded, self.dtype)
        self.function(out.ctypes.data, inputs[0].ctypes.data, inputs[-1].ctypes.data, padded, 1)
        return out[:count]


def speed(compiled: Compiled, count: int = 4096) -> float:
    """Elements a nanosecond, the best of a few runs."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.01, 3, count).astype(compiled.dtype)
    out = np.empty_like(x)
    addresses = (out.ctypes.data, x.ctypes.data, x.ctypes.data)
    best = 0.0
    for _ in range(20):
        start = time.perf_counter_ns()
        compiled.function(*addresses, count, 40)
        best = max(best, 40 * count / (time.perf_counter_ns() - start))
    return best


def instructions(compiled: Compiled) -> int:
    """Instructions of one loop pass, loads, stores and loop control included."""
    body: list[str] = []
    for line in compiled.assembly.splitlines():
        text = line.strip()
        if text.startswith(".LBB"):
            body = []
        elif text.startswith("j"):
            return len(body) + 1
        elif line.startswith("\t") and not text.startswith((".", "#")):
            body.append(text)
    return len(body)


def main() -> None:
    """Print one line a function."""
    names = sys.argv[1:] or list(EXPANDED)
    print(f"{'':10} {'f32 el/ns':>10} {'loop':>6} {'f64 el/ns':>10}")
    for name in names:
        single = Compiled(name)
        try:
            double = f"{speed(Compiled(name, 'float64')):10.2f}"
        except ValueError:
            double = f"{'-':>10}"
        print(f"{name:10} {speed(single):10.2f} {instructions(single):6} {double}", flush=True)


if __name__ == "__main__":
    main()
