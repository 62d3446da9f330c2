"""The compiler's table of contents: all lists of passes, and the public functions that run them.

    imported graph ── GRAPH ──▶ calls of kernels, with layouts ── assemble ──▶ Artifact ── load

GRAPH ends in groups of operators that are a kernel each, and in the orders of their results in
memory. `assemble` plans memory, makes every kernel (tensor program, schedule, LOWER, machine code),
the host program that calls them, and the blob of constants. `load` links all that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, Unpack

from smelt import te
from smelt.artifact.artifact import ELSEWHERE, Artifact, check_native, load
from smelt.artifact.dump import GraphDump
from smelt.artifact.model import Progress, Straight, compile_straight, link_straight
from smelt.artifact.program import build_program
from smelt.artifact.variants import Declared, declare, may_vary
from smelt.artifact.vm import compile_vm
from smelt.artifact.vm_construct import refuse_control, vm_construct
from smelt.artifact.vm_link import link_program, load_program
from smelt.byoc import compile_externals
from smelt.classic.parameters import with_parameters
from smelt.codegen.llvm import is_native, resolve
from smelt.frontend import source
from smelt.frontend.common import NeedsValues
from smelt.frontend.source import MODELS, ModelSource, import_model, load_model
from smelt.ir.errors import CompileError
from smelt.ir.expr import Var
from smelt.ir.module import IRModule
from smelt.ir.options import Options, OptionValues
from smelt.ir.sizes import Extent, Size, by_name, plain_shapes
from smelt.ir.steps import Step, check_names, check_order, run_steps
from smelt.ir.transform import PassContext
from smelt.lowering.blocks import lower_blocks
from smelt.lowering.collapse import collapse_parallel
from smelt.lowering.exchange import exchange_gathers
from smelt.lowering.finish import finish
from smelt.lowering.flatten import flatten_buffers
from smelt.lowering.guards import drop_safe_guards, guard_reductions, hoist_guards, tighten_loops
from smelt.lowering.legalize import legalize_narrow
from smelt.lowering.lower import lower as lower_function
from smelt.lowering.lower import lowering_steps
from smelt.lowering.partition import partition_loops
from smelt.lowering.prefetch import inject_prefetch
from smelt.lowering.promote import promote_accumulators
from smelt.lowering.simplify import simplify
from smelt.lowering.unroll import unroll_loops
from smelt.lowering.vectorize import vectorize_loops
from smelt.lowering.workspace import lift_workspaces
from smelt.model import Model, Needs
from smelt.relax import updates
from smelt.relax.match_cast import resolve_match_cast
from smelt.relax.nodes import Function, RelaxExpr
from smelt.relax.transform import recognize_attention, simplify_graph, split_convolutions
from smelt.relax.transform.canonicalize import SIMPLIFICATIONS
from smelt.relax.transform.choose_layouts import choose_layouts
from smelt.relax.transform.compute_in_integers import compute_in_integers
from smelt.relax.transform.expand_ops import expand_dialects, expand_ops
from smelt.relax.transform.fuse_ops import fuse_ops
from smelt.relax.transform.infer_module import infer_types
from smelt.relax.transform.keep_few_bits import keep_few_bits
from smelt.relax.transform.name_sizes import name_sizes
from smelt.relax.transform.normal_form import inline_functions
from smelt.relax.transform.tell_sizes import tell_sizes
from smelt.relax.transform.unify_sizes import unify_sizes
from smelt.relax.verify import verify as verify_graph
from smelt.runtime.executable import Argument, Executable
from smelt.runtime.program import Module
from smelt.runtime.signature import TensorInfo, known_shape
from smelt.runtime.state import owning
from smelt.runtime.vm import VMExecutable
from smelt.runtime.vm_program import Program
from smelt.search.lookup import known_schedule, with_tunings
from smelt.search.space import ProgramSpec
from smelt.target import Target
from smelt.tir.nodes import PrimFunc
from smelt.tir.schedule import Schedule
from smelt.topi.registry import Op

log = logging.getLogger("smelt.compile")

Operator: TypeAlias = Op | Callable[..., object]
"""What nodes of an operator of one's own become: see from_onnx."""

Programs: TypeAlias = te.Schedule | Schedule | PrimFunc | IRModule
"""What holds tensor programs."""

# fmt: off
GRAPH: tuple[Step, ...] = (
    Step(resolve_match_cast, "ResolveMatchCast",
         "sizes that values introduce become expressions over known ones", gives=("no casts",),
         must="programs know the sizes of inputs only", also=("InferType",)),
    Step(inline_functions, "InlineFunctions",
         "names, and functions called in place, are dissolved; groups made by hand stay",
         gives=("graph form",), must="what follows works on graphs without names",
         also=("ToGraphNormalForm",)),
    Step(name_sizes, "NameSizes", "symbolic sizes get names of their own", gives=("named sizes",),
         must="the host program knows sizes by name"),
    Step(expand_dialects, "ExpandDialects", "dialects' words become ours", needs=("graph form",)),
    Step(compute_in_integers, "ComputeInIntegers", "products of quantized numbers are of integers",
         level=2, needs=("graph form",)),
    Step(keep_few_bits, "KeepFewBits", "weights stay as small", level=2, needs=("graph form",)),
    Step(expand_ops, "ExpandOps", "operators written in others become these",
         needs=("graph form",), gives=("core operators",),
         must="kernels are made of the core's operators", also=("CanonicalizeOps",)),
    Step(unify_sizes, "UnifySizes",
         "sizes that have to be equal become one, others' equations are checked",
         needs=("no casts", "graph form", "named sizes", "core operators"),
         gives=("checked sizes",), must="unequal sizes would be read out of bounds"),
    Step(simplify_graph, "SimplifyGraph",
         "constants folded, BatchNorm into weights, composed operators recognised", level=2,
         needs=("graph form", "core operators"), parts=dict.fromkeys(SIMPLIFICATIONS, 2)),
    Step(split_convolutions, "SplitConvolutions",
         "transposed convolutions: plain ones, interleaved; of single pixels: of those that stay",
         level=2, needs=("graph form", "core operators")),
    Step(recognize_attention, "RecognizeAttention", "softmax(q k^T) v becomes one operator",
         level=3, needs=("graph form", "core operators"), asks=True),
    Step(fuse_ops, "FuseOps",
         "an anchor and the elementwise work after it become one kernel; if off, each is one",
         level=1, needs=("checked sizes", "core operators"), gives=("kernels",),
         ends=("core operators",), asks=True, always=True),
    Step(choose_layouts, "ChooseLayouts",
         "the order in memory of every result, by its price; copies where orders do not meet",
         needs=("kernels",), gives=("layouts",),
         must="kernels are compiled for the strides of their buffers"),
)
"""From an imported graph to calls of kernels."""

VM: tuple[Step, ...] = (
    GRAPH[0],
    GRAPH[1],
    Step(infer_types, "InferType", "the types of closures, data and branches", gives=("types",),
         must="the virtual machine's segments have typed inputs"),
    Step(tell_sizes, "TellSizes", "sizes that are computed become sizes of the run",
         needs=("types",), must="operators are compiled for known sizes, or for sizes of the run"),
)
"""Before a program that decides while it runs is cut into segments, each of which goes by GRAPH."""

_FLAT = "code is made from buffers of one dimension"

LOWER: tuple[Step, ...] = (
    Step(lower_blocks, "LowerOpaqueBlock",
         "block variables become loop expressions; buffers shrink to what a tile touches",
         gives=("loops",), must="code is made from loops, not from blocks",
         also=("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque",
               "CompactBufferAllocation")),
    Step(simplify, "Simplify", "decided branches and loops of one iteration go"),
    Step(drop_safe_guards, "ReduceBranchingThroughOvercompute",
         "what only protects unused register elements goes", needs=("loops",)),
    Step(guard_reductions, "GuardReductions",
         "a guarded operand of a sum becomes a guard of the update", needs=("loops",)),
    Step(simplify, "Simplify", "what the guards left behind"),
    Step(hoist_guards, "HoistIfThenElse", "conditions leave the loops that they do not mention",
         needs=("loops",)),
    Step(tighten_loops, "TightenLoops", "a condition on a loop's own variable becomes its bounds",
         needs=("loops",)),
    Step(partition_loops, "LoopPartition",
         "the middle of a tiled loop runs without the conditions of its edges", needs=("loops",)),
    Step(flatten_buffers, "FlattenBuffer", "a[i, j] -> a[i * 64 + j]", needs=("loops",),
         gives=("flat buffers",), must=_FLAT),
    Step(lift_workspaces, "LiftWorkspaces",
         "large intermediate buffers are handed in by the caller", needs=("flat buffers",),
         must="large buffers do not fit on a thread's stack"),
    Step(vectorize_loops, "VectorizeLoop", "before unrolling, so that it is done once",
         needs=("flat buffers",)),
    Step(unroll_loops, "UnrollLoop",
         "constant indices into local buffers are registers from here on", needs=("flat buffers",)),
    Step(promote_accumulators, "PromoteAccumulators",
         "what a loop updates again and again stays in a register meanwhile",
         needs=("flat buffers",)),
    Step(inject_prefetch, "InjectPrefetch", "loops ask for what they come to later",
         needs=("flat buffers",)),
    Step(collapse_parallel, "CollapseParallel", "nested parallel loops are shared out together",
         needs=("flat buffers",)),
    Step(exchange_gathers, "ExchangeGathers",
         "strided copies of neighbouring columns: loads of rows, shuffles",
         needs=("flat buffers",)),
    Step(legalize_narrow, "LegalizeNarrow",
         "floats and integers of a few bits become bytes and arithmetic on them"),
    Step(finish, "LowerIntrin", "fused multiply-adds, cheap divisions"),
)
"""From a scheduled program to flat loops."""
# fmt: on

READABLE = LOWER[:2]
"""As far as a person wants to read: loops, branches, buffers with their shapes."""

for _list in (GRAPH, VM, LOWER):
    check_order(_list)


def compile(
    model: ModelSource,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    values: Mapping[str, Argument] | None = None,
    operators: Mapping[str, Operator] | None = None,
    state: Mapping[str, updates.Kept] | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionValues],
) -> Executable:
    """A trained model as an executable for this machine.

    It is a NativeExecutable, one native call; for ONNX models that decide while they run a
    VMExecutable; for those whose form depends on values of inputs a Model.

    model     path of an ONNX or TFLite file, its bytes, an onnx.ModelProto, what
              torch.export.export gives, an IRModule or a graph function
    target    e.g. "llvm -mcpu=native" (the default)
    shapes    per input, extents that replace the file's: numbers, names of symbolic sizes,
              expressions over them as text ("past + seq"), or smelt.Size: a name with a range, and
              likely values, for which specialised code is chosen at run time
    values    arrays for inputs that are known now; they are no inputs of the executable
    operators "domain.Operator" -> what nodes of an operator of your own become: see from_onnx
    state     {"past": "present"}, {"past.*": "present.*"}: inputs that are an output of the call
              before, kept in `exe.state`; {"past": ("present", array)}: one that begins as that
    options   see `Options`; None: those of the PassContext around the call
    progress  called with (stage, done, total) while the graph's passes run and kernels are compiled
    keywords  options one by one: smelt.compile(model, threads=1)

    Raises ImportFailure, Unsupported (the model needs what smelt does not do), TypeMismatch (shapes
    or values do not fit), TargetError, CompileError.
    """
    resolved = resolve(as_target(target))
    check_native(resolved, ELSEWHERE)
    context = checked_context("smelt.compile", options, values=keywords)
    plain, sizes = plain_shapes(shapes)
    compiled = partial(_compiled, target=resolved, context=context, progress=progress, sizes=sizes,
                       state=state)  # fmt: skip
    if isinstance(model, IRModule | RelaxExpr):
        return compiled(import_model(model, plain, values=values, operators=operators), ())
    loaded, known = load_model(model), by_name("values", values, "'x': array")

    def read(forms: Mapping[str, Any]) -> IRModule | Needs:
        try:
            return source.import_loaded(loaded, plain, {**known, **forms}, operators)
        except NeedsValues as e:
            return Needs(e.inputs, e.shapes)

    form = partial(compiled, outputs=loaded.graph.outputs)
    found = read({})
    if isinstance(found, IRModule):
        return form(found)
    updates.refuse_forms(loaded.name, found.inputs, state)
    given = {i.name: i.shape for i in loaded.graph.inputs} | dict(plain or {})
    left = [i for i in loaded.graph.inputs if i.name not in known]
    inputs = [TensorInfo(i.name, i.dtype, known_shape(i.name, given[i.name]), i.kind) for i in left]
    return Model(loaded.name, inputs, loaded.graph.outputs, read, form, found)


def _compiled(
    mod: IRModule, outputs: Sequence[str], target: Target, context: PassContext,
    progress: Progress | None, sizes: Mapping[str, Size], state: Mapping[str, updates.Kept] | None,
) -> Executable:  # fmt: skip
    """A module, which may decide while it runs.

    outputs  the names of its results, if known; sizes, state: what its user declared of them
    """
    if "main" not in mod.functions:
        raise CompileError(f"no function 'main' to compile; it has: {', '.join(mod.functions)}")
    outputs = updates.result_names(mod["main"], outputs)
    mod = updates.declare_states(mod, state, outputs)
    if not _decides(mod, sizes):
        return owning(load(_whole(mod, target, context, progress, sizes)))
    return owning(compile_program(mod, target, context, ("main",), outputs, progress))


def _decides(mod: IRModule, sizes: Mapping[str, Size] | None) -> bool:
    """Whether a model decides while it runs, which nothing may be declared of the sizes of."""
    main = mod["main"]
    grouped = isinstance(main, Function) and bool(main.attrs.get("output_groups"))
    found = grouped or vm_construct(mod) is not None
    if found and sizes:
        raise CompileError(
            f"shapes declares {', '.join(map(repr, sizes.values()))}, and the model decides while "
            "it runs: only models that run straight through have ranges and variants; give the "
            "sizes' names instead"
        )
    return found


def compile_artifact(
    model: ModelSource,
    target: str | Target | None = None,
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    state: Mapping[str, updates.Kept] | None = None,
    options: Options | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionValues],
) -> Artifact:
    """A trained model as machine code, constants and a description; nothing of it is loaded.

    The target may be another machine than this one: `artifact.export_library("model.so")`. The
    arguments are those of `compile`; where no threads are given, another machine has as many
    processors as the target's -num-cores says, or 4. Raises what `compile` does.
    """
    (plain, sizes), resolved = plain_shapes(shapes), resolve(as_target(target))
    context = checked_context("smelt.compile_artifact", options, resolved, values=keywords)
    imported, names = source.import_named(model, plain)
    mod = updates.declare_states(imported, state)
    if _decides(mod, sizes):
        names = updates.result_names(mod["main"], names)
        return _program(mod, resolved, context, ("main",), names, progress)[0]
    return _whole(mod, resolved, context, progress, sizes, text=True)


def _whole(
    imported: IRModule,
    target: Target,
    context: PassContext,
    progress: Progress | None,
    sizes: Mapping[str, Size] | None,
    text: bool = False,
) -> Artifact:
    """The artifact of an imported module without control flow.

    sizes  what its user declared of its sizes; None: nothing may be, they may be 0
    text   whether to stop at LLVM text
    """
    start = time.perf_counter()
    mod, declared = fuse(imported, context, progress, sizes)
    made = assemble(mod, target, context, progress, declared=declared, text=text)
    cpu, seconds = target.attrs.get("mcpu", "any"), time.perf_counter() - start
    log.info("%s: compiled for %s in %.2f s", made.metadata["name"], cpu, seconds)
    return made


def fuse(
    imported: IRModule,
    context: PassContext,
    progress: Progress | None,
    sizes: Mapping[str, Size] | None,
    pure: bool = False, steps: Sequence[Step] = GRAPH,
) -> tuple[IRModule, Declared]:  # fmt: skip
    """A module after the steps, and what is known of its sizes, with graphs for likely ones.

    sizes  what its user declared of its sizes; None: nothing may be, they may be 0
    pure   as of `updates_of`
    """

    def passes(mod: IRModule) -> IRModule:
        return run_graph(mod, context, progress, steps)

    mod = passes(imported)
    declared = declared_sizes(imported, mod, context, passes, sizes)
    pairs = updates.updates_of(mod, pure)
    return updates.with_updates(mod, pairs), declared.optimized(
        lambda one: updates.with_updates(one, pairs)
    )


def assemble(
    fused: IRModule, target: Target, context: PassContext, progress: Progress | None = None,
    **options: Any,
) -> Artifact:  # fmt: skip
    """The artifact of a graph after GRAPH; options are those of `compile_straight`."""
    made = _straight(fused, target, context, progress, **options)
    return link_straight(made, target, context.options, LOWER)


def _straight(
    fused: IRModule, target: Target, context: PassContext, progress: Progress | None,
    **options: Any,
) -> Straight:  # fmt: skip
    """A graph after GRAPH, compiled, its external functions too."""
    externals = compile_externals(fused, target, context.options)
    return compile_straight(fused, target, context, LOWER, progress, externals, **options)


def compile_program(
    mod: IRModule,
    target: Target,
    context: PassContext,
    entries: Sequence[str] = ("main",),
    outputs: Sequence[str] = (),
    progress: Progress | None = None,
) -> VMExecutable:
    """Some functions of a module, and what they call, as a program for the virtual machine.

    outputs  the names of main's results
    """
    check_native(target, ELSEWHERE)
    return load_program(*_program(mod, target, context, entries, outputs, progress))


def _program(
    mod: IRModule, target: Target, context: PassContext, entries: Sequence[str],
    outputs: Sequence[str], progress: Progress | None,
) -> tuple[Artifact, Program]:  # fmt: skip
    """As of `compile_program`, for any machine."""
    segments: list[Straight] = []

    def straight(one: IRModule) -> None:
        fused, declared = fuse(one, context, progress, None, pure=True)
        segments.append(_straight(fused, target, context, progress, declared=declared))

    if not mod.attrs.get("typed"):  # importers may say all types themselves
        mod = run_steps(VM, mod, context)
    program = compile_vm(mod, straight, entries, outputs)
    name = str(mod.attrs.get("name", "main"))
    return link_program(program, segments, name, target, context.options, LOWER, mod), program


def lower(
    inputs: Programs,
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
    context = checked_context("smelt.lower")
    steps = lowering_steps(context, READABLE if simple_mode else LOWER)
    functions = tensor_functions(inputs, args, name)
    return IRModule({n: lower_function(f, steps, None, context) for n, f in functions.items()})


def lower_program(
    func: PrimFunc, observe: Callable[[str, PrimFunc], None] | None = None
) -> PrimFunc:
    """A scheduled program as flat loops; observe: called with each pass's name and result."""
    return lower_function(func, LOWER, observe)


def build(
    inputs: Programs,
    args: Sequence[te.Tensor | Var] | None = None,
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    name: str = "main",
    *,
    options: Options | None = None,
    **keywords: Unpack[OptionValues],
) -> Module:
    """Tensor programs compiled for this machine; the module's functions work on arrays in place.

    inputs, args, name  as for `lower`
    target_host         the same as `target`, or None: the host is the target
    options             None: those of the PassContext around the call; programs without a schedule
                        that the database has a winner for are scheduled by it
    keywords            options one by one: threads=1
    """
    context = checked_context("smelt.build", options, values=keywords)
    resolved = resolve(as_target(target if target is not None else Target.current()))
    check_native(resolved)
    if target_host is not None and resolve(as_target(target_host)) != resolved:
        raise CompileError(
            f"target_host is {target_host}, but host and target are one machine here"
        )
    functions = tensor_functions(inputs, args, name)
    for n, f in functions.items():
        if found := known_schedule(context, ProgramSpec(f, resolved, context.options.cores)):
            functions[n] = found.func
    return build_program(functions, resolved, lowering_steps(context, LOWER), context)


def tensor_functions(
    inputs: Any, args: Sequence[te.Tensor | Var] | None, name: str
) -> dict[str, PrimFunc]:
    """The scheduled programs behind what `lower` and `build` take, by name."""
    if isinstance(inputs, te.Schedule):
        if args is None:
            raise CompileError("a te.Schedule needs args: its parameters in order")
        return {name: te.lower_schedule(inputs, args, name).func}
    if args is not None:
        return {name: with_parameters(inputs, args, name)}
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
    """The target to compile for; today only CPUs through LLVM."""
    if isinstance(target, MODELS) or (isinstance(target, str) and target.endswith(source.FILES)):
        shown = repr(target) if isinstance(target, str) else f"a {type(target).__name__}"
        raise CompileError(
            f"the target is {shown}, which is a model; the model comes first: "
            'smelt.compile(model, "llvm -mcpu=native")'
        )
    made = Target("llvm -mcpu=native" if target is None else target)
    if made.kind.name != "llvm":
        raise CompileError(
            f"target kind {made.kind.name!r} cannot be compiled yet; today: llvm, e.g. "
            '"llvm -mcpu=native"'
        )
    return made


def checked_context(
    who: str,
    options: Options | None = None,
    target: Target | None = None,
    others: Collection[str] = (),
    follows: Sequence[str] = (),
    values: Mapping[str, object] | None = None,
) -> PassContext:
    """The PassContext around a call, read once. Its names have to be those of passes.

    options  of the call; None: the context's
    target   resolved; threads that are not said are the processors of that machine
    others   further names that it may use; follows: further config keys that the call follows
    values   options of the call one by one
    """
    if options is not None and not isinstance(options, Options):
        raise CompileError(
            f"{who}: options is a {type(options).__name__}; give smelt.Options(threads=1), or the "
            "options themselves as keywords: threads=1"
        )
    context = with_tunings(PassContext.with_options(options), who, values or {})
    if target is not None and context.options.threads is None and not is_native(target):
        cores = int(target.attrs.get("num-cores", 4))
        context = PassContext.with_options(replace(context.options, threads=cores))
    check_names(context, (GRAPH, VM, LOWER), who, others)
    context.refuse("tir.usmp", who, 'relay.build with Executor("aot")', follows)
    return context


def optimize(
    mod: IRModule, options: Options | None = None, progress: Progress | None = None
) -> IRModule:
    """A graph after the passes that the optimisation level asks for: what is compiled.

    Arguments are those of `compile`. Raises CompileError for a graph that decides while it runs.
    """
    return run_graph(mod, checked_context("smelt.optimize", options), progress)


def run_graph(
    mod: IRModule,
    context: PassContext,
    progress: Progress | None = None,
    steps: Sequence[Step] = GRAPH,
) -> IRModule:
    """A graph after the passes of a list: GRAPH, or another order that keeps what passes need."""
    if steps is not GRAPH:
        check_order(steps)
    options = context.options
    if progress is not None and not callable(progress):
        raise CompileError(f"progress is {progress!r}; legal: a function of (stage, done, total)")
    dump = GraphDump(options)
    dump("imported", mod)
    if options.verify:
        verify_graph(mod)
    refuse_control(mod, "the graph executor")

    def observe(name: str, made: IRModule) -> None:
        if options.verify > 1:
            verify_graph(made)
        dump(name, made)

    report = None if progress is None else lambda n, total: progress("graph", n, total)
    found: IRModule = run_steps(steps, mod, context, observe, report)
    return found


def declared_sizes(
    imported: IRModule,
    fused: IRModule,
    context: PassContext,
    passes: Callable[[IRModule], IRModule],
    sizes: Mapping[str, Size] | None = None,
) -> Declared:
    """Ranges of a module's sizes, and variants of it: for likely sizes, for equal ones where sizes
    broadcast, and for none where an element is needed.

    passes  make `fused` of `imported`
    sizes   what the user declared, by name; None: sizes have no ranges
    """
    mod = fused
    if sizes or may_vary(fused["main"]):
        first = next(n for n, step in enumerate(GRAPH) if step.fn is unify_sizes)
        mod = run_steps(GRAPH[: first + 1], imported, context)
    return declare(mod, sizes).optimized(passes)
