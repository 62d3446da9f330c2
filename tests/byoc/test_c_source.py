"""External functions in C."""

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import byoc, relay
from smelt.contrib.graph_executor import GraphModule
from smelt.ir.errors import CompileError
from smelt.ir.expr import Var as SizeVar
from smelt.ir.options import Options
from smelt.runtime import RuntimeFailure, cpu, load_module

from .support import (
    NAME,
    SYMBOL,
    affine,
    affine_c,
    affine_python,
    close,
    expected,
    registered,
    two_results,
)

X = np.linspace(-2, 2, 12).reshape(3, 4).astype("float32")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def use(text: str, **more: Any) -> None:
    byoc.register_codegen(NAME)(lambda func, symbol, module: byoc.CSource(text, **more))


@pytest.mark.parametrize("level", [0, 3])
def test_a_function_in_c(level: int) -> None:
    seen = []

    @byoc.register_codegen(NAME)
    def codegen(func: Any, symbol: str, module: Any) -> byoc.CSource:
        seen.append((func.attrs["Compiler"], symbol, symbol in module))
        return byoc.CSource(affine_c(symbol))

    mod = affine()
    exe = smelt.compile(mod, options=Options(opt_level=level))
    close(exe(X), expected(mod, X)[0])
    assert seen == [(NAME, SYMBOL, True)]
    row = next(k for k in exe.profile(X, repeat=1).kernels if k.name == SYMBOL)
    assert (row.ops, row.calls, row.flops) == (("multiply", "add"), 1, None)
    assert not exe.metadata.get("externals")


def test_relay_builds_it_and_optimises_around_it() -> None:
    use(affine_c(SYMBOL))
    mod = affine()
    lib = relay.build(mod)
    assert list(lib.function_metadata) == ["relu", SYMBOL, "fused_tanh_multiply"]
    module = GraphModule(lib["default"](cpu(0)))
    module.run(x=X)
    close(module.get_output(0), expected(mod, X)[0])


def test_it_is_exported(tmp_path: Path) -> None:
    use(affine_c(SYMBOL))
    mod = affine()
    smelt.compile(mod).export_library(tmp_path / "m.so")
    close(load_module(tmp_path / "m.so")(X), expected(mod, X)[0])


def test_operands_are_dense_and_results_several() -> None:
    use(f"""
    int {SYMBOL}(const float *x, float *turned, float *negative) {{
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 3; j++) {{
                turned[4 * j + i] = x[3 * i + j];
                negative[3 * i + j] = -x[3 * i + j];
            }}
        return 0;
    }}""")
    mod = two_results()
    for ours, theirs in zip(smelt.compile(mod)(X), expected(mod, X), strict=True):
        close(ours, theirs)


def test_open_sizes_come_last() -> None:
    use(f"""
    #include <stdint.h>
    int {SYMBOL}(const float *x, const float *b, float *out, int64_t n) {{
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < 4; j++)
                out[4 * i + j] = x[4 * i + j] * x[4 * i + j] + b[j];
        return 0;
    }}""")
    mod = affine(SizeVar("n"))
    text = byoc.signature(mod[SYMBOL], SYMBOL)
    assert text == f"int {SYMBOL}(const float* in0, const float* in1, float* out0, int64_t n)"
    exe = smelt.compile(mod)
    for x in (X, X[:1], np.concatenate([X, X])):
        close(exe(x), expected(mod, x)[0])


def test_constants_are_operands(tmp_path: Path) -> None:
    use(
        f"""
    int {SYMBOL}(const float *x, const float *b, const float *c, const int *k, float *out) {{
        for (int i = 0; i < 12; i++)
            out[i] = x[i] * x[i] + b[i % 4] + c[i % 4] * k[0];
        return 0;
    }}""",
        constants={"c": np.arange(4, dtype="float32"), "k": np.array([3], "int32")},
    )
    mod = affine()
    exe = smelt.compile(mod)
    relu = np.maximum(X, 0)
    b = np.linspace(0, 1, 4).astype("float32")
    want = np.tanh(relu * relu + b + 3 * np.arange(4, dtype="float32")) * 2
    close(exe(X), want)
    exe.export_library(tmp_path / "m.so")
    close(load_module(tmp_path / "m.so")(X), want)


def test_a_status_is_a_failure() -> None:
    use(f"int {SYMBOL}(const float *x, const float *b, float *out) {{ return 5; }}")
    with pytest.raises(RuntimeFailure, match="status 5"):
        smelt.compile(affine())(X)


def test_flags_reach_the_compiler() -> None:
    use(affine_c("HIDDEN_NAME").replace("int64_t i = 0", "int64_t i = START"),
        flags=[f"-DHIDDEN_NAME={SYMBOL}", "-DSTART=0"])  # fmt: skip
    with pytest.raises(CompileError, match="no function of this name"):
        smelt.compile(affine())
    use(affine_c(SYMBOL).replace("int64_t i = 0", "int64_t i = START"), flags=["-DSTART=0"])
    close(smelt.compile(affine())(X), expected(affine(), X)[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int SYMBOL(const float *x, const float *b, float *out) { return y; }", "undeclared"),
        ("int SYMBOL(const float *x, float *out) { return 0; }", "too many arguments"),
        ("void SYMBOL(const float *x, const float *b, float *out) {}", "void value"),
        ("int SYMBOL(const float *x, const float *b, long out) { return 0; }", "integer"),
        ("int other(void) { return 0; }", "has no function of this name"),
    ],
)
def test_what_the_compiler_says_is_shown(text: str, said: str) -> None:
    use(text.replace("SYMBOL", SYMBOL))
    with pytest.raises(CompileError) as caught:
        smelt.compile(affine())
    assert str(caught.value).startswith(f"the back end 'mine': {SYMBOL}: ")
    assert said in str(caught.value)
    declared = f"int {SYMBOL}(const float* in0, const float* in1, float* out0)"
    assert str(caught.value).endswith("called as\n  " + declared)


class Tensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("rank", ctypes.c_int64),
                ("shape", ctypes.c_void_p), ("dtype", ctypes.c_int32))  # fmt: skip


def run_from_c(path: Path, x: Any, y: Any) -> int:
    """One run through the C interface, as a program does that knows nothing of back ends."""
    code = ctypes.CDLL(str(path))
    code.smelt_model_open.restype = ctypes.c_void_p
    info = ctypes.c_byte.in_dll(code, "smelt_model_descriptor")
    model = code.smelt_model_open(ctypes.byref(info))
    assert model
    shape = (ctypes.c_int64 * 2)(*x.shape)
    a, b = (Tensor(v.ctypes.data, 2, ctypes.addressof(shape), (2 << 8) | 32) for v in (x, y))
    run = code.smelt_model_run
    run.argtypes = [ctypes.c_void_p] * 3
    return int(run(model, ctypes.addressof(a), ctypes.addressof(b)))


def test_the_library_runs_without_python(tmp_path: Path) -> None:
    use(affine_c(SYMBOL))
    smelt.compile(affine()).export_library(tmp_path / "m.so")
    y = np.empty_like(X)
    assert run_from_c(tmp_path / "m.so", X, y) == 0
    close(y, expected(affine(), X)[0])


def test_python_code_cannot_run_without_python(tmp_path: Path) -> None:
    byoc.register_codegen(NAME)(lambda func, symbol, module: byoc.Json("{}"))
    byoc.register_runtime(NAME)(affine_python)
    smelt.compile(affine()).export_library(tmp_path / "m.so")
    unsupported = 10
    assert run_from_c(tmp_path / "m.so", X, np.empty_like(X)) == unsupported
