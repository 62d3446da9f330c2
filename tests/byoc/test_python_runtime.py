"""External functions that Python code runs."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import byoc, relay
from smelt.contrib.debug_executor import GraphModuleDebug
from smelt.contrib.graph_executor import GraphModule
from smelt.ir.errors import CompileError, SmeltError, TypeMismatch
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.types import tensor_type
from smelt.relax.nodes import Constant, Function, Tuple, Var, call, values
from smelt.relax.transform import simplify_graph
from smelt.runtime import InputError, LoadError, cpu, load_module, register_runtime

from .support import (
    NAME,
    SYMBOL,
    Array,
    affine,
    affine_python,
    call_of,
    close,
    expected,
    outside,
    registered,
    two_results,
)

X = np.linspace(-2, 2, 12).reshape(3, 4).astype("float32")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registered():
        yield


def use(loader: Any, text: str = "{}", **constants: Any) -> None:
    byoc.register_codegen(NAME)(lambda func, symbol, module: byoc.Json(text, constants))
    register_runtime(NAME)(loader)


def test_a_function_in_python() -> None:
    use(affine_python)
    mod = affine()
    exe = smelt.compile(mod)
    close(exe(X), expected(mod, X)[0])
    assert any(k.name == SYMBOL and k.calls == 1 for k in exe.profile(X, repeat=2).kernels)
    module = GraphModule(relay.build(mod)["default"](cpu(0)))
    module.run(x=X)
    close(module.get_output(0), expected(mod, X)[0])


def test_the_text_and_the_constants_arrive(tmp_path: Path) -> None:
    seen: list[tuple[str, dict[str, Array]]] = []

    def load(text: str, constants: Mapping[str, Array]) -> Any:
        seen.append((text, dict(constants)))
        scale, k = constants["scale"], json.loads(text)["k"]

        def run(x: Array, b: Array, out: Array) -> None:
            out[...] = x * scale + k * b

        return run

    scale = np.arange(4, dtype="float32")
    flags = np.array([[True], [False]])
    use(load, '{"k": 3}', scale=scale, flags=flags)
    exe = smelt.compile(affine())
    b = np.linspace(0, 1, 4).astype("float32")
    want = np.tanh(np.maximum(X, 0) * scale + 3 * b) * 2
    close(exe(X), want)
    for path in (tmp_path / "m.so", tmp_path / "m.tar"):
        exe.export_library(path)
        close(load_module(path)(X), want)
    assert len(seen) == 3
    for text, constants in seen:
        assert text == '{"k": 3}'
        assert list(constants) == ["scale", "flags"]
        assert np.array_equal(constants["scale"], scale)
        assert np.array_equal(constants["flags"], flags)
        with pytest.raises(ValueError, match="read-only"):
            constants["scale"][0] = 1


def test_operands_are_dense_read_only_and_results_several() -> None:
    def load(text: str, constants: Any) -> Any:
        def run(x: Array, turned: Array, negative: Array) -> None:
            assert x.flags.c_contiguous
            assert not x.flags.writeable
            turned[...] = x.T
            negative[...] = -x

        return run

    use(load)
    mod = two_results()
    for ours, theirs in zip(smelt.compile(mod)(X), expected(mod, X), strict=True):
        close(ours, theirs)


def test_a_tuple_may_be_the_result() -> None:
    """The external function's results are the model's, and tuples inside tuples are laid flat."""

    def load(text: str, constants: Any) -> Any:
        def run(x: Array, turned: Array, negative: Array) -> None:
            turned[...] = x.T
            negative[...] = -x

        return run

    use(load)
    f = two_results()[SYMBOL]
    x = Var("x", tensor_type((4, 3), "float32"))
    inner = call_of(f, x)
    for body in (inner, Tuple((call("negative", x), inner))):
        mod = IRModule({"main": Function((x,), body), SYMBOL: f})
        found = smelt.compile(mod)(X.T)
        assert [a.shape for a in found][-2:] == [(3, 4), (4, 3)]
        assert np.array_equal(found[-2].numpy(), X)
        assert np.array_equal(found[-1].numpy(), -X.T)
        assert len(found) == 2 + (body is not inner)


def test_open_sizes() -> None:
    use(affine_python)
    mod = affine(SizeVar("n"))
    exe = smelt.compile(mod)
    for x in (X, X[:2], np.concatenate([X, X])):
        close(exe(x), expected(mod, x)[0])


def test_open_sizes_go_by_name() -> None:
    """A function may have sizes of its own that bear the model's names; other names are refused."""
    use(affine_python)
    mod = affine(SizeVar("n"))

    def with_size(name: str) -> IRModule:
        p = Var("p0", tensor_type((SizeVar(name), 4), "float32"))
        q = Var("p1", tensor_type((4,), "float32"))
        return mod.with_functions({SYMBOL: outside([p, q], call("add", call("multiply", p, p), q))})

    close(smelt.compile(with_size("n"))(X), expected(mod, X)[0])
    with pytest.raises(CompileError) as caught:
        smelt.compile(with_size("m"))
    assert str(caught.value) == (
        f"{SYMBOL}: its types mention the size m, which is no size of the model's inputs; sizes: n"
    )


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "float16", "float64"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 0)])
def test_types_and_ranks(dtype: str, shape: tuple[int, ...]) -> None:
    p = Var("p0", tensor_type(shape, dtype))
    f = outside([p], call("where", call("cast", p, dtype="bool"), p, p))
    x = Var("x", tensor_type(shape, dtype))
    mod = IRModule({"main": Function((x,), call_of(f, x)), SYMBOL: f})

    def load(text: str, constants: Mapping[str, Array]) -> Any:
        one = constants["one"]
        assert one.shape == ()
        assert one.dtype == dtype

        def run(given: Array, out: Array) -> None:
            assert given.dtype == out.dtype == dtype
            assert given.shape == out.shape == shape
            out[...] = given ^ one if dtype == "bool" else given + one

        return run

    use(load, one=np.array(1, dtype), none=np.empty((0, 2), dtype))
    data = np.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype)
    found = smelt.compile(mod)(data).numpy()
    assert np.array_equal(found, ~data if dtype == "bool" else data + np.array(1, dtype))


def test_the_debugger_sees_it(capsys: pytest.CaptureFixture[str]) -> None:
    use(affine_python)
    lib = relay.build(affine())
    module = GraphModuleDebug(
        lib["debug_create"]("default", cpu(0)), [cpu(0)], lib.get_graph_json()
    )
    module.run(x=X)
    assert SYMBOL in module.kernel_names()
    relu = np.maximum(X, 0)
    b = np.linspace(0, 1, 4).astype("float32")
    close(module.debug_get_output(SYMBOL), relu * relu + b)
    assert "multiply add" in capsys.readouterr().out


def test_composites_are_called_by_their_name() -> None:
    use(affine_python)
    mod = affine()
    f = mod[SYMBOL]
    q = [Var(f"q{i}", p.type) for i, p in enumerate(f.params)]
    body = call("add", call("multiply", q[0], q[0]), q[1])
    inner = Function(tuple(q), body, {"Composite": "mine.square_add"})
    new = f.replace(body=call_of(inner, *f.params, name="square_add"))
    mod = mod.with_functions({SYMBOL: new, "square_add": inner})
    exe = smelt.compile(mod)
    close(exe(X), expected(mod, X)[0])
    kernel = next(k for k in exe.metadata["kernels"] if k["name"] == SYMBOL)
    assert kernel["ops"] == ["mine.square_add"]
    assert kernel["compiler"] == NAME


def test_images_are_handed_over_row_major() -> None:
    """Convolutions leave their results channels-last; an external function does not see that."""
    x = Var("x", tensor_type((1, 3, 6, 6), "float32"))
    w = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("float32")
    p = Var("p0", tensor_type((1, 4, 6, 6), "float32"))
    f = outside([p], call("softmax", p, axis=1))
    weight = relay.const(w)
    conv = call("conv2d", x, weight, pads=(1, 1, 1, 1))
    again = call("conv2d", call_of(f, conv), relay.const(w[:, :, :1, :1].repeat(2, 1)[:, :4]))
    mod = IRModule({"main": Function((x,), again), SYMBOL: f})

    def load(text: str, constants: Any) -> Any:
        def run(given: Array, out: Array) -> None:
            assert given.shape == out.shape == (1, 4, 6, 6)
            e = np.exp(given - given.max(1, keepdims=True))
            out[...] = e / e.sum(1, keepdims=True)

        return run

    use(load)
    data = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype("float32")
    close(smelt.compile(mod)(data), expected(mod, data)[0])


def test_stages_show_what_is_smelts_own() -> None:
    text = smelt.stage_text(affine(), "tir")
    assert "def relu" in text
    assert "def fused_tanh_multiply" in text
    assert SYMBOL not in text


def test_graph_passes_leave_it_alone() -> None:
    x = Var("x", tensor_type((3, 4), "float32"))
    p = Var("p0", tensor_type((3, 4), "float32"))
    f = outside([p], call("relu", call("relu", p)))
    main = Function((x,), call("relu", call("relu", call_of(f, call("relu", call("relu", x))))))
    mod = simplify_graph(IRModule({"main": main, SYMBOL: f, "unused": f}))
    assert mod[SYMBOL] is f
    assert list(mod) == ["main", SYMBOL]
    assert str(mod["main"]).count("relu") == 2


def test_several_functions_of_several_back_ends() -> None:
    """Three functions, one called twice: Python, C, Python."""
    x = Var("x", tensor_type((4,), "float32"))

    def part(op: str, number: int, name: str) -> Function:
        p = Var("p", tensor_type((4,), "float32"))
        return outside([p], call(op, p), f"part_{number}", name)

    parts = [part("exp", 0, "python"), part("tanh", 1, "c"), part("sqrt", 2, "python")]
    y = call_of(parts[0], x, name="part_0")
    for k in (1, 0, 2):
        y = call_of(parts[k], call("multiply", y, y), name=f"part_{k}")
    mod = IRModule({"main": Function((x,), y), **{f"part_{i}": f for i, f in enumerate(parts)}})

    @byoc.register_codegen("python")
    def to_text(func: Any, symbol: str, module: Any) -> byoc.Json:
        return byoc.Json(func.body.op.name)

    @register_runtime("python")
    def load(text: str, constants: Any) -> Any:
        return lambda a, out: getattr(np, text)(a, out=out)

    @byoc.register_codegen("c")
    def to_c(func: Any, symbol: str, module: Any) -> byoc.CSource:
        return byoc.CSource(f"""
            #include <math.h>
            int {symbol}(const float *x, float *y) {{
                for (int i = 0; i < 4; i++) y[i] = {func.body.op.name}f(x[i]);
                return 0;
            }}""")

    data = np.linspace(-1, 1, 4).astype("float32")
    exe = smelt.compile(mod)
    close(exe(data), expected(mod, data)[0])
    calls = [k.name for k in exe.profile(data).kernels if k.name.startswith("part")]
    assert calls == ["part_0", "part_1", "part_0", "part_2"]


def test_a_function_may_run_the_model_itself() -> None:
    depth: list[int] = []

    def load(text: str, constants: Any) -> Any:
        def run(x: Array, b: Array, out: Array) -> None:
            depth.append(len(depth))
            if len(depth) < 3:
                exe(X)
            out[...] = x * x + b

        return run

    use(load)
    mod = affine()
    exe = smelt.compile(mod)
    close(exe(X), expected(mod, X)[0])
    assert depth == [0, 1, 2]


def test_names_that_do_not_fit() -> None:
    use(affine_python)
    mod = affine()
    f = mod[SYMBOL]
    odd = f.replace(attrs={**f.attrs, "global_symbol": "no-name"})
    with pytest.raises(CompileError, match="the symbol 'no-name' of the back end 'mine' is no"):
        smelt.compile(mod.with_functions({SYMBOL: odd}))
    main = mod["main"]
    both = Tuple((main.body, call_of(f, main.params[0], constant_of(main), name="other")))
    twice = IRModule({"main": main.replace(body=both), SYMBOL: f, "other": f})
    with pytest.raises(CompileError, match=f"{SYMBOL} and other have one global_symbol"):
        smelt.compile(twice)


def constant_of(f: Function) -> Constant:
    return next(v for v in values(f.body) if isinstance(v, Constant) and v.name == "b")


# ------------------------------------------------------------------------------------- failures


class Odd(Exception):
    """An exception of the user's own."""


def test_an_exception_reaches_the_caller() -> None:
    def load(text: str, constants: Any) -> Any:
        def run(x: Array, b: Array, out: Array) -> None:
            if x.max() > 1.5:
                raise Odd(f"{x.max():.1f} is too much")
            out[...] = x * x + b

        return run

    use(load)
    mod = affine()
    exe: Any = smelt.compile(mod)
    calls: list[Any] = [lambda: exe(X), lambda: exe.bind(X)(), lambda: exe.bind(X).time(3)]
    for run in calls:
        with pytest.raises(Odd, match=r"2.0 is too much") as caught:
            run()
        note = f"raised by the external function {SYMBOL} of the back end 'mine'"
        assert caught.value.__notes__ == [note]
    close(exe(X / 2), expected(mod, X / 2)[0])  # and the model goes on working


def test_several_threads() -> None:
    def load(text: str, constants: Any) -> Any:
        def run(x: Array, b: Array, out: Array) -> None:
            if x[0, 0] == 7:
                raise Odd(threading.current_thread().name)
            out[...] = x * x + b

        return run

    use(load)
    mod = affine()
    exe = smelt.compile(mod)
    wrong: list[object] = []

    def work(k: int) -> None:
        x = np.full((3, 4), 7 if k % 2 else k / 10, "float32")
        for _ in range(50):
            try:
                close(exe(x), expected(mod, x)[0])
                wrong.extend([k] if k % 2 else [])
            except Odd as e:
                wrong.extend([] if k % 2 and str(e) == f"t{k}" else [e])

    threads = [threading.Thread(target=work, args=(k,), name=f"t{k}") for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_library_needs_its_back_end(tmp_path: Path) -> None:
    use(affine_python)
    path = tmp_path / "m.so"
    smelt.compile(affine()).export_library(path)
    program = (
        "import sys, numpy, smelt.runtime as rt\n"
        "try:\n    rt.load_module(sys.argv[1])\n"
        "except rt.LoadError as e:\n    print(e)\n"
        f"@rt.register_runtime({NAME!r})\n"
        "def load(text, constants):\n"
        "    def run(x, b, out):\n        out[...] = x * x + b\n"
        "    return run\n"
        "print(rt.load_module(sys.argv[1])(numpy.zeros((3, 4), 'float32')).numpy().sum())\n"
        "print([m for m in sys.modules if m.startswith('smelt.') and 'runtime' not in m])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *error, total, rest = done.stdout.splitlines()
    assert error == [
        f"model: the function {SYMBOL} is run by the back end 'mine', which is not registered "
        "in this process",
        '  import first what calls smelt.runtime.register_runtime("mine"): where the model was '
        f"compiled, that was the module {affine_python.__module__}",
        "  registered: none",
    ]
    assert float(total) == pytest.approx(6 * np.tanh(np.linspace(0, 1, 4)).sum(), rel=1e-5)
    assert rest == "[]"


def fails(text: str, constants: Any) -> Any:
    raise Odd("no such file")


CASES: list[tuple[Any, type[SmeltError], str]] = [
    (
        lambda: use(fails),
        LoadError,
        f"model: the back end 'mine' cannot load {SYMBOL}: Odd: no such file",
    ),
    (
        lambda: use(lambda text, constants: 3),
        LoadError,
        f"model: the back end 'mine' gave a int for {SYMBOL}; a function of its inputs and "
        "outputs is needed",
    ),
    (
        lambda: byoc.register_codegen(NAME)(lambda *_: byoc.Json("{}")),
        CompileError,
        f"the back end 'mine': {SYMBOL}: its code is Json, and no runtime half is registered "
        "under 'mine'\n"
        '  smelt.byoc.register_runtime("mine") registers one; registered: none',
    ),
    (
        lambda: byoc.register_codegen("mines")(lambda *_: byoc.Json("{}")),
        CompileError,
        f"{SYMBOL}: no back end 'mine' is registered; nearest: mines; registered: mines\n"
        '  smelt.byoc.register_codegen("mine") registers one',
    ),
    (
        lambda: byoc.register_codegen(NAME)(lambda *_: "int f;"),  # type: ignore[arg-type]
        CompileError,
        f"the back end 'mine': {SYMBOL}: the code generator gave a str; "
        "legal: smelt.byoc.CSource, smelt.byoc.Json",
    ),
    (
        lambda: byoc.register_codegen(NAME)(lambda *_: 1 // 0),  # type: ignore[arg-type]
        CompileError,
        f"the back end 'mine': {SYMBOL}: the code generator failed: ZeroDivisionError: "
        "integer division or modulo by zero",
    ),
    (
        lambda: use(affine_python, c=np.array(["a"])),
        CompileError,
        f"the back end 'mine': {SYMBOL}: the constant 'c' has the dtype <U1; legal: bool, int8, "
        "int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64",
    ),
]


@pytest.mark.parametrize(
    ("prepare", "kind", "text"), CASES, ids=[str(i) for i in range(len(CASES))]
)
def test_errors(prepare: Any, kind: type[SmeltError], text: str) -> None:
    prepare()
    with pytest.raises(kind) as caught:
        smelt.compile(affine())
    assert str(caught.value) == text


def test_what_is_registered_is_a_function() -> None:
    with pytest.raises(TypeMismatch, match="a int is given"):
        byoc.register_codegen(NAME)(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a int is given"):
        byoc.register_runtime(NAME)(3)  # type: ignore[arg-type]
    use(affine_python)
    assert NAME in byoc.registered_codegens()
    assert NAME in smelt.runtime.registered_runtimes()


def test_operands_of_other_types_are_refused() -> None:
    use(affine_python)
    mod = affine()
    wide = [Var(f"p{i}", tensor_type((k, 4), "float32")) for i, k in enumerate((3, 1))]
    other = outside(wide, call("add", wide[0], wide[1]))
    with pytest.raises(CompileError, match=f"{SYMBOL}: the parameter p1 is "):
        smelt.compile(mod.with_functions({SYMBOL: other}))
