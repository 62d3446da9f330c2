"""The stages of a model's compilation, to look at: graphs, programs, loops, machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.artifact.graph import plan_graph
from smelt.artifact.kernel import KernelSpec, plain_program, scheduled
from smelt.artifact.model import kernel_specs
from smelt.codegen.llvm import ObjectCompiler, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.frontend.source import import_model
from smelt.ir.errors import CompileError
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.ir.transform import PassContext
from smelt.pipeline import GRAPH, as_target, checked_context, lower_program, run_graph
from smelt.relax.printer import script as graph_script
from smelt.runtime.errors import nearest, unknown
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script

STAGES = ("graph", "fused", "layout", "tir", "scheduled", "lowered", "llvm", "asm")
"""What `stage_text` knows, from the imported graph to machine code."""

CODE = ("llvm", "asm")
"""The stages that are text and nothing else."""

GRAPHS = ("graph", "fused", "layout")
"""The stages that are modules of graph functions."""


def stage_text(
    model: Any,
    stage: str = "graph",
    kernel: str | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
) -> str:
    """The text of a stage of a model's compilation.

    model    as for `compile`
    stage    one of STAGES: graph, fused, layout, tir, scheduled, lowered, llvm, asm
    kernel   the name of one kernel, for stages from tir on; None: all
    target, shapes, options  as for `compile`

    Raises CompileError for a stage or a kernel that there is not.
    """
    if stage in CODE:
        resolved = resolve(as_target(target))
        functions = stage_module(model, "lowered", kernel, target, shapes, options).functions
        return "\n\n".join([_code(f, stage, resolved) for f in functions.values()])
    mod = stage_module(model, stage, kernel, target, shapes, options)
    if stage in GRAPHS:
        return graph_script(mod)
    return "\n\n".join([script(f) for f in mod.functions.values() if isinstance(f, PrimFunc)])


def stage_module(
    model: Any,
    stage: str = "graph",
    kernel: str | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
) -> IRModule:
    """The functions of a stage of a model's compilation: the graph, or one program a kernel.

    stage   one of STAGES but those of CODE, whose results are texts
    kernel  the name of one kernel; None: all
    """
    if stage not in STAGES or stage in CODE:
        legal = [s for s in STAGES if stage not in STAGES or s not in CODE]
        what = "unknown stage" if stage not in STAGES else "no functions, but text, at stage"
        raise CompileError(f"{what} {stage!r}{nearest(stage, legal)}; stages: {', '.join(legal)}")
    if kernel is not None and stage in GRAPHS:
        raise CompileError(
            f"stage {stage!r} is of the whole model, and kernel {kernel!r} is given; "
            f"stages of a kernel: {', '.join(s for s in STAGES if s not in GRAPHS)}"
        )
    mod = import_model(model, shapes)
    if stage == "graph":
        return mod
    resolved = resolve(as_target(target))
    context = checked_context("smelt.show", options, resolved)
    if stage == "fused":
        return run_graph(mod, context, steps=GRAPH[:-1])
    mod = run_graph(mod, context)
    if stage == "layout":
        return mod
    specs = _named(mod, kernel, resolved, context)
    return IRModule({n: _program(s, stage, n) for n, s in specs.items()})


def kernels_of(
    model: Any,
    kernel: str | None,
    target: Target,
    shapes: Mapping[str, Sequence[Extent]] | None,
    options: Options | None,
    who: str,
) -> dict[str, KernelSpec]:
    """What a model's kernels are compiled from, by name; `kernel`: that one only.

    target  a resolved one; who asks, for messages. Raises CompileError for a kernel there is not.
    """
    context = checked_context(who, options, target)
    return _named(run_graph(import_model(model, shapes), context), kernel, target, context)


def _named(
    mod: IRModule, kernel: str | None, target: Target, context: PassContext
) -> dict[str, KernelSpec]:
    own = kernel_specs(plan_graph(mod), target, context.options)
    specs = {s.symbol: s for s in own if s is not None}
    named = {str(s.group.attrs.get("name", s.symbol)): s for s in specs.values()}
    if kernel is not None and kernel not in named:
        raise CompileError(f"the model has {unknown('kernel', kernel, named)}")
    return named if kernel is None else {kernel: named[kernel]}


def _program(spec: KernelSpec, stage: str, name: str) -> PrimFunc:
    if stage == "tir":
        return plain_program(spec, name)
    func = scheduled(spec).schedule.func.with_attrs(name=name)
    return func if stage == "scheduled" else lower_program(func)


def _code(flat: Any, stage: str, target: Target) -> str:
    ir = emit_module([flat], target)
    return ir if stage == "llvm" else ObjectCompiler(target).assembly(ir)
