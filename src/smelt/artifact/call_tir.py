"""Tensor programs of a module that a graph calls by name (call_tir)."""

from __future__ import annotations

from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, Var
from smelt.ir.types import TensorType
from smelt.ir.walk import substitute
from smelt.relax.nodes import INPLACE, Call, Function, tensor_types
from smelt.relax.nodes import Var as GraphVar
from smelt.relax.shapes import (
    BaseCheckResult,
    bind_sizes,
    show_type,
    sizes_among,
    struct_info_base_check,
)
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
    results, written = tensor_types(call.type), call.attrs.get(INPLACE)
    if written:
        results = [t for t, i in zip(results, written, strict=True) if i < 0]
    types = [*[a.type for a in call.args if a is not None], *results]
    where = f"call_tir of {call.callee}"
    if len(types) != len(func.buffers):
        raise CompileError(
            f"{where}: {len(types) - len(results)} operands and {len(results)} results; the "
            f"program has {len(func.buffers)} buffers"
        )
    sizes: dict[Var, Expr] = {}
    own = [TensorType(b.shape, b.dtype) for b in func.buffers]
    for want, have in zip(own, types, strict=True):
        bind_sizes(want, have, sizes)
    for n, (want, have) in enumerate(zip(own, types, strict=True)):
        if struct_info_base_check(want, have, sizes) is not BaseCheckResult.PASS:
            raise CompileError(
                f"{where}: buffer {func.buffers[n].name} is {show_type(want)}, value {n} of the "
                f"call {show_type(have)}"
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
