"""`relay.build`: the classic signature in front of smelt's pipeline."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from smelt.byoc import compile_externals
from smelt.codegen.llvm import resolve
from smelt.ir.errors import CompileError, TypeMismatch
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.lowering.model import build_model
from smelt.lowering.vm import refuse_control
from smelt.pipeline import as_target, optimize
from smelt.relax import nodes as relax
from smelt.runtime.dtypes import numpy_dtype
from smelt.target import Target
from smelt.transform import PassContext

from .backend import Executor, Runtime, check_forms
from .factory import AOTExecutorFactoryModule, GraphExecutorFactoryModule
from .printer import type_text
from .transform import build_steps

__all__ = ["bind_params", "build"]


def build(
    ir_mod: Any,
    target: Any = None,
    target_host: Any = None,
    executor: Executor | str | None = None,
    runtime: Runtime | str | None = None,
    workspace_memory_pools: object = None,
    constant_memory_pools: object = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> GraphExecutorFactoryModule | Any:
    """Compile a module.

    ir_mod    an IRModule, or a function
    target    e.g. "llvm -mcpu=native"; None: that of `with Target(...)`, or this machine
    executor  Executor("graph"), the default, or Executor("aot")
    runtime   Runtime("cpp"), the default
    params    parameters of "main" that become constants, by name
    mod_name  the name in lib["..."] ("default" works too)

    `with smelt.transform.PassContext(...)` around the call says how; without it smelt's own
    defaults hold.
    """
    context = PassContext.current()
    context.refuse("tir.", "relay.build")
    form = _forms(executor, runtime, workspace_memory_pools, constant_memory_pools)
    made = _target(target, target_host)
    if isinstance(ir_mod, relax.Function):
        ir_mod = IRModule({"main": ir_mod})
    if not isinstance(ir_mod, IRModule):
        raise TypeMismatch(f"relay.build: ir_mod is a {type(ir_mod).__name__}; "
                           "give an IRModule, e.g. from relay.frontend.from_onnx")  # fmt: skip
    if "main" not in ir_mod:
        known = ", ".join(ir_mod) or "none"
        raise CompileError(f'relay.build: the module has no function "main"; it has: {known}')
    plain = IRModule(ir_mod.functions, ir_mod.attrs)
    if mod_name != "default":
        plain.attrs["name"] = mod_name
    plain = bind_params(plain, params or {})
    refuse_control(plain, f"the {form.name} executor")
    if context.plain:
        fused = optimize(plain, context.options)
    else:
        fused = plain
        for step in build_steps(context):
            fused = step(fused)
    resolved = resolve(made)
    externals = compile_externals(fused, resolved, context.options)
    compiled = partial(build_model, fused, resolved, context.options, externals=externals)
    lib = compiled()
    lib.debug_variant = partial(compiled, keep=True)
    if form.name == "aot":
        return AOTExecutorFactoryModule(lib, ir_mod, fused, made, mod_name, form)
    return GraphExecutorFactoryModule(lib, ir_mod, fused, made, mod_name)


def _forms(executor: Any, runtime: Any, *pools: object) -> Executor:
    """The form of executable that is asked for."""
    form = Executor(executor) if isinstance(executor, str) else executor or Executor("graph")
    system = Runtime(runtime) if isinstance(runtime, str) else runtime or Runtime("cpp")
    if not isinstance(form, Executor) or not isinstance(system, Runtime):
        raise CompileError("relay.build: executor is a relay.backend.Executor, runtime a "
                           "relay.backend.Runtime")  # fmt: skip
    check_forms(form, system)
    if any(p is not None for p in pools):
        raise CompileError("relay.build: memory pools cannot be given yet; leave them out")
    return form


def _target(target: Any, host: Any) -> Target:
    """One target, from whatever the classic signature allows."""
    if isinstance(target, Mapping) and "kind" not in target:
        target = list(target.values())
    if isinstance(target, Sequence) and not isinstance(target, str):
        if len(target) != 1:
            raise CompileError(f"relay.build: {len(target)} targets given; "
                               "a model is compiled for one today")  # fmt: skip
        target = target[0]
    if target is None:
        target = Target.current()
    made = as_target(target)
    return made if host is None else Target(made, host=host)


def bind_params(mod: IRModule, params: Mapping[str, Any]) -> IRModule:
    """A module whose "main" has constants in place of the named parameters."""
    main = mod["main"]
    by_name = {p.name: p for p in main.params}
    bound: dict[relax.RelaxExpr, relax.Constant] = {}
    for name, value in params.items():
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, 3)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            shown = ", ".join(list(by_name)[:20]) + (", ..." if len(by_name) > 20 else "")
            raise TypeMismatch(
                f'params: "main" has no parameter {name!r}{hint}; parameters: {shown}'
            )
        bound[by_name[name]] = _constant(by_name[name], np.asarray(value))
    if not bound:
        return mod
    new = relax.rewrite(
        relax.Function(main.params, main.body, main.attrs),
        lambda v: bound.get(v) if isinstance(v, relax.Var) else None,
    )
    rest = tuple([p for p in main.params if p not in bound])
    return mod.with_functions({"main": new.replace(params=rest)})


def _constant(p: relax.Var, data: np.ndarray) -> relax.Constant:
    t = p.type
    assert isinstance(t, TensorType)
    shape = t.fixed_shape()
    fits = len(data.shape) == t.rank if shape is None else data.shape == shape
    if not fits or data.dtype != numpy_dtype(t.dtype):
        raise TypeMismatch(f"params[{p.name!r}] is {data.dtype}{list(data.shape)}; "
                           f"the parameter is {type_text(t)}")  # fmt: skip
    return relax.Constant(np.asarray(data, order="C"), t, p.name)
