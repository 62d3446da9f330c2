"""A network as a module with weights, and passes applied to one expression."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from smelt.ir import dtype as dt
from smelt.ir.errors import TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax.nodes import Function, RelaxExpr
from smelt.runtime import NDArray, array

from .. import transform

P = ParamSpec("P")
Array = np.ndarray[Any, Any]
Workload = tuple[IRModule, dict[str, NDArray]]
Initializer = Callable[[str, Array], None]

INPUTS = ("data", "label", "states")
"""Parameters that are given when the network runs: those whose names start so."""


def he(seed: int) -> Initializer:
    """Weights of a variance of two over the number of inputs; statistics that change nothing."""
    random = np.random.default_rng(seed)

    def fill(name: str, out: Array) -> None:
        if name.endswith(("gamma", "var")):
            out[:] = 1
        elif name.endswith(("beta", "mean", "bias")):
            out[:] = 0
        else:
            inputs = _inputs(out.shape)
            out[:] = random.standard_normal(out.shape) * math.sqrt(2 / inputs)

    return fill


def _inputs(shape: tuple[int, ...]) -> int:
    """How many products meet in one sum: of a weight [o, i, ...], or [h, w, i, o]."""
    if len(shape) == 4 and shape[0] == shape[1] and shape[0] * shape[1] < shape[2] * shape[3]:
        return math.prod(shape[:3])
    return math.prod(shape[1:])


def create_workload(
    net: RelaxExpr, initializer: Initializer | None = None, seed: int = 0
) -> Workload:
    """A module of the network, and arrays for its parameters but the inputs.

    initializer  (name, array to be filled); None: weights drawn at random
    """
    mod = run_passes(IRModule.from_expr(net), transform.InferType())
    fill = initializer or he(seed)
    params = {}
    for p in mod["main"].params:
        if p.name.startswith(INPUTS):
            continue
        t = p.checked_type
        shape = t.fixed_shape() if isinstance(t, TensorType) else None
        if shape is None:
            raise TypeMismatch(f"the parameter {p.name} has no known shape; its type is {t}")
        values = np.zeros(shape, dt.to_numpy(t.dtype))
        fill(p.name, values)
        params[p.name] = array(values)
    return mod, params


def workload_of(net: Callable[P, Function]) -> Callable[P, Workload]:
    """The function that gives what a network's function gives, with weights."""

    @functools.wraps(net)
    def get_workload(*args: P.args, **named: P.kwargs) -> Workload:
        return create_workload(net(*args, **named))

    get_workload.__name__ = get_workload.__qualname__ = "get_workload"
    get_workload.__annotations__ = {**net.__annotations__, "return": "Workload"}
    get_workload.__doc__ = "The network with weights, of the same arguments."
    return get_workload


def run_passes(mod: IRModule, passes: Any) -> IRModule:
    """A module after one pass or several."""
    for p in passes if isinstance(passes, Sequence) else [passes]:
        mod = p(mod)
    return mod


def run_opt_pass(expr: RelaxExpr, passes: Any, import_prelude: bool = False) -> RelaxExpr:
    """An expression, or a function, after one pass or several."""
    main = run_passes(IRModule.from_expr(expr), passes)["main"]
    return main if isinstance(expr, Function) else main.body  # type: ignore[no-any-return]


def run_infer_type(expr: RelaxExpr) -> RelaxExpr:
    """An expression with its types inferred."""
    return run_opt_pass(expr, transform.InferType())
