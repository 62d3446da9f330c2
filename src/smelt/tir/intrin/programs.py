"""What instructions of several processors share: program texts, by lanes and types.

Meanings have the operands c (the accumulator), a, b and the result r. Tiles have the operands A, B
and the result C, which they add to, so that a loop nest updates in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from smelt.ir import dtype as dt
from smelt.ir.build import call
from smelt.ir.expr import Broadcast, Expr


def declared(name: str, dtype: str, *shape: int) -> str:
    """A parameter, e.g. `A: T.Buffer((16, 4), "int8")`."""
    return f'{name}: T.Buffer({shape!r}, "{dtype}")'


def program(params: Sequence[str], *lines: str) -> str:
    """A program of some parameters and lines (each with its own indentation)."""
    body = "".join([f"    {line}\n" for line in lines])
    return f"@T.prim_func\ndef tile({', '.join(params)}):\n{body}"


def fused(c: Expr, a: Expr, b: Expr) -> Expr:
    """a * b + c by LLVM's own fused multiply-add; it is selected to one instruction."""
    return call("fma", a, b, c)


def fused_scalar(c: Expr, a: Expr, b: Expr) -> Expr:
    """The same for one a; processors have it as one instruction too (RISC-V's vfmacc.vf)."""
    return call("fma", Broadcast(a, dt.lanes(c.dtype)), b, c)


def _product(result: str, a: str, b: str) -> str:
    """Two factors multiplied in the type of the result."""
    return f'T.cast("{result}", {a}) * T.cast("{result}", {b})'


# ---------------------------------------------------------------------------------- multiply-adds


@dataclass(frozen=True)
class MultiplyAdd:
    """What most instructions do: r is c plus products of a and b.

    a, b, result  element types; c and r are of `result`, in which products are formed
    lanes         how many sums r has
    group         how many products go to each
    form          which ones, see below
    rows          of a matrix r

    form "each": lane i of r gets the products of group i of a and group i of b;
    "picked": of group i of a and a group of b that an immediate says;
    "scalar": of the one element of a and lane i of b;
    "matrix": r is a b^T for matrices in row-major order
    """

    a: str
    b: str
    result: str
    lanes: int
    group: int = 1
    form: str = "each"
    rows: int = 1

    @property
    def meaning(self) -> str:
        """The text of a program with the operands c, a, b (and the immediate), then r."""
        lanes, size = self.lanes, self.lanes * self.group
        columns = lanes // self.rows
        sizes = {"scalar": (1, lanes), "matrix": (self.rows * self.group, columns * self.group)}
        a, b = sizes.get(self.form, (size, size))
        params = [declared("c", self.result, lanes), declared("a", self.a, a)]
        params += [declared("b", self.b, b), *["lane: T.int32"] * (self.form == "picked")]
        params.append(declared("r", self.result, lanes))
        every = f"for i in range({self.rows if self.form == 'matrix' else lanes}):"
        picked = "lane" if self.form == "picked" else "i"
        if self.form == "matrix":
            update = self._sum(f"i * {columns} + j", ("i", "j"), "        ")
            return program(params, every, f"    for j in range({columns}):", *update)
        if self.group > 1:
            return program(params, every, *self._sum("i", ("i", picked), "    "))
        left, right = "a[0]" if self.form == "scalar" else "a[i]", f"b[{picked}]"
        made = f"c[i] + {_product(self.result, left, right)}"
        if self.a == self.b == self.result:
            made = f"T.fma({left}, {right}, c[i])"
        return program(params, every, f"    r[i] = {made}")

    def _sum(self, at: str, of: tuple[str, str], indent: str) -> list[str]:
        """The statements that make one element of r out of a group of a and one of b."""
        k = self.group
        product = _product(self.result, f"a[{of[0]} * {k} + k]", f"b[{of[1]} * {k} + k]")
        lines = f"r[{at}] = c[{at}]", f"for k in range({k}):", f"    r[{at}] = r[{at}] + {product}"
        return [indent + line for line in lines]

    def tile(
        self, instruction: str, rows: int = 0, vectors: int = 1, swapped: bool = False
    ) -> tuple[str, str]:
        """The description of a tile that the instruction of a name adds to, and how it does it.

        rows, vectors  a tile of `rows` times `vectors * lanes` elements that stay in registers;
                       without rows: what one instruction does
        swapped        whether the tile's A is what the instruction takes as b; where a lane of b
                       is picked, it is
        """
        swapped = swapped or (self.form == "picked" and self.group > 1)
        types = (self.b, self.a, self.result) if swapped else (self.a, self.b, self.result)
        t = self._tile(rows, vectors)
        params = [declared(n, d, *s) for n, d, s in zip("ABC", types, t.shapes, strict=True)]
        lines = [f"for {', '.join(t.axes)} in T.grid({', '.join(map(str, t.axes.values()))}):"]
        lines.append(f'    with T.block("{"dot" if self.group > 1 else "fma"}"):')
        for axis, extent in t.axes.items():
            kind = "reduce" if axis == "k" else "spatial"
            lines.append(f"        v{axis} = T.axis.{kind}({extent}, {axis})")
        product = f"{t.a} * {t.b}" if len({*types}) == 1 else _product(self.result, t.a, t.b)
        lines.append(f"        C[{t.at}] = C[{t.at}] + {product}")
        made = f'C[{t.place}] = T.call_instruction("{dt.vector(self.result, self.lanes)}", '
        made += f'"{instruction}", C[{t.place}], '
        turn = swapped and self.form != "picked"  # whose operands stand in order already
        operands = [o[::-1] if turn else o for o in t.operands]
        updates = [f"{made}{', '.join(o)})" for o in operands]
        if t.in_registers:
            loops = f"for i in T.unroll({rows}):", f"    for j in T.unroll({vectors}):"
            updates = [*loops, *[f"        {u}" for u in updates]]
        return program(params, *lines), program(params, *updates)

    def _tile(self, rows: int, vectors: int) -> _Tile:
        """The tile of one instruction, or that of registers."""
        lanes, group, every = self.lanes, self.group, _every(self.lanes)
        shapes: tuple[tuple[int, ...], ...]
        if self.form == "matrix":
            m, n = self.rows, lanes // self.rows
            shapes, axes = ((m, group), (n, group), (m, n)), {"i": m, "j": n, "k": group}
            both = f"A[{_rows(m, group)}]", f"B[{_rows(n, group)}]"
            return _Tile(shapes, axes, "vi, vj", "A[vi, vk]", "B[vj, vk]", _rows(m, n), [both])
        if lanes == 1:
            shapes, whole = ((group,), (group,), (1,)), _every(group)
            both = f"A[{whole}]", f"B[{whole}]"
            return _Tile(shapes, {"k": group}, "0", "A[vk]", "B[vk]", "0", [both])
        if rows or self.form == "picked":
            return self._register_tile(rows, vectors)
        if group > 1:  # A is repeated for every lane
            shapes, axes = ((group,), (lanes, group), (lanes,)), {"j": lanes, "k": group}
            both = _repeated("A", group, lanes), f"B[{_rows(lanes, group)}]"
            return _Tile(shapes, axes, "vj", "A[vk]", "B[vj, vk]", every, [both])
        factor = "A[0]" if self.form == "scalar" else f"T.broadcast(A[0], {lanes})"
        shapes, both = ((1,), (lanes,), (lanes,)), (factor, f"B[{every}]")
        return _Tile(shapes, {"j": lanes}, "vj", "A[0]", "B[vj]", every, [both])

    def _register_tile(self, rows: int, vectors: int) -> _Tile:
        """C[i, j] += A[i, k] * B[k, j] for `rows` rows of `vectors` vectors of C.

        Where lanes are picked there are as many k (groups of k) as a vector of A has, one lane a
        time. B of groups is packed: B[j // lanes, k // group, j % lanes, k % group].
        """
        lanes, group, n = self.lanes, self.group, vectors * self.lanes
        steps = lanes if self.form == "picked" else 1
        at, k = _every(lanes, f"j * {lanes}"), "vk" if steps * group > 1 else "0"
        if group > 1:
            packed: tuple[int, ...] = (vectors, steps, lanes, group)
            outer, inner = (f"vk // {group}", f"vk % {group}") if steps > 1 else ("0", "vk")
            b = f"B[vj // {lanes}, {outer}, vj % {lanes}, {inner}]"
            parts = [f"B[j, {s}, {_rows(lanes, group)}]" for s in range(steps)]
            factor = _repeated("A", group, lanes, "i")
        else:
            packed, b = (steps, n), f"B[{k}, vj]"
            parts = [f"B[{s}, {at}]" for s in range(steps)]
            factor = f"T.broadcast(A[i, 0], {lanes})"
        operands: list[tuple[str, ...]] = [(factor, parts[0])]
        if self.form == "picked":
            whole = f"A[i, {_every(lanes * group)}]"
            operands = [(part, whole, f"T.int32({s})") for s, part in enumerate(parts)]
        axes = {"i": rows, "j": n, **({"k": steps * group} if k == "vk" else {})}
        shapes = (rows, steps * group), packed, (rows, n)
        return _Tile(shapes, axes, "vi, vj", f"A[vi, {k}]", b, f"i, {at}", operands, True)


class _Tile(NamedTuple):
    """What instructions do to a tile: C[at] += a * b in a loop nest, of which k is reduced.

    shapes        of A, B and C
    place         the elements of C that one instruction changes
    operands      for each instruction, behind these elements
    in_registers  whether that is done for each of several vectors of each row of C
    """

    shapes: tuple[tuple[int, ...], ...]
    axes: Mapping[str, int]
    at: str
    a: str
    b: str
    place: str
    operands: Sequence[tuple[str, ...]]
    in_registers: bool = False


def fma(lanes: int, dtype: str = "float32", form: str = "each") -> MultiplyAdd:
    """One product in every lane, rounded once."""
    return MultiplyAdd(dtype, dtype, dtype, lanes, 1, form)


def dot(
    lanes: int, group: int, a: str, b: str, result: str = "int32", form: str = "each"
) -> MultiplyAdd:
    """`group` products in every lane."""
    return MultiplyAdd(a, b, result, lanes, group, form)


# ------------------------------------------------------------------------------------- operands


def _every(lanes: int, first: str = "0") -> str:
    return f"T.ramp({first}, 1, {lanes})"


def _repeated(buffer: str, group: int, lanes: int, *outer: str) -> str:
    """The first elements of a row, once for every lane."""
    few = f"{buffer}[{', '.join([*outer, _every(group)])}]"
    return f"T.shuffle({few}, {few}, {tuple(range(group)) * lanes!r})"


def _rows(lanes: int, group: int) -> str:
    """The indices of a box of `lanes` rows of `group` elements: neighbours where it is packed."""
    every = _every(lanes * group)
    return f"{every} // {group}, {every} % {group}"
