"""Reverse-mode derivatives of functions: `gradient`, FirstOrderGradient.

The result is an ordinary Relay program; it can be simplified, fused and built like any other.
"""

from __future__ import annotations

from typing import Any

from smelt.ir.errors import TypeMismatch, Unsupported
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.relax.derivative import derivatives
from smelt.relax.graph import transform
from smelt.relax.nodes import Function, Tuple
from smelt.relax.transform.expand_ops import expanded
from smelt.relax.transform.match import dims
from smelt.relax.transform.normal_form import dissolved, without_lets
from smelt.relax.transform.rewriting import map_functions
from smelt.transform import Pass

from ..lift import lifted
from .passes import graph_pass


def gradient(expr: Any, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """A function's result together with its derivatives by the parameters.

    expr  a Function whose result is one tensor of floats; the derivative is that of the sum of its
          elements
    mode  "higher_order" or "first_order": both give a plain program, which can be derived again

    The result of the new function is (result, (derivative by each parameter, ...)).
    """
    if mode not in ("higher_order", "first_order"):
        raise TypeMismatch(f"gradient: mode={mode!r}; legal: 'higher_order', 'first_order'")
    if not isinstance(expr, Function):
        raise TypeMismatch(
            f"gradient takes a Function, not {type(expr).__name__}; relay.Function(params, body)"
        )
    f = dissolved(without_lets(expr), lambda g: True)
    if not isinstance(f.body.type, TensorType) or None in dims(f.body):
        raise Unsupported("gradient: the result has to be one tensor whose shape is known")
    words: dict[Any, Any] = {}  # what the function computes itself, by the core's expressions

    def in_core(old: Any, new: Any) -> Any:
        made = expanded(new) or new
        words.setdefault(made, old)
        return made

    made = Tuple(tuple(derivatives(transform(f.body, in_core), f.params, "gradient")))
    made = transform(made, lambda old, new: words.get(old) or lifted(new))
    return f.replace(body=Tuple((f.body, made)))


def FirstOrderGradient() -> Pass:
    """Every function of the module gives its result and the derivatives by its parameters."""
    return graph_pass("FirstOrderGradient", lambda mod: map_functions(mod, gradient))
