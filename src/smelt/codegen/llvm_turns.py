"""Turns of a loop that are written out one after another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from smelt.ir.expr import IntImm
from smelt.tir import nodes as tir
from smelt.tir.script_ops import stored

_TURNS = (4, 3, 2)
"""How many turns of a loop are written out, if they are a divisor of all."""
_LONG, _SHARED, _MANY = 32, 8, 150
"""Turns of a loop below which none are written out; the same where they may share loads; lines of
one above which none are."""
_ROW = 4
"""Lanes of 32 bits in a vector that turns share."""
_NAME = re.compile(r"%[\w.]+")
_MUL = re.compile(r"(%\S+) = mul i\d+ (%\S+), (\d+)")
_MOVED = re.compile(r"(%\S+) = getelementptr inbounds (\w+), ptr (%\S+), i\d+ (\S+)")
_LOADED = re.compile(r"(%\S+) = load (float|i32), ptr (%[^\s,]+)(?:, align (\d+))?")
_DOT = re.compile(r"(.* @llvm\.aarch64\.neon\.[su]dot\..*\(<.*> %\S+, )(<.*> %\S+), (<.*> %\S+)\)")
"""Products of bytes of one type, with the factor first that stands in all lanes: instructions can
take a lane of the second one."""
_BYTES = {"i8": 1, "float": 4, "i32": 4}

Moving = Sequence[tuple[str, str, int]]
"""What changes from turn to turn: its name, where it starts, how far it goes."""


class Row(NamedTuple):
    """A number that turns load one after another, and that is used in all lanes of a vector.

    kind   its type
    place  the pointer in the first turn, and how it is aligned
    inner  the vector whose first lane it is
    wide   the one that has it in all lanes
    """

    kind: str
    place: str
    inner: str
    wide: str


def is_straight(lines: Sequence[str]) -> bool:
    """Whether instructions follow one another without a branch."""
    return not any(line.endswith(":") for line in lines)


def turns_of(s: tir.For, lines: Sequence[str], registers: int) -> int:
    """How many turns of a loop are written out one after another: several of one that adds up in
    registers, since counting and jumping take a part of what the processor can start.

    registers  as for `written_out`
    """
    if not isinstance(s.min, IntImm) or not isinstance(s.extent, IntImm):
        return 1
    least = _SHARED if registers else _LONG
    if s.extent.value < least or len(lines) > _MANY or not is_straight(lines):
        return 1
    fits = [n for n in _TURNS if s.extent.value % n == 0]
    return fits[0] if fits and {b.scope for b in written(s.body)} == {"local"} else 1


def written(body: tir.Stmt) -> set[tir.Buffer]:
    """The buffers that a statement and those inside of it store into."""
    return {b for x in tir.walk(body) for b in stored(x)}


def written_out(
    body: Sequence[str], moving: Moving, kind: str, times: int, registers: int
) -> list[str]:
    """Several turns of a loop that stores to registers alone.

    kind       the type of what moves
    registers  those of the processor, where it multiplies by one lane of a vector; 0: it does not
    """
    rows = rows_of(body, moving) if times == _ROW else {}
    vectors = len([x for x in body if " = load <" in x])
    if vectors + len(rows) >= registers:
        rows = {}  # they would push accumulators out of the registers
    if rows:
        body = [_DOT.sub(r"\1\3, \2)", x) for x in body]
    lines = _sharing(body, rows, 0)
    for turn in range(1, times):
        end = f".t{turn}"
        names = {x: x + end for x, _, _ in moving}
        lines += [f"{names[x]} = add {kind} {x}, {turn * size}" for x, _, size in moving]
        lines += _renamed(_sharing(body, rows, turn), names, end)
    return lines


def rows_of(body: Sequence[str], moving: Moving) -> dict[str, Row]:
    """By its name in the first turn, each number of 32 bits that stands behind that of the turn
    before, and of which nothing is asked but a vector with it in all lanes."""
    own = {line.split(" = ")[0] for line in body if line.startswith("%")}
    readers: dict[str, list[str]] = defaultdict(list)
    for line in body:
        for name in set(_NAME.findall(line.partition(" = ")[2] or line)):
            readers[name].append(line)
    far = {name: size for name, _, size in moving}  # how far a number or an address goes in a turn
    found: dict[str, Row] = {}
    for line in body:
        if (m := _MUL.fullmatch(line)) and m[2] in far:
            far[m[1]] = far[m[2]] * int(m[3])
        elif (m := _MOVED.fullmatch(line)) and m[3] not in own and m[4] in far:
            far[m[1]] = far[m[4]] * _BYTES.get(m[2], 0)
        elif m and m[3] in far and m[4].isdigit():
            far[m[1]] = far[m[3]]
        elif (m := _LOADED.fullmatch(line)) and far.get(m[3]) == 4:
            row = _row(m[1], m[2], f"{m[3]}, align {m[4] or 4}", readers)
            if row is not None:
                found[m[1]] = row
    return found


def _row(name: str, kind: str, place: str, readers: Mapping[str, list[str]]) -> Row | None:
    """A number that is loaded, if it is used in all lanes of a vector alone."""
    if len(readers[name]) != 1:
        return None
    vector = f"<{_ROW} x {kind}>"
    at, _, made = readers[name][0].partition(" = ")
    if made != f"insertelement {vector} poison, {kind} {name}, i64 0" or len(readers[at]) != 1:
        return None
    wide, _, made = readers[at][0].partition(" = ")
    spread = f"shufflevector {vector} {at}, {vector} poison, <{_ROW} x i32> zeroinitializer"
    return Row(kind, place, at, wide) if made == spread else None


def _sharing(body: Sequence[str], rows: Mapping[str, Row], turn: int) -> list[str]:
    """The lines of a turn: the first one loads a vector, of which each takes its lane."""
    inner, wide = {r.inner for r in rows.values()}, {r.wide: x for x, r in rows.items()}
    lane = f"<{_ROW} x i32> <{', '.join([f'i32 {turn}'] * _ROW)}>"
    lines = []
    for line in body:
        name = line.partition(" = ")[0]
        x = wide.get(name, name)
        vector = f"<{_ROW} x {rows[x].kind}>" if x in rows else ""
        if name in rows and turn == 0:
            lines.append(f"{x}.row = load {vector}, ptr {rows[x].place}")
        elif name in wide:
            lines.append(f"{name} = shufflevector {vector} {x}.row, {vector} poison, {lane}")
        elif name not in rows and name not in inner:
            lines.append(line)
    return lines


def _renamed(lines: Sequence[str], names: Mapping[str, str], end: str) -> list[str]:
    """Instructions once more: some names are replaced, and what they define gets new names."""
    own = {line.split(" = ")[0] for line in lines if line.startswith("%")}
    new = {**{x: x + end for x in own}, **names}
    return [_NAME.sub(lambda m: new.get(m[0], m[0]), line) for line in lines]
