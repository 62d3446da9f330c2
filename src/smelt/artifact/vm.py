"""A module with branches, recursion, closures and data types as a virtual machine program.

Operators between two decisions become segments of native code (vm_segments); where a value is
computed is told by vm_regions. What remains is control: instructions on registers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from smelt.ir.errors import InternalError, Unsupported
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node
from smelt.ir.types import TensorType, TupleType, Type
from smelt.relax import adt
from smelt.relax import nodes as relax
from smelt.relax.graph import is_unit
from smelt.relax.host_ops import is_host_call
from smelt.relax.transform.infer_module import short_text
from smelt.relax.transform.rewriting import reached
from smelt.runtime.vm_program import Instruction, Program, VMFunction, registers_of
from smelt.tir.nodes import PrimFunc

from .vm_interface import describe
from .vm_regions import FunctionTable, is_operator
from .vm_registers import Captured, assigned
from .vm_segments import Build, Segments, segment_function

_DEEPEST = 100
"""Regions inside each other: the compiler recurs into them."""

_TAIL = {"Invoke": "TailInvoke", "InvokeClosure": "TailClosure"}
"""What calls become behind which nothing comes but the return of their results."""


def compile_vm(
    mod: IRModule, build: Build, entries: Sequence[str] = ("main",), outputs: Sequence[str] = ()
) -> Program:
    """A typed module's graph functions as a program.

    build    compiles a module of one straight graph function, for a segment
    entries  the functions that can be called from outside; what these call is there too
    outputs  the names of main's results; none: numbers
    """
    made = _Module(mod, build, entries).program()
    main = mod.functions.get("main")
    if isinstance(main, relax.Function) and "main" in made.globals:
        describe(made, main, outputs)
    return made


class _Module:
    """The functions of a program while they are written."""

    def __init__(self, mod: IRModule, build: Build, entries: Sequence[str]) -> None:
        self.mod = mod
        there = reached(mod, [n for n in entries if n in mod] or mod.functions)
        graph = {n: f for n, f in mod.functions.items() if isinstance(f, relax.Function)}
        kept = {n for n, f in graph.items() if is_unit(f)}
        kept |= {n for n, f in mod.functions.items() if isinstance(f, PrimFunc)}
        self.scope = FunctionTable(frozenset(kept))
        self.graph = {n: f for n, f in graph.items() if n not in kept and n in there}
        self.segments = Segments(mod, build)
        self.made: list[VMFunction | None] = []
        self.constants: dict[int, tuple[int, relax.Constant]] = {}
        self.wrapped: dict[adt.Constructor, int] = {}
        self.depth = 0

    def program(self) -> Program:
        """Write all functions."""
        for f in self.graph.values():
            self.scope.read(f)
        self.globals = {n: self.reserve() for n in self.graph}
        for name, index in self.globals.items():
            _Emitter(self, name, self.graph[name], index, None).write()
        held = [np.asarray(c.data) for _, c in self.constants.values()]
        functions = [f for f in self.made if f is not None]
        return Program(functions, held, [], self.globals)

    def reserve(self) -> int:
        """A number for a function to come."""
        self.made.append(None)
        return len(self.made) - 1

    def constant(self, c: relax.Constant) -> int:
        """The number of a constant."""
        return self.constants.setdefault(id(c.data), (len(self.constants), c))[0]

    def wrapper(self, c: adt.Constructor) -> int:
        """The number of a function that calls a constructor, for one that is used as a value."""
        if c not in self.wrapped:
            index = self.wrapped[c] = self.reserve()
            count = len(c.inputs)
            names = [f"field{n}" for n in range(count)]
            tag = adt.constructor_tag(self.mod, c)
            code: list[Instruction] = [
                ("AllocADT", count, tag, c.name, tuple(range(count))),
                ("Ret", count),
            ]
            self.made[index] = VMFunction(c.name, names, 0, count + 1, code)
        return self.wrapped[c]


class _Label:
    """A position in a function that is not known yet."""

    def __init__(self) -> None:
        self.at: int | None = None


class _Emitter:
    """Writes one function. Registers are numbered without end; `assigned` reuses them.

    scopes    where values are, region by region
    captured  values of the functions around, in the first registers
    inside    functions within this one: their numbers, and what they capture
    parts     the registers of the items of tuples
    """

    def __init__(
        self, module: _Module, name: str, f: relax.Function, index: int, around: _Emitter | None
    ) -> None:
        self.module, self.name, self.f, self.index, self.around = module, name, f, index, around
        self.scope = module.scope
        self.code: list[Instruction] = []
        self.count = 0
        self.params: dict[Node, int] = {p: self.register() for p in f.params}
        self.scopes: list[dict[Node, int]] = [dict(self.params)]
        self.captured: dict[Node, int] = {}
        self.visible: list[set[relax.Var]] = [set(f.params)]
        self.self_var = self.scope.self_of.get(f)
        self.inside: dict[relax.Function, tuple[int, list[Node]]] = {}
        self.parts: dict[int | None, Sequence[int]] = {}

    def register(self) -> int:
        """A new register."""
        self.count += 1
        return self.count - 1

    def write(self) -> None:
        """Write the function into the program."""
        self.region(self.f.body, None)
        captured, params = [*self.captured.values()], [*self.params.values()]
        self.code = _without_unused(self.code)
        code, registers = assigned(self.code, captured, params)
        names = [p.name for p in self.f.params]
        self.module.made[self.index] = VMFunction(
            self.name, names, len(self.captured), registers, code
        )

    # ---------------------------------------------------------------------------------- values

    def find(self, node: Node) -> int | None:
        """The register of a value that is computed already."""
        for scope in reversed(self.scopes):
            if node in scope:
                return scope[node]
        return self.captured.get(node)

    def known(self, node: Node) -> bool:
        """Whether a value is computed already, here or in a function around."""
        if self.find(node) is not None or node is self.self_var:
            return True
        return self.around is not None and self.around.known(node)

    def sees(self, v: relax.Var) -> bool:
        """Whether a variable may be used here."""
        if v is self.self_var or any(v in names for names in self.visible):
            return True
        return self.around is not None and self.around.sees(v)

    def reg(self, node: relax.RelaxExpr) -> int:
        """The register of a value; what needs no computation is made here."""
        found = self.find(node)
        if found is not None:
            return found
        if node is not self.self_var and self.around is not None and self.around.known(node):
            self.captured[node] = self.register()
            return self.captured[node]
        made = self.light(node)
        self.scopes[-1][node] = made
        return made

    def light(self, node: relax.RelaxExpr) -> int:
        """Write what makes a value of its operands without computing."""
        match node:
            case relax.Let(body=body):
                return self.reg(body)
            case relax.Var() if node is self.self_var:
                return self.emit("AllocClosure", self.index, Captured())
            case relax.Var() if node in self.scope.own:
                return self.reg(self.scope.own[node])
            case relax.Constant():
                return self.emit("LoadConst", self.module.constant(node))
            case relax.GlobalVar(name):
                return self.emit("AllocClosure", self.module.globals[name], ())
            case adt.Constructor():
                return self.emit("AllocClosure", self.module.wrapper(node), ())
            case relax.Function():
                return self.emit("AllocClosure", *self.inner_function(node))
            case relax.Tuple(items):
                return self.tuple_of([self.reg(i) for i in items])
            case relax.TupleGetItem(relax.Tuple(items), index):
                return self.reg(items[index])
            case relax.TupleGetItem(value, index) if self.find(value) in self.parts:
                return self.parts[self.find(value)][index]
            case relax.TupleGetItem(value, index):
                return self.emit("GetField", self.reg(value), index)
        raise InternalError(f"vm: no place for {short_text(node)} in {self.name}")

    def emit(self, name: str, *given: Any) -> int:
        """Write an instruction with a new register for its result."""
        d = self.register()
        self.code.append((name, d, *given))
        return d

    def tuple_of(self, items: Sequence[int]) -> int:
        """A tuple of some registers, which are read in its place where that is possible."""
        made = self.emit("AllocTuple", tuple(items))
        self.parts[made] = items
        return made

    # --------------------------------------------------------------------------------- regions

    def region(self, root: relax.RelaxExpr, result: int | None) -> None:
        """Write a region; its value goes into a register, or is the function's result."""
        while isinstance(root, relax.Let):
            self.visible[-1].add(root.var)
            root = root.body
        inside = self.scope.place(root, self.known, self.sees)
        self.visible[-1].update([n.var for n in inside if isinstance(n, relax.Let)])
        for level in _levels(inside, self.scope):
            for node in level.control:
                if node is root and result is None and isinstance(node, relax.If | adt.Match):
                    self.choice(node, None)
                    return
                if not isinstance(node, relax.Function):  # made where it is a value, if it is one
                    self.scopes[-1][node] = self.control(node)
            if level.operators:
                self.segment(level.operators, level.wanted)
        found = self.reg(root)
        if result is not None:
            self.code.append(("Move", result, found))
        elif self.code and self.code[-1][0] in _TAIL and self.code[-1][1] == found:
            name, _, *called = self.code[-1]
            self.code[-1] = (_TAIL[name], *called)
        else:
            self.code.append(("Ret", found))

    def inner(self, root: relax.RelaxExpr, result: int | None, bound: Mapping[Node, int]) -> None:
        """Write a region inside this one, which knows some more variables."""
        self.module.depth += 1
        if self.module.depth > _DEEPEST:
            raise Unsupported(
                f"@{self.name}: more than {_DEEPEST} branches, clauses and closures stand inside "
                "each other; move the inner ones into a function of the module"
            )
        self.scopes.append(dict(bound))
        self.visible.append({v for v in bound if isinstance(v, relax.Var)})
        self.region(root, result)
        self.scopes.pop()
        self.visible.pop()
        self.module.depth -= 1

    def segment(
        self, operators: Sequence[relax.RelaxExpr], wanted: Sequence[relax.RelaxExpr]
    ) -> None:
        """Write the call of the native code that computes some operators' results."""
        parts = {w: _single(w) for w in wanted}
        results = [r for found in parts.values() for r in found]
        inputs: dict[relax.RelaxExpr, Type] = {}
        own = set(operators)
        for node in operators:
            for n in _inputs(node, own, self.scope):
                inputs.setdefault(n, n.type)
        f, given = segment_function(inputs, results, self.definitions)
        number = self.module.segments.add(f)
        places = tuple([p for g in given for p in self.opened(g, g.type)])
        made = tuple([self.register() for _ in results])
        self.code.append(("InvokeSegment", made, number, places))
        self.scopes[-1].update(zip(results, made, strict=True))
        for w, found in parts.items():
            if isinstance(w.type, TupleType):
                self.scopes[-1][w] = self.tuple_of([self.scopes[-1][r] for r in found])

    def opened(self, node: relax.RelaxExpr, t: Type) -> list[int]:
        """The registers of a value's tensors."""

        def parts(at: int, t: Type) -> list[int]:
            if not isinstance(t, TupleType):
                return [at]
            items = [(self.emit("GetField", at, n), i) for n, i in enumerate(t.items)]
            return [p for a, i in items for p in parts(a, i)]

        return parts(self.reg(node), t)

    def definitions(self, sizes: set[SizeVar]) -> list[tuple[relax.RelaxExpr, Type]]:
        """Variables whose types tell sizes."""
        found: list[tuple[relax.RelaxExpr, Type]] = []
        left = set(sizes)
        seen: _Emitter | None = self
        while seen is not None:
            for names in reversed(seen.visible):
                for v in names:
                    told = set(v.type.shape) & left if isinstance(v.type, TensorType) else None
                    if told:
                        found.append((v, v.type))
                        left -= told
            seen = seen.around
        return found

    # --------------------------------------------------------------------------------- control

    def control(self, node: relax.RelaxExpr) -> int:
        """Write what computes a value by control; its register."""
        if isinstance(node, relax.If | adt.Match):
            made = self.register()
            self.choice(node, made)
            return made
        if not isinstance(node, relax.Call):
            return self.light(node)
        args = tuple([self.reg(a) for a in node.args if a is not None])
        if is_host_call(node):
            return self.host(node, args)
        if isinstance(node.op, adt.Constructor):
            tag = adt.constructor_tag(self.module.mod, node.op)
            return self.emit("AllocADT", tag, node.op.name, args)
        if isinstance(node.op, relax.GlobalVar):
            return self.emit("Invoke", self.module.globals[node.op.name], args)
        if node.op is self.self_var:
            return self.emit("Invoke", self.index, Captured(args))
        called = self.scope.own.get(node.op) if isinstance(node.op, relax.Var) else node.op
        if isinstance(called, relax.Function) and self.find(called) is None:
            index, held = self.inner_function(called)
            return self.emit("Invoke", index, (*held, *args))
        return self.emit("InvokeClosure", self.reg(node.op), args)  # type: ignore[arg-type]

    def inner_function(self, f: relax.Function) -> tuple[int, tuple[int, ...]]:
        """The number of a function within this one, and the registers of what it captures."""
        if f not in self.inside:
            inner = _Emitter(self.module, f"{self.name}.closure", f, self.module.reserve(), self)
            inner.name = f"{self.name}.{f.attrs.get('name') or f'closure{inner.index}'}"
            inner.write()
            self.inside[f] = inner.index, [*inner.captured]
        index, captured = self.inside[f]
        return index, tuple([self.reg(n) for n in captured])  # type: ignore[arg-type]

    def host(self, node: relax.Call, args: tuple[int, ...]) -> int:
        """Write the call of an operator that the machine runs in numpy."""
        count = len(node.type.items) if isinstance(node.type, TupleType) else 1
        made = tuple([self.register() for _ in range(count)])
        self.code.append(("InvokeHost", made, str(node.op.name), dict(node.attrs), args))  # type: ignore[union-attr]
        if not isinstance(node.type, TupleType):
            return made[0]
        return self.tuple_of(made)

    def choice(self, node: relax.If | adt.Match, result: int | None) -> None:
        """Write a branch or a match."""
        end = _Label()
        if isinstance(node, relax.If):
            other = _Label()
            self.code.append(("If", self.reg(node.condition), 1, other))
            self.inner(node.then_branch.body, result, {})
            if result is not None:
                self.code.append(("Goto", end))
            other.at = len(self.code)
            self.inner(node.else_branch.body, result, {})
        else:
            data = self.reg(node.data)
            for clause in node.clauses:
                rest = node.complete and clause is node.clauses[-1]  # whatever comes here fits
                if self.clause(clause, data, result, end, rest):
                    break
            else:
                text = f"no clause of {short_text(node)} in {self.name} fits the value"
                self.code.append(("Fatal", text))
        end.at = len(self.code)

    def clause(
        self, clause: adt.Clause, data: int, result: int | None, end: _Label, rest: bool
    ) -> bool:
        """Write a clause; whether every value fits it. rest: it is known that all do."""
        other = None if rest else _Label()
        bound: dict[Node, int] = {}
        sure = self.test(clause.lhs, data, bound, other)
        self.inner(clause.rhs, result, bound)
        if result is not None and not sure:
            self.code.append(("Goto", end))
        if other is not None:
            other.at = len(self.code)
        return sure

    def test(self, p: adt.Pattern, at: int, bound: dict[Node, int], other: _Label | None) -> bool:
        """Write what goes to `other` unless a value fits a pattern; whether every value does.

        other  None: it is known that all do
        """
        match p:
            case adt.PatternVar(var):
                bound[var] = at
            case adt.PatternTuple(patterns) | adt.PatternConstructor(_, patterns):
                sure = True
                if isinstance(p, adt.PatternConstructor):
                    sure = self.test_tag(p.constructor, at, other)
                for n, inner in enumerate(patterns):
                    if not isinstance(inner, adt.PatternWildcard):
                        sure &= self.test(inner, self.emit("GetField", at, n), bound, other)
                return sure
        return True

    def test_tag(self, c: adt.Constructor, at: int, other: _Label | None) -> bool:
        if other is None or len(self.module.mod.type_data(c.belong_to).constructors) == 1:
            return True
        tag = adt.constructor_tag(self.module.mod, c)
        self.code.append(("If", self.emit("GetTag", at), tag, other))
        return False


def _without_unused(code: list[Instruction]) -> list[Instruction]:
    """Instructions without tuples and items that nobody reads; jumps go to the same places."""
    read: set[int] = set()
    kept: list[bool] = []
    for i in reversed(code):
        needed = i[0] not in ("AllocTuple", "GetField", "LoadConst") or i[1] in read
        kept.append(needed)
        if needed:
            read.update(registers_of(i)[0])
    kept.reverse()
    places = [0, *accumulate(kept)]
    for label in {id(x): x for i in code for x in i if isinstance(x, _Label)}.values():
        assert label.at is not None
        label.at = places[label.at]
    return [i for i, needed in zip(code, kept, strict=True) if needed]


class _Level:
    """What is computed together: control first, then operators; `wanted` are needed outside."""

    def __init__(self) -> None:
        self.control: list[relax.RelaxExpr] = []
        self.operators: list[relax.RelaxExpr] = []
        self.wanted: list[relax.RelaxExpr] = []


def _levels(inside: Sequence[relax.RelaxExpr], scope: FunctionTable) -> list[_Level]:
    """The values of a region in turns of control and operators, all as early as they can."""
    own: dict[Node, None] = dict.fromkeys(inside)
    control_from: dict[Node, int] = {}
    operator_from: dict[Node, int] = {}
    level_of: dict[Node, int] = {}
    for node in inside:
        needed = scope.needed(node)
        if _is_inside(node, own, scope):
            level_of[node] = max([operator_from.get(n, 0) for n in needed], default=0)
            control_from[node], operator_from[node] = level_of[node] + 1, level_of[node]
            continue
        control_from[node] = max([control_from.get(n, 0) for n in needed], default=0)
        if _is_control(node):
            level_of[node] = operator_from[node] = control_from[node]
        else:
            operator_from[node] = max([operator_from.get(n, 0) for n in needed], default=0)
    levels = [_Level() for _ in range(1 + max(control_from.values(), default=0))]
    for node in inside:
        if node not in level_of:
            continue
        n = level_of[node]
        (levels[n].operators if _is_inside(node, own, scope) else levels[n].control).append(node)
    for value in _wanted(inside, level_of, scope):
        levels[level_of[value]].wanted.append(value)
    return levels


def _wanted(
    inside: Sequence[relax.RelaxExpr], level_of: Mapping[Node, int], scope: FunctionTable
) -> dict[relax.RelaxExpr, None]:
    """The operators whose results are used outside of their segments."""
    own: dict[Node, None] = dict.fromkeys(inside)
    found: dict[relax.RelaxExpr, None] = {}

    def want(node: relax.RelaxExpr, level: int | None) -> None:
        stack = [node]
        while stack:
            n = stack.pop()
            if n not in own:
                continue
            if _is_inside(n, own, scope):
                if level is None or level_of[n] != level:
                    found[n] = None
            elif not _is_control(n):
                stack += scope.operands(n)

    for node in inside:
        operator = _is_inside(node, own, scope)
        if operator or _is_control(node):
            level = level_of[node] if operator else None
            for n in scope.needed(node):
                want(n, level)
    for node in inside[-1:]:  # the region's value
        want(node, None)
    return found


def _is_inside(node: Node, own: Mapping[Node, object], scope: FunctionTable) -> bool:
    """Whether a value is an operator's, or an item of one that the same region computes."""
    if isinstance(node, relax.TupleGetItem) and node.value not in own:
        return False
    return is_operator(node, scope)


def _is_control(node: Node) -> bool:
    """Whether a value needs an instruction at its place; others are made where they are used."""
    return isinstance(node, relax.If | adt.Match | relax.Function | relax.Call)


def _single(node: relax.RelaxExpr) -> list[relax.RelaxExpr]:
    """The tensors of an operator's result."""
    if isinstance(node.type, TupleType):
        return [relax.TupleGetItem(node, n) for n in range(len(node.type.items))]
    return [node]


def _inputs(
    node: relax.RelaxExpr, own: set[relax.RelaxExpr], scope: FunctionTable
) -> list[relax.RelaxExpr]:
    """The values from outside of a segment that one of its operators takes."""
    found: list[relax.RelaxExpr] = []
    stack = scope.operands(node)
    while stack:
        n = stack.pop()
        if n in own or isinstance(n, relax.Constant):
            continue
        if isinstance(n, relax.Tuple):
            stack += n.items
        else:
            found.append(n)
    return found
