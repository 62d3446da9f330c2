"""A fused graph to one executable: kernels compiled, weights prepared, memory planned, linked."""

from __future__ import annotations

import hashlib
import json
import logging
import pickle
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from smelt.codegen.cache import cache_key
from smelt.codegen.llvm_text import emit_module
from smelt.codegen.workers import default_pool
from smelt.ir import dtype as dt
from smelt.ir.build import minimum
from smelt.ir.errors import CompileError
from smelt.ir.expr import Expr, Var, const
from smelt.ir.module import IRModule
from smelt.ir.options import Options
from smelt.ir.steps import Step
from smelt.ir.transform import PassContext
from smelt.ir.types import TensorType
from smelt.ir.walk import free_vars, substitute
from smelt.lowering.instrument import check_wanted, dump_folder, write_text
from smelt.lowering.lower import lowering_steps
from smelt.relax.graph_op import kind_of
from smelt.relax.nodes import Call, values
from smelt.relax.transform.fuse_ops import form_of
from smelt.relax.updates import STATES, updated_operand
from smelt.relax.views import dense
from smelt.target import Target, machine_of
from smelt.tir.nodes import PrimFunc
from smelt.tir.printer import script

from . import external
from .artifact import HOST, Artifact, cached, objects_of
from .graph import GraphPlan, Launch, Made, Place, Storage, plan_graph
from .host import ENTRY, PLAN, Body, KernelCall, entry_program, plan_program
from .kernel import CompiledKernel, KernelSpec, Tuned, build_kernel
from .memory import plan_memory
from .placing import BY_SIZE
from .pools import Algorithm
from .reader import read
from .tight import BY_SIZES, MemoryOptions, use_little_memory
from .user_ops import Prepared, prepare, prepared_program, user_ops
from .variants import Declared, code_data, shapes_of, tensor_data, workspace_of
from .variants import size_text as size_text
from .weights import Starts, weights_of

log = logging.getLogger("smelt.compile")

Progress = Callable[[str, int, int], None]
BUILD = "smelt.artifact.kernel:build_kernel"


@runtime_checkable
class TunedSchedules(Protocol):
    """Where tuned schedules come from."""

    def tuned(self, spec: KernelSpec) -> Tuned | None:
        """The schedule of a kernel; None where the default stays."""


@dataclass
class ModelCode(Body):
    """Everything that compiling a graph gave, before it is linked.

    externals  what back ends made of external functions, by symbol, and their constants
    shares     the kernels whose result overlaps operands, and the numbers of these places
    """

    mod: IRModule
    artifacts: dict[str, CompiledKernel]
    externals: dict[str, tuple[external.External, list[Storage]]]
    shares: Mapping[str, Set[int]] = field(default_factory=dict)

    def constants(self) -> list[Storage]:
        """The constants that kernels and external functions read."""
        found = [p.storage for c in self.calls for p in c.places if p.storage.kind == "constant"]
        return found + [s for _, own in self.externals.values() for s in own]


def spec_of(
    launch: Launch, target: Target, options: Options, made: dict[Any, Prepared] | None = None
) -> KernelSpec:
    """What to compile for a launch; equal launches give specs with one symbol.

    made  programs of groups with the user's own operators that were made already
    """
    inputs = tuple([p.view.replace(offset=const(0)) for p in launch.inputs])
    outputs = tuple([p.view.replace(offset=const(0)) for p in launch.outputs])
    constants = tuple([p.storage.kind == "constant" and _plain(p) for p in launch.inputs])
    places = repr((inputs, outputs, constants))
    group, prepared = launch.group, None
    machine = machine_of(target, options.cores)
    if launch.program is not None:
        prepared = prepared_program(group, launch.program)
    elif user_ops(group):
        made = {} if made is None else made
        key = (group, places)
        if key not in made:
            made[key] = prepare(group, inputs, outputs, constants, machine,
                                rules=options.opt_level > 0, check=options.verify > 0)  # fmt: skip
        prepared = made[key]
        group = prepared.group
    updates = max(launch.updates, default=-1) if launch.program is None else -1
    own = form_of(group) if prepared is None else prepared.text
    hardware = json.dumps(machine.to_json())
    text = f"{own}\n{places}\n{target}\n{hardware}\n{options.opt_level}"
    text += f"\nupdates {updates}" if updates >= 0 else ""
    symbol = "k" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    return KernelSpec(
        symbol, group, inputs, outputs, constants, target, options.cores, options.opt_level,
        prepared, updates,
    )  # fmt: skip


def _plain(p: Place) -> bool:
    """Whether a constant is read as it is, not through a view."""
    fresh = dense(p.view.shape)
    return p.view.strides == fresh.strides and p.view.offset is fresh.offset


def kernel_specs(plan: GraphPlan, target: Target, options: Options) -> list[KernelSpec | None]:
    """One spec a launch; None for those that are not smelt's to compile."""
    made: dict[Any, Prepared] = {}
    own = [None if x.external else spec_of(x, target, options, made) for x in plan.launches]
    if not isinstance(options.database, TunedSchedules):
        return own
    unique = {s.symbol: s for s in own if s is not None}
    found = {symbol: options.database.tuned(s) for symbol, s in unique.items()}
    return [s if s is None else s.with_schedule(found[s.symbol]) for s in own]


@dataclass
class Straight:
    """A straight graph, compiled: in general, and for sizes that are likely.

    main    the fused graph's function
    shapes  of its results
    starts  what inputs begin as that are kept from call to call
    text    there are texts and no objects
    """

    main: Any
    model: ModelCode
    others: Sequence[ModelCode]
    declared: Declared
    shapes: list[list[Expr]]
    starts: Starts
    text: bool

    @property
    def all(self) -> list[ModelCode]:
        """The general code and the variants."""
        return [self.model, *self.others]

    def constants(self) -> list[Storage]:
        """The constants that all of it reads."""
        return [*self.starts.storages, *[s for m in self.all for s in m.constants()]]

    def programs(
        self, places: Mapping[Storage, int], entry: str = ENTRY, plan: str = PLAN, number: int = 0
    ) -> list[PrimFunc]:
        """The host program: what runs the model, and what evaluates its sizes.

        number  of its first kernel
        """
        symbols = self.model.plan.symbols
        outputs = [x for shape in self.shapes for x in shape]
        workspace = workspace_of(self.model, self.others)
        checks = self.declared.checks(symbols, self.main)
        return [
            entry_program(self.model, self.others, places, entry, number),
            plan_program(symbols, workspace, outputs, checks, plan),
        ]

    def metadata(
        self, target: Target, weights_bytes: int, places: Mapping[Storage, int]
    ) -> dict[str, Any]:
        """What is known of it; places: where each constant stands among the weights."""
        made = _metadata(self.model, target, weights_bytes, self.shapes)
        made.update(self.declared.metadata(self.model.plan.symbols, self.main))
        made.update(self.starts.metadata(places))
        for m, v in zip(self.others, self.declared.variants, strict=True):
            made["kernels"] += [{**_kernel(c, m), "variant": v.texts} for c in m.calls]
        if listed := _external_entries(self.model, places):
            made["externals"] = listed
        return made

    def objects(self) -> dict[str, bytes]:
        """The object code of kernels and external functions, by what it is."""
        found = {s: k.object for m in self.all for s, k in m.artifacts.items() if k.object}
        for m in self.all:
            found |= {n: o for k in m.artifacts.values() for n, o in k.externs.items()}
        found |= {n: e.object for n, (e, _) in self.model.externals.items() if e.object}
        return found


def compile_straight(
    mod: IRModule,
    target: Target,
    context: PassContext,
    lowering: Sequence[Step],
    progress: Progress | None = None,
    externals: external.Externals | None = None,
    *,
    text: bool = False,
    declared: Declared | None = None,
    placing: Algorithm = BY_SIZE,
) -> Straight:
    """Compile the kernels of a fused graph for a (resolved) target, which may be another machine.

    lowering   the passes from a scheduled program to flat loops
    externals  what back ends made of the external functions, by symbol
    text       stop at LLVM text; without it, objects are made
    declared   ranges of sizes, and fused graphs for sizes that are likely
    placing    as of `compile_graph`
    """
    declared = declared or Declared()
    kernels = partial(
        build_kernels, context=context, lowering=lowering, text=text, progress=progress
    )
    compiled = partial(compile_graph, target=target, options=context.options, kernels=kernels,
                       memory=MemoryOptions(placing))  # fmt: skip
    model = compiled(mod, externals=externals)
    others = [compiled(v.mod, when=v.sizes) for v in declared.variants]
    main = mod["main"]
    shapes = shapes_of(main, declared.variants)
    return Straight(main, model, others, declared, shapes, Starts(main), text)


def link_straight(
    made: Straight, target: Target, options: Options, lowering: Sequence[Step]
) -> Artifact:
    """The artifact of a straight graph: its constants laid out, its host program written."""
    weights, places = weights_of(made.constants(), options, lowering, by_contents=bool(made.others))
    programs = made.programs(places)
    dump_host(programs, options)
    texts = {HOST: emit_module(programs, target)}
    if made.text:
        texts |= {s: k.text for m in made.all for s, k in m.artifacts.items()}
    objects = [] if made.text else objects_of(texts, target, options, here=True)
    objects += made.objects().values()
    metadata = made.metadata(target, weights.nbytes, places)
    return Artifact(target, metadata, weights, options, tuple(objects), texts if made.text else {})


def dump_host(programs: Sequence[PrimFunc], options: Options) -> None:
    """Write the host program where dumps are wanted."""
    if folder := dump_folder(options):
        write_text(Path(folder, "host.txt"), "\n\n".join(map(script, programs)) + "\n")


def compile_graph(
    mod: IRModule,
    target: Target,
    options: Options,
    kernels: Callable[[Sequence[KernelSpec]], dict[str, CompiledKernel]],
    externals: external.Externals | None = None,
    *,
    when: Mapping[str, Expr] | None = None,
    memory: MemoryOptions = BY_SIZES,
) -> ModelCode:
    """All kernels of a fused graph compiled, memory planned.

    when    the sizes that it is a variant for
    memory  how it is planned; of others than C, by which algorithm
    """
    plan = plan_graph(mod)
    symbols = {v.name: v for v in plan.symbols}
    outside = _externals(plan, externals or {}, symbols)
    own = kernel_specs(plan, target, options)
    unique = {s.symbol: s for s in own if s is not None}
    artifacts = kernels(list(unique.values()))
    table = [s for s, (made, _) in outside.items() if not made.is_code]
    numbers = {s: n for n, s in enumerate(table)}
    calls = [
        external.external_call(launch, *outside[launch.name], numbers.get(launch.name), n)
        if s is None
        else _call(launch, artifacts[s.symbol], s.symbol, n, symbols)
        for n, (launch, s) in enumerate(zip(plan.launches, own, strict=True))
    ]
    if target.kind.name == "c":
        tight = use_little_memory(plan, calls, artifacts, memory)
        plan = replace(plan, launches=[c.launch for c in tight.calls])
        return ModelCode(plan, tight.calls, tight.memory, {}, mod, tight.kernels, outside,
                         tight.shares)  # fmt: skip
    scratch = [w for c in calls for w in c.workspaces]
    placed = plan_memory([*plan.planned(), *scratch], plan.symbols, algorithm=memory.placing)
    return ModelCode(plan, calls, placed, when or {}, mod, artifacts, outside)


def _externals(
    plan: GraphPlan, given: external.Externals, symbols: Mapping[str, Var]
) -> dict[str, tuple[external.External, list[Storage]]]:
    """What was made of each external function that is called, and storages for its constants."""
    found: dict[str, tuple[external.External, list[Storage]]] = {}
    for launch in plan.launches:
        if not launch.external:
            continue
        if launch.name not in given:
            raise CompileError(
                f"{launch.name} belongs to the back end {launch.group.attrs['Compiler']!r}, and no "
                "code of it is given: smelt.byoc.compile_externals makes it"
            )
        made = given[launch.name]
        external.check_types(launch, made, symbols)
        if launch.name not in found:
            storages = [
                Storage("constant", dt.from_numpy(a.dtype), const(a.nbytes), data=a, name=name)
                for name, a in made.constants.items()
            ]
            found[launch.name] = made, storages
    return found


def _external_entries(model: ModelCode, places: Mapping[Storage, int]) -> list[dict[str, Any]]:
    """The metadata of the functions that Python code runs, in the order of the host's table."""
    launches = {x.name: x for x in model.plan.launches if x.external}
    return [
        external.entry_of(made, launches[symbol], {s.name: places[s] for s in storages})
        for symbol, (made, storages) in model.externals.items()
        if not made.is_code
    ]


_ONE_EACH = ("elementwise", "broadcast", "injective")
"""Kinds of operators whose results are made of one element of each operand."""


def build_kernels(
    specs: Sequence[KernelSpec],
    context: PassContext,
    lowering: Sequence[Step],
    text: bool,
    progress: Progress | None,
) -> dict[str, CompiledKernel]:
    """Compiled kernels by symbol: from the cache, or by the workers; all, where one watches.

    A context that changes or watches the lowering has them compiled here, and none is kept.
    text: as LLVM text, not as objects.
    """
    options = context.options
    dump, check = dump_folder(options), check_wanted()
    steps = lowering_steps(context, lowering)
    unique = {s.symbol: s for s in specs}

    def report(count: int) -> None:
        if progress is not None and specs:
            progress("kernels", count, len(specs))

    def built(missing: Sequence[str]) -> list[CompiledKernel]:
        known = len(specs) - len(missing)
        report(known)
        log.info("%d kernels: %d from the cache, %d to compile", len(specs), known, len(missing))
        names = [str(unique[s].group.attrs.get("name", s)) for s in missing]
        jobs = [(unique[s], steps, dump, check, text) for s in missing]
        pool = default_pool(options.worker_count)
        return pool.map(BUILD, jobs, names, lambda n, _: report(known + n))

    if steps != tuple(lowering) or context.instruments:
        done: dict[str, CompiledKernel] = {}
        for s in specs:
            done[s.symbol] = build_kernel(s, steps, dump, check, text, context)
            report(len(done))
        return done
    keys = {s: cache_key("text" if text else "kernel", s) for s in unique}
    return cached(options, keys, built, partial(read, CompiledKernel), pickle.dumps)


def _call(
    launch: Launch, artifact: CompiledKernel, symbol: str, at: int, symbols: Mapping[str, Var]
) -> KernelCall:
    """A launch of a compiled kernel; its sizes are variables of its own, connected by name.

    at  its number
    """
    inputs = dict(enumerate(launch.inputs))
    for program in artifact.constants:
        sources = tuple([launch.inputs[n].storage for n in program.reads])
        for result, (n, size) in enumerate(program.makes):
            extent, made = const(size), Made(program, sources, result)
            storage = Storage("constant", "uint8", extent, name=launch.name, made=made)
            inputs[n] = Place(storage, dense((extent,)))
    workspaces = []
    for scratch in artifact.workspaces:
        own = {v: symbols[v.name] for v in free_vars(scratch) if v.name in symbols}
        w = Storage("temporary", "uint8", substitute(scratch, own), name="scratch")
        w.first = w.last = at
        workspaces.append(w)
    places = [*[p for _, p in sorted(inputs.items())], *launch.own_outputs]
    return KernelCall(launch, symbol, places, [v.name for v in artifact.scalars], workspaces)


def _metadata(
    model: ModelCode, target: Target, weights_bytes: int, shapes: Sequence[Sequence[Expr]]
) -> dict[str, Any]:
    main = model.mod["main"]
    names = main.attrs.get("output_names") or ()
    if len(names) != len(main.results()):  # a tuple that was laid flat has more than were named
        names = [f"output{i}" for i in range(len(main.results()))]
    types = [r.type.dtype for r in main.results()]
    tensors = {
        "inputs": [(p.name, p.type.dtype, p.type.shape) for p in main.params],
        "outputs": zip(names, types, shapes, strict=True),
    }
    name, symbols = model.mod.attrs.get("name", "model"), model.plan.symbols
    return {
        **code_data(name, target, tensors, symbols, model.memory.total),
        **({"updates": sorted(model.plan.updates.items())} if model.plan.updates else {}),
        **({"states": main.attrs[STATES]} if STATES in main.attrs else {}),
        "kernels": [_kernel(c, model) for c in model.calls],
        "weights_bytes": weights_bytes,
        "live_bytes": model.memory.live,
    }


def _results(launch: Launch, model: ModelCode) -> list[dict[str, Any]]:
    """Where a launch's results stand when it ends."""
    memory, updates, found = model.memory, model.plan.updates, []
    for p in launch.outputs:
        s = p.storage
        inside = s.kind == "temporary"
        start = p.view.offset * dt.bytes_of(s.dtype)
        found.append(
            {
                **tensor_data(s.dtype, p.view.shape),
                "strides": [size_text(e) for e in p.view.strides],
                "offset": size_text(memory.offsets[s] + start if inside else start),
                "output": None if inside else updates[s.index] if s.kind == "input" else s.index,
            }
        )
    return found


def _kernel(c: KernelCall, model: ModelCode) -> dict[str, Any]:
    """What the metadata say of one launch. The work of an external function is not known."""
    launch = c.launch
    known = None if launch.external else size_text(model.artifacts[c.symbol].flops)
    described = {
        "name": launch.name,
        "ops": external.operators_of(launch.group, model.mod.functions),
        "nodes": list(launch.nodes),
        "flops": known,
        "bytes": size_text(_moved(launch)),
        "symbol": launch.name if launch.external else c.symbol,
        "results": _results(launch, model),
    }
    if launch.external:
        described["compiler"] = str(launch.group.attrs["Compiler"])
        return described
    made = model.artifacts[c.symbol]
    chosen = {"sketches": [*made.sketches], "failed": [*made.failed], "seconds": made.seconds}
    return {**described, **{k: v for k, v in chosen.items() if v}}


def _moved(launch: Launch) -> Expr:
    """The bytes that a launch touches: all of its operands and results, as far as is known.

    Of an operand that is picked from, as rows of a table are, one element for each result.
    """
    calls = [v for v in values(launch.group.body) if isinstance(v, Call)]
    moved: Expr = const(0)
    changed = launch.updates if updated_operand(launch.group) is not None else ()
    for p in launch.own_outputs:
        moved = moved + p.bytes
    for n, (param, p) in enumerate(zip(launch.group.params, launch.inputs, strict=True)):
        if n in changed:  # as much of it as there is of the other operands
            continue
        users = [c for c in calls if param in c.args]
        whole, read = p.bytes, const(0)
        for c in users:
            if isinstance(c.type, TensorType) and kind_of(c) in _ONE_EACH:
                read = read + c.type.elements() * dt.bytes_of(p.storage.dtype)
            else:
                read = read + whole
        moved = moved + (minimum(whole, read) if users else whole)
    return moved
