"""What all forms of TFLite's LSTM share: its operands by what they are, and the walk over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from smelt.frontend.common import Operand, Value, moves
from smelt.frontend.common.control import run_loop

from .node import Node

INPUT, FORGET, CELL, OUTPUT = range(4)
"""The gates in TFLite's order."""

WEIGHTS, RECURRENT, PEEPHOLES, BIASES, PROJECTION, STATES, NORMS = 1, 5, 9, 12, 16, 18, 20
"""The number of the first operand of each kind."""

PEEPHOLE = {INPUT: PEEPHOLES, FORGET: PEEPHOLES + 1, OUTPUT: PEEPHOLES + 2}
"""The number of a gate's."""

Gates = tuple[Value | None, Value | None, Value | None, Value | None]
Step = Callable[[Value, Value, Value], tuple[Value, Value]]
"""What the input adds to the gates at a time, the output and the cells before it -> after it."""


@dataclass(frozen=True)
class Layer:
    """The operands; one of a gate is None where the layer has none of its kind.

    at      how far behind the usual numbers those of weights stand
    states  the numbers of h and c
    Shapes  weights [cells, inputs]; recurrent [cells, outputs]; peepholes, biases, norms [cells];
            projection [outputs, cells]; h [batch, outputs]; c [batch, cells]
    """

    weights: Gates
    recurrent: Gates
    peepholes: Gates
    biases: Gates
    norms: Gates
    projection: Value | None
    projection_bias: Value | None
    h: Value
    c: Value
    cell_clip: float
    proj_clip: float
    at: int = 0
    states: tuple[int, int] = (STATES, STATES + 1)

    @property
    def gates(self) -> tuple[int, ...]:
        """The gates that are computed: without the input's, it is 1 - forget."""
        return tuple([k for k in range(4) if self.weights[k] is not None])

    @property
    def plain(self) -> bool:
        """Whether a step is one product of the output and what follows by element."""
        extra = (self.projection, *self.norms)
        return all(v is None for v in extra) and not self.cell_clip and not self.proj_clip


def layer_of(
    g: Node, given: Sequence[Value | None], cell_clip: float, proj_clip: float, at: int = 0,
    states: tuple[int, int] = (STATES, STATES + 1),
) -> Layer:  # fmt: skip
    """The operands of a node, those behind the sequence; ImportFailure where some are missing."""
    v: list[Value | None] = [None, *given, *[None] * (23 - len(given))]
    i, f, o = v[PEEPHOLES:BIASES]
    kinds = [(v[n], v[n + 1], v[n + 2], v[n + 3]) for n in (WEIGHTS, RECURRENT, BIASES, NORMS)]
    h, c = v[STATES : STATES + 2]
    needed = (*kinds[0][1:], *kinds[1][1:], *kinds[2][1:], h, c)
    both = (kinds[0][INPUT] is None) == (kinds[1][INPUT] is None)
    if h is None or c is None or not both or any(x is None for x in needed):
        g.malformed("weights, biases or states are missing")
    return Layer(kinds[0], kinds[1], (i, f, None, o), kinds[2], kinds[3], v[PROJECTION],
                 v[PROJECTION + 1], h, c, cell_clip, proj_clip, at, states)  # fmt: skip


def joined(g: Node, parts: Sequence[Value | None], gates: Sequence[int]) -> Value:
    """The parts of these gates one behind the other; of constants, a constant."""
    given = [v for v in (parts[k] for k in gates) if v is not None]
    if all(v.is_array for v in given):
        return g.known(np.concatenate([v.array for v in given]))
    return moves.concat(g, given, 0)


def parted(g: Node, x: Value, gates: Sequence[int]) -> dict[int, Value]:
    """Columns of gates that stand one behind the other, by gate."""
    width = g.extent(x, 1, "gates") // len(gates)
    parts = moves.split(g, x, (width,) * len(gates), 1)
    return dict(zip(gates, parts, strict=True))


def timed(g: Node, x: Value, time_major: bool) -> Value:
    """Time in front of the batch, or back."""
    if x.rank != 3:
        g.malformed(f"a sequence of {x.rank} dimensions, 3 expected")
    return x if time_major else moves.transpose(g, x, (1, 0, 2))


def over_time(g: Node, steps: Value, h: Value, c: Value, step: Step) -> tuple[Value, Value, Value]:
    """All outputs [time, batch, outputs], and the last output and cells.

    steps  what the input adds to the gates, [time, batch, columns]
    """

    def iteration(
        number: Value, state: list[Operand]
    ) -> tuple[Value | None, list[Operand], list[Value]]:
        before, cells = state
        assert isinstance(before, Value)
        assert isinstance(cells, Value)
        after, kept = step(moves.take(g, steps, number, 0), before, cells)
        return None, [after, kept], [after]

    count = moves.squeeze(g, Value.of_sizes(steps.shape[:1]), (0,))
    found = run_loop(g, count, None, [h, c], iteration, [(0, False)])
    last, kept, outputs = [v for v in found if isinstance(v, Value)]
    return outputs, last, kept
