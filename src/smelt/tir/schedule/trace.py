"""The record of a schedule: its primitives as data, as Python text and as JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Expr, FloatImm, IntImm, StringImm
from smelt.runtime.errors import closest
from smelt.tir.nodes import Buffer

from . import trace_text
from .handles import BlockRV, ExprRV, LoopRV

DecisionProvider = Callable[["Instruction", list[Any], list[Any], Any], Any]
"""(instruction, inputs, attributes, recorded decision) -> the decision to replay with."""


class InstructionKind(NamedTuple):
    """What primitive an instruction calls."""

    name: str

    @property
    def is_pure(self) -> bool:
        """Whether it changes nothing, so that it can go where nobody uses its results."""
        return self.name.startswith("get_") or self.is_sampling

    @property
    def is_sampling(self) -> bool:
        """Whether its results are a decision."""
        return self.name.startswith("sample_")

    @property
    def is_postproc(self) -> bool:
        """Whether what follows is postprocessing."""
        return self.name == "enter_postproc"


class Instruction:
    """One call of a primitive.

    name     the primitive
    inputs   arguments that hold earlier results, by parameter name
    attrs    the other arguments
    outputs  names of the results
    many     whether the primitive gives a list
    """

    __slots__ = ("args", "many", "name", "outputs")

    def __init__(
        self, name: str, args: dict[str, Any], outputs: tuple[str, ...], many: bool
    ) -> None:
        """Keep the parts; `args` holds inputs and attrs in the order of the call."""
        self.name, self.args, self.outputs, self.many = name, args, outputs, many

    @property
    def kind(self) -> InstructionKind:
        """What primitive it calls."""
        return InstructionKind(self.name)

    @property
    def inputs(self) -> dict[str, Any]:
        """The arguments that hold earlier results."""
        return {k: v for k, v in self.args.items() if _has_ref(v)}

    @property
    def attrs(self) -> dict[str, Any]:
        """The other arguments, the decision left out."""
        return {k: v for k, v in self.args.items() if not _has_ref(v) and k != "decision"}

    @property
    def decision(self) -> Any:
        """What a sampling primitive has decided; None for other primitives."""
        return self.args.get("decision")

    def with_decision(self, decision: Any) -> Instruction:
        """A copy with another decision."""
        return Instruction(self.name, {**self.args, "decision": decision}, self.outputs, self.many)

    def __str__(self) -> str:
        call = f"sch.{self.name}({trace_text.arguments_text(self.args, trace_text.text_of)})"
        left = ", ".join(self.outputs) + ("," if self.many and len(self.outputs) == 1 else "")
        return f"{left} = {call}" if self.outputs else call

    def __repr__(self) -> str:
        return f"Instruction({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class Trace:
    """The primitives applied, in order."""

    def __init__(self, insts: Sequence[Instruction] = ()) -> None:
        """Start from some instructions."""
        self.insts: list[Instruction] = list(insts)
        self._count = sum(len(i.outputs) for i in self.insts)
        self._names: dict[tuple[type, str, str], str] = {}
        self._values: dict[str, object] = {}

    # ----------------------------------------------------------------------------- recording

    def record(self, name: str, args: Mapping[str, Any], result: Any, func: str = "") -> None:
        """Add a call that has been carried out on a function."""
        stored = {k: self._store(v, func) for k, v in args.items()}
        many = isinstance(result, list | tuple)
        results = list(result) if many else [] if result is None else [result]
        outputs = []
        for r in results:
            letter = "l" if isinstance(r, LoopRV) else "b" if isinstance(r, BlockRV) else "v"
            ref = f"{letter}{self._count}"
            self._count += 1
            outputs.append(ref)
            if isinstance(r, ExprRV):
                r.ref = ref
                self._values[ref] = r
            else:
                self._names[type(r), func, str(r)] = ref
        self.insts.append(Instruction(name, stored, tuple(outputs), many))

    def _store(self, v: Any, func: str) -> Any:
        if isinstance(v, LoopRV | BlockRV):
            ref = self._names.get((type(v), v.func or func, str(v)))
            return str(v) if ref is None else trace_text.Ref(ref)
        if isinstance(v, ExprRV):
            return self._stored_number(v)
        if isinstance(v, IntImm | FloatImm | StringImm):
            return v.value
        if isinstance(v, Expr):
            return trace_text.formula(trace_text.expr_text(v))
        if isinstance(v, Buffer):
            return v.name
        if isinstance(v, np.generic):
            return v.item()
        if isinstance(v, list | tuple):
            return [self._store(x, func) for x in v]
        if isinstance(v, dict):
            return {k: self._store(x, func) for k, x in v.items()}
        return v

    def _stored_number(self, v: ExprRV) -> Any:
        """A sampled number by its name, one computed from such as a formula, else as a number."""
        if self._values.get(v.ref) is v:
            return trace_text.Ref(v.ref)
        known = v.made_of and all(self._values.get(x.ref) is x for x in v.made_of)
        return trace_text.formula(v.ref) if known else int(v)

    def forget(self, rv: object, func: str = "") -> None:
        """Let a result no longer stand for what it named."""
        if isinstance(rv, LoopRV | BlockRV):
            self._names.pop((type(rv), rv.func or func, str(rv)), None)
        elif isinstance(rv, ExprRV):
            self._values.pop(rv.ref, None)

    def copy(self) -> Trace:
        """An independent trace with the same instructions."""
        other = Trace(self.insts)
        other._count = self._count
        other._names, other._values = dict(self._names), dict(self._values)
        return other

    # ------------------------------------------------------------------------------- editing

    def append(self, inst: Instruction, decision: Any = None) -> None:
        """Add an instruction, for a sampling primitive with its decision."""
        self.insts.append(inst if decision is None else inst.with_decision(decision))
        self._count += len(inst.outputs)

    def pop(self) -> Instruction | None:
        """Take the last instruction away; None where there is none."""
        return self.insts.pop() if self.insts else None

    @property
    def decisions(self) -> dict[Instruction, Any]:
        """The decisions of the sampling primitives."""
        return {i: i.decision for i in self.insts if i.decision is not None}

    def get_decision(self, inst: Instruction) -> Any:
        """The decision of an instruction of this trace; None where it has none."""
        return self.insts[self._position(inst)].decision

    def with_decision(
        self, inst: Instruction, decision: Any, remove_postproc: bool = False
    ) -> Trace:
        """A trace in which a sampling instruction has decided otherwise."""
        at = self._position(inst)
        if not inst.kind.is_sampling:
            samples = [f"[{k}] {i}" for k, i in enumerate(self.insts) if i.kind.is_sampling]
            legal = ", ".join(samples) or "none: the trace samples nothing"
            raise ScheduleError(f"with_decision: {inst.name} decides nothing\n  legal: {legal}")
        insts = list(self.insts)
        insts[at] = inst.with_decision(decision)
        return Trace(_before_postproc(insts) if remove_postproc else insts)

    def _position(self, inst: Instruction) -> int:
        """Where an instruction stands: the very one, else one that is equal."""
        same = [k for k, i in enumerate(self.insts) if i is inst]
        same = same or [k for k, i in enumerate(self.insts) if i == inst]
        if not same:
            raise ScheduleError(
                f"trace: it has no instruction {inst}\n  legal: one of its {len(self.insts)} insts"
            )
        return same[0]

    def simplified(self, remove_postproc: bool = False) -> Trace:
        """Without queries and samples whose results nothing uses."""
        insts = _before_postproc(self.insts) if remove_postproc else self.insts
        used: set[str] = set()
        kept: list[Instruction] = []
        for inst in reversed(insts):
            if inst.kind.is_pure and not used.intersection(inst.outputs):
                continue
            used.update(trace_text.refs_in(inst.args))
            kept.append(inst)
        return Trace(kept[::-1])

    # ---------------------------------------------------------------------------------- text

    def __str__(self) -> str:
        return "\n".join(str(i) for i in self.insts)

    def __len__(self) -> int:
        return len(self.insts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def as_python(self, remove_postproc: bool = False) -> list[str]:
        """One line of Python an instruction; `sch` is the schedule."""
        return [str(i) for i in (_before_postproc(self.insts) if remove_postproc else self.insts)]

    @staticmethod
    def from_text(text: str) -> Trace:
        """The trace that `str` printed (or that somebody wrote in that form)."""
        try:
            tree = ast.parse(text)
        except SyntaxError as e:
            raise ScheduleError(
                f"trace, line {e.lineno}: {e.msg}: {(e.text or '').strip()}"
            ) from None
        known: set[str] = set()
        return Trace([Instruction(*trace_text.parse_call(s, known)) for s in tree.body])

    def as_json(self, remove_postproc: bool = False) -> list[Any]:
        """Plain data: the line of each step."""
        return self.as_python(remove_postproc)

    @staticmethod
    def from_json(data: list[Any] | str) -> Trace:
        """The trace that `as_json` gave, also as JSON text."""
        return Trace.from_text("\n".join(json.loads(data) if isinstance(data, str) else data))

    @staticmethod
    def apply_json_to_schedule(json_obj: list[Any] | str, sch: Any) -> None:
        """Carry out on a schedule what `as_json` gave."""
        Trace.from_json(json_obj).apply_to_schedule(sch)

    def show(self, style: str | None = None, black_format: bool = False) -> None:
        """Print the instructions. The arguments are the classic ones; the text is plain."""
        print(self)

    # -------------------------------------------------------------------------------- replay

    def apply(self, sch: Any) -> None:
        """Carry out all instructions on a schedule, as they were recorded."""
        self.apply_to_schedule(sch)

    def apply_to_schedule(
        self,
        sch: Any,
        remove_postproc: bool = False,
        decision_provider: DecisionProvider | None = None,
    ) -> None:
        """Carry out the instructions on a schedule.

        remove_postproc    stop where postprocessing begins
        decision_provider  says what the sampling primitives decide
        """
        values: dict[str, Any] = {}
        insts = _before_postproc(self.insts) if remove_postproc else self.insts
        for number, inst in enumerate(insts, 1):
            method = getattr(type(sch), inst.name, None)
            if not getattr(method, "is_primitive", False):
                raise ScheduleError(
                    f"trace, step {number}: Schedule has no primitive {inst.name!r}\n"
                    f"  legal: {_nearest(inst.name, sch)}"
                )
            if decision_provider is not None and inst.kind.is_sampling:
                inputs, attrs = list(inst.inputs.values()), list(inst.attrs.values())
                inst = inst.with_decision(decision_provider(inst, inputs, attrs, inst.decision))
            args = {k: trace_text.resolve(v, values, sch.func) for k, v in inst.args.items()}
            result = getattr(sch, inst.name)(*args.pop("*", ()), **args)
            results = result if inst.many else [] if result is None else [result]
            if len(inst.outputs) != len(results) and inst.outputs:
                raise ScheduleError(
                    f"trace, step {number}: {inst}\n  gives {len(results)} results here, "
                    f"{len(inst.outputs)} are named"
                )
            values.update(zip(inst.outputs, results, strict=False))


def _nearest(name: str, sch: Any) -> str:
    """The primitives whose names are most like one."""
    known = [n for n in dir(type(sch)) if getattr(getattr(type(sch), n), "is_primitive", False)]
    return ", ".join(closest(name, known)) or "a method of Schedule"


def _has_ref(v: Any) -> bool:
    return not isinstance(v, trace_text.Formula) and any(trace_text.refs_in(v))


def _before_postproc(insts: Sequence[Instruction]) -> list[Instruction]:
    """The instructions in front of the one where postprocessing begins."""
    for k, inst in enumerate(insts):
        if inst.kind.is_postproc:
            return list(insts[:k])
    return list(insts)
