"""Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates), unrolled."""

from __future__ import annotations

from smelt.relax.nodes import Function, RelaxExpr

from .. import op
from ..expr import var
from .layers import dense_add_bias, network
from .workload import workload_of


def cell(
    x: RelaxExpr, hidden: RelaxExpr, state: RelaxExpr, units: int, name: str
) -> tuple[RelaxExpr, RelaxExpr]:
    """One step: (what it gives, what it remembers)."""
    both = op.add(dense_add_bias(x, f"{name}_i2h", 4 * units),
                  dense_add_bias(hidden, f"{name}_h2h", 4 * units))  # fmt: skip
    enter, forget, change, leave = op.split(both, 4, axis=1)
    kept = op.multiply(op.sigmoid(forget), state)
    state = op.add(kept, op.multiply(op.sigmoid(enter), op.tanh(change)))
    return op.multiply(op.sigmoid(leave), op.tanh(state)), state


def get_net(
    iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32"
) -> Function:
    """Steps over data [batch, units] that is the same each time; each step has its own weights."""
    shape = (batch_size, num_hidden)
    x = var("data", shape=shape, dtype=dtype)
    hidden: RelaxExpr = op.zeros(shape, dtype)
    state: RelaxExpr = op.zeros(shape, dtype)
    for n in range(iterations):
        hidden, state = cell(x, hidden, state, num_hidden, f"lstm{n}")
    return network(hidden)


get_workload = workload_of(get_net)
