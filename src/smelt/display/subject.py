"""What is to be looked at: anything that `show` takes, as programs and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from smelt import te
from smelt.ir.errors import SmeltError
from smelt.ir.expr import Expr, Var
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.options import Options
from smelt.ir.sizes import Extent
from smelt.relax.nodes import Function
from smelt.relax.printer import script as graph_script
from smelt.runtime.errors import kind_of
from smelt.stages import CODE, GRAPHS, STAGES, stage_module, stage_text
from smelt.target import Target
from smelt.tir.nodes import BlockRealize, For, PrimFunc, Stmt, walk
from smelt.tir.printer import listing, script
from smelt.tir.schedule import Schedule, Trace

LEGAL = (
    "a PrimFunc, a statement or expression, an IRModule, a Schedule (of a program, or te's), a "
    "Trace, a model (path, bytes, onnx.ModelProto)"
)


class DisplayError(SmeltError):
    """Something that cannot be shown, or not so."""


@dataclass(frozen=True, slots=True)
class ScheduleStep:
    """One call of a schedule's primitive, and the program before and after it."""

    call: str
    before: PrimFunc
    after: PrimFunc


@dataclass(frozen=True, slots=True)
class Program:
    """A tensor program, the steps that led to it, and notes for some of its nodes."""

    name: str
    func: PrimFunc
    steps: tuple[ScheduleStep, ...] = ()
    mark: Mapping[Node, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """Anything else. language: "python", "llvm" or "asm"."""

    name: str
    text: str
    language: str = "python"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is shown. text: all of it, for a terminal; marks are in it already."""

    title: str
    text: str
    language: str
    parts: tuple[Program | Text, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """How something is to be shown: the parameters of `show`."""

    stage: str | None = None
    kernel: str | None = None
    args: Sequence[te.Tensor | Var] | None = None
    target: str | Target | None = None
    shapes: Mapping[str, Sequence[Extent]] | None = None
    options: Options | None = None
    mark: Mapping[Any, str] | None = None


def subject_of(thing: Any, request: Request) -> Subject:
    """What is behind something that `show` was given."""
    if isinstance(thing, te.Schedule):
        return _classic(thing, request)
    if request.args is not None:
        raise DisplayError(f"args belong to a te.Schedule, not to {kind_of(thing)}")
    if _is_model(thing) or (isinstance(thing, IRModule) and request.stage is not None):
        return _model(thing, request)
    for name in ("stage", "kernel", "shapes", "options"):
        if getattr(request, name) is not None:
            raise DisplayError(f"{name} belongs to a model, not to {kind_of(thing)}")
    match thing:
        case PrimFunc():
            return _program(thing, request)
        case Schedule():
            return _schedule(thing, request)
        case IRModule():
            return _module(thing, request, "module")
    if request.mark:
        raise DisplayError(
            f"mark is for tensor programs and their schedules, not for {kind_of(thing)}"
        )
    match thing:
        case Trace():
            return _text("trace", str(thing) + "\n")
        case Function():
            return _text("main", graph_script(thing))
        case Expr():
            return _text("expression", script(thing) + "\n")
        case Stmt():
            return _text("statement", script(thing))
    raise DisplayError(f"cannot show {kind_of(thing)}\n  legal: {LEGAL}")


def _is_model(thing: Any) -> bool:
    """Whether this is for the importer: a path, the bytes of a file, or onnx's own class."""
    return isinstance(thing, str | PathLike | bytes) or type(thing).__name__ == "ModelProto"


def _text(name: str, text: str) -> Subject:
    return Subject(name, text, "python", (Text(name, text),))


# ------------------------------------------------------------------------------------ programs


def _program(func: PrimFunc, request: Request) -> Subject:
    marks = marks_of(func, request.mark)
    part = Program(func.name, func, (), marks)
    return Subject(func.name, script(func, marks), "python", (part,))


def _schedule(sch: Schedule, request: Request) -> Subject:
    """The function worked on and the trace; on a page the other functions too, with all steps."""
    steps = {n: _steps(calls, sch.mod[n]) for n, calls in sch.steps().items()}
    marks = marks_of(sch.func, request.mark)
    trace = str(sch.trace)
    parts: list[Program | Text] = [
        Program(n, f, steps.get(n, ()), marks if f is sch.func else {})
        if isinstance(f, PrimFunc)
        else Text(n, _graph(n, f))
        for n, f in sch.mod.functions.items()
    ]
    if trace:
        parts.append(Text("trace", trace + "\n"))
    text = script(sch.func, marks) + (f"\n{trace}\n" if trace else "")
    return Subject(f"schedule of {sch.func.name}", text, "python", tuple(parts))


def _steps(calls: Sequence[tuple[str, PrimFunc]], last: PrimFunc) -> tuple[ScheduleStep, ...]:
    after = [before for _, before in calls[1:]] + [last]
    return tuple([ScheduleStep(c, b, a) for (c, b), a in zip(calls, after, strict=True)])


def program_steps(sch: Schedule) -> tuple[ScheduleStep, ...]:
    """The steps that led to the function a schedule works on."""
    calls = sch.steps().get(sch.func.name)
    return _steps(calls, sch.func) if calls else ()


def _classic(s: te.Schedule, request: Request) -> Subject:
    """A classic schedule is shown as what it is lowered to."""
    args = request.args
    if args is None:
        placeholders = [x.op for x in s.stages if isinstance(x.op, te.PlaceholderOp)]
        args = [t for op in [*placeholders, *s.outputs] for t in op.outputs]
    return _schedule(te.lower_schedule(s, args), request)


def _module(mod: IRModule, request: Request, title: str) -> Subject:
    if request.mark:
        raise DisplayError("mark is for one tensor program: show(mod['name'], mark=...)")
    parts = [
        Program(n, f) if isinstance(f, PrimFunc) else Text(n, _graph(n, f))
        for n, f in mod.functions.items()
    ]
    title = parts[0].name if len(parts) == 1 else title
    return Subject(title, graph_script(mod), "python", tuple(parts))


def _graph(name: str, f: Node) -> str:
    return graph_script(IRModule({name: f}))


# -------------------------------------------------------------------------------------- models


def _model(model: Any, request: Request) -> Subject:
    """A model at a stage of the pipeline; "graph" where none is named."""
    stage = request.stage or STAGES[0]
    given = (request.kernel, request.target, request.shapes, request.options)
    if request.mark:
        raise DisplayError("mark is for one tensor program, not for a model")
    if stage in CODE:
        text = stage_text(model, stage, *given)
        return Subject(stage, text, stage, (Text(request.kernel or stage, text, stage),))
    mod = stage_module(model, stage, *given)
    if stage in GRAPHS:
        return _module(mod, request, stage)
    programs = [(n, f) for n, f in mod.functions.items() if isinstance(f, PrimFunc)]
    text = "\n\n".join([script(f) for _, f in programs])
    title = f"{programs[0][0]}, {stage}" if len(programs) == 1 else stage
    return Subject(title, text, "python", tuple([Program(n, f) for n, f in programs]))


# --------------------------------------------------------------------------------------- marks


def marks_of(func: PrimFunc, mark: Mapping[Any, str] | None) -> dict[Node, str]:
    """Marks with the nodes in place of names: of loops, blocks, variables and buffers."""
    found: dict[Node, str] = {}
    named: dict[str, Node] = {}
    for node, note in (mark or {}).items():
        if isinstance(node, Node):
            found[node] = note
            continue
        named = named or _named(func)
        if node not in named:
            raise DisplayError(
                f"mark: {func.name} has no loop, block or buffer {str(node)!r}\n"
                f"  legal: a node of the program, or one of {', '.join(sorted(named))}"
            )
        found[named[str(node)]] = note
    return found


def _named(func: PrimFunc) -> dict[str, Node]:
    names = listing(func).names
    out: dict[str, Node] = {text: node for node, text in names.items()}
    for s in walk(func.body):
        if isinstance(s, BlockRealize):
            out[s.block.name] = s
        elif isinstance(s, For):
            out[names[s.var]] = s
    return out
