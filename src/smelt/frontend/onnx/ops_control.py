"""Converters of If, Loop and Scan."""

from __future__ import annotations

from functools import partial

import numpy as np

from smelt.frontend.common import Build, Graph, Operand, Value, moves
from smelt.frontend.common.control import run_branch, run_loop

from .registry import Ints, onnx_op


@onnx_op("If")
def if_(
    g: Build, condition: Value, *, then_branch: Graph, else_branch: Graph
) -> tuple[Operand, ...]:
    """A branch that is known, or a branch at run time."""
    return run_branch(g, condition, then_branch, else_branch)


@onnx_op("Loop")
def loop(
    g: Build, m: Value | None = None, cond: Value | None = None, *state: Operand, body: Graph
) -> tuple[Operand, ...]:
    """Iterations up to a number, as long as a condition holds."""
    carried = len(state)

    def iteration(
        number: Value, given: list[Operand]
    ) -> tuple[Value | None, list[Operand], list[Value]]:
        always = g.constant(True, "bool")
        made = g.walk.branch(body, [number, always, *given])
        more = made[0]
        if not isinstance(more, Value):
            g.malformed("the condition of the body is no tensor")
        results = []
        for r in made[1 + carried :]:
            if not isinstance(r, Value):
                g.malformed("a result of each iteration has to be a tensor")
            results.append(r)
        forever = more.is_array and bool(np.all(more.known))
        return None if forever else more, made[1 : 1 + carried], results

    stacking = [(0, False)] * (len(body.outputs) - 1 - carried)
    return tuple(run_loop(g, m, cond, state, iteration, stacking))


# ----------------------------------------------------------------------------------------- Scan


@onnx_op("Scan", since=9)
def scan(
    g: Build, *operands: Value, body: Graph, num_scan_inputs: int, scan_input_axes: Ints = (),
    scan_input_directions: Ints = (), scan_output_axes: Ints = (),
    scan_output_directions: Ints = (),
) -> tuple[Operand, ...]:  # fmt: skip
    """An iteration for each slice of the inputs."""
    carried = len(operands) - num_scan_inputs
    inputs = operands[carried:]
    width = len(body.outputs) - carried
    none = (0,) * num_scan_inputs
    axes = [g.axis(a, x.rank) for a, x in zip(scan_input_axes or none, inputs, strict=True)]
    if not inputs:
        g.malformed("num_scan_inputs is 0; at least one is needed")
    length = inputs[0].shape[axes[0]]
    directions = scan_input_directions or none
    xs = [
        g.call("flip", x, axes=(a,)) if d else x
        for x, a, d in zip(inputs, axes, directions, strict=True)
    ]

    def iteration(
        number: Value, given: list[Operand]
    ) -> tuple[Value | None, list[Operand], list[Value]]:
        slices = [moves.take(g, x, number, a) for x, a in zip(xs, axes, strict=True)]
        made = g.walk.branch(body, [*given, *slices])
        results = [r for r in made[carried:] if isinstance(r, Value)]
        return None, made[:carried], results

    back = [bool(d) for d in scan_output_directions or (0,) * width]
    stacking = list(zip(scan_output_axes or (0,) * width, back, strict=True))
    count = Value.of_sizes(length)
    return tuple(run_loop(g, count, None, operands[:carried], iteration, stacking))


@onnx_op("Scan", since=8)
def scan_8(
    g: Build, lens: Value | None = None, *operands: Value, body: Graph, num_scan_inputs: int,
    directions: Ints = (),
) -> tuple[Operand, ...]:  # fmt: skip
    """The old form: a batch comes first, time second."""
    if lens is not None:
        g.unsupported("sequence_lens", "sequences of one length")
    batch = operands[0].shape[0]
    if not isinstance(batch, int):
        g.unsupported("a symbolic batch", "a known one")
    run = partial(scan, body=body, num_scan_inputs=num_scan_inputs,
                  scan_input_directions=directions)  # fmt: skip
    rows: list[tuple[Operand, ...]] = []
    for n in range(batch):
        at = g.constant(n, "int64")
        parts = [moves.take(g, x, at, 0) for x in operands]
        rows.append(run(g, *parts))
    return tuple([
        moves.stack(g, [r for r in row if isinstance(r, Value)], 0)
        for row in zip(*rows, strict=True)
    ])  # fmt: skip
