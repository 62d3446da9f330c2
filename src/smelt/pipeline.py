"""The compiler's table of contents: the pipelines, and the public functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt import te
from smelt.byoc import compile_externals
from smelt.codegen.llvm import ObjectCompiler, cpu_features, is_native, link_in_process, resolve
from smelt.codegen.llvm_text import emit_module
from smelt.codegen.peak import Peak, Registers
from smelt.frontend.onnx import NeedsValues, from_onnx, load
from smelt.ir.errors import CompileError, InternalError, SmeltError
from smelt.ir.expr import Var
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.sizes import Extent, Size, plain_shapes
from smelt.ir.transform import PassContext
from smelt.lowering.graph import plan_graph
from smelt.lowering.kernel import KernelSpec, hardware_for, plain_program, scheduled
from smelt.lowering.lower import LOWER, LowerPass
from smelt.lowering.lower import lower as lower_program
from smelt.lowering.model import Progress, build_model, kernel_specs
from smelt.lowering.program import build_program
from smelt.lowering.variants import Declared, declare
from smelt.lowering.vm import compile_vm, refuse_control, vm_construct
from smelt.lowering.watch import dump_folder, write_text
from smelt.model import Model, ModelInput, Needs
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import Function, RelaxExpr
from smelt.relax.printer import script as graph_script
from smelt.relax.transform import recognize_attention, simplify_graph, split_transposed
from smelt.relax.transform.expand_ops import expand_ops
from smelt.relax.transform.fuse_ops import fuse_ops
from smelt.relax.transform.name_sizes import name_sizes
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.unify_sizes import unify_sizes
from smelt.relax.verify import verify as verify_graph
from smelt.rules.cpu import schedule as apply_rules
from smelt.runtime.executable import Executable
from smelt.runtime.program import Module
from smelt.runtime.report import MachineLimits
from smelt.runtime.vm import VMExecutable
from smelt.runtime.vm_file import save_program
from smelt.target import Target, hardware_of
from smelt.te.broadcast import EQUATIONS
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule
from smelt.tir.transform.steps import lowering_steps

__all__ = [
    "GRAPH",
    "LOWER",
    "STAGES",
    "build",
    "compile",
    "lower",
    "machine_limits",
    "optimize",
    "stage_module",
    "stage_text",
]

GraphPass = Callable[..., IRModule]

GRAPH: tuple[tuple[int, GraphPass], ...] = (
    # (lowest opt_level, pass)
    (0, resolve_match_cast),  # sizes that values introduce become expressions over known ones
    (0, inline_functions),  # names, and functions called in place, are dissolved
    (0, name_sizes),  # symbolic sizes get names of their own
    (0, expand_ops),  # the operators of a face become the core's
    (0, unify_sizes),  # sizes that have to be equal become one, others' equations are checked
    (2, simplify_graph),  # constants folded, BatchNorm into weights, composed operators recognised
    (2, split_transposed),  # transposed convolutions: plain ones, interleaved
    (3, recognize_attention),  # softmax(q k^T) v becomes one operator
    (0, fuse_ops),  # an anchor and the elementwise work after it become one kernel (level 0: alone)
)

READABLE = LOWER[:2]
"""As far as a person wants to read: loops, branches, buffers with their shapes."""

STAGES = ("graph", "fused", "tir", "scheduled", "lowered", "llvm", "asm")
"""What `stage_text` knows, from the imported graph to machine code."""

CODE = ("llvm", "asm")
"""The stages that are text and nothing else."""


def compile(
    model: Any,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    values: Mapping[str, Any] | None = None,
    operators: Mapping[str, Any] | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Any:
    """A trained model as an executable for this machine.

    model     path of an ONNX file, its bytes, an onnx.ModelProto, an IRModule or a graph function
    target    e.g. "llvm -mcpu=native" (the default)
    shapes    per input, extents that replace the file's: numbers, names of symbolic sizes,
              expressions over them as text ("past + seq"), or smelt.Size: a name with a range, and
              likely values, for which specialised code is chosen at run time
    values    arrays for inputs that are known now; they are no inputs of the executable
    operators "domain.Operator" -> what nodes of an operator of your own become: see from_onnx
    options   see `Options`
    progress  called with (stage, done, total) while kernels are compiled

    Gives an Executable; a `Model` where one executable does not serve (see there).
    """
    options = options or Options()
    resolved = _of_this_machine(target)
    plain, sizes = plain_shapes(shapes)

    def segment(imported: IRModule) -> Executable:
        if sizes:
            raise CompileError(
                f"shapes declares {', '.join(map(repr, sizes.values()))}, and the model decides "
                "while it runs: only models that run straight through have ranges and variants; "
                "give the sizes' names instead"
            )
        return whole(imported, None)

    def whole(imported: IRModule, sizes: Mapping[str, Size] | None = sizes) -> Executable:
        mod = optimize(imported, options, progress)
        externals = compile_externals(mod, resolved, options)
        declared = declared_sizes(
            imported, mod, lambda m: optimize(m, options, progress), sizes
        )  # fmt: skip
        return build_model(mod, resolved, options, progress, externals, declared=declared)

    if isinstance(model, IRModule | RelaxExpr):
        return whole(import_model(model, plain))

    def read(forms: Mapping[str, Any]) -> IRModule | Needs:
        try:
            return from_onnx(loaded, plain, values={**known, **forms}, operators=operators)
        except NeedsValues as e:
            return Needs(e.inputs, e.shapes)

    loaded, known = load(model), values or {}
    return _compile_onnx(read, lambda *made: _model(loaded, plain, known, *made), whole, segment)


def _of_this_machine(target: str | Target | None) -> Target:
    """The target to compile for, whose code can run here."""
    resolved = resolve(as_target(target))
    if not is_native(resolved):
        raise CompileError(
            f"code for {resolved.mtriple} cannot run on this machine; "
            'smelt.show(..., "asm") prints it'
        )
    return resolved


def _model(
    loaded: Any, shapes: Mapping[str, Sequence[Any]] | None, known: Mapping[str, Any], *made: Any
) -> Model:
    """A Model with the inputs and outputs of a file."""
    inputs = [
        ModelInput(i.name, i.kind, i.dtype, (shapes or {}).get(i.name, i.shape))
        for i in loaded.graph.inputs
        if i.name not in known
    ]
    return Model(loaded.name, inputs, loaded.graph.outputs, *made)


def _compile_onnx(
    read: Callable[[Mapping[str, Any]], IRModule | Needs],
    model: Callable[..., Model],
    straight: Callable[[IRModule], Executable],
    segment: Callable[[IRModule], Executable],
) -> Executable | Model:
    """An ONNX model as one executable; a Model where that does not do.

    read      imports it, some inputs being known; or names the inputs that have to be
    model     makes a Model of `read`, what compiles a module, and a module
    straight  compiles a module without control flow
    segment   compiles a part of a program for the virtual machine: its sizes may be 0
    """

    def compiled(mod: IRModule) -> Executable | VMExecutable:
        if vm_construct(mod) is None:
            return straight(mod)
        return VMExecutable(compile_vm(mod, segment), save_program, str(mod.attrs.get("name")))

    found = read({})
    if isinstance(found, IRModule) and not found.attrs.get("typed"):
        main = found["main"]
        if isinstance(main, Function) and not main.attrs.get("output_groups"):
            return straight(found)
    return model(read, compiled, found)


def lower(
    inputs: Any,
    args: Sequence[te.Tensor | Var] | None = None,
    name: str = "main",
    *,
    simple_mode: bool = False,
) -> IRModule:
    """Scheduled tensor programs as loops. The result prints as script.

    inputs       te.Schedule (with `args`), tir Schedule, PrimFunc, or an IRModule of PrimFuncs
    args         a te.Schedule's parameters in order: placeholders, results, sizes
    name         the function's name, where `inputs` has none of its own
    simple_mode  stop where loops are explicit but buffers keep their shapes, for reading
    """
    steps = _steps(PassContext.current(), READABLE if simple_mode else LOWER)
    functions = tensor_functions(inputs, args, name)
    return IRModule({n: lower_program(f, steps=steps) for n, f in functions.items()})


def _steps(context: PassContext, steps: Sequence[LowerPass]) -> Sequence[LowerPass]:
    """The lowering passes that a context asks for."""
    if context.plain and not context.config:
        return steps
    return [step.fn for step in lowering_steps(context, steps)]


def build(
    inputs: Any,
    args: Sequence[te.Tensor | Var] | None = None,
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    name: str = "main",
    *,
    options: Options | None = None,
) -> Module:
    """Tensor programs compiled for this machine; the module's functions work on arrays in place.

    inputs, args, name  as for `lower`
    target_host         the same as `target`, or None: the host is the target
    options             None: those of the PassContext around the call
    """
    context = PassContext.current()
    options = options or context.options
    resolved = _of_this_machine(target if target is not None else Target.current())
    if target_host is not None and resolve(as_target(target_host)) != resolved:
        raise CompileError(
            f"target_host is {target_host}, but host and target are one machine here"
        )
    functions = tensor_functions(inputs, args, name)
    return build_program(functions, resolved, options, _steps(context, LOWER))


def default_schedule(
    func: PrimFunc,
    target: str | Target | None = None,
    *,
    constants: Collection[str] = (),
    options: Options | None = None,
) -> Schedule:
    """The schedule that the rules give a tensor program; its trace can be printed and edited.

    constants  names of parameters that are known at compile time, so that they may be laid out anew
    """
    resolved = resolve(as_target(target))
    hardware = hardware_for(resolved, (options or Options()).cores)
    return apply_rules(func, hardware, frozenset(constants))


def tensor_functions(
    inputs: Any, args: Sequence[te.Tensor | Var] | None, name: str
) -> dict[str, PrimFunc]:
    """The scheduled programs behind what `lower` and `build` take, by name."""
    if isinstance(inputs, te.Schedule):
        if args is None:
            raise CompileError("a te.Schedule needs args: its parameters in order")
        return {name: te.lower_schedule(inputs, args, name).func}
    if args is not None:
        raise CompileError(f"args belong to a te.Schedule; {type(inputs).__name__} has parameters")
    if isinstance(inputs, PrimFunc):
        return {inputs.name: inputs}
    mod = inputs.mod if isinstance(inputs, Schedule) else inputs
    if not isinstance(mod, IRModule):
        raise CompileError(
            f"cannot build {type(inputs).__name__}; legal: te.Schedule with args, tir Schedule, "
            "PrimFunc, IRModule"
        )
    programs = {n: f for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
    if others := [n for n in mod.functions if n not in programs]:
        raise CompileError(
            f"{', '.join(others)}: no tensor program; smelt.compile(mod) compiles graph functions"
        )
    return programs


def as_target(target: str | Target | None) -> Target:
    """The target to compile for; only CPUs through LLVM can run here."""
    made = Target("llvm -mcpu=native" if target is None else target)
    if made.kind.name != "llvm":
        raise CompileError(f"target kind {made.kind.name!r} cannot be compiled yet; today: llvm")
    return made


def import_model(model: Any, shapes: Mapping[str, Sequence[Extent]] | None = None) -> IRModule:
    """A model in any accepted form as a module of graph functions."""
    if isinstance(model, RelaxExpr):
        model = IRModule.from_expr(model)
    if isinstance(model, IRModule):
        if shapes:
            raise CompileError("shapes are given with the model file; this is an IRModule already")
        return model
    return from_onnx(model, plain_shapes(shapes)[0])


def optimize(
    mod: IRModule, options: Options | None = None, progress: Progress | None = None
) -> IRModule:
    """The graph passes that the optimisation level asks for."""
    options = options or Options()
    dump = Dump(options)
    dump.graph("imported", mod)
    if options.verify:
        verify_graph(mod)
    refuse_control(mod, "the graph executor")
    steps = [p for level, p in GRAPH if options.opt_level >= level]
    for n, step in enumerate(steps):
        if progress is not None:
            progress("graph", n, len(steps))
        name = step.__name__
        try:
            mod = fuse_ops(mod, options.opt_level) if step is fuse_ops else step(mod)
            if options.verify > 1:
                verify_graph(mod)
        except SmeltError:
            raise
        except Exception as e:
            raise InternalError(f"the graph pass {name} failed: {type(e).__name__}: {e}") from e
        dump.graph(name, mod)
    return mod


def declared_sizes(
    imported: IRModule, fused: IRModule, passes: Callable[[IRModule], IRModule],
    sizes: Mapping[str, Size] | None = None,
) -> Declared:  # fmt: skip
    """Ranges of a module's sizes, and variants of it: for likely sizes, and for equal ones where
    sizes broadcast.

    passes  make `fused` of `imported`
    sizes   what the user declared, by name; None: sizes have no ranges
    """
    mod = fused
    if sizes or any(either for *_, either in fused["main"].attrs.get(EQUATIONS, ())):
        mod = imported
        for _, step in GRAPH[: [p for _, p in GRAPH].index(unify_sizes) + 1]:
            mod = step(mod)
    return declare(mod, sizes).optimized(passes)


def machine_limits(threads: int | None = None) -> MachineLimits:
    """This machine's multiply-add and memory limits on some threads (None: all), measured now."""
    target = resolve(as_target(None))
    hardware = hardware_of(target, cpu_features(target))
    compiler = ObjectCompiler(target)
    alive: list[Any] = []

    def load(text: str, symbol: str) -> int:
        addresses, keep = link_in_process([compiler.object(text, symbol)], [symbol])
        alive.append(keep)
        return addresses[symbol]

    registers = Registers(hardware.vector_bytes * 8, hardware.vector_registers)
    peak = Peak(threads or Options().cores, load, registers)
    return MachineLimits(peak.gflops(), peak.gigabytes())


class Dump:
    """Writes each stage that changed something as a numbered text file, where a folder is given."""

    def __init__(self, options: Options) -> None:
        """Options.dump_dir, or SMELT_DUMP."""
        folder = dump_folder(options)
        self.folder = Path(folder) if folder else None
        self.count, self.last = 0, ""

    def graph(self, name: str, mod: IRModule) -> None:
        """Write a module of graph functions, where it is another one than before."""
        if self.folder is None:
            return
        text = graph_script(mod)
        if text != self.last:
            write_text(self.folder / f"{self.count:03d}_{name}.txt", text)
            self.count, self.last = self.count + 1, text


def stage_text(
    model: Any,
    stage: str = "graph",
    kernel: str | None = None,
    target: str | Target | None = None,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    options: Options | None = None,
) -> str:
    """The text of a stage of a model's compilation.

    stage   one of STAGES
    kernel  the name of one kernel; None: all
    """
    if stage in CODE:
        resolved = resolve(as_target(target))
        functions = stage_module(model, "lowered", kernel, target, shapes, options).functions
        return "\n\n".join([_code(f, stage, resolved) for f in functions.values()])
    mod = stage_module(model, stage, kernel, target, shapes, options)
    if stage in ("graph", "fused"):
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
        raise CompileError(f"{what} {stage!r}; stages: {', '.join(legal)}")
    options = options or Options()
    mod = import_model(model, shapes)
    if stage == "graph":
        return mod
    mod = optimize(mod, options)
    if stage == "fused":
        return mod
    resolved = resolve(as_target(target))
    specs = {s.symbol: s for s in kernel_specs(plan_graph(mod), resolved, options)}
    named = {str(s.group.attrs.get("name", s.symbol)): s for s in specs.values()}
    if kernel is not None and kernel not in named:
        raise CompileError(f"the model has no kernel {kernel!r}; kernels: {', '.join(named)}")
    wanted = named if kernel is None else {kernel: named[kernel]}
    return IRModule({n: _program(s, stage, n) for n, s in wanted.items()})


def _program(spec: KernelSpec, stage: str, name: str) -> PrimFunc:
    if stage == "tir":
        return plain_program(spec, name)
    func = scheduled(spec).func.with_attrs(name=name)
    return func if stage == "scheduled" else lower_program(func)


def _code(flat: Any, stage: str, target: Target) -> str:
    ir = emit_module([flat])
    return ir if stage == "llvm" else ObjectCompiler(target).assembly(ir)
