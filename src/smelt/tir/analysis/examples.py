"""Arguments to try a program on: random numbers, and integers that are good as indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import Expr, Var
from smelt.tir.interpret import InterpretError, interpret
from smelt.tir.interpret_expr import known_number
from smelt.tir.nodes import Buffer, For, IfThenElse, LetStmt, PrimFunc, Stmt, walk
from smelt.tir.rewrite import loads, own_loads
from smelt.tir.script_ops import shape_vars

SIZE = 5
"""The value of symbolic sizes that nobody chooses."""
Array = np.ndarray[Any, Any]
Ranges = Mapping[Buffer, tuple[int, int]]

_PLAIN = ((-8, 9), (1, 5), (0, 2), (0, 1))
"""Ranges of integers that are tried, from many values to few."""
_INDICES = ((-4, 4), (0, 16), (0, 4), (0, 2))
"""Ranges that are tried for integers that serve as indices."""


def example_arguments(
    func: PrimFunc,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[Buffer, tuple[int, ...]] | None = None,
    *,
    seed: int = 0,
    ranges: Ranges | None = None,
) -> list[Any]:
    """Random arrays and numbers for a program, in the order of its parameters.

    sizes   of symbolic sizes by name; SIZE for others
    shapes  of parameters whose shape is to be another one
    ranges  the integers that a buffer holds, as (first, end); by default those for which the
            program does not leave its arrays, found by trying
    """
    shapes = shapes or {}
    fixed = {p: _shape(p, func, sizes) for p in func.buffers if p not in shapes} | dict(shapes)
    if ranges is None:
        ranges = integer_ranges(func, sizes, shapes, seed=seed)
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Buffer):
            out.append(random_array(rng, p.type, fixed[p], ranges.get(p, _PLAIN[0])))
        elif dt.is_float(p.type):
            out.append(float(rng.integers(-16, 17)) / 8)
        else:
            out.append((sizes or {}).get(p.name, SIZE))
    return out


def random_array(
    rng: np.random.Generator, dtype: str, shape: Sequence[int], span: tuple[int, int] = _PLAIN[0]
) -> Array:
    """Small numbers of few digits, so that sums are exact in any order; integers of a range."""
    if dtype == "handle":
        raise TypeMismatch("there are no example values of type handle")
    if dt.is_float(dtype):
        numbers: Any = rng.integers(-16, 17, shape) / 8
    elif dtype == "bool":
        numbers = rng.integers(0, 2, shape)
    else:
        first = span[0] if dt.is_signed(dtype) else max(span[0], 0)
        numbers = rng.integers(first, max(span[1], first + 1), shape)
    return np.asarray(numbers).astype(dt.to_numpy(dtype))


def integer_ranges(
    func: PrimFunc,
    sizes: Mapping[str, int] | None = None,
    shapes: Mapping[Buffer, tuple[int, ...]] | None = None,
    *,
    seed: int = 0,
) -> dict[Buffer, tuple[int, int]]:
    """For every parameter that holds integers a range with which the program goes well.

    Those that decide what is touched are tried one after another, from zero on: with the ends of a
    range everywhere, and with random numbers of it. Where nothing goes well all stay at zero.
    """

    def goes_well(ranges: Ranges) -> bool:
        lowest = {b: (first, first + 1) for b, (first, _) in ranges.items()}
        highest = {b: (end - 1, end) for b, (_, end) in ranges.items()}
        for chosen in (ranges, lowest, highest):
            arguments = example_arguments(func, sizes, shapes, seed=seed, ranges=chosen)
            try:
                with np.errstate(all="ignore"):
                    interpret(func, *arguments)
            except InterpretError:
                return False
        return True

    deciding = _deciding(func)
    others = [b for b in func.buffers if dt.is_int(b.type) and b not in deciding]
    found = dict.fromkeys([*deciding, *others], (0, 1))
    for span in _PLAIN if others else ():
        if goes_well({**found, **dict.fromkeys(others, span)}):
            found.update(dict.fromkeys(others, span))
            break
    for b in deciding:
        for span in _INDICES:
            if (span[0] >= 0 or dt.is_signed(b.type)) and goes_well({**found, b: span}):
                found[b] = span
                break
    return found


def size_values(func: PrimFunc, sizes: Mapping[str, int]) -> dict[Var, int]:
    """The symbolic sizes and scalars of a program as numbers; SIZE where nobody chooses one."""
    free = [p for p in func.params if isinstance(p, Var)] + shape_vars(func.params)
    return {v: sizes.get(v.name, SIZE) for v in free}


def _shape(b: Buffer, func: PrimFunc, sizes: Mapping[str, int] | None) -> tuple[int, ...]:
    """A parameter's shape for given sizes."""
    known = size_values(func, sizes or {})
    shape = [n for e in b.shape if (n := known_number(e, known)) is not None]
    if len(shape) < b.rank:
        raise TypeMismatch(f"{func.name}: the shape of {b.name} does not follow from the sizes")
    return tuple(shape)


def _deciding(func: PrimFunc) -> list[Buffer]:
    """Integer parameters that indices, bounds of loops or conditions depend on, directly or not.

    What a local variable or an intermediate buffer holds is not followed: all integers do then.
    """
    integers = [b for b in func.buffers if dt.is_int(b.type)]
    used: set[Buffer] = set()
    for s in walk(func.body) if integers else ():
        for e in _choices(s):
            used.update([load.buffer for load in loads(e)])
    indirect = any(not b.type.startswith("float") and b not in func.params for b in used)
    return [b for b in integers if b in used or indirect]


def _choices(s: Stmt) -> list[Expr]:
    """The expressions of a statement that decide which elements are touched."""
    found: list[Expr] = []
    if isinstance(s, For):
        found += [s.min, s.extent]
    elif isinstance(s, IfThenElse):
        found.append(s.condition)
    elif isinstance(s, LetStmt):
        found.append(s.value)
    for load in own_loads(s):
        found += load.indices
    return [*found, *getattr(s, "indices", ())]
