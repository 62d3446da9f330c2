"""Passes on shapes: what becomes known at compile time, and other batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.ir.walk import fixed_point
from smelt.relax.graph import transform
from smelt.relax.nodes import Function, RelaxExpr, Var
from smelt.relax.transform.expand_ops import to_static
from smelt.relax.transform.fold_constants import fold_calls
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.match import dims
from smelt.relax.transform.rewriting import map_functions, transform_functions
from smelt.runtime.errors import unknown
from smelt.transform import Pass

from ..dialect import SIZED, const, is_call
from .passes import graph_pass

ROUNDS = 32


def DynamicToStatic() -> Pass:
    """Operators whose shapes are operands (`dyn.*`) take them as attributes, where they are known.

    shape_of of a tensor of known shape is computed; so is what follows from it.
    """
    return graph_pass("DynamicToStatic", lambda mod: fixed_point(_more_static, mod, ROUNDS))


def _more_static(mod: IRModule) -> IRModule:
    return infer_types(transform_functions(fold_calls(infer_types(mod)), _known))


def _known(old: Any, new: Any) -> RelaxExpr | None:
    """The static form of a call whose shapes are constants."""
    if is_call(new, "shape_of") and None not in dims(new.args[0]):
        return const(np.asarray(dims(new.args[0]), new.attrs.get("dtype") or "int32"))
    return to_static(new) if is_call(new, *[f"dyn.{name}" for name in SIZED]) else None


def ChangeBatch(data: Mapping[Any, int], batch_size: int = 16) -> Pass:
    """Parameters get another batch size; all types follow.

    data  parameters of "main" (or their names), with the axis of the batch
    """

    def run(mod: IRModule) -> IRModule:
        main = mod["main"]
        by_name = {p.name: p for p in main.params}
        changed: dict[Var, Var] = {}
        for key, axis in data.items():
            name = key if isinstance(key, str) else key.name
            if name not in by_name:
                said = unknown("parameter", name, by_name)
                raise TypeMismatch(f'ChangeBatch: "main" has {said}')
            changed[by_name[name]] = _with_batch(by_name[name], axis, batch_size)
        new = map_functions(IRModule({"main": main}), lambda f: _replaced(f, changed))
        return infer_types(mod.with_functions(new.functions))

    return graph_pass("ChangeBatch", run)


def _with_batch(p: Var, axis: int, size: int) -> Var:
    t = p.type
    if not isinstance(t, TensorType) or not -t.rank <= axis < t.rank:
        raise TypeMismatch(f"ChangeBatch: the parameter {p.name!r} has no axis {axis}")
    shape: list[Any] = list(t.shape)
    shape[axis] = size
    return p.replace(type=tensor_type(shape, t.dtype))


def _replaced(f: Function, changed: Mapping[Var, Var]) -> Function:
    return transform(f, lambda old, new: changed.get(old))  # type: ignore[no-any-return]
