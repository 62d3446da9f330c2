"""What instructions of several processors share: program texts, by lanes and types.

Meanings have the operands c (the accumulator), a, b and the result r. Tiles have the operands A, B
and the result C, which they add to, so that a loop nest updates in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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

    def tile(self, instruction: str, rows: int = 0, vectors: int = 1) -> tuple[str, str]:
        """The description of a tile that the instruction of a name adds to, and how it does it.

        rows, vectors  a tile of `rows` times `vectors * lanes` elements that stay in registers;
                       without rows: what one instruction does
        """
        size = rows, vectors, self.lanes
        match self.form:
            case "matrix":
                columns = self.lanes // self.rows
                return _matrix(self.rows, columns, self.group, instruction, self.a, self.b)
            case "picked" if self.group > 1:  # the tile's A stands where a lane is picked
                return _dot_lane_tile(*size, self.group, instruction, self.b, self.a)
            case "picked":
                return _fma_lane_tile(*size, instruction, self.result)
        if self.lanes == 1:
            return _dot(self.group, instruction, self.a, self.b, self.result)
        if self.group > 1 and rows:
            return _dot_tile(*size, self.group, instruction, self.a, self.b)
        if self.group > 1:
            return _dot_row(self.lanes, self.group, instruction, self.a, self.b, self.result)
        if rows:
            return _fma_tile(*size, instruction, self.result)
        scalar = self.form == "scalar"
        return _fma_row(self.lanes, instruction, self.a, self.result, scalar)


def fma(lanes: int, dtype: str = "float32", form: str = "each") -> MultiplyAdd:
    """One product in every lane, rounded once."""
    return MultiplyAdd(dtype, dtype, dtype, lanes, 1, form)


def dot(
    lanes: int, group: int, a: str, b: str, result: str = "int32", form: str = "each"
) -> MultiplyAdd:
    """`group` products in every lane."""
    return MultiplyAdd(a, b, result, lanes, group, form)


# ---------------------------------------------------------------------------------------- tiles


def _described(
    params: Sequence[str], block: str, axes: Mapping[str, int], at: str, product: str
) -> str:
    """The description of a tile: C[at] += product in a loop nest; the axis k is reduced."""
    lines = [f"for {', '.join(axes)} in T.grid({', '.join(map(str, axes.values()))}):"]
    lines.append(f'    with T.block("{block}"):')
    for axis, extent in axes.items():
        kind = "reduce" if axis == "k" else "spatial"
        lines.append(f"        v{axis} = T.axis.{kind}({extent}, {axis})")
    return program(params, *lines, f"        C[{at}] = C[{at}] + {product}")


def _update(at: str, dtype: str, instruction: str, *operands: str) -> str:
    """The elements of C at some indices after one instruction."""
    given = ", ".join([f"C[{at}]", *operands])
    return f'C[{at}] = T.call_instruction("{dtype}", "{instruction}", {given})'


def _on_registers(params: Sequence[str], rows: int, vectors: int, *updates: str) -> str:
    """Updates of each of `vectors` vectors of every row of C."""
    loops = f"for i in T.unroll({rows}):", f"    for j in T.unroll({vectors}):"
    return program(params, *loops, *[f"        {u}" for u in updates])


def _every(lanes: int, first: str = "0") -> str:
    return f"T.ramp({first}, 1, {lanes})"


def _fma_row(
    lanes: int, instruction: str, a: str = "float32", result: str = "float32", scalar: bool = False
) -> tuple[str, str]:
    """C[j] += A[0] * B[j], by one instruction.

    scalar  whether the instruction takes A as a scalar rather than in every lane
    """
    params = [declared("A", a, 1), declared("B", a, lanes), declared("C", result, lanes)]
    product = "A[0] * B[vj]" if a == result else _product(result, "A[0]", "B[vj]")
    every = _every(lanes)
    factor = "A[0]" if scalar else f"T.broadcast(A[0], {lanes})"
    impl = _update(every, f"{result}x{lanes}", instruction, factor, f"B[{every}]")
    return _described(params, "fma", {"j": lanes}, "vj", product), program(params, impl)


def _fma_tile(
    rows: int, vectors: int, lanes: int, instruction: str, dtype: str = "float32"
) -> tuple[str, str]:
    """C[i, j] += A[i, 0] * B[0, j]: an outer product on a tile of registers.

    rows, vectors  the tile is rows x (vectors * lanes) elements of C
    """
    n = vectors * lanes
    params = [declared("A", dtype, rows, 1), declared("B", dtype, 1, n)]
    params.append(declared("C", dtype, rows, n))
    desc = _described(params, "fma", {"i": rows, "j": n}, "vi, vj", "A[vi, 0] * B[0, vj]")
    at = _every(lanes, f"j * {lanes}")
    operands = f"T.broadcast(A[i, 0], {lanes})", f"B[0, {at}]"
    update = _update(f"i, {at}", f"{dtype}x{lanes}", instruction, *operands)
    return desc, _on_registers(params, rows, vectors, update)


def _fma_lane_tile(
    rows: int, vectors: int, lanes: int, instruction: str, dtype: str = "float32"
) -> tuple[str, str]:
    """C[i, j] += A[i, k] * B[k, j] for as many k as a vector of A has lanes, one lane a time."""
    n = vectors * lanes
    params = [declared("A", dtype, rows, lanes), declared("B", dtype, lanes, n)]
    params.append(declared("C", dtype, rows, n))
    axes = {"i": rows, "j": n, "k": lanes}
    desc = _described(params, "fma", axes, "vi, vj", "A[vi, vk] * B[vk, vj]")
    at, of = _every(lanes, f"j * {lanes}"), f"A[i, {_every(lanes)}]"
    updates = [
        _update(f"i, {at}", f"{dtype}x{lanes}", instruction, f"B[{k}, {at}]", of, f"T.int32({k})")
        for k in range(lanes)
    ]
    return desc, _on_registers(params, rows, vectors, *updates)


def _dot(length: int, instruction: str, a: str, b: str, result: str = "int32") -> tuple[str, str]:
    """C[0] += the products of A[k] and B[k], by one instruction that adds to a scalar."""
    params = [declared("A", a, length), declared("B", b, length), declared("C", result, 1)]
    desc = _described(params, "dot", {"k": length}, "0", _product(result, "A[vk]", "B[vk]"))
    every = _every(length)
    return desc, program(params, _update("0", result, instruction, f"A[{every}]", f"B[{every}]"))


def _dot_row(
    lanes: int, group: int, instruction: str, a: str, b: str, result: str = "int32"
) -> tuple[str, str]:
    """C[j] += the products of A[k] and B[j, k]: one instruction, A repeated for every lane."""
    params = [declared("A", a, group), declared("B", b, lanes, group), declared("C", result, lanes)]
    product = _product(result, "A[vk]", "B[vj, vk]")
    desc = _described(params, "dot", {"j": lanes, "k": group}, "vj", product)
    operands = _repeated("A", group, lanes), f"B[{_rows(lanes, group)}]"
    update = _update(_every(lanes), f"{result}x{lanes}", instruction, *operands)
    return desc, program(params, update)


def _dot_tile(
    rows: int, vectors: int, lanes: int, group: int, instruction: str, a: str, b: str
) -> tuple[str, str]:
    """C[i, j] += the products of A[i, k] and B[j // lanes, 0, j % lanes, k] on registers.

    B is packed: `group` neighbours in k of `lanes` columns stand together.
    """
    desc, params = _packed_dot(rows, vectors, lanes, group, 1, a, b)
    at = f"i, {_every(lanes, f'j * {lanes}')}"
    operands = _repeated("A", group, lanes, "i"), f"B[j, 0, {_rows(lanes, group)}]"
    update = _update(at, f"int32x{lanes}", instruction, *operands)
    return desc, _on_registers(params, rows, vectors, update)


def _dot_lane_tile(
    rows: int, vectors: int, lanes: int, group: int, instruction: str, a: str, b: str
) -> tuple[str, str]:
    """As `dot_tile` for a vector of `lanes` groups of A, one of which the instruction picks."""
    desc, params = _packed_dot(rows, vectors, lanes, group, lanes, a, b)
    at, of = f"i, {_every(lanes, f'j * {lanes}')}", f"A[i, {_every(lanes * group)}]"
    box = _rows(lanes, group)
    updates = [
        _update(at, f"int32x{lanes}", instruction, f"B[j, {k}, {box}]", of, f"T.int32({k})")
        for k in range(lanes)
    ]
    return desc, _on_registers(params, rows, vectors, *updates)


def _packed_dot(
    rows: int, vectors: int, lanes: int, group: int, groups: int, a: str, b: str
) -> tuple[str, list[str]]:
    """The description of a tile of a product of integer matrices, and its parameters."""
    n, depth = vectors * lanes, groups * group
    params = [declared("A", a, rows, depth), declared("B", b, vectors, groups, lanes, group)]
    params.append(declared("C", "int32", rows, n))
    outer, inner = (f"vk // {group}", f"vk % {group}") if groups > 1 else ("0", "vk")
    packed = f"B[vj // {lanes}, {outer}, vj % {lanes}, {inner}]"
    axes = {"i": rows, "j": n, "k": depth}
    product = _product("int32", "A[vi, vk]", packed)
    return _described(params, "dot", axes, "vi, vj", product), params


def _matrix(m: int, n: int, k: int, instruction: str, a: str, b: str) -> tuple[str, str]:
    """C[i, j] += the products of A[i, k] and B[j, k], by one instruction on whole matrices."""
    params = [declared("A", a, m, k), declared("B", b, n, k), declared("C", "int32", m, n)]
    product = _product("int32", "A[vi, vk]", "B[vj, vk]")
    desc = _described(params, "dot", {"i": m, "j": n, "k": k}, "vi, vj", product)
    operands = f"A[{_rows(m, k)}]", f"B[{_rows(n, k)}]"
    return desc, program(params, _update(_rows(m, n), f"int32x{m * n}", instruction, *operands))


def _repeated(buffer: str, group: int, lanes: int, *outer: str) -> str:
    """The first elements of a row, once for every lane."""
    few = f"{buffer}[{', '.join([*outer, _every(group)])}]"
    return f"T.shuffle({few}, {few}, {tuple(range(group)) * lanes!r})"


def _rows(lanes: int, group: int) -> str:
    """The indices of a box of `lanes` rows of `group` elements: neighbours where it is packed."""
    every = _every(lanes * group)
    return f"{every} // {group}, {every} % {group}"
