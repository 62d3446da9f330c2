"""Values that follow from constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.topi.registry import Op

from .graph_op import of_dialect
from .interpret import evaluate_op
from .nodes import Call, Constant, RelaxExpr, constant, values


def folded(value: RelaxExpr | None) -> RelaxExpr | None:
    """A value of the core's operators as one constant, where it follows from constants alone."""
    if value is None or any(not isinstance(n, Call | Constant) for n in values(value)):
        return value
    known: dict[RelaxExpr, Any] = {}
    for n in values(value):
        if isinstance(n, Constant):
            known[n] = n.data
        elif isinstance(n, Call) and isinstance(n.op, Op) and not of_dialect(n.op):
            known[n] = evaluate_op(n.op, [None if a is None else known[a] for a in n.args], n.attrs)
        else:
            return value
    return value if isinstance(value, Constant) else constant(np.asarray(known[value]))
