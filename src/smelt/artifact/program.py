"""Tensor programs to a module that can be called: lowered, compiled, linked into this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from smelt.codegen.llvm import ObjectCompiler
from smelt.codegen.llvm_text import emit_module
from smelt.ir import dtype as dt
from smelt.ir.build import ceildiv
from smelt.ir.errors import CompileError
from smelt.ir.expr import INDEX, Call, Expr, StringImm, Var, const
from smelt.ir.steps import Step
from smelt.ir.transform import PassContext
from smelt.ir.walk import free_vars
from smelt.lowering import instrument
from smelt.lowering.lower import for_target, lower
from smelt.runtime.expression import names_in
from smelt.runtime.program import Module, TensorFunction
from smelt.target import Target
from smelt.te.broadcast import EQUATIONS
from smelt.tir import nodes as tir
from smelt.tir.analysis.parallel import check_races
from smelt.tir.extern import ExternFunction
from smelt.tir.facts import written_parameters
from smelt.tir.parser_values import row_major
from smelt.tir.printer import script
from smelt.tir.script_ops import shape_vars, stored
from smelt.tir.verify import verify

from .artifact import Artifact, load, objects_of
from .dump import as_one
from .host import ENTRY, address_of, array_of, plan_program, where_not_empty, with_read
from .kernel import extern_objects
from .memory import ALIGNMENT
from .variants import Declared, code_data

KERNEL = "smelt_kernel"


def build_program(
    funcs: Mapping[str, tir.PrimFunc], target: Target, steps: Sequence[Step], context: PassContext
) -> Module:
    """Compile scheduled tensor programs for a (resolved) target and load them.

    steps  the passes to flat loops
    """
    return Module([_build(f.with_attrs(name=n), target, steps, context) for n, f in funcs.items()])


def _build(
    func: tir.PrimFunc, target: Target, steps: Sequence[Step], context: PassContext
) -> TensorFunction:
    options = context.options
    if options.verify:
        verify(func)
        check_races(func)
    listed = [p.name for p in func.params]
    func = func.replace(params=(*func.params, *shape_vars(func.params)))
    _check(func)
    symbols, scalars = _scalar_parameters(func)
    if untold := [v.name for v in scalars if v.name not in listed]:
        raise CompileError(
            f"{func.name}: no parameter has the extent {untold[0]}, which their shapes use\n"
            f"  legal: a parameter {untold[0]}, or an array of that extent"
        )
    watchers: list[instrument.Observer] = []
    watchers += [instrument.Check(func)] if instrument.check_wanted() else []
    if folder := instrument.dump_folder(options):
        watchers.append(instrument.StageWriter(folder, func.name))

    flat = lower(for_target(func, target), steps, as_one(watchers), context)
    flat = _scalars_in_memory(flat, scalars)
    workspaces = flat.buffers[len(flat.buffers) - int(flat.attrs.get("workspaces", 0)) :]
    entry, total = _entry(flat, symbols, workspaces, written_parameters(func))
    equations = _equations(func, symbols)
    checks = Declared().checks(symbols, equations)
    host = emit_module([entry, plan_program(symbols, total, (), checks)], target)
    ir = emit_module([flat.with_attrs(name=KERNEL)], target)
    if folder:
        instrument.write_text(Path(folder, func.name, "llvm.txt"), ir)
    objects = objects_of({f"the host program of {func.name}": host, func.name: ir}, target, options)
    objects += extern_objects(ExternFunction.used_in(flat), target).values()
    inputs = [(p.name, p.dtype, p.shape if isinstance(p, tir.Buffer) else ())
              for p in func.params if p not in symbols]  # fmt: skip
    metadata = {
        **code_data(func.name, target, {"inputs": inputs, "outputs": ()}, symbols, total),
        **Declared().metadata(symbols, equations),
        "kind": "program",
        "parameters": listed,
        "written": sorted({b.name for s in tir.walk(flat.body) for b in stored(s)}),
    }
    exe = load(Artifact(target, metadata, np.empty(0, np.uint8), options, tuple(objects)))
    sources: dict[str, Callable[[], str]] = {
        "tir": lambda: script(flat),
        "ll": lambda: ir,
        "asm": lambda: ObjectCompiler(target).assembly(ir),
    }
    return TensorFunction(exe, sources)


def _check(func: tir.PrimFunc) -> None:
    for p in func.buffers:
        if p.strides and p.strides != row_major(p.shape):
            raise CompileError(
                f"{func.name}: the parameter {p.name} has strides; "
                "build takes dense row-major parameters (transform_layout changes the order)"
            )
    for s in tir.walk(func.body):
        if isinstance(s, tir.For) and s.kind == "thread_binding":
            raise CompileError(
                f"{func.name}: the loop {s.var.name} is bound to {s.thread}, and the target llvm "
                "has no such threads; legal: parallel, vectorized, unrolled or serial loops"
            )


def _scalar_parameters(func: tir.PrimFunc) -> tuple[list[Var], set[Var]]:
    """The parameters that are extents of buffers, which shapes tell; the other scalars."""
    extents = {e for b in func.buffers for e in b.shape}
    scalars = [p for p in func.params if isinstance(p, Var)]
    return [v for v in scalars if v in extents], {v for v in scalars if v not in extents}


def _scalars_in_memory(flat: tir.PrimFunc, scalars: set[Var]) -> tir.PrimFunc:
    """Scalars that no shape tells are handed over as arrays of one element."""
    boxes = {v: tir.Buffer(v.name, (const(1, INDEX),), v.type) for v in scalars}
    body = flat.body
    for v, box in boxes.items():
        body = tir.LetStmt(v, tir.BufferLoad(box, (const(0, INDEX),)), body)
    params = tuple([boxes.get(p, p) if isinstance(p, Var) else p for p in flat.params])
    return flat.replace(params=params, body=body)


def _equations(func: tir.PrimFunc, symbols: Sequence[Var]) -> tir.PrimFunc:
    """The function with those of its equations that are about sizes which shapes tell."""
    told = {v.name for v in symbols}
    found = [e for e in func.attrs.get(EQUATIONS, ()) if names_in(e[0]) | names_in(e[1]) <= told]
    return func.with_attrs(**{EQUATIONS: tuple(found)})


def _entry(
    flat: tir.PrimFunc,
    symbols: list[Var],
    workspaces: tuple[tir.Buffer, ...],
    written: Sequence[tir.Buffer],
) -> tuple[tir.PrimFunc, Expr]:
    """The host program that calls the one kernel, and the bytes of workspace that it needs."""
    tensors = [p for p in flat.buffers if p not in workspaces]
    outside = {b: Var(f"tensor{i}", "handle") for i, b in enumerate(tensors)}
    table, blob = array_of("tensors", len(tensors), "handle"), array_of("weights", 1, "uint8")
    sizes, arena = array_of("sizes", len(symbols), INDEX), array_of("workspace", 1, "uint8")
    total: Expr = const(0, INDEX)
    args: list[Expr] = [StringImm(KERNEL)]
    for p in flat.params:
        if isinstance(p, Var):
            args.append(p)
        elif p in outside:
            args.append(outside[p])
        else:
            args.append(Call("handle", "smelt.tensor_view", (address_of(arena), total)))
            size = p.shape[0] * dt.bytes_of(p.type)
            if unknown := free_vars(size) - set(symbols):
                names = ", ".join(sorted(v.name for v in unknown))
                raise CompileError(
                    f"{flat.name}: the size of the buffer {p.name} depends on {names}, which is "
                    "no extent of a parameter"
                )
            total = total + ceildiv(size, ALIGNMENT) * ALIGNMENT
    stmt: tir.Stmt = tir.Evaluate(Call("int32", "smelt.call_kernel", tuple(args)))
    if shapes := [b.shape for b in written]:
        stmt = where_not_empty(shapes, stmt)
    body = with_read(with_read(stmt, [*outside.values()], table), symbols, sizes)
    return tir.PrimFunc((table, sizes, blob, arena), body, {"name": ENTRY}), total
