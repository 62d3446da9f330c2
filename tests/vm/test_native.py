"""Programs that decide while they run, in native code: against the Python machine, and what happens
to memory, signals and limits."""

from __future__ import annotations

import copy
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import smelt
from smelt.runtime import ExportError, InputError, RuntimeFailure
from smelt.runtime.dtypes import DTYPE_CODES
from smelt.runtime.native import library
from smelt.runtime.vm import VMExecutable
from tests.models.control_nets import CONTROL

from .support import num, relay, scalar

GROWS = """<ir_version: 9, opset_import: ["" : 20]>
    grows (int64 most, float[k] x) => (float[n] y, float[m] sums)
    {
        go = Constant <value = bool {1}> ()
        y, parts = Loop (most, go, x) <body = turn (int64 i, bool c, float[a] v)
            => (bool d, float[b] w, float[1] s) {
            d = Identity (c)
            axes = Constant <value_ints = [0]> ()
            s = ReduceSum (v, axes)
            w = Concat <axis = 0> (v, s)
        }>
        large = Greater (parts, s0)
        flat = Constant <value_ints = [-1]> ()
        all = Reshape (parts, flat)
        some = Reshape (large, flat)
        sums = Compress (all, some)
    }"""
GROWS = GROWS.replace("large =", "s0 = Constant <value = float {0}> ()\n        large =")
COUNTS = """<ir_version: 9, opset_import: ["" : 20]>
    counts (int64 most, float x) => (float y)
    {
        go = Constant <value = bool {1}> ()
        y = Loop (most, go, x) <body = turn (int64 i, bool c, float v) => (bool d, float w) {
            d = Identity (c)
            one = Constant <value = float {1}> ()
            w = Add (v, one)
        }>
    }"""
PICKS = """<ir_version: 9, opset_import: ["" : 20]>
    picks (float[n, 3] x, int64[2] shape) => (float[a, b] y)
    { y = Reshape (x, shape) }"""


def compiled(text: str) -> VMExecutable:
    made = smelt.compile(onnx.parser.parse_model(text), threads=1)
    assert isinstance(made, VMExecutable)
    assert made.native is not None, made.metadata
    return made


def in_python(exe: VMExecutable) -> VMExecutable:
    """The same program on the Python machine."""
    twin = copy.copy(exe.__dict__)
    made = object.__new__(VMExecutable)
    made.__dict__.update(twin, native=None)
    return made


def listed(made: Any) -> list[np.ndarray]:
    return [v.numpy() for v in (made if isinstance(made, tuple) else (made,))]


@pytest.fixture(scope="module")
def grows() -> VMExecutable:
    return compiled(GROWS)


@pytest.fixture(scope="module")
def counts() -> VMExecutable:
    return compiled(COUNTS)


def wanted(most: int, x: np.ndarray) -> list[np.ndarray]:
    sums = []
    for _ in range(most):
        sums.append(x.sum(dtype=np.float32))
        x = np.append(x, sums[-1])
    return [x, np.array([s for s in sums if s > 0], np.float32)]


@pytest.mark.parametrize("name", CONTROL)
def test_the_python_machine_gives_the_same(name: str) -> None:
    build, inputs = CONTROL[name]
    exe: Any = smelt.compile(build(), threads=1)
    assert exe.native is not None, exe.metadata["python"]
    assert exe.metadata["control"] == "native"
    for feeds in inputs():
        for a, b in zip(listed(exe(feeds)), listed(in_python(exe)(feeds)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_values_grow_in_a_loop(grows: VMExecutable) -> None:
    for most in (0, 1, 2, 7, 40):
        x = np.random.default_rng(most).standard_normal(3).astype("float32")
        y, sums = listed(grows(np.int64(most), x))
        first, second = wanted(most, x)
        np.testing.assert_allclose(y, first, rtol=1e-4)
        np.testing.assert_allclose(sums, second, rtol=1e-4)


def test_several_threads_call_one_program(grows: VMExecutable) -> None:
    def once(n: int) -> bool:
        x = np.full(4, n, "float32")
        y, _ = listed(grows(np.int64(n % 9), x))
        return bool(np.allclose(y, wanted(n % 9, x)[0], rtol=1e-4))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(once, range(400)))


def test_nothing_is_left_behind(grows: VMExecutable) -> None:
    """Random runs, some of which have no memory from some allocation on, or wrong inputs."""
    lib, draw = library(), random.Random(0)
    x = np.ones(5, "float32")
    grows(np.int64(3), x)
    lib.smelt_program_trim()
    before = lib.smelt_blocks()
    failed = 0
    for _ in range(2000):
        most = np.int64(draw.randrange(12))
        lib.smelt_program_fail(draw.choice([0, draw.randrange(1, 60)]))
        said = ""
        try:
            made = grows(most, x)
            assert made[0].shape == (5 + most,)
            del made
        except RuntimeFailure as e:
            said = str(e)
            failed += 1
        assert not said or "no memory for" in said
    lib.smelt_program_fail(0)
    assert 200 < failed < 1900
    lib.smelt_program_trim()
    assert lib.smelt_blocks() == before


def test_arguments_that_do_not_fit(grows: VMExecutable) -> None:
    with pytest.raises(InputError, match=r"grows: input 'x': shape \[2, 2\] given"):
        grows(np.int64(1), np.ones((2, 2), "float32"))
    with pytest.raises(InputError, match="dtype float64 given, float32 needed"):
        grows(np.int64(1), np.ones(2))
    with pytest.raises(InputError, match="1 inputs given, 2 needed"):
        grows(np.int64(1))
    x = np.arange(20, dtype="float32").reshape(2, 10)[:, ::2][0]  # not contiguous
    np.testing.assert_array_equal(listed(grows(most=np.int64(0), x=x))[0], x)
    raw = np.zeros(13, np.uint8)[1:].view("float32")  # not aligned
    np.testing.assert_array_equal(listed(grows(np.int64(0), raw))[0], np.zeros(3, "float32"))


def test_sizes_that_mean_nothing_name_their_node() -> None:
    exe = compiled(PICKS)
    x = np.arange(12, dtype="float32").reshape(4, 3)
    assert listed(exe(x, np.array([2, 6])))[0].shape == (2, 6)
    for shape, text in (([5, 2], r"\[5, 2\], which does not hold 12"), ([-3, -4], "is -3; it has")):
        with pytest.raises(InputError, match=text) as caught:
            exe(x, np.array(shape))
        assert "Reshape" in str(caught.value)
    assert listed(exe(x, np.array([12, 1])))[0].shape == (12, 1)


def test_limits(grows: VMExecutable, counts: VMExecutable) -> None:
    counts.limit(turns=100)
    assert listed(counts(np.int64(99), np.float32(1)))[0] == 100
    with pytest.raises(RuntimeFailure, match="more turns than the limit, which is 100"):
        counts(np.int64(1 << 60), np.float32(1))
    counts.limit()
    assert listed(counts(np.int64(1000), np.float32(0)))[0] == 1000
    grows.limit(memory=1 << 20)
    x = np.ones(1 << 17, "float32")
    with pytest.raises(RuntimeFailure, match=r"grows: the run holds \d+ bytes and needs \d+ more"):
        grows(np.int64(50), x)
    grows.limit()
    assert listed(grows(np.int64(2), x))[0].shape == ((1 << 17) + 2,)
    with pytest.raises(InputError, match="limit: turns is 0; legal: whole numbers from 1"):
        grows.limit(turns=0)
    with pytest.raises(InputError, match="limit: Python runs a part of it"):
        in_python(grows).limit(turns=1)


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TimeoutError("rang")

    old = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_signal_ends_an_endless_loop(counts: VMExecutable) -> None:
    with alarm(0.2), pytest.raises(TimeoutError, match="rang"):
        counts(np.int64(1 << 62), np.float32(1))
    assert listed(counts(np.int64(5), np.float32(1)))[0] == 6


def test_functions_that_call_themselves() -> None:
    """Not at their end: each takes some of the stack."""
    f, n, k = relay.GlobalVar("sum_to"), scalar("n"), scalar("k")
    mod = smelt.relay.IRModule()
    below = relay.subtract(n, num(1))
    mod[f] = relay.Function([n], relay.If(relay.equal(n, num(0)), n, relay.add(n, f(below))))
    mod["main"] = relay.Function([k], f(k))
    exe: Any = smelt.compile(mod)
    assert exe.native is not None
    assert listed(exe(np.int32(500)))[0] == 500 * 501 // 2
    with pytest.raises(RuntimeFailure, match="call each other too deep"):
        exe(np.int32(1_000_000))
    assert listed(exe(np.int32(3)))[0] == 6
    assert in_python(exe)(np.int32(3)).numpy() == 6


def test_functions_in_turns_take_no_stack() -> None:
    even, odd, n, m, k = (relay.GlobalVar("even"), relay.GlobalVar("odd"), scalar("n"),
                          scalar("m"), scalar("k"))  # fmt: skip
    mod = smelt.relay.IRModule()
    for f, p, other, end in ((even, n, odd, 1), (odd, m, even, 0)):
        below = other(relay.subtract(p, num(1)))
        mod[f] = relay.Function([p], relay.If(relay.equal(p, num(0)), num(end), below))
    mod["main"] = relay.Function([k], even(k))
    exe: Any = smelt.compile(mod)
    assert exe.metadata["python"] == ["functions that call each other in turns at their ends"]
    assert exe(np.int32(3001)).numpy() == 0


def test_what_python_has_to_run_is_told() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
        net (string[2] a, string[2] b) => (string[2] c) { c = StringConcat (a, b) }"""
    exe: Any = smelt.compile(onnx.parser.parse_model(text))
    assert exe.native is None
    assert exe.metadata["python"] == ["the operator strings.concat", "texts"]
    with pytest.raises(ExportError, match="a part of it runs in Python"):
        exe.export_library("never.so", header=True)


def test_values_of_many_dimensions_need_python() -> None:
    x, c = relay.var("x", shape=(2, 3)), relay.var("c", shape=(), dtype="bool")
    wide = relay.expand_dims(relay.exp(x), axis=0, num_newaxis=18)
    deep = relay.If(c, wide, relay.negative(wide))
    exe: Any = smelt.compile(relay.Function([x, c], relay.sum(deep)))
    assert exe.metadata["python"] == ["values of more than 16 dimensions"]
    assert exe(np.zeros((2, 3), "float32"), np.array(False)).numpy() == -6


# ---------------------------------------------------------------------------------------- files


def test_a_library_runs_where_there_is_only_numpy(grows: VMExecutable, tmp_path: Path) -> None:
    for name in ("grows.so", "grows.vm", "grows.tar"):
        grows.export_library(tmp_path / name)
    code = f"""
import sys, numpy as np, smelt.runtime
for name in ("grows.so", "grows.vm", "grows.tar"):
    exe = smelt.runtime.load_module({str(tmp_path)!r} + "/" + name)
    assert exe.native is not None
    y, sums = exe(np.int64(2), np.ones(2, "float32"))
    print(y.numpy().tolist(), sums.numpy().tolist())
others = [m for m in sys.modules if m.startswith("smelt.") and not m.startswith("smelt.runtime")]
print([m for m in ("llvmlite", "onnx", *others) if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    line = "[1.0, 1.0, 2.0, 4.0] [2.0, 4.0]"
    assert done.stdout.splitlines() == [line] * 3 + ["[]"], done.stderr


USER = """
#include "grows.h"
#include <stdio.h>
int main(void) {
    smelt_model *model = grows_open();
    if (model == NULL) { printf("%s\\n", smelt_last_error()); return 1; }
    float x[] = {1, 2, 3};
    for (int64_t most = 0; most < 3; most++) {
        int64_t size[] = {3}, shapes[2][1];
        smelt_tensor inputs[] = {{&most, 0, NULL, SMELT_INT64}, {x, 1, size, SMELT_FLOAT32}};
        smelt_tensor outputs[] = {{NULL, 1, shapes[0], SMELT_FLOAT32},
                                  {NULL, 1, shapes[1], SMELT_FLOAT32}};
        if (smelt_model_run(model, inputs, outputs) != SMELT_OK) {
            printf("%s\\n", smelt_last_error());
            return 1;
        }
        for (int n = 0; n < 2; n++) {
            printf("%lld:", (long long)shapes[n][0]);
            for (int64_t i = 0; i < shapes[n][0]; i++) printf(" %g", ((float *)outputs[n].data)[i]);
            printf("\\n");
            smelt_free(outputs[n].data);
        }
        inputs[1].rank = 0;
        if (smelt_model_run(model, inputs, outputs) != SMELT_BAD_SHAPE) return 2;
    }
    smelt_model_close(model);
    smelt_program_trim();
    printf("%lld\\n", (long long)smelt_blocks());
    return 0;
}
"""


def test_a_library_is_called_from_c(grows: VMExecutable, tmp_path: Path) -> None:
    compiler = next((c for c in ("gcc", "cc", "clang") if shutil.which(c)), None)
    if compiler is None:
        pytest.skip("gcc, cc or clang is not installed")
    grows.export_library(tmp_path / "grows.so", header=True)
    (tmp_path / "user.c").write_text(USER)
    flags = ["-std=c11", "-Wall", "-Werror", "user.c", "grows.so", "-Wl,-rpath,.", "-o", "user"]
    subprocess.run([compiler, *flags], cwd=tmp_path, check=True)
    env = {**os.environ, "SMELT_NUM_THREADS": "1"}
    done = subprocess.run(["./user"], cwd=tmp_path, capture_output=True, text=True, env=env)
    lines = done.stdout.splitlines()
    assert lines[:6] == ["3: 1 2 3", "0:", "4: 1 2 3 6", "1: 6", "5: 1 2 3 6 12", "2: 6 12"]
    assert done.returncode == 0


def test_the_names_of_element_types() -> None:
    lib: ctypes.CDLL = library()
    for name, code in DTYPE_CODES.items():
        assert lib.smelt_dtype_name(code).decode() == name
