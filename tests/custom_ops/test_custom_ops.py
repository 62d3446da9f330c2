"""Operators of the user's own."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import te
from smelt.ir.errors import CompileError, ScheduleError, SmeltError, TypeMismatch
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.types import tensor_type
from smelt.relax.interpret import interpret
from smelt.relax.nodes import Function, Var, call, constant
from smelt.topi import registry

Tensor = te.Tensor
PROGRAM = Path(__file__).with_name("program.py")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Operators that a test defines are gone afterwards."""
    before = dict(registry._OPS)
    yield
    registry._OPS.clear()
    registry._OPS.update(before)


def module(name: str, *shapes: tuple[Any, ...], **attrs: Any) -> IRModule:
    params = [Var(f"x{i}", tensor_type(s, "float32")) for i, s in enumerate(shapes)]
    return IRModule({"main": Function(tuple(params), call(name, *params, **attrs))})


def script(text: str, cache: Path) -> str:
    env = {**os.environ, "SMELT_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)], capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_script_with_operators_of_its_own(tmp_path: Path) -> None:
    env = {**os.environ, "SMELT_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, str(PROGRAM)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "elementwise": [True, ["fused_negative_leaky_tanh"]],
        "reduction": [True, ["fused_sum_of_squares_sqrt"]],
        "two results": [True, ["halves"]],
        "with a rule": [True, ["fused_product_relu"]],
        "scheduled": 1,
    }


def test_the_cache_knows_the_body(tmp_path: Path) -> None:
    text = """
        import numpy as np, smelt
        from smelt import te
        from smelt.ir.module import IRModule
        from smelt.ir.types import tensor_type
        from smelt.relax.nodes import Function, Var, call

        @smelt.op
        def mine(x):
            return te.compute(x.shape, lambda i: x[i] BODY, name="mine")

        x = Var("x", tensor_type((4,), "float32"))
        exe = smelt.compile(IRModule({"main": Function((x,), call("mine", x))}))
        print(exe(np.arange(4, dtype="float32")).numpy().tolist())
    """
    assert script(text.replace("BODY", "+ 1.0"), tmp_path) == "[1.0, 2.0, 3.0, 4.0]\n"
    assert script(text.replace("BODY", "* 2.0"), tmp_path) == "[0.0, 2.0, 4.0, 6.0]\n"
    assert script(text.replace("BODY", "+ 1.0"), tmp_path) == "[1.0, 2.0, 3.0, 4.0]\n"
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) >= 4


@pytest.mark.parametrize("level", [0, 3])
def test_open_sizes_and_attributes(level: int) -> None:
    @smelt.op
    def scaled(x: Tensor, *, by: float) -> Any:
        return te.compute(x.shape, lambda *i: x[i] * by, name="scaled")

    mod = module("scaled", (SizeVar("n"), 3), by=2.5)
    exe = smelt.compile(mod, options=Options(opt_level=level))
    for n in (1, 5):
        x = np.random.default_rng(n).standard_normal((n, 3)).astype("float32")
        assert np.allclose(exe(x).numpy(), 2.5 * x)


def test_the_interpreter_knows_them() -> None:
    @smelt.op
    def both(x: Tensor, y: Tensor, *, by: float = 2.0) -> Any:
        k = te.reduce_axis((0, x.shape[1]), name="k")
        total = te.compute((x.shape[0],), lambda i: te.sum(x[i, k] * y[k], axis=k), name="total")
        return total, te.compute(x.shape, lambda *i: x[i] * by, name="scaled"), x

    a = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    b = np.random.default_rng(1).standard_normal(4).astype("float32")
    mod = module("both", (3, 4), (4,), by=3.0)
    exact = interpret(mod["main"], a, b)
    for found in (exact, smelt.compile(mod)(a, b)):
        for x, want in zip(found, (a @ b, 3 * a, a), strict=True):
            assert np.allclose(np.asarray(x), want, atol=1e-6)


def test_a_cell_that_runs_again_takes_its_old_place() -> None:
    def define(factor: float) -> IRModule:
        @smelt.op
        def again(x: Tensor) -> Any:
            return te.compute(x.shape, lambda *i: x[i] * factor, name="again")

        return module("again", (3,))

    x = np.ones(3, "float32")
    two, three = define(2.0), define(3.0)
    assert float(smelt.compile(three)(x)[0]) == 3
    assert float(smelt.compile(two)(x)[0]) == 2  # a graph keeps what it was made of


def test_the_rule_says_how(tmp_path: Path) -> None:
    @smelt.op
    def rows(x: Tensor) -> Any:
        return te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="rows")

    @rows.schedule
    def rule(sch: Any, machine: Any) -> None:
        i, j = sch.get_loops(sch.get_block("rows"))
        sch.unroll(i)
        sch.vectorize(j)

    mod = module("rows", (4, 8))
    text = smelt.stage_text(mod, "scheduled")
    assert "T.unroll(4)" in text
    assert "T.vectorized(8)" in text
    assert "T.unroll" not in smelt.stage_text(mod, "tir")
    exe = smelt.compile(mod, options=Options(dump_dir=tmp_path))
    assert np.array_equal(exe(np.zeros((4, 8), "float32")).numpy(), np.ones((4, 8)))
    assert "sch.unroll" in next(tmp_path.rglob("*trace*")).read_text()


def test_a_rule_may_lay_constants_out() -> None:
    @smelt.op
    def weighted(x: Tensor, w: Tensor) -> Any:
        return te.compute(x.shape, lambda i, j: x[i, j] * w[j, i], name="weighted")

    @weighted.schedule
    def rule(sch: Any, machine: Any) -> None:
        sch.transform_layout("weighted", "p1", lambda i, j: (j, i))

    x = Var("x", tensor_type((4, 6), "float32"))
    w = np.random.default_rng(1).standard_normal((6, 4)).astype("float32")
    given = np.random.default_rng(2).standard_normal((4, 6)).astype("float32")
    body = call("weighted", x, constant(w, "w"))
    exe = smelt.compile(IRModule({"main": Function((x,), body)}))
    assert np.allclose(exe(given).numpy(), given * w.T)
    v = Var("w", tensor_type((6, 4), "float32"))
    with pytest.raises(ScheduleError) as caught:
        smelt.compile(IRModule({"main": Function((x, v), call("weighted", x, v))}))
    assert str(caught.value) == (
        "the schedule of weighted: transform_layout of p1, which is no constant: its order in "
        "memory is settled"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_constants_in_layouts_of_a_rule_are_exported(
    dtype: str, suffix: str, tmp_path: Path
) -> None:
    @smelt.op
    def picked(x: Tensor, w: Tensor, v: Tensor) -> Any:
        def element(i: Any, j: Any) -> Any:
            return te.if_then_else(w[j, 0, i] == v[i, j], x[i, j], w[j, 0, i])

        return te.compute(x.shape, element, name="picked")

    @picked.schedule
    def rule(sch: Any, machine: Any) -> None:
        sch.transform_layout("picked", "p1", lambda i, one, j: (i // 4, j, i % 4), pad_value=1)
        sch.transform_layout("picked", "p1", lambda a, j, b: (j, a, b))
        sch.transform_layout("picked", ("read", 1), lambda i, j: (j, i))

    x = Var("x", tensor_type((4, 6), dtype))
    random = np.random.default_rng(1)
    w, v, given = [random.integers(0, 2, s).astype(dtype) for s in ((6, 1, 4), (4, 6), (4, 6))]
    body = call("picked", x, constant(w, "w"), constant(v, "v"))
    exe = smelt.compile(IRModule({"main": Function((x,), body)}))
    expected = np.where(v == w[:, 0].T, given, w[:, 0].T)
    assert np.array_equal(exe(given).numpy(), expected)
    file = tmp_path / f"picked{suffix}"
    exe.export_library(file)
    assert np.array_equal(smelt.load(file)(given).numpy(), expected)


def test_a_rule_may_not_lay_results_out() -> None:
    @smelt.op
    def plain(x: Tensor) -> Any:
        return te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="plain")

    @plain.schedule
    def rule(sch: Any, machine: Any) -> None:
        sch.transform_layout("plain", ("write", 0), lambda i, j: (j, i))

    with pytest.raises(ScheduleError) as caught:
        smelt.compile(module("plain", (4, 6)))
    assert str(caught.value) == (
        "the schedule of plain: transform_layout of plain, which is no constant: its order in "
        "memory is settled"
    )


def bad_loop(sch: Any, machine: Any) -> None:
    sch.get_block("roows")


def bad_python(sch: Any, machine: Any) -> None:
    sch.get_loops(sch.get_block("rows"))[7]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (bad_loop, "the schedule of rows: get_block(name='roows'): kernel has no block"),
        (bad_python, "the schedule of rows failed: IndexError: list index out of range"),
    ],
)
def test_errors_of_a_rule_name_the_operator(rule: Any, text: str) -> None:
    @smelt.op
    def rows(x: Tensor) -> Any:
        return te.compute(x.shape, lambda i, j: x[i, j] + 1.0, name="rows")

    rows.schedule(rule)
    with pytest.raises(ScheduleError) as caught:
        smelt.compile(module("rows", (4, 8)))
    assert str(caught.value).startswith(text)


def test_errors_of_a_body_name_operator_and_operands() -> None:
    @smelt.op
    def wrong(x: Any, y: Tensor) -> Any:
        if x.shape[0].value > 3:
            return te.compute(x.shape, lambda i: x[i] + y[i, 0], name="wrong")
        return x.nothing

    @smelt.op
    def plain(x: Tensor) -> Any:
        return 3

    with pytest.raises(SmeltError) as caught:
        module("wrong", (4,), (4,))
    assert str(caught.value).startswith("wrong: ")
    assert str(caught.value).endswith("\n  operands: x float32[4]; y float32[4]")
    with pytest.raises(TypeMismatch) as failed:
        module("wrong", (3,), (3,))
    first, last = str(failed.value).splitlines()
    assert first.startswith("wrong: its body failed: AttributeError: ")
    assert last == "  operands: x float32[3]; y float32[3]"
    with pytest.raises(TypeMismatch) as gives:
        module("plain", (3,))
    assert str(gives.value) == (
        "plain: its body gives a int; legal: a te.Tensor, or several in a tuple\n"
        "  operands: x float32[3]"
    )


def test_names_are_given_once() -> None:
    with pytest.raises(CompileError) as caught:

        @smelt.op(name="relu")
        def mine(x: Tensor) -> Any:
            return x

    assert str(caught.value) == (
        "the operator 'relu' is smelt's own; give yours another name: @smelt.op(name=\"...\")"
    )

    @smelt.op(name="taken")
    def first(x: Tensor) -> Any:
        return x

    with pytest.raises(CompileError, match="the operator 'taken' is defined in "):

        @smelt.op(name="taken")
        def second(x: Tensor) -> Any:
            return x


def test_what_an_operator_cannot_be() -> None:
    with pytest.raises(CompileError, match="no kind 'elementwize'; nearest: elementwise; kinds: "):
        smelt.op(kind="elementwize")
    with pytest.raises(CompileError, match="the parameter 'slope' is no operand; attributes are"):

        @smelt.op
        def f(x: Tensor, slope: float = 0.1) -> Any:
            return x

    with pytest.raises(CompileError, match="relu is smelt's own operator"):
        registry.get_op("relu").schedule(bad_loop)

    @smelt.op
    def g(x: Tensor) -> Any:
        return x

    with pytest.raises(CompileError, match=r"g.schedule: a int is given; a function \(sch, mach"):
        g.schedule(3)  # type: ignore[arg-type]
