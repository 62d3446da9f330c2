"""Before and after: the examples in the docstrings of passes, read and run."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from smelt.codegen.llvm import resolve
from smelt.ir import dtype as dt
from smelt.ir.expr import Expr, IntImm, Var
from smelt.target import Target, machine_of
from smelt.tir import transform
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Buffer, PrimFunc, Stmt, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.script_ops import expr_nodes

Array = np.ndarray[Any, Any]

MACHINE = machine_of(resolve(Target("llvm -mcpu=x86-64-v3")), 2)


class Example(NamedTuple):
    """What a docstring shows: the pass as it is made, the program before and after."""

    name: str
    made: str
    before: str
    after: str


def constructors() -> dict[str, Callable[..., Any]]:
    """What makes passes, by name."""
    return {
        name: getattr(transform, name)
        for name in transform.__all__
        if name[0].isupper() and inspect.isfunction(getattr(transform, name))
    }


def examples() -> Iterator[Example]:
    """Those of all passes whose docstring has them."""
    for name, fn in constructors().items():
        text = inspect.cleandoc(fn.__doc__ or "")
        if "\nBefore\n" not in text:
            continue
        head, rest = text.split("\nBefore\n")
        before, after = rest.split("\nAfter\n")
        lines = [x.split(maxsplit=1)[1] for x in head.splitlines() if x.startswith("Pass ")]
        yield Example(name, lines[0] if lines else f"{name}()", before, after)


def made(text: str) -> Any:
    """A pass from the Python text that makes it."""
    return eval(text, {n: getattr(transform, n) for n in transform.__all__})


def program(text: str) -> PrimFunc:
    """A program from its text, without the decorator."""
    return parse("@T.prim_func\n" + textwrap.dedent(text).strip() + "\n")


def arguments(func: PrimFunc, seed: int = 0, size: int = 5) -> list[Any]:
    """Small numbers for the parameters; scalars and unknown sizes are `size`."""
    rng = np.random.default_rng(seed)
    out: list[Any] = []
    for p in func.params:
        if isinstance(p, Var):
            out.append(size)
            continue
        shape = [e.value if isinstance(e, IntImm) else size for e in p.shape]
        floats = dt.is_float(p.type)
        numbers: Any = rng.integers(-8, 9, shape) / 4 if floats else rng.integers(0, 5, shape)
        out.append(np.asarray(numbers).astype(dt.to_numpy(p.type)))
    return out


def result(func: PrimFunc, given: list[Any]) -> list[Array]:
    """The arrays after a run. A pass may have changed the type or the rank of a parameter."""
    mine = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    ready: list[Any] = []
    for p, a in zip(func.params, mine, strict=True):
        if isinstance(p, Buffer):
            memory = a.view(dt.to_numpy(p.type))
            ready.append(memory.reshape(-1) if p.rank == 1 else memory)
        else:
            ready.append(a)
    with np.errstate(all="ignore"):
        interpret(func, *ready)
    return [a for a in mine if isinstance(a, np.ndarray)]


def same(new: PrimFunc, old: PrimFunc, given: list[Any], close: bool = False) -> None:
    """Assert that a program computes what another one does, bit by bit but for NaN's sign.

    close  products and sums may be rounded together
    """
    for a, b in zip(result(new, given), result(old, given), strict=True):
        text = f"{script(old)}\n->\n{script(new)}"
        if not dt.is_float(dt.from_numpy(b.dtype)):
            np.testing.assert_array_equal(a, b, err_msg=text)
            continue
        tolerance = 1e-5 if close else 0.0
        np.testing.assert_allclose(
            a.astype("float64"), b.astype("float64"), tolerance, tolerance, err_msg=text
        )


def kinds(func: PrimFunc) -> set[str]:
    """The kinds of loops that are left."""
    return {str(getattr(s, "kind", "")) for s in walk(func.body)} - {""}


def has(func: PrimFunc, kind: type[Stmt]) -> bool:
    """Whether a statement of a class is left."""
    return any(isinstance(s, kind) for s in walk(func.body))


def expressions(func: PrimFunc) -> Iterator[Expr]:
    """All expressions in the statements, with their parts, each once a statement."""
    for s in walk(func.body):
        for e in s.children():
            if isinstance(e, Expr):
                yield from expr_nodes(e)
