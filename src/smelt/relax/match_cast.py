"""match_cast resolved: the sizes that it introduces are what its operand's type shows.

    m = R.match_cast(x, R.Tensor((k, 4), "float32"))      x: R.Tensor((n * 2, c), "float32")

k becomes n * 2. That c is 4 cannot be known before the program runs: c is the size of a parameter,
so 4 takes its place, and the check of the parameter's shape, at entry, tells who gives another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.ir.errors import CompileError
from smelt.ir.expr import INDEX, Expr, convert
from smelt.ir.expr import Var as SizeVar
from smelt.ir.module import IRModule
from smelt.ir.node import Node, map_nodes, postorder
from smelt.ir.types import TensorType, TupleType, Type
from smelt.ir.walk import fixed_point, free_vars, substitute
from smelt.topi.registry import Op

from .graph import made_of, rebuilding
from .nodes import Call, Function, GlobalVar, If, MatchCast, Var, call, call_function, incomplete
from .shapes import apart, show_type, sizes_in, with_sizes

_LEGAL = "sizes of parameters of functions that no other one calls are checked at entry"


def resolve_match_cast(mod: IRModule) -> IRModule:
    """A module without MatchCast; the same one where there is none.

    Raises a CompileError where a claim cannot hold, or cannot be checked at entry.
    """
    functions = {n: f for n, f in mod.functions.items() if isinstance(f, Function)}
    found = {name: list(postorder(f)) for name, f in functions.items()}
    called = {n.name for inside in found.values() for n in inside if isinstance(n, GlobalVar)}
    casting = [name for name in functions if any(isinstance(n, MatchCast) for n in found[name])]
    made = {n: _Resolver(n, functions[n], n in called).resolved() for n in casting}
    return mod.with_functions(made) if made else mod


class _Resolver:
    """The casts of one function.

    sizes  what stands in the place of sizes
    known  sizes that the parameters' types show
    """

    def __init__(self, name: str, f: Function, called: bool) -> None:
        self.name, self.f, self.called = name, f, called
        self.sizes: dict[SizeVar, Expr] = {}
        self.known = {v for p in f.params for v in sizes_in(p.type)}
        self.introduced: set[SizeVar] = set()

    def resolved(self) -> Function:
        """The function without casts."""
        self.introduced = self.of_closures()
        for node in postorder(self.f):
            if isinstance(node, MatchCast):
                self.cast(node.type, node.value.type)
        sizes = {v: self.final(e) for v, e in self.sizes.items()}
        return specialized(self.f, sizes, casts=True)

    def of_closures(self) -> set[SizeVar]:
        """The sizes that closures' parameters introduce, and no cast of something else does."""
        nodes = list(postorder(self.f))
        casts = {n for n in nodes if isinstance(n, MatchCast)}
        found: set[SizeVar] = set()
        for f in nodes:
            if isinstance(f, Function) and f is not self.f and f.params:
                other = {v for c in casts - made_of(f.body, f.params) for v in sizes_in(c.type)}
                found |= {v for p in f.params for v in sizes_in(p.type)} - other
        return found

    def final(self, e: Expr) -> Expr:
        """An expression with all sizes in place."""
        most = len(self.sizes) + 1
        return fixed_point(lambda x: convert(substitute(x, self.sizes), INDEX), e, most)

    def fail(self, want: Type, have: Type, why: str) -> None:
        """Raise a CompileError about a claim."""
        raise CompileError(
            f"{self.name}: match_cast of a value of type {show_type(have)} to {show_type(want)}: "
            f"{why}"
        )

    def cast(self, want: Type, have: Type) -> None:
        """What one claim says of the sizes."""
        if incomplete(have) or incomplete(want):
            if not incomplete(want):
                self.fail(want, have, "nothing is known of the value; give it a type")
            return
        match want, have:
            case TupleType(items), TupleType(others) if len(items) == len(others):
                for t, u in zip(items, others, strict=True):
                    self.cast(t, u)
            case TensorType(s, t), TensorType(other, u) if t == u and len(s) == len(other):
                for a, b in zip(s, other, strict=True):
                    self.extent(a, b, want, have)
            case _:
                self.fail(want, have, "they have different kinds, ranks or element types")

    def extent(self, a: Expr, b: Expr, want: Type, have: Type) -> None:
        """Extent `b` is claimed to be `a`."""
        left, right = self.final(a), self.final(b)
        if isinstance(left, SizeVar) and self.is_new(left) and left is not right:
            self.sizes[left] = right
            return
        known = apart(left, right)
        if known == 0:
            return
        if known is not None:
            self.fail(want, have, f"an extent is {_text(right)}, not {_text(left)}")
        for v, other in ((left, right), (right, left)):
            shown = isinstance(v, SizeVar) and v in self.known and v not in free_vars(other)
            if shown and free_vars(other) <= self.known and not self.called:
                assert isinstance(v, SizeVar)
                self.sizes[v] = other
                return
        self.fail(
            want,
            have,
            f"whether {_text(right)} is {_text(left)} is known only when the program runs\n"
            f"  legal: {_LEGAL}",
        )

    def is_new(self, v: SizeVar) -> bool:
        """Whether a cast introduces a size here."""
        return v not in self.known and v not in self.introduced and v not in self.sizes


def specialized(f: Function, sizes: Mapping[SizeVar, Expr], casts: bool = False) -> Function:
    """A function with extents in the places of sizes; types are found anew.

    casts  whether values take the places of their casts
    """
    done: dict[Node, Any] = {}
    for node, new in rebuilding(f, done):
        match new:
            case MatchCast(value) if casts:
                new = value
            case Var() | MatchCast() | If():
                t = with_sizes(new.type, sizes)
                new = new if t is new.type else new.replace(type=t)
            case Call():
                new = _renewed(new, node, sizes)
        if isinstance(new, If) and new.then_branch.body.type is new.else_branch.body.type:
            new = new.replace(type=new.then_branch.body.type)
        done[node] = new
    return done[f]  # type: ignore[no-any-return]


def _renewed(new: Call, old: Node, sizes: Mapping[SizeVar, Expr]) -> Call:
    """A call on new operands with sizes in place."""
    t = with_sizes(new.type, sizes)
    if isinstance(new.op, Op):
        attrs = map_nodes(dict(new.attrs), lambda e: substitute(e, sizes))
        made = call(new.op, *new.args, name=new.name, **attrs)
        made = made.replace(type=t) if incomplete(made.type) else made  # calls say it themselves
        return new if new.type is made.type and attrs == dict(new.attrs) else made
    if not isinstance(new.op, GlobalVar) and new is not old:
        found = call_function(new.op, [a for a in new.args if a is not None]).type
        t = t if incomplete(found) else found
    return new if t is new.type else new.replace(type=t)


def _text(e: Expr) -> str:
    return show_type(TensorType((e,), "int64"))[6:-1]
