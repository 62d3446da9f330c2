"""Register tiles in closed form: what a tile costs per step of the reduction, edges included."""

from __future__ import annotations

from functools import cache

from smelt.target import Machine

_PORTS = 2
"""Vector multiply-adds, and loads, that start in one cycle."""
_LATENCY = 4
"""Cycles from a multiply-add to the next on the same accumulator."""


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one reduction step: multiply-adds, loads, or latency with few accumulators."""
    return max(rows * vectors / _PORTS, (rows + vectors) / _PORTS, float(_LATENCY))


@cache
def register_tile(rows: int, columns: int, machine: Machine, row_bytes: int = 0) -> tuple[int, int]:
    """Rows and vectors of the accumulator tile with the least cycles for a whole matrix.

    rows, columns  extents of the result (rows: of the dimension that is tiled)
    row_bytes      distance of neighbouring rows of the broadcast operand; rows a multiple of 4 KiB
                   apart share a cache set, which holds few of them
    """
    lanes = machine.lanes(4)
    need = -(-columns // lanes)
    limit = machine.vector_registers - 4
    best: tuple[float, int, int] | None = None
    for vectors in range(1, min(need, 8) + 1):
        for r in range(1, min(rows, 14) + 1):
            spare = machine.vector_registers - (1 if r > 1 else 0)
            if r * vectors > limit or r * vectors + vectors + 1 > spare:
                continue
            full_r, tail_r = divmod(rows, r)
            full_v, tail_v = divmod(need, vectors)
            cycles = full_r * full_v * _tile(r, vectors)
            ragged_rows = full_v * _tile(tail_r, vectors) if tail_r else 0
            ragged_columns = full_r * _tile(r, tail_v) if tail_v else 0
            cycles += ragged_rows + ragged_columns
            cycles += _tile(tail_r, tail_v) if tail_r and tail_v else 0
            # ragged edges cost code, branches and half-used vectors
            cycles *= 1 + (0.02 if tail_r else 0) + (0.01 if tail_v else 0)
            if row_bytes and row_bytes % 4096 == 0 and r > 8:
                cycles *= 1.1
            # of equals, about eight rows: fewer passes over B, and few enough streams of A
            if best is None or (cycles, abs(r - 8)) < (best[0], abs(best[1] - 8)):
                best = (cycles, r, vectors)
    assert best is not None
    return best[1], best[2]


def _tile(r: int, v: int) -> float:
    # one cycle more a step and tile stands for what surrounds the loop
    return step_cycles(r, v) + 0.15
