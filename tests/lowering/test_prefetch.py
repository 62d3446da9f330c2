"""Loops that ask for what they come to later: how it reads, and that it changes nothing."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from smelt import te
from smelt.codegen.c import c_source
from smelt.codegen.llvm_text import emit_module
from smelt.ir.errors import VerifyError
from smelt.lowering.prefetch import inject_prefetch
from smelt.target import Target
from smelt.tir.nodes import For, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.tir.script_ops import PREFETCH
from smelt.tir.verify import verify

from .programs import every_pass_keeps_the_result

ROWS = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((64,), "float32")):
    for j in T.serial(4, annotations={"prefetch": {"A": 1}}):
        for k in range(64):
            C[T.ramp(j * 16, 1, 16)] = C[T.ramp(j * 16, 1, 16)] + A[T.ramp(k * 64 + j * 16, 1, 16)]
"""

ASKING = """
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((64,), "float32")):
    for j in range(4):
        for k in range(64):
            T.evaluate(T.call("int32", "prefetch", T.address_of(A[k * 64 + (j + 1) * 16])))
            C[T.ramp(j * 16, 1, 16)] = C[T.ramp(j * 16, 1, 16)] + A[T.ramp(k * 64 + j * 16, 1, 16)]
"""


def test_the_innermost_loop_asks_for_what_the_annotated_one_comes_to() -> None:
    assert script(inject_prefetch(parse(ROWS))).strip() == ASKING.strip()


def test_a_line_is_asked_for_once() -> None:
    source = ROWS.replace("16)] = C", "8)] = C").replace(", 1, 16)", ", 1, 8)")
    more = "            C[T.ramp(j * 16 + 8, 1, 8)] = A[T.ramp(k * 64 + j * 16 + 8, 1, 8)]\n"
    twice = source.replace("            C[", f"{more}            C[")
    assert twice.count("A[T.ramp") == 2
    assert script(inject_prefetch(parse(twice))).count("prefetch") == 1
    short = twice.replace('{"A": 1}', '{"A": [1, 1, 32]}')  # lines of eight elements
    assert script(inject_prefetch(parse(short))).count("prefetch") == 2


TILES = """
@T.prim_func
def main(A: T.Buffer((1024,), "float32"), C: T.Buffer((192,), "float32")):
    for j in T.serial(4, annotations={"prefetch": {"A": [1, 2, 64, 3]}}):
        if j < 3:
            for i in range(3):
                for k in range(64):
                    C[i * 64 + k] = C[i * 64 + k] + A[j * 256 + k * 4]
        else:
            for i_1 in range(2):
                for k_1 in range(64):
                    C[i_1 * 64 + k_1] = C[i_1 * 64 + k_1] + A[j * 256 + k_1 * 4]
"""


def test_each_turn_asks_for_its_part() -> None:
    text = script(inject_prefetch(parse(TILES)))
    asked = re.findall(r"address_of\(A\[(.*?)\]\), T.int32\(2\)", text)
    first, then = asked
    places = {eval(first, {"j": 0, "i": i, "k": k}) for i in range(3) for k in range(64)}
    assert places == {256 + 4 * k for k in range(64 - 64 % 3)} | {256 + 4 * 63}
    assert "//" not in then  # not so many turns: each asks for all


def test_an_unknown_number_of_turns_asks_for_the_last_part_again() -> None:
    source = TILES.replace("(1024,)", "(n,)").replace("):\n    for j", ", n: T.int64):\n    for j")
    text = script(inject_prefetch(parse(source.replace("range(3)", "range(n)"))))
    first, _ = re.findall(r"address_of\(A\[(.*?)\]\), T.int32\(2\)", text)
    known = {"T": SimpleNamespace(min=min), "j": 0}
    places = {eval(first, known | {"i": i, "k": k}) for i in range(9) for k in range(64)}
    assert places == {256 + 4 * k for k in range(64 - 64 % 3)} | {256 + 4 * 63}


@pytest.mark.parametrize(
    "source",
    [ROWS.replace('{"A": 1}', '{"C": 1}').replace("j * 16", "k"),  # the same for each of them
     ROWS.replace('{"A": 1}', '{"B": 1}')],  # a hint about what is not there
)  # fmt: skip
def test_what_does_not_move_is_not_asked_for(source: str) -> None:
    done = inject_prefetch(parse(source))
    assert PREFETCH not in script(done)
    assert not any(s.annotations for s in walk(done.body) if isinstance(s, For))


def product(n: int) -> PrimFunc:
    """Three rows times n columns."""
    x, w = te.placeholder((3, 20), name="X"), te.placeholder((20, n), name="W")
    k = te.reduce_axis((0, 20), "k")
    y = te.compute((3, n), lambda i, j: te.sum(x[i, k] * w[k, j], axis=[k]), name="Y")
    return te.create_prim_func([x, w, y], "main")


@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize("n", [4, 7, 12])
def test_results_stay(n: int, kind: str) -> None:
    sch = Schedule(product(n))
    i, j, k = sch.get_loops("Y")
    outer, lane = sch.split(j, [None, 4])
    sch.reorder(outer, i, k, lane)
    sch.decompose_reduction("Y", k)
    sch.vectorize(lane)
    sch.annotate(outer, PREFETCH, {"W": 1, "X": 2})
    if kind == "parallel":
        sch.parallel(outer)
    flat = every_pass_keeps_the_result(sch.func, {}, product(n))
    assert ('"prefetch", T.address_of(W' in script(flat)) == (n > 8)


@pytest.mark.parametrize(("asked", "locality"), [("1", 3), ("[1, 1]", 3), ("[1, 2]", 2)])
def test_processors_are_told(asked: str, locality: int) -> None:
    flat = inject_prefetch(parse(ROWS.replace('"A": 1', f'"A": {asked}')))
    text = emit_module([flat], Target("llvm"))
    assert re.search(rf"call void @llvm.prefetch.p0\(ptr \S+, i32 0, i32 {locality}, i32 1\)", text)
    assert re.search(rf"smelt_prefetch\(&A\[.*\], {locality}\);", c_source([flat], Target("c")))


def test_a_cache_that_there_is_not_is_refused() -> None:
    flat = inject_prefetch(parse(ROWS.replace('{"A": 1}', '{"A": [1, 9]}')))
    with pytest.raises(VerifyError, match="prefetch"):
        verify(flat)
