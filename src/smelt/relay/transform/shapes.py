"""Passes on shapes: what becomes known at compile time, and other batch sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.relax.nodes import Call, Constant, Function, RelaxExpr, Var
from smelt.relax.transform.fold_calls import fold_calls
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.rewriting import map_functions, transform, transform_functions
from smelt.runtime.errors import nearest
from smelt.topi.registry import Op
from smelt.transform import Pass

from ..dialect import RELAY, const, make
from .passes import graph_pass
from .rules import dims, is_call

__all__ = ["ChangeBatch", "DynamicToStatic"]

# name: (the static operator, {number of an operand: the attribute that it becomes})
STATIC: Mapping[str, tuple[str, Mapping[int, str]]] = {
    "dyn.reshape": ("reshape", {1: "newshape"}),
    "dyn.tile": ("tile", {1: "reps"}),
    "dyn.broadcast_to": ("broadcast_to", {1: "shape"}),
    "dyn.ones": ("ones", {0: "shape"}),
    "dyn.zeros": ("zeros", {0: "shape"}),
    "dyn.full": ("full", {1: "shape"}),
    "dyn.one_hot": ("one_hot", {3: "depth"}),
    "dyn.expand_dims": ("expand_dims", {1: "axis"}),
    "dyn.squeeze": ("squeeze", {1: "axis"}),
    "dyn.strided_slice": ("strided_slice", {1: "begin", 2: "end", 3: "strides"}),
    "dyn.topk": ("topk", {1: "k"}),
    "dyn.nn.pad": ("nn.pad", {1: "pad_width"}),
    "dyn.nn.upsampling": ("nn.upsampling", {1: "scale_h", 2: "scale_w"}),
    "dyn.nn.upsampling3d": (
        "nn.upsampling3d", {1: "scale_d", 2: "scale_h", 3: "scale_w"}),
    "dyn.image.resize2d": ("image.resize2d", {1: "size", 2: "roi"}),
}  # fmt: skip

ROUNDS = 32


def DynamicToStatic() -> Pass:
    """Operators whose shapes are operands (`dyn.*`) take them as attributes, where they are known.

    shape_of of a tensor of known shape is computed; so is what follows from it.
    """
    return graph_pass("DynamicToStatic", _static)


def _static(mod: IRModule) -> IRModule:
    for _ in range(ROUNDS):
        new = infer_types(transform_functions(fold_calls(infer_types(mod)), _known))
        if new is mod:
            break
        mod = new
    return mod


def _known(old: Any, new: Any) -> RelaxExpr | None:
    """The static form of a call whose shapes are constants."""
    if not isinstance(new, Call) or not isinstance(new.op, Op):
        return None
    if is_call(new, "shape_of") and None not in dims(new.args[0]):
        return const(np.asarray(dims(new.args[0]), new.attrs.get("dtype") or "int32"))
    if new.op.name not in STATIC or RELAY.ops.get(new.op.name) is not new.op:
        return None
    name, taken = STATIC[new.op.name]
    target = RELAY.get(name)
    attrs = {k: v for k, v in new.attrs.items() if k in target.attributes}
    operands: list[RelaxExpr | None] = []
    for i, a in enumerate(new.args):
        if i not in taken:
            operands.append(a)
        elif isinstance(a, Constant):
            attrs[taken[i]] = _plain(np.asarray(a.data))
        elif a is not None:
            return None
    return make(target, *operands, **attrs)


def _plain(data: np.ndarray) -> Any:
    """An array as nested tuples of numbers."""
    value = data.tolist()

    def tupled(v: Any) -> Any:
        return tuple([tupled(i) for i in v]) if isinstance(v, list) else v

    return tupled(value)


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
                raise TypeMismatch(
                    f'ChangeBatch: "main" has no parameter {name!r}{nearest(name, list(by_name))}; '
                    f"parameters: {', '.join(by_name)}"
                )
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
