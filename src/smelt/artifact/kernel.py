"""One kernel, start to end: fused group to object code. Runs in the worker processes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from smelt.codegen.c_helpers import extern_source
from smelt.codegen.llvm import is_native, object_code
from smelt.codegen.llvm_text import emit_module
from smelt.ir.build import is_const
from smelt.ir.dtype import bytes_of
from smelt.ir.errors import CompileError, ScheduleError
from smelt.ir.expr import Expr, Var
from smelt.ir.steps import Step
from smelt.ir.transform import PassContext
from smelt.lowering.instrument import Check, StageWriter
from smelt.lowering.lower import PLAIN, for_target, lower
from smelt.lowering.narrow import narrow_indices
from smelt.lowering.workspace import ON_STACK
from smelt.relax.nodes import Function
from smelt.relax.transform.to_programs import OWN, other_bodies, update_bodies
from smelt.relax.views import View
from smelt.rules import micro
from smelt.rules.cpu import UNTILED, Plan, Scheduled, apply, plan
from smelt.runtime.errors import ExportError
from smelt.runtime.linking import compile_source
from smelt.target import Target, machine_of
from smelt.tir.extern import EXTERNS, ExternFunction
from smelt.tir.nodes import Buffer, PrimFunc
from smelt.tir.printer import script
from smelt.tir.schedule import Schedule, Trace

from .arithmetic import flops
from .constants import ConstantProgram, Preparation, preparations
from .dump import as_one
from .group import group_to_prim_func, in_place
from .user_ops import Prepared


@dataclass(frozen=True)
class Tuned:
    """A schedule that was found by measuring.

    trace  replayable on the kernel's program
    body   the algorithm that stands in place of an operator's own; "": none does
    """

    trace: str
    body: str = ""


@dataclass(frozen=True)
class KernelSpec:
    """What a kernel computes, on what memory, for which machine.

    symbol     the name of the object code's function
    inputs     views of the parameters; offsets do not matter
    constants  which parameters are known at compile time, so that they may be laid out anew
    cores      processors to divide the work among
    prepared   the program, where the group has operators that only the user's process knows
    updates    the operand whose memory the result is, or -1
    tuned      the schedule, where it is not the rules' to choose
    """

    symbol: str
    group: Function
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    constants: tuple[bool, ...]
    target: Target
    cores: int
    opt_level: int = 3
    prepared: Prepared | None = None
    updates: int = -1
    tuned: Tuned | None = None

    def with_schedule(self, tuned: Tuned | None) -> KernelSpec:
        """The same kernel with a tuned schedule, under another symbol."""
        if tuned is None:
            return self
        text = f"{self.symbol}\n{tuned.body}\n{tuned.trace}"
        symbol = "k" + hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        return replace(self, symbol=symbol, tuned=tuned)


@dataclass(frozen=True)
class CompiledKernel:
    """A compiled kernel.

    scalars     names of the symbolic sizes it takes after its buffers
    workspaces  bytes of the scratch buffers it takes last
    constants   programs that make its parameters from the model's constants
    flops       arithmetic on elements in one run, as the program says it; a multiply-add counts two
    trace       the schedule, replayable
    text        its LLVM text, where there is no object; for C the lowered program as script
    externs     object code of the external functions that it calls, by name
    sketches    the algorithm, where it is not the operators' own; what was chosen for each part of
                the program, with its decisions
    failed      choices that fitted and could not be built, so that another one was taken
    seconds     what the chosen ones are predicted to take; None where sizes are symbolic
    """

    object: bytes
    scalars: tuple[Var, ...]
    workspaces: tuple[Expr, ...]
    constants: tuple[ConstantProgram, ...]
    flops: Expr
    trace: str
    text: str = ""
    externs: Mapping[str, bytes] = field(default_factory=dict)
    sketches: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float | None = None


def extern_objects(called: Iterable[ExternFunction], target: Target) -> dict[str, bytes]:
    """Object code of external functions, by name."""
    found = {}
    for f in called:
        if not is_native(target):
            raise CompileError(
                f"the external function {f.name}: its C source is compiled for this machine, and "
                f"the target is {target.mtriple}"
            )
        try:
            found[f.name] = compile_source(extern_source(f), f.name, f.flags)
        except ExportError as e:
            raise CompileError(f"the external function {f.name}: {e}") from None
    return found


def plain_program(spec: KernelSpec, name: str = "") -> PrimFunc:
    """The kernel's program without a schedule, under a name or the symbol."""
    if spec.prepared is not None:
        return spec.prepared.plain.with_attrs(name=name or spec.symbol)
    bodies = OWN if spec.updates < 0 else update_bodies(spec.group)
    return group_to_prim_func(spec.group, spec.inputs, spec.outputs, name or spec.symbol, bodies)


_FEW_REGISTERS = 4
"""Vector registers that level 0 schedules for: one sum at a time, so that loops stay as written."""
_UNSURE = 1.1
"""How much faster another algorithm has to be where sizes are symbolic: they may be small, too."""
_OTHER_BODIES = 3
"""The level from which operators may be computed by other algorithms than their own."""


def plans(spec: KernelSpec, plain: PrimFunc | None = None) -> list[Plan]:
    """Everything that the rules may choose for a kernel, a plan for each algorithm, the cheapest
    first; nothing where there is nothing to choose.

    plain  the program, where it is made already
    """
    if spec.prepared is not None and spec.prepared.scheduled is not None:
        return []
    if all(any(is_const(e, 0) for e in v.shape) for v in spec.outputs):
        return []  # nothing to do, and costs divide by extents
    func = for_target(plain_program(spec) if plain is None else plain, spec.target)
    names = frozenset([p.name for p, c in zip(func.buffers, spec.constants, strict=False) if c])
    machine = machine_of(spec.target, spec.cores)
    if spec.target.kind.name == "c":
        one_lane = machine.replace(vector_bytes=1, unit_bytes=1)
        return [plan(func, one_lane, names, sketches=micro.SKETCHES)]
    if spec.opt_level == 0:
        return [plan(func, machine.replace(vector_registers=_FEW_REGISTERS), sketches=UNTILED)]
    found = [plan(func, machine, names)]
    for bodies in other_bodies(spec.group) if _chooses(spec) else ():
        other = group_to_prim_func(spec.group, spec.inputs, spec.outputs, func.name, bodies)
        (body,) = bodies.values()
        planned = plan(for_target(other, spec.target), machine, names)
        found.append(replace(planned, body=body.name))
    symbolic = any(isinstance(p, Var) for p in func.params)
    return sorted(found, key=lambda p: p.seconds * (_UNSURE if symbolic and p.body else 1.0))


def planned(spec: KernelSpec, plain: PrimFunc | None = None) -> Plan | None:
    """The cheapest of `plans`, if there are any."""
    return next(iter(plans(spec, plain)), None)


def _chooses(spec: KernelSpec) -> bool:
    """Whether operators may be computed by other algorithms, which round otherwise."""
    return spec.prepared is None and spec.updates < 0 and spec.opt_level >= _OTHER_BODIES


def program_of(spec: KernelSpec, body: str, plain: PrimFunc | None = None) -> PrimFunc:
    """The kernel's program, an algorithm of that name in place of the operator's own; "": none.

    Raises CompileError where there is no such algorithm.
    """
    if not body:
        return for_target(plain_program(spec) if plain is None else plain, spec.target)
    for bodies in other_bodies(spec.group) if _chooses(spec) else ():
        (other,) = bodies.values()
        if other.name == body:
            func = group_to_prim_func(spec.group, spec.inputs, spec.outputs, spec.symbol, bodies)
            return for_target(func, spec.target)
    raise CompileError(f"{spec.symbol}: its operators have no algorithm {body!r}")


def replayed(spec: KernelSpec, tuned: Tuned, plain: PrimFunc | None = None) -> Schedule:
    """The kernel's program with a schedule that was found by measuring.

    Raises ScheduleError, CompileError where it does not fit the program (any more).
    """
    sch = Schedule(program_of(spec, tuned.body, plain))
    Trace.from_text(tuned.trace).apply_to_schedule(sch)
    return sch


def scheduled(spec: KernelSpec, plain: PrimFunc | None = None) -> Scheduled:
    """The kernel's program with the schedule that was tuned, its default, or that of its operators'
    own rules.

    plain  the program, where it is made already
    """
    if spec.tuned is None:
        return _by_rules(spec, plain)
    try:
        return Scheduled(replayed(spec, spec.tuned, plain), ("tuned",))
    except (CompileError, ScheduleError) as e:
        made, why = _by_rules(spec, plain), str(e).splitlines()[0]
        return replace(made, failed=(f"the tuned schedule: {why}", *made.failed))


def _by_rules(spec: KernelSpec, plain: PrimFunc | None) -> Scheduled:
    tried = []
    for found in plans(spec, plain):
        tried.append(apply(found))
        if not tried[-1].failed:
            break
    if tried:
        return replace(tried[-1], failed=tuple([f for t in tried for f in t.failed]))
    own = None if spec.prepared is None else spec.prepared.scheduled
    func = plain_program(spec) if plain is None else plain
    func = func if own is None else own.with_attrs(name=spec.symbol)
    return Scheduled(Schedule(for_target(func, spec.target)), ())


_C_STACK = 256
"""Bytes of a buffer on the stack of a microcontroller, at most."""


def _text_of(flat: PrimFunc, target: Target) -> str:
    """A lowered program as LLVM text; for C as script with indices of 32 bits, since the
    functions of a model share a source."""
    if target.kind.name == "c":
        return script(narrow_indices(flat, 32))
    return emit_module([flat], target)


def build_kernel(
    spec: KernelSpec,
    steps: Sequence[Step],
    dump: str = "",
    check: bool = False,
    text: bool = False,
    context: PassContext = PLAIN,
) -> CompiledKernel:
    """Schedule, lower and compile a fused group.

    steps  the passes to flat loops
    dump   folder for the stages' texts, or ""
    check  whether the interpreter judges every lowering pass
    text   whether to stop at LLVM text
    """
    called = () if spec.prepared is None else spec.prepared.externs
    EXTERNS.update({f.name: f for f in called})  # only the user's process has registered them
    plain = plain_program(spec)
    made = scheduled(spec, plain)
    sch = made.schedule
    func = sch.func if spec.updates < 0 else in_place(sch.func, spec.updates)
    own = spec.prepared if spec.prepared is not None and spec.prepared.scheduled else None
    trace = str(sch.trace) if own is None else own.trace
    wanted = preparations(sch) if own is None else own.wanted
    writer = StageWriter(dump, str(spec.group.attrs.get("name", spec.symbol)))
    if dump:
        writer("tir", plain)
        writer.text("trace", trace)
        for w in wanted:
            writer("constants", w.func)
        writer("scheduled", func)
    watcher = as_one(writer if dump else None, Check(func) if check else None)
    if spec.target.kind.name == "c":
        func = func.with_attrs(**{ON_STACK: _C_STACK})
    flat = lower(func, steps, watcher, context)
    ir = _text_of(flat, spec.target)
    if dump:
        writer.text("llvm" if spec.target.kind.name == "llvm" else "lowered", ir)
    code = b"" if text else object_code(spec.target, ir, spec.symbol)
    scratch = int(flat.attrs.get("workspaces", 0))
    behind = flat.params[len(flat.params) - scratch :]
    workspaces = tuple([b.shape[0] * bytes_of(b.type) for b in behind if isinstance(b, Buffer)])
    scalars = tuple([p for p in func.params if isinstance(p, Var)])
    work, externs = flops(plain), extern_objects(called, spec.target)
    kept = ir if text else ""
    constants = tuple(map(Preparation.program, wanted))
    return CompiledKernel(code, scalars, workspaces, constants, work, trace, kept, externs,
                          made.chosen, made.failed, made.seconds)  # fmt: skip
