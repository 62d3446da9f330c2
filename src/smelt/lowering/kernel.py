"""One kernel, start to end: fused group to object code. Runs in the worker processes."""

from __future__ import annotations

from dataclasses import dataclass

from smelt.codegen.llvm import cpu_features, object_code
from smelt.codegen.llvm_text import emit_module
from smelt.ir.dtype import bytes_of
from smelt.ir.expr import Expr, Var, const
from smelt.ir.types import TensorType, TupleType, Type
from smelt.relax.nodes import Function, tensor_type_of
from smelt.relax.views import View
from smelt.rules.cpu import schedule
from smelt.rules.cpu.fallback import schedule_fallback
from smelt.target import Hardware, Target, hardware_of
from smelt.tir.nodes import Block, Buffer, PrimFunc, walk
from smelt.tir.schedule import Schedule

from .group import group_to_prim_func
from .lower import lower
from .packing import Pack, pack_of
from .watch import Check, Observer, StageWriter

__all__ = ["Artifact", "KernelSpec", "build_kernel", "scheduled"]


@dataclass(frozen=True)
class KernelSpec:
    """What a kernel computes, on what memory, for which machine.

    symbol     the name of the object code's function
    inputs     views of the parameters; offsets do not matter
    constants  which parameters are known at compile time, so that they may be packed
    cores      processors to divide the work among
    """

    symbol: str
    group: Function
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    constants: tuple[bool, ...]
    target: Target
    cores: int
    opt_level: int = 3


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel.

    scalars     names of the symbolic sizes it takes after its buffers
    workspaces  bytes of the scratch buffers it takes last
    packs       per parameter: None, or how the constant is laid out (see `packing`)
    flops       arithmetic operations of one run
    trace       the schedule, replayable
    """

    object: bytes
    scalars: tuple[Var, ...]
    workspaces: tuple[Expr, ...]
    packs: tuple[Pack | None, ...]
    flops: Expr
    trace: str


def hardware_for(spec_target: Target, cores: int) -> Hardware:
    """The hardware description for a resolved target and a number of cores."""
    return hardware_of(spec_target, cpu_features(spec_target)).replace(cores=cores)


def scheduled(spec: KernelSpec) -> Schedule:
    """The kernel's program with its default schedule."""
    func = group_to_prim_func(spec.group, spec.inputs, spec.outputs, spec.symbol)
    names = frozenset([p.name for p, c in zip(func.buffers, spec.constants, strict=False) if c])
    hardware = hardware_for(spec.target, spec.cores)
    if spec.opt_level == 0:
        sch = Schedule(func)
        schedule_fallback(sch, hardware)
        return sch
    return schedule(func, hardware, names)


def build_kernel(spec: KernelSpec, dump: str = "", check: bool = False) -> Artifact:
    """Schedule, lower and compile a fused group.

    dump   folder for the stages' texts, or ""
    check  whether the interpreter judges every lowering pass
    """
    sch = scheduled(spec)
    watchers: list[Observer] = []
    writer = StageWriter(dump, str(spec.group.attrs.get("name", spec.symbol)))
    if dump:
        plain = group_to_prim_func(spec.group, spec.inputs, spec.outputs, spec.symbol)
        writer("tir", plain)
        writer.text("trace", str(sch.trace))
        writer("scheduled", sch.func)
        watchers.append(writer)
    if check:
        watchers.append(Check(sch.func))

    def observe(name: str, func: PrimFunc) -> None:
        for watcher in watchers:
            watcher(name, func)

    flat = lower(sch.func, observe if watchers else None)
    ir = emit_module([flat])
    if dump:
        writer.text("llvm", ir)
    code = object_code(spec.target, ir, spec.symbol)
    scratch = int(flat.attrs.get("workspaces", 0))
    workspaces = tuple(
        [
            b.shape[0] * _bytes(b)
            for b in flat.params[len(flat.params) - scratch :]
            if isinstance(b, Buffer)
        ]
    )
    scalars = tuple([p for p in sch.func.params if isinstance(p, Var)])
    return Artifact(
        code, scalars, workspaces, _packs(spec, sch), _flops(sch.func, spec), str(sch.trace)
    )


def _bytes(b: Buffer) -> int:
    return bytes_of(b.type)


def _packs(spec: KernelSpec, sch: Schedule) -> tuple[Pack | None, ...]:
    """What `transform_layout` did to the parameters, read off the trace."""
    maps = {
        str(i.args["buffer"]): i.args["index_map"]
        for i in sch.trace.insts
        if i.name == "transform_layout"
    }
    packs: list[Pack | None] = []
    for before, after in zip(spec.group.params, sch.func.buffers, strict=False):
        shape = after.fixed_shape()
        old = tensor_type_of(before).fixed_shape()
        text = maps.get(after.name)
        packs.append(
            None if text is None or shape is None or old is None else pack_of(str(text), old, shape)
        )
    return tuple(packs)


def _flops(func: PrimFunc, spec: KernelSpec) -> Expr:
    """Multiply-adds count two; elementwise work one a result element."""
    total: Expr = const(0)
    for out in _types(spec.group.body.type):
        total = total + out.elements()
    for s in walk(func.body):
        if isinstance(s, Block) and any(i.kind == "reduce" for i in s.iter_vars):
            count: Expr = const(2)
            for i in s.iter_vars:
                count = count * i.dom.extent
            total = total + count
    return total


def _types(t: Type) -> list[TensorType]:
    items = t.items if isinstance(t, TupleType) else (t,)
    return [x for x in items if isinstance(x, TensorType)]
