"""C functions that tensor programs call: `T.call_extern("int32", name, ...)`.

    ExternFunction.register("scale_row", meaning, c='''
    int32_t scale_row(float *row, float by, int64_t n) {
        for (int64_t i = 0; i < n; i++) row[i] *= by;
        return 0;
    }''')

A function is declared with its meaning, a program over the same parameters: the interpreter runs
that, and operands are checked against it. Buffers are given as the address of their first element,
`T.address_of(A[i, 0])`; scalars by value. The function returns 0, or the status that ends the
program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from smelt.arith import Analyzer
from smelt.ir import dtype as dt
from smelt.ir.build import is_const
from smelt.ir.errors import VerifyError
from smelt.ir.expr import Expr, StringImm, Var, const
from smelt.ir.walk import substitute
from smelt.runtime.errors import closest

from . import nodes
from .parser_values import row_major
from .rewrite import loads
from .script_ops import extern_call, place_of

EXTERNS: dict[str, ExternFunction] = {}
"""External functions by name."""

_INTEGERS = [f"{sign}int{n}" for n in (8, 16, 32, 64) for sign in ("", "u")]
_TYPES = (*_INTEGERS, "float32", "float64")
"""What such functions work on."""


class Given(NamedTuple):
    """What a function is given for one of its buffers.

    place    the load of the element whose address it gets
    extents  how far the function's own dimensions reach along those of the place's buffer; None
             where they do not follow them
    """

    place: nodes.BufferLoad
    extents: tuple[Expr, ...] | None
    reads: bool
    writes: bool


@dataclass(eq=False, repr=False)
class ExternFunction:
    """A C function, and what it means.

    name     its name in C
    meaning  what it does, as a program over its parameters
    c        C source that defines it
    flags    further arguments of the C compiler: ("-O3", "-march=native")
    """

    name: str
    meaning: nodes.PrimFunc
    c: str
    flags: tuple[str, ...] = ()

    @staticmethod
    def register(
        name: str, meaning: nodes.PrimFunc, *, c: str, flags: Sequence[str] = (),
        override: bool = False,
    ) -> ExternFunction:  # fmt: skip
        """Make a function known under its name. VerifyError for what has no form in C.

        override  whether it may replace one of the same name
        """
        if not (name.isidentifier() and name.isascii()):
            raise VerifyError(f"{name!r} is no name of a C function")
        if name in EXTERNS and not override:
            raise VerifyError(
                f"the external function {name!r} is registered already; override=True replaces it"
            )
        for p in meaning.params:
            if p.type not in _TYPES:
                raise VerifyError(f"the external function {name}: {p.name} is of type {p.type}\n"
                                  f"  legal: {', '.join(_TYPES)}")  # fmt: skip
        made = EXTERNS[name] = ExternFunction(name, meaning, c, tuple(flags))
        return made

    @staticmethod
    def get(name: str) -> ExternFunction:
        """The function of a name."""
        if name not in EXTERNS:
            near = ", ".join(closest(name, EXTERNS) or EXTERNS) or "none is registered"
            raise VerifyError(
                f"there is no external function {name!r}; nearest: {near}\n"
                "  legal: one that ExternFunction.register(name, meaning, c=...) has declared"
            )
        return EXTERNS[name]

    @staticmethod
    def called_by(s: nodes.Stmt) -> ExternFunction | None:
        """The function that a statement calls, if it is such a call."""
        call = extern_call(s)
        if call is None:
            return None
        name = call.args[0] if call.args else None
        return ExternFunction.get(name.value if isinstance(name, StringImm) else "")

    @cached_property
    def _touched(self) -> tuple[set[nodes.Buffer], set[nodes.Buffer]]:
        """The buffers that it reads, and those that it writes."""
        stores = [s for s in nodes.walk(self.meaning.body) if isinstance(s, nodes.BufferStore)]
        return {x.buffer for x in loads(self.meaning.body)}, {s.buffer for s in stores}

    @staticmethod
    def used_in(func: nodes.PrimFunc) -> tuple[ExternFunction, ...]:
        """The functions that a program calls, each once."""
        found = [ExternFunction.called_by(s) for s in nodes.walk(func.body)]
        return tuple(dict.fromkeys(f for f in found if f is not None))

    def given(self, args: Sequence[Expr]) -> Iterator[Given]:
        """What a call gives for each buffer. VerifyError for operands that do not fit."""
        params = self.meaning.params
        if len(args) != len(params):
            raise VerifyError(f"{self.name} takes {len(params)} operands, {len(args)} given")
        values = {p: a for p, a in zip(params, args, strict=True) if isinstance(p, Var)}
        for v, a in values.items():
            if a.dtype != v.type:
                raise VerifyError(f"{self.name}: {v.name} is of type {a.dtype}, expected {v.type}")
        for p, a in zip(params, args, strict=True):
            if isinstance(p, Var):
                continue
            place = place_of(a)
            if place is None or dt.lanes(place.dtype) > 1:
                raise VerifyError(
                    f"{self.name}: {p.name} is no address\n  legal: T.address_of(A[i, j])"
                )
            if place.buffer.type != p.type:
                raise VerifyError(
                    f"{self.name}: {p.name} holds {place.buffer.type}, expected {p.type}"
                )
            reads, writes = self._touched
            yield Given(place, self._extents(p, place.buffer, values), p in reads, p in writes)

    def _extents(
        self, p: nodes.Buffer, given: nodes.Buffer, values: dict[Var, Expr]
    ) -> tuple[Expr, ...] | None:
        """How far a parameter reaches along the dimensions of a buffer: those of equal strides."""
        simplify = Analyzer().simplify
        steps = [simplify(s) for s in given.strides or row_major(given.shape)]
        out: list[Expr] = [const(1)] * given.rank
        followed = True
        for n, own in zip(p.shape, p.strides or row_major(p.shape), strict=True):
            if is_const(n, 1):
                continue
            step = simplify(substitute(own, values))
            same = [d for d, s in enumerate(steps) if s is step and not is_const(given.shape[d], 1)]
            if not same and given.rank > 1:
                legal = " or ".join([str(s) for s in steps])
                raise VerifyError(
                    f"{self.name}: {p.name} has the stride {step}; it is given an element "
                    f"of {given.name}\n  legal: {legal}, the strides of {given.name}"
                )
            followed = followed and len(same) == 1
            for d in same[:1]:
                out[d] = substitute(n, values)
        return tuple(out) if followed else None
