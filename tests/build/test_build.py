"""smelt.lower and smelt.build: tensor programs that are called on arrays."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.ir.build import minimum
from smelt.ir.build import minimum
from smelt.ir.errors import CompileError, InternalError, VerifyError
from smelt.ir.steps import Step
from smelt.ir.expr import Var
from smelt.ir.transform import PassContext
from smelt.pipeline import LOWER
from smelt.runtime import ExportError, InputError, Module, load_module
from smelt.tir.facts import analyzer_of, sizes_of
from smelt.tir.nodes import Allocate, Block, For, PrimFunc, walk
from smelt.tir.parser import parse
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule

RNG = np.random.default_rng(0)


def affine(m: Any = 7, n: Any = 5, *sizes: Any) -> PrimFunc:
    """C = A * alpha + b."""
    a, b = te.placeholder((m, n), name="A"), te.placeholder((n,), name="b")
    alpha = te.var("alpha", "float32")
    c = te.compute((m, n), lambda i, j: a[i, j] * alpha + b[j], name="C")
    return te.create_prim_func([*sizes, alpha, a, b, c], "affine")


def matmul(n: int = 48) -> Schedule:
    """C = A B, tiled, parallel, vectorised."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    r = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    sch = Schedule(te.create_prim_func([a, b, c], "matmul"))
    i, j, k = sch.get_loops("C")
    i_o, i_i = sch.split(i, [None, 8])
    j_o, j_i = sch.split(j, [None, 16])
    sch.reorder(i_o, j_o, k, i_i, j_i)
    sch.parallel(i_o)
    sch.vectorize(j_i)
    return sch


A, B = RNG.standard_normal((7, 5), np.float32), RNG.standard_normal(5, np.float32)


def test_functions_work_in_place_on_numpy_and_ndarrays() -> None:
    mod = smelt.build(affine())
    c = np.zeros((7, 5), np.float32)
    mod(2.5, A, B, c)
    np.testing.assert_allclose(c, A * 2.5 + B, rtol=1e-6)
    d = smelt.nd.array(np.zeros((7, 5), np.float32))
    mod["affine"](0.5, smelt.nd.array(A), B, d)
    np.testing.assert_allclose(d.numpy(), A * 0.5 + B, rtol=1e-6)


def test_sizes_are_told_by_shapes_or_given() -> None:
    n = te.var("n")
    mod = smelt.build(affine(n, 5, n))
    for rows in (1, 7, 33):
        a = RNG.standard_normal((rows, 5), np.float32)
        c, d = np.zeros_like(a), np.zeros_like(a)
        mod(2.0, a, B, c)
        mod(rows, 2.0, a, B, d)
        np.testing.assert_allclose(c, a * 2 + B, rtol=1e-6)
        np.testing.assert_array_equal(c, d)
    with pytest.raises(InputError) as e:
        mod(8, 2.0, A, B, np.zeros_like(A))
    assert str(e.value) == "affine: the size n is given as 8, but the arrays' shapes say 7"


def test_sizes_that_stand_in_shapes_only() -> None:
    text = """@T.prim_func
def rows(a: T.handle, b: T.handle):
    n = T.{kind}()
    A = T.match_buffer(a, ({extent}, 5), "float32")
    B = T.match_buffer(b, ({extent},), "float32")
    S = T.alloc_buffer((n,), "float32")
    for i, k in T.grid(n, 5):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] += A[vi, vk]
    for i in range(n):
        with T.block("B"):
            vi = T.axis.spatial(n, i)
            B[vi] = S[vi] * 2.0
"""
    for kind in ("int32", "int64"):
        mod = smelt.build(parse(text.format(kind=kind, extent="n")))
        for size in (1, 33):
            a, b = RNG.standard_normal((size, 5), np.float32), np.zeros(size, np.float32)
            mod(a, b)
            np.testing.assert_allclose(b, a.sum(1) * 2, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="3 arguments given, 2 needed"):
        mod(33, a, b)
    with pytest.raises(CompileError, match="(?s)no parameter has the extent n.*legal: a para"):
        smelt.build(parse(text.format(kind="int64", extent="n * 2")))


def test_parallel_schedules_run() -> None:
    mod = smelt.build(matmul())
    a, b = (RNG.standard_normal((48, 48), np.float32) for _ in range(2))
    c = np.zeros_like(a)
    mod(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_large_intermediates_get_a_workspace_per_call() -> None:
    n = te.var("n")
    x = te.placeholder((n, 300), name="x")
    y = te.compute((n, 300), lambda i, j: x[i, j] * 2.0, name="y")
    k = te.reduce_axis((0, 300), "k")
    z = te.compute((n,), lambda i: te.sum(y[i, k] * y[i, 299 - k], axis=k), name="z")
    mod = smelt.build(te.create_prim_func([x, z], "workspace"))
    data = [RNG.standard_normal((rows, 300), np.float32) for rows in (40, 90, 65, 3)]
    outs = [np.zeros(len(d), np.float32) for d in data]
    threads = [threading.Thread(target=mod, args=(d, o)) for d, o in zip(data, outs, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for d, o in zip(data, outs, strict=True):
        np.testing.assert_allclose(o, (4 * d * d[:, ::-1]).sum(1), rtol=1e-3, atol=1e-3)


def test_a_module_of_several_functions() -> None:
    mod = smelt.build(smelt.IRModule({"f": affine(), "main": matmul().func}))
    assert isinstance(mod, Module)
    assert list(mod.functions) == ["f", "main"]
    assert mod.entry_name == "main"
    c = np.zeros((7, 5), np.float32)
    mod["f"](1.0, A, B, c)
    np.testing.assert_allclose(c, A + B, rtol=1e-6)
    with pytest.raises(InputError, match="no function 'man'; nearest: main; functions: f, main"):
        mod["man"]


def test_time_evaluator_measures_seconds() -> None:
    mod = smelt.build(matmul())
    args = [RNG.standard_normal((48, 48), np.float32) for _ in range(3)]
    found = mod.time_evaluator("matmul", smelt.cpu(0), number=3, repeat=4, min_repeat_ms=1)(*args)
    assert len(found.results) == 4
    assert 0 < found.min <= found.median <= found.max < 10
    assert "median (ms)" in str(found)
    with pytest.raises(InputError, match="number is 0; legal: whole numbers from 1"):
        mod.time_evaluator("matmul", number=0)(*args)


def test_a_bound_call_keeps_the_code_it_calls() -> None:
    c = np.zeros((7, 5), np.float32)
    call = smelt.build(affine())["affine"].bind(2.0, A, B, c)  # nobody else holds the module
    gc.collect()
    call()
    assert call.time(100) > 0
    np.testing.assert_allclose(c, A * 2 + B, rtol=1e-6)


def test_sources_can_be_read() -> None:
    mod = smelt.build(matmul())
    assert "@T.prim_func" in mod.get_source()
    assert "define" in mod.get_source("ll")
    assert "smelt_kernel" in mod.get_source("asm")
    with pytest.raises(InputError, match="no source in the format 'c'; formats: tir, ll, asm"):
        mod.get_source("c")


def test_an_exported_function_is_loaded_by_numpy_alone(tmp_path: Path) -> None:
    library = tmp_path / "affine.so"
    n = te.var("n")
    smelt.build(affine(n, 5)).export_library(library, header=True)
    assert (tmp_path / "affine.h").exists()
    program = f"""
import sys
import numpy as np
from smelt.runtime import load_module
mod = load_module({str(library)!r})
a, b, c = np.ones((9, 5), "f"), np.arange(5, dtype="f"), np.zeros((9, 5), "f")
mod(3.0, a, b, c)
assert (c == 3 + b).all()
assert "llvmlite" not in sys.modules
assert mod["affine"].name == "affine"
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(InputError, match="no source in the format 'tir'; formats: none, it was"):
        load_module(library).get_source()


def test_a_library_holds_one_function(tmp_path: Path) -> None:
    mod = smelt.build(smelt.IRModule({"f": affine(), "g": affine()}))
    with pytest.raises(ExportError, match="a library holds one function, the module has f, g"):
        mod.export_library(tmp_path / "two.so")


# ------------------------------------------------------------------------------------------ lower


def test_lower_gives_flat_loops_and_simple_mode_readable_ones() -> None:
    flat = smelt.lower(matmul())["matmul"]
    assert all(len(b.shape) == 1 for b in flat.buffers)
    simple = smelt.lower(matmul(), simple_mode=True)["matmul"]
    assert all(len(b.shape) == 2 for b in simple.buffers)
    assert not any(isinstance(s, Block) for s in walk(simple.body))
    assert any(isinstance(s, For) and s.kind == "parallel" for s in walk(simple.body))


def test_stages_are_dumped(tmp_path: Path) -> None:
    smelt.build(matmul(), options=smelt.Options(dump_dir=tmp_path))
    names = [f.name for f in sorted((tmp_path / "matmul").iterdir())]
    assert names[0].startswith("000_lower_blocks")
    assert "llvm.txt" in names


def test_smelt_check_names_the_pass_that_breaks_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def drop_statements(func: PrimFunc) -> PrimFunc:
        return func.replace(body=next(s.body for s in walk(func.body) if isinstance(s, For)))

    def halve(func: PrimFunc) -> PrimFunc:
        loop = next(s for s in walk(func.body) if isinstance(s, For))
        return func.replace(body=loop.replace(extent=loop.extent // 2))

    assert drop_statements is not halve
    monkeypatch.setenv("SMELT_CHECK", "1")
    smelt.build(affine())
    steps = (*LOWER[:2], Step(halve, "Halve", "wrong"))
    monkeypatch.setattr(sys.modules["smelt.pipeline"], "LOWER", steps)
    with pytest.raises(InternalError, match="the pass halve changed what C holds"):
        smelt.build(affine())


# ----------------------------------------------------------------------------------------- errors


def _bound() -> PrimFunc:
    sch = Schedule(affine())
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    return sch.func


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: smelt.build(_bound()),
            "affine: the loop i is bound to threadIdx.x, and the target llvm has no such threads; "
            "legal: parallel, vectorized, unrolled or serial loops",
        ),
        (
            lambda: smelt.build(cast(Any, 42)),
            "cannot build int; legal: te.Schedule with args, tir Schedule, PrimFunc, IRModule",
        ),
        (
            lambda: smelt.build(affine(), [te.var("n")]),
            "args belong to a te.Schedule; PrimFunc has parameters",
        ),
        (
            lambda: smelt.build(affine(), target="llvm -mtriple=aarch64-linux-gnu"),
            "code for aarch64-linux-gnu cannot run on this machine",
        ),
    ],
)
def test_what_cannot_be_built_says_why(call: Any, text: str) -> None:
    with pytest.raises(CompileError) as e:
        call()
    assert str(e.value) == text


def test_wrong_arguments_are_named() -> None:
    mod = smelt.build(affine())
    c = np.zeros((7, 5), np.float32)
    with pytest.raises(InputError, match="affine: 2 arguments given, 4 needed"):
        mod(A, B)
    with pytest.raises(InputError, match="'C': dtype float64 given, float32 needed"):
        mod(1.0, A, B, c.astype(np.float64))
    with pytest.raises(InputError, match=r"'A': shape \[5, 7\]: dimension 0 is 5, 7 needed"):
        mod(1.0, A.T.copy(), B, c)
    with pytest.raises(InputError, match="needs a contiguous array"):
        mod(1.0, np.zeros((7, 10), np.float32)[:, ::2], B, c)
    c.flags.writeable = False
    with pytest.raises(InputError, match="'C': the array is read-only"):
        mod(1.0, A, B, c)
    assert not c.any()


def test_workspaces_are_not_parameters() -> None:
    flat = smelt.lower(affine())["affine"]
    assert not any(isinstance(s, Allocate) for s in walk(flat.body))


def test_a_pass_context_is_obeyed() -> None:
    seen: list[str] = []

    class Watch:
        def run_before_pass(self, mod: Any, info: Any) -> None:
            seen.append(info.name)

    with PassContext(config={"tir.disable_vectorize": True}, instruments=[Watch()]):
        flat = smelt.lower(matmul())["matmul"]
        mod = smelt.build(matmul())
    assert "T.ramp" not in script(flat)
    assert "VectorizeLoop" in seen
    a, b = (RNG.standard_normal((48, 48), np.float32) for _ in range(2))
    c = np.zeros_like(a)
    mod(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


def test_a_program_with_a_race_is_refused() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for i in T.parallel(8):
        C[0] = C[0] + A[i]
"""
    )
    with pytest.raises(VerifyError, match="race"):
        smelt.build(func)
    smelt.build(func, options=smelt.Options(verify=0))


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize(("start", "combine"), [(0, te.sum), (-np.inf, te.max)])
def test_reductions_of_nothing(split: bool, outside: bool, start: float, combine: Any) -> None:
    """The first value is there before the first turn, in whatever order the loops run."""
    n, k = te.var("n"), te.var("k")
    a, r = te.placeholder((n, k), name="A"), te.reduce_axis((0, k), "r")
    b = te.compute((n,), lambda i: combine(a[i, r], axis=r), name="B")
    s = te.create_schedule(b.op)
    rows, turns = s[b].op.axis[0], r
    if split:
        turns, inner = s[b].split(r, 8)
        s[b].reorder(*((turns, rows, inner) if outside else (rows, turns, inner)))
    elif outside:
        s[b].reorder(turns, rows)
    built = smelt.build(s, [a, b], name="reduced")
    for rows_of, length in ((3, 13), (3, 0), (0, 4), (0, 0)):
        x, y = RNG.random((rows_of, length), np.float32), np.full(rows_of, 7, np.float32)
        built(x, y)
        want = x.sum(1) if combine is te.sum else x.max(1, initial=start)
        np.testing.assert_allclose(y, want, rtol=1e-5)


def test_a_program_runs_where_something_is_written() -> None:
    """What it writes has elements then, and no more is known of its sizes."""
    n, m = Var("n"), Var("m")
    a, b = te.placeholder((n,), name="A"), te.placeholder((m, 3), name="B")
    rows = te.compute((n, m, 3), lambda i, j, k: a[i] + b[j, k], name="C")
    known = sizes_of(te.create_prim_func([a, b, rows], "outer"))
    assert known == {n: 1, m: 1}
    one = te.create_prim_func([a, b, te.compute((m, 3), lambda j, k: b[j, k], name="D")], "one")
    assert sizes_of(one) == {n: 0, m: 1}
    both = te.compute((n + m,), lambda i: te.if_then_else(i < n, a[i], b[i - n, 0]), name="E")
    assert analyzer_of(sizes_of(te.create_prim_func([a, b, both], "both"))).can_prove(
        n * 8 + m * 8 > 0
    )
    rest = te.compute((n - minimum(n, 1),), lambda i: a[i + minimum(n, 1)], name="rest")
    assert analyzer_of(sizes_of(te.create_prim_func([a, rest], "rest"))).bounds(n) == (0, None)
    window = te.compute(((n - 1) // 2 + 1,), lambda i: a[i * 2], name="F")
    assert analyzer_of(sizes_of(te.create_prim_func([a, window], "window"))).can_prove(n >= 1)
    two = te.create_prim_func([a, b, *te.compute((n,), lambda i: (a[i], a[i]), name="G")], "two")
    assert sizes_of(two) == {n: 1, m: 0}
