"""Runs the default schedule of a program on numpy arrays, whatever the layout of its buffers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from smelt.artifact.constants import preparations
from smelt.codegen.llvm import link_in_process
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.ir.expr import INDEX, Expr, IntImm, Var, const
from smelt.ir.walk import free_vars, substitute
from smelt.pipeline import lower_program as lower
from smelt.rules.cpu import schedule
from smelt.target import Machine, Target, machine_of
from smelt.te import Tensor, create_prim_func
from smelt.tir.interpret import interpret
from smelt.tir.nodes import Block, Buffer, PrimFunc, walk
from smelt.tir.printer import script
from smelt.tir.rewrite import replace_buffers
from smelt.tir.schedule import Schedule, Trace
from tests.codegen_llvm.build import BACKWARDS, Host, compiler

Array = np.ndarray[Any, Any]
Order = Sequence[int]

ONE = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver5"), cores=1)
TWO = ONE.replace(cores=2)
NARROW = machine_of(Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3"), cores=2)
FAR = ONE.replace(caches=tuple([c.replace(size=c.size // 64) for c in ONE.caches]))
"""Little stays near: what tiny programs read comes from afar, too."""
NHWC = (0, 2, 3, 1)
NCHW = (0, 1, 2, 3)


def laid_out(func: PrimFunc, orders: Mapping[str, Order], between: Order = ()) -> PrimFunc:
    """A program whose buffers have other layouts: `orders` lists dimensions, outermost first.

    between  the layout of the other intermediate buffers of that rank
    """
    new: dict[Buffer, Buffer] = {}
    assert isinstance(func.body.block, Block)  # type: ignore[attr-defined]
    own = func.body.block.alloc_buffers  # type: ignore[attr-defined]
    for b in (*func.buffers, *own):
        if b.name in orders:
            new[b] = _strided(b, orders[b.name])
        elif between and b in own and b.rank == len(between):
            new[b] = _strided(b, between)
    params = tuple([new.get(p, p) if isinstance(p, Buffer) else p for p in func.params])
    return func.replace(params=params, body=replace_buffers(func.body, new))


def _strided(b: Buffer, order: Order) -> Buffer:
    strides: list[Expr] = [const(1, INDEX)] * b.rank
    step: Expr = const(1, INDEX)
    for d in reversed(order):
        strides[d] = step
        step = step * b.shape[d]
    return b.replace(strides=tuple(strides))


def number(e: Expr, sizes: dict[str, int]) -> int:
    """An extent with the symbolic sizes known."""
    if isinstance(e, IntImm):
        return e.value
    known: dict[Var, Expr] = {v: const(sizes[v.name], INDEX) for v in free_vars(e)}
    found = substitute(e, known)
    assert isinstance(found, IntImm)
    return found.value


class Memory:
    """A buffer's memory with guard bytes behind it, and the logical view of it."""

    def __init__(self, b: Buffer, sizes: dict[str, int], align: bool) -> None:
        shape = [number(e, sizes) for e in b.shape]
        strides = [number(e, sizes) for e in b.strides]
        if not strides:
            strides = [int(np.prod(shape[d + 1 :])) for d in range(len(shape))]
        count = 1 + sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)])
        dtype = dt.to_numpy(b.type)
        size = dtype.itemsize
        self.raw = np.full(count * size + 256, 0x55, np.uint8)
        start = -self.raw.ctypes.data % 64 + (0 if align else size)
        self.flat = self.raw[start : start + count * size].view(dtype)
        self.end = start + count * size
        self.view = np.lib.stride_tricks.as_strided(self.flat, shape, [s * size for s in strides])

    def check(self) -> None:
        assert (self.raw[self.end :] == 0x55).all(), "written behind the end"


def written(func: PrimFunc) -> list[Buffer]:
    """The parameters that a program writes, in order."""
    found = {w.buffer for s in walk(func.body) if isinstance(s, Block) for w in s.writes}
    return [b for b in func.buffers if b in found]


def run(
    func: PrimFunc, *inputs: Array, machine: Machine = TWO, sizes: dict[str, int] | None = None,
    constants: frozenset[str] = frozenset(), align: bool = True,
) -> list[Array]:  # fmt: skip
    """The results of a program under its default schedule, whose trace is replayed on the way."""
    sch = schedule(func, machine, constants)
    _replays(func, sch)
    return run_scheduled(func, sch, *inputs, sizes=sizes, align=align)


def run_scheduled(
    func: PrimFunc, sch: Schedule, *inputs: Array, sizes: dict[str, int] | None = None,
    align: bool = True,
) -> list[Array]:  # fmt: skip
    """The results of a program under a schedule; what it wants done with its constants is done."""
    sizes = sizes or {}
    flat = lower(sch.func)
    held, spare = memories(func, sch, flat, inputs, sizes, align)
    args: list[Any] = [ctypes.byref(Host(None, BACKWARDS, None, None))]
    for p in sch.func.params:
        if isinstance(p, Buffer):
            args.append(ctypes.c_void_p(held[p.name].flat.ctypes.data))
        else:
            args.append(ctypes.c_int64(sizes[p.name]))
    args += [ctypes.c_void_p(m.flat.ctypes.data) for m in spare]
    _call(flat, args)
    for m in (*held.values(), *spare):
        m.check()
    return [held[b.name].view.copy() for b in written(func)]


def memories(
    func: PrimFunc, sch: Schedule, flat: PrimFunc, inputs: Sequence[Array], sizes: dict[str, int],
    align: bool = True,
) -> tuple[dict[str, Memory], list[Memory]]:  # fmt: skip
    """Memory for a program under a schedule: of its buffers by name, and of its scratch buffers."""
    outputs = {b.name for b in written(func)}
    given = iter(handed(sch, inputs))
    held: dict[str, Memory] = {}
    for q in sch.func.params:
        if isinstance(q, Buffer):
            held[q.name] = Memory(q, sizes, align)
            if q.name not in outputs:
                held[q.name].view[...] = next(given)
    behind = flat.params[len(sch.func.params) :]
    return held, [Memory(p, sizes, True) for p in behind if isinstance(p, Buffer)]


def interpreted(sch: Schedule, *inputs: Array, shape: tuple[int, ...]) -> Array:
    """The result of a program under a schedule as the interpreter says it: its last parameter, of
    dense buffers."""
    result = np.zeros(shape, dt.to_numpy(sch.func.buffers[-1].type))
    interpret(sch.func, *handed(sch, inputs), result)
    return result


def handed(sch: Schedule, inputs: Sequence[Array]) -> list[Array]:
    """What a program under a schedule is handed for its inputs, and for what is made of them."""
    made = {w.makes[0]: prepared(w.func, inputs[w.reads[0]]) for w in preparations(sch)}
    return [v for _, v in sorted({**dict(enumerate(inputs)), **made}.items())]


def prepared(program: PrimFunc, x: Array) -> Array:
    """A constant as a program over constants makes it."""
    result = program.buffers[-1]
    made = np.zeros([number(e, {}) for e in result.shape], dt.to_numpy(result.type))
    interpret(program, x, made)
    return made


def _replays(func: PrimFunc, sch: Schedule) -> None:
    again = Schedule(func)
    Trace.from_text(str(sch.trace)).apply(again)
    assert script(again.func) == script(sch.func)


def _call(flat: PrimFunc, args: list[Any]) -> None:
    code = compiler().object(emit_module([flat]), flat.name)
    addresses, keep = link_in_process([code], [flat.name])
    entry = ctypes.CFUNCTYPE(ctypes.c_int32)(addresses[flat.name])
    entry.argtypes = None  # type: ignore[assignment]
    assert int(entry(*args)) == 0
    del keep


def made(*tensors: Tensor) -> PrimFunc:
    """The program of some tensors, parameters first."""
    return create_prim_func(list(tensors), name="kernel")


def data(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    """Random values of a type."""
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dt.is_float(dtype):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-9, 10, shape).astype(dtype)


def close(found: Array, expected: Array, tolerance: float = 1e-5) -> None:
    """Assert that two arrays agree, relative to the largest value."""
    assert found.shape == expected.shape
    if found.dtype.kind in "biu":
        np.testing.assert_array_equal(found, expected)
        return
    scale = float(np.abs(expected).max()) if expected.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(scale, 1e-30))


def tasks_an_image(text: str) -> int:
    """The iterations of the parallel loops together, for each of a symbolic n."""
    found = re.findall(r"T\.parallel\((\w+)(?:, annotations=.*)?\)", text)
    assert found.count("n") == 1, text
    return prod([int(e) for e in found if e != "n"])
