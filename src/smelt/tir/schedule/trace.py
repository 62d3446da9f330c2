"""The record of a schedule: its primitives as data, as Python text and as JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.ir.build import maximum, minimum
from smelt.ir.errors import ScheduleError
from smelt.ir.expr import Binary, Expr, IntImm, Max, Min, Var
from smelt.tir.nodes import PrimFunc

from .handles import BlockRV, ExprRV, LoopRV

__all__ = ["Formula", "Instruction", "Ref", "Trace", "expr_text"]


class Ref(str):
    """The name of an earlier result in a trace."""

    __slots__ = ()


class Formula(str):
    """Python text that is evaluated at replay: an expression over sizes, or a lambda."""

    __slots__ = ()


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
    def inputs(self) -> dict[str, Any]:
        """The arguments that hold earlier results."""
        return {k: v for k, v in self.args.items() if _has_ref(v)}

    @property
    def attrs(self) -> dict[str, Any]:
        """The other arguments."""
        return {k: v for k, v in self.args.items() if not _has_ref(v)}

    def __str__(self) -> str:
        items = [text_of(v) for v in self.args.get("*", ())]
        args = ", ".join(items + [f"{k}={text_of(v)}" for k, v in self.args.items() if k != "*"])
        left = ", ".join(self.outputs) + ("," if self.many and len(self.outputs) == 1 else "")
        return f"{left} = sch.{self.name}({args})" if self.outputs else f"sch.{self.name}({args})"

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
        self._names: dict[tuple[type, str], str] = {}
        self._values: dict[str, object] = {}

    # ----------------------------------------------------------------------------- recording

    def record(self, name: str, args: Mapping[str, Any], result: Any) -> None:
        """Add a call that has been carried out."""
        stored = {k: self._store(v) for k, v in args.items()}
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
                self._names[type(r), str(r)] = ref
        self.insts.append(Instruction(name, stored, tuple(outputs), many))

    def _store(self, v: Any) -> Any:
        if isinstance(v, LoopRV | BlockRV):
            ref = self._names.get((type(v), str(v)))
            return str(v) if ref is None else Ref(ref)
        if isinstance(v, ExprRV):
            return Ref(v.ref) if self._values.get(v.ref) is v else int(v)
        if isinstance(v, IntImm):
            return v.value
        if isinstance(v, Expr):
            return Formula(expr_text(v))
        if isinstance(v, list | tuple):
            return [self._store(x) for x in v]
        if isinstance(v, dict):
            return {k: self._store(x) for k, x in v.items()}
        return v

    def copy(self) -> Trace:
        """An independent trace with the same instructions."""
        other = Trace(self.insts)
        other._count, other._names, other._values = (
            self._count,
            dict(self._names),
            dict(self._values),
        )
        return other

    # ---------------------------------------------------------------------------------- text

    def __str__(self) -> str:
        return "\n".join(str(i) for i in self.insts)

    def __len__(self) -> int:
        return len(self.insts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

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
        return Trace([_instruction(s, known) for s in tree.body])

    def as_json(self) -> list[Any]:
        """Plain data: one [name, arguments, outputs, many] a step."""
        return [[i.name, _plain(i.args), list(i.outputs), i.many] for i in self.insts]

    @staticmethod
    def from_json(data: list[Any] | str) -> Trace:
        """The trace that `as_json` gave, also as JSON text."""
        items = json.loads(data) if isinstance(data, str) else data
        return Trace([Instruction(n, _rich(a), tuple(o), bool(m)) for n, a, o, m in items])

    # -------------------------------------------------------------------------------- replay

    def apply(self, sch: Any) -> None:
        """Carry out the instructions on a schedule."""
        values: dict[str, Any] = {}
        for number, inst in enumerate(self.insts, 1):
            method = getattr(type(sch), inst.name, None)
            if not getattr(method, "is_primitive", False):
                raise ScheduleError(
                    f"trace, step {number}: Schedule has no primitive {inst.name!r}"
                )
            args = {k: _resolve(v, values, sch.func) for k, v in inst.args.items()}
            result = getattr(sch, inst.name)(*args.pop("*", ()), **args)
            results = result if inst.many else [] if result is None else [result]
            if len(inst.outputs) != len(results) and inst.outputs:
                raise ScheduleError(
                    f"trace, step {number}: {inst}\n  gives {len(results)} results here, "
                    f"{len(inst.outputs)} are named"
                )
            values.update(zip(inst.outputs, results, strict=False))


def _has_ref(v: Any) -> bool:
    if isinstance(v, list | tuple):
        return any(map(_has_ref, v))
    return isinstance(v, Ref)


def text_of(v: Any) -> str:
    """A stored argument as Python text."""
    if isinstance(v, Ref | Formula):
        return str(v)
    if isinstance(v, list):
        return "[" + ", ".join(map(text_of, v)) + "]"
    if isinstance(v, dict):
        return "{" + ", ".join(f"{text_of(k)}: {text_of(x)}" for k, x in v.items()) + "}"
    if isinstance(v, str):
        return json.dumps(str(v))
    return repr(v)


def expr_text(e: Expr) -> str:
    """An index expression as Python text."""
    if isinstance(e, Var):
        return e.name
    if isinstance(e, IntImm):
        return str(e.value)
    if isinstance(e, Min | Max):
        return f"{e.symbol}({expr_text(e.a)}, {expr_text(e.b)})"
    if isinstance(e, Binary):
        return f"({expr_text(e.a)} {e.symbol} {expr_text(e.b)})"
    raise ScheduleError(f"{e!r} cannot stand in a trace")


def _instruction(s: ast.stmt, known: set[str]) -> Instruction:
    call: ast.expr
    names: list[str] = []
    many = False
    if isinstance(s, ast.Assign) and len(s.targets) == 1:
        target, call = s.targets[0], s.value
        many = isinstance(target, ast.Tuple | ast.List)
        items = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names = [i.id for i in items if isinstance(i, ast.Name)]
    elif isinstance(s, ast.Expr):
        call = s.value
    else:
        raise ScheduleError(f"trace, line {s.lineno}: not a call of a primitive: {ast.unparse(s)}")
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(), attr=name), args=args, keywords=keywords
        ):
            stored: dict[str, Any] = {"*": [_value(a, known) for a in args]} if args else {}
            stored |= {k.arg or "": _value(k.value, known) for k in keywords}
        case _:
            raise ScheduleError(
                f"trace, line {s.lineno}: expected sch.<primitive>(name=value, ...), "
                f"got {ast.unparse(call)}"
            )
    known.update(names)
    return Instruction(name, stored, tuple(names), many)


def _value(e: ast.expr, known: set[str]) -> Any:
    match e:
        case ast.Name(id=name):
            return Ref(name) if name in known else Formula(name)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(i, known) for i in items]
        case ast.Dict(keys=keys, values=values):
            return {
                ast.literal_eval(k): _value(v, known)
                for k, v in zip(keys, values, strict=True)
                if k is not None
            }
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
    return Formula(ast.unparse(e))


def _plain(v: Any) -> Any:
    if isinstance(v, Ref):
        return {"ref": str(v)}
    if isinstance(v, Formula):
        return {"formula": str(v)}
    if isinstance(v, list):
        return [_plain(x) for x in v]
    if isinstance(v, dict):
        return {"dict": [[k, _plain(x)] for k, x in v.items()]}
    return v


def _rich(v: Any) -> Any:
    if isinstance(v, list):
        return [_rich(x) for x in v]
    if isinstance(v, dict):
        if "ref" in v:
            return Ref(v["ref"])
        if "formula" in v:
            return Formula(v["formula"])
        return {k: _rich(x) for k, x in v["dict"]}
    return v


def _resolve(v: Any, values: Mapping[str, Any], func: PrimFunc) -> Any:
    if isinstance(v, Ref):
        if v not in values:
            raise ScheduleError(f"trace: {v} is used before it is made")
        return values[v]
    if isinstance(v, Formula):
        return evaluate(v, func)
    if isinstance(v, list):
        return [_resolve(x, values, func) for x in v]
    if isinstance(v, dict):
        return {k: _resolve(x, values, func) for k, x in v.items()}
    return v


_ALLOWED = (
    ast.Expression,
    ast.Lambda,
    ast.arguments,
    ast.arg,
    ast.Name,
    ast.Load,
    ast.BinOp,
    ast.UnaryOp,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.USub,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Call,
)


def evaluate(text: Formula, func: PrimFunc) -> Any:
    """An expression over the scalar parameters of a function, or a lambda over indices."""
    tree = ast.parse(text, mode="eval")
    for n in ast.walk(tree):
        if not isinstance(n, _ALLOWED) or (
            isinstance(n, ast.Call)
            and not (isinstance(n.func, ast.Name) and n.func.id in ("min", "max"))
        ):
            raise ScheduleError(f"trace: {text} is not an index expression")
    scope: dict[str, Any] = {p.name: p for p in func.params if isinstance(p, Var)}
    scope |= {"min": minimum, "max": maximum, "__builtins__": {}}
    try:
        return eval(compile(tree, "<trace>", "eval"), scope)
    except NameError as e:
        raise ScheduleError(
            f"trace: {text}: {func.name} has no scalar parameter {e.name!r}"
        ) from None
