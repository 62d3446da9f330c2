"""From a model to C for a microcontroller, or for anything that has a C compiler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from smelt.artifact.graph import GraphPlan
from smelt.artifact.model import ModelCode, Progress, build_kernels, compile_graph
from smelt.artifact.placing import BEST
from smelt.artifact.pools import Algorithm, algorithm_of
from smelt.artifact.tight import MemoryOptions
from smelt.artifact.variants import Declared
from smelt.artifact.vm_construct import vm_construct
from smelt.artifact.weights import weights_of
from smelt.byoc import compile_externals
from smelt.codegen.c_helpers import RESERVED
from smelt.frontend.source import ModelSource, import_model
from smelt.ir.config import MEMORY_ALGORITHMS, MEMORY_KEYS
from smelt.ir.errors import CompileError, TargetError
from smelt.ir.memory_pools import Pool, check_pools
from smelt.ir.module import IRModule
from smelt.ir.options import Options, OptionValues
from smelt.ir.sizes import Extent, plain_shapes
from smelt.ir.steps import Step
from smelt.ir.transform import PassContext
from smelt.lowering.dot_products import use_dot_products
from smelt.lowering.first_values import start_reductions
from smelt.lowering.partition import split_interior
from smelt.lowering.windows import gather_windows
from smelt.pipeline import GRAPH, LOWER, checked_context, fuse
from smelt.relax.nodes import values
from smelt.relax.transform.for_scalar_cores import (
    count_from_border,
    halve_factors,
    requantize_small_sums,
    widen_filters,
)
from smelt.relax.transform.match import dtype_of, is_op
from smelt.relax.transform.rescale_in_integers import rescale_in_integers
from smelt.relax.transform.rewriting import functions_of
from smelt.runtime.errors import nearest
from smelt.runtime.linking import c_name
from smelt.target import Target
from smelt.target.processor import features_of, known_cpus
from smelt.tir.intrin.products import products_of
from smelt.topi.conv import CONVOLUTIONS

from .cmsis_nn import COMPILER as CMSIS_NN
from .cmsis_nn import CORES, partition
from .csource import CSource
from .errors import NonStaticShapeError
from .graph import GraphWriter, UnlinkedGraphWriter
from .source import OF_CPP, Writer, c_model


def _with_ours(helium: bool = False, wide: bool = False) -> Iterator[Step]:
    for step in GRAPH:
        yield step
        if step.name == "ComputeInIntegers":
            yield Step(rescale_in_integers, "RescaleInIntegers", "scales change without floats",
                       level=2, needs=("graph form",))  # fmt: skip
        if step.name == "ExpandOps" and not helium:
            yield Step(count_from_border, "CountFromBorder", "borders are skipped", level=2,
                       needs=("graph form", "core operators"))  # fmt: skip
        if step.name == "SimplifyGraph":
            yield Step(requantize_small_sums, "RequantizeSmallSums", "few instructions", level=2,
                       needs=("graph form", "core operators"))  # fmt: skip
            if helium:
                yield Step(halve_factors, "HalveFactors", "as vector units take them", level=2,
                           needs=("graph form", "core operators"))  # fmt: skip
            if wide:
                yield Step(widen_filters, "WidenFilters", "before the model runs", level=2,
                           needs=("graph form", "core operators"))  # fmt: skip


GRAPH_STEPS = tuple(_with_ours())
"""From an imported graph to calls of kernels, for processors without vectors."""
_DSP_STEPS = tuple(_with_ours(wide=True))
"""The same where bytes are widened before they are multiplied."""
_HELIUM_STEPS = tuple(_with_ours(helium=True))
"""The same where a copy with its border costs little, and sums without a zero point are fastest."""


OWN_PASSES = tuple(
    dict.fromkeys([s.name for s in (*GRAPH_STEPS, *_DSP_STEPS, *_HELIUM_STEPS) if s not in GRAPH])
)
"""Names of passes over graphs that only C has."""


def lowering_for(target: Target) -> Iterator[Step]:
    """From a scheduled program to flat loops: loops twice at most, since code is precious."""
    features = features_of(target)
    helium, offer = "mve" in features, products_of(features)
    yield Step(partial(start_reductions, every=True), "StartReductions",
               "sums begin before their loops")  # fmt: skip
    for step in LOWER:
        if step.name == "HoistIfThenElse" and helium:
            yield _WINDOWS
        if step.name == "TightenLoops" and not helium:
            yield _INTERIOR
        if "LoopPartition" not in step.names:
            yield step
        if step.name == "FlattenBuffer" and offer is not None:
            yield Step(partial(use_dot_products, offer=offer), "UseDotProducts",
                       "bytes are multiplied several at a time",
                       needs=("flat buffers",))  # fmt: skip


_INTERIOR = Step(split_interior, "SplitInterior", "what is far from borders asks for none",
                 needs=("loops",))  # fmt: skip


_WINDOWS = Step(gather_windows, "GatherWindows", "bytes that are multiplied follow one another",
                needs=("loops",))  # fmt: skip


def with_cmsis_nn(target: object) -> bool:
    """Whether a target says that CMSIS-NN computes what it can: "cmsis-nn,c". Raises TargetError
    for "ethos-u,c", which is no target here, and for the library spelt or placed otherwise."""
    library, *rest = [w.strip() for w in target.split(",")] if isinstance(target, str) else [""]
    if library.startswith("ethos-u"):
        raise TargetError(
            f"target {target!r}: an Ethos-U takes a TFLite file and no graph: smelt.micro.ethosu."
            'compile_for_ethosu("model.tflite", "ethos-u55-128"); legal here: "cmsis-nn,c", "c"'
        )
    names = [w.split()[0].replace("_", "-") for w in (library, *rest) if w]
    if CMSIS_NN in names and not (library == CMSIS_NN and len(rest) == 1):
        raise TargetError(f'target {target!r}: legal: "cmsis-nn,c", "cmsis-nn,c -mcpu=cortex-m55"')
    return library == CMSIS_NN


def _alone(target: str | Target) -> str | Target:
    """A target without the library that computes parts."""
    return str(target).partition(",")[2].strip() if with_cmsis_nn(target) else target


def is_c(target: str | Target | None) -> bool:
    """Whether a target asks for C. Raises TargetError for what is no target."""
    return target is not None and Target(_alone(target)).kind.name == "c"


def c_target(target: str | Target) -> Target:
    """A target of the kind "c", checked: "c", "c -mcpu=cortex-m4"; with or without "cmsis-nn," in
    front of it. Raises TargetError."""
    made = Target(_alone(target))
    if made.kind.name != "c":
        raise TargetError(f'{made} makes no C; legal: "c", "c -mcpu=cortex-m4", "cmsis-nn,c"')
    known = known_cpus(made)
    if made.mcpu and made.mcpu not in known:
        usual = [c for c in known_cpus(Target("c -march=armv7e-m")) if c.startswith("cortex-m")]
        names = [c for c in known if c.startswith("cortex-m")] or known or usual
        raise TargetError(f"-mcpu={made.mcpu} is not known{nearest(made.mcpu, known or usual)}; "
                          f"legal: {', '.join(names)}")  # fmt: skip
    if int(made.attrs.get("num-cores", 1)) > 1:
        raise TargetError(f"{made}: C runs on one core; legal: -num-cores=1")
    return made


def compile_c(
    model: ModelSource,
    target: str | Target = "c",
    *,
    shapes: Mapping[str, Sequence[Extent]] | None = None,
    placing: Algorithm | None = None,
    pools: Sequence[Pool] = (),
    workspace_io: bool | None = None,
    name: str = "",
    packed: bool = False,
    stream: bool = True,
    graph: bool = False,
    link_params: bool = True,
    options: Options | None = None,
    progress: Progress | None = None,
    **keywords: Unpack[OptionValues],
) -> CSource:
    """A trained model as C99: kernels, weights and a function that runs it, without a heap.

    model    as for `compile`; it has to run straight through, with sizes that are known
    target   "c", or with a processor: "c -mcpu=cortex-m4"; "cmsis-nn,c -mcpu=cortex-m4" calls
             Arm's library for what it computes, see smelt.micro.cmsis_nn
    placing  how memory is planned: one of MEMORY_ALGORITHMS, or a function of blocks, see
             docs/micro.md; None: what the PassContext says by tir.usmp..., or the best of them
    pools    memories for results and for constants; with several for results, a run is given a
             structure of these
    workspace_io  whether inputs and outputs stand in the workspace; None: what the PassContext says
    name     what its functions begin with; "": the model's name
    packed   whether there is a function that takes one table of all tensors, too
    stream   whether kernels run row by row where that saves a tenth of the workspace or more; those
             of a graph run one by one
    graph    whether the graph executor runs it, which reads the graph when the program runs
    link_params  whether the parameters of such a graph are in the source
    shapes, options, progress, keywords  as for `compile`

    Raises what `compile` does, TargetError, and CompileError for what C cannot express yet.
    """
    resolved = c_target(target)
    context = checked_context("smelt.compile_c", options, others=OWN_PASSES, follows=MEMORY_KEYS,
                              values=keywords)  # fmt: skip
    memory = _memory(context, placing, pools, workspace_io, packed, stream, graph)
    one, fused, declared = fused_for_c(model, target, context, shapes, name, progress)
    kernels = partial(build_kernels, context=one, lowering=tuple(lowering_for(resolved)), text=True,
                      progress=progress)  # fmt: skip
    externals = compile_externals(fused, resolved, one.options)
    made = compile_graph(fused, resolved, one.options, kernels, externals, memory=memory)
    check_sizes(made.plan, declared)
    if made.plan.updates:
        raise CompileError("C source keeps nothing from call to call, and the model has a state")
    _say_what_is_slow(made, fused, resolved)
    weights, places = weights_of(made.constants(), one.options, LOWER, by_contents=True)
    writer = (GraphWriter if link_params else UnlinkedGraphWriter) if graph else Writer
    of_constants = [p for p in pools if p.constants]
    return c_model(made, resolved, weights, places, name, packed, of_constants, writer)


def check_sizes(plan: GraphPlan, declared: Declared) -> None:
    """Raise NonStaticShapeError for a model whose sizes are no numbers."""
    if plan.symbols or declared.variants:
        names = ", ".join([v.name for v in plan.symbols])
        raise NonStaticShapeError(
            f"C source needs sizes that are numbers, and the model has {names}; give the shapes of "
            "its inputs: --shape x=1,3,32,32, or shapes={'x': (1, 3, 32, 32)}"
        )


def _memory(
    context: PassContext, placing: Algorithm | None, pools: Sequence[Pool], io: bool | None,
    packed: bool, stream: bool, graph: bool,
) -> MemoryOptions:  # fmt: skip
    """How memory is planned. Raises CompileError."""
    found = placing or algorithm_of(context.config, BEST)
    if not callable(found) and found not in MEMORY_ALGORITHMS:
        legal = ", ".join(MEMORY_ALGORITHMS)
        raise CompileError(f"placing is {found!r}; legal: {legal}, or a function of blocks")
    io = context.setting("tir.usmp.use_workspace_io") if io is None else io
    if io and packed:
        raise CompileError(
            "inputs and outputs in the workspace (workspace_io) are in no table of tensors; legal: "
            'packed=False, or Executor("aot", {"unpacked-api": True, "interface-api": "c"})'
        )
    if graph and (io or pools):
        what = "workspace_io" if io else "memory pools"
        raise CompileError(f"the graph executor has one arena and takes no {what}; legal with "
                           'Executor("aot")')  # fmt: skip
    words = {*RESERVED, *OF_CPP.split()}
    of_results = [p for p in check_pools(pools, words) if not p.constants]
    return MemoryOptions(found, of_results, bool(io), stream and not graph)


def fused_for_c(
    model: ModelSource, target: str | Target, context: PassContext,
    shapes: Mapping[str, Sequence[Extent]] | None = None, name: str = "",
    progress: Progress | None = None,
) -> tuple[PassContext, IRModule, Declared]:  # fmt: skip
    """The context of one core, a model as calls of kernels, and what is known of its sizes.

    Arguments are those of `compile_c`.
    """
    resolved, (plain, sizes) = c_target(target), plain_shapes(shapes)
    one = PassContext.with_options(replace(context.options, threads=1))
    if not isinstance(name, str):
        raise CompileError(f"name is {name!r}; legal: a text, what functions' names begin with")
    imported = _imported(model, plain, resolved, with_cmsis_nn(target), name)
    features = features_of(resolved)
    other = _DSP_STEPS if "dsp" in features else GRAPH_STEPS
    steps = _HELIUM_STEPS if "mve" in features else other
    return one, *fuse(imported, one, progress, sizes, steps=steps)


def _say_what_is_slow(made: ModelCode, fused: IRModule, target: Target) -> None:
    """Warn of what a processor has no instructions for: floats, and bytes of two kinds."""
    moved = [p.storage.dtype for c in made.calls for p in c.places]
    floats = sorted({t for t in moved if t in ("float32", "float64")})
    if floats and target.mcpu and not features_of(target) & {"vfp2sp", "vfp4d16sp", "fp_armv8"}:
        warnings.warn(
            f"{target.mcpu} has no unit for floats: {', '.join(floats)} is computed by functions, "
            "20 times slower; smelt quantize makes bytes of a model",
            stacklevel=3,
        )
    if "mve" not in features_of(target):
        return
    products = [v for f in functions_of(fused).values() for v in values(f.body)
                if is_op(v, "matmul", *CONVOLUTIONS)]  # fmt: skip
    if any({dtype_of(a) for a in v.args} == {"uint8", "int8"} for v in products):
        warnings.warn(
            f"{target.mcpu} multiplies bytes of one kind, and the model's activations are uint8: "
            "kernels take up to three times as long; smelt quantize --activations int8",
            stacklevel=3,
        )


def _imported(
    model: ModelSource, shapes: Mapping[str, Sequence[Extent]] | None, target: Target, cmsis: bool,
    name: str,
) -> IRModule:  # fmt: skip
    """A model that runs straight through, with parts for CMSIS-NN if wanted."""
    made = import_model(model, shapes)
    if cmsis:
        known = target.mcpu if target.mcpu in CORES else ""
        made = partition(made, c_name(name or str(made.attrs.get("name", "default"))), known)
    found = vm_construct(made)
    if found is not None:
        raise CompileError(
            f"C source is for models that run straight through; found {found}\n  smelt compile -o "
            "model.so takes it"
        )
    return made
