"""relax.build and relax.VirtualMachine: several functions, control flow, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt
from smelt import relax
from smelt.byoc import CSource, register_codegen
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType, tensor_type
from smelt.relax import op
from smelt.relax import transform as passes
from smelt.relax.dpl import is_op, wildcard
from smelt.relax.nodes import (
    Function,
    GlobalVar,
    If,
    RelaxExpr,
    Tuple,
    Var,
    call_function,
    constant,
)
from smelt.runtime.errors import InputError
from tests.relax_arrays import f32s

RNG = np.random.default_rng(1)


def var(name: str, *shape: Any, dtype: str = "float32") -> Var:
    return Var(name, tensor_type(shape, dtype))


def array(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype("float32")


def branch(condition: RelaxExpr, yes: RelaxExpr, no: RelaxExpr) -> If:
    return If(condition, Function((), yes), Function((), no), yes.type)


def module() -> IRModule:
    """Two public functions and a private one, which both call."""
    x, y, z = var("x", 2, 4), var("y", 2, 4), var("z", 2, 4)
    inner = Function((z,), op.nn.relu(op.add(z, 1.0)), {"private": True})

    def called(e: RelaxExpr) -> RelaxExpr:
        return call_function(GlobalVar("inner"), [e], e.type)

    second = Function((y,), Tuple((op.nn.softmax(called(y)), op.sum(y))))
    return IRModule({"main": Function((x,), called(op.exp(x))), "second": second, "inner": inner})


@pytest.fixture(scope="module")
def machine() -> Any:
    return relax.VirtualMachine(relax.build(module(), "llvm -mcpu=native"), smelt.cpu())


def test_all_public_functions_can_be_called(machine: Any) -> None:
    a = array(2, 4)
    assert machine.exe.globals[:2] == ["main", "second"]
    np.testing.assert_allclose(machine["main"](a).numpy(), np.exp(a) + 1, rtol=1e-5)
    soft, total = machine["second"](a)
    e = np.exp(np.maximum(a + 1, 0))
    np.testing.assert_allclose(soft.numpy(), e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(total.numpy(), a.sum(), rtol=1e-4)
    with pytest.raises(InputError, match="no function 'man'; nearest: main"):
        machine["man"]


def test_inputs_that_are_set(machine: Any) -> None:
    a = array(2, 4)
    machine.set_input("main", a)
    with pytest.raises(InputError, match="has not run yet"):
        machine.get_outputs("main")
    machine.invoke_stateful("main")
    np.testing.assert_allclose(machine.get_outputs("main").numpy(), np.exp(a) + 1, rtol=1e-5)


def test_saved_functions(machine: Any) -> None:
    a = array(2, 4)
    machine.save_function("main", "kept", a)
    machine.save_function("main", "silent", x=a, include_return=False)
    np.testing.assert_allclose(machine["kept"]().numpy(), np.exp(a) + 1, rtol=1e-5)
    assert machine["silent"]() is None
    with pytest.raises(InputError, match="there is a function 'kept' already"):
        machine.save_function("main", "kept", a)


def test_times_are_times(machine: Any) -> None:
    found = machine.time_evaluator("main", smelt.cpu(), number=2, repeat=3)(array(2, 4))
    assert len(found.results) == 3
    assert 0 < found.min <= found.mean <= found.max
    with pytest.raises(InputError, match="time_evaluator: number is 0; legal"):
        machine.time_evaluator("main", smelt.cpu(), number=0)(array(2, 4))
    with pytest.raises(InputError, match="f_preproc='flush'"):
        machine.time_evaluator("main", smelt.cpu(), f_preproc="flush")


def test_profiles_of_straight_functions() -> None:
    x = var("x", 2, 4)
    vm = relax.VirtualMachine(relax.build(IRModule({"main": Function((x,), op.nn.softmax(x))})))
    assert [k.name for k in vm.profile("main", array(2, 4)).kernels] == ["softmax"]
    with pytest.raises(InputError, match="a function that is one piece can be profiled"):
        relax.VirtualMachine(relax.build(chosen())).profile("main", array(3))


def test_a_program_is_a_file(machine: Any, tmp_path: Path) -> None:
    path = tmp_path / "program.so"
    machine.exe.export_library(str(path))
    again = relax.VirtualMachine(smelt.runtime.load_module(str(path)), smelt.cpu())
    a = array(2, 4)
    np.testing.assert_array_equal(again["main"](a).numpy(), machine["main"](a).numpy())


# ---------------------------------------------------------------------------------- control flow


def chosen() -> IRModule:
    x = var("x", 3)
    positive = op.greater(op.sum(x), 0.0)
    return IRModule({"main": Function((x,), branch(positive, op.exp(x), op.negative(x)))})


@pytest.mark.parametrize("exec_mode", ["bytecode", "compiled"])
def test_branches(exec_mode: str) -> None:
    vm = relax.VirtualMachine(relax.build(chosen(), exec_mode=exec_mode))
    for a in (f32s([1, 2, -1]), f32s([-1, -2, 1])):
        want = np.exp(a) if a.sum() > 0 else -a
        np.testing.assert_allclose(vm["main"](a).numpy(), want, rtol=1e-5)


def test_recursion() -> None:
    n, x = var("n", dtype="int64"), var("x", 2)
    again = call_function(GlobalVar("power"), [op.subtract(n, 1), op.multiply(x, 2.0)], x.type)
    body = branch(op.less_equal(n, 0), x, again)
    vm = relax.VirtualMachine(relax.build(IRModule({"power": Function((n, x), body)})))
    found = vm["power"](np.int64(5), f32s([1, 3]))
    np.testing.assert_array_equal(found.numpy(), [32, 96])


def test_closures_are_values() -> None:
    x, y = var("x", 2), var("y", 2)
    made = Function((y,), op.add(y, op.exp(x)))
    vm = relax.VirtualMachine(relax.build(IRModule({"main": Function((x,), made)})))
    a, b = array(2), array(2)
    closure = vm["main"](a)
    np.testing.assert_allclose(vm.invoke_closure(closure, b).numpy(), b + np.exp(a), rtol=1e-5)
    with pytest.raises(InputError, match="the closure takes 1 operands: y; 2 given"):
        vm.invoke_closure(closure, b, b)
    with pytest.raises(InputError, match="a ndarray is no closure"):
        vm.invoke_closure(a)


# --------------------------------------------------------------------------- what build is given


def test_params_become_constants() -> None:
    x, w = var("x", 2, 3), var("w", 3, 3)
    value = array(3, 3)
    ex = relax.build(IRModule({"main": Function((x, w), op.matmul(x, w))}), params={"w": value})
    a = array(2, 3)
    np.testing.assert_allclose(relax.VirtualMachine(ex)["main"](a).numpy(), a @ value, rtol=1e-5)


@pytest.mark.parametrize("pipeline", ["zero", "default", "default_build", passes.FoldConstant()])
def test_pipelines(pipeline: Any) -> None:
    x = var("x", 2, 4)
    y = op.nn.softmax(op.add(x, op.add(constant(f32s([1, 2, 3, 4])), 1.0)))
    ex = relax.build(Function((x,), y), pipeline=pipeline)
    a = array(2, 4)
    e = np.exp(a + f32s([2, 3, 4, 5]))
    np.testing.assert_allclose(
        relax.VirtualMachine(ex)["main"](a).numpy(), e / e.sum(1, keepdims=True), rtol=1e-5
    )


def test_pipelines_can_be_registered() -> None:
    relax.register_pipeline("of_this_test")(lambda: passes.FastMath())
    assert relax.get_pipeline("of_this_test").info.name == "FastMath"
    with pytest.raises(CompileError, match="there is a pipeline 'zero' already"):
        relax.register_pipeline("zero")


def test_what_cannot_be_built() -> None:
    with pytest.raises(TypeMismatch, match="mod is a int"):
        relax.build(3)
    with pytest.raises(CompileError, match="exec_mode='bytecod'; nearest: bytecode"):
        relax.build(module(), exec_mode="bytecod")
    with pytest.raises(CompileError, match="the module has no function to call; it has: none"):
        relax.build(IRModule())
    with pytest.raises(CompileError, match="system_lib and tir_pipeline cannot be given"):
        relax.build(module(), system_lib=True)
    with pytest.raises(InputError, match="the executable is a int"):
        relax.VirtualMachine(3)


def test_vm_build_is_another_name() -> None:
    assert relax.vm_build.build is relax.build


# ---------------------------------------------------------------------------- other compilers


@register_codegen("relax_vm_test")
def _source(func: Function, symbol: str, mod: IRModule) -> CSource:
    t = func.params[0].type
    assert isinstance(t, TensorType)
    (count,) = t.fixed_shape() or ()
    return CSource(
        f"int {symbol}(const float* a, float* out) {{\n"
        f"  for (int i = 0; i < {count}; ++i) out[i] = a[i] < 0 ? -a[i] : a[i];\n"
        "  return 0;\n}\n"
    )


def test_functions_for_another_compiler() -> None:
    x = var("x", 3)
    mod = IRModule({"main": Function((x,), op.exp(op.abs(op.sin(x))))})
    steps = smelt.transform.Sequential(
        [
            passes.FuseOpsByPattern([("relax_vm_test.abs", is_op("relax.abs")(wildcard()))]),
            passes.MergeCompositeFunctions(),
            passes.RunCodegen(),
        ]
    )
    made = steps(mod)
    assert [f.attrs.get("Compiler") for f in made.functions.values()] == [None, "relax_vm_test"]
    a = array(3)
    found = relax.VirtualMachine(relax.build(made))["main"](a)
    np.testing.assert_allclose(found.numpy(), np.exp(np.abs(np.sin(a))), rtol=1e-5)
