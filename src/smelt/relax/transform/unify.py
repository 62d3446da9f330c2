"""Types with unknown parts: what inference finds out about them, by making types agree.

Extents may disagree where one is a symbolic size: together they are a size that only the run
tells. Two numbers that differ are an error.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

from smelt.arith import Analyzer
from smelt.ir import types
from smelt.ir.errors import TypeMismatch
from smelt.ir.expr import INDEX, Expr, IntImm
from smelt.ir.expr import Var as SizeVar
from smelt.ir.walk import free_vars, substitute
from smelt.relax.shapes import bind_sizes, show_type


class Unknown(types.Type, interned=False):
    """A type to be found. Has identity."""


class Unifier:
    """What is known of the unknown types so far.

    Unknowns and sizes belong to keys, so that inference may go over a program again: it then meets
    those of the last time, and `changed` says whether it has learned anything.
    """

    def __init__(self) -> None:
        """Nothing is known."""
        self.found: dict[Unknown, types.Type] = {}
        self.changed = False
        self._unknowns: dict[Hashable, Unknown] = {}
        self._sizes: dict[Hashable, SizeVar] = {}
        self._run_time: set[Expr] = set()
        self._analyzer = Analyzer()

    def unknown(self, *key: Hashable) -> Unknown:
        """The unknown type of a key."""
        if key not in self._unknowns:
            self._unknowns[key] = Unknown()
        return self._unknowns[key]

    def size(self, *key: Hashable) -> SizeVar:
        """The size of a key, which only the run tells."""
        if key not in self._sizes:
            made = self._sizes[key] = SizeVar("any", INDEX)
            self._run_time.add(made)
        return self._sizes[key]

    def opened(self, t: types.Type, *key: Hashable) -> types.Type:
        """A type as written, with unknowns where it is incomplete."""
        match t:
            case types.IncompleteType():
                return self.unknown("part", *key)
            case types.TupleType() | types.FuncType() | types.TypeCall():
                count = iter(range(1 << 30))
                return types.on_parts(t, lambda part: self.opened(part, *key, next(count)))
        return t

    def head(self, t: types.Type) -> types.Type:
        """What an unknown stands for, as far as it is known; its parts may be unknown."""
        return self._last(t)[0]

    def tensor(self, t: types.Type) -> types.Type:
        """A tensor's type as it is now, which agreeing leaves alone; other types as they are."""
        known = self.head(t)
        return known if isinstance(known, types.TensorType) else t

    def whole(self, t: types.Type) -> types.Type:
        """A type with all that is known filled in."""
        t = self.head(t)
        return t if isinstance(t, types.TensorType) else types.on_parts(t, self.whole)

    # ---------------------------------------------------------------------------------- agreeing

    def agree(self, a: types.Type, b: types.Type, *key: Hashable) -> types.Type:
        """Make two types one; the type that both are. Raises TypeMismatch where they cannot be."""
        a, a_name = self._last(a)
        b, b_name = self._last(b)
        if a is b:
            return a
        if isinstance(a, Unknown):
            return self._learn(a, b)
        if isinstance(b, Unknown):
            return self._learn(b, a)
        made = self._joined(a, b, key)
        for name, had in ((a_name, a), (b_name, b)):
            if name is not None and self.whole(made) is not self.whole(had):
                self.found[name] = made
                self.changed = True
        return made

    def _last(self, t: types.Type) -> tuple[types.Type, Unknown | None]:
        """What a type stands for, and the last unknown on the way there."""
        name = None
        while isinstance(t, Unknown) and t in self.found:
            name, t = t, self.found[t]
        return t, name

    def _learn(self, name: Unknown, t: types.Type) -> types.Type:
        if name in unknowns(self.whole(t)):
            raise TypeMismatch(f"the type would contain itself: {show(self.whole(t))}")
        self.found[name] = t
        self.changed = True
        return t

    def _joined(self, a: types.Type, b: types.Type, key: tuple[Hashable, ...]) -> types.Type:
        match a, b:
            case types.TensorType(), types.TensorType() if a.dtype == b.dtype and a.rank == b.rank:
                pairs = enumerate(zip(a.shape, b.shape, strict=True))
                shape = tuple([self._extent(x, y, (*key, d), a, b) for d, (x, y) in pairs])
                return types.TensorType(shape, a.dtype)
            case types.TupleType(), types.TupleType() if len(a.items) == len(b.items):
                return types.TupleType(self._each(a.items, b.items, key))
            case types.TypeCall(f, x), types.TypeCall(g, y) if f is g and len(x) == len(y):
                return types.TypeCall(f, self._each(x, y, key))
            case types.GlobalTypeVar(), types.TypeCall(func, ()) if a is func:
                return b
            case types.TypeCall(func, ()), types.GlobalTypeVar() if b is func:
                return a
            case types.FuncType(), types.FuncType() if len(a.arg_types) == len(b.arg_types):
                a, b = self._plain(a, (*key, "a")), self._plain(b, (*key, "b"))
                args = self._each(a.arg_types, b.arg_types, key)
                return types.FuncType(args, self.agree(a.ret_type, b.ret_type, *key, "ret"))
        raise self._different(a, b)

    def _plain(self, f: types.FuncType, key: tuple[Hashable, ...]) -> types.FuncType:
        """A function for some types in the place of its variables."""
        found = self.instance(f, f.type_params, *key)
        assert isinstance(found, types.FuncType)
        return found

    def _each(
        self, a: tuple[types.Type, ...], b: tuple[types.Type, ...], key: tuple[Hashable, ...]
    ) -> tuple[types.Type, ...]:
        """Types one by one. Unknowns stay, so that what is learned later reaches them."""
        out = []
        for n, (x, y) in enumerate(zip(a, b, strict=True)):
            made = self.agree(x, y, *key, n)
            out.append(x if isinstance(x, Unknown) else y if isinstance(y, Unknown) else made)
        return tuple(out)

    def _extent(
        self, a: Expr, b: Expr, key: tuple[Hashable, ...], left: types.Type, right: types.Type
    ) -> Expr:
        if a is b:
            return a
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            raise self._different(left, right)
        for known in (a, b):
            if known in self._run_time:
                return known
        return a if self._analyzer.can_prove_equal(a, b) else self.size("join", *key)

    def _different(self, a: types.Type, b: types.Type) -> TypeMismatch:
        return TypeMismatch(f"{show(self.whole(a))} and {show(self.whole(b))} differ")

    # --------------------------------------------------------------------------------- instances

    def instance(self, t: types.Type, variables: Any, *key: Hashable) -> types.Type:
        """A type with unknowns of a key in the place of type variables, or of other unknowns."""
        if not variables:
            return t
        made = {v: self.unknown("instance", *key, n) for n, v in enumerate(variables)}
        found = replaced(self.whole(t), made)
        return found.replace(type_params=()) if isinstance(found, types.FuncType) else found

    def bound_sizes(self, params: types.Type, given: types.Type, sizes: dict[Any, Expr]) -> None:
        """Enter what the sizes of a parameter's type are for an operand of a type."""
        p, g = self.head(params), self.head(given)
        match p, g:
            case types.TensorType(), types.TensorType() if p.rank == g.rank:
                bind_sizes(p, g, sizes)
            case (types.TupleType(), types.TupleType()) | (types.TypeCall(), types.TypeCall()):
                for a, b in zip(p.children(), g.children(), strict=False):
                    if isinstance(a, types.Type) and isinstance(b, types.Type):
                        self.bound_sizes(a, b, sizes)

    def sized(
        self, t: types.Type, sizes: Mapping[Any, Expr], fresh: bool, *key: Hashable
    ) -> types.Type:
        """A type with extents in the place of sizes. fresh: other sizes become the run's own."""
        t = self.head(t)
        if isinstance(t, types.TensorType):
            used = {v for e in t.shape for v in free_vars(e)}
            full = dict(sizes)
            if fresh:
                full |= {v: self.size("result", v, *key) for v in used if v not in sizes}
            return types.TensorType(tuple([substitute(e, full) for e in t.shape]), t.dtype)
        if isinstance(t, types.TupleType | types.TypeCall):
            return types.on_parts(t, lambda part: self.sized(part, sizes, fresh, *key))
        return t


def replaced(t: types.Type, made: Mapping[Any, types.Type]) -> types.Type:
    """A type with some of its parts replaced."""
    if t in made:
        return made[t]
    return types.on_parts(t, lambda part: replaced(part, made))


def unknowns(t: types.Type) -> Iterator[Unknown]:
    """The unknown parts of a type whose known parts are filled in."""
    stack: list[types.Type] = [t]
    while stack:
        part = stack.pop()
        if isinstance(part, Unknown):
            yield part
        else:
            stack += types.parts_of(part)


def show(t: types.Type) -> str:
    """A type as people write it: float32[n, 3], List[int32[]], ? where it is not known."""
    return show_type(t, "?")
