"""Segments of a virtual machine program: tensor computations between two decisions.

A segment becomes a graph function of its own, which is compiled like a model: fused kernels,
planned memory, one native call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.ir.errors import Unsupported
from smelt.ir.expr import INDEX, Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, ordered, postorder
from smelt.ir.text import fresh_name
from smelt.ir.types import TensorType, TupleType, Type, on_parts
from smelt.ir.walk import free_vars, substitute
from smelt.relax import nodes as relax
from smelt.relax.equal import structural_equal
from smelt.relax.graph import operands
from smelt.relax.graph_op import needs_values
from smelt.relax.host_ops import sizes_of
from smelt.relax.shapes import extents_of, sizes_in

Build = Callable[[IRModule], object]
"""Takes a module whose main is a graph function, to compile it as the next segment."""


class Segments:
    """The compiled segments of a program, equal ones once."""

    def __init__(self, mod: IRModule, build: Build) -> None:
        """mod: where functions that segments call are; build: compiles one."""
        self.mod, self.build = mod, build
        self.functions: list[relax.Function] = []
        self._by_form: dict[str, list[int]] = {}

    def add(self, f: relax.Function) -> int:
        """The number of a segment."""
        form = _form(f)
        for n in self._by_form.setdefault(form, []):
            if structural_equal(f, self.functions[n]):
                return n
        self._by_form[form].append(len(self.functions))
        self.functions.append(f)
        called = {
            n.op.name: self.mod[n.op.name]
            for n in _calls(f)
            if isinstance(n.op, relax.GlobalVar)
        }  # fmt: skip
        name = f"segment{len(self.functions) - 1}"
        self.build(IRModule({**called, "main": f}, {"name": name}))
        return len(self.functions) - 1


def _calls(f: relax.Function) -> list[relax.Call]:
    return [n for n in postorder(f.body) if isinstance(n, relax.Call)]


def _form(f: relax.Function) -> str:
    """Equal for equal functions, and seldom for others."""
    small = [n.data for n in postorder(f.body) if isinstance(n, relax.Constant) and n.data.size < 9]
    numbers = sorted([c.tobytes() for c in small])
    ops = sorted([c.op.name for c in _calls(f) if not isinstance(c.op, relax.RelaxExpr)])
    shapes = [[getattr(e, "value", "?") for e in p.type.shape] for p in f.params]  # type: ignore[attr-defined]
    return f"{numbers} {ops} {shapes} {[p.type.dtype for p in f.params]}"  # type: ignore[attr-defined]


def segment_function(
    inputs: Mapping[relax.RelaxExpr, Type],
    results: Sequence[relax.RelaxExpr],
    sources: Callable[[set[SizeVar]], Sequence[tuple[relax.RelaxExpr, Type]]],
) -> tuple[relax.Function, list[relax.RelaxExpr]]:
    """A graph function that computes values from others, and what its first parameters stand for.

    inputs   the values that it starts from: tensors, and tuples of them, whose items become
             parameters one by one
    sources  gives further values whose types tell sizes
    """
    given = dict(inputs)
    used = _sizes_used(inputs, results)
    missing = used - _told(given.values())
    for value, t in sources(missing) if missing else ():
        given.setdefault(value, t)
    renamed = _Renamed(_told(given.values()))
    params: list[relax.Var] = []
    made: dict[Node, relax.RelaxExpr] = {}

    def opened(t: Type) -> relax.RelaxExpr:
        if isinstance(t, TupleType):
            return relax.Tuple(tuple([opened(i) for i in t.items]))
        params.append(relax.Var(f"p{len(params)}", renamed.type(t)))
        return params[-1]

    for value, t in given.items():
        made[value] = opened(t)
    items = [_rebuilt(r, made, renamed) for r in results]
    body = items[0] if len(items) == 1 else relax.Tuple(tuple(items))
    return relax.Function(tuple(params), body, {}), list(given)


class _Renamed:
    """The sizes of a segment: no two under one name, since the host program knows them by name.

    Extents that no input tells become sizes too.
    """

    def __init__(self, told: set[SizeVar]) -> None:
        self.told = told
        self.names: set[str] = set()
        self.sizes: dict[Expr, SizeVar] = {}

    def size(self, e: Expr) -> SizeVar:
        """The segment's size for a size or an extent."""
        if e not in self.sizes:
            name = fresh_name(e.name if isinstance(e, SizeVar) else "n", self.names)
            self.sizes[e] = SizeVar(name, INDEX)
        return self.sizes[e]

    def inside(self, e: Expr) -> Expr:
        """An expression of sizes that the inputs tell, in the segment's."""
        sizes = sorted([v for v in free_vars(e) if isinstance(v, SizeVar)], key=lambda v: v.name)
        return substitute(e, {v: self.size(v) for v in sizes})

    def extent(self, e: Expr) -> Expr:
        if isinstance(e, IntImm):
            return e
        if not isinstance(e, SizeVar) and free_vars(e) <= self.told:
            return self.inside(e)
        return self.size(e)

    def type(self, t: Type) -> TensorType:
        """A tensor's type with its extents told by itself or others."""
        assert isinstance(t, TensorType)
        return TensorType(tuple([self.extent(e) for e in t.shape]), t.dtype)

    def result(self, t: Type) -> Type:
        """A result's type in the segment's sizes."""
        if isinstance(t, TensorType):
            return TensorType(tuple([self.attr(e) for e in t.shape]), t.dtype)
        return on_parts(t, self.result)

    def attr(self, value: Any) -> Any:
        """An attribute in the segment's sizes."""
        if isinstance(value, Expr):
            left = free_vars(value) - self.told - set(self.sizes)
            if left and value not in self.sizes:
                name = sorted([v.name for v in left if isinstance(v, SizeVar)])[0]
                raise Unsupported(
                    f"the size {name} is needed where no tensor tells it; pass a tensor that has "
                    "this extent to the function"
                )
            return self.sizes[value] if value in self.sizes else self.inside(value)
        if isinstance(value, tuple):
            return tuple([self.attr(v) for v in value])
        return value


def _told(types: Any) -> set[SizeVar]:
    """The sizes that stand as extents in types."""
    return {e for t in types for e in extents_of(t) if isinstance(e, SizeVar)}


def _sizes_used(
    inputs: Mapping[relax.RelaxExpr, Type], results: Sequence[relax.RelaxExpr]
) -> set[SizeVar]:
    """The sizes of the inputs' types, and of the attributes of the operators in between."""
    found = {v for t in inputs.values() for v in sizes_in(t)}
    for node in ordered(results, lambda n: () if n in inputs else operands(n)):
        if isinstance(node, relax.Call) and node not in inputs:
            found.update(sizes_of(tuple(node.attrs.values())))
    return found


def _rebuilt(
    root: relax.RelaxExpr, made: dict[Node, relax.RelaxExpr], renamed: _Renamed
) -> relax.RelaxExpr:
    """A value computed from the parameters."""
    for node in ordered([root], lambda n: () if n in made else operands(n)):
        if node not in made:
            made[node] = _copied(node, made, renamed)
    return made[root]


def _copied(
    node: relax.RelaxExpr, made: Mapping[Node, relax.RelaxExpr], renamed: _Renamed
) -> relax.RelaxExpr:
    new = node.with_children(lambda c: made.get(c, c))
    if isinstance(new, relax.TupleGetItem) and isinstance(new.value, relax.Tuple):
        return new.value.items[new.index]
    if not isinstance(new, relax.Call):
        return new
    if isinstance(new.op, relax.RelaxExpr):  # a function of the module that is a kernel by itself
        return new.replace(type=renamed.result(new.type))
    if needs_values(new):  # by constants: the operator is then one of known sizes
        return new.op.expand(new)  # type: ignore[no-any-return, attr-defined]
    attrs = {k: renamed.attr(v) for k, v in new.attrs.items()}
    return relax.call(new.op, *new.args, name=new.name, **attrs)
