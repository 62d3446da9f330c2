"""Program texts that instructions of several processors share, by lanes and types.

Meanings have the operands c (the accumulator), a, b and the result r. Tiles have the operands A, B
and the result C, which they add to, so that a loop nest updates in place.
"""

from __future__ import annotations

from collections.abc import Sequence


def declared(name: str, dtype: str, *shape: int) -> str:
    """A parameter, e.g. `A: T.Buffer((16, 4), "int8")`."""
    return f'{name}: T.Buffer({shape!r}, "{dtype}")'


def program(params: Sequence[str], *lines: str) -> str:
    """A program of some parameters and lines (each with its own indentation)."""
    body = "".join([f"    {line}\n" for line in lines])
    return f"@T.prim_func\ndef tile({', '.join(params)}):\n{body}"


# ------------------------------------------------------------------------------------- meanings


def fma_meaning(lanes: int, dtype: str = "float32") -> str:
    """r = c + a * b in every lane, rounded once."""
    return program(
        [declared(n, dtype, lanes) for n in "cabr"],
        f"for i in range({lanes}):",
        "    r[i] = T.fma(a[i], b[i], c[i])",
    )


def dot_meaning(lanes: int, group: int, a: str, b: str, result: str = "int32") -> str:
    """Every lane of r is that of c plus the products of `group` neighbours of a and b."""
    return program(
        [
            declared("c", result, lanes),
            declared("a", a, lanes * group),
            declared("b", b, lanes * group),
            declared("r", result, lanes),
        ],
        f"for i in range({lanes}):",
        "    r[i] = c[i]",
        f"    for k in range({group}):",
        f'        r[i] = r[i] + T.cast("{result}", a[i * {group} + k])'
        f' * T.cast("{result}", b[i * {group} + k])',
    )


def matrix_meaning(m: int, n: int, k: int, a: str, b: str, result: str = "int32") -> str:
    """r = c + a b^T for matrices [m, k] and [n, k] in row-major order."""
    return program(
        [
            declared("c", result, m * n),
            declared("a", a, m * k),
            declared("b", b, n * k),
            declared("r", result, m * n),
        ],
        f"for i in range({m}):",
        f"    for j in range({n}):",
        f"        r[i * {n} + j] = c[i * {n} + j]",
        f"        for k in range({k}):",
        f"            r[i * {n} + j] = r[i * {n} + j]"
        f' + T.cast("{result}", a[i * {k} + k]) * T.cast("{result}", b[j * {k} + k])',
    )


def scaled_meaning(lanes: int, a: str, result: str) -> str:
    """r = c + a * b for one a and vectors b and c; floats are rounded once."""
    update = "T.fma(a[0], b[i], c[i])"
    if a != result:
        update = f'c[i] + T.cast("{result}", a[0]) * T.cast("{result}", b[i])'
    return program(
        [
            declared("c", result, lanes),
            declared("a", a, 1),
            declared("b", a, lanes),
            declared("r", result, lanes),
        ],
        f"for i in range({lanes}):",
        f"    r[i] = {update}",
    )


# ---------------------------------------------------------------------------------------- tiles


def fma_row(
    lanes: int, instruction: str, a: str = "float32", result: str = "float32", scalar: bool = False
) -> tuple[str, str]:
    """C[j] += A[0] * B[j], by one instruction.

    scalar  whether the instruction takes A as a scalar rather than in every lane
    """
    params = [declared("A", a, 1), declared("B", a, lanes), declared("C", result, lanes)]
    product = "A[0] * B[vj]"
    if a != result:
        product = f'T.cast("{result}", A[0]) * T.cast("{result}", B[vj])'
    desc = program(
        params,
        f"for j in range({lanes}):",
        '    with T.block("fma"):',
        f"        vj = T.axis.spatial({lanes}, j)",
        f"        C[vj] = C[vj] + {product}",
    )
    every = f"T.ramp(0, 1, {lanes})"
    factor = "A[0]" if scalar else f"T.broadcast(A[0], {lanes})"
    impl = program(
        params,
        f'C[{every}] = T.call_instruction("{result}x{lanes}", "{instruction}", '
        f"C[{every}], {factor}, B[{every}])",
    )
    return desc, impl


def fma_tile(
    rows: int, vectors: int, lanes: int, instruction: str, dtype: str = "float32"
) -> tuple[str, str]:
    """C[i, j] += A[i, 0] * B[0, j]: an outer product on a tile of registers.

    rows, vectors  the tile is rows x (vectors * lanes) elements of C
    """
    n = vectors * lanes
    params = [
        declared("A", dtype, rows, 1),
        declared("B", dtype, 1, n),
        declared("C", dtype, rows, n),
    ]
    desc = program(
        params,
        f"for i, j in T.grid({rows}, {n}):",
        '    with T.block("fma"):',
        f"        vi = T.axis.spatial({rows}, i)",
        f"        vj = T.axis.spatial({n}, j)",
        "        C[vi, vj] = C[vi, vj] + A[vi, 0] * B[0, vj]",
    )
    at = f"T.ramp(j * {lanes}, 1, {lanes})"
    impl = program(
        params,
        f"for i in T.unroll({rows}):",
        f"    for j in T.unroll({vectors}):",
        f'        C[i, {at}] = T.call_instruction("{dtype}x{lanes}", "{instruction}", '
        f"C[i, {at}], T.broadcast(A[i, 0], {lanes}), B[0, {at}])",
    )
    return desc, impl


def fma_lane_tile(
    rows: int, vectors: int, lanes: int, instruction: str, dtype: str = "float32"
) -> tuple[str, str]:
    """C[i, j] += A[i, k] * B[k, j] for as many k as a vector of A has lanes, one lane a time."""
    n = vectors * lanes
    params = [
        declared("A", dtype, rows, lanes),
        declared("B", dtype, lanes, n),
        declared("C", dtype, rows, n),
    ]
    desc = program(
        params,
        f"for i, j, k in T.grid({rows}, {n}, {lanes}):",
        '    with T.block("fma"):',
        f"        vi = T.axis.spatial({rows}, i)",
        f"        vj = T.axis.spatial({n}, j)",
        f"        vk = T.axis.reduce({lanes}, k)",
        "        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]",
    )
    at = f"T.ramp(j * {lanes}, 1, {lanes})"
    updates = [
        f'        C[i, {at}] = T.call_instruction("{dtype}x{lanes}", "{instruction}", '
        f"C[i, {at}], B[{k}, {at}], A[i, T.ramp(0, 1, {lanes})], T.int32({k}))"
        for k in range(lanes)
    ]
    impl = program(
        params, f"for i in T.unroll({rows}):", f"    for j in T.unroll({vectors}):", *updates
    )
    return desc, impl


def dot(length: int, instruction: str, a: str, b: str, result: str = "int32") -> tuple[str, str]:
    """C[0] += the products of A[k] and B[k], by one instruction that adds to a scalar."""
    params = [declared("A", a, length), declared("B", b, length), declared("C", result, 1)]
    desc = program(
        params,
        f"for k in range({length}):",
        '    with T.block("dot"):',
        f"        vk = T.axis.reduce({length}, k)",
        f'        C[0] = C[0] + T.cast("{result}", A[vk]) * T.cast("{result}", B[vk])',
    )
    every = f"T.ramp(0, 1, {length})"
    impl = program(
        params,
        f'C[0] = T.call_instruction("{result}", "{instruction}", C[0], A[{every}], B[{every}])',
    )
    return desc, impl


def dot_row(
    lanes: int, group: int, instruction: str, a: str, b: str, result: str = "int32"
) -> tuple[str, str]:
    """C[j] += the products of A[k] and B[j, k]: one instruction, A repeated for every lane."""
    params = [declared("A", a, group), declared("B", b, lanes, group), declared("C", result, lanes)]
    desc = program(
        params,
        f"for j, k in T.grid({lanes}, {group}):",
        '    with T.block("dot"):',
        f"        vj = T.axis.spatial({lanes}, j)",
        f"        vk = T.axis.reduce({group}, k)",
        f'        C[vj] = C[vj] + T.cast("{result}", A[vk]) * T.cast("{result}", B[vj, vk])',
    )
    every = f"T.ramp(0, 1, {lanes})"
    impl = program(
        params,
        f'C[{every}] = T.call_instruction("{result}x{lanes}", "{instruction}", '
        f"C[{every}], {_repeated('A', group, lanes)}, B[{_rows(lanes, group)}])",
    )
    return desc, impl


def dot_tile(
    rows: int, vectors: int, lanes: int, group: int, instruction: str, a: str, b: str
) -> tuple[str, str]:
    """C[i, j] += the products of A[i, k] and B[j // lanes, 0, j % lanes, k] on registers.

    B is packed: `group` neighbours in k of `lanes` columns stand together.
    """
    desc, params = _packed_dot(rows, vectors, lanes, group, 1, a, b)
    at = f"T.ramp(j * {lanes}, 1, {lanes})"
    impl = program(
        params,
        f"for i in T.unroll({rows}):",
        f"    for j in T.unroll({vectors}):",
        f'        C[i, {at}] = T.call_instruction("int32x{lanes}", "{instruction}", '
        f"C[i, {at}], {_repeated('A', group, lanes, 'i')}, B[j, 0, {_rows(lanes, group)}])",
    )
    return desc, impl


def dot_lane_tile(
    rows: int, vectors: int, lanes: int, group: int, instruction: str, a: str, b: str
) -> tuple[str, str]:
    """As `dot_tile` for a vector of `lanes` groups of A, one of which the instruction picks."""
    desc, params = _packed_dot(rows, vectors, lanes, group, lanes, a, b)
    at = f"T.ramp(j * {lanes}, 1, {lanes})"
    updates = [
        f'        C[i, {at}] = T.call_instruction("int32x{lanes}", "{instruction}", C[i, {at}], '
        f"B[j, {k}, {_rows(lanes, group)}], A[i, T.ramp(0, 1, {lanes * group})], T.int32({k}))"
        for k in range(lanes)
    ]
    impl = program(
        params, f"for i in T.unroll({rows}):", f"    for j in T.unroll({vectors}):", *updates
    )
    return desc, impl


def _packed_dot(
    rows: int, vectors: int, lanes: int, group: int, groups: int, a: str, b: str
) -> tuple[str, list[str]]:
    """The description of a tile of a product of integer matrices, and its parameters."""
    n, depth = vectors * lanes, groups * group
    params = [
        declared("A", a, rows, depth),
        declared("B", b, vectors, groups, lanes, group),
        declared("C", "int32", rows, n),
    ]
    k = f"vk // {group}" if groups > 1 else "0"
    rest = f"vk % {group}" if groups > 1 else "vk"
    desc = program(
        params,
        f"for i, j, k in T.grid({rows}, {n}, {depth}):",
        '    with T.block("dot"):',
        f"        vi = T.axis.spatial({rows}, i)",
        f"        vj = T.axis.spatial({n}, j)",
        f"        vk = T.axis.reduce({depth}, k)",
        '        C[vi, vj] = C[vi, vj] + T.cast("int32", A[vi, vk])'
        f' * T.cast("int32", B[vj // {lanes}, {k}, vj % {lanes}, {rest}])',
    )
    return desc, params


def matrix(m: int, n: int, k: int, instruction: str, a: str, b: str) -> tuple[str, str]:
    """C[i, j] += the products of A[i, k] and B[j, k], by one instruction on whole matrices."""
    params = [declared("A", a, m, k), declared("B", b, n, k), declared("C", "int32", m, n)]
    desc = program(
        params,
        f"for i, j, k in T.grid({m}, {n}, {k}):",
        '    with T.block("dot"):',
        f"        vi = T.axis.spatial({m}, i)",
        f"        vj = T.axis.spatial({n}, j)",
        f"        vk = T.axis.reduce({k}, k)",
        '        C[vi, vj] = C[vi, vj] + T.cast("int32", A[vi, vk]) * T.cast("int32", B[vj, vk])',
    )
    impl = program(
        params,
        f'C[{_rows(m, n)}] = T.call_instruction("int32x{m * n}", "{instruction}", '
        f"C[{_rows(m, n)}], A[{_rows(m, k)}], B[{_rows(n, k)}])",
    )
    return desc, impl


def _repeated(buffer: str, group: int, lanes: int, *outer: str) -> str:
    """The first elements of a row, once for every lane."""
    few = f"{buffer}[{', '.join([*outer, f'T.ramp(0, 1, {group})'])}]"
    return f"T.shuffle({few}, {few}, {tuple(range(group)) * lanes!r})"


def _rows(lanes: int, group: int) -> str:
    """The indices of a box of `lanes` rows of `group` elements: neighbours where it is packed."""
    every = f"T.ramp(0, 1, {lanes * group})"
    return f"{every} // {group}, {every} % {group}"
