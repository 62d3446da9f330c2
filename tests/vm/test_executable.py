"""The executable: files, the machine's interface, executors of all kinds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.relay.prelude import Prelude
from smelt.runtime import ExportError, InputError, LoadError, RuntimeFailure, load_module
from smelt.runtime.container import ADT
from smelt.runtime.metadata import parse_levels
from smelt.runtime.module import read_metadata
from smelt.runtime.vm import VirtualMachine, VMExecutable
from smelt.runtime.vm_file import read_program

from .support import f32, main, num, relay, scalar


def program() -> IRModule:
    """f ... f x, n times, of an affine function, as the head of a list."""
    p = Prelude()
    n, x, y = scalar("n"), relay.var("x", shape=(relay.Any(), 3)), relay.Var("y")
    weight = relay.const(f32(np.arange(9).reshape(3, 3) / 10))
    step = relay.Function([y], relay.nn.relu(relay.add(relay.nn.dense(y, weight),
                                                       relay.const(1.0))))  # fmt: skip
    made = p.iterate(step, n)(x)
    return main([n, x], relay.Tuple([made, p.cons(n, p.cons(num(7), p.nil()))]), p.mod)


def want(n: int, x: Any) -> Any:
    w = f32(np.arange(9).reshape(3, 3) / 10)
    for _ in range(n):
        x = np.maximum(x @ w.T + 1, 0)
    return x


X = np.random.default_rng(1).standard_normal((2, 3)).astype("float32")


@pytest.fixture(scope="module")
def exe() -> VMExecutable:
    made: VMExecutable = relay.vm.compile(program(), target="llvm -mcpu=native")
    return made


@pytest.fixture(scope="module")
def saved(exe: VMExecutable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place: Path = tmp_path_factory.mktemp("vm") / "program.vm"
    exe.export_library(place)
    return place


def test_what_an_executable_tells(exe: VMExecutable) -> None:
    assert "main" in exe.globals
    assert "zip" not in exe.globals  # what main does not call is left out
    assert "VMFunction[0]: iterate($0 f, $1 n)" in exe.bytecode
    assert f"segments: {len(exe.lib)}, with" in exe.stats
    assert any("matmul" in ops for ops in exe.primitive_ops)
    assert exe.get_function_params("main") == ["n", "x"]


def test_smelt_compile_takes_what_decides() -> None:
    x, c = relay.var("x", shape=(2, 3), dtype="float32"), relay.var("c", shape=(), dtype="bool")
    chosen = relay.Function([x, c], relay.If(c, relay.exp(x), relay.negative(x)))
    ones = np.ones((2, 3), "float32")
    for mod in (chosen, IRModule({"main": chosen})):
        made: Any = smelt.compile(mod, threads=1)
        assert isinstance(made, VMExecutable)
        assert [o.name for o in made.outputs] == ["output0"]
        np.testing.assert_allclose(made(ones, np.array(True)).numpy(), np.exp(ones), rtol=1e-6)
        np.testing.assert_array_equal(made(x=ones, c=np.array(False)).numpy(), -ones)
    with pytest.raises(CompileError, match="no function 'main' to compile; it has: f"):
        smelt.compile(IRModule({"f": chosen}))


def test_ways_to_give_inputs_and_take_results(exe: VMExecutable) -> None:
    vm = VirtualMachine(exe, smelt.cpu(0))
    vm.set_input("main", np.int32(2), x=X)
    first, rest = vm.run()
    np.testing.assert_allclose(first.numpy(), want(2, X), rtol=1e-5)
    assert (rest.name, rest.tag, int(rest[0]), rest[1].name) == ("cons", 0, 2, "cons")
    vm.invoke_stateful("main", n=np.int32(0), x=X)
    same, _ = vm.get_outputs()
    np.testing.assert_array_equal(same.numpy(), X)
    assert isinstance(vm["main"](np.int32(1), X), ADT)
    vm.set_one_input("main", "n", np.int32(3))
    np.testing.assert_allclose(vm.invoke("main")[0].numpy(), want(3, X), rtol=1e-5)
    assert len(vm.benchmark(smelt.cpu(0), np.int32(1), X, repeat=2, number=1).results) == 2
    with pytest.raises(InputError, match="benchmark: number is 'x'; legal: whole numbers from 1"):
        vm.benchmark(None, np.int32(1), X, number="x")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="profile: repeat is 0; legal: whole numbers from 1"):
        exe.profile(np.int32(1), X, repeat=0)


def test_a_file_is_loaded_where_no_compiler_is(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    code = f"""
import sys, numpy as np, smelt.runtime
from smelt.runtime.vm import VirtualMachine
exe = smelt.runtime.load_module({str(saved)!r})
made, rest = VirtualMachine(exe).invoke("main", np.int32(2), np.load({str(tmp_path / "x.npy")!r}))
np.save({str(tmp_path / "y.npy")!r}, made.numpy())
others = [m for m in sys.modules if m.startswith("smelt.") and not m.startswith("smelt.runtime")]
print([m for m in ("llvmlite", "onnx", *others) if m in sys.modules], rest.name, int(rest[1][0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["[]", "cons", "7"], done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), want(2, X), rtol=1e-5)


def test_what_is_loaded_is_exported_by_copying(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="exported by copying that file"):
        load_module(saved).export_library(tmp_path / "again.vm")


def _code(number: int, change: Any) -> Any:
    return lambda m: change(m["program"]["functions"][number][4])


def _call(*instruction: Any) -> Any:
    return _code(0, lambda code: code.insert(0, instruction))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(kind="graph"), "is ''; legal: bool"),
        (lambda m: m.update(control="magic"), "control is 'magic'"),
        (lambda m: m.pop("segments"), "segments is missing"),
        (lambda m: m["segments"].pop(), " is not below"),
        (lambda m: m["program"]["globals"].update(main=400), "400 is not below"),
        (lambda m: m["program"]["constants"].append(["float32", [4], 1 << 40]), "ends at byte"),
        (lambda m: m["program"]["constants"].append(["float32", [-4], 0]), "[1][0] is -4"),
        (lambda m: m["results"].pop(), "registers for"),
        (lambda m: m["program"]["functions"][0].pop(), "not enough values"),
        (lambda m: m["program"]["functions"][0].__setitem__(2, -1), "iterate: -1 is not below"),
        (lambda m: m["program"]["functions"][0].__setitem__(3, 1 << 40), "1099511627776 is not"),
        (lambda m: m["program"]["functions"][0].__setitem__(3, "9"), "iterate: '9' is not below"),
        (_code(0, lambda code: code.append(["Jump", 3])), "iterate has no end"),
        (_code(0, lambda code: code.append([])), "iterate has no end"),
        (_code(0, lambda code: code[0].__setitem__(1, [99])), "99 is not below"),
        (_call("Jump", 3), "instruction 0: ('Jump', 3)"),
        (_call("AllocTuple", 0, 3), "None is not below"),
        (_call({}, 3), "instruction 0: ({}, 3)"),
        (_call("Invoke", 0, 1, [0]), "1 registers for 2 values"),
        (_call("InvokeSegment", [0, 1, 0, 1, 0, 1, 0, 1], 0, [0]), " registers for "),
        (_call("InvokeHost", [0], "system", {"x": 1}, [0]), "no operator is named 'system'"),
    ],
)
def test_damaged_programs_are_refused(saved: Path, change: Any, text: str) -> None:
    metadata = json.loads(json.dumps(read_metadata(saved)))
    weights = np.zeros(metadata["weights_bytes"], np.uint8)
    read_program(parse_levels(json.dumps(metadata).encode())[0], weights)
    change(metadata)
    with pytest.raises(LoadError) as caught:
        read_program(parse_levels(json.dumps(metadata).encode())[0], weights)
    assert text in str(caught.value)


def test_a_program_with_other_metadata_is_refused(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    place = tmp_path / "bad.vm"
    place.write_bytes(data.replace(b'"control": "python"', b'"control": "native"'))
    with pytest.raises(LoadError, match=r"cannot load .*metadata is damaged"):
        load_module(place)
    place.write_bytes(data[:-100])
    with pytest.raises(LoadError, match="cannot load "):
        load_module(place)


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (("InvokeHost", (0,), "stack", {"type": "int8"}, (0, 0)), "the operator stack with "),
        (("InvokeHost", (0, 1), "sizes", {}, (1,)), "the operator sizes with {}: "),
        (("If", 1, 0, 0), "a branch needs one whole number; it has "),
    ],
)
def test_a_program_that_is_damaged_where_only_the_run_sees_it(
    saved: Path, instruction: Any, text: str
) -> None:
    exe = load_module(saved)
    exe.function("main").code.insert(0, instruction)
    with pytest.raises(InputError) as caught:
        VirtualMachine(exe).run(np.int32(1), X)
    assert str(caught.value).startswith(text)


def test_a_file_cut_short_is_refused(saved: Path, tmp_path: Path) -> None:
    place = tmp_path / "short.vm"
    place.write_bytes(saved.read_bytes()[:2000])
    with pytest.raises(LoadError, match="cannot load"):
        load_module(place)


def residual() -> tuple[IRModule, dict[str, Any]]:
    """Two convolutions with a shortcut, pooling, a dense layer."""
    rng = np.random.default_rng(0)
    params: dict[str, Any] = {}

    def weight(name: str, *shape: int) -> Any:
        params[name] = (rng.standard_normal(shape) / 4).astype("float32")
        return relay.var(name, shape=shape)

    x = relay.var("x", shape=(1, 3, 8, 8))
    y = relay.nn.conv2d(x, weight("w0", 8, 3, 3, 3), padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = relay.nn.relu(relay.nn.bias_add(y, weight("b0", 8)))
    z = relay.nn.conv2d(y, weight("w1", 8, 8, 3, 3), padding=(1, 1), channels=8, kernel_size=(3, 3))
    z = relay.nn.relu(relay.add(z, y))
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(z))
    out = relay.nn.softmax(relay.nn.dense(flat, weight("w2", 5, 8)))
    names = [v for v in relay.analysis.free_vars(out) if v is not x]
    return main([x, *names], out), params


def test_a_network_is_the_same_in_all_forms() -> None:
    mod, params = residual()
    x = np.random.default_rng(2).standard_normal((1, 3, 8, 8)).astype("float32")
    found = [
        relay.create_executor(kind, mod, smelt.cpu(0), "llvm", params).evaluate()(x).numpy()
        for kind in ("debug", "graph", "vm", "aot")
    ]
    for other in found[2:]:  # one segment is the same native code
        np.testing.assert_array_equal(found[1], other)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_ways_to_evaluate() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    mod = main([x, y], relay.Tuple([relay.add(x, y), relay.multiply(x, y)]))
    a, b = f32([1, 2]), f32([3, 5])
    for kind in ("debug", "graph", "vm"):
        run = relay.create_executor(kind, mod, params={"y": b}).evaluate()
        assert [v.numpy().tolist() for v in run(a)] == [[4, 7], [3, 10]]
        assert [v.numpy().tolist() for v in run(x=a)] == [[4, 7], [3, 10]]
        executor = relay.create_executor(kind, mod)
        assert executor.evaluate(relay.add(x, y), {y: b})(a).numpy().tolist() == [4, 7]
        assert executor.evaluate(relay.add(relay.const(1), relay.const(2))).numpy().item() == 3
        assert executor.evaluate(relay.GlobalVar("main"))(a, b)[1].numpy().tolist() == [3, 10]


# ---------------------------------------------------------------------------------------- errors


def says(caught: pytest.ExceptionInfo[Any], text: str) -> None:
    assert str(caught.value) == text


def test_what_other_forms_refuse() -> None:
    c, x, f, y = (relay.var("c", shape=(), dtype="bool"), scalar("x"), relay.Var("f"), scalar("y"))
    advice = (
        "\n  the virtual machine runs it: relay.vm.compile(mod, target), or "
        'relay.create_executor("vm", mod)'
    )
    p = Prelude()
    again = relay.GlobalVar("main")
    cases = [
        (main([c, x], relay.If(c, x, num(1))),
         "a branch on a value that is computed in @main: if (c) {...} else {...}"),
        (main([x], p.hd(p.cons(x, p.nil())), p.mod), "a value of a data type in @main: nil()"),
        (main([x], again(x)), "a call of @main in @main: @main(x)"),
        (main([x], relay.Let(f, relay.Function([y], f(y)), f(x))),
         "a call of a closure in @main: f(y)"),
        (main([x], relay.arange(num(0), x, num(1), dtype="int32")),
         "a tensor with a data-dependent size in @main: arange(0, x, 1)"),
    ]  # fmt: skip
    for mod, found in cases:
        for form in ("graph", "aot"):
            with pytest.raises(smelt.ir.errors.CompileError) as caught:
                relay.build(mod, "llvm", executor=form)
            says(caught, f"the {form} executor runs straight programs only; found {found}{advice}")


def test_errors_of_types() -> None:
    p = Prelude()
    x, y, z = scalar("x"), relay.var("y", shape=(2,)), relay.Var("z")
    c = relay.var("c", shape=(), dtype="bool")
    wild = relay.PatternWildcard()
    cases = [
        (p.cons(x, p.cons(y, p.nil())), "@main: cons(x, cons(y, nil())): operand 1: int32[] and "
         "float32[2] differ"),
        (p.hd(x), "@main: @hd(x): operand 0: List[?] and int32[] differ"),
        (relay.If(c, relay.Tuple([p.hd(p.cons(x, p.nil()))]), relay.Tuple([y])),
         "@main: if (c) {...} else {...}: int32[] and float32[2] differ"),
        (relay.Match(p.nil(), [relay.Clause(relay.PatternConstructor(p.cons, [wild, wild]), x)]),
         "@main: match (nil()) {...}: no clause for nil; add one, or give complete=False"),
        (relay.Function([z], relay.add(z, z)),
         "@main: the type of z cannot be found: what is known is ?; give the parameter or variable "
         "a type"),
        (relay.GlobalVar("legnth")(x),
         "@main: @legnth: the module has no function 'legnth'; nearest: length"),
        (x(x), "@main: x(x): what is called is no function, but int32[]"),
    ]  # fmt: skip
    for body, text in cases:
        mod = main([x, y, c], body, IRModule(p.mod.functions, p.mod.attrs))
        with pytest.raises(smelt.ir.errors.TypeMismatch) as caught:
            relay.vm.compile(mod)
        assert str(caught.value).startswith(text)


def test_errors_of_data_types() -> None:
    p = Prelude()
    x = scalar("x")
    with pytest.raises(smelt.ir.errors.TypeMismatch) as caught:
        p.cons(x)
    says(caught, "the constructor cons of List takes 2 values, 1 given")
    with pytest.raises(KeyError) as missing:
        p.mod.get_constructor("List", "kons")
    assert missing.value.args[0] == (
        "the data type List has no constructor 'kons'; nearest: cons; constructors: cons, nil"
    )
    with pytest.raises(KeyError) as missing:
        p.mod.get_type("Lisp")
    assert missing.value.args[0] == (
        "the module has no data type 'Lisp'; nearest: List; it has: List, Option, Tree"
    )
    with pytest.raises(smelt.ir.errors.Unsupported, match="references to changing values"):
        relay.RefCreate(x)


def test_errors_of_the_run(exe: VMExecutable) -> None:
    vm = VirtualMachine(exe)
    with pytest.raises(InputError) as caught:
        vm.invoke("mian", X)
    assert str(caught.value).startswith("the program has no function 'mian'; nearest: main")
    with pytest.raises(InputError) as caught:
        vm.invoke("main", np.int32(1))
    says(caught, "main: 1 inputs given, 2 needed\n  inputs: n data; x data")
    with pytest.raises(InputError) as caught:
        vm.invoke("main", np.int32(1), y=X)
    says(caught, "main: no input is named 'y'\n  inputs: n data; x data")
    with pytest.raises(InputError, match="dimension 1 is 4, 3 needed"):
        vm.invoke("main", np.int32(1), np.zeros((2, 4), "float32"))
    p, n = Prelude(), scalar("n")
    empty = relay.vm.compile(main([n], relay.add(p.hd(p.tl(p.cons(n, p.nil()))), n), p.mod))
    with pytest.raises(RuntimeFailure) as failed:
        VirtualMachine(empty).run(np.int32(1))
    says(failed, "no clause of match (xs) {...} in hd fits the value")
    with pytest.raises(smelt.ir.errors.CompileError) as kind:
        relay.create_executor("grph")
    says(kind, "create_executor: no kind 'grph'; nearest: 'graph'; "
         "kinds: 'debug', 'graph', 'vm', 'aot'")  # fmt: skip


def test_branches_far_inside_each_other_are_refused() -> None:
    y = scalar("y")
    deep = y
    for n in range(101):
        deep = relay.If(relay.less(y, num(n)), num(n), deep)
    with pytest.raises(smelt.ir.errors.Unsupported) as caught:
        relay.vm.compile(main([y], deep))
    says(caught, "@main: more than 100 branches, clauses and closures stand inside each other; "
         "move the inner ones into a function of the module")  # fmt: skip


def test_operands_of_another_kind_are_refused() -> None:
    p = Prelude()
    number = relay.scalar_type("int32")
    f, xs = relay.var("f", relay.FuncType([number], number)), relay.var("xs", p.List(number))
    vm = VirtualMachine(relay.vm.compile(main([f, xs], p.sum(p.map(f, xs)), p.mod)))
    y = scalar("y")
    other = VirtualMachine(relay.vm.compile(main([], relay.Function([y], relay.add(y, num(1))))))
    one = ADT(0, [np.int32(1), ADT(1, [], "nil")], "cons")
    for xs0, text in [
        (np.int32(1), "a value of a data type where a ndarray"),
        (ADT(0, [np.int32(1)], "cons"), "a value with 2 fields or more where a ADT"),
        (one, "a function of its own where a Closure"),
    ]:
        with pytest.raises(InputError) as caught:
            vm.run(other.run(), xs0)
        says(caught, f"the program takes {text} was given; see the operands' types")
