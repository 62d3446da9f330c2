"""Program texts that instructions of several processors share, by lanes and types.

Meanings have the operands c (the accumulator), a, b and the result r. Tiles have the operands A, B
and the result C, which they add to, so that a loop nest updates in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def declared(name: str, dtype: str, *shape: int) -> str:
    """A parameter, e.g. `A: T.Buffer((16, 4), "int8")`."""
    return f'{name}: T.Buffer({shape!r}, "{dtype}")'


def program(params: Sequence[str], *lines: str) -> str:
    """A program of some parameters and lines (each with its own indentation)."""
    body = "".join([f"    {line}\n" for line in lines])
    return f"@T.prim_func\ndef tile({', '.join(params)}):\n{body}"


def _product(result: str, a: str, b: str) -> str:
    """Two factors multiplied in the type of the result."""
    return f'T.cast("{result}", {a}) * T.cast("{result}", {b})'


# ------------------------------------------------------------------------------------- meanings


def _meaning(
    c: tuple[str, int], a: tuple[str, int], b: tuple[str, int], *lines: str, picked: str = "i"
) -> str:
    """r from c, a and b, each of a type and a length. picked: as of `fma_meaning`."""
    params = [declared(n, *of) for n, of in (("c", c), ("a", a), ("b", b))]
    params += ["lane: T.int32"] * (picked == "lane")
    return program([*params, declared("r", *c)], *lines)


def fma_meaning(lanes: int, dtype: str = "float32", picked: str = "i") -> str:
    """r = c + a * b in every lane, rounded once.

    picked  the lane of b: "i", the one that is computed, or "lane", which an immediate says
    """
    every = dtype, lanes
    update = f"    r[i] = T.fma(a[i], b[{picked}], c[i])"
    return _meaning(every, every, every, f"for i in range({lanes}):", update, picked=picked)


def dot_meaning(
    lanes: int, group: int, a: str, b: str, result: str = "int32", picked: str = "i"
) -> str:
    """Every lane of r is that of c plus the products of `group` neighbours of a and b.

    picked  the group of b; as of `fma_meaning`
    """
    product = _product(result, f"a[i * {group} + k]", f"b[{picked} * {group} + k]")
    return _meaning(
        (result, lanes),
        (a, lanes * group),
        (b, lanes * group),
        f"for i in range({lanes}):",
        "    r[i] = c[i]",
        f"    for k in range({group}):",
        f"        r[i] = r[i] + {product}",
        picked=picked,
    )


def matrix_meaning(m: int, n: int, k: int, a: str, b: str, result: str = "int32") -> str:
    """r = c + a b^T for matrices [m, k] and [n, k] in row-major order."""
    at = f"i * {n} + j"
    return _meaning(
        (result, m * n),
        (a, m * k),
        (b, n * k),
        f"for i in range({m}):",
        f"    for j in range({n}):",
        f"        r[{at}] = c[{at}]",
        f"        for k in range({k}):",
        f"            r[{at}] = r[{at}] + {_product(result, f'a[i * {k} + k]', f'b[j * {k} + k]')}",
    )


def scaled_meaning(lanes: int, a: str, result: str) -> str:
    """r = c + a * b for one a and vectors b and c; floats are rounded once."""
    fused = "T.fma(a[0], b[i], c[i])"
    update = fused if a == result else f"c[i] + {_product(result, 'a[0]', 'b[i]')}"
    lines = f"for i in range({lanes}):", f"    r[i] = {update}"
    return _meaning((result, lanes), (a, 1), (a, lanes), *lines)


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


def fma_row(
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


def fma_tile(
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


def fma_lane_tile(
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


def dot(length: int, instruction: str, a: str, b: str, result: str = "int32") -> tuple[str, str]:
    """C[0] += the products of A[k] and B[k], by one instruction that adds to a scalar."""
    params = [declared("A", a, length), declared("B", b, length), declared("C", result, 1)]
    desc = _described(params, "dot", {"k": length}, "0", _product(result, "A[vk]", "B[vk]"))
    every = _every(length)
    return desc, program(params, _update("0", result, instruction, f"A[{every}]", f"B[{every}]"))


def dot_row(
    lanes: int, group: int, instruction: str, a: str, b: str, result: str = "int32"
) -> tuple[str, str]:
    """C[j] += the products of A[k] and B[j, k]: one instruction, A repeated for every lane."""
    params = [declared("A", a, group), declared("B", b, lanes, group), declared("C", result, lanes)]
    product = _product(result, "A[vk]", "B[vj, vk]")
    desc = _described(params, "dot", {"j": lanes, "k": group}, "vj", product)
    operands = _repeated("A", group, lanes), f"B[{_rows(lanes, group)}]"
    update = _update(_every(lanes), f"{result}x{lanes}", instruction, *operands)
    return desc, program(params, update)


def dot_tile(
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


def dot_lane_tile(
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


def matrix(m: int, n: int, k: int, instruction: str, a: str, b: str) -> tuple[str, str]:
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
