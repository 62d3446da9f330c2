"""Tensor programs of a module that a graph calls by name (call_tir)."""

from __future__ import annotations

from smelt.arith import Analyzer
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, IntImm, Var, const
from smelt.ir.types import TensorType
from smelt.ir.walk import substitute
from smelt.relax.nodes import Call, Function, tensor_types
from smelt.relax.nodes import Var as GraphVar
from smelt.relax.shapes import sizes_among
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.rewrite import replace_buffers, substitute_stmt


def call_tir_group(call: Call) -> Function:
    """A group that has the types of a call's operands and results, and the program's name."""
    params = tuple([GraphVar(f"p{i}", a.type) for i, a in enumerate(call.args) if a is not None])
    body = call.replace(args=params)
    return Function(params, body, {"primitive": True, "name": call.callee})


def program_for(func: PrimFunc, call: Call) -> PrimFunc:
    """A program for the sizes of a call: its own symbolic sizes become the graph's.

    Parameters are the operands' buffers, the results', then the sizes that are left.
    """
    results = tensor_types(call.type)
    types = [*[a.type for a in call.args if a is not None], *results]
    where = f"call_tir of {call.callee}"
    if len(types) != len(func.buffers):
        raise CompileError(
            f"{where}: {len(types) - len(results)} operands and {len(results)} results; the "
            f"program has {len(func.buffers)} buffers"
        )
    sizes: dict[Var, Expr] = {}
    for n, (b, t) in enumerate(zip(func.buffers, types, strict=True)):
        assert isinstance(t, TensorType)
        if b.dtype != t.dtype or len(b.shape) != len(t.shape):
            raise CompileError(
                f"{where}: buffer {b.name} is {_text(b.shape, b.dtype)}, value {n} of the call "
                f"{_text(t.shape, t.dtype)}"
            )
        for have, want in zip(b.shape, t.shape, strict=True):
            if isinstance(have, Var):
                sizes.setdefault(have, want)
    analyzer = Analyzer()
    for b, t in zip(func.buffers, types, strict=True):
        assert isinstance(t, TensorType)
        for have, want in zip(b.shape, t.shape, strict=True):
            if analyzer.simplify(substitute(have, sizes) - want) is not const(0):
                raise CompileError(
                    f"{where}: buffer {b.name} is {_text(b.shape, b.dtype)}, the value of the call "
                    f"{_text(t.shape, t.dtype)}"
                )
    return _bound(func, sizes) if sizes else func


def _bound(func: PrimFunc, sizes: dict[Var, Expr]) -> PrimFunc:
    """A program with sizes in place of its own."""
    body = substitute_stmt(func.body, sizes)
    changes = {
        b: b.replace(shape=tuple([substitute(e, sizes) for e in b.shape])) for b in func.buffers
    }
    left = sizes_among([e for b in changes.values() for e in b.shape])
    params: list[Buffer | Var] = [changes[b] for b in func.buffers]
    return func.replace(params=(*params, *left), body=replace_buffers(body, changes))


def _text(shape: tuple[Expr, ...], dtype: str) -> str:
    inside = ", ".join([str(e.value) if isinstance(e, IntImm) else str(e) for e in shape])
    return f"{dtype}[{inside}]"
