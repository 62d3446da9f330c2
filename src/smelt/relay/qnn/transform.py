"""Passes on operators of quantized numbers."""

from __future__ import annotations

from typing import Any

from smelt.ir.module import IRModule
from smelt.relax.transform.expand_ops import expand_ops
from smelt.transform import Pass

from ..dialect import RELAY
from ..lift import lift
from ..transform.legalize import Legalize as _legalize
from ..transform.legalize import register_legalize
from ..transform.passes import graph_pass

TABLE = "FTVMQnnLegalize"
"""The table of legalizations that `Legalize` takes."""


def CanonicalizeOps() -> Pass:
    """Operators of qnn become integer operators: what they mean can be looked at.

    The compiler does the same when it builds a program.
    """
    return graph_pass("Legalize", _expanded)


def _expanded(mod: IRModule) -> IRModule:
    names = {n for n in RELAY.ops if n.startswith("qnn.")}
    made = expand_ops(mod, names)
    return mod if made is mod else lift(made)


def Legalize() -> Pass:
    """Calls of qnn's operators are replaced as `register_qnn_legalize` says; others stay."""
    return _legalize(TABLE)


def register_qnn_legalize(op_name: str, legal_op: Any = None, level: int = 10) -> Any:
    """Say what calls of an operator of qnn become in `Legalize`.

    legal_op  (attrs, inputs, types) -> an expression of the call's type, or None: the call stays;
              left out: this is a decorator
    """
    return register_legalize(op_name, legal_op, level, TABLE)
