"""Registers of virtual machine functions: one register holds several values, one after another.

Jumps only go forward, so a value lives from its first write to its last use in the text.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

from smelt.runtime.vm_program import SHAPES, Instruction, registers_of


class Captured(tuple[int, ...]):
    """Operands behind the values that the function captures: all of them are known at its end."""


def assigned(
    code: Sequence[Instruction], captured: Sequence[int], params: Sequence[int]
) -> tuple[list[Instruction], int]:
    """Instructions on as few registers as are alive at once, and how many these are.

    captured, params  the numbers of values that a call brings: they come first, in this order
    """
    first = [*captured, *params]
    code = [_plain(i, tuple(captured)) for i in code]
    last: dict[int, int] = dict.fromkeys(first, -1)
    for at, instruction in enumerate(code):
        read, written = registers_of(instruction)
        last.update(dict.fromkeys([*read, *written], at))
    place: dict[int, int] = {}
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    count = len(first)
    for n, r in enumerate(first):
        place[r] = n
        heapq.heappush(busy, (last[r], n))
    made: list[Instruction] = []

    def placed(kind: str, x: Any) -> Any:
        if kind in "sd":
            return place[x]
        return tuple([place[r] for r in x]) if kind in "AD" else x

    for at, instruction in enumerate(code):
        while busy and busy[0][0] < at:
            heapq.heappush(free, heapq.heappop(busy)[1])
        for r in registers_of(instruction)[1]:
            if r not in place:
                if not free:
                    heapq.heappush(free, count)
                    count += 1
                place[r] = heapq.heappop(free)
                heapq.heappush(busy, (last[r], place[r]))
        made.append(_mapped(instruction, placed))
    return made, max(count, 1)


def _plain(instruction: Instruction, captured: tuple[int, ...]) -> Instruction:
    """An instruction with targets and operands as numbers."""

    def plain(kind: str, x: Any) -> Any:
        if kind == "t":
            return x.at
        return (*captured, *x) if isinstance(x, Captured) else x

    return _mapped(instruction, plain)


def _mapped(instruction: Instruction, fn: Callable[[str, Any], Any]) -> Instruction:
    """An instruction on other operands; fn: (kind, operand) -> the new one."""
    operands = zip(SHAPES[instruction[0]], instruction[1:], strict=True)
    return (instruction[0], *[fn(kind, x) for kind, x in operands])
