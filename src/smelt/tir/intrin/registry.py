"""Instructions and tensor intrinsics: what each means, as a program, and how it is written.

An `Instruction` computes one value from others: vectors of fixed length, scalars, immediates. Its
meaning is a program over buffers of lanes; the interpreter runs that program, the code generators
write the LLVM intrinsic or the C statement that stands for it.

A `TensorIntrin` is a tile of a loop nest (the description) and a program that computes the same
(the implementation), usually by instructions. `Schedule.tensorize` finds the one and puts the other
in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar, overload

from smelt.ir import dtype as dt
from smelt.ir.errors import ScheduleError, VerifyError
from smelt.ir.expr import Call, Expr, ExprLike, IntImm, StringImm, Var, convert
from smelt.runtime.errors import closest
from smelt.tir.named_calls import name_of, named_calls
from smelt.tir.names import unique_name
from smelt.tir.parser import parse

from .. import nodes
from .programs import MultiplyAdd

ARCHITECTURES = ("aarch64", "arm", "riscv", "x86")
"""The families of processors that instructions belong to."""

INSTRUCTIONS: dict[str, Instruction] = {}
"""Instructions by name."""

_BY_LLVM_NAME: dict[str, Instruction] = {}

INTRINSICS: dict[str, TensorIntrin] = {}
"""Tensor intrinsics by name."""


@dataclass(eq=False, repr=False)
class Instruction:
    """One instruction (or a short fixed sequence that is used as one).

    name      e.g. "arm.neon.sdot"
    given     the meaning, or its text, which is parsed when it is first asked for
    arch      the family of processors: one of ARCHITECTURES
    features  what the processor must have, in LLVM's names
    llvm      the name of an LLVM intrinsic that takes the operands in order; or a function from the
              operands to an expression of plain operations and `call_llvm`; None if LLVM has none
    c         a C statement that reads the operands and writes the result, through pointers with
              the names that they have in the meaning; `{lane}` stands for the immediate `lane`.
              Operands are read before the result is written: the two may be one memory. "" if none
    header    the file that the statement includes
    source    the manual that says what it does
    update    what it multiplies and adds up, where that is all it does
    """

    name: str
    given: nodes.PrimFunc | str
    arch: str
    features: tuple[str, ...] = ()
    llvm: str | Callable[..., Expr] | None = None
    c: str = ""
    header: str = ""
    source: str = ""
    update: MultiplyAdd | None = None

    def __post_init__(self) -> None:
        if self.arch not in ARCHITECTURES:
            raise VerifyError(
                f"instruction {self.name}: unknown architecture {self.arch!r}; "
                f"known: {', '.join(ARCHITECTURES)}"
            )
        if isinstance(self.given, nodes.PrimFunc):
            _check_meaning(self.name, self.given)

    @staticmethod
    def register(
        name: str,
        meaning: nodes.PrimFunc | str | MultiplyAdd,
        *,
        arch: str,
        features: Sequence[str] = (),
        llvm: str | Callable[..., Expr] | None = None,
        c: str = "",
        header: str = "",
        source: str = "",
        override: bool = False,
    ) -> Instruction:
        """Make an instruction known under its name.

        meaning  a flat program: its parameters are the operands (buffers of lanes; integers for
                 immediates), then the result, which it writes and no operand is; or what it adds up
        override  whether it may replace one of the same name
        """
        update = meaning if isinstance(meaning, MultiplyAdd) else None
        given = meaning.meaning if isinstance(meaning, MultiplyAdd) else meaning
        made = Instruction(name, given, arch, tuple(features), llvm, c, header, source, update)
        _enter(INSTRUCTIONS, "instruction", made, override)
        if isinstance(llvm, str):
            _BY_LLVM_NAME.setdefault(llvm, made)
        return made

    @staticmethod
    def get(name: str) -> Instruction:
        """The instruction of a name."""
        if name not in INSTRUCTIONS:
            near = ", ".join(closest(name, INSTRUCTIONS) or INSTRUCTIONS)
            raise VerifyError(f"there is no instruction {name!r}; nearest: {near}")
        return INSTRUCTIONS[name]

    @staticmethod
    def called_by(e: Call) -> Instruction | None:
        """The instruction that one of NAMED_CALLS stands for; None where nobody says."""
        name = name_of(e)
        if e.op == "call_instruction":
            return Instruction.get(name)
        return _BY_LLVM_NAME.get(name)

    @staticmethod
    def list() -> tuple[str, ...]:
        """The names of all instructions."""
        return tuple(INSTRUCTIONS)

    @cached_property
    def meaning(self) -> nodes.PrimFunc:
        """What it computes, as a program: operands, then the result."""
        if isinstance(self.given, nodes.PrimFunc):
            return self.given
        made = parse(self.given, f"<{self.name}>")
        _check_meaning(self.name, made)
        return made

    @property
    def operands(self) -> tuple[nodes.Buffer | Var, ...]:
        """What it reads; a scalar parameter is an immediate."""
        return self.meaning.params[:-1]

    @property
    def result(self) -> nodes.Buffer:
        """What it writes."""
        return self.meaning.buffers[-1]

    @property
    def type(self) -> str:
        """The type of its value."""
        return _value_type(self.result)

    def tile(self, rows: int = 0, vectors: int = 1, swapped: bool = False) -> tuple[str, str]:
        """The texts of a `TensorIntrin`, description and implementation, of a tile it adds to.

        rows, vectors, swapped  see `MultiplyAdd.tile`
        """
        if self.update is None:
            raise ScheduleError(f"{self.name} is no sum of products: its tiles are written by hand")
        return self.update.tile(self.name, rows, vectors, swapped)

    def tile_name(self, rows: int = 0, vectors: int = 1, swapped: bool = False) -> str:
        """The name under which `TensorIntrin.get` finds such a tile."""
        size = f"{rows}x{vectors}" if rows else _ROW
        return f"{self.name}.{size}{_SWAPPED if swapped else ''}"

    def __call__(self, *args: ExprLike) -> Call:
        """A call; operands of another type are an error."""
        pairs = zip(args, self.operands, strict=False)
        given = [convert(a, p.type if isinstance(p, Var) else None) for a, p in pairs]
        given += [convert(a) for a in args[len(given) :]]
        wrong = self.complaint(self.type, given)
        if wrong is not None:
            raise VerifyError(wrong)
        return Call(self.type, "call_instruction", (StringImm(self.name), *given))

    def complaint(self, kind: str, args: Sequence[Expr]) -> str | None:
        """What is wrong with a call that has this type and these operands; None if nothing is."""
        expected = self.operands
        if len(args) != len(expected):
            return f"{self.name} takes {len(expected)} operands, {len(args)} given"
        for p, a in zip(expected, args, strict=True):
            if isinstance(p, Var):
                if not isinstance(a, IntImm):
                    return f"{self.name}: {p.name} is an immediate: an integer constant"
            elif a.dtype != _value_type(p):
                return f"{self.name}: {p.name} is of type {a.dtype}, expected {_value_type(p)}"
        if kind != self.type:
            return f"{self.name} gives {self.type}, not {kind}"
        return None

    def __repr__(self) -> str:
        return f"Instruction({self.name!r})"


class TensorIntrin:
    """A tile and a program that computes the same.

    name  e.g. "x86.avx512.vnni_dot_16x4"
    desc  what it computes, in blocks, as the scheduler sees it
    impl  the program that takes the tile's place; its buffers correspond to desc's by position
    """

    def __init__(self, name: str, desc: nodes.PrimFunc | str, impl: nodes.PrimFunc | str) -> None:
        """Keep the pair; texts are parsed when they are first asked for."""
        self.name, self.given = name, (desc, impl)
        if isinstance(desc, nodes.PrimFunc) and isinstance(impl, nodes.PrimFunc):
            _check_pair(name, desc, impl)

    @staticmethod
    def register(
        name: str, desc: nodes.PrimFunc | str, impl: nodes.PrimFunc | str, override: bool = False
    ) -> TensorIntrin:
        """Make a pair known under a name, for `Schedule.tensorize`.

        override  whether it may replace one of the same name
        """
        return _enter(INTRINSICS, "tensor intrinsic", TensorIntrin(name, desc, impl), override)

    @overload
    @staticmethod
    def get(name: str, allow_missing: Literal[False] = False) -> TensorIntrin: ...

    @overload
    @staticmethod
    def get(name: str, allow_missing: bool) -> TensorIntrin | None: ...

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The pair of a name; tiles of instructions are made when they are first asked for.

        allow_missing  None instead of an error where there is none
        """
        if name not in INTRINSICS:
            _enter_tile(name)
        if name not in INTRINSICS and not allow_missing:
            raise ScheduleError(
                f"there is no tensor intrinsic {name!r}; nearest: {TensorIntrin.nearest(name)}"
            )
        return INTRINSICS.get(name)

    @staticmethod
    def of_pair(desc: nodes.PrimFunc, impl: nodes.PrimFunc) -> TensorIntrin:
        """The pair, if it is registered; else registered now, under the implementation's name (or
        that name and a number, if it belongs to another pair)."""
        for known in INTRINSICS.values():
            if known.given[0] is desc and known.given[1] is impl:
                return known
        return TensorIntrin.register(unique_name(impl.name, set(INTRINSICS)), desc, impl)

    @staticmethod
    def list() -> tuple[str, ...]:
        """The names of all tensor intrinsics."""
        return tuple(INTRINSICS)

    @staticmethod
    def nearest(name: str) -> str:
        """The names most like one, or all."""
        return ", ".join(closest(name, INTRINSICS) or INTRINSICS) or "none registered"

    @cached_property
    def _pair(self) -> tuple[nodes.PrimFunc, nodes.PrimFunc]:
        desc, impl = (parse(f, f"<{self.name}>") if isinstance(f, str) else f for f in self.given)
        _check_pair(self.name, desc, impl)
        return desc, impl

    @property
    def desc(self) -> nodes.PrimFunc:
        """What it computes."""
        return self._pair[0]

    @property
    def impl(self) -> nodes.PrimFunc:
        """The program that takes the tile's place."""
        return self._pair[1]

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions that the implementation uses, as far as they are known."""
        found = [Instruction.called_by(c) for c in named_calls(self.impl)]
        return tuple(dict.fromkeys(i for i in found if i is not None))

    @property
    def features(self) -> tuple[str, ...]:
        """The processor features that the implementation needs."""
        return tuple(dict.fromkeys(f for i in self.instructions for f in i.features))

    def __iter__(self) -> Iterator[nodes.PrimFunc]:
        """Description and implementation, so that it unpacks as a pair."""
        return iter(self._pair)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name!r})"


_ROW, _SWAPPED = "row", "_swapped"
"""The last part of the name of a tile that is one instruction, and the end of those whose factors
change places."""


def _enter_tile(name: str) -> None:
    """Make a tile of an instruction known, where the name is that of one."""
    made, _, form = name.rpartition(".")
    found, size = INSTRUCTIONS.get(made), form.removesuffix(_SWAPPED)
    if found is None or found.update is None:
        return
    swapped = size != form
    if size == _ROW:
        TensorIntrin.register(name, *found.tile(swapped=swapped))
    elif match := re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", size):
        rows, vectors = map(int, match.groups())
        TensorIntrin.register(name, *found.tile(rows, vectors, swapped))


_Made = TypeVar("_Made", Instruction, TensorIntrin)


def _enter(known: dict[str, _Made], what: str, made: _Made, override: bool) -> _Made:
    """Make something known under its name; `override`: even if that is taken."""
    if made.name in known and not override:
        raise VerifyError(
            f"the {what} {made.name!r} is registered already; override=True replaces it"
        )
    known[made.name] = made
    return made


# --------------------------------------------------------------------------------------- checks


def _value_type(b: nodes.Buffer) -> str:
    shape = b.fixed_shape()
    assert shape is not None
    return dt.vector(b.type, shape[0])


def _check_meaning(name: str, meaning: nodes.PrimFunc) -> None:
    """Its parameters are vectors of lanes, immediates, and last the result."""
    wrong = ""
    for p in meaning.params:
        if isinstance(p, nodes.Buffer):
            shape = p.fixed_shape()
            if shape is None or len(shape) != 1 or p.strides:
                wrong = f"{p.name} is no vector: a dense buffer of one dimension of known extent"
        elif not dt.is_int(p.type):
            wrong = f"{p.name} is no immediate: an integer"
    if not meaning.params or not isinstance(meaning.params[-1], nodes.Buffer):
        wrong = "the last parameter is not a buffer, the result"
    written = {s.buffer: s for s in nodes.walk(meaning.body) if isinstance(s, nodes.BufferStore)}
    own = {s.buffer for s in nodes.walk(meaning.body) if isinstance(s, nodes.Allocate)}
    for b in [b for b in written if b is not meaning.params[-1] and b not in own]:
        wrong = wrong or f"it writes {b.name}, which is no result"
    if any(isinstance(s, nodes.Block | nodes.BlockRealize) for s in nodes.walk(meaning.body)):
        wrong = "it has blocks; a meaning is plain loops"
    if wrong:
        raise VerifyError(f"the meaning of the instruction {name}: {wrong}")


def _check_pair(name: str, desc: nodes.PrimFunc, impl: nodes.PrimFunc) -> None:
    """Description and implementation work on the same buffers."""
    a, b = desc.params, impl.params
    wrong = "" if len(a) == len(b) else f"{len(a)} parameters described, {len(b)} implemented"
    for p, q in zip(a, b, strict=False):
        if not isinstance(p, nodes.Buffer) or not isinstance(q, nodes.Buffer):
            wrong = wrong or f"{p.name} is a scalar; a tile has buffers"
        elif p.type != q.type or p.fixed_shape() != q.fixed_shape() or p.fixed_shape() is None:
            shown = [f"{x.type}{list(x.fixed_shape() or '?')}" for x in (p, q)]
            wrong = wrong or f"{p.name} is {shown[0]} in the description, {shown[1]} as implemented"
    if wrong:
        raise VerifyError(f"the tensor intrinsic {name!r}: {wrong}")
