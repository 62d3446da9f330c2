"""`relay.build`: the classic signature in front of smelt's pipeline."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from smelt import pipeline
from smelt.artifact.artifact import Artifact, load
from smelt.artifact.placing import BY_SIZE
from smelt.artifact.pools import algorithm_of
from smelt.artifact.vm_construct import refuse_control
from smelt.codegen.llvm import is_native, resolve
from smelt.ir.config import MEMORY_KEYS
from smelt.ir.errors import CompileError, TypeMismatch, Unsupported
from smelt.ir.memory_pools import Pool, classic_pools
from smelt.ir.module import IRModule
from smelt.ir.types import TensorType
from smelt.micro import c_target, compile_c, is_c, with_cmsis_nn
from smelt.relax import nodes as relax
from smelt.relax.graph import bind
from smelt.runtime.dtypes import numpy_dtype
from smelt.runtime.errors import nearest
from smelt.runtime.native_executable import NativeExecutable
from smelt.target import Target
from smelt.transform import Pass, PassContext

from . import transform
from .backend import Executor, Runtime, check_forms
from .factory import AOTExecutorFactoryModule, CSourceFactoryModule, GraphExecutorFactoryModule
from .printer import type_text
from .transform.passes import LEVELS


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
    runtime   Runtime("cpp"), the default, or Runtime("crt") for a target of the kind "c"
    workspace_memory_pools, constant_memory_pools  for C: see smelt.ir.memory_pools
    params    parameters of "main" that become constants, by name
    mod_name  the name in lib["..."] ("default" works too)

    What is compiled for another machine cannot be run here; `export_library` writes it.

    `with smelt.transform.PassContext(...)` around the call says how; without it smelt's own
    defaults hold.
    """
    made = target_of(target, target_host)
    form, system = _forms(made, executor, runtime)
    pools = classic_pools("relay.build", workspace_memory_pools, constant_memory_pools)
    resolved = resolve(made)
    context = _context("relay.build", resolved, form, pools)
    ir_mod = _with_main("relay.build", ir_mod)
    plain = IRModule(ir_mod.functions, ir_mod.attrs)
    plain.attrs |= {"name": mod_name} if mod_name != "default" else {}
    plain = bind_params(plain, params or {})
    refuse_control(plain, f"the {form.name} executor")
    if made.kind.name == "c":
        words = f"cmsis-nn,{made}" if with_cmsis_nn(target) else made
        kind = _forms_of_c(form, system)
        code = compile_c(with_required(plain, context), words, name=f"tvmgen_{mod_name}",
                         pools=pools, options=context.options, **kind)  # fmt: skip
        return CSourceFactoryModule(code, ir_mod, made, mod_name, form)
    fused = _optimized(plain, context)
    placing = algorithm_of(context.config, BY_SIZE)
    declared = pipeline.declared_sizes(plain, fused, context, lambda m: _optimized(m, context))

    here = is_native(resolved)
    made_of = pipeline.assemble(fused, resolved, context, declared=declared, text=not here,
                                placing=placing)  # fmt: skip
    lib: NativeExecutable | Artifact = load(made_of) if here else made_of
    if form.name == "aot":
        return AOTExecutorFactoryModule(lib, ir_mod, fused, made, mod_name, form)
    return GraphExecutorFactoryModule(lib, ir_mod, fused, made, mod_name)


def _forms_of_c(form: Executor, system: Runtime) -> dict[str, Any]:
    """The form of executable, as `compile_c` takes it."""
    return {
        "packed": form.get("interface-api", "packed") == "packed",
        "graph": (form.name, system.name) == ("graph", "crt"),
        "link_params": form.get("link-params", True),
    }


def optimize(
    mod: Any, target: Any = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """What relay.build compiles: the module after its graph passes, and no parameters any more.

    The arguments are those of `build`; the result prints, and can be built.
    """
    context = _context("relay.optimize", resolve(target_of(target, None)))
    made = _with_main("relay.optimize", mod)
    plain = bind_params(IRModule(made.functions, made.attrs), params or {})
    return _optimized(plain, context), {}


def as_module(who: str, given: Any, name: str = "mod", hint: str = "") -> IRModule:
    """A module, from one or from a function. hint: where modules come from."""
    if isinstance(given, relax.Function):
        given = IRModule({"main": given})
    if not isinstance(given, IRModule):
        raise TypeMismatch(f"{who}: {name} is a {type(given).__name__}; give an IRModule{hint}")
    return given


def _with_main(who: str, given: Any) -> IRModule:
    """A module with a "main", from a module or a function."""
    pair = ", which gives (mod, params)" * isinstance(given, tuple)
    mod = as_module(who, given, "ir_mod", f", e.g. from relay.frontend.from_onnx{pair}")
    if "main" not in mod:
        known = ", ".join(mod) or "none"
        raise CompileError(f'{who}: the module has no function "main"; it has: {known}')
    return mod


def _optimized(mod: IRModule, context: PassContext) -> IRModule:
    """The graph that is compiled."""
    return pipeline.run_graph(with_required(mod, context), context)


def with_required(mod: IRModule, context: PassContext) -> IRModule:
    """A module after Relay's own passes that a context requires: they run before the compiler's."""
    own = {n for s in (*pipeline.GRAPH, *pipeline.VM, *pipeline.LOWER) for n in (*s.names, *s.also)}
    first = [_on_demand(n) for n in context.required_pass if n not in own]
    for step in (transform.InferType(), *first) if first else ():
        mod = step.run(mod, context)
    return mod


def _on_demand(name: str) -> Pass:
    """A pass that is run first where required_pass names it: one that has to be given nothing."""
    try:
        made: Pass = getattr(transform, name)()
    except TypeError:
        raise Unsupported(
            f"PassContext: relay.build does not run {name} by itself, as it has to be told how; "
            f"apply relay.transform.{name}(...) before"
        ) from None
    return made


def _context(
    who: str, target: Target, form: Executor | None = None, pools: Sequence[Pool] = ()
) -> PassContext:
    """The context around a call, with names and keys that the call follows."""
    context = pipeline.checked_context(who, target=target, others=LEVELS, follows=MEMORY_KEYS)
    _check_config(context, form or Executor("graph"))
    io = context.setting("tir.usmp.use_workspace_io")
    if (io or pools) and target.kind.name != "c":
        what = "config 'tir.usmp.use_workspace_io'" if io else "memory pools"
        raise CompileError(f"{who}: {what} belong to C, and the target makes {target.kind.name} "
                           'code; legal: a target such as "c -mcpu=cortex-m4"')  # fmt: skip
    return context


def _check_config(context: PassContext, form: Executor) -> None:
    """The keys that a build follows: those of its memory, for programs compiled ahead of time."""
    given = [k for k in MEMORY_KEYS if context.config.get(k)]
    if given and form.name != "aot":
        raise CompileError(
            f"relay.build: config {given[0]!r} belongs to programs compiled ahead of time; add "
            f'executor=relay.backend.Executor("aot"), or leave it out for Executor({form.name!r})'
        )


def _forms(target: Target, executor: Any, runtime: Any) -> tuple[Executor, Runtime]:
    """The form of executable that is asked for, and what runs it."""
    form = Executor(executor) if isinstance(executor, str) else executor or Executor("graph")
    system = Runtime(runtime) if isinstance(runtime, str) else runtime or Runtime("cpp")
    if not isinstance(form, Executor) or not isinstance(system, Runtime):
        raise CompileError("relay.build: executor is a relay.backend.Executor, runtime a "
                           "relay.backend.Runtime")  # fmt: skip
    check_forms(form, system, target.kind.name)
    return form, system


def target_of(target: Any, host: Any) -> Target:
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
    made = c_target(target) if is_c(target) else pipeline.as_target(target)
    return made if host is None else Target(made, host=host)


def bind_params_by_name(func: relax.Function, params: Mapping[str, Any]) -> relax.Function:
    """A function with constants in place of the named parameters."""
    if isinstance(func, IRModule):
        raise TypeMismatch('bind_params_by_name: give a function, mod["main"], not the module')
    if not isinstance(func, relax.Function):
        raise TypeMismatch(f"bind_params_by_name: func is a {type(func).__name__}, no function")
    found: relax.Function = bind_params(IRModule({"main": func}), params)["main"]
    return found


def bind_params(mod: IRModule, params: Mapping[str, Any]) -> IRModule:
    """A module whose "main" has constants in place of the named parameters."""
    main = mod["main"]
    if not isinstance(params, Mapping):
        raise TypeMismatch(
            f"params is a {type(params).__name__}; give a mapping of names to arrays"
        )
    by_name = {p.name: p for p in main.params}
    _check_names(mod, by_name, [n for n in params if n not in by_name], len(params))
    bound: dict[relax.Var, relax.RelaxExpr] = {
        by_name[n]: _constant(by_name[n], np.asarray(v)) for n, v in params.items() if n in by_name
    }
    if not bound:
        return mod
    return mod.with_functions({"main": bind(main, bound)})


def _check_names(
    mod: IRModule, known: Mapping[str, relax.Var], unknown: Sequence[str], given: int
) -> None:
    """Refuse names that "main" does not have, unless its weights were bound before.

    Programs that partition a module with its params give these to `build` once more.
    """
    if not unknown:
        return
    held = [
        v
        for f in mod.functions.values()
        if isinstance(f, relax.Function)
        for v in relax.values(f.body)
        if isinstance(v, relax.Constant) and v.data.ndim
    ]
    names = {c.name for c in held}
    strange = [n for n in unknown if n not in names]
    if not strange:
        return
    hint = nearest(strange[0], known)
    shown = ", ".join(list(known)[:20]) + (", ..." if len(known) > 20 else "")
    text = f'params: "main" has no parameter {strange[0]!r}{hint}; parameters: {shown or "none"}'
    if hint or len(unknown) < given or not held:
        raise TypeMismatch(text)
    warnings.warn(f"{text}; nothing is bound: the module holds its weights", stacklevel=4)


def _constant(p: relax.Var, data: np.ndarray) -> relax.Constant:
    t = p.type
    assert isinstance(t, TensorType)
    shape = t.fixed_shape()
    fits = len(data.shape) == t.rank if shape is None else data.shape == shape
    if not fits or data.dtype != numpy_dtype(t.dtype):
        raise TypeMismatch(f"params[{p.name!r}] is {data.dtype}{list(data.shape)}; "
                           f"the parameter is {type_text(t)}")  # fmt: skip
    return relax.Constant(np.asarray(data, order="C"), t, p.name)
