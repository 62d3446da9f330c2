"""Programs of the virtual machine: functions of instructions on registers.

    Move             d s            d = s
    Ret              s              the function's result
    Invoke           d f (a, ...)   a function of the program
    InvokeClosure    d c (a, ...)   a closure
    TailInvoke       f (a, ...)     the same, and its result is this function's:
    TailClosure      c (a, ...)     the frame is given to the callee
    InvokeSegment    (d, ...) k (a, ...)  compiled native code
    InvokeHost       (d, ...) name attrs (a, ...)  an operator of vm_host, with data-dependent sizes
    AllocADT         d tag name (a, ...)
    AllocTuple       d (a, ...)
    AllocClosure     d f (a, ...)
    GetField         d s index
    GetTag           d s
    If               s value target goes on where s is the value, else at the target
    Goto             target
    LoadConst        d index
    Fatal            message

d, s, c, a are registers, f functions, k segments, targets positions in the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from smelt.runtime.errors import InputError, LoadError
from smelt.runtime.signature import TensorInfo

Instruction = tuple[Any, ...]
"""The name, then the operands as the table above has them."""

SHAPES: dict[str, str] = {
    "Move": "ds",
    "Ret": "s",
    "Invoke": "dfA",
    "InvokeClosure": "dsA",
    "TailInvoke": "fA",
    "TailClosure": "sA",
    "InvokeSegment": "DkA",
    "InvokeHost": "DnmA",
    "AllocADT": "dinA",
    "AllocTuple": "dA",
    "AllocClosure": "dfA",
    "GetField": "dsi",
    "GetTag": "ds",
    "If": "sit",
    "Goto": "t",
    "LoadConst": "dc",
    "Fatal": "n",
}
"""What the operands are: d, s registers written and read, D, A tuples of them, f function, k
segment, c constant, t target, i number, n text, m attributes."""


def registers_of(instruction: Instruction) -> tuple[list[int], list[int]]:
    """The registers that an instruction reads, and those that it writes."""
    read: list[int] = []
    written: list[int] = []
    for kind, x in zip(SHAPES[instruction[0]], instruction[1:], strict=True):
        if kind in "sA":
            read += x if kind == "A" else [x]
        elif kind in "dD":
            written += x if kind == "D" else [x]
    return read, written


@dataclass
class VMFunction:
    """A function: captured values and parameters come in the first registers.

    captured   how many captured values come before the parameters
    registers  how many registers a frame has
    """

    name: str
    params: list[str]
    captured: int
    registers: int
    code: list[Instruction]


@dataclass
class Program:
    """All functions, the constants that they load, and the compiled segments that they call.

    globals  the functions of the module, by name
    inputs   what "main" takes; outputs: what it gives
    groups   per output: -1 a value, -2 an absent optional value, else a sequence of so many, which
             the function gives one after another; empty: a value each
    results  what "main" gives, one after another; single: it is no tuple
    """

    functions: list[VMFunction] = field(default_factory=list)
    constants: list[npt.NDArray[Any]] = field(default_factory=list)
    segments: list[Any] = field(default_factory=list)
    globals: dict[str, int] = field(default_factory=dict)
    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    groups: tuple[int, ...] = ()
    results: tuple[TensorInfo, ...] = ()
    single: bool = True


def function_text(f: VMFunction, number: int) -> str:
    """A function's instructions, one a line."""
    first = f.captured
    names = [f"${first + n} {p}" for n, p in enumerate(f.params)]
    held = [f"${n}" for n in range(first)]
    head = f"VMFunction[{number}]: {f.name}({', '.join(names)})"
    head += f" captures {', '.join(held)}" if held else ""
    lines = [f"{head}  # {f.registers} registers"]
    for at, instruction in enumerate(f.code):
        lines.append(f"  {at:3d}: {_line(instruction)}")
    return "\n".join(lines)


def _line(instruction: Instruction) -> str:
    name, *operands = instruction
    made = []
    for kind, x in zip(SHAPES[name], operands, strict=True):
        if kind in "ds":
            made.append(f"${x}")
        elif kind in "DA":
            made.append(f"({', '.join([f'${r}' for r in x])})")
        elif kind == "m":
            made.append(str(x))
        else:
            prefix = {"f": "VMFunction", "k": "Segment", "c": "Constant"}.get(kind)
            made.append(str(x) if prefix is None else f"{prefix}[{x}]")
    return f"{name:<14}{' '.join(made)}".rstrip()


# ------------------------------------------------------------------------------------- checking


def check(program: Program, segments: Sequence[tuple[int, int]]) -> None:
    """Refuse a program that reads or writes what it does not have. Raises LoadError.

    segments  how many operands and results each of them has
    """
    counts = {"f": len(program.functions), "k": len(segments), "c": len(program.constants)}
    for name, index in program.globals.items():
        _within("the function of " + name, index, counts["f"])
    main = program.globals.get("main")
    if main is not None:
        _equal("main", len(program.functions[main].params), len(program.inputs))
    if program.groups:
        _equal("the results", len(program.groups), len(program.outputs))
    kept = [max(g, 0) if g != -1 else 1 for g in program.groups or (-1,) * len(program.outputs)]
    _equal("the results", sum(kept), len(program.results))
    for f in program.functions:
        _within(f.name, f.registers, (1 << 20) + 1)
        _within(f.name, f.captured, f.registers - len(f.params) + 1)
        if not f.code or f.code[-1][:1] not in [(name,) for name in _ENDS]:
            raise LoadError(f"the program is damaged: {f.name} has no end")
        limits = {"t": len(f.code), "d": f.registers, "s": f.registers, **counts}
        for at, instruction in enumerate(f.code):
            where = f"{f.name}, instruction {at}"
            _check_one(where, instruction, limits)
            _check_counts(where, instruction, program, segments)


_ENDS = ("Ret", "TailInvoke", "TailClosure", "Goto", "Fatal")


def _check_one(where: str, instruction: Instruction, limits: dict[str, int]) -> None:
    shape = SHAPES.get(instruction[0]) if instruction and type(instruction[0]) is str else None
    if shape is None or len(instruction) != len(shape) + 1:
        raise LoadError(f"the program is damaged: {where}: {instruction!r:.80}")
    for kind, x in zip(shape, instruction[1:], strict=True):
        if kind in "DA":
            for r in x if isinstance(x, tuple) else (None,):
                _within(where, r, limits["s"])
        elif kind in limits:
            _within(where, x, limits[kind])
        elif type(x) is not {"i": int, "n": str, "m": dict}[kind]:
            raise LoadError(f"the program is damaged: {where}: {x!r:.80}")


def _check_counts(
    where: str, instruction: Instruction, program: Program, segments: Sequence[tuple[int, int]]
) -> None:
    """Operands as many as what is called takes, and results as many as it gives."""
    name, *_, given = instruction
    counts = None
    if name in ("Invoke", "TailInvoke"):
        callee = program.functions[instruction[-2]]
        counts = (len(given), callee.captured + len(callee.params))
    elif name == "AllocClosure":
        counts = (len(given), program.functions[instruction[-2]].captured)
    elif name == "InvokeSegment":
        taken, made = segments[instruction[2]]
        counts = (len(given), taken)
        _equal(where, len(instruction[1]), made)
    if counts is not None:
        _equal(where, *counts)


def _equal(where: str, given: int, wanted: int) -> None:
    if given != wanted:
        raise LoadError(f"the program is damaged: {where}: {given} registers for {wanted} values")


def _within(where: str, x: Any, limit: int) -> None:
    if type(x) is not int or not 0 <= x < limit:
        raise LoadError(f"the program is damaged: {where}: {x!r:.80} is not below {limit}")


def of_json(data: Any) -> list[VMFunction]:
    """Functions from plain data. Raises LoadError where these are something else."""
    made = []
    try:
        for name, params, captured, registers, code in data:
            names = [str(p) for p in params]
            instructions = [
                tuple([tuple(x) if isinstance(x, list) else x for x in i]) for i in code
            ]
            made.append(VMFunction(str(name), names, captured, registers, instructions))
    except (TypeError, ValueError) as e:
        raise LoadError(f"the program is damaged: {e}") from None
    return made


def scalar(value: Any) -> int:
    """A register as a number: a tag, or a tensor of one element."""
    if type(value) is int:
        return value
    try:
        return int((value if type(value) is np.ndarray else value.numpy()).item())
    except (AttributeError, ValueError, OverflowError, TypeError):
        raise InputError(f"a branch needs one whole number; it has {value!r:.60}") from None
